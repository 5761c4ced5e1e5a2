"""The Hive metastore, through its Thrift service.

The part of its interface that registration needs is the one of Hive 2.3 (`hive_metastore.thrift`), which later releases
understand.
"""

from __future__ import annotations

import getpass
import importlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast
from urllib.parse import urlsplit

from hudi_py.errors import ConfigError, first_line
from hudi_py.interop.catalogs.entry import (
    CatalogColumn,
    CatalogError,
    Format,
    IncompatibleError,
    StoredEntry,
    TableEntry,
    Values,
)
from hudi_py.interop.catalogs.thrift import (
    FLAG,
    NUMBER,
    SHORT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Method,
    ServiceError,
    Struct,
    call,
    list_of,
    method,
    of,
    struct,
)

ALREADY_EXISTS: Final = "AlreadyExistsException"
NO_SUCH_OBJECT: Final = "NoSuchObjectException"
_INVALID_OBJECT: Final = "InvalidObjectException"
_INVALID_OPERATION: Final = "InvalidOperationException"
_META: Final = "MetaException"
FIELD: Final = struct("FieldSchema", (1, "name", TEXT), (2, "type", TEXT), (3, "comment", TEXT))
_ORDER: Final = struct("Order", (1, "col", TEXT), (2, "order", NUMBER))
_SERDE: Final = struct("SerDeInfo", (1, "name", TEXT), (2, "serializationLib", TEXT), (3, "parameters", TEXT_MAP))
_STORAGE: Final = struct(
    "StorageDescriptor",
    (1, "cols", list_of(of(FIELD))),
    (2, "location", TEXT),
    (3, "inputFormat", TEXT),
    (4, "outputFormat", TEXT),
    (5, "compressed", FLAG),
    (6, "numBuckets", NUMBER),
    (7, "serdeInfo", of(_SERDE)),
    (8, "bucketCols", TEXTS),
    (9, "sortCols", list_of(of(_ORDER))),
    (10, "parameters", TEXT_MAP),
)
TABLE: Final = struct(
    "Table",
    (1, "tableName", TEXT),
    (2, "dbName", TEXT),
    (3, "owner", TEXT),
    (4, "createTime", NUMBER),
    (5, "lastAccessTime", NUMBER),
    (6, "retention", NUMBER),
    (7, "sd", of(_STORAGE)),
    (8, "partitionKeys", list_of(of(FIELD))),
    (9, "parameters", TEXT_MAP),
    (12, "tableType", TEXT),
)
PARTITION: Final = struct(
    "Partition",
    (1, "values", TEXTS),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "createTime", NUMBER),
    (5, "lastAccessTime", NUMBER),
    (6, "sd", of(_STORAGE)),
    (7, "parameters", TEXT_MAP),
)
_DATABASE: Final = struct(
    "Database", (1, "name", TEXT), (2, "description", TEXT), (3, "locationUri", TEXT), (4, "parameters", TEXT_MAP)
)
_CONTEXT: Final = struct("EnvironmentContext", (1, "properties", TEXT_MAP))
_NEW_PARTITIONS: Final = struct(
    "AddPartitionsRequest",
    (1, "dbName", TEXT),
    (2, "tblName", TEXT),
    (3, "parts", list_of(of(PARTITION))),
    (4, "ifNotExists", FLAG),
    (5, "needResult", FLAG),
)
_ADDED: Final = struct("AddPartitionsResult", (1, "partitions", list_of(of(PARTITION))))
_NAMED: Final = (("db_name", TEXT), ("tbl_name", TEXT))
METHODS: Final[dict[str, Method]] = {
    known.name: known
    for known in (
        method("set_ugi", ("user_name", TEXT), ("group_names", TEXTS), returns=TEXTS, errors=(_META,)),
        method("get_database", ("name", TEXT), returns=of(_DATABASE), errors=(NO_SUCH_OBJECT, _META)),
        method("create_database", ("database", of(_DATABASE)), errors=(ALREADY_EXISTS, _INVALID_OBJECT, _META)),
        method("get_all_databases", returns=TEXTS, errors=(_META,)),
        method("get_all_tables", ("db_name", TEXT), returns=TEXTS, errors=(_META,)),
        method("get_table", *_NAMED, returns=of(TABLE), errors=(_META, NO_SUCH_OBJECT)),
        method("create_table", ("tbl", of(TABLE)), errors=(ALREADY_EXISTS, _INVALID_OBJECT, _META, NO_SUCH_OBJECT)),
        method(
            "alter_table_with_environment_context",
            *_NAMED,
            ("new_tbl", of(TABLE)),
            ("environment_context", of(_CONTEXT)),
            errors=(_INVALID_OPERATION, _META),
        ),
        method("drop_table", *_NAMED, ("deleteData", FLAG), errors=(NO_SUCH_OBJECT, _META)),
        method(
            "get_partitions",
            *_NAMED,
            ("max_parts", SHORT),
            returns=list_of(of(PARTITION)),
            errors=(NO_SUCH_OBJECT, _META),
        ),
        method(
            "get_partitions_by_names",
            *_NAMED,
            ("names", TEXTS),
            returns=list_of(of(PARTITION)),
            errors=(_META, NO_SUCH_OBJECT),
        ),
        method(
            "add_partitions_req",
            ("request", of(_NEW_PARTITIONS)),
            returns=of(_ADDED),
            errors=(_INVALID_OBJECT, ALREADY_EXISTS, _META),
        ),
        method(
            "alter_partitions",
            *_NAMED,
            ("new_parts", list_of(of(PARTITION))),
            errors=(_INVALID_OPERATION, _META),
        ),
        method(
            "drop_partition",
            *_NAMED,
            ("part_vals", TEXTS),
            ("deleteData", FLAG),
            returns=FLAG,
            errors=(NO_SUCH_OBJECT, _META),
        ),
    )
}
"""The methods by name."""
__all__ = ["ALREADY_EXISTS", "FIELD", "METHODS", "NO_SUCH_OBJECT", "PARTITION", "TABLE", "Method", "Struct"]
DEFAULT: Final = ("thrift://localhost:9083",)
logging.getLogger("thrift").addHandler(logging.NullHandler())  # it logs the errors that it raises
_TIMEOUT_MS: Final = 60_000
_INCOMPATIBLE: Final = "incompatible"
"""Text in a metastore's error about types that cannot be converted (`hive.metastore.disallow.incompatible...`)."""


class HiveMetastore:
    """A database of a Hive metastore, without Kerberos or TLS. Implements `Catalog`.

    Raises:
        ConfigError: an address is not valid, or the package `thrift` is missing.
        CatalogError: none of the services answers.
    """

    name = "hms"

    def __init__(self, addresses: Sequence[str], database: str, *, batch: int = 1000) -> None:
        self._database = database
        self._batch = batch
        self._sequence = 0
        self._address, self._transport, self._protocol = _connected(addresses or DEFAULT)
        user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._owner = user
        self._call("set_ugi", user_name=user, group_names=[])

    def close(self) -> None:
        self._transport.close()

    def has_database(self) -> bool:
        return self._call("get_database", missing=True, name=self._database) is not None

    def create_database(self) -> None:
        entry = {"name": self._database, "description": "automatically created by hoodie"}
        self._call("create_database", exists=True, database=entry)

    def all_databases(self) -> list[str]:
        return sorted(self._call("get_all_databases"))

    def tables(self) -> Iterator[StoredEntry]:
        for name in self._call("get_all_tables", db_name=self._database):
            entry = self.table(name)
            if entry is not None:  # dropped since it was listed
                yield entry

    def table(self, name: str) -> StoredEntry | None:
        raw = self._call("get_table", missing=True, db_name=self._database, tbl_name=name)
        return None if raw is None else StoredEntry(_entry(raw), raw)

    def create(self, entry: TableEntry) -> None:
        table: dict[str, Any] = {
            "tableName": entry.name,
            "dbName": self._database,
            "owner": self._owner,
            "createTime": int(time.time()),
            "lastAccessTime": 0,
            "retention": 0,
            "sd": _storage(entry, {"compressed": False, "numBuckets": 0, "bucketCols": [], "sortCols": []}),
            "partitionKeys": [_field(column) for column in entry.partition_columns],
            "parameters": {**({"EXTERNAL": "TRUE"} if entry.external else {}), **entry.parameters},
            "tableType": "EXTERNAL_TABLE" if entry.external else "MANAGED_TABLE",
        }
        self._call("create_table", exists=True, tbl=table)

    def alter(self, stored: StoredEntry, entry: TableEntry, *, cascade: bool) -> None:
        raw = dict(stored.raw)
        raw["sd"] = _storage(entry, raw["sd"])
        raw["parameters"] = dict(entry.parameters)
        try:
            self._call(
                "alter_table_with_environment_context",
                db_name=self._database,
                tbl_name=stored.entry.name,
                new_tbl=raw,
                environment_context={"properties": {"CASCADE": "true"} if cascade else {}},
            )
        except CatalogError as error:
            if _INCOMPATIBLE not in str(error).lower():
                raise
            raise IncompatibleError(
                f"The Hive metastore at {self._address} refuses the columns of the table {self._database}."
                f"{entry.name}: {error.found}; set hoodie.datasource.hive_sync.recreate_table_on_error=true to drop "
                "its entry and register it again, or allow the change in the metastore "
                "(hive.metastore.disallow.incompatible.col.type.changes=false)"
            ) from error

    def drop(self, name: str) -> None:
        self._call("drop_table", missing=True, db_name=self._database, tbl_name=name, deleteData=False)

    def partitions(self, name: str) -> dict[Values, str]:
        partitions = self._call("get_partitions", db_name=self._database, tbl_name=name, max_parts=-1)
        return {tuple(partition["values"]): partition["sd"]["location"] for partition in partitions}

    def add_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        rest = iter(locations.items())
        while batch := dict(islice(rest, self._batch)):
            self._call(
                "add_partitions_req",
                request={
                    "dbName": self._database,
                    "tblName": stored.entry.name,
                    "parts": self._partitions(stored, batch),
                    "ifNotExists": True,
                    "needResult": False,
                },
            )

    def change_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        self._call(
            "alter_partitions",
            db_name=self._database,
            tbl_name=stored.entry.name,
            new_parts=self._partitions(stored, locations),
        )

    def drop_partitions(self, name: str, values: Sequence[Values]) -> None:
        for partition in values:
            self._call(
                "drop_partition",
                missing=True,
                db_name=self._database,
                tbl_name=name,
                part_vals=list(partition),
                deleteData=False,
            )

    def _partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> list[dict[str, Any]]:
        return [
            {
                "values": list(values),
                "dbName": self._database,
                "tableName": stored.entry.name,
                "createTime": 0,
                "lastAccessTime": 0,
                "sd": {**stored.raw["sd"], "location": location},
                "parameters": {},
            }
            for values, location in locations.items()
        ]

    def _call(self, method: str, *, missing: bool = False, exists: bool = False, **arguments: Any) -> Any:
        """Calls the metastore. `missing`: return None if there is no such object; `exists`: ignore that there already
        is one."""
        self._sequence += 1
        try:
            return call(self._protocol, self._sequence, METHODS[method], arguments)
        except ServiceError as error:
            if (missing and error.kind == NO_SUCH_OBJECT) or (exists and error.kind == ALREADY_EXISTS):
                return None
            raise CatalogError(
                f"The Hive metastore at {self._address} refuses {method} in the database {self._database}: {error}",
                found=first_line(error),
            ) from error
        except (OSError, EOFError, _thrift_error()) as error:
            raise CatalogError(
                f"The connection to the Hive metastore at {self._address} failed in {method}: {first_line(error)}; "
                "register the table again when it runs"
            ) from error


def _connected(addresses: Sequence[str]) -> tuple[str, Any, Any]:
    """Connects to the first address that answers; returns it with transport and protocol."""
    hosts = [(address, *_host(address)) for address in addresses]
    sockets, transports, protocols = (
        _module(name) for name in ("transport.TSocket", "transport.TTransport", "protocol.TBinaryProtocol")
    )
    problems = []
    for address, host, port in hosts:
        socket = sockets.TSocket(host, port)
        socket.setTimeout(_TIMEOUT_MS)
        transport = transports.TBufferedTransport(socket)
        try:
            transport.open()
        except (OSError, _thrift_error()) as error:
            problems.append(f"{address} ({first_line(error)})")
            continue
        return address, transport, protocols.TBinaryProtocol(transport)
    raise CatalogError(
        f"Cannot reach the Hive metastore at {' or '.join(problems)}: start it, or name it in "
        "hoodie.datasource.hive_sync.metastore.uris"
    )


def _host(address: str) -> tuple[str, int]:
    parts = urlsplit(address if "://" in address else f"thrift://{address}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "thrift" or not parts.hostname or port is None or parts.path.strip("/"):
        raise ConfigError(
            f"Cannot reach a Hive metastore at '{address}': expected thrift://host:port in "
            "hoodie.datasource.hive_sync.metastore.uris"
        )
    return parts.hostname, port


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"thrift.{name}")
    except ImportError as error:
        raise ConfigError(
            "Cannot reach a Hive metastore: the package thrift is missing; install it with pip install 'hudi-py[hive]'"
        ) from error


def _thrift_error() -> type[Exception]:
    return cast(type[Exception], _module("Thrift").TException)


def _field(column: CatalogColumn) -> dict[str, Any]:
    return {"name": column.name, "type": column.type, "comment": column.comment}


def _storage(entry: TableEntry, raw: Mapping[str, Any]) -> dict[str, Any]:
    serde = {
        **raw.get("serdeInfo", {}),
        "serializationLib": entry.format.serde,
        "parameters": dict(entry.serde_parameters),
    }
    return {
        **raw,
        "cols": [_field(column) for column in entry.columns],
        "location": entry.location,
        "inputFormat": entry.format.input_format,
        "outputFormat": entry.format.output_format,
        "serdeInfo": serde,
    }


def _entry(raw: Mapping[str, Any]) -> TableEntry:
    storage = raw.get("sd", {})
    serde = storage.get("serdeInfo", {})
    return TableEntry(
        raw["tableName"],
        _columns(storage.get("cols", [])),
        _columns(raw.get("partitionKeys", [])),
        storage.get("location", ""),
        Format(storage.get("inputFormat", ""), storage.get("outputFormat", ""), serde.get("serializationLib", "")),
        raw.get("parameters", {}),
        serde.get("parameters", {}),
        external=raw.get("tableType") != "MANAGED_TABLE",
    )


def _columns(raw: Sequence[Mapping[str, Any]]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(column["name"], column["type"], column.get("comment", "")) for column in raw)
