"""Describes a table for catalogs: its entries, as `HiveSyncTool` (1.2.0) creates them, and its schema in Hive's and
Spark's notations (`HiveSchemaUtil`, `SparkSchemaUtils`, `SparkDataSourceTableUtils`, 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.config import interop as config
from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.hudi_types import spelled_out
from hudi_py.interop.catalogs.entry import CatalogColumn, Format, TableEntry
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS, OPERATION
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema

WRITER_VERSION: Final = "1.2.0"
"""`hudi_writer_version`: the release of Apache Hudi that the entry imitates."""
_HADOOP: Final = "org.apache.hudi.hadoop."
_PARQUET_OUTPUT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_ORC: Final = Format(
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
)
_INPUTS: Final = {"PARQUET": "Parquet", "HFILE": "HFile", "LANCE": "Lance"}
Field = Mapping[str, Any]
"""A field of an Avro record, as JSON."""
_HIVE: Final = {
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_SPARK: Final = {
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_INSTANTS: Final = ("timestamp-millis", "timestamp-micros")
_LOCAL: Final = ("local-timestamp-millis", "local-timestamp-micros")


@dataclass(frozen=True, slots=True)
class Registration:
    """A name under which a table is registered."""

    name: str
    snapshot: bool = False
    """For merge-on-read tables, whether logs are read."""
    read_optimized: bool = False


@dataclass(frozen=True, slots=True)
class Described:
    """The current state of a table, for its entries."""

    uri: str
    config: TableConfig
    fields: tuple[Field, ...]
    """The columns as fields of an Avro record, including the meta columns unless options exclude them."""
    is_bootstrapped: bool
    """Whether base files belong to another table: Spark's own source cannot read snapshots of such tables."""


def described(state: TableState, settings: SyncSettings) -> Described:
    """Describes a table. Raises UnsupportedTableError if it has no columns yet."""
    storage, table = state.storage, state.config
    schema = resolve_table_schema(state)
    if schema is None:
        raise UnsupportedTableError(
            f"Cannot register the table {storage.uri}: it is empty and has no columns yet; write to it first"
        )
    fields = table_fields(schema.avro, meta=not settings.options.get(config.OMIT_META))
    bootstrapped = bool(table.properties.get("hoodie.bootstrap.base.path", "").strip())
    return Described(storage.uri.rstrip("/"), table, fields, bootstrapped)


def registrations(table: TableConfig, settings: SyncSettings, name: str) -> tuple[Registration, ...]:
    """Returns the names under which a table is registered (`HiveSyncTool.doSync`, 1.2.0)."""
    options = settings.options
    if not table.is_mor:
        return (Registration(name),)
    strategy = options.get(config.STRATEGY)
    if strategy != "ALL":
        return (Registration(name, snapshot=strategy == "RT", read_optimized=strategy == "RO"),)
    skips = options.get(config.SKIP_RO_SUFFIX)
    # without its suffix, the read-optimized table takes the name that the snapshot would also have
    plain = options.get(config.PLAIN_NAME) and not skips
    return (
        Registration(name if skips else f"{name}_ro", read_optimized=True),
        Registration(f"{name}_rt", snapshot=True),
        *((Registration(name, snapshot=True),) if plain else ()),
    )


def entry_of(table: Described, settings: SyncSettings, chosen: Registration) -> TableEntry:
    """Builds the entry under one name, for a catalog like Hive's."""
    options = settings.options
    partitions = settings.partition_fields(table.config)
    columns, partition_columns = hive_columns(
        table.fields, partitions, timestamps=options.get(config.TIMESTAMPS), comments=options.get(config.COMMENTS)
    )
    parameters, serde = settings.table_parameters, settings.serde_parameters
    if options.get(config.FOR_SPARK) and not (
        table.is_bootstrapped and table.config.is_mor and not chosen.read_optimized
    ):
        parameters |= spark_parameters(
            table.fields,
            partitions,
            part_length=options.get(config.SCHEMA_PART),
            version=options.get(config.SPARK_VERSION),
        )
        serde |= {"path": table.uri, "hoodie.query.as.ro.table": str(chosen.read_optimized).lower()}
    return TableEntry(
        chosen.name,
        columns,
        partition_columns,
        table.uri,
        format_of(table.config.base_file_format, snapshot=chosen.snapshot),
        parameters,
        {**serde, "serialization.format": "1"},
        external=not options.get(config.MANAGED),
    )


def format_of(base_files: str, *, snapshot: bool) -> Format:
    """Returns the classes for base files of a format (`HoodieInputFormatUtils`, 1.2.0)."""
    if base_files == "ORC":
        return _ORC
    kind = _INPUTS[base_files]
    name = f"realtime.Hoodie{kind}RealtimeInputFormat" if snapshot else f"Hoodie{kind}InputFormat"
    return Format(_HADOOP + name, _PARQUET_OUTPUT, _PARQUET_SERDE)


def table_fields(record: Mapping[str, Any], *, meta: bool) -> tuple[Field, ...]:
    """Returns the fields of a table's Avro record, with or without the meta columns."""
    own = tuple(item for item in spelled_out(record)["fields"] if item["name"] != OPERATION)
    if not meta:
        return own
    names = (*META_FIELDS, *(OPERATION for _ in range(len(record["fields"]) - len(own))))
    return (*({"name": name, "type": ["null", "string"]} for name in names), *own)


def hive_type(schema: Any, *, timestamps: bool) -> str:
    """Converts a type to Hive's notation, in lower case.

    Args:
        schema: an Avro type as JSON.
        timestamps: whether timestamps are `timestamp` instead of `bigint`.

    Raises:
        UnsupportedTableError: a union of several types.
    """
    kind = _of_union(schema)[0]
    name, logical = _type_names(kind)
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    if logical == "date":
        return "date"
    if logical in (*_INSTANTS, *_LOCAL):
        return "timestamp" if timestamps else "bigint"
    if logical == "uuid":
        return "binary"
    if name == "array":
        return f"array<{hive_type(kind['items'], timestamps=timestamps)}>"
    if name == "map":
        return f"map<string,{hive_type(kind['values'], timestamps=timestamps)}>"
    if name == "record":
        members = (
            f"{item['name'].replace('$', '_dollar_')}:{hive_type(item['type'], timestamps=timestamps)}"
            for item in kind["fields"]
        )
        return f"struct<{','.join(members)}>".replace("-", "_").lower()
    return _HIVE[name]


def hive_columns(
    fields: Iterable[Field], partition_columns: Sequence[str], *, timestamps: bool, comments: bool
) -> tuple[tuple[CatalogColumn, ...], tuple[CatalogColumn, ...]]:
    """Returns the columns, and the partition columns, which are text if the table has no column of that name."""
    types = {str(field["name"]): hive_type(field["type"], timestamps=timestamps) for field in fields}
    docs = {str(field["name"]): str(field.get("doc") or "") if comments else "" for field in fields}

    def column(name: str) -> CatalogColumn:
        return CatalogColumn(name, types.get(name, "string"), docs.get(name, ""))

    own = tuple(column(name) for name in types if name not in partition_columns)
    return own, tuple(column(name) for name in partition_columns)


def spark_parameters(
    fields: Sequence[Field], partition_columns: Sequence[str], *, part_length: int, version: str
) -> dict[str, str]:
    """Returns the table parameters from which Spark reads provider, schema and partition columns."""
    by_name = {str(field["name"]): field for field in fields}
    # a partition column that the schema lacks is text, never null
    last = [by_name.get(name, {"name": name, "type": "string"}) for name in partition_columns]
    text = _struct_type([field for field in fields if field["name"] not in partition_columns] + last)
    parts = [text[start : start + part_length] for start in range(0, len(text), part_length)]
    parameters = {"spark.sql.sources.provider": "hudi"}
    if version:
        parameters["spark.sql.create.version"] = version
    parameters["spark.sql.sources.schema.numParts"] = str(len(parts))
    parameters |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if partition_columns:
        parameters["spark.sql.sources.schema.numPartCols"] = str(len(partition_columns))
        parameters |= {
            f"spark.sql.sources.schema.partCol.{number}": name for number, name in enumerate(partition_columns)
        }
    return parameters


def spark_type(schema: Any) -> str:
    """Converts a type to the JSON of Spark's schemas, with the same blanks as Apache Hudi."""
    kind = _of_union(schema)[0]
    name, logical = _type_names(kind)
    if logical == "decimal":
        return f'"decimal({kind["precision"]},{kind.get("scale", 0)})"'
    if logical == "date":
        return '"date"'
    if logical in _INSTANTS:
        return '"timestamp"'
    if logical in _LOCAL:
        return '"timestamp_ntz"'
    if name == "array":
        element, nullable = kind["items"], _of_union(kind["items"])[1]
        return f'{{"type":"array", "elementType":{spark_type(element)},"containsNull":{_bool_text(nullable)}}}'
    if name == "map":
        value, nullable = kind["values"], _of_union(kind["values"])[1]
        kinds = f'"keyType":"string","valueType":{spark_type(value)}'
        return f'{{"type":"map", {kinds},"valueContainsNull":{_bool_text(nullable)}}}'
    if name == "record":
        return _struct_type(kind["fields"])
    return f'"{_SPARK[name]}"'


def _struct_type(fields: Iterable[Field]) -> str:
    members = []
    for field in fields:
        kind, nullable = _of_union(field["type"])
        metadata = '{"hudi_type":"BLOB"}' if _type_names(kind)[1] == "blob" else "{}"
        name = json.dumps(field["name"], ensure_ascii=False)
        members.append(
            f'{{"name":{name},"type":{spark_type(kind)},"nullable":{_bool_text(nullable)},"metadata":{metadata}}}'
        )
    return f'{{"type":"struct","fields":[{",".join(members)}]}}'


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _type_names(kind: Any) -> tuple[str, str]:
    """Returns the name of a type, and of its logical type."""
    if isinstance(kind, str):
        return kind, ""
    return str(kind["type"]), str(kind.get("logicalType") or "")


def _of_union(schema: Any) -> tuple[Any, bool]:
    """Returns the type other than null, and whether null is the other branch."""
    kind: Any = schema
    nullable = False
    if isinstance(schema, list):
        others = [item for item in schema if item != "null"]
        nullable = len(others) < len(schema)
        if len(others) != 1:
            raise UnsupportedTableError(
                f"Cannot register a column of the Avro type {json.dumps(schema)}: catalogs have no unions of types"
            )
        kind = others[0]
    if isinstance(kind, dict) and isinstance(kind["type"], (dict, list)):
        return _of_union(kind["type"])
    return kind, nullable
