"""Names of storage options: obstore's, and what deltalake, pyiceberg and s3fs call the same settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hudi_py.errors import ConfigError

CLIENT: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options of obstore's HTTP client. It takes them separately, and panics if they are among the store's."""
_KIND: Final = re.compile("^(aws|azure|google)_")
_S3: Final = {
    # pyiceberg
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.proxy-uri": "proxy_url",
    "s3.connect-timeout": "connect_timeout",
    "s3.request-timeout": "timeout",
    "s3.force-virtual-addressing": "virtual_hosted_style_request",
    "s3.anonymous": "skip_signature",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "client.region": "region",
    # s3fs
    "key": "access_key_id",
    "secret": "secret_access_key",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "anon": "skip_signature",
    "requester_pays": "request_payer",
    # Python's and deltalake's
    "aws_endpoint_url": "endpoint",
    "aws_endpoint_url_s3": "endpoint",
}
_AZURE: Final = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_token",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
}
_NAMES: Final = {**dict.fromkeys(("s3", "s3a"), _S3), **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), _AZURE)}
_SECONDS: Final = ("connect_timeout", "read_timeout", "timeout")


def known_names(options: Mapping[str, Any], scheme: str) -> dict[str, str]:
    """Translates storage options to obstore's names and values. Unknown names stay as they are, in lower case.

    Args:
        options: names in upper or lower case. As in s3fs, `client_kwargs` may have further ones, and `use_ssl` says
            whether connections without TLS are refused.

    Raises:
        ConfigError: two names of one setting have different values; the message has no values.
    """
    names = _NAMES.get(scheme, {})
    given = dict(options)
    nested = given.pop("client_kwargs", None)
    if isinstance(nested, Mapping):
        given = {**nested, **given}
    result: dict[str, str] = {}
    by: dict[str, str] = {}
    for key, value in given.items():
        if key.startswith("hoodie."):
            result[key] = value
            continue
        name, text = key.lower(), str(value).lower() if isinstance(value, bool) else str(value)
        if name == "use_ssl":
            name, text = "allow_http", "false" if text == "true" else "true"
        name = names.get(name, name)
        if name in _SECONDS and text.replace(".", "", 1).isdecimal():
            text += " seconds"
        setting = _KIND.sub("", name)
        if setting in by and result[by[setting]] != text:
            raise ConfigError(
                f"Cannot use the storage options: {key} has another value than another name of the same setting, "
                f"{by[setting]}; give one of them"
            )
        if setting in by:
            continue
        by[setting], result[name] = name, text
    return result


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Splits options into those of the store and those of its connections."""
    bare = {key: _KIND.sub("", key) for key in options}
    client = {bare[key]: value for key, value in options.items() if bare[key] in CLIENT}
    return {key: value for key, value in options.items() if bare[key] not in CLIENT}, client
