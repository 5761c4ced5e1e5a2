"""Side files of a slice with logs: positions of the base rows that the logs replace or delete, and the rows of the
logs.

They are in a folder that is no partition, so that no reader of Hudi's tables sees them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.formats.base.parquet_writer import fill_required, plain_writer
from hudi_py.interop.iceberg.columns import IcebergColumns
from hudi_py.read.slices.parts import CHUNK_ROWS, added_rows, replaced_rows
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.split import Split
from hudi_py.storage import Storage

ROWS: Final = "rows"
DELETES: Final = "deletes"
FILE_PATH_ID: Final = 2147483546
POSITION_ID: Final = 2147483545
"""Reserved ids of the columns of position delete files (specification, reserved field ids)."""
_ROW_GROUP: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class SideFile:
    """A Parquet file that was written for a slice."""

    path: str
    """Relative to the table."""
    rows: int
    size: int
    metadata: pq.FileMetaData


def side_name(slice_prefix: str, kind: str) -> str:
    """Returns a new path for a side file; `kind` is `ROWS` or `DELETES`."""
    return f"{slice_prefix}-{secrets.token_hex(4)}-{kind}.parquet"


def write_rows(storage: Storage, split: Split, path: str, columns: IcebergColumns) -> SideFile | None:
    """Writes the rows of a slice that its base file lacks; None if there are none."""
    batches = read_split_on(storage, split) if split.base_file is None else added_rows(storage, split)
    return _write_side_file(storage, path, columns.arrow(split.output_schema), _with_constants(batches, split))


def replaced_positions(storage: Storage, split: Split) -> Any:
    """Returns ascending positions (NumPy, int64) of the rows in a slice's base file that its logs replace or delete."""
    result = []
    for batch in replaced_rows(storage, split):
        for chunk, words in zip(batch.column("chunk").to_pylist(), batch.column("bits"), strict=True):
            bits = np.unpackbits(words.values.to_numpy().astype("<i8").view(np.uint8), bitorder="little")
            result.append(np.flatnonzero(bits) + chunk * CHUNK_ROWS)
    return np.concatenate(result) if result else np.empty(0, np.int64)


def write_deletes(storage: Storage, positions: Any, base: str, path: str) -> SideFile:
    """Writes a position delete file for the base file at the location `base`."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(FILE_PATH_ID).encode()}),
            pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(POSITION_ID).encode()}),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(positions), _ROW_GROUP):
            part = pa.array(positions[start : start + _ROW_GROUP], pa.int64())
            yield pa.RecordBatch.from_arrays([pa.repeat(base, len(part)), part], schema=schema)

    made = _write_side_file(storage, path, schema, batches())
    assert made is not None
    return made


def _with_constants(batches: Iterator[pa.RecordBatch], split: Split) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name, value in split.partition_values:
            index = batch.schema.get_field_index(name)
            if index >= 0:
                batch = batch.set_column(index, batch.schema.field(index), pa.repeat(value, batch.num_rows))
        yield batch


def _write_side_file(
    storage: Storage, path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> SideFile | None:
    footers: list[pq.FileMetaData] = []
    first = next(batches, None)
    if first is None:
        return None
    with storage.open_output(path) as out, plain_writer(out, schema, footers, store_schema=False) as writer:
        batch: pa.RecordBatch | None = first
        while batch is not None:
            rows = pa.RecordBatch.from_arrays(_cast_columns(batch, schema), schema=schema)
            writer.write_batch(fill_required(rows), _ROW_GROUP)
            batch = next(batches, None)
    size = storage.stat(path)
    assert size is not None
    return SideFile(path, footers[0].num_rows, size.size, footers[0])


def _cast_columns(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Casts columns to types that differ only in names, ids and nullability of their members."""
    return [
        column if column.type.equals(field.type, check_metadata=True) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
