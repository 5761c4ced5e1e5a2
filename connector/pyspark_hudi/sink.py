"""`df.writeStream.format("hudi-py")`: Spark's streaming sink."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options, compaction
from hudi_py.config import incremental as incremental_config
from hudi_py.errors import HudiError, first_line
from hudi_py.wiring import after_commit, metadata_writer
from hudi_py.write.batches import (
    Batch,
    BatchCommittedError,
    abort_stream,
    for_batch,
    plan_batch,
    stream_identifier,
)
from hudi_py.write.distributed import DistributedWrite, TaskResult, abort_write, commit_write, plan_write, run_task
from pyspark_hudi.types import arrow_schema
from pyspark_hudi.writer import driver_pid, task_id

_log = logging.getLogger(__name__)

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's local properties in the tasks of a batch."""


class BatchMessage(WriterCommitMessage):
    """What a task attempt passes to the commit, which has the plan from here alone."""

    def __init__(self, write: DistributedWrite, query: str | None, result: TaskResult | HudiError | None) -> None:
        self.write = write
        self.query = query
        self.result = result
        """None: the batch is in the table already."""


# Releases before 4.1 have no DataSourceStreamArrowWriter; all of them pass Arrow to what is a DataSourceArrowWriter
class HudiStreamWriter(DataSourceStreamWriter, DataSourceArrowWriter):
    """One batch. Spark makes it anew for the plan of each batch and pickles it to the tasks, then makes another one for
    the commit, which gets the plan with the messages."""

    def __init__(self, path: str, options: Options, plan: DistributedWrite | None = None) -> None:
        self.path = path
        self.options = options
        self.plan = plan

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType | None, *, overwrite: bool) -> HudiStreamWriter:
        """Plan a batch of rows with this schema; None: for a commit. Raises what `plan_write` raises."""
        stream = stream_identifier(options)
        options = _with_compaction(options)
        if schema is None:
            return cls(path, options)
        incoming = arrow_schema(schema)
        plan = plan_batch(
            lambda: plan_write(
                path,
                options,
                incoming,
                after=after_commit(options),
                metadata=metadata_writer(options),
                overwrite=overwrite,
                owner_pid=driver_pid(),
                stream=stream,
            ),
            options,
        )
        return cls(path, options, plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:
        assert self.plan is not None
        query, batch = _running()
        result: TaskResult | HudiError | None = None
        if self.plan.last is None or batch is None or batch > self.plan.last.id:
            try:
                result = run_task(self.plan, task_id(), iterator)
            except HudiError as error:
                if not self.options.get(incremental_config.SINK_IGNORE_FAILED_BATCH):
                    raise
                result = error
        deque(iterator, maxlen=0)  # Spark expects that all rows are taken
        return BatchMessage(self.plan, query, result)

    def commit(  # type: ignore[override]
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        found = [message for message in messages if isinstance(message, BatchMessage)]
        try:
            write = for_batch(found[0].write, Batch(stream_identifier(self.options), batchId, found[0].query))
        except BatchCommittedError as error:
            return self._skip(messages, batchId, error)
        try:
            commit_write(write, _results(found))
        except BatchCommittedError as error:
            self._skip(messages, batchId, error)
        except Exception as error:  # the option is about failures of any kind
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
        found = [message for message in messages if isinstance(message, BatchMessage)]
        if any(message.result is not None for message in found):
            abort_write(found[0].write)
        elif not found:
            abort_stream(self.path, self.options, stream_identifier(self.options), metadata_writer(self.options))

    def _skip(self, messages: Sequence[WriterCommitMessage | None], batch_id: int, reason: BatchCommittedError) -> None:
        _log.warning("skipping a batch for %s: %s", self.path, first_line(reason))
        self.abort(messages, batch_id)


def _results(messages: Sequence[BatchMessage]) -> list[TaskResult]:
    results = []
    for message in messages:
        if isinstance(message.result, HudiError):
            raise message.result
        if message.result is not None:
            results.append(message.result)
    return results


def _with_compaction(options: Options) -> Options:
    """A merge-on-read table is compacted as it is streamed into, unless that is left to others
    (`HoodieStreamingSink`, 1.2.0, does it beside the stream)."""
    if options.get(incremental_config.SINK_DISABLE_COMPACTION) or options.get(compaction.SCHEDULE_INLINE):
        return options
    return options.replace({compaction.INLINE: "true"})


def _running() -> tuple[str | None, int | None]:
    """The query and the batch that this task belongs to."""
    context = TaskContext.get()
    if context is None:  # not in a Spark task
        return None, None
    batch = context.getLocalProperty(_BATCH_ID)
    return context.getLocalProperty(_QUERY_ID), None if batch is None else int(batch)
