"""What is registered of a table: its entries, as `HiveSyncTool` (1.2.0) makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hudi_py.config import interop as config
from hudi_py.errors import UnsupportedTableError
from hudi_py.interop.catalogs.columns import Field, hive_columns, spark_parameters, table_fields
from hudi_py.interop.catalogs.entry import Format, TableEntry
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema

WRITER_VERSION: Final = "1.2.0"
"""`hudi_writer_version`: the release of Apache Hudi in whose manner the entry is written."""
_HADOOP: Final = "org.apache.hudi.hadoop."
_PARQUET_OUTPUT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_ORC: Final = Format(
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
)
_INPUTS: Final = {"PARQUET": "Parquet", "HFILE": "HFile", "LANCE": "Lance"}


@dataclass(frozen=True, slots=True)
class Registration:
    """One of the names under which a table is registered."""

    name: str
    snapshot: bool = False
    """Merge on read: whether logs are read."""
    read_optimized: bool = False


@dataclass(frozen=True, slots=True)
class Described:
    """A table as it is now, for its entries."""

    uri: str
    config: TableConfig
    fields: tuple[Field, ...]
    """The columns as fields of an Avro record, with the meta columns unless they are left out."""
    is_bootstrapped: bool
    """Whether base files are those of another table: such tables' snapshots are not for Spark's own source."""


def described(state: TableState, settings: SyncSettings) -> Described:
    """Raises UnsupportedTableError for a table that has no columns yet."""
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
    """The names for a table (`HiveSyncTool.doSync`, 1.2.0)."""
    options = settings.options
    if not table.is_mor:
        return (Registration(name),)
    strategy = options.get(config.STRATEGY)
    if strategy != "ALL":
        return (Registration(name, snapshot=strategy == "RT", read_optimized=strategy == "RO"),)
    skips = options.get(config.SKIP_RO_SUFFIX)
    # without its suffix, the read-optimized table has the name that the snapshot would have besides
    plain = options.get(config.PLAIN_NAME) and not skips
    return (
        Registration(name if skips else f"{name}_ro", read_optimized=True),
        Registration(f"{name}_rt", snapshot=True),
        *((Registration(name, snapshot=True),) if plain else ()),
    )


def entry_of(table: Described, settings: SyncSettings, chosen: Registration) -> TableEntry:
    """The entry under one name, as a catalog in the manner of Hive holds it."""
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
    """The classes for base files of a format (`HoodieInputFormatUtils`, 1.2.0)."""
    if base_files == "ORC":
        return _ORC
    kind = _INPUTS[base_files]
    name = f"realtime.Hoodie{kind}RealtimeInputFormat" if snapshot else f"Hoodie{kind}InputFormat"
    return Format(_HADOOP + name, _PARQUET_OUTPUT, _PARQUET_SERDE)
