"""Encodes Arrow rows as the content of Avro data blocks, a column at a time: appends arrays to rows of bytes.

`act` is 1 where a row has the value and 0 below a null; None if all rows have it (as in the decoders). Arrow arrays may
be slices, dictionaries, views or of a narrower type: each leaf is cast without loss to the Arrow type of its Avro type.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError, first_line
from hudi_py.formats.arrays import is_bytes, is_text
from hudi_py.formats.avro import schema as avro
from hudi_py.formats.avro.rows import Flags, Lengths, Rows, TooLargeError
from hudi_py.formats.avro.schema import AvroSchema, Record, admits_null, resolve_record
from hudi_py.formats.hudi_types import vector_bytes

CHUNK_ROWS = 16384
_LIMIT = (1 << 31) - 1
_is = pa.types
_VERSION = 3


def encode_items(node: avro.Node, array: pa.Array, path: str) -> tuple[Lengths, Any]:
    """Returns offsets and bytes of an array's encoded values."""
    if len(array) <= CHUNK_ROWS:
        return _encode_items(node, array, path)
    offsets, parts, base = [np.zeros(1, np.int64)], [], 0
    for start in range(0, len(array), CHUNK_ROWS):
        inner, data = _encode_items(node, array.slice(start, CHUNK_ROWS), path)
        offsets.append(inner[1:] + base)
        base += int(inner[-1])
        parts.append(data)
    if base > _LIMIT:
        raise TooLargeError
    return np.concatenate(offsets), b"".join(parts)


def _encode_items(node: avro.Node, array: pa.Array, path: str) -> tuple[Lengths, Any]:
    rows = Rows(len(array))
    append(rows, node, array, None, path)
    return rows.finish()


def append(rows: Rows, node: avro.Node, array: pa.Array, act: Flags | None, path: str) -> None:
    """Appends a column. Raises SchemaMismatchError naming `path`, TooLargeError."""
    array = _plain_storage(array)
    if isinstance(node, avro.Nullable):
        _append_nullable(rows, node, array, act, path)
        return
    if isinstance(node, avro.Choice):
        _append_choice(rows, node, array, act, path)
        return
    if isinstance(node, avro.Null):
        if array.null_count < len(array):
            raise SchemaMismatchError(f"cannot write column {path!r}: its Avro type is null, but it has values")
        return
    if array.null_count:
        _refuse_nulls(array, act, path)
        if _is.is_null(array.type):
            array = pa.nulls(len(array), avro.arrow_of(node))
    if isinstance(node, avro.Record):
        for name, field, child in _struct_children(array, node.fields, path):
            append(rows, field, child, act, f"{path}.{name}")
    elif isinstance(node, avro.Array):
        _append_list(rows, node.item, _as_list(array, path), act, path)
    elif isinstance(node, avro.Map):
        if not isinstance(array, pa.MapArray):
            raise _mismatch_error(path, array.type, "map")
        entry = avro.Record("entry", [("key", avro.Bytes(pa.string())), ("value", node.value)])
        _append_list(rows, entry, array, act, path)
    elif isinstance(node, avro.Boolean):
        if not _is.is_boolean(array.type):
            raise _mismatch_error(path, array.type, "boolean")
        rows.byte(_fill_nulls(array).cast(pa.uint8()).to_numpy(), act)
    elif isinstance(node, avro.Integer):
        _append_integer(rows, node, array, act, path)
    elif isinstance(node, avro.FixedWidth):
        _append_fixed(rows, node, array, act, path)
    elif isinstance(node, avro.FixedVector):
        _append_vector(rows, node, array, act, path)
    elif isinstance(node, avro.Bytes):
        _append_bytes(rows, _as_bytes(array, node.arrow, path), act)
    elif isinstance(node, avro.Enum):
        _append_enum(rows, node, array, act, path)
    else:
        _append_decimal(rows, node, array, act, path)


def _append_nullable(rows: Rows, node: avro.Nullable, array: pa.Array, act: Flags | None, path: str) -> None:
    if _is.is_null(array.type) or (len(array) and array.null_count == len(array)):
        rows.byte(np.full(rows.n, 2 * (1 - node.value_index), np.uint8), act)
        return
    if not array.null_count:
        rows.byte(np.full(rows.n, 2 * node.value_index, np.uint8), act)
        append(rows, node.value, array, act, path)
        return
    valid = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    rows.byte((valid if node.value_index else 1 - valid) * np.uint8(2), act)
    append(rows, node.value, array, valid if act is None else valid * act, path)


def _append_choice(rows: Rows, node: avro.Choice, array: pa.Array, act: Flags | None, path: str) -> None:
    null_index = node.null_index
    if null_index is not None and array.null_count == len(array):
        rows.varint(np.full(rows.n, null_index), act)
        return
    if _is.is_null(array.type):
        array = pa.nulls(len(array), avro.arrow_of(node))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if node.number is not None:
        wide = next(i for i, b in enumerate(node.branches) if avro.arrow_of(b) == node.number)
        chosen = np.where(valid, wide, -1)
        columns = [(wide, node.branches[wide], array)]
    else:
        chosen = np.full(rows.n, -1)
        columns = []
        members = _struct_children(array, avro.struct_members(node), path)
        branches = [i for i in range(len(node.branches)) if i != null_index]
        for i, (_, branch, child) in zip(branches, members, strict=True):
            if child.null_count == len(child):
                continue
            child = _plain_storage(child)
            given = child.is_valid().to_numpy(zero_copy_only=False)
            chosen[valid & given & (chosen < 0)] = i  # the first match counts, as in Spark
            columns.append((i, branch, child))
    if null_index is not None:
        chosen[chosen < 0] = null_index
    elif bool((chosen < 0).any() if act is None else (chosen[act == 1] < 0).any()):
        raise SchemaMismatchError(f"cannot write column {path!r}: a row has no value, but its Avro union has no null")
    rows.varint(np.maximum(chosen, 0), act)
    for i, branch, child in columns:
        here = (chosen == i).view(np.uint8)
        if here.any():
            append(rows, branch, child, here if act is None else here * act, path)


def _append_integer(rows: Rows, node: avro.Integer, array: pa.Array, act: Flags | None, path: str) -> None:
    array = _cast_column(array, node.arrow, _same_kind_of_number(array.type, node.arrow), path)
    values = _column_numbers(array, np.int32 if node.bits == 32 else np.int64).astype(np.int64, copy=False)
    # milliseconds round down, as Spark's `microsToMillis`
    rows.varint(values // node.factor if node.factor != 1 else values, act)


def _append_fixed(rows: Rows, node: avro.FixedWidth, array: pa.Array, act: Flags | None, path: str) -> None:
    floats = _is.is_floating(array.type) and _is.is_floating(node.arrow) and array.type.bit_width <= node.size * 8
    array = _cast_column(array, node.arrow, floats or (is_bytes(array.type) and is_bytes(node.arrow)), path)
    if not node.size:
        return
    values = _column_numbers(array, f"<u{node.size}" if node.size in (4, 8) else f"V{node.size}")
    rows.put(values, node.size if act is None else act * np.int64(node.size))


def _append_vector(rows: Rows, node: avro.FixedVector, array: pa.Array, act: Flags | None, path: str) -> None:
    stored = vector_bytes(array, node.arrow.value_type, node.dimension, path)
    values = _column_numbers(stored, f"V{node.size}")
    rows.put(values, node.size if act is None else act * np.int64(node.size))


def _append_bytes(rows: Rows, array: pa.Array, act: Flags | None) -> None:
    _, offset_buffer, data = array.buffers()
    offsets = _numbers_of(offset_buffer, np.int32, array.offset, len(array) + 1)
    length = np.diff(offsets).astype(np.int64)
    content = pa.py_buffer(b"") if data is None else data
    if act is not None:
        kept = length * act
        if (kept != length).any():  # nulls with bytes
            rows.varint(kept, act)
            rows.ranges(content, offsets[:-1], kept)
            return
    rows.varint(length, act)
    rows.strings(content, offsets, length)


def _append_enum(rows: Rows, node: avro.Enum, array: pa.Array, act: Flags | None, path: str) -> None:
    array = _as_bytes(array, pa.string(), path)
    index = pc.index_in(array, pa.array(node.symbols, pa.string()))
    unknown = pc.and_(index.is_null(), array.is_valid()).to_numpy(zero_copy_only=False)
    if act is not None:
        unknown = unknown & (act == 1)
    if unknown.any():
        value = array[int(np.flatnonzero(unknown)[0])].as_py()
        raise SchemaMismatchError(
            f"cannot write {value!r} to column {path!r}: its Avro enum has the symbols {', '.join(node.symbols)}"
        )
    rows.varint(index.fill_null(0).to_numpy().astype(np.int64), act)


def _append_decimal(rows: Rows, node: avro.Decimal, array: pa.Array, act: Flags | None, path: str) -> None:
    array = _cast_column(array, node.arrow, _is.is_decimal(array.type), path)
    width = node.arrow.bit_width // 8
    n = len(array)
    little = _column_numbers(array, f"V{width}").view(np.uint8).reshape(n, width)
    sign = ((little[:, -1] >> 7) * np.uint8(255))[:, None]
    if node.size is not None:
        size = node.size
        if size < width:
            surplus = (little[:, size:] != sign).any(1)
            if (surplus if act is None else surplus & (act == 1)).any():
                raise SchemaMismatchError(
                    f"cannot write column {path!r}: a value has more digits than its type {array.type}"
                )
        big = np.empty((n, size), np.uint8)
        kept = min(size, width)
        big[:, size - kept :] = little[:, :kept][:, ::-1]
        big[:, : size - kept] = sign
        rows.put(big.reshape(-1).view(f"V{size}"), size if act is None else act * np.int64(size))
        return
    # the shortest two's complement, as in Java's BigInteger.toByteArray
    differs = little != sign
    last = width - 1 - differs[:, ::-1].argmax(1)
    last[~differs.any(1)] = 0
    length = last + 1 + ((little[np.arange(n), last] >> 7) != (sign[:, 0] & 1))
    length = np.minimum(length, width).astype(np.int64)
    if act is not None:
        length *= act
    big = np.ascontiguousarray(little[:, ::-1])
    first = np.arange(n)[:, None] * width + (width - length)[:, None]
    shifted = big.reshape(-1)[np.minimum(first + np.arange(width), max(big.size - 1, 0))] if n else big
    rows.varint(length, act)
    rows.put(np.ascontiguousarray(shifted).reshape(-1).view(f"V{width}"), length)


def _append_list(rows: Rows, item: avro.Node, array: pa.Array, act: Flags | None, path: str) -> None:
    offsets = _numbers_of(array.buffers()[1], np.int32, array.offset, len(array) + 1).astype(np.int64)
    counts = np.diff(offsets)
    live = act
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        live = valid if act is None else act * valid
    if live is not None and bool((counts * live != counts).any()):
        # null lists with items: `take` removes the items
        array = array.take(pa.array(np.arange(len(array)), mask=live == 0))
        offsets = _numbers_of(array.buffers()[1], np.int32, array.offset, len(array) + 1).astype(np.int64)
        counts = np.diff(offsets)
    if isinstance(array, pa.MapArray):
        child = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    else:
        child = array.values
    child = child.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))  # `values` ignores slicing
    inner, data = encode_items(item, child, path)
    start = inner[offsets[:-1] - offsets[0]]
    size = inner[offsets[1:] - offsets[0]] - start
    rows.varint(counts, act)
    rows.ranges(data, start, size)
    rows.put(np.zeros(rows.n, np.uint8), (counts > 0).view(np.uint8))


def _struct_children(
    array: pa.Array, fields: list[tuple[str, avro.Node]], path: str
) -> list[tuple[str, avro.Node, pa.Array]]:
    """Returns the children of a struct by name; null for those that it lacks."""
    if not _is.is_struct(array.type):
        raise _mismatch_error(path, array.type, "record")
    given = [field.name for field in array.type]
    names = {name for name, _ in fields}
    for name in given:
        if name not in names or given.count(name) > 1:
            why = "the Avro schema has no such field" if name not in names else "the name occurs twice"
            raise SchemaMismatchError(f"cannot write column '{path}.{name}': {why}")
    return [(n, f, array.field(given.index(n)) if n in given else pa.nulls(len(array))) for n, f in fields]


def _plain_storage(array: pa.Array) -> pa.Array:
    """Removes dictionary encoding, run-end encoding and extension types."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        elif isinstance(array, pa.RunEndEncodedArray):
            array = pc.run_end_decode(array)
        else:
            return array


def _as_list(array: pa.Array, path: str) -> pa.ListArray:
    kind = array.type
    if isinstance(kind, pa.ListType):
        return array
    if isinstance(kind, (pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)):
        # not by a cast: for list views it omits the last offset (pyarrow 26)
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(), out=offsets[1:])
        if int(offsets[-1]) > _LIMIT:
            raise TooLargeError
        valid = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
        target, buffers = pa.list_(kind.value_field), [valid, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(target, len(array), buffers, children=[array.flatten()])
    raise _mismatch_error(path, kind, "array")


def _as_bytes(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target:
        return array
    allowed = is_bytes(array.type) if _is.is_binary(target) else is_text(array.type)
    if allowed and array.type.id in (pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY) and len(array):
        offsets = _numbers_of(array.buffers()[1], np.int64, array.offset, len(array) + 1)
        if int(offsets[-1] - offsets[0]) > _LIMIT:
            raise TooLargeError
    return _cast_column(array, target, allowed, path)


def _cast_column(array: pa.Array, target: pa.DataType, allowed: bool, path: str) -> pa.Array:
    if array.type == target:
        return array
    if not allowed:
        raise _mismatch_error(path, array.type, str(target))
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"cannot write column {path!r} of type {array.type} as {target}: {first_line(error)}"
        ) from error


def _same_kind_of_number(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a cast between types that are integers in Avro keeps the meaning."""
    if _is.is_timestamp(target):
        # local times and instants are not converted: the zone is unknown
        return bool(_is.is_timestamp(source)) and (source.tz is None) == (target.tz is None)
    if _is.is_date(target):
        return bool(_is.is_date(source))
    return bool(_is.is_integer(source)) or source in (pa.time32("ms"), pa.time64("us"))


def _refuse_nulls(array: pa.Array, act: Flags | None, path: str) -> None:
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if act is not None:
        missing = missing & (act == 1)
    if missing.any():
        raise SchemaMismatchError(
            f"cannot write column {path!r}: {int(missing.sum())} of {len(array)} values are null, "
            f"but its type in the table does not allow null"
        )


def _fill_nulls(array: pa.BooleanArray) -> pa.BooleanArray:
    return array.fill_null(False) if array.null_count else array


def _column_numbers(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    return _numbers_of(array.buffers()[1], dtype, array.offset, len(array))


def _numbers_of(buffer: pa.Buffer | None, dtype: Any, offset: int, length: int) -> npt.NDArray[Any]:
    """Returns `length` elements of an Arrow buffer; an empty array may lack its offset or the buffer."""
    size = np.dtype(dtype).itemsize
    if length <= 1 and (buffer is None or buffer.size < (offset + length) * size):
        return np.zeros(length, dtype)
    assert buffer is not None
    return np.frombuffer(buffer, dtype, length, offset * size)


def _mismatch_error(path: str, given: pa.DataType, wanted: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"cannot write column {path!r} of type {given}: its type in the table is {wanted}; cast it"
    )


def encode_log_content(batch: pa.RecordBatch | pa.Table, schema: AvroSchema) -> bytes:
    """Encodes an Avro data block in one piece, see `encode_log_pieces`."""
    return b"".join(encode_log_pieces(batch, schema))


def encode_log_pieces(batch: pa.RecordBatch | pa.Table, schema: AvroSchema) -> list[bytes | pa.Buffer]:
    """Encodes an Avro data block with the rows of `batch` (`HoodieAvroDataBlock`, version 3), in pieces.

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
                f"cannot write column {name!r}: the Avro schema {record.name!r} has no such field; remove the column"
            )
        if given.count(name) > 1:
            raise SchemaMismatchError(f"cannot write column {name!r}: the name occurs twice")
    for name, node in record.fields:
        if name not in given and not admits_null(node):
            raise SchemaMismatchError(
                f"cannot write rows without column {name!r}: its type in the table does not admit null"
            )
    parts: list[bytes | pa.Buffer] = [struct.pack(">ii", _VERSION, batch.num_rows)]
    for chunk in _row_chunks(batch):
        parts.extend(_encode_rows(record, chunk))
    return parts


def encode_values(batch: pa.RecordBatch, schema: AvroSchema | Record) -> pa.BinaryArray:
    """Encodes each row of `batch` as the Avro binary of the record `schema`, without framing.

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


def _row_chunks(batch: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    if isinstance(batch, pa.RecordBatch):
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(start, CHUNK_ROWS)
        return
    if any(column.num_chunks > 1 for column in batch.columns):
        with contextlib.suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):  # otherwise keep the chunks
            batch = batch.combine_chunks()
    yield from (item for item in batch.to_batches(max_chunksize=CHUNK_ROWS) if item.num_rows)


def _encode_rows(record: Record, batch: pa.RecordBatch) -> list[pa.Buffer]:
    try:
        rows = Rows(batch.num_rows)
        rows.frame()
        _append_columns(rows, record, batch)
        return [rows.finish(framed=True)[1]]
    except TooLargeError as error:
        half = batch.num_rows // 2
        if not half:
            raise SchemaMismatchError("cannot write a row of more than 2 GiB to a log block") from error
        return _encode_rows(record, batch.slice(0, half)) + _encode_rows(record, batch.slice(half))


def _append_columns(rows: Rows, record: Record, batch: pa.RecordBatch) -> None:
    position = {name: i for i, name in enumerate(batch.schema.names)}
    for name, node in record.fields:
        column = batch.column(position[name]) if name in position else pa.nulls(batch.num_rows)
        append(rows, node, column, None, name)
