"""`spark.readStream.format("hudi-py")`: micro-batches of a table's commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.read import BatchLimits, ReadSpec, Split, StreamOffset, TableStream, read_splits, tasks_of
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
    """Whether Spark passes a batch's start and a limit when it asks for the end (4.2 and later)."""
except ImportError:
    ADMISSION = False
    if not TYPE_CHECKING:

        class SupportsTriggerAvailableNow:
            """A placeholder for releases of Spark without this class."""


def stream_schema(path: str, options: Options, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a streaming query that starts now; unlike for a batch, no files are listed.

    Raises:
        ConfigError: an option is not supported for streams, or the start is not a time. It is checked at `load()` so
            that the message is in the first line; errors of a running query have it below a traceback.
        TableNotFoundError, UnsupportedTableError, SchemaMismatchError: as for any read.
    """
    return TableStream.open(path, options).output_schema(columns)


class StreamPartition(InputPartition):
    """What one task of a micro-batch reads, complete with its spec: another reader instance planned it."""

    def __init__(self, spec: ReadSpec, splits: Sequence[Split]) -> None:
        super().__init__(None)
        self.spec = spec
        self.splits = splits


class HudiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one query and reads them.

    Spark creates one instance for planning, which lives as long as the query, and one per batch, which goes to the
    tasks. Creating one must therefore be cheap.
    """

    def __init__(self, path: str, options: Options, schema: StructType) -> None:
        self._path = path
        self._options = options
        self._target = arrow_schema(schema)
        self._planning: TableStream | None = None
        self._last: StreamOffset | None = None
        """The end of the last planned batch, needed with Spark before 4.2, which does not pass it."""
        self._asked = False
        self._until: StreamOffset | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_planning": None, "_last": None, "_until": None}

    # ---- planning

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return self._stream.initial_offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark passes this to `latestOffset` unless the trigger asks for everything available."""
        limits = self._stream.limits()
        if limits.bytes is not None:
            return ReadMaxBytes(limits.bytes)
        if limits.commits is not None:
            return ReadMaxFiles(limits.commits)  # Spark has no limit on commits; the one in the options applies
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, str]:
        stream = self._stream
        if start is not None:
            return stream.latest_offset(StreamOffset.from_json(start), self._limits(limit), self._until).to_json()
        # Before 4.2 Spark passes neither. The first call may be from `availableNow` or `once`, which read everything
        # in one batch: a limit would leave out commits.
        limits, self._asked = stream.limits() if self._asked else BatchLimits(), True
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
        return [
            StreamPartition(spec, task)
            for spec, splits in groupby(plan.splits, key=lambda split: split.spec)
            for task in tasks_of(spec, list(splits), self._options)
        ]

    def _limits(self, limit: ReadLimit | None) -> BatchLimits:
        if limit is None or isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        own = self._stream.limits()
        if isinstance(limit, ReadMaxBytes):
            return BatchLimits(own.commits, limit.max_bytes)
        if isinstance(limit, ReadMaxRows):
            return BatchLimits(own.commits, own.bytes, limit.max_rows)
        return own

    @property
    def _stream(self) -> TableStream:
        if self._planning is None:
            self._planning = TableStream.open(self._path, self._options, self._target)
        return self._planning

    # ---- tasks

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):  # Spark runs a task even for an empty batch
            return
        for batch in sized(read_splits(partition.spec, partition.splits, self._options.for_storage())):
            yield to_target(batch.rename_columns(self._target.names), self._target)
