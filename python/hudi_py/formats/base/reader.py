"""What readers of base files share: the footer, and rows in the same Arrow types for every format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.formats.keys.bloom import BloomFilter
from hudi_py.formats.keys.hashing import Texts

BLOOM_FILTER = "org.apache.hudi.bloomfilter"
OLD_BLOOM_FILTER = "com.uber.hoodie.bloomfilter"
BLOOM_FILTER_TYPE_CODE = "hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = "hoodie_min_record_key"
MAX_RECORD_KEY = "hoodie_max_record_key"

BATCH_ROWS = 1 << 16
"""Default number of rows in a batch."""


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """The footer of a base file, or the metadata of a Lance file."""

    path: str
    num_rows: int
    num_row_groups: int
    schema: pa.Schema
    """The schema of `OpenBaseFile.batches`."""
    metadata: Mapping[str, str]
    """Key-value pairs, without the bloom filter and Arrow's own schema."""
    min_key: str | None
    """Smallest record key in Java's order; None if not recorded."""
    max_key: str | None
    bloom_text: str | None
    bloom_type_code: str | None

    def in_range(self, keys: pa.StringArray) -> pa.BooleanArray | None:
        """Tells for each key whether it is between the smallest and the greatest key; None if any key may be in the
        file."""
        low, high = self.min_key, self.max_key
        if low is None or high is None or any(_orders_otherwise(item) for item in (keys, pa.array([low, high]))):
            return None
        return pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high))

    @property
    def bloom(self) -> BloomFilter | None:
        """Decodes the filter of the file's record keys; decodes it again at each access.

        Raises:
            CorruptFileError: it cannot be decoded.
            UnsupportedTableError: its type is unknown.
        """
        if self.bloom_text is None:
            return None
        return BloomFilter.decode(self.bloom_text, self.bloom_type_code, context=self.path)


def _orders_otherwise(keys: pa.StringArray) -> bool:
    """Returns whether Java may order the keys differently: by UTF-16 units surrogates come before U+E000, while in
    UTF-8 both begin with a byte from 0xEE on."""
    return bool((Texts.of(keys).data >= 0xEE).any())


class OpenBaseFile(ABC):
    """A base file, open for reading. Its footer is read once; errors in the file become `CorruptFileError`."""

    parquet: pq.ParquetFile | None = None
    """Arrow's reader of a Parquet file, which has the statistics of its row groups; None for other formats."""

    def __init__(self, path: str, opened: ExitStack) -> None:
        """Stores the context that closes the file."""
        self.path = path
        self._opened = opened

    def __enter__(self) -> OpenBaseFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._opened.close()

    @cached_property
    def footer(self) -> BaseFileFooter:
        """Returns the file's footer; its bloom filter takes time to decode. Raises CorruptFileError."""
        with self._damage_named():
            return self._read_footer()

    @abstractmethod
    def _read_footer(self) -> BaseFileFooter: ...

    @abstractmethod
    def _damage_named(self) -> AbstractContextManager[None]:
        """Raises CorruptFileError for what Arrow or pylance raises for damage."""

    def batches(
        self,
        columns: Collection[str] | None,
        *,
        batch_rows: int = BATCH_ROWS,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows in order.

        Types are those of the file, except: strings have type string, list elements are named "element", everything
        within a column is nullable, and INT96 timestamps and those of ORC files are timestamp[us, UTC].

        Args:
            columns: top-level columns, in the order of the result; missing ones are ignored. If None, all columns in
                the file's order. If the file has none of them, batches have rows but no columns.
            batch_rows: maximum rows of a batch.
            row_groups: numbers of the row groups (ORC: stripes) to read; None: all. Lance files have none.

        Raises:
            CorruptFileError: the file is damaged.
        """
        with self._damage_named():
            yield from self._batches(columns, batch_rows, row_groups)

    @abstractmethod
    def _batches(
        self, columns: Collection[str] | None, batch_rows: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]: ...

    def row_group_sizes(self) -> list[int]:
        """Returns the bytes of each row group (ORC: stripe); empty if the file can only be read as a whole."""
        return []


def footer_with(path: str, rows: int, groups: int, schema: pa.Schema, texts: dict[str, str]) -> BaseFileFooter:
    """Builds the footer of any format. `texts` has its key-value pairs, including the bloom filter."""
    old = texts.pop(OLD_BLOOM_FILTER, None)
    bloom = texts.pop(BLOOM_FILTER, old)
    low, high, code = texts.get(MIN_RECORD_KEY), texts.get(MAX_RECORD_KEY), texts.get(BLOOM_FILTER_TYPE_CODE)
    return BaseFileFooter(path, rows, groups, schema, texts, low, high, bloom, code)


def empty_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields batches with `rows` rows in total and no columns."""
    for start in range(0, rows, batch_rows):
        nothing = pa.nulls(min(batch_rows, rows - start))
        yield pa.RecordBatch.from_arrays([nothing], names=["_"]).select([])


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which columns of base files are returned, whatever the writer's names of nested fields."""
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
