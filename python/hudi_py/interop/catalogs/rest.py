"""Catalogs with their own HTTP interface: generic tables of Apache Polaris, and Unity Catalog."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError
from hudi_py.interop.catalogs.entry import CatalogError, Registered
from hudi_py.interop.http import Client, HttpError

POLARIS_TOKEN: Final = "HUDI_PY_POLARIS_TOKEN"
POLARIS_CREDENTIAL: Final = "HUDI_PY_POLARIS_CREDENTIAL"
UNITY_TOKEN: Final = "HUDI_PY_UNITY_TOKEN"
"""Environment variables that hold credentials."""
_SEPARATOR: Final = "\x1f"
"""Separator of the levels of a namespace in a path (Iceberg's REST interface)."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as these catalogs store it."""

    database: str
    name: str
    uri: str
    properties: dict[str, str] = field(default_factory=dict)


class Polaris:
    """Generic tables of Apache Polaris 1.3 or later (`generic-tables-api.yaml`), with the format `hudi`.

    Raises:
        ConfigError: there are no credentials, or the address is not valid.
        CatalogError: they were refused.
    """

    name = "polaris"

    def __init__(self, options: Options) -> None:
        base = (options.get(config.POLARIS_URI) or "").rstrip("/")
        prefix = quote(options.get(config.POLARIS_CATALOG) or "", safe="")
        token = os.environ.get(POLARIS_TOKEN) or _request_token(base)
        self._client = Client(base, {"Authorization": f"Bearer {token}"})
        self._namespaces = f"/v1/{prefix}/namespaces"
        self._tables = f"/polaris/v1/{prefix}/namespaces/{{}}/generic-tables"
        self._recreates = options.get(config.RECREATE)
        self._creates_database = options.get(config.CREATE_DATABASE)

    def register(self, table: CatalogTable, instant: str | None) -> Registered:
        """Registers a table; compares an existing entry."""
        report = Registered(self.name, f"{table.database}.{table.name}", instant)
        levels = table.database.split(".")
        folder = self._tables.format(quote(_SEPARATOR.join(levels), safe=""))
        place = f"{folder}/{quote(table.name, safe='')}"
        stored = self._get(place)
        if stored is not None:
            if self._is_same(stored["table"], table):
                return report
            self._delete(place)
        else:
            self._namespace(levels)
        body = {
            "name": table.name,
            "format": "hudi",
            "base-location": table.uri,
            "properties": table.properties,
        }
        self._post(folder, body, table)
        return Registered(report.catalog, report.name, instant, "created" if stored is None else "changed")

    def _is_same(self, stored: dict[str, Any], table: CatalogTable) -> bool:
        """Returns whether an entry needs no change. It cannot be changed, only replaced, which needs permission."""
        stored_at = (str(stored.get("format", "")).lower(), str(stored.get("base-location", "")).rstrip("/"))
        if stored_at == ("hudi", table.uri):
            return True
        if not self._recreates:
            raise CatalogError(
                f"Polaris has the table {table.database}.{table.name} of the format {stored_at[0]} at {stored_at[1]}, "
                f"not {table.uri}: choose another name, drop it, or set {config.RECREATE.key}=true to replace it"
            )
        return False

    def _namespace(self, levels: list[str]) -> None:
        if self._get(f"{self._namespaces}/{quote(_SEPARATOR.join(levels), safe='')}") is not None:
            return
        if not self._creates_database:
            raise CatalogError(
                f"Polaris has no namespace {'.'.join(levels)}: create it, or set {config.CREATE_DATABASE.key}=true"
            )
        self._post(self._namespaces, {"namespace": levels, "properties": {}}, None)

    def _get(self, path: str) -> Any:
        return _get_object(self._client, path, "Polaris")

    def _delete(self, path: str) -> None:
        try:
            self._client.delete(path)
        except HttpError as error:
            raise _failed_error("Polaris", error) from error

    def _post(self, path: str, body: dict[str, Any], table: CatalogTable | None) -> None:
        try:
            self._client.post(path, body)
        except HttpError as error:
            if error.status == 409 and table is None:  # another process has created the namespace
                return
            raise _failed_error("Polaris", error) from error


def _request_token(base: str) -> str:
    """Requests a token for the credential in the environment (OAuth 2, client credentials)."""
    identity, value, secret = os.environ.get(POLARIS_CREDENTIAL, "").partition(":")
    if not value:
        raise ConfigError(
            f"Cannot register a table with Polaris without credentials: set the environment variable {POLARIS_TOKEN}, "
            f"or {POLARIS_CREDENTIAL} as id:secret"
        )
    form = {
        "grant_type": "client_credentials",
        "client_id": identity,
        "client_secret": secret,
        "scope": "PRINCIPAL_ROLE:ALL",
    }
    try:
        answer = Client(base).post_form("/v1/oauth/tokens", form)
    except HttpError as error:
        raise _failed_error("Polaris", error) from error
    return str(answer["access_token"])


class Unity:
    """Unity Catalog's open interface. It has no format for Hudi, and an entry as PARQUET would show every version of a
    row. So the table's location is registered as an external volume, where it can be found and governed.

    Raises:
        ConfigError: the address is not valid.
    """

    name = "unity"

    def __init__(self, options: Options) -> None:
        base = (options.get(config.UNITY_URI) or "").rstrip("/")
        token = os.environ.get(UNITY_TOKEN)
        self._client = Client(f"{base}/api/2.1/unity-catalog", {"Authorization": f"Bearer {token}"} if token else {})
        self._catalog = options.get(config.UNITY_CATALOG) or ""
        self._recreates = options.get(config.RECREATE)
        self._creates_database = options.get(config.CREATE_DATABASE)

    def register(self, table: CatalogTable, instant: str | None) -> Registered:
        """Registers a table; compares an existing entry."""
        full = f"{self._catalog}.{table.database}.{table.name}"
        stored = self._get(f"/volumes/{quote(full, safe='')}")
        if stored is not None:
            place = str(stored.get("storage_location", "")).rstrip("/")
            if place == table.uri:
                return Registered(self.name, full, instant)
            if not self._recreates:
                raise CatalogError(
                    f"Unity Catalog has the volume {full} at {place}, not {table.uri}: choose another name, drop it, "
                    f"or set {config.RECREATE.key}=true to replace it"
                )
            self._call("delete", f"/volumes/{quote(full, safe='')}")
        else:
            self._schema(table.database)
        body = {
            "catalog_name": self._catalog,
            "schema_name": table.database,
            "name": table.name,
            "volume_type": "EXTERNAL",
            "storage_location": table.uri,
            "comment": "Apache Hudi table",
        }
        self._call("post", "/volumes", body)
        return Registered(self.name, full, instant, "created" if stored is None else "changed")

    def _schema(self, name: str) -> None:
        if self._get(f"/schemas/{quote(f'{self._catalog}.{name}', safe='')}") is not None:
            return
        if not self._creates_database:
            raise CatalogError(
                f"Unity Catalog has no schema {self._catalog}.{name}: create it, or set "
                f"{config.CREATE_DATABASE.key}=true"
            )
        self._call("post", "/schemas", {"name": name, "catalog_name": self._catalog})

    def _get(self, path: str) -> Any:
        return _get_object(self._client, path, "Unity Catalog")

    def _call(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self._client, method)(*arguments)
        except HttpError as error:
            raise _failed_error("Unity Catalog", error) from error


def _get_object(client: Client, path: str, catalog: str) -> Any:
    """Gets the object at a path; None if there is none. Raises CatalogError."""
    try:
        return client.get(path)
    except HttpError as error:
        if error.status == 404:
            return None
        raise _failed_error(catalog, error) from error


def _failed_error(service: str, error: HttpError) -> CatalogError:
    hint = "; check its address" if error.status is None else "; check its credentials" if error.status == 401 else ""
    return CatalogError(f"{service} did not do what it was asked for: {error}{hint}")
