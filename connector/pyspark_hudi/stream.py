"""Streams from a table, in micro-batches of its commits, and into one: `spark.readStream` and `df.writeStream`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hudi_py.config import Options, compaction
from hudi_py.config import incremental as incremental_config
from hudi_py.errors import HudiError, first_line
from hudi_py.read import BatchLimits, ReadSpec, Split, StreamOffset, TableStream, read_splits, tasks_of
from hudi_py.wiring import service_target, write_target
from hudi_py.write.batches import Batch, BatchCommittedError, abort_stream, for_batch, plan_batch, stream_identifier
from hudi_py.write.distributed import DistributedWrite, TaskResult, abort_write, commit_write, plan_write, run_task
from pyspark_hudi.reader import sized
from pyspark_hudi.types import arrow_schema, to_target
from pyspark_hudi.writer import driver_pid, task_id

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


_log = logging.getLogger(__name__)
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


def stream_schema(path: str, options: Options, columns: Sequence[str] | None) -> pa.Schema:
    """Returns the columns of a streaming query that starts now; unlike for a batch, no files are listed.

    Raises:
        ConfigError: an option is not supported for streams, or the start is not a time. It is checked at `load()` so
            that the message is in the first line; errors of a running query have it below a traceback.
        TableNotFoundError, UnsupportedTableError, SchemaMismatchError: as for any read.
    """
    return TableStream.open(path, options).output_schema(columns)


class StreamPartition(InputPartition):
    """The splits that one task of a micro-batch reads, complete with their spec: another reader instance planned
    them."""

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


"""Spark's local properties in the tasks of a batch."""


class BatchMessage(WriterCommitMessage):
    """A task attempt's message to the commit, which gets the plan only this way."""

    def __init__(self, write: DistributedWrite, query: str | None, result: TaskResult | HudiError | None) -> None:
        self.write = write
        self.query = query
        self.result = result
        """None if the table already has the batch."""


# Releases before 4.1 have no DataSourceStreamArrowWriter; all of them pass Arrow to a DataSourceArrowWriter
class HudiStreamWriter(DataSourceStreamWriter, DataSourceArrowWriter):
    """Writes one batch. Spark creates it for the plan of each batch and pickles it to the tasks, then creates another
    one for the commit, which gets the plan with the messages."""

    def __init__(self, path: str, options: Options, plan: DistributedWrite | None = None) -> None:
        self.path = path
        self.options = options
        self.plan = plan

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType | None, *, overwrite: bool) -> HudiStreamWriter:
        """Plans a batch of rows with this schema; None for a commit. Raises what `plan_write` raises."""
        stream = stream_identifier(options)
        options = _with_compaction(options)
        if schema is None:
            return cls(path, options)
        incoming = arrow_schema(schema)
        plan = plan_batch(
            lambda: plan_write(
                write_target(path, options),
                incoming,
                overwrite=overwrite,
                owner_pid=driver_pid(),
                stream=stream,
            ),
            options,
        )
        return cls(path, options, plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:
        assert self.plan is not None
        query, batch = _running_batch()
        result: TaskResult | HudiError | None = None
        if self.plan.last is None or batch is None or batch > self.plan.last.id:
            try:
                result = run_task(self.plan, task_id(), iterator)
            except HudiError as error:
                if not self.options.get(incremental_config.SINK_IGNORE_FAILED_BATCH):
                    raise
                result = error
        deque(iterator, maxlen=0)  # Spark expects all rows to be consumed
        return BatchMessage(self.plan, query, result)

    def commit(  # type: ignore[override]
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        received = [message for message in messages if isinstance(message, BatchMessage)]
        try:
            write = for_batch(received[0].write, Batch(stream_identifier(self.options), batchId, received[0].query))
        except BatchCommittedError as error:
            return self._skip(messages, batchId, error)
        try:
            commit_write(write, _task_results(received))
        except BatchCommittedError as error:
            self._skip(messages, batchId, error)
        except Exception as error:  # the option covers failures of any kind
            if not self.options.get(incremental_config.SINK_IGNORE_FAILED_BATCH):
                raise
            _log.warning(
                "batch %d for %s failed; the query continues without it because of %s: %s",
                batchId,
                self.path,
                incremental_config.SINK_IGNORE_FAILED_BATCH.key,
                first_line(error),
            )
            self.abort(messages, batchId)

    def abort(  # type: ignore[override]
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        received = [message for message in messages if isinstance(message, BatchMessage)]
        if any(message.result is not None for message in received):
            abort_write(received[0].write)
        elif not received:
            abort_stream(service_target(self.path, self.options), stream_identifier(self.options))

    def _skip(self, messages: Sequence[WriterCommitMessage | None], batch_id: int, reason: BatchCommittedError) -> None:
        _log.warning("skipping a batch for %s: %s", self.path, first_line(reason))
        self.abort(messages, batch_id)


def _task_results(messages: Sequence[BatchMessage]) -> list[TaskResult]:
    results = []
    for message in messages:
        if isinstance(message.result, HudiError):
            raise message.result
        if message.result is not None:
            results.append(message.result)
    return results


def _with_compaction(options: Options) -> Options:
    """Compacts a merge-on-read table as it is streamed into, unless other processes do (`HoodieStreamingSink`, 1.2.0,
    does it in parallel with the stream)."""
    if options.get(incremental_config.SINK_DISABLE_COMPACTION) or options.get(compaction.SCHEDULE_INLINE):
        return options
    return options.replace({compaction.INLINE: "true"})


def _running_batch() -> tuple[str | None, int | None]:
    """Returns the query and the batch to which this task belongs."""
    context = TaskContext.get()
    if context is None:  # not within a Spark task
        return None, None
    batch = context.getLocalProperty(_BATCH_ID)
    return context.getLocalProperty(_QUERY_ID), None if batch is None else int(batch)
