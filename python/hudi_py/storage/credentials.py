"""Named credential providers of object stores. Each process resolves its own credentials; none are pickled.

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
import re
import socket
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, Final, NamedTuple

from hudi_py.errors import ConfigError, StorageDeniedError, first_line

PROVIDER: Final = "credential_provider"
EXPIRED: Final = ("ExpiredToken", "TokenRefreshRequired", "ExpiredAuthenticationToken", "credentials have expired")
"""Error texts of stores that mean expired credentials."""
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
"""Maps boto3's key names to storage options."""


class _CredentialSources(NamedTuple):
    """Where obstore finds the credentials of one kind of store."""

    prefix: str
    """A regular expression: an optional prefix of option names, required (in upper case) in environment variables."""
    names: frozenset[str]
    variables: frozenset[str]
    """Environment variables that are not options."""
    file: str
    """File in which obstore finds credentials by itself; empty if there is none."""
    advice: str


_S3: Final = _CredentialSources(
    "^aws_",
    frozenset(
        {
            *("access_key_id", "skip_signature", "web_identity_token_file", "metadata_endpoint"),
            *("container_credentials_relative_uri", "container_credentials_full_uri"),
        }
    ),
    frozenset(),
    "",
    f"give the storage options aws_access_key_id and aws_secret_access_key, {PROVIDER}=boto3 (which reads ~/.aws), or "
    "skip_signature=true for a public bucket; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
)
_GCS: Final = _CredentialSources(
    "^google_",
    frozenset(
        {
            *("service_account", "service_account_path", "service_account_key", "application_credentials"),
            *("bearer_token", "skip_signature"),
        }
    ),
    frozenset({"SERVICE_ACCOUNT", "GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"}),
    "~/.config/gcloud/application_default_credentials.json",
    "give the storage option service_account (the path of a key), "
    f"{PROVIDER}=google (application default credentials), or skip_signature=true for a public bucket; or set "
    "GOOGLE_APPLICATION_CREDENTIALS in the environment, or run gcloud auth application-default login",
)
_AZURE: Final = _CredentialSources(
    "^azure_(storage_)?",
    frozenset(
        {
            *("account_key", "access_key", "master_key", "sas_key", "sas_token", "token", "client_secret"),
            *("federated_token_file", "use_azure_cli", "skip_signature", "use_emulator"),
            *("msi_endpoint", "identity_endpoint", "fabric_token_service_url"),
        }
    ),
    frozenset({"IDENTITY_ENDPOINT"}),
    "",
    f"give the storage option account_key or sas_token, {PROVIDER}=azure (what azure-identity finds), "
    "use_azure_cli=true, or skip_signature=true for a public container; or set AZURE_STORAGE_ACCOUNT_KEY in the "
    "environment",
)
_SOURCES: Final = {
    scheme: sources
    for provider, sources in (("boto3", _S3), ("google", _GCS), ("azure", _AZURE))
    for scheme in _PREFIXES[provider]
}
_METADATA_ADDRESS: Final = "169.254.169.254"
"""Address at which machines of AWS, Google Cloud and Azure find the credentials of their roles."""
_METADATA_S: Final = 0.5
"""Timeout in seconds; the service runs next to the machine."""
_NEVER: Final = datetime(9999, 1, 1, tzinfo=timezone.utc)
_BOTO3_TTL: Final = timedelta(minutes=9)
"""boto3 renews credentials at least ten minutes before they expire, so they are valid for at least this long."""
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_AZURE_SCOPE: Final = "https://storage.azure.com/.default"

Provider = Callable[[], Mapping[str, Any]]


def take_provider(options: dict[str, str], uri: str) -> Provider | None:
    """Takes the provider that storage options name out of them; None if they name none.

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
    scheme = _scheme(uri)
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


def check_credentials(options: Mapping[str, str], uri: str) -> None:
    """Checks before the first request that there are credentials. Without them obstore would query the metadata address
    of a cloud's machine for seconds, and then name that address in its error.

    Raises:
        StorageDeniedError: no option, variable of the environment or file has any, and this is not a cloud machine.
    """
    sources = _SOURCES[_scheme(uri)]
    prefix = re.compile(sources.prefix)
    given = {prefix.sub("", key) for key, value in options.items() if _is_set(value)}
    variables = {key for key, value in os.environ.items() if _is_set(value)}
    given |= {prefix.sub("", key.lower()) for key in variables if prefix.match(key.lower())}
    if not given.isdisjoint(sources.names | {PROVIDER}) or not variables.isdisjoint(sources.variables):
        return
    if (sources.file and os.path.exists(os.path.expanduser(sources.file))) or _has_metadata_address():
        return
    raise without_credentials(uri)


def _is_set(value: str) -> bool:
    return value.lower() not in ("", "false")


def asked_metadata_address(error: BaseException) -> bool:
    """Returns whether obstore failed at the metadata address, which it queries if it finds no other credentials."""
    return _METADATA_ADDRESS in str(error) or "metadata.google.internal" in str(error)


def without_credentials(uri: str, reason: str = "") -> StorageDeniedError:
    """Returns the error of a store without credentials. `reason` adds details."""
    return StorageDeniedError(
        f"Cannot read or write {uri}: there are no credentials{reason}; {_SOURCES[_scheme(uri)].advice}"
    )


@cache
def _has_metadata_address() -> bool:
    """Returns whether something answers at the metadata address of a cloud's machine."""
    try:
        socket.create_connection((_METADATA_ADDRESS, 80), timeout=_METADATA_S).close()
    except OSError:
        return False
    return True


def boto3_client(service: str, options: Mapping[str, str], uri: str, **more: Any) -> Any:
    """Creates a boto3 client for a service of AWS with the store's credentials. If the storage options have none for
    AWS, boto3 looks for them itself.

    Args:
        more: further arguments for the client.

    Raises:
        ConfigError: as `take_provider`.
    """
    boto3 = importlib.import_module("boto3")
    name, scheme = options.get(PROVIDER), _scheme(uri)
    provider = take_provider(dict(options), uri) if name is not None and scheme in _PREFIXES["boto3"] else None
    if name is None or provider is None:
        keys = {key: next((options[name] for name in names if name in options), None) for key, names in _KEYS.items()}
        # boto3's default session would keep the environment of its first client, and is not thread-safe
        return boto3.Session().client(service, **keys, **more)
    credentials = importlib.import_module("botocore.credentials")
    session = importlib.import_module("botocore.session").Session()
    loaded = _Loaded(credentials.DeferredRefreshableCredentials(_Metadata(provider, name), PROVIDER))
    session.register_component("credential_provider", credentials.CredentialResolver([loaded]))
    return boto3.Session(botocore_session=session).client(service, **more)


class _Loaded:
    """A credential provider of botocore."""

    METHOD = CANONICAL_NAME = PROVIDER

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def load(self) -> Any:
        return self._credentials


class _Metadata:
    """Converts the result of a credential provider to botocore's metadata."""

    def __init__(self, provider: Provider, name: str) -> None:
        self._provider = provider
        self._name = name

    def __call__(self) -> dict[str, str | None]:
        try:
            provided = self._provider()
        except Exception as error:  # a user's function may raise anything
            failed = importlib.import_module("botocore.exceptions").CredentialRetrievalError
            raise failed(provider=self._name, error_msg=first_line(error)) from None
        return {
            "access_key": provided["access_key_id"],
            "secret_key": provided["secret_access_key"],
            "token": provided.get("token"),
            "expiry_time": (provided["expires_at"] or _NEVER).isoformat(),
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
            f"Cannot open {uri}: the storage option {PROVIDER} = '{name}' does not name a function ({error}); it must "
            "be importable in every process that reads or writes the table"
        ) from None


class _Checked:
    """A function that returns credentials and checks that they have not expired."""

    def __init__(self, function: Provider, name: str) -> None:
        self._function = function
        self._name = name
        self.config = getattr(function, "config", {})  # obstore takes the region from it

    def __call__(self) -> Mapping[str, Any]:
        provided = self._function()
        expires = provided.get("expires_at")
        if isinstance(expires, datetime):
            moment = _utc(expires)
            if moment <= datetime.now(timezone.utc):
                raise ValueError(f"the credentials have expired at {moment:%Y-%m-%d %H:%M:%S %Z} ({self._name})")
            return {**provided, "expires_at": moment}
        return {**provided, "expires_at": None}


def _boto3(given: Mapping[str, str], options: Mapping[str, str], uri: str, source: Any = None) -> Provider:
    """Builds the provider `boto3`. `source` is a botocore session to take credentials from."""
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
    """Builds the provider `google`. `source` are credentials of google-auth; default: the application's."""
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
    """Builds the provider `azure`. `source` is a credential of azure-identity; default: `DefaultAzureCredential`."""
    if source is None:
        source = _needed("azure.identity", uri, "azure", "azure-identity").DefaultAzureCredential()

    def provide() -> Mapping[str, Any]:
        token = source.get_token(_AZURE_SCOPE)
        return {"token": token.token, "expires_at": datetime.fromtimestamp(token.expires_on, timezone.utc)}

    return provide


def _databricks(given: Mapping[str, str], options: Mapping[str, str], uri: str) -> Provider:
    name = given.get("service_credential")
    if name is None:
        raise ConfigError(f"Cannot open {uri}: {PROVIDER}=databricks needs the storage option service_credential")
    try:
        # Available on workers; on the driver it is part of dbutils
        module = importlib.import_module("databricks.service_credentials")
    except ImportError:
        try:
            module = importlib.import_module("databricks.sdk.runtime").dbutils.credentials
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"Cannot open {uri}: {PROVIDER}=databricks works only on Databricks compute ({error})"
            ) from None
    source = module.getServiceCredentialsProvider(name)
    scheme = _scheme(uri)
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


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()


def _utc(moment: datetime) -> datetime:
    """Converts a time to UTC, the only zone that obstore accepts; a time without a zone is in UTC."""
    return moment.astimezone(timezone.utc) if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
