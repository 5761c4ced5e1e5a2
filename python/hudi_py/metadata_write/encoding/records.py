"""Records of the metadata table as index builders hand them to its writer, and the encoding of their values.

A value is the Avro binary of a `HoodieMetadataRecord` behind five empty meta columns, its key field empty: the key is
the HFile entry's (format reference 10.2; `HoodieMetadataPayload`, 1.2.0).
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
"""Avro JSON of the records with the meta columns before them, byte for byte as Apache Hudi 1.2.0 writes it into SCHEMA
headers and HFiles, whatever the table's version."""
_SCHEMA: Final[dict[str, Any]] = json.loads(SCHEMA_JSON)
RECORD: Final = resolve_record(_SCHEMA)
"""The schema of the records, resolved."""
ARROW_SCHEMA: Final[pa.Schema] = arrow_schema(_SCHEMA)
"""The records in Arrow. Unions of wrappers (`minValue`) are structs of `member0`, `member1`, ... in the order of their
branches without null; each member is a struct with the one field `value`."""

ALL_PARTITIONS_RECORD: Final = 1
FILES_RECORD: Final = 2
COLUMN_STATS_RECORD: Final = 3
BLOOM_FILTER_RECORD: Final = 4
RECORD_INDEX_RECORD: Final = 5
PARTITION_STATS_RECORD: Final = 6


def no_keys() -> pa.StringArray:
    """An empty array of keys."""
    return pa.array([], pa.string())


def no_values() -> pa.BinaryArray:
    """An empty array of values."""
    return pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class MetadataRecords:
    """What one index adds to its partition in one delta commit, or a part of it; in any order, keys unique."""

    partition: str
    """Of the metadata table: `files`, `column_stats`, `record_index`, ..."""
    keys: pa.StringArray = field(default_factory=no_keys)
    """Of HFile entries; no nulls."""
    values: pa.BinaryArray = field(default_factory=no_values)
    """As many as `keys`; see `encode_values`."""
    deleted: pa.StringArray = field(default_factory=no_keys)
    """Keys which a delete block takes away (record index)."""
    group: int | None = None
    """Number of the file group which takes them all; None: by the hash of each key (`metadata.keys.file_groups`)."""
    prefix: str | None = None
    """What precedes the group's number in file ids, where that is not the partition's own prefix: file groups of a
    record index by data partition, such as `record-index-<escaped partition>`."""


def encode_values(type_: int, fields: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The values of records of one type, a column at a time.

    Args:
        type_: number of the record's type (`FILES_RECORD`, ...).
        fields: columns of `ARROW_SCHEMA` by their names, such as a struct array for `ColumnStatsMetadata`; all of one
            length, at least one. Others are null.

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
