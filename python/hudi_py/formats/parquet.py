"""Reads Parquet base files (format reference 8.4).

Files of Avro writers and of Spark's row writers, with two- and three-level lists, are read in the same Arrow types.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.bloom import BloomFilter
from hudi_py.formats.hashing import Texts
from hudi_py.formats.origin import FILE_NAME, PARTITION_PATH, check_footer, check_origin, footer_text
from hudi_py.model.limits import EXTREME, UNPACKED, limit

if TYPE_CHECKING:
    from hudi_py.storage import Storage

BLOOM_FILTER = "org.apache.hudi.bloomfilter"
OLD_BLOOM_FILTER = "com.uber.hoodie.bloomfilter"
BLOOM_FILTER_TYPE_CODE = "hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = "hoodie_min_record_key"
MAX_RECORD_KEY = "hoodie_max_record_key"
AVRO_SCHEMA = "parquet.avro.schema"

BATCH_ROWS = 1 << 16
"""Default number of rows in a batch."""

# All rows of a base file, or nearly all, have the same values in these
_REPETITIVE = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What the footer of a base file says, or the metadata of a Lance file."""

    path: str
    num_rows: int
    num_row_groups: int
    schema: pa.Schema
    """The schema of `iter_base_batches`."""
    metadata: Mapping[str, str]
    """Key-value pairs, without the bloom filter and Arrow's own schema."""
    min_key: str | None
    """Smallest record key in Java's order; None if not recorded."""
    max_key: str | None
    bloom_text: str | None
    bloom_type_code: str | None

    def in_range(self, keys: pa.StringArray) -> pa.BooleanArray | None:
        """Whether the file may have each key, by the smallest and the greatest; None: it may have any."""
        low, high = self.min_key, self.max_key
        if low is None or high is None or any(_orders_otherwise(each) for each in (keys, pa.array([low, high]))):
            return None
        return pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high))

    @property
    def bloom(self) -> BloomFilter | None:
        """The filter of the file's record keys, decoded at each access.

        Raises:
            CorruptFileError: it cannot be decoded.
            UnsupportedTableError: its type is unknown.
        """
        if self.bloom_text is None:
            return None
        return BloomFilter.decode(self.bloom_text, self.bloom_type_code, context=self.path)


def _orders_otherwise(keys: pa.StringArray) -> bool:
    """Whether keys may have another order in Java, by UTF-16 units: surrogates come before U+E000 there, and in UTF-8
    both begin with a byte from 0xEE on."""
    return bool((Texts.of(keys).data >= 0xEE).any())


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """Reads only the footer of a base file.

    Raises:
        CorruptFileError: the file is not a complete Parquet file.
        FileNotFoundError: the file does not exist.
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
    return footer_with(path, rows, groups, schema, texts)


def footer_with(path: str, rows: int, groups: int, schema: pa.Schema, texts: dict[str, str]) -> BaseFileFooter:
    """A footer of any format. `texts`: its key-value pairs, from which the bloom filter is taken."""
    old = texts.pop(OLD_BLOOM_FILTER, None)
    bloom = texts.pop(BLOOM_FILTER, old)
    low, high, code = texts.get(MIN_RECORD_KEY), texts.get(MAX_RECORD_KEY), texts.get(BLOOM_FILTER_TYPE_CODE)
    return BaseFileFooter(path, rows, groups, schema, texts, low, high, bloom, code)


_MOST_LOOKED_AT: Final = 1 << 20


@contextmanager
def open_parquet(storage: Storage, path: str) -> Iterator[pq.ParquetFile]:
    """Opens a base file. Arrow's errors in the context become `CorruptFileError`.

    Raises:
        CorruptFileError: the file is not a Parquet file, is damaged, or its footer names another file.
        FileNotFoundError: the file does not exist.
    """
    with storage.open_input(path) as source, _damage_named(path):
        metadata = pq.read_metadata(source)
        _check_packing(metadata, path)
        names = metadata.schema.names
        check_footer(metadata, path, names)
        file = pq.ParquetFile(
            source,
            metadata=metadata,
            read_dictionary=[name for name in _REPETITIVE if name in names],
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
            # on object stores: fetch the column chunks of a row group in few large requests
            pre_buffer=not storage.is_local,
        )
        try:
            _check_columns(file, path)
            yield file
        finally:
            file.close()


def _check_columns(file: pq.ParquetFile, path: str) -> None:
    """Checks that Parquet's schema has the names that Avro's has, where the footer keeps both: a column whose name is
    damaged would count as missing."""
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
    """Names of columns, and of members of structs, that only one of the two has; none if the Avro schema has no
    fields."""
    try:
        declared = set(_avro_names(json.loads(avro)))
    except (ValueError, RecursionError):
        return ()
    stored = set(_arrow_names(schema))
    return tuple(sorted(repr(name) for name in stored ^ declared)) if declared else ()


def _avro_names(node: Any) -> Iterator[str]:
    """The names of all fields of records in an Avro schema."""
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
    """The names of columns and of members of structs; those within lists and maps are Parquet's own."""
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


def block_batches(content: bytes, columns: Iterable[str], path: str, offset: int) -> Iterator[pa.RecordBatch]:
    """The named columns of a Parquet log block, as far as it has them.

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
        yield from file.iter_batches(columns=[name for name in columns if name in known], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"Cannot read the Parquet block at byte {offset} of {path}: {error}") from error


def _first_text(file: pq.ParquetFile, column: str) -> object:
    """The first value of a column, from the footer if that has statistics; None: there is none."""
    names = file.metadata.schema.names
    text = footer_text(file.metadata, column, names)
    if text is not None or column not in names:
        return text
    batch = next(file.iter_batches(1, columns=[column], use_threads=False), None)
    return batch.column(0)[0].as_py() if batch is not None and batch.num_rows else None


def read_metadata(storage: Storage, path: str) -> pq.FileMetaData:
    """Arrow's form of a base file's footer. Raises what `open_parquet` raises."""
    with storage.open_input(path) as source, _damage_named(path):
        metadata = pq.read_metadata(source)
        check_footer(metadata, path)
        return metadata


def iter_base_batches(
    storage: Storage,
    path: str,
    columns: Collection[str] | None,
    *,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields a base file's rows in order.

    Types are those of the file, except: strings have type string, list elements are named "element", everything within
    a column is nullable, and INT96 timestamps are timestamp[us, UTC].

    Args:
        columns: top-level columns, in the order of the result; missing ones are ignored. None: all, in the file's
            order. If the file has none of them, batches have rows but no columns.
        batch_rows: maximum rows of a batch.
        row_groups: read only these, by number.

    Raises:
        CorruptFileError: the file is damaged.
        FileNotFoundError: the file does not exist.
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
    """As `iter_base_batches`, for an open base file."""
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
                array = _decoded(array, name, most, repeated)
            if name in plan.casts:
                array = array.cast(plan.casts[name])
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def empty_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches with `rows` rows in total and no columns."""
    for start in range(0, rows, batch_rows):
        nothing = pa.nulls(min(batch_rows, rows - start))
        yield pa.RecordBatch.from_arrays([nothing], names=["_"]).select([])


def _decoded(array: pa.DictionaryArray, name: str, most: int, repeated: dict[str, pa.Array]) -> pa.Array:
    """The array without dictionary encoding. A single value for all rows is repeated once, for the maximum number of
    rows, and then sliced."""
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
    """Columns that Arrow reads in another type."""


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
    """Whether no cast is needed, apart from decoding a dictionary."""
    return bool(kind == (found.value_type if pa.types.is_dictionary(found) else found))


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The type in which columns of base files are returned, whatever the writer's names of nested fields."""
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
"""Arrow's errors for damaged bytes; ArrowIndexError for a value outside of its page's dictionary."""


def _check_packing(metadata: pq.FileMetaData, path: str) -> None:
    """Raises CorruptFileError for column chunks that grow beyond what tables have: a page is unpacked as a whole."""
    most = limit(UNPACKED)
    if metadata.num_row_groups * metadata.num_columns > _MOST_LOOKED_AT:
        return  # a chunk of so many is small
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.total_byte_size <= most:
            continue
        for at in range(group.num_columns):
            column = group.column(at)
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
