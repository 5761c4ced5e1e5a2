"""Writes Parquet base files that Apache Hudi 0.15 to 1.2 can read.

Like Java's writers it uses format version 1.0, three-level lists, maps as `key_value`, decimals as fixed-length byte
arrays of minimal width, timestamps as INT64 microseconds, and column and offset indexes, and stores in the footer the
bloom filter and range of the record keys (`HoodieBloomFilterWriteSupport`) and the Avro schema (`AvroWriteSupport`).
VECTOR columns are fixed-length byte arrays, which the footer names (`HoodieRowParquetWriteSupport`, 1.2.0).

Arrow allows anything below a null struct, and readers of Parquet leave nulls there. Arrow's Parquet writer refuses
those in a required column, such as the member `type` of a BLOB that is null; `required` fills them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.formats.arrays import in_schema
from hudi_py.formats.base.parquet import AVRO_SCHEMA
from hudi_py.formats.base.rows import BaseFileSummary, BaseWriter, estimated_bytes, with_repeated
from hudi_py.formats.hudi_types import ELEMENT_TYPES, Vector, vector_bytes, vector_columns, vector_footer
from hudi_py.formats.keys.bloom import BloomConfig

if TYPE_CHECKING:
    from hudi_py.storage import Storage

NAN_COLUMNS = "hudi_py.nan_columns"
"""Footer key: `BaseFileSummary.nan`, separated by commas. Arrow's statistics ignore NaN, so without this key it is
unknown whether they cover all values. Columns with a NaN have no statistics."""
ROW_GROUP_BYTES = 128 << 20
"""Arrow bytes of a row group; Java limits its row groups to 120 MB in memory."""
PAGE_BYTES = 1 << 20
_CODECS = {"gzip": "gzip", "snappy": "snappy", "zstd": "zstd", "uncompressed": "none", "": "none"}
_LEVELS = {"gzip": 4, "zstd": 3}
"""Arrow's default for gzip, 9, makes files 4 % smaller but takes seven times as long. Its default for zstd, 1, is no
faster than 3, Java's default, and makes larger files."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pages:
    """How the columns of a row group are split."""

    max_bytes: int = PAGE_BYTES
    """Maximum size of a page, and of a dictionary."""
    dictionary: bool = True
    """Whether columns are dictionary-encoded."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How base files are written. Without effect on Lance files."""

    codec: str = "zstd"
    """gzip, snappy, zstd or uncompressed, in upper or lower case; of ORC files as in `OrcLayout`."""
    row_group_bytes: int = ROW_GROUP_BYTES
    """Arrow bytes of a row group, which is about the memory used; bytes of a stripe in ORC."""
    pages: Pages = Pages()
    """Only for Parquet files."""


class BaseFileWriter(BaseWriter):
    """Writes one Parquet file, a row group at a time; after an exception it has no footer."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        avro_schema_json: str,
        *,
        bloom: BloomConfig | None,
        layout: FileLayout = FileLayout(),
    ) -> None:
        """
        Args:
            path: the file, created or truncated.
            schema: columns, including meta columns; timestamps are written in microseconds.
            avro_schema_json: the same as an Avro schema, for the footer.
            bloom: size of the filter over the record keys; None: no filter and no key range, for tables without meta
                columns.

        Raises:
            ConfigError: the codec is unknown, or there is no record key column.
        """
        codec = layout.codec
        if codec.lower() not in _CODECS:
            raise ConfigError(
                f"Cannot write base file {path} with the codec {codec!r}; supported: gzip, snappy, zstd, uncompressed"
            )
        super().__init__(path, with_repeated(schema), bloom, batch_bytes=layout.row_group_bytes)
        self._vectors = _vectors_of(avro_schema_json)
        self._stored = _stored_schema(self._schema, self._vectors)
        """The schema as stored in the file."""
        self._row_group_bytes = layout.row_group_bytes
        self._pages = layout.pages
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._flushed_bytes = 0
        self._footers: list[pq.FileMetaData] = []
        self._floats = list(float_columns(self._schema))
        self._nan: set[str] = set()
        self._codec = _CODECS[codec.lower()]
        self._pairs = {AVRO_SCHEMA: avro_schema_json, "writer.model.name": "avro", **vector_footer(self._vectors)}
        self._storage = storage
        self._writer: pq.ParquetWriter | None = None
        self._bare: frozenset[str] = frozenset()
        """Columns without statistics in the file."""
        with ExitStack() as undo:
            self._output = undo.enter_context(storage.open_output(path))
            self._open = undo.pop_all()

    def _add(self, batch: pa.RecordBatch) -> None:
        for name, path in self._floats:
            if name not in self._nan and pc.any(pc.is_nan(_inner_array(batch, path))).as_py():
                self._nan.add(name)
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._row_group_bytes:
            self.flush()

    def _estimate(self) -> int:
        return estimated_bytes(int(self._output.tell()), self._flushed_bytes, self._pending_bytes)

    def _complete(self) -> BaseFileSummary:
        self.flush()
        if self._floats:
            self._pairs[NAN_COLUMNS] = ",".join(sorted(self._nan))
        self._pairs |= self._keys.pairs()
        self._finish()
        if self._nan - self._bare:
            self._write_again()
        size = int(self._output.tell())
        self._open.close()
        return self._summarized(size, self._footers[0] if self._footers else None, frozenset(self._nan))

    def _abandon(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        # the storage gets the exception, so that it can abort the upload
        self._open.__exit__(kind, error, trace)
        if self._writer is not None:  # otherwise garbage collection would try to complete the file
            self._writer.is_open = False

    def flush(self) -> None:
        if not self._pending:
            return
        # the writer would stop using dictionaries at the first one that differs
        table = pa.Table.from_batches(self._pending, self._schema).unify_dictionaries()
        table = _stored_rows(table, self._stored, self._vectors)
        self._pending = []
        self._started().write_table(table, row_group_size=table.num_rows)
        self._flushed_bytes += self._pending_bytes
        self._pending_bytes = 0

    def _started(self) -> pq.ParquetWriter:
        """Returns the writer, created with the first row group, when it is known which columns have a NaN.

        Arrow's statistics ignore NaN, and readers such as Spark's trust them: a filter for large numbers, which NaN
        satisfies, would skip a row group of small numbers and NaN. Java's readers ignore bounds that are NaN, but Arrow
        cannot write those, so columns with NaN get no statistics.
        """
        if self._writer is None:
            self._bare = frozenset(self._nan)
            leaves = [path for item in self._stored for path in leaf_paths(item)] if self._bare else []
            statistics = [path for path in leaves if path not in self._bare] if self._bare else True
            self._writer = _parquet_writer(
                self._output, self._stored, self._codec, statistics, self._footers, self._pages
            )
        return self._writer

    def _finish(self) -> None:
        writer = self._started()
        writer.add_key_value_metadata(self._pairs)
        writer.close()

    def _write_again(self) -> None:
        """Rewrites the file without a column's statistics when a NaN appears after the first row group."""
        self._open.close()
        aside = f"{self._path}.nan"
        self._storage.rename(self._path, aside)
        self._footers.clear()
        self._writer = None
        with ExitStack() as undo:
            self._output = undo.enter_context(self._storage.open_output(self._path))
            self._open = undo.pop_all()
        with self._storage.open_input(aside) as source, pq.ParquetFile(source) as file:
            for group in range(file.num_row_groups):
                table = in_schema(file.read_row_group(group), self._stored)
                self._started().write_table(table, row_group_size=table.num_rows)
        self._finish()
        self._storage.delete(aside)


def encode_parquet(rows: pa.Table, avro_schema_json: str, codec: str) -> bytes:
    """Encodes a Parquet data block of a log: a complete file, without a bloom filter or statistics
    (`HoodieParquetDataBlock`).

    Args:
        rows: timestamps are written in microseconds.
        avro_schema_json: the columns as an Avro schema, for the footer.
        codec: as for `BaseFileWriter`.
    """
    sink = io.BytesIO()
    vectors = _vectors_of(avro_schema_json)
    schema = _stored_schema(rows.schema.remove_metadata(), vectors)
    with _parquet_writer(sink, schema, _CODECS[codec.lower()], False, None, Pages()) as writer:
        writer.write_table(_stored_rows(rows, schema, vectors), row_group_size=max(rows.num_rows, 1))
        pairs = {AVRO_SCHEMA: avro_schema_json, "writer.model.name": "avro", **vector_footer(vectors)}
        writer.add_key_value_metadata(pairs)
    return sink.getvalue()


def _vectors_of(avro_schema_json: str) -> dict[str, Vector]:
    return vector_columns(json.loads(avro_schema_json)) if '"vector"' in avro_schema_json else {}


def _stored_schema(schema: pa.Schema, vectors: dict[str, Vector]) -> pa.Schema:
    for name, vector in vectors.items():
        index = schema.get_field_index(name)
        if index >= 0 and not pa.types.is_fixed_size_binary(schema.field(index).type):
            schema = schema.set(index, schema.field(index).with_type(pa.binary(vector.size)))
    return schema


def _stored_rows(table: pa.Table, schema: pa.Schema, vectors: dict[str, Vector]) -> pa.Table:
    """Converts rows to their stored form: vectors become bytes, and nulls below null structs are filled where the file
    may have none.

    Raises:
        SchemaMismatchError: a vector has another length, or a null in it, or a member is null that may not be.
    """
    if not vectors and not any(has_required(field.type) for field in schema):
        return table
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        vector = vectors.get(field.name)
        if has_required(field.type):
            column = pa.chunked_array([required(chunk, field) for chunk in column.chunks], column.type)
        if vector is not None and not column.type.equals(field.type):
            element = ELEMENT_TYPES[vector.element]
            chunks = [vector_bytes(chunk, element, vector.dimension, field.name) for chunk in column.chunks]
            column = pa.chunked_array(chunks, field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _parquet_writer(
    sink: Any,
    schema: pa.Schema,
    codec: str,
    statistics: bool | list[str],
    footers: list[pq.FileMetaData] | None,
    pages: Pages,
) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        schema,
        version="1.0",
        compression=codec,
        compression_level=_LEVELS.get(codec),
        data_page_size=pages.max_bytes,
        dictionary_pagesize_limit=pages.max_bytes,
        use_dictionary=pages.dictionary,
        data_page_version="1.0",
        use_deprecated_int96_timestamps=False,
        coerce_timestamps="us",
        use_compliant_nested_type=True,
        # Java ignores Arrow's schema, and other readers would prefer its types to Hudi's
        store_schema=False,
        store_decimal_as_integer=False,
        write_statistics=statistics,
        write_page_index=bool(statistics),
        write_page_checksum=True,  # as Apache Hudi's own writers do
        metadata_collector=footers,
    )


def plain_writer(
    sink: Any, schema: pa.Schema, footers: list[pq.FileMetaData] | None = None, *, store_schema: bool = True
) -> pq.ParquetWriter:
    """Opens a writer of rows for other programs. Floating-point columns have no statistics: Arrow's ignore NaN, and
    readers trust them. `fill_required` makes rows writable."""
    floats = {name for name, _ in float_columns(schema)}
    statistics = [path for field in schema for path in leaf_paths(field) if path not in floats]
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        store_schema=store_schema,
        write_statistics=statistics if floats else True,
        metadata_collector=footers,
    )


def fill_required(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Fills nulls below null structs where the file may have none.

    Raises:
        SchemaMismatchError: a member is null that may not be.
    """
    if not any(has_required(field.type) for field in batch.schema):
        return batch
    columns = [
        required(column, field) if has_required(field.type) else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def float_columns(
    schema: pa.Schema | pa.StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields dotted names and paths of the floating-point columns, including those in structs."""
    for item in schema:
        path = (*above, item.name)
        if pa.types.is_floating(item.type):
            yield ".".join(path), path
        elif pa.types.is_struct(item.type):
            yield from float_columns(item.type, path)


def leaf_paths(field: pa.Field, above: str = "") -> Iterator[str]:
    """Yields paths of the columns of a field in a Parquet file."""
    path, kind = above + field.name, field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from leaf_paths(child, f"{path}.")
    elif pa.types.is_map(kind):
        yield from leaf_paths(kind.key_field.with_name("key"), f"{path}.key_value.")
        yield from leaf_paths(kind.item_field.with_name("value"), f"{path}.key_value.")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from leaf_paths(kind.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path


def _inner_array(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    array = batch.column(path[0])
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def has_required(kind: pa.DataType) -> bool:
    """Returns whether anything within a type, except keys of maps, may not be null."""
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or has_required(kind.item_type)
    if not pa.types.is_struct(kind) and not pa.types.is_list(kind):
        return False
    members = (kind.field(index) for index in range(kind.num_fields))
    return any(not member.nullable or has_required(member.type) for member in members)


def _both_masks(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def required(array: pa.Array, field: pa.Field, path: str = "", live: Mask | None = None) -> pa.Array:
    """Fills nulls where there may be none.

    Args:
        array: values of the field.
        path: of the field, for messages.
        live: where a value is part of a row; None: everywhere.

    Raises:
        SchemaMismatchError: a value is null that is part of a row and may not be null.
    """
    path = path or field.name
    kind = array.type
    nulls = array.null_count
    valid: Mask | None = array.is_valid().to_numpy(zero_copy_only=False) if nulls else None
    if valid is not None and not field.nullable:
        wrong = ~valid if live is None else ~valid & live
        if wrong.any():
            raise SchemaMismatchError(
                f"Column '{path}' has {int(wrong.sum())} nulls in {len(array)} values, but may not be null; fill them"
            )
    keep = field.nullable
    if pa.types.is_struct(kind):
        inside = _both_masks(valid, live)
        members = [
            required(array.field(index), member, f"{path}.{member.name}", inside) for index, member in enumerate(kind)
        ]
        mask = pa.array(~valid) if valid is not None and keep else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if (pa.types.is_list(kind) or pa.types.is_map(kind)) and has_required(kind):
        buffers = array.buffers()[:2]
        child = _all_values(array, path)
        bits = buffers[0] if keep else None
        return pa.Array.from_buffers(kind, len(array), [bits, buffers[1]], offset=array.offset, children=[child])
    if nulls and not keep:
        children = [array.values] if pa.types.is_list(kind) else None
        own = array.buffers()[1 : 2 if children else None]
        return pa.Array.from_buffers(kind, len(array), [None, *own], offset=array.offset, children=children)
    return array


def _all_values(array: pa.ListArray | pa.MapArray, path: str) -> pa.Array:
    """Returns all values of lists or entries of maps, also those outside of a slice."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if isinstance(array, pa.MapArray):
        entry = pa.struct([array.type.key_field, array.type.item_field])
        values: pa.Array = pa.StructArray.from_arrays([array.keys, array.items], fields=list(entry))
        field = pa.field("entries", entry, nullable=False)
    else:
        values, field = array.values, array.type.value_field
    ends = np.zeros(len(values) + 1, np.int64)
    lists = array.is_valid().to_numpy(zero_copy_only=False)
    np.add.at(ends, offsets[:-1][lists], 1)
    np.add.at(ends, offsets[1:][lists], -1)
    return required(values, field, f"{path}.{field.name}", np.cumsum(ends[:-1]) > 0)
