"""What writers of base files share: rows in the file's schema, and the bloom filter and range of the record keys in the
footer (`HoodieBloomFilterWriteSupport`, `HoodieAvroOrcWriter`, `HoodieBaseLanceWriter`, 1.2.0)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.formats.base.reader import BLOOM_FILTER, BLOOM_FILTER_TYPE_CODE, MAX_RECORD_KEY, MIN_RECORD_KEY
from hudi_py.formats.keys.bloom import SIMPLE, BloomConfig, BloomFilter
from hudi_py.formats.keys.hashing import Texts
from hudi_py.model.names import RECORD_KEY

W = TypeVar("W", bound="BaseWriter")
_REPEATED = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")
_FIRST_RATIO = 0.35
"""Assumed file bytes per Arrow byte until rows have been written."""


@dataclass(frozen=True, slots=True)
class BaseFileSummary:
    """A written base file."""

    num_rows: int
    size: int
    """Bytes."""
    min_key: str | None
    """Smallest record key in the order of Java's strings; None without rows or bloom filter."""
    max_key: str | None
    metadata: pq.FileMetaData | None = field(default=None, repr=False, compare=False)
    """The Parquet footer as written, with column statistics; None for ORC."""
    nan: frozenset[str] = frozenset()
    """Dotted names of floating-point columns with a NaN, except for those in lists or maps; empty for ORC."""


class FileKeys:
    """Bloom filter and range of a file's record keys, for its footer."""

    def __init__(self, bloom: BloomConfig | None, schema: pa.Schema, path: str) -> None:
        """
        Args:
            bloom: size of the filter; None: neither filter nor range, for tables without meta columns.

        Raises:
            ConfigError: there is no record key column.
        """
        if bloom is not None and RECORD_KEY not in schema.names:
            raise ConfigError(f"Cannot write base file {path} with a bloom filter: it has no column {RECORD_KEY!r}")
        self._bloom = BloomFilter(bloom) if bloom is not None else None
        self.least: str | None = None
        """In the order of Java's strings; None without rows or filter."""
        self.greatest: str | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the keys of some rows."""
        if self._bloom is None:
            return
        keys = batch.column(RECORD_KEY)
        self._bloom.add(keys)
        low, high = least_and_greatest(keys)
        if low is None or high is None:
            return
        if self.least is None or _java_order(low) < _java_order(self.least):
            self.least = low
        if self.greatest is None or _java_order(high) > _java_order(self.greatest):
            self.greatest = high

    def pairs(self) -> dict[str, str]:
        """Returns key-value pairs of the footer."""
        if self._bloom is None:
            return {}
        pairs = {BLOOM_FILTER: self._bloom.encode()}
        if self._bloom.type_code != SIMPLE:
            pairs[BLOOM_FILTER_TYPE_CODE] = self._bloom.type_code
        if self.least is not None and self.greatest is not None:
            pairs |= {MIN_RECORD_KEY: self.least, MAX_RECORD_KEY: self.greatest}
        return pairs


class BaseWriter(ABC):
    """Writes one base file. Leaving the `with` block normally, or calling `close`, completes it; after an exception
    nothing is left that could be mistaken for a base file."""

    def __init__(self, path: str, schema: pa.Schema, bloom: BloomConfig | None, *, batch_bytes: int) -> None:
        """
        Args:
            schema: columns, including meta columns.
            bloom: size of the filter over the record keys; if None, the file has neither filter nor key range.
            batch_bytes: Arrow bytes of the rows that are added at once are well below that.

        Raises:
            ConfigError: there is no record key column.
        """
        self._path = path
        self._schema = schema.remove_metadata()
        self._keys = FileKeys(bloom, schema, path)
        self._batch_bytes = batch_bytes
        self._rows = 0
        self._summary: BaseFileSummary | None = None

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Adds rows; columns are matched by name.

        Raises:
            SchemaMismatchError: a column is missing or its values do not fit the file's type.
            UnsupportedTableError: the format has no such value.
        """
        for batch in _conformed_rows(data, self._schema, self._path, max_bytes=self._batch_bytes):
            if batch.num_rows:
                self._keys.add(batch)
                self._add(batch)
                self._rows += batch.num_rows

    @property
    def num_rows(self) -> int:
        """Returns the number of rows written so far, including those in memory."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Returns the size of the file so far, estimated for rows in memory."""
        return self._estimate() if self._summary is None else self._summary.size

    def flush(self) -> None:  # noqa: B027 - two of three formats have nothing to do
        """Writes out the rows that wait in memory for their row group. Does nothing if the format's library ends row
        groups itself."""

    def close(self) -> BaseFileSummary:
        """Completes the file; a second call returns the same summary."""
        if self._summary is None:
            self._summary = self._complete()
        return self._summary

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._summary is None:
            self._abandon(kind, error, trace)

    @abstractmethod
    def _add(self, batch: pa.RecordBatch) -> None:
        """Writes or buffers rows in the file's schema."""

    @abstractmethod
    def _estimate(self) -> int:
        """Returns the size of the file so far."""

    @abstractmethod
    def _complete(self) -> BaseFileSummary: ...

    @abstractmethod
    def _abandon(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        """Leaves no complete file after an exception."""

    def _summarized(
        self, size: int, metadata: pq.FileMetaData | None = None, nan: frozenset[str] = frozenset()
    ) -> BaseFileSummary:
        return BaseFileSummary(self._rows, size, self._keys.least, self._keys.greatest, metadata, nan)


def with_repeated(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with dictionary types for meta columns that have one value in new rows, and few in a file:
    they take a tenth of the memory, and Parquet's writer need not look for repeated values again."""
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(kind) if field.name in _REPEATED else field for field in schema])


def _conformed_rows(
    data: pa.RecordBatch | pa.Table, schema: pa.Schema, path: str, *, max_bytes: int
) -> list[pa.RecordBatch]:
    """Conforms rows to a file's schema by name, in batches well below `max_bytes` of Arrow data.

    Raises:
        SchemaMismatchError: a column is missing or its values do not fit the file's type.
    """
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    if table.schema.names != schema.names or table.schema.types != schema.types:
        missing = [name for name in schema.names if table.schema.get_field_index(name) < 0]
        if missing:
            raise SchemaMismatchError(
                f"Cannot write rows to base file {path}: column {missing[0]!r} is missing or not unique; "
                f"the rows have {', '.join(table.schema.names)}"
            )
        columns = []
        for item in schema:
            try:
                column = table.column(item.name)
                columns.append(column if column.type.equals(item.type) else column.cast(item.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaMismatchError(
                    f"Cannot write column {item.name!r} of type {table.schema.field(item.name).type} "
                    f"to base file {path} as {item.type}: {error}"
                ) from error
        table = pa.Table.from_arrays(columns, schema=schema)
    for index, item in enumerate(schema):
        if not item.nullable and table.column(index).null_count:
            raise SchemaMismatchError(
                f"Cannot write column {item.name!r} to base file {path}: it has nulls, but is not nullable"
            )
    # batches well below a row group, so that the last one cannot exceed it by much
    rows = max(1, int(table.num_rows * max_bytes / max(table.nbytes, 1) / 4))
    return [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in table.to_batches(rows)]


def estimated_bytes(written: int, flushed: int, pending: int) -> int:
    """Estimates the size of a file with the rows that are still in memory, from the compression of earlier rows.

    Args:
        written: bytes of the file so far.
        flushed: Arrow bytes of the rows in it.
        pending: Arrow bytes of the rows in memory.
    """
    return written + int(pending * (written / flushed if flushed else _FIRST_RATIO))


def least_and_greatest(keys: pa.StringArray) -> tuple[str | None, str | None]:
    """Returns the smallest and greatest text in the order of Java's `String.compareTo` (UTF-16 units); None if there
    are none.

    Readers compare keys with a file's range in that order (`HoodieBloomFilterWriteSupport` with Avro records).
    """
    bounds = pc.min_max(keys)
    data = Texts.of(keys).data
    # UTF-8 has the order of UTF-16, except for U+E000 to U+FFFF (lead bytes EE, EF) relative to U+10000 and above (F0
    # and above)
    if len(data) and data.max() >= 0xF0 and ((data == 0xEE) | (data == 0xEF)).any():
        # one text at a time: rare, and Arrow has no such order
        texts = [key for key in keys.to_pylist() if key is not None]
        return min(texts, key=_java_order), max(texts, key=_java_order)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be")
