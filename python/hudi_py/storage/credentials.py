"""Credentials of an object store by the name of what provides them: every process gets its own, and none travels.

Storage options: `credential_provider` is `boto3`, with `profile`, `role_arn` and `role_session_name` if need be, or
`module:function`: a function of that module without arguments, which returns a dict as obstore's credential providers
do (`access_key_id`, `secret_access_key`, `token` and `expires_at` for S3).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from hudi_py.errors import ConfigError

PROVIDER: Final = "credential_provider"
_BOTO3: Final = ("profile", "role_arn", "role_session_name")
EXPIRED: Final = ("ExpiredToken", "TokenRefreshRequired", "ExpiredAuthenticationToken", "credentials have expired")
"""What errors of stores say of credentials that have expired."""


def take_provider(options: dict[str, str], uri: str) -> Callable[[], Any] | None:
    """The provider that storage options name; takes them out of the options. None where they name none.

    Raises:
        ConfigError: the provider does not exist, or there are keys besides.
    """
    given: dict[str, str] = {name: options.pop(name) for name in (PROVIDER, *_BOTO3) if name in options}
    name = given.pop(PROVIDER, None)
    if name is None:
        if given:
            raise ConfigError(
                f"Cannot open {uri}: the storage option {', '.join(given)} is given without {PROVIDER}; add "
                f"{PROVIDER}=boto3"
            )
        return None
    if name == "boto3":
        return _boto3(given, options, uri)
    if given:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {', '.join(given)} needs {PROVIDER}=boto3, not {name}"
        )
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = '{name}' is not boto3 or module:function"
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = '{name}' names no function ({error}); it must be "
            "importable in every process that reads or writes the table"
        ) from None
    return _Checked(found, name)


class _Checked:
    """A function of the user's that returns credentials, none of which have expired."""

    def __init__(self, function: Callable[[], Mapping[str, Any]], name: str) -> None:
        self._function = function
        self._name = name

    def __call__(self) -> Mapping[str, Any]:
        found = self._function()
        expires = found.get("expires_at")
        if isinstance(expires, datetime):
            moment = expires if expires.tzinfo is not None else expires.replace(tzinfo=timezone.utc)
            if moment <= datetime.now(timezone.utc):
                raise ValueError(f"the credentials have expired at {moment:%Y-%m-%d %H:%M:%S %Z} ({self._name})")
            return {**found, "expires_at": moment}
        return {**found, "expires_at": None}


def _boto3(given: Mapping[str, str], options: Mapping[str, str], uri: str) -> Callable[[], Any]:
    try:
        boto3 = importlib.import_module("boto3")
        auth = importlib.import_module("obstore.auth.boto3")
    except ImportError:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = 'boto3' needs the package boto3, which is missing; "
            "install it with `pip install 'hudi-py[dynamodb]'`"
        ) from None
    errors = importlib.import_module("botocore.exceptions")
    region = next((options[key] for key in ("region", "aws_region") if key in options), None)
    try:
        session = boto3.Session(profile_name=given.get("profile"), region_name=region)
        role = {"RoleArn": given.get("role_arn"), "RoleSessionName": given.get("role_session_name", "hudi-py")}
        provider: Callable[[], Any] = (
            auth.StsCredentialProvider(session, **role) if role["RoleArn"] else auth.Boto3CredentialProvider(session)
        )
    except (errors.BotoCoreError, ValueError) as error:
        raise ConfigError(f"Cannot open {uri}: no credentials from boto3: {error}") from None
    return provider
