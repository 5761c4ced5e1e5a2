"""Reads base files of any format in the table's schema. For bootstrapped ones, combines the skeleton's meta columns
with the columns of the source file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.expressions.filter import Filter
from hudi_py.expressions.predicate import Column, Comparison, Literal
from hudi_py.formats.base.files import extension_of, iter_base_batches, open_base_file
from hudi_py.formats.base.reader import OpenBaseFile
from hudi_py.model.files import BaseFile
from hudi_py.model.names import NULL_PARTITION
from hudi_py.read.partition import parse_value
from hudi_py.read.pruning.bounds import row_groups_to_read
from hudi_py.read.support import BASE_FORMATS
from hudi_py.schema import META_FIELDS, RECORD_KEY, SchemaHistory, conform
from hudi_py.storage import Storage, open_beside
from hudi_py.view.bootstrap import METADATA_INSTANT

BASE_ROWS = 131_072
"""Default number of rows in a batch."""
_SOURCE_FORMATS = ("parquet", "orc")


class BaseFileReader:
    """Reads a base file of a table, which is opened when it is first needed, and once.

    Whatever needs the file raises:
        CorruptFileError: the file is damaged.
        FileNotFoundError: the file does not exist.
        UnsupportedTableError: the file is of another format than Parquet, ORC and Lance.
    """

    def __init__(self, storage: Storage, file: BaseFile, history: SchemaHistory | None = None) -> None:
        """`history` maps columns of the file to those of the table; if None, they are matched by name."""
        self.file = file
        self._storage = storage
        self._history = history

    def __enter__(self) -> BaseFileReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file if it was opened."""
        if "_opened" in self.__dict__:
            self._opened.close()

    @cached_property
    def _opened(self) -> OpenBaseFile:
        extension = self.file.name.extension
        if extension not in BASE_FORMATS:
            raise UnsupportedTableError(
                f"Cannot read base file {self._storage.uri}/{self.file.path}: its format is {extension}; supported: "
                f"{', '.join(BASE_FORMATS)}"
            )
        return open_base_file(self._storage, self.file.path)

    @property
    def num_rows(self) -> int:
        """Returns the number of rows, from the footer."""
        return self._opened.footer.num_rows

    @property
    def has_keys(self) -> bool:
        """Returns whether the file itself stores `_hoodie_record_key`."""
        return RECORD_KEY in self._opened.footer.schema.names

    def row_group_sizes(self) -> list[int]:
        """Returns the bytes of each row group (ORC: stripe); empty if the file can only be read as a whole."""
        return [] if self.file.source is not None else self._opened.row_group_sizes()

    def matching_row_groups(self, given: tuple[int, int] | None, condition: Filter | None) -> list[int] | None:
        """Returns the row groups that may hold rows that satisfy a filter; None: all of the file.

        ORC and Lance files, whose readers expose no statistics, and files whose columns are not found by name are not
        pruned.

        Args:
            given: half-open range of row groups to choose from; None: all.
        """
        among = None if given is None else range(*given)
        prunes = condition is not None and any(True for _ in condition.conjuncts())
        if self.file.source is not None:
            return None
        history = self._history
        named = history is None or (not history.repairs and history.sources(self.file.instant) is None)
        parquet = self._opened.parquet if prunes and named else None
        if condition is None or parquet is None:
            return None if among is None else list(among)
        every = range(parquet.metadata.num_row_groups)
        kept = row_groups_to_read(parquet, every if among is None else among, condition)
        return None if among is None and len(kept) == len(every) else kept

    def may_exceed(self, name: str, kind: pa.DataType, value: int) -> bool:
        """Returns whether a row may have a greater value in a column than `value`, by statistics; dates and timestamps
        are days and microseconds since the epoch."""
        greater = Comparison(">", Column((name,), kind), Literal(value, kind), kind)
        condition = Filter(f"{name} > {value}", frozenset({name}), greater)
        return self.matching_row_groups(None, condition) != []

    def batches(
        self, schema: pa.Schema, *, batch_rows: int = BASE_ROWS, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows with the columns of `schema`; missing ones are null.

        Args:
            batch_rows: maximum rows of a batch.
            row_groups: numbers of the row groups (ORC: stripes) to read; None: all.

        Raises:
            SchemaMismatchError: a column's type cannot be converted to that of `schema`.
        """
        file, history = self.file, self._history
        source, path, instant = file.source, file.path, file.instant
        names = schema.names if history is None or source is not None else history.columns(instant, schema.names)
        for batch in self._stored(names, batch_rows, row_groups):
            if source is not None:
                yield conform(folder_values(source.uri, batch, schema), schema, context=source.uri)
            elif history is None:
                yield conform(batch, schema, context=path)
            else:
                yield history.conform(batch, instant, schema, context=path)

    def _stored(
        self, columns: Collection[str], batch_rows: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the types of the file and without the columns that it lacks."""
        if self.file.source is not None:
            return _bootstrap_batches(self._storage, self.file, lambda: self._opened, columns, batch_rows)
        if self.file.instant == METADATA_INSTANT:
            raise UnsupportedTableError(
                f"Cannot read base file {self._storage.uri}/{self.file.path}: it was bootstrapped without its rows, "
                "and the table has no bootstrap index that names its source; only tables with that index are supported"
            )
        return self._opened.batches(columns, batch_rows=batch_rows, row_groups=row_groups)


def _bootstrap_batches(
    storage: Storage,
    base_file: BaseFile,
    skeleton: Callable[[], OpenBaseFile],
    columns: Collection[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a skeleton and its source, with those of `columns` that either file has.

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
    source = base_file.source
    assert source is not None
    uri = source.uri
    folder, _, name = uri.rpartition("/")
    if extension_of(name) not in _SOURCE_FORMATS:
        raise UnsupportedTableError(
            f"Cannot read bootstrap base file {base_file.path}: its source {uri} is neither a .parquet nor an .orc "
            "file, the only ones supported"
        )
    beside = open_beside(storage, folder)
    info = beside.stat(name)
    if info is None:
        raise CorruptFileError(
            f"Cannot read bootstrap base file {base_file.path}: its source {uri} is missing; a table of a "
            "METADATA_ONLY bootstrap needs the files it was made from: put the file back"
        )
    if source.size not in (None, info.size):
        raise CorruptFileError(
            f"Cannot read bootstrap base file {base_file.path}: its source {uri} has {info.size} bytes, but had "
            f"{source.size} when it was bootstrapped; rows are found by their position in it: put the old file back"
        )
    yield from iter_base_batches(beside, name, columns, batch_rows=batch_rows)


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
            f"Cannot read bootstrap base file {base_file.path}: its source "
            f"{base_file.source.uri if base_file.source is not None else ''} has another number of rows than when it "
            "was bootstrapped; put the old file back"
        )
