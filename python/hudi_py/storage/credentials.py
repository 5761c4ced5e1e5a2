"""Credentials of an object store by the name of what provides them: every process gets its own, and none travels.

Storage options: `credential_provider` is one of

- `boto3`, with `profile`, `role_arn`, `role_session_name` and `external_id` if need be;
- `google`: application default credentials, by google-auth;
- `azure`: those that azure-identity finds (`DefaultAzureCredential`);
- `databricks`, with `service_credential`: a service credential of Unity Catalog;
- `module:function`: a function of that module without arguments, which returns a dict as obstore's credential providers
  do (`access_key_id`, `secret_access_key`, `token` and `expires_at` for S3; `token` and `expires_at` for others).
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, Final

from hudi_py.errors import ConfigError, StorageDeniedError, first_line

PROVIDER: Final = "credential_provider"
EXPIRED: Final = ("ExpiredToken", "TokenRefreshRequired", "ExpiredAuthenticationToken", "credentials have expired")
"""What errors of stores say of credentials that have expired."""
_OPTIONS: Final = {
    "boto3": ("profile", "role_arn", "role_session_name", "external_id"),
    "google": (),
    "azure": (),
    "databricks": ("service_credential",),
}
_PREFIXES: Final = {"boto3": ("s3", "s3a"), "google": ("gs",), "azure": ("az", "azure", "adl", "abfs", "abfss")}
_KEYS: Final = {
    "aws_access_key_id": ("aws_access_key_id", "access_key_id"),
    "aws_secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "aws_session_token": ("aws_session_token", "session_token", "aws_token", "token"),
}
"""boto3's names of keys, and those of the storage options."""
_S3_OPTIONS: Final = frozenset(
    {"access_key_id", "skip_signature", "metadata_endpoint", "container_credentials_relative_uri", PROVIDER}
)
_S3_VARIABLES: Final = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SKIP_SIGNATURE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_METADATA_ENDPOINT",
    }
)
"""What gives obstore credentials of S3, or says where they are."""
_METADATA_S: Final = 0.5
"""Seconds; it is next to the machine."""
_NEVER: Final = datetime(9999, 1, 1, tzinfo=timezone.utc)
_BOTO3_TTL: Final = timedelta(minutes=9)
"""boto3 renews credentials ten minutes before they expire at the latest, so what it gives is valid this long."""
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_AZURE_SCOPE: Final = "https://storage.azure.com/.default"

Provider = Callable[[], Mapping[str, Any]]


def take_provider(options: dict[str, str], uri: str) -> Provider | None:
    """The provider that storage options name; takes them out of the options. None where they name none.

    Raises:
        ConfigError: the provider does not exist, its package is missing, it does not fit the kind of store, or there
            are options of another provider.
    """
    known = {name for names in _OPTIONS.values() for name in names}
    given = {name: options.pop(name) for name in sorted(known) if name in options}
    name = options.pop(PROVIDER, None)
    foreign = [key for key in given if key not in _OPTIONS.get(name or "", ())]
    if foreign:
        needed = next(provider for provider, names in _OPTIONS.items() if foreign[0] in names)
        is_given = "is given without it" if name is None else f"does not go with {PROVIDER}={name}"
        raise ConfigError(
            f"Cannot open {uri}: the storage option {', '.join(foreign)} needs {PROVIDER}={needed} and {is_given}"
        )
    if name is None:
        return None
    scheme = uri.partition(":")[0].lower()
    if scheme not in _PREFIXES.get(name, (scheme,)):
        raise ConfigError(
            f"Cannot open {uri}: {PROVIDER}={name} has credentials for {', '.join(_PREFIXES[name])}, not for {scheme}"
        )
    if name == "boto3":
        return _boto3(given, options, uri)
    if name == "google":
        return _google(uri)
    if name == "azure":
        return _azure(uri)
    if name == "databricks":
        return _databricks(given, options, uri)
    return _function(name, uri)


def check_s3_credentials(options: Mapping[str, str], uri: str) -> None:
    """Checks that there are credentials before the first request: obstore would ask the metadata address of a cloud's
    machine for them, for seconds, and then name that address.

    Raises:
        StorageDeniedError: no option and no variable of the environment has any, and this is no machine of a cloud.
    """
    bare = {key.removeprefix("aws_") for key in options}
    if not bare.isdisjoint(_S3_OPTIONS) or not _S3_VARIABLES.isdisjoint(os.environ) or _has_metadata_address():
        return
    raise StorageDeniedError(
        f"Cannot read or write {uri}: there are no credentials; give the storage options aws_access_key_id and "
        f"aws_secret_access_key, {PROVIDER}=boto3 (which reads ~/.aws), or skip_signature=true for a public bucket; or "
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
    )


@cache
def _has_metadata_address() -> bool:
    """Whether something answers at the address at which machines of a cloud find their credentials."""
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=_METADATA_S).close()
    except OSError:
        return False
    return True


def boto3_client(service: str, options: Mapping[str, str], uri: str, **more: Any) -> Any:
    """A client of boto3 for a service of AWS beside a store, with the credentials that the store has from its storage
    options. Where they give none, or none of AWS, boto3 looks for them itself.

    Args:
        more: for the client.

    Raises:
        ConfigError: as `take_provider`.
    """
    boto3 = importlib.import_module("boto3")
    name, scheme = options.get(PROVIDER), uri.partition(":")[0].lower()
    provider = take_provider(dict(options), uri) if name is not None and scheme in _PREFIXES["boto3"] else None
    if name is None or provider is None:
        keys = {key: next((options[each] for each in names if each in options), None) for key, names in _KEYS.items()}
        # boto3's own session would keep what the environment had for its first client, and is not for several threads
        return boto3.Session().client(service, **keys, **more)
    credentials = importlib.import_module("botocore.credentials")
    session = importlib.import_module("botocore.session").Session()
    found = _Loaded(credentials.DeferredRefreshableCredentials(_Metadata(provider, name), PROVIDER))
    session.register_component("credential_provider", credentials.CredentialResolver([found]))
    return boto3.Session(botocore_session=session).client(service, **more)


class _Loaded:
    """A credential provider of botocore."""

    METHOD = CANONICAL_NAME = PROVIDER

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def load(self) -> Any:
        return self._credentials


class _Metadata:
    """What a provider of a store's credentials gives, as botocore takes it."""

    def __init__(self, provider: Provider, name: str) -> None:
        self._provider = provider
        self._name = name

    def __call__(self) -> dict[str, str | None]:
        try:
            found = self._provider()
        except Exception as error:  # whatever a user's function raises
            failed = importlib.import_module("botocore.exceptions").CredentialRetrievalError
            raise failed(provider=self._name, error_msg=first_line(error)) from None
        return {
            "access_key": found["access_key_id"],
            "secret_key": found["secret_access_key"],
            "token": found.get("token"),
            "expiry_time": (found["expires_at"] or _NEVER).isoformat(),
        }


def _function(name: str, uri: str) -> Provider:
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = '{name}' is not {', '.join(_OPTIONS)} or "
            "module:function"
        )
    try:
        return _Checked(getattr(importlib.import_module(module), function), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = '{name}' names no function ({error}); it must be "
            "importable in every process that reads or writes the table"
        ) from None


class _Checked:
    """A function that returns credentials, none of which have expired."""

    def __init__(self, function: Provider, name: str) -> None:
        self._function = function
        self._name = name
        self.config = getattr(function, "config", {})  # obstore takes the region from it

    def __call__(self) -> Mapping[str, Any]:
        found = self._function()
        expires = found.get("expires_at")
        if isinstance(expires, datetime):
            moment = _utc(expires)
            if moment <= datetime.now(timezone.utc):
                raise ValueError(f"the credentials have expired at {moment:%Y-%m-%d %H:%M:%S %Z} ({self._name})")
            return {**found, "expires_at": moment}
        return {**found, "expires_at": None}


def _boto3(given: Mapping[str, str], options: Mapping[str, str], uri: str, source: Any = None) -> Provider:
    """`source` is a session of botocore, whose credentials are taken."""
    boto3 = _needed("boto3", uri, "boto3", "boto3")
    auth = importlib.import_module("obstore.auth.boto3")
    errors = importlib.import_module("botocore.exceptions")
    region = next((options[key] for key in ("region", "aws_region") if key in options), None)
    try:
        session = boto3.Session(profile_name=given.get("profile"), region_name=region, botocore_session=source)
        if "role_arn" not in given:
            return auth.Boto3CredentialProvider(session, ttl=_BOTO3_TTL)  # type: ignore[no-any-return]
        role = {"RoleArn": given["role_arn"], "RoleSessionName": given.get("role_session_name", "hudi-py")}
        if "external_id" in given:
            role["ExternalId"] = given["external_id"]
        return _Checked(auth.StsCredentialProvider(session, **role), role["RoleArn"])
    except (errors.BotoCoreError, ValueError) as error:
        raise ConfigError(f"Cannot open {uri}: no credentials from boto3: {error}") from None


def _google(uri: str, source: Any = None) -> Provider:
    """`source` are credentials of google-auth; the application's default ones without it."""
    auth = _needed("google.auth", uri, "google", "google-auth", "requests")
    request = _needed("google.auth.transport.requests", uri, "google", "google-auth", "requests").Request()
    if source is None:
        try:
            source, _ = auth.default(scopes=[_GOOGLE_SCOPE])
        except auth.exceptions.GoogleAuthError as error:
            raise ConfigError(f"Cannot open {uri}: no credentials from google-auth: {error}") from None

    def provide() -> Mapping[str, Any]:
        source.refresh(request)
        return {"token": source.token, "expires_at": None if source.expiry is None else _utc(source.expiry)}

    return provide


def _azure(uri: str, source: Any = None) -> Provider:
    """`source` is a credential of azure-identity; the default one without it."""
    if source is None:
        source = _needed("azure.identity", uri, "azure", "azure-identity").DefaultAzureCredential()

    def provide() -> Mapping[str, Any]:
        found = source.get_token(_AZURE_SCOPE)
        return {"token": found.token, "expires_at": datetime.fromtimestamp(found.expires_on, timezone.utc)}

    return provide


def _databricks(given: Mapping[str, str], options: Mapping[str, str], uri: str) -> Provider:
    name = given.get("service_credential")
    if name is None:
        raise ConfigError(f"Cannot open {uri}: {PROVIDER}=databricks needs the storage option service_credential")
    try:
        # What workers have; on the driver it is part of dbutils
        found = importlib.import_module("databricks.service_credentials")
    except ImportError:
        try:
            found = importlib.import_module("databricks.sdk.runtime").dbutils.credentials
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"Cannot open {uri}: {PROVIDER}=databricks works on Databricks compute alone ({error})"
            ) from None
    source = found.getServiceCredentialsProvider(name)
    scheme = uri.partition(":")[0].lower()
    if scheme in _PREFIXES["boto3"]:
        return _boto3({}, options, uri, source)
    return _google(uri, source) if scheme in _PREFIXES["google"] else _azure(uri, source)


def _needed(module: str, uri: str, provider: str, *packages: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"Cannot open {uri}: the storage option {PROVIDER} = '{provider}' needs the package {packages[0]}, which "
            f"is missing; install it with `pip install {' '.join(map(repr, packages))}`"
        ) from None


def _utc(moment: datetime) -> datetime:
    """In the only time zone that obstore takes; a moment without one is in UTC."""
    return moment.astimezone(timezone.utc) if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
