"""Decodes Avro data blocks of log files into Arrow, a column at a time.

A block's content is `int32 version, int32 count` and for every record `int32 length` and its Avro bytes, all big-endian
(`HoodieAvroDataBlock`; the same in versions 1 to 3). Every record of the given blocks gets a cursor, and the schema is
walked once for about 16 thousand of them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from hudi_py.errors import UnsupportedTableError, first_line
from hudi_py.formats.avro.cursor import ByteBlock, CorruptBytesError, Cursors, reading
from hudi_py.formats.avro.decoders import RecordDecoder, compile_columns, widest_value
from hudi_py.formats.avro.schema import AvroSchema, Record, resolve_record

_HEADER = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_VERSIONS = (1, 2, 3)
_CHUNK_ROWS = 16384
_CHUNK_BYTES = 1 << 28
_BUFFER_BYTES = 1 << 29
_WHAT = "an Avro data block"


def decode_log_batches(
    contents: Sequence[bytes | bytearray | memoryview],
    schema: AvroSchema,
    columns: Collection[str] | None = None,
    *,
    context: str = "",
) -> Iterator[pa.RecordBatch]:
    """Decodes as `decode_log_content`, in batches of at most 16384 rows; yields nothing if there are no rows."""
    decoder = compile_columns(resolve_record(schema), columns)
    for parts in _content_groups([memoryview(content).cast("B") for content in contents]):
        with reading(context, _WHAT):
            block = ByteBlock(parts, widest_value(decoder))
            first, last = _record_spans(block, parts)
        for start, end in _row_chunks(first, last):
            with reading(context, _WHAT):
                batch = _decode_rows(block, decoder, first[start:end], last[start:end])
            yield batch


def decode_values(
    values: pa.Array, schema: AvroSchema | Record, columns: Collection[str] | None = None, *, context: str = ""
) -> Iterator[pa.RecordBatch]:
    """Decodes a binary array without nulls, where each value is one Avro record, such as the values of an HFile.

    For types, batches and errors see `decode_log_batches`.
    """
    decoder = compile_columns(resolve_record(schema), columns)
    if not len(values):
        return
    bounds = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = memoryview(values.buffers()[2] or b"").cast("B")[int(bounds[0]) : int(bounds[-1])]
    with reading(context, _WHAT):
        block = ByteBlock([data], widest_value(decoder))
        places = bounds.astype(np.int64) - int(bounds[0]) + block.starts[0]
    for start, end in _row_chunks(places[:-1], places[1:]):
        with reading(context, _WHAT):
            batch = _decode_rows(block, decoder, places[start:end], places[start + 1 : end + 1])
        yield batch


def decode_log_content(
    contents: Sequence[bytes | bytearray | memoryview],
    schema: AvroSchema,
    columns: Collection[str] | None = None,
    *,
    context: str = "",
) -> pa.RecordBatch:
    """Decodes the records of Avro data blocks, in order.

    Args:
        contents: the blocks' contents, all written with `schema`.
        schema: a record.
        columns: fields to decode, ignoring unknown names; None: all. The batch has them in the schema's order, with
            the types of `arrow_schema`.
        context: the file, for errors.

    Raises:
        CorruptFileError: the bytes do not match the schema (lengths, union branches, UTF-8, decimal digits, record
            ends).
        UnsupportedTableError: `arrow_type` does not support a type, or a column has more than 2 GiB of bytes or items.
    """
    batches = list(decode_log_batches(contents, schema, columns, context=context))
    if len(batches) == 1:
        return batches[0]
    arrow = pa.schema(list(compile_columns(resolve_record(schema), columns).arrow))
    rows = sum(batch.num_rows for batch in batches)
    if not batches or not arrow.names:
        return _row_batch(arrow, [pa.nulls(0, field.type) for field in arrow], rows if not arrow.names else 0)
    try:
        gathered = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(arrow.names))]
    except pa.ArrowInvalid as error:
        where = f" of {context}" if context else ""
        raise UnsupportedTableError(
            f"cannot decode the Avro data blocks{where} into one batch: a column has more than 2 GiB in {rows} rows; "
            f"decode fewer blocks at once"
        ) from error
    return pa.RecordBatch.from_arrays(gathered, schema=arrow)


def _content_groups(parts: list[memoryview]) -> Iterator[list[memoryview]]:
    """Groups adjacent contents up to the size of a buffer."""
    group: list[memoryview] = []
    size = 0
    for part in parts:
        if group and size + len(part) > _BUFFER_BYTES:
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part)
    if group:
        yield group


def _record_spans(block: ByteBlock, parts: list[memoryview]) -> tuple[Cursors, Cursors]:
    """Finds the start and end of every record."""
    firsts, lasts = [], []
    for start, part in zip(block.starts, parts, strict=True):
        first, last = _frame_spans(part)
        firsts.append(first + start)
        lasts.append(last + start)
    return np.concatenate(firsts), np.concatenate(lasts)


def _frame_spans(part: memoryview) -> tuple[Cursors, Cursors]:
    if len(part) < _HEADER.size:
        raise CorruptBytesError(f"it has {len(part)} bytes; expected at least the {_HEADER.size} of its header")
    version, count = _HEADER.unpack_from(part)
    if version not in _VERSIONS:
        raise CorruptBytesError(f"it has version {version}, and the supported ones are 1 to 3")
    if not 0 <= count <= (len(part) - _HEADER.size) // _LENGTH.size:
        raise CorruptBytesError(f"it claims {count} records in {len(part)} bytes")
    result = [0] * count
    offset = _HEADER.size
    unpack = _LENGTH.unpack_from
    try:
        # a Python loop: each length gives the position of the next one
        for i in range(count):
            result[i] = offset
            offset += unpack(part, offset)[0] + 4
    except struct.error as error:
        raise CorruptBytesError("a record runs past the end") from error
    first = np.array(result, np.int64) + 4
    last = np.append(first[1:] - 4, offset) if count else first
    if offset != len(part) or bool((last < first).any()):
        raise CorruptBytesError("its records do not end where it ends")
    return first, last


def _row_chunks(first: Cursors, last: Cursors) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(first):
        end = min(start + _CHUNK_ROWS, len(first))
        if int(last[end - 1] - first[start]) > _CHUNK_BYTES:
            end = max(start + 1, int(np.searchsorted(last, first[start] + _CHUNK_BYTES, "right")))
        yield start, end
        start = end


def _decode_rows(block: ByteBlock, decoder: RecordDecoder, first: Cursors, last: Cursors) -> pa.RecordBatch:
    pos = first.copy()
    columns = decoder.columns(block, pos, None)
    if not np.array_equal(pos, last):
        raise CorruptBytesError("a record does not end where its length says")
    schema = pa.schema(list(decoder.arrow))
    for name, column in zip(schema.names, columns, strict=True):
        try:
            column.validate(full=True)  # UTF-8 and decimal digits
        except pa.ArrowInvalid as error:
            raise CorruptBytesError(f"field {name!r}: {first_line(error)}") from error
    return _row_batch(schema, columns, len(pos))


def _row_batch(schema: pa.Schema, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
