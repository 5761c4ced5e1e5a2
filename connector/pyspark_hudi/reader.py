"""Reading a pinned table: the splits of a scan as Spark's partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.errors import SchemaMismatchError
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.names import PartitionPath
from hudi_py.read import Split, read_split
from hudi_py.read.split import ReadSpec
from hudi_py.schema.conform import conform_array
from pyspark_hudi.pinned import Pinned
from pyspark_hudi.types import arrow_schema, to_target

MIN_ROWS = 65_536
"""Smaller batches are put together: each costs Spark a round trip."""
MAX_ROWS = 262_144
"""Larger ones are cut: Spark holds a batch as a whole."""


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """A split without what all splits of a scan have in common, which travels once, with the reader."""

    partition: PartitionPath
    file_id: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]
    row_groups: tuple[int, int] | None
    partition_values: tuple[tuple[str, pa.Scalar], ...]


class HudiPartition(InputPartition):
    """A split, or nothing at all: Spark runs a task even for a scan without splits."""

    def __init__(self, files: SplitFiles | None) -> None:
        super().__init__(files)
        self.files = files


class HudiReader(DataSourceReader):
    """Reads the columns of `schema`, by name.

    There is no `pushFilters`: Spark keeps one reader for each relation and overwrites it at every push-down, so that a
    DataFrame used twice would lose rows. Rows are chosen by the option `filter`.
    """

    def __init__(self, pinned: Pinned, options: Options, schema: StructType) -> None:
        self._target = arrow_schema(schema)
        _check_types(pinned, self._target)
        scan = pinned.scan(options, self._target.names)
        splits = scan.splits(options.get(read_config.SPLIT_BYTES))
        self._spec: ReadSpec = scan.plan().spec
        self._storage_options = dict(options.storage)
        self._partitions = [HudiPartition(_files(split)) for split in splits] or [HudiPartition(None)]

    def __getstate__(self) -> dict[str, object]:
        # tasks get their own partition, never the list of all
        return {name: value for name, value in self.__dict__.items() if name != "_partitions"}

    def partitions(self) -> list[InputPartition]:
        return list(self._partitions)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        files = getattr(partition, "files", None)
        if files is None:
            return
        split = Split(
            self._spec,
            files.partition,
            files.file_id,
            files.base_file,
            files.log_files,
            files.row_groups,
            files.partition_values,
        )
        for batch in sized(read_split(split, storage_options=self._storage_options or None)):
            yield to_target(_named(batch, self._target), self._target)


def sized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a size that suits Spark."""
    held: list[pa.RecordBatch] = []
    rows = 0
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


def _files(split: Split) -> SplitFiles:
    return SplitFiles(
        split.partition, split.file_id, split.base_file, split.log_files, split.row_groups, split.partition_values
    )


def _named(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch with names as Spark spells them: the scan's columns are the target's, in its order."""
    return batch if batch.schema.names == target.names else batch.rename_columns(target.names)


def _check_types(pinned: Pinned, target: pa.Schema) -> None:
    """Tell of a type that was asked for and cannot be had before a task does."""
    for wanted, found in zip(target, pinned.output_schema(target.names), strict=True):
        try:
            conform_array(pa.array([], found.type), wanted.type, path=wanted.name)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"Cannot read column '{wanted.name}' of {pinned.uri} as {wanted.type}: it is {found.type}, which "
                "does not widen to that; leave the schema out, or cast after reading"
            ) from error
