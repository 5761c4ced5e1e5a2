"""Encodes Arrow rows as the content of an Avro data block, a column at a time."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.avro.encoders import CHUNK_ROWS, append
from hudi_py.formats.avro.rows import Rows, TooLargeError
from hudi_py.formats.avro.schema import AvroSchema, Record, admits_null, resolve_record

_VERSION = 3


def encode_log_content(batch: pa.RecordBatch | pa.Table, schema: AvroSchema) -> bytes:
    """Return the content of an Avro data block in one piece, see `encode_log_pieces`."""
    return b"".join(encode_log_pieces(batch, schema))


def encode_log_pieces(batch: pa.RecordBatch | pa.Table, schema: AvroSchema) -> list[bytes | pa.Buffer]:
    """Return the content of an Avro data block with the rows of `batch` (`HoodieAvroDataBlock`, version 3), in pieces.

    `schema` is the writer schema, a record; columns are matched to its fields by name, also nested ones. A nullable
    field that the batch lacks is null. Columns may be sliced, dictionary-encoded, large, views, or of another type that
    casts without loss: narrower integers and floats, other timestamp units and zones, other decimal digits.
    timestamp-millis rounds down to the millisecond, as Spark does.

    Raises:
        SchemaMismatchError: a column has nulls that the schema does not allow, or types or values that do not fit; the
            schema lacks a column; or the batch lacks a required field.
    """
    record = resolve_record(schema)
    given = batch.schema.names
    names = {name for name, _ in record.fields}
    for name in given:
        if name not in names:
            raise SchemaMismatchError(
                f"cannot write column {name!r}: the Avro schema {record.name!r} has no such field; leave it out"
            )
        if given.count(name) > 1:
            raise SchemaMismatchError(f"cannot write column {name!r}: the name occurs twice")
    for name, node in record.fields:
        if name not in given and not admits_null(node):
            raise SchemaMismatchError(
                f"cannot write rows without column {name!r}: its type in the table does not admit null"
            )
    parts: list[bytes | pa.Buffer] = [struct.pack(">ii", _VERSION, batch.num_rows)]
    for each in _chunks(batch):
        parts.extend(_encode(record, each))
    return parts


def encode_values(batch: pa.RecordBatch, schema: AvroSchema | Record) -> pa.BinaryArray:
    """Each row of `batch` as the Avro binary of the record `schema`, without framing.

    Columns are matched to the schema's fields and cast as in `encode_log_content`; a nullable field that the batch
    lacks is null.

    Raises:
        SchemaMismatchError: a value does not fit its field, or the rows take more than 2 GiB together.
    """
    try:
        rows = Rows(batch.num_rows)
        _append_columns(rows, resolve_record(schema), batch)
        offsets, data = rows.finish()
    except TooLargeError as error:
        raise SchemaMismatchError(
            f"cannot encode {batch.num_rows} rows of more than 2 GiB at once; encode fewer at a time"
        ) from error
    buffers = [None, pa.py_buffer(offsets.astype("<i4")), data]
    return pa.BinaryArray.from_buffers(pa.binary(), batch.num_rows, buffers)


def _chunks(batch: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    if isinstance(batch, pa.RecordBatch):
        for at in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(at, CHUNK_ROWS)
        return
    if any(column.num_chunks > 1 for column in batch.columns):
        with contextlib.suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # otherwise keep the chunks
            batch = batch.combine_chunks()
    yield from (each for each in batch.to_batches(max_chunksize=CHUNK_ROWS) if each.num_rows)


def _encode(record: Record, batch: pa.RecordBatch) -> list[pa.Buffer]:
    try:
        rows = Rows(batch.num_rows)
        rows.frame()
        _append_columns(rows, record, batch)
        return [rows.finish(framed=True)[1]]
    except TooLargeError as error:
        half = batch.num_rows // 2
        if not half:
            raise SchemaMismatchError("cannot write a row of more than 2 GiB to a log block") from error
        return _encode(record, batch.slice(0, half)) + _encode(record, batch.slice(half))


def _append_columns(rows: Rows, record: Record, batch: pa.RecordBatch) -> None:
    position = {name: i for i, name in enumerate(batch.schema.names)}
    for name, node in record.fields:
        column = batch.column(position[name]) if name in position else pa.nulls(batch.num_rows)
        append(rows, node, column, None, name)
