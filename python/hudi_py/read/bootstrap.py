"""Reads bootstrapped base files: the skeleton's meta columns side by side with the columns of the source file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.base_files import extension_of, iter_base_batches
from hudi_py.formats.base_reader import OpenBaseFile
from hudi_py.model.files import BaseFile
from hudi_py.model.names import NULL_PARTITION
from hudi_py.read.partition import parse_value
from hudi_py.schema import META_FIELDS
from hudi_py.storage import Storage, open_beside

_SOURCE_FORMATS = ("parquet", "orc")


def bootstrap_batches(
    storage: Storage,
    base_file: BaseFile,
    skeleton: Callable[[], OpenBaseFile],
    columns: Collection[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a skeleton and its source, with those of `columns` that either file has.

    Args:
        skeleton: opens the skeleton, if one of its columns is needed.

    Raises:
        CorruptFileError: the source is missing, or its number of rows differs from the skeleton's.
        UnsupportedTableError: the source is neither Parquet nor ORC.
    """
    meta = [name for name in columns if name in META_FIELDS]
    own = [name for name in columns if name not in META_FIELDS]
    if not own:
        yield from skeleton().batches(meta, batch_rows=batch_rows)
        return
    source = _source_batches(storage, base_file, own, batch_rows)
    if not meta:
        yield from source
        return
    yield from _side_by_side(skeleton().batches(meta, batch_rows=batch_rows), source, base_file)


def folder_values(source: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Adds the partition columns that only the folders (`name=value`) of a source file give.

    Raises:
        UnsupportedTableError: a folder's name cannot be converted to the column's type without ambiguity.
    """
    for part in source.split("/")[:-1]:
        name, separator, text = part.partition("=")
        at = schema.get_field_index(name)
        if not separator or at < 0 or name in batch.schema.names:
            continue
        kind = schema.field(at).type
        value = pa.scalar(None, kind) if text == NULL_PARTITION else parse_value(unquote(text), kind)
        if value is None:
            raise UnsupportedTableError(
                f"Cannot read {source}: its folder '{part}' does not give column '{name}' a value of type {kind}; "
                "supported: strings, integers, decimals, booleans and dates"
            )
        batch = batch.append_column(pa.field(name, kind), pa.repeat(value, batch.num_rows))
    return batch


def _source_batches(
    storage: Storage, base_file: BaseFile, columns: Collection[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    uri = base_file.source
    assert uri is not None
    folder, _, name = uri.rpartition("/")
    if extension_of(name) not in _SOURCE_FORMATS:
        raise UnsupportedTableError(
            f"Cannot read bootstrap base file {base_file.path}: its source {uri} is neither a .parquet nor an .orc "
            "file, the only ones supported"
        )
    try:
        yield from iter_base_batches(open_beside(storage, folder), name, columns, batch_rows=batch_rows)
    except FileNotFoundError as error:
        raise CorruptFileError(
            f"Cannot read bootstrap base file {base_file.path}: its source {uri} is missing; a table of a "
            "METADATA_ONLY bootstrap needs the files it was made from: put the file back"
        ) from error


def _side_by_side(
    skeleton: Iterator[pa.RecordBatch], source: Iterator[pa.RecordBatch], base_file: BaseFile
) -> Iterator[pa.RecordBatch]:
    left, right = next(skeleton, None), next(source, None)
    while left is not None and right is not None:
        rows = min(left.num_rows, right.num_rows)
        if rows:
            columns = [*left.slice(0, rows).columns, *right.slice(0, rows).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*left.schema, *right.schema]))
        left = left.slice(rows) if left.num_rows > rows else next(skeleton, None)
        right = right.slice(rows) if right is not None and right.num_rows > rows else next(source, None)
    if left is not None or right is not None:
        raise CorruptFileError(
            f"Cannot read bootstrap base file {base_file.path}: its source {base_file.source} has another number of "
            "rows; was it rewritten?"
        )
