"""Reads Parquet base files.

Files of Avro writers and of Spark's row writers, with two- and three-level lists, yield the same Arrow types.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.origin import check_footer, check_origin, footer_text
from hudi_py.formats.base.reader import (
    BATCH_ROWS,
    BaseFileFooter,
    OpenBaseFile,
    canonical_type,
    empty_columns,
    footer_with,
)
from hudi_py.model.limits import EXTREME, UNPACKED, limit
from hudi_py.model.names import COMMIT_TIME, FILE_NAME, PARTITION_PATH

if TYPE_CHECKING:
    from hudi_py.storage import Storage

AVRO_SCHEMA = "parquet.avro.schema"

# In all or nearly all rows of a base file these columns have the same value
_REPETITIVE = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
_MAX_CHECKED_CHUNKS: Final = 1 << 20


class ParquetBaseFile(OpenBaseFile):
    """A Parquet base file, open for reading."""

    parquet: pq.ParquetFile

    def __init__(self, storage: Storage, path: str) -> None:
        """Opens the file.

        Raises:
            CorruptFileError: the file is not a Parquet file, is damaged, or its footer names another file.
            FileNotFoundError: the file does not exist.
        """
        with ExitStack() as opened:
            source = opened.enter_context(storage.open_input(path))
            with _damage_named(path):
                metadata = pq.read_metadata(source)
                _check_rows(metadata, path)
                _check_packing(metadata, path)
                names = metadata.schema.names
                check_footer(metadata, path, names)
                self.parquet = pq.ParquetFile(
                    source,
                    metadata=metadata,
                    read_dictionary=[name for name in _REPETITIVE if name in names],
                    coerce_int96_timestamp_unit="us",
                    page_checksum_verification=True,
                    # on object stores: fetch the column chunks of a row group in few large requests
                    pre_buffer=not storage.is_local,
                )
                opened.callback(self.parquet.close)
                _check_columns(self.parquet, path)
            super().__init__(path, opened.pop_all())

    @cached_property
    def _plan(self) -> _Plan:
        return _read_plan(self.parquet)

    def _damage_named(self) -> AbstractContextManager[None]:
        return _damage_named(self.path)

    def _read_footer(self) -> BaseFileFooter:
        schema, metadata = self._plan.schema, self.parquet.metadata
        pairs: dict[bytes, bytes] = metadata.metadata or {}
        try:
            texts = {key.decode(): value.decode() for key, value in pairs.items() if key != b"ARROW:schema"}
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"Cannot read the footer of {self.path}: {error}") from error
        return footer_with(self.path, metadata.num_rows, metadata.num_row_groups, schema, texts)

    def _batches(
        self, columns: Collection[str] | None, batch_rows: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        file, plan = self.parquet, self._plan
        names = plan.schema.names if columns is None else [name for name in columns if name in plan.targets]
        groups = list(range(file.metadata.num_row_groups) if row_groups is None else row_groups)
        if not names:
            yield from empty_columns(_rows_of(file.metadata, groups), batch_rows)
            return
        schema = pa.schema([plan.schema.field(name) for name in names])
        repeated: dict[str, pa.Array] = {}
        most = min(batch_rows, file.metadata.num_rows)
        for batch in all_batches(
            file, f"base file {self.path}", columns=names, batch_size=batch_rows, row_groups=groups
        ):
            arrays = []
            for name in names:
                array = batch.column(name)
                if pa.types.is_dictionary(array.type):
                    array = _decoded_column(array, name, most, repeated)
                if name in plan.casts:
                    array = array.cast(plan.casts[name])
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def row_group_sizes(self) -> list[int]:
        groups = map(self.parquet.metadata.row_group, range(self.parquet.metadata.num_row_groups))
        return [
            sum(group.column(index).total_compressed_size for index in range(group.num_columns)) for group in groups
        ]


@contextmanager
def open_parquet(storage: Storage, path: str) -> Iterator[pq.ParquetFile]:
    """Opens a base file as Arrow's reader. Arrow's errors in the context become `CorruptFileError`.

    Raises what `ParquetBaseFile` raises.
    """
    with closing(ParquetBaseFile(storage, path)) as file, _damage_named(path):
        yield file.parquet


def _check_columns(file: pq.ParquetFile, path: str) -> None:
    """Checks that the Parquet schema has the names of the Avro schema, if the footer has both: a column with a damaged
    name would count as missing."""
    text = (file.metadata.metadata or {}).get(AVRO_SCHEMA.encode())
    differing = _differing_names(file.schema_arrow.remove_metadata(), text) if text else ()
    if differing:
        raise CorruptFileError(
            f"Cannot read {path}: the columns that its footer lists differ from those of its {AVRO_SCHEMA}: "
            f"{', '.join(differing)}; restore the file from a copy",
            path=path,
        )


@lru_cache(maxsize=64)
def _differing_names(schema: pa.Schema, avro: bytes) -> tuple[str, ...]:
    """Returns names of columns and struct members that only one of the two schemas has; none if the Avro schema has no
    fields."""
    try:
        declared = set(_avro_names(json.loads(avro)))
    except (ValueError, RecursionError):
        return ()
    stored = set(_arrow_names(schema))
    return tuple(sorted(repr(name) for name in stored ^ declared)) if declared else ()


def _avro_names(node: Any) -> Iterator[str]:
    """Yields the names of all record fields in an Avro schema."""
    if isinstance(node, list):
        for branch in node:
            yield from _avro_names(branch)
    elif isinstance(node, dict):
        for field in node.get("fields") or ():
            yield str(field.get("name"))
            yield from _avro_names(field.get("type"))
        for below in ("type", "items", "values"):
            if isinstance(node.get(below), list | dict):
                yield from _avro_names(node[below])


def _arrow_names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """Yields the names of columns and struct members; names within lists and maps are Parquet's own."""
    for field in fields:
        yield field.name
        yield from _names_within(field.type)


def _names_within(kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        yield from _arrow_names(kind.fields)
    elif pa.types.is_map(kind):
        yield from _names_within(kind.key_type)
        yield from _names_within(kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _names_within(kind.value_type)


def all_batches(
    file: pq.ParquetFile,
    what: str,
    *,
    columns: Sequence[str],
    batch_size: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the columns of some row groups, or of all; `what` names the file in errors.

    Arrow ends early, without an error, at a column chunk whose entry in the footer is damaged.

    Raises:
        CorruptFileError: there are fewer or more rows than the footer says.
    """
    groups = range(file.metadata.num_row_groups) if row_groups is None else row_groups
    left = _rows_of(file.metadata, groups)
    for batch in file.iter_batches(batch_size, row_groups=list(groups), columns=columns, use_threads=False):
        left -= batch.num_rows
        yield batch
    if left:
        raise CorruptFileError(
            f"Cannot read {what}: {abs(left)} rows {'fewer' if left > 0 else 'more'} than its footer records; "
            "restore the file from a copy"
        )


def block_batches(content: bytes, columns: Iterable[str], path: str, offset: int) -> Iterator[pa.RecordBatch]:
    """Yields the named columns of a Parquet log block; missing ones are ignored.

    Args:
        path: the log file, relative to the table.
        offset: where the block begins in it, for errors.

    Raises:
        CorruptFileError: the content is not a Parquet file, is damaged, or has the rows of another file group.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        check_origin(_first_text(file, FILE_NAME), _first_text(file, PARTITION_PATH), path)
        known = set(file.schema_arrow.names)
        named = [name for name in columns if name in known]
        yield from all_batches(file, f"the Parquet block at byte {offset} of {path}", columns=named)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"Cannot read the Parquet block at byte {offset} of {path}: {error}") from error


def _first_text(file: pq.ParquetFile, column: str) -> object:
    """Returns the first value of a column, from the footer if that has statistics; None if there is none."""
    names = file.metadata.schema.names
    text = footer_text(file.metadata, column, names)
    if text is not None or column not in names:
        return text
    batch = next(file.iter_batches(1, columns=[column], use_threads=False), None)
    return batch.column(0)[0].as_py() if batch is not None and batch.num_rows else None


def read_metadata(storage: Storage, path: str) -> pq.FileMetaData:
    """Reads a base file's footer as Arrow's type. Raises what `open_parquet` raises."""
    with storage.open_input(path) as source, _damage_named(path):
        metadata = pq.read_metadata(source)
        check_footer(metadata, path)
        return metadata


def _decoded_column(array: pa.DictionaryArray, name: str, most: int, repeated: dict[str, pa.Array]) -> pa.Array:
    """Decodes a dictionary-encoded array. A single value for all rows is repeated once, for the maximum number of rows,
    and then sliced."""
    values = array.dictionary
    if len(values) != 1 or array.null_count:
        return array.dictionary_decode()
    kept = repeated.get(name)
    if kept is None or len(kept) < len(array) or kept[0] != values[0]:
        kept = repeated[name] = pa.repeat(values[0], max(most, len(array)))
    return kept.slice(0, len(array))


@dataclass(frozen=True, slots=True)
class _Plan:
    schema: pa.Schema
    """Schema of the returned batches."""
    targets: frozenset[str]
    casts: Mapping[str, pa.DataType]
    """Columns that Arrow reads as another type."""


def _read_plan(file: pq.ParquetFile) -> _Plan:
    fields: list[pa.Field] = []
    casts: dict[str, pa.DataType] = {}
    leaves = (file.schema.column(index) for index in range(len(file.schema)))
    int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for field in file.schema_arrow:
        kind = canonical_type(field.type)
        if field.name in int96:
            kind = pa.timestamp("us", "UTC")
        if not _is_alike(kind, field.type):
            casts[field.name] = kind
        fields.append(pa.field(field.name, kind, field.nullable))
    return _Plan(pa.schema(fields), frozenset(field.name for field in fields), casts)


def _is_alike(kind: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether no cast is needed, apart from decoding a dictionary."""
    return bool(kind == (source.value_type if pa.types.is_dictionary(source) else source))


_DAMAGE = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    UnicodeDecodeError,
)
"""Arrow's errors for damaged bytes; ArrowIndexError for an index outside of its page's dictionary."""


def _rows_of(metadata: pq.FileMetaData, groups: Iterable[int]) -> int:
    return sum(metadata.row_group(group).num_rows for group in groups)


def _check_rows(metadata: pq.FileMetaData, path: str) -> None:
    """Raises CorruptFileError if the file and its row groups disagree about the number of rows."""
    rows = _rows_of(metadata, range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise CorruptFileError(
            f"Cannot read base file {path}: its footer records {metadata.num_rows} rows, but {rows} in its row groups; "
            "restore the file from a copy",
            path=path,
            expected=metadata.num_rows,
            found=rows,
        )


def _check_packing(metadata: pq.FileMetaData, path: str) -> None:
    """Raises CorruptFileError for column chunks that unpack to more than real tables have: a page is unpacked as a
    whole."""
    most = limit(UNPACKED)
    if metadata.num_row_groups * metadata.num_columns > _MAX_CHECKED_CHUNKS:
        return  # a file with so many chunks has small ones
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.total_byte_size <= most:
            continue
        for index in range(group.num_columns):
            column = group.column(index)
            packed, unpacked = column.total_compressed_size, column.total_uncompressed_size
            if unpacked > most and unpacked > packed * EXTREME:
                raise CorruptFileError(
                    f"Cannot read base file {path}: column '{column.path_in_schema}' claims to unpack {packed} bytes "
                    f"to {unpacked}; if the file is sound, set {UNPACKED} in the environment to more than that",
                    path=path,
                )


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
    except OSError as error:
        # Arrow reports damaged pages as an OSError without an errno
        if error.errno is not None:
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
