"""AWS Glue (`AWSGlueCatalogSyncClient`, 1.2.0)."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any, Final, TypeVar

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError, first_line
from hudi_py.interop.catalogs.entry import CatalogColumn, CatalogError, Format, StoredEntry, TableEntry, Values
from hudi_py.storage.credentials import boto3_client

T = TypeVar("T")
_LISTING: Final = "hudi.metadata-listing-enabled"
"""Athena's parameter: whether it lists files from the metadata table."""
_CHANGED_AT_ONCE: Final = 100
_DROPPED_AT_ONCE: Final = 25
_OF_INPUT: Final = (
    "Name",
    "Description",
    "Owner",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
    "TargetTable",
)
"""Members of an entry from Glue that may be sent back."""


class GlueCatalog:
    """A database of AWS Glue. Implements `Catalog`.

    Args:
        storage_options: of the table; what gives them credentials for S3 gives them for Glue, otherwise boto3 finds
            them: environment, profile or role.
        uri: of the table.

    Raises:
        ConfigError: boto3 is missing, there is no region, or the storage options name a provider that does not exist.
    """

    name = "glue"

    def __init__(
        self, options: Options, database: str, *, storage_options: Mapping[str, str] | None = None, uri: str = ""
    ) -> None:
        self._database = database
        self._skips_archive = options.get(config.GLUE_SKIP_ARCHIVE)
        self._listing = str(options.get(config.GLUE_LISTING)).upper()
        catalog = options.get(config.GLUE_CATALOG)
        self._where: dict[str, Any] = {"DatabaseName": database, **({"CatalogId": catalog} if catalog else {})}
        self._catalog: dict[str, Any] = {"CatalogId": catalog} if catalog else {}
        region, endpoint = options.get(config.GLUE_REGION), options.get(config.GLUE_ENDPOINT)
        self._client = _client(region, endpoint, storage_options or {}, uri)
        self._errors = importlib.import_module("botocore.exceptions")

    def close(self) -> None:
        self._client.close()

    def has_database(self) -> bool:
        return self._call("get_database", missing=True, Name=self._database, **self._catalog) is not None

    def create_database(self) -> None:
        entry = {"Name": self._database, "Description": "Automatically created by hudi-py"}
        self._call("create_database", exists=True, DatabaseInput=entry, **self._catalog)

    def all_databases(self) -> list[str]:
        pages = self._pages("get_databases", "DatabaseList", **self._catalog)
        return sorted(database["Name"] for database in pages)

    def tables(self) -> Iterator[StoredEntry]:
        for raw in self._pages("get_tables", "TableList", **self._where):
            yield StoredEntry(_entry(raw), raw)

    def table(self, name: str) -> StoredEntry | None:
        answer = self._call("get_table", missing=True, Name=name, **self._where)
        return None if answer is None else StoredEntry(_entry(answer["Table"]), answer["Table"])

    def create(self, entry: TableEntry) -> None:
        given = {
            "Name": entry.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {
                **({"EXTERNAL": "TRUE"} if entry.external else {}),
                _LISTING: self._listing,
                **entry.parameters,
            },
            "PartitionKeys": [_column(column) for column in entry.partition_columns],
            "StorageDescriptor": _storage(entry, {}),
        }
        self._call("create_table", exists=True, TableInput={**given, **_times()}, **self._where)

    def alter(self, stored: StoredEntry, entry: TableEntry, *, cascade: bool) -> None:
        changed = {key: stored.raw[key] for key in _OF_INPUT if key in stored.raw}
        changed["StorageDescriptor"] = _storage(entry, changed.get("StorageDescriptor", {}))
        changed["Parameters"] = {**entry.parameters, _LISTING: self._listing}
        self._call("update_table", TableInput={**changed, **_times()}, SkipArchive=self._skips_archive, **self._where)
        if cascade and entry.columns != stored.entry.columns:
            altered = StoredEntry(entry, {**stored.raw, "StorageDescriptor": changed["StorageDescriptor"]})
            self.change_partitions(altered, self.partitions(entry.name))

    def drop(self, name: str) -> None:
        self._call("delete_table", missing=True, Name=name, **self._where)

    def partitions(self, name: str) -> dict[Values, str]:
        locations: dict[Values, str] = {}
        more: dict[str, Any] = {}
        while True:
            page = self._call("get_partitions", TableName=name, ExcludeColumnSchema=True, **more, **self._where)
            for partition in page["Partitions"]:
                locations[tuple(partition["Values"])] = partition["StorageDescriptor"]["Location"]
            if not page.get("NextToken"):
                return locations
            more = {"NextToken": page["NextToken"]}

    def add_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        for batch in _batches(self._inputs(stored, locations), _CHANGED_AT_ONCE):
            done = self._call(
                "batch_create_partition", TableName=stored.entry.name, PartitionInputList=batch, **self._where
            )
            self._check("add", stored.entry.name, done, harmless="AlreadyExistsException")

    def change_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        for batch in _batches(self._inputs(stored, locations), _CHANGED_AT_ONCE):
            entries = [{"PartitionValueList": partition["Values"], "PartitionInput": partition} for partition in batch]
            done = self._call("batch_update_partition", TableName=stored.entry.name, Entries=entries, **self._where)
            self._check("change", stored.entry.name, done)

    def drop_partitions(self, name: str, values: Sequence[Values]) -> None:
        for batch in _batches(values, _DROPPED_AT_ONCE):
            gone = [{"Values": list(partition)} for partition in batch]
            done = self._call("batch_delete_partition", TableName=name, PartitionsToDelete=gone, **self._where)
            self._check("drop", name, done, harmless="EntityNotFoundException")

    def _inputs(self, stored: StoredEntry, locations: Mapping[Values, str]) -> Iterator[dict[str, Any]]:
        storage = stored.raw["StorageDescriptor"]
        for values, location in locations.items():
            yield {"Values": list(values), "StorageDescriptor": {**storage, "Location": _s3(location)}}

    def _pages(self, method: str, name: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        more: dict[str, Any] = {}
        while True:
            page = self._call(method, **more, **arguments)
            yield from page[name]
            if not page.get("NextToken"):
                return
            more = {"NextToken": page["NextToken"]}

    def _check(self, what: str, table: str, done: Mapping[str, Any], *, harmless: str = "") -> None:
        errors = [failure["ErrorDetail"] for failure in done.get("Errors", ())]
        wrong = [error for error in errors if error.get("ErrorCode") != harmless]
        if wrong:
            raise CatalogError(
                f"AWS Glue does not {what} {len(wrong)} partitions of {self._database}.{table}: "
                f"{wrong[0].get('ErrorCode')}: {wrong[0].get('ErrorMessage')}"
            )

    def _call(self, method: str, *, missing: bool = False, exists: bool = False, **arguments: Any) -> Any:
        """Calls Glue. `missing`: return None if there is no such entity; `exists`: ignore that there already is one."""
        try:
            return getattr(self._client, method)(**arguments)
        except self._errors.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if (missing and code == "EntityNotFoundException") or (exists and code == "AlreadyExistsException"):
                return None
            raise CatalogError(
                f"AWS Glue refuses {method} in the database {self._database}: {first_line(error)}"
            ) from error
        except self._errors.BotoCoreError as error:
            raise CatalogError(
                f"AWS Glue cannot be reached for {method} in the database {self._database}: {first_line(error)}; check "
                "credentials, hoodie.aws.glue.region and hoodie.aws.glue.endpoint"
            ) from error


def _client(region: str | None, endpoint: str | None, storage_options: Mapping[str, str], uri: str) -> Any:
    try:
        errors = importlib.import_module("botocore.exceptions")
        return boto3_client("glue", storage_options, uri, region_name=region, endpoint_url=endpoint)
    except ImportError as error:
        raise ConfigError(
            "Cannot register a table with AWS Glue: the package boto3 is missing; install it with "
            "pip install 'hudi-py[glue]'"
        ) from error
    except errors.NoRegionError as error:
        raise ConfigError(
            "Cannot register a table with AWS Glue without a region: set hoodie.aws.glue.region or AWS_REGION"
        ) from error


def _times() -> dict[str, datetime]:
    now = datetime.now(timezone.utc)
    return {"LastAccessTime": now, "LastAnalyzedTime": now}


def _s3(location: str) -> str:
    """Converts Hadoop's schemes to `s3`, which Athena reads."""
    return f"s3://{location.partition('://')[2]}" if location.startswith(("s3a://", "s3n://")) else location


def _column(column: CatalogColumn) -> dict[str, str]:
    return {"Name": column.name, "Type": column.type, "Comment": column.comment}


def _storage(entry: TableEntry, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **raw,
        "Columns": [_column(column) for column in entry.columns],
        "Location": _s3(entry.location),
        "InputFormat": entry.format.input_format,
        "OutputFormat": entry.format.output_format,
        "SerdeInfo": {
            **raw.get("SerdeInfo", {}),
            "SerializationLibrary": entry.format.serde,
            "Parameters": dict(entry.serde_parameters),
        },
    }


def _entry(raw: Mapping[str, Any]) -> TableEntry:
    storage = raw.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {})
    return TableEntry(
        raw["Name"],
        _columns(storage.get("Columns", [])),
        _columns(raw.get("PartitionKeys", [])),
        storage.get("Location", ""),
        Format(storage.get("InputFormat", ""), storage.get("OutputFormat", ""), serde.get("SerializationLibrary", "")),
        raw.get("Parameters", {}),
        serde.get("Parameters", {}),
        external=raw.get("Parameters", {}).get("EXTERNAL") == "TRUE",
    )


def _columns(raw: Sequence[Mapping[str, Any]]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(column["Name"], column.get("Type", ""), column.get("Comment", "")) for column in raw)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
