"""Reads a planned scan: its splits are Spark's partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.errors import SchemaMismatchError
from hudi_py.read import Pinned, Split, read_replaced, read_splits
from hudi_py.schema import conform_array
from pyspark_hudi.types import arrow_schema, to_target

MIN_ROWS = 65_536
"""Smaller batches are combined: each costs Spark a round trip."""
MAX_ROWS = 262_144
"""Larger batches are sliced: Spark holds a whole batch in memory."""


class HudiPartition(InputPartition):
    """The splits of one task, without their spec, which the reader has; empty for a scan without splits, since Spark
    runs a task anyway."""

    def __init__(self, splits: Sequence[Split]) -> None:
        super().__init__(None)
        self.splits = splits


class HudiReader(DataSourceReader):
    """Reads the columns of `schema`, by name.

    It has no `pushFilters`: Spark keeps one reader per relation and overwrites it at every push-down, so a DataFrame
    used twice would lose rows. The option `filter` selects rows instead.
    """

    def __init__(self, pinned: Pinned, options: Options, schema: StructType) -> None:
        self._target = arrow_schema(schema)
        self._check_types(pinned)
        self._spec = pinned.spec
        self._storage_options = dict(options.storage) or None
        self._partitions = [HudiPartition(splits) for splits in pinned.tasks(options)]

    def __getstate__(self) -> dict[str, object]:
        # each task gets its own partition and needs no list of them
        return {name: value for name, value in self.__dict__.items() if name != "_partitions"}

    def partitions(self) -> list[HudiPartition]:
        return list(self._partitions)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, HudiPartition):
            for batch in sized(self._batches(partition.splits)):
                yield to_target(_renamed_batch(batch, self._target), self._target)

    def _batches(self, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        return read_splits(self._spec, splits, self._storage_options)

    def _check_types(self, pinned: Pinned) -> None:
        _check_types(pinned, self._target)


class ReplacedReader(HudiReader):
    """Reads which rows of base files logs replace or delete, for the splits whose base files Spark reads."""

    def __init__(self, pinned: Pinned, options: Options, schema: StructType, columns: Sequence[str] = ()) -> None:
        """`columns`: columns of the table with known values, which the schema has at the end."""
        self._columns = tuple(columns)
        splits = tuple(split for split in pinned.splits if split.without_base)
        super().__init__(replace(pinned, splits=splits), options, schema)

    def _batches(self, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        return read_replaced(self._spec, splits, self._storage_options, columns=self._columns)

    def _check_types(self, pinned: Pinned) -> None:
        pass  # the columns are not the table's


def sized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches of a size that suits Spark. The first batch is passed at once: a LIMIT may need
    no more."""
    held: list[pa.RecordBatch] = []
    rows = 0
    first = next(batches, None)
    if first is not None:
        for start in range(0, first.num_rows, MAX_ROWS):
            yield first.slice(start, MAX_ROWS)
    for batch in batches:
        if held and rows + batch.num_rows > MAX_ROWS:
            yield pa.concat_batches(held)
            held, rows = [], 0
        if not held and batch.num_rows >= MIN_ROWS:
            for start in range(0, batch.num_rows, MAX_ROWS):
                yield batch.slice(start, MAX_ROWS)
            continue
        held.append(batch)
        rows += batch.num_rows
        if rows >= MIN_ROWS:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)


def _renamed_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with the target's spelling of the names; columns and order stay."""
    return batch if batch.schema.names == target.names else batch.rename_columns(target.names)


def _check_types(pinned: Pinned, target: pa.Schema) -> None:
    """Refuses, while planning, a requested type that a column does not widen to, rather than in a task."""
    for wanted, item in zip(target, pinned.schema, strict=True):
        try:
            conform_array(pa.array([], item.type), wanted.type, path=wanted.name)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"Cannot read column '{wanted.name}' of {pinned.spec.uri} as {wanted.type}: it is {item.type}, which "
                "does not widen to that; leave the schema out, or cast after reading"
            ) from error
