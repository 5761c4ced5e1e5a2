"""`spark.readStream.format("hudi-py")`: micro-batches of a table's commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.read import read_split
from hudi_py.read.offsets import Limits, StreamOffset
from hudi_py.read.stream import TableStream
from hudi_py.storage import Storage, open_storage
from pyspark_hudi.partitions import HudiPartition, TaskSize, tasks_of
from pyspark_hudi.reader import sized
from pyspark_hudi.types import arrow_schema, to_target

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    ADMISSION = True
    """Whether this Spark asks for a batch's end with its beginning and a limit (4.2 and later)."""
except ImportError:
    ADMISSION = False
    if not TYPE_CHECKING:

        class SupportsTriggerAvailableNow:
            """Not known to this Spark."""


def stream_schema(path: str, options: Options, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a streaming query that starts now; other than for a batch, no file is looked for.

    Raises:
        ConfigError: options which a stream cannot follow, or a start that is no time. It is told at `load()`, as the
            errors of a running query have their message below a traceback, whatever Spark's configuration.
        TableNotFoundError, UnsupportedTableError, SchemaMismatchError: as for any read.
    """
    return TableStream(open_storage(path, options.storage or None), options).output_schema(columns)


class StreamPartition(InputPartition):
    """What one task of a micro-batch reads: all of it, for the reader that planned is not the one that reads."""

    def __init__(self, spec: Any, files: HudiPartition) -> None:
        super().__init__(None)
        self._spec = spec
        self._files = files

    def splits(self) -> list[Any]:
        return self._files.whole(self._spec)


class HudiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one query and reads them.

    Spark makes one for planning, which lives as long as the query, and another one for each batch, which goes to the
    tasks; so making one costs nothing.
    """

    def __init__(self, path: str, options: Options, schema: StructType) -> None:
        self._path = path
        self._options = options
        self._target = arrow_schema(schema)
        self._planning: tuple[Storage, TableStream] | None = None
        self._last: StreamOffset | None = None
        """The end of the last batch that was planned; only Spark before 4.2 does not tell it."""
        self._asked = False
        self._until: StreamOffset | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_planning": None, "_last": None, "_until": None}

    # ---- planning

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return self._stream.initial_offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark hands this on to `latestOffset`, where its trigger does not ask for all there is."""
        limits = self._stream.limits()
        if limits.bytes is not None:
            return ReadMaxBytes(limits.bytes)
        if limits.commits is not None:
            return ReadMaxFiles(limits.commits)  # Spark has no limit of commits; the one of the options counts
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, str]:
        stream = self._stream
        if start is not None:
            return stream.latest_offset(StreamOffset.from_json(start), self._limits(limit), self._until).to_json()
        # Before 4.2 Spark tells neither. Its first question may be that of `availableNow` or `once`, which are one
        # batch there: a limit would leave commits out.
        limits, self._asked = stream.limits() if self._asked else Limits(), True
        return stream.latest_offset(self._last or stream.initial_offset(), limits).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._stream.newest_offset()

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        newest = self._stream.seen_offset()
        return None if newest is None else newest.to_json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        begin, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._last = last
        plan = self._stream.plan_batch(begin, last)
        if plan is None or not plan.splits:
            return []
        size = TaskSize.of(self._options)
        return [
            StreamPartition(spec, task)
            for spec, splits in groupby(plan.splits, key=lambda split: split.spec)
            for task in tasks_of(self._storage, list(splits), size)
        ]

    def _limits(self, limit: ReadLimit | None) -> Limits:
        if limit is None or isinstance(limit, ReadAllAvailable):
            return Limits()
        own = self._stream.limits()
        if isinstance(limit, ReadMaxBytes):
            return Limits(own.commits, limit.max_bytes)
        if isinstance(limit, ReadMaxRows):
            return Limits(own.commits, own.bytes, limit.max_rows)
        return own

    @property
    def _stream(self) -> TableStream:
        return self._open()[1]

    @property
    def _storage(self) -> Storage:
        return self._open()[0]

    def _open(self) -> tuple[Storage, TableStream]:
        if self._planning is None:
            storage = open_storage(self._path, self._options.storage or None)
            self._planning = storage, TableStream(storage, self._options, self._target)
        return self._planning

    # ---- tasks

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):  # Spark runs a task even for a batch without partitions
            return
        storage_options = dict(self._options.storage) or None

        def rows() -> Iterator[pa.RecordBatch]:
            for split in partition.splits():
                yield from read_split(split, storage_options=storage_options)

        for batch in sized(rows()):
            yield to_target(batch.rename_columns(self._target.names), self._target)
