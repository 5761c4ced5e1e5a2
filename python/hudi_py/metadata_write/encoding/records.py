"""Records of the metadata table as index builders pass them to its writer, and the encoding of their values.

A value is the Avro binary of a `HoodieMetadataRecord` after five empty meta columns, with an empty key field: the key
is that of the HFile entry (`HoodieMetadataPayload`, 1.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import numpy as np
import pyarrow as pa

from hudi_py.formats.avro import arrow_schema, resolve_record
from hudi_py.formats.avro import encode_values as encode_avro

SCHEMA_JSON: Final[str] = (
    resources.files(__package__).joinpath("avsc").joinpath("HoodieMetadataRecord.avsc").read_text(encoding="utf-8")
)
"""Avro JSON of the records, including the meta columns, byte for byte as Apache Hudi 1.2.0 writes it into SCHEMA
headers and HFiles, whatever the table version."""
_SCHEMA: Final[dict[str, Any]] = json.loads(SCHEMA_JSON)
RECORD: Final = resolve_record(_SCHEMA)
"""The resolved schema of the records."""
ARROW_SCHEMA: Final[pa.Schema] = arrow_schema(_SCHEMA)
"""Arrow schema of the records. Unions of wrappers (`minValue`) are structs of `member0`, `member1`, ... in the order of
their non-null branches; each member is a struct with the single field `value`."""

ALL_PARTITIONS_RECORD: Final = 1
FILES_RECORD: Final = 2
COLUMN_STATS_RECORD: Final = 3
BLOOM_FILTER_RECORD: Final = 4
RECORD_INDEX_RECORD: Final = 5
PARTITION_STATS_RECORD: Final = 6
SECONDARY_INDEX_RECORD: Final = 7


def no_keys() -> pa.StringArray:
    """An empty array of keys."""
    return pa.array([], pa.string())


def no_values() -> pa.BinaryArray:
    """An empty array of values."""
    return pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class MetadataRecords:
    """Records that one index adds to its partition in one delta commit, or some of them; in any order, keys unique."""

    partition: str
    """Partition of the metadata table: `files`, `column_stats`, `record_index`, ..."""
    keys: pa.StringArray = field(default_factory=no_keys)
    """Keys of HFile entries; no nulls."""
    values: pa.BinaryArray = field(default_factory=no_values)
    """One value for each of `keys`; see `encode_values`."""
    deleted: pa.StringArray = field(default_factory=no_keys)
    """Keys that a delete block removes (record index)."""
    group: int | None = None
    """Number of the file group that takes all records; None: chosen by the hash of each key
    (`metadata.keys.file_groups`)."""
    by_prefix: bool = False
    """Whether the value in the key of a secondary index chooses the file group, rather than the whole key."""
    prefix: str | None = None
    """What precedes the file group's number in file ids if it is not the partition's own prefix: for a partitioned
    record index, `record-index-<escaped partition>`."""


def encode_values(type_: int, fields: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Encodes the values of records of one type, column by column.

    Args:
        type_: number of the record type (`FILES_RECORD`, ...).
        fields: columns of `ARROW_SCHEMA` by name, such as a struct array for `ColumnStatsMetadata`; at least one, all
            of the same length. Other columns are null.

    Raises:
        SchemaMismatchError: a value does not fit its field.
    """
    count = len(next(iter(fields.values())))
    columns: dict[str, pa.Array] = {
        "key": pa.repeat("", count),
        "type": pa.array(np.full(count, type_, np.int32)),
        **fields,
    }
    return encode_avro(pa.RecordBatch.from_pydict(columns), RECORD)
