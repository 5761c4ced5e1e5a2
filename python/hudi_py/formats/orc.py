"""ORC base files, read.

What Apache Hudi writes (`AvroOrcUtils`, 1.2.0): timestamps with a zone are ORC's TIMESTAMP, wall-clock time of the
writer's zone, without the milliseconds (they are lost on the way); timestamps without a zone are plain longs. Its
reader takes the wall-clock time as one of the reading process's zone, and so do we.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.parquet import BATCH_ROWS, canonical_type, empty_columns

try:
    from pyarrow import orc
except ImportError:  # some builds of pyarrow leave it out
    orc = None

if TYPE_CHECKING:
    from hudi_py.storage import Storage

AVRO_SCHEMA = "orc.avro.schema"


@contextmanager
def open_orc(storage: Storage, path: str) -> Iterator[Any]:
    """A base file, open, as a `pyarrow.orc.ORCFile`. Arrow's errors within become `CorruptFileError`.

    Raises:
        CorruptFileError: the file is no ORC file, or what is read of it is damaged.
        FileNotFoundError: there is no such file.
        UnsupportedTableError: pyarrow was built without ORC, or a timestamp is beyond what Arrow reads from ORC.
    """
    if orc is None:
        raise UnsupportedTableError(
            f"Cannot read base file {path}: this build of pyarrow has no ORC; install pyarrow from PyPI"
        )
    with storage.open_input(path) as source, _damage_named(path):
        yield orc.ORCFile(source)


def orc_rows(storage: Storage, path: str) -> int:
    """Number of rows of a base file, from its footer. Errors as `open_orc`."""
    with open_orc(storage, path) as file:
        return int(file.nrows)


def orc_metadata(storage: Storage, path: str) -> dict[str, str]:
    """The key-value pairs of a base file's footer, the bloom filter's among them. Errors as `open_orc`."""
    with open_orc(storage, path) as file:
        pairs: dict[bytes, bytes] = dict(file.metadata or {})
    try:
        return {key.decode(): value.decode() for key, value in pairs.items()}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"Cannot read the footer of {path}: {error}") from error


def orc_schema(storage: Storage, path: str) -> pa.Schema:
    """Columns as `iter_orc_batches` yields them. Errors as `open_orc`."""
    with open_orc(storage, path) as file:
        return _canonical_schema(file.schema)


def stripe_sizes(storage: Storage, path: str) -> list[int]:
    """Bytes of each stripe, near enough to divide a file by: Arrow does not tell them, so each has the same part."""
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
    """Yields a base file's rows in order; a stripe is held in memory at once.

    Types are those of the Parquet reader: list elements are called "element", what is inside a column is nullable.
    Timestamps are timestamp[us, UTC].

    Args:
        storage: where the file is.
        path: the base file.
        columns: top-level columns in the order wanted; those which the file lacks are absent from the batches. None
            means all, in the file's order. With no column of the file, batches have rows and no columns.
        batch_rows: most rows of a batch.
        stripes: read only these, by number.
        zone: the file's timestamps are wall-clock times of this zone, a name of the time zone database.

    Raises:
        CorruptFileError, UnsupportedTableError, FileNotFoundError: as `open_orc`.
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
            arrays = [_plain(batch.column(name), output.field(name).type, zone) for name in names]
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


def _plain(array: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
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
        children = [_plain(child, field.type, zone) for child, field in zip(array.flatten(), kind, strict=True)]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(source) or pa.types.is_large_list(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        child = _plain(whole.values, kind.value_type, zone)
        return pa.ListArray.from_arrays(
            whole.offsets.cast(pa.int32()), child, type=kind, mask=pc.is_null(whole) if whole.null_count else None
        )
    if pa.types.is_map(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        keys, items = _plain(whole.keys, kind.key_type, zone), _plain(whole.items, kind.item_type, zone)
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
        # Arrow reports damage as an OSError without a number; those of the system have one
        if error.errno is not None:
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
