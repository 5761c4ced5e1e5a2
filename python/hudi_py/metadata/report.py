"""Lists the metadata table's records as rows, with the columns of Apache Hudi's table function `hudi_metadata`
(1.2.0)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import TableNotFoundError
from hudi_py.metadata.files import read_files
from hudi_py.metadata.keys import ALL_PARTITIONS
from hudi_py.metadata.records import RecordFields
from hudi_py.metadata.table import FILES, MetadataTable, open_metadata
from hudi_py.schema import conform
from hudi_py.timeline.state import TableState


def _wrapper_members(*kinds: pa.DataType) -> list[pa.Field]:
    return [pa.field(f"member{n}", pa.struct([("value", kind)])) for n, kind in enumerate(kinds)]


_WRAPPERS: Final = _wrapper_members(
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.binary(),
    pa.string(),
    pa.int32(),
    pa.decimal128(30, 15),
    pa.int64(),
    pa.int64(),
    pa.int32(),
)
_ARRAY: Final = pa.field(
    f"member{len(_WRAPPERS)}", pa.struct([("wrappedValues", pa.list_(pa.field("element", pa.struct(_WRAPPERS))))])
)
_BOUND: Final = pa.struct([*_WRAPPERS, _ARRAY])
_PAYLOAD: Final = pa.schema(
    [
        ("type", pa.int32()),
        ("filesystemMetadata", pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))),
        (
            "BloomFilterMetadata",
            pa.struct(
                [
                    ("type", pa.string()),
                    ("timestamp", pa.string()),
                    ("bloomFilter", pa.binary()),
                    ("isDeleted", pa.bool_()),
                ]
            ),
        ),
        (
            "ColumnStatsMetadata",
            pa.struct(
                [
                    ("fileName", pa.string()),
                    ("columnName", pa.string()),
                    ("minValue", _BOUND),
                    ("maxValue", _BOUND),
                    ("valueCount", pa.int64()),
                    ("nullCount", pa.int64()),
                    ("totalSize", pa.int64()),
                    ("totalUncompressedSize", pa.int64()),
                    ("isDeleted", pa.bool_()),
                    ("isTightBound", pa.bool_()),
                    ("valueType", pa.struct([("typeOrdinal", pa.int32()), ("additionalInfo", pa.string())])),
                ]
            ),
        ),
        (
            "recordIndexMetadata",
            pa.struct(
                [
                    ("partitionName", pa.string()),
                    ("fileIdHighBits", pa.int64()),
                    ("fileIdLowBits", pa.int64()),
                    ("fileIndex", pa.int32()),
                    ("fileId", pa.string()),
                    ("instantTime", pa.int64()),
                    ("fileIdEncoding", pa.int32()),
                    ("position", pa.int64()),
                ]
            ),
        ),
        ("SecondaryIndexMetadata", pa.struct([("isDeleted", pa.bool_())])),
    ]
)
METADATA_SCHEMA: Final = pa.schema([("key", pa.string()), *_PAYLOAD])
"""Columns of `metadata_report`. `member<n>` are the branches of the unions in which bounds are stored: boolean, int,
long, float, double, bytes, string, date, decimal, time and timestamp in microseconds, local date, list."""
_PARTITION_LIST: Final = 1
_FILE_LIST: Final = 2


def metadata_report(state: TableState) -> pa.Table:
    """Lists the current records of all partitions of the metadata table, one per row: `METADATA_SCHEMA`.

    Partitions are in alphabetical order, their records by file group. Removed files are left out.

    Raises:
        TableNotFoundError: the table has no metadata table.
        CorruptFileError, UnsupportedTableError: it cannot be read.
    """
    metadata = open_metadata(state)
    if metadata is None:
        raise TableNotFoundError(
            f"Table at {state.storage.uri} has no metadata table: hoodie.table.metadata.partitions does not name "
            f"'{FILES}'"
        )
    tables = [_file_rows(metadata)]
    for partition in sorted(metadata.partitions):
        if partition != FILES:
            versions = metadata.records(partition, RecordFields(_PAYLOAD.names, _PAYLOAD, _conform_payload))
            rows = pa.array(versions.newest())
            payload = versions.fields.take(rows)
            tables.append(payload.add_column(0, METADATA_SCHEMA.field(0), versions.keys.take(rows)))
    return pa.concat_tables([table.cast(METADATA_SCHEMA) for table in tables])


def _conform_payload(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
    return conform(batch, _PAYLOAD, context="the metadata table")


def _file_rows(metadata: MetadataTable) -> pa.Table:
    result = sorted(read_files(metadata).items())
    kinds = [_PARTITION_LIST if key == ALL_PARTITIONS else _FILE_LIST for key, _ in result]
    maps = [[(name, {"size": size, "isDeleted": False}) for name, size in sorted(files.items())] for _, files in result]
    arrays = [
        pa.array([key for key, _ in result], pa.string()),
        pa.array(kinds, pa.int32()),
        pa.array(maps, METADATA_SCHEMA.field("filesystemMetadata").type),
    ]
    arrays += [pa.nulls(len(result), field.type) for field in list(METADATA_SCHEMA)[len(arrays) :]]
    return pa.Table.from_arrays(arrays, schema=METADATA_SCHEMA)
