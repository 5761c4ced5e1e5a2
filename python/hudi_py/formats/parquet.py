"""Parquet base files, read (format reference 8.4).

Files by Avro writers and by Spark's row writers, with two- and three-level lists, come out in the same Arrow types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.bloom import BloomFilter

if TYPE_CHECKING:
    from hudi_py.storage import Storage

BLOOM_FILTER = "org.apache.hudi.bloomfilter"
OLD_BLOOM_FILTER = "com.uber.hoodie.bloomfilter"
BLOOM_FILTER_TYPE_CODE = "hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = "hoodie_min_record_key"
MAX_RECORD_KEY = "hoodie_max_record_key"
AVRO_SCHEMA = "parquet.avro.schema"

BATCH_ROWS = 1 << 16
"""Rows of a batch unless asked otherwise."""

# All rows of a base file share these, or nearly so
_REPETITIVE = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What the footer of a base file says."""

    path: str
    num_rows: int
    num_row_groups: int
    schema: pa.Schema
    """Columns as `iter_base_batches` yields them."""
    metadata: Mapping[str, str]
    """Key-value pairs, those with the bloom filter and Arrow's own schema left out."""
    min_key: str | None
    """Smallest record key in Java's order; None when the footer does not tell."""
    max_key: str | None
    bloom_text: str | None
    bloom_type_code: str | None

    @property
    def bloom(self) -> BloomFilter | None:
        """The filter of the file's record keys, decoded anew at each use.

        Raises:
            CorruptFileError: it cannot be decoded.
            UnsupportedTableError: it is of a type that this release does not know.
        """
        if self.bloom_text is None:
            return None
        return BloomFilter.decode(self.bloom_text, self.bloom_type_code, context=self.path)


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """The footer of a base file; nothing else is read.

    Raises:
        CorruptFileError: the file is no whole Parquet file.
        FileNotFoundError: there is no such file.
    """
    with open_parquet(storage, path) as file:
        return footer_of(file, path)


def footer_of(file: pq.ParquetFile, path: str) -> BaseFileFooter:
    """The footer of an open base file. Raises CorruptFileError."""
    schema = _plan(file).schema
    pairs: dict[bytes, bytes] = file.metadata.metadata or {}
    rows, groups = file.metadata.num_rows, file.metadata.num_row_groups
    try:
        texts = {key.decode(): value.decode() for key, value in pairs.items() if key != b"ARROW:schema"}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"Cannot read the footer of {path}: {error}") from error
    old = texts.pop(OLD_BLOOM_FILTER, None)
    bloom = texts.pop(BLOOM_FILTER, old)
    low, high, code = texts.get(MIN_RECORD_KEY), texts.get(MAX_RECORD_KEY), texts.get(BLOOM_FILTER_TYPE_CODE)
    return BaseFileFooter(path, rows, groups, schema, texts, low, high, bloom, code)


@contextmanager
def open_parquet(storage: Storage, path: str) -> Iterator[pq.ParquetFile]:
    """A base file, open: for footers, statistics and row groups. Arrow's errors within become `CorruptFileError`.

    Raises:
        CorruptFileError: the file is no Parquet file, or what is read of it is damaged.
        FileNotFoundError: there is no such file.
    """
    with storage.open_input(path) as source, _damage_named(path):
        metadata = pq.read_metadata(source)
        file = pq.ParquetFile(
            source,
            metadata=metadata,
            read_dictionary=[name for name in _REPETITIVE if name in metadata.schema.names],
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
            # on object stores the column chunks of a row group are fetched in few large requests
            pre_buffer=not storage.is_local,
        )
        try:
            yield file
        finally:
            file.close()


def iter_base_batches(
    storage: Storage,
    path: str,
    columns: Collection[str] | None,
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields a base file's rows in order.

    Strings are plain strings, list elements are called "element", what is inside a column is nullable, and INT96
    timestamps are timestamp[us, UTC]; apart from that types are as in the file.

    Args:
        storage: where the file is.
        path: the base file.
        columns: top-level columns in the order wanted; those which the file lacks are absent from the batches. None
            means all, in the file's order. With no column of the file, batches have rows and no columns.
        batch_rows: most rows of a batch.
        row_groups: read only these, by number.

    Raises:
        CorruptFileError: the file is damaged.
        FileNotFoundError: there is no such file.
    """
    with open_parquet(storage, path) as file:
        yield from batches_of(file, columns, batch_rows=batch_rows, row_groups=row_groups)


def batches_of(
    file: pq.ParquetFile,
    columns: Collection[str] | None,
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `iter_base_batches`, of an open base file."""
    plan = _plan(file)
    names = plan.schema.names if columns is None else [name for name in columns if name in plan.targets]
    groups = list(range(file.metadata.num_row_groups) if row_groups is None else row_groups)
    if not names:
        yield from empty_columns(sum(file.metadata.row_group(group).num_rows for group in groups), batch_rows)
        return
    schema = pa.schema([plan.schema.field(name) for name in names])
    repeated: dict[str, pa.Array] = {}
    most = min(batch_rows, file.metadata.num_rows)
    for batch in file.iter_batches(batch_rows, row_groups=groups, columns=names, use_threads=False):
        arrays = []
        for name in names:
            array = batch.column(name)
            if pa.types.is_dictionary(array.type):
                array = _plain(array, name, most, repeated)
            if name in plan.casts:
                array = array.cast(plan.casts[name])
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def empty_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of so many rows and no columns."""
    for start in range(0, rows, batch_rows):
        nothing = pa.nulls(min(batch_rows, rows - start))
        yield pa.RecordBatch.from_arrays([nothing], names=["_"]).select([])


def _plain(array: pa.DictionaryArray, name: str, most: int, repeated: dict[str, pa.Array]) -> pa.Array:
    """The array without its dictionary. One value for all rows is repeated once, for the `most` rows that a batch has,
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
    """What is handed out."""
    targets: frozenset[str]
    casts: Mapping[str, pa.DataType]
    """Columns which Arrow reads in another type."""


def _plan(file: pq.ParquetFile) -> _Plan:
    fields: list[pa.Field] = []
    casts: dict[str, pa.DataType] = {}
    leaves = (file.schema.column(at) for at in range(len(file.schema)))
    int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for field in file.schema_arrow:
        kind = canonical_type(field.type)
        if field.name in int96:
            kind = pa.timestamp("us", "UTC")
        if not _alike(kind, field.type):
            casts[field.name] = kind
        fields.append(pa.field(field.name, kind, field.nullable))
    return _Plan(pa.schema(fields), frozenset(field.name for field in fields), casts)


def _alike(kind: pa.DataType, found: pa.DataType) -> bool:
    """Whether no cast is needed; dictionaries at the top are undone on the way."""
    return bool(kind == (found.value_type if pa.types.is_dictionary(found) else found))


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The type in which columns of base files are handed out, whatever the writer called things within it."""
    types = pa.types
    if types.is_dictionary(kind):
        return canonical_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", canonical_type(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(canonical_type(kind.key_type), canonical_type(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, canonical_type(child.type)) for child in kind])
    return kind


_DAMAGE = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    UnicodeDecodeError,
)
"""What Arrow raises of damaged bytes: the last but one for a value beyond its page's dictionary."""


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
    except OSError as error:
        # Arrow reports damaged pages as an OSError without a number; those of the system have one
        if error.errno is not None:
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
