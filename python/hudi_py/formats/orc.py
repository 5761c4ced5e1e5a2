"""Reads ORC base files.

Apache Hudi (`AvroOrcUtils`, 1.2.0) writes timestamps with a zone as ORC's TIMESTAMP: wall-clock time in the writer's
zone, without the milliseconds, which it loses; timestamps without a zone are longs. Like its reader, this module
interprets the wall-clock time in the reading process's zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.parquet import BATCH_ROWS, BaseFileFooter, canonical_type, empty_columns, footer_with

try:
    from pyarrow import orc
except ImportError:  # some builds of pyarrow lack it
    orc = None

if TYPE_CHECKING:
    from hudi_py.storage import Storage

AVRO_SCHEMA = "orc.avro.schema"


@contextmanager
def open_orc(storage: Storage, path: str) -> Iterator[Any]:
    """Opens a base file as a `pyarrow.orc.ORCFile`. Arrow's errors in the context become `CorruptFileError`.

    Raises:
        CorruptFileError: the file is not an ORC file, or is damaged.
        FileNotFoundError: the file does not exist.
        UnsupportedTableError: pyarrow was built without ORC, or a timestamp is out of range for Arrow's ORC reader.
    """
    if orc is None:
        raise UnsupportedTableError(
            f"Cannot read base file {path}: this build of pyarrow has no ORC; install pyarrow from PyPI"
        )
    with storage.open_input(path) as source, _damage_named(path):
        yield orc.ORCFile(source)


def orc_rows(storage: Storage, path: str) -> int:
    """Number of rows of a base file, from its footer. Raises what `open_orc` raises."""
    with open_orc(storage, path) as file:
        return int(file.nrows)


def orc_metadata(storage: Storage, path: str) -> dict[str, str]:
    """The key-value pairs of a base file's footer, including the bloom filter. Raises what `open_orc` raises."""
    with open_orc(storage, path) as file:
        pairs: dict[bytes, bytes] = dict(file.metadata or {})
    try:
        return {key.decode(): value.decode() for key, value in pairs.items()}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"Cannot read the footer of {path}: {error}") from error


def orc_footer(storage: Storage, path: str) -> BaseFileFooter:
    """The footer of a base file. Raises what `open_orc` raises."""
    texts = orc_metadata(storage, path)
    with open_orc(storage, path) as file:
        return footer_with(path, int(file.nrows), int(file.nstripes), _canonical_schema(file.schema), texts)


def orc_schema(storage: Storage, path: str) -> pa.Schema:
    """The schema of `iter_orc_batches`. Raises what `open_orc` raises."""
    with open_orc(storage, path) as file:
        return _canonical_schema(file.schema)


def stripe_sizes(storage: Storage, path: str) -> list[int]:
    """Approximate bytes of each stripe, for splitting a file: Arrow does not expose them, so all are equal."""
    with open_orc(storage, path) as file:
        count = int(file.nstripes)
        return [int(file.content_length) // count] * count if count else []


def iter_orc_batches(
    storage: Storage,
    path: str,
    columns: Collection[str] | None,
    *,
    batch_rows: int = BATCH_ROWS,
    stripes: Sequence[int] | None = None,
    zone: str = "UTC",
) -> Iterator[pa.RecordBatch]:
    """Yields a base file's rows in order, holding one stripe in memory.

    Types are those of `formats.parquet.iter_base_batches`. Timestamps are timestamp[us, UTC].

    Args:
        columns: as in `formats.parquet.iter_base_batches`.
        batch_rows: maximum rows of a batch.
        stripes: read only these, by number.
        zone: zone of the file's wall-clock timestamps, a name in the time zone database.

    Raises:
        CorruptFileError, UnsupportedTableError, FileNotFoundError: see `open_orc`.
    """
    with open_orc(storage, path) as file:
        found: pa.Schema = file.schema
        schema = _canonical_schema(found)
        names = schema.names if columns is None else [name for name in columns if name in schema.names]
        if not names and stripes is None:
            yield from empty_columns(file.nrows, batch_rows)
            return
        output = pa.schema([schema.field(name) for name in names])
        read = names or found.names[:1]
        for stripe in range(file.nstripes) if stripes is None else stripes:
            batch = file.read_stripe(stripe, columns=read)
            if isinstance(batch, pa.Table):
                batch = batch.combine_chunks().to_batches()[0]
            if not names:
                yield from empty_columns(batch.num_rows, batch_rows)
                continue
            arrays = [_canonical(batch.column(name), output.field(name).type, zone) for name in names]
            whole = pa.RecordBatch.from_arrays(arrays, schema=output)
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)


def _canonical_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _micros(canonical_type(field.type))) for field in schema])


def _micros(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_micros(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(kind.key_type, _micros(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([child.with_type(_micros(child.type)) for child in kind])
    return kind


def _canonical(array: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    source = array.type
    if source.equals(kind):
        return array
    if pa.types.is_timestamp(source):
        micros = pc.cast(array, pa.timestamp("us", source.tz), safe=False)
        if source.tz is not None:
            return micros.cast(kind)
        if zone in ("UTC", "Etc/UTC"):
            return micros.cast(kind)
        local = pc.assume_timezone(micros, zone, ambiguous="earliest", nonexistent="latest")
        return local.cast(kind)
    if pa.types.is_struct(source):
        children = [_canonical(child, field.type, zone) for child, field in zip(array.flatten(), kind, strict=True)]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(source) or pa.types.is_large_list(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        child = _canonical(whole.values, kind.value_type, zone)
        return pa.ListArray.from_arrays(
            whole.offsets.cast(pa.int32()), child, type=kind, mask=pc.is_null(whole) if whole.null_count else None
        )
    if pa.types.is_map(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        keys, items = _canonical(whole.keys, kind.key_type, zone), _canonical(whole.items, kind.item_type, zone)
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        buffers = whole.buffers()
        return pa.Array.from_buffers(
            kind, len(whole), [buffers[0], buffers[1]], null_count=whole.null_count, children=[entries]
        )
    return pc.cast(array, kind, safe=False)


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        text = str(error)
        if "out of range for nanosecond" in text:
            raise UnsupportedTableError(
                f"Cannot read base file {path}: {text}; supported are timestamps of the years 1678 to 2262 in ORC files"
            ) from error
        raise CorruptFileError(f"Cannot read base file {path}: {text}") from error
    except OSError as error:
        # Arrow reports damage as an OSError without an errno
        if error.errno is not None:
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
