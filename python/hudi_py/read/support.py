"""Refuses tables with features that this release would read incorrectly, and explains files that are gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hudi_py.errors import CorruptFileError, HistoryCleanedError, HudiError, UnsupportedTableError
from hudi_py.formats.base.lance import check_lance
from hudi_py.metadata import metadata_lister
from hudi_py.model.files import FileSlice
from hudi_py.model.properties import TableConfig
from hudi_py.read.split import Split
from hudi_py.storage import Storage
from hudi_py.timeline.state import load_state
from hudi_py.view.bootstrap import check_source

_KNOWN_LOGICAL_TYPES = frozenset(
    {
        "decimal",
        "date",
        "uuid",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "blob",
        "vector",
        "variant",
    }
)
BASE_FORMATS = ("parquet", "orc", "lance")
"""Supported extensions of base files."""
_TIME_KEYGENS = ("TimestampBasedKeyGenerator", "TimestampBasedAvroKeyGenerator")


def check_table(config: TableConfig, uri: str) -> None:
    """Raises UnsupportedTableError if the table's properties have an unsupported value."""
    if config.base_file_format not in ("PARQUET", "ORC", "LANCE"):
        _refuse(uri, "hoodie.table.base.file.format", config.base_file_format, "PARQUET, ORC and LANCE base files")


def check_schema(avro: Any, uri: str) -> None:
    """Raises UnsupportedTableError if the table's Avro schema has an unknown logical type."""
    for path, logical in _logical_types(avro, ""):
        if logical not in _KNOWN_LOGICAL_TYPES:
            supported = ", ".join(sorted(_KNOWN_LOGICAL_TYPES))
            raise UnsupportedTableError(
                f"Table at {uri} has column '{path}' of logical type '{logical}'; supported types are {supported}"
            )


def check_slices(config: TableConfig, slices: Iterable[FileSlice], uri: str, sources: Iterable[str] = ()) -> None:
    """Raises UnsupportedTableError for file slices that cannot be read. For `sources` see `check_source`."""
    for file_slice in slices:
        base = file_slice.base_file
        if base is not None and base.name.extension not in BASE_FORMATS:
            _refuse(f"{uri}/{base.path}", "base file format", base.name.extension, ", ".join(BASE_FORMATS))
        if base is not None and base.name.extension == "lance":
            check_lance(uri)
        if base is not None and base.source is not None:
            check_source(uri, config, base.source.uri, sources)


def text_partition_columns(config: TableConfig) -> tuple[str, ...]:
    """Returns partition columns that Spark shows as text, whatever their stored type (timestamp key generators).

    Source: `SparkParsePartitionUtil.getPartitionSchema`, 1.2.0. Timestamp parts of custom key generators keep their
    type: where Apache Hudi can read such a table at all, it shows the column's own value.
    """
    by_class = config.keygen_class.rpartition(".")[2] in _TIME_KEYGENS
    if by_class or config.keygen_type in ("TIMESTAMP", "TIMESTAMP_AVRO"):
        return config.partition_fields
    return ()


def _refuse(where: str, key: str, value: str, supported: str) -> None:
    raise UnsupportedTableError(f"Table at {where} has {key}={value}, which is not supported; supported: {supported}")


def _logical_types(avro: Any, path: str) -> Iterable[tuple[str, str]]:
    if isinstance(avro, list):
        for branch in avro:
            yield from _logical_types(branch, path)
    elif isinstance(avro, dict):
        kind = avro.get("type")
        logical = avro.get("logicalType")
        if isinstance(logical, str):
            yield path, logical
        if kind == "record":
            for field in avro.get("fields", ()):
                yield from _logical_types(field["type"], f"{path}.{field['name']}" if path else field["name"])
        elif kind == "array":
            yield from _logical_types(avro.get("items"), f"{path}.element")
        elif kind == "map":
            yield from _logical_types(avro.get("values"), f"{path}.value")
        elif isinstance(kind, (dict, list)):
            yield from _logical_types(kind, path)


def missing_file(storage: Storage, split: Split, error: FileNotFoundError) -> HudiError:
    """Returns the error for a missing file of a split: damage if the table still refers to it, else it was cleaned."""
    lister, _ = metadata_lister(load_state(storage))
    paths = [file.path for file in (split.base_file, *split.log_files) if file is not None]
    listed = {info.path for info in lister.files(split.partition)}
    for path in paths:
        if path in listed and storage.stat(path) is None:
            return CorruptFileError(
                f"Cannot read file group {split.file_id} in partition '{split.partition}' of {split.spec.uri}: its "
                f"file {path} is missing, though no commit or clean removed it; restore it from a copy, or undo "
                "the commits that need it (rollback, restore); metadata.verify() compares all files"
            )
    return HistoryCleanedError(
        f"A file of file group {split.file_id} in partition '{split.partition}' of {split.spec.uri} was cleaned since "
        f"this read was planned ({error}); re-create the DataFrame, or scan again"
    )
