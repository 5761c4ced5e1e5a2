"""`df.write.format("hudi-py")`: Spark's writer."""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.errors import first_line
from hudi_py.wiring import write_target
from hudi_py.write.batches import BatchCommittedError, for_batch, given_batch
from hudi_py.write.distributed import (
    DistributedWrite,
    TaskId,
    TaskResult,
    WriteResult,
    abort_write,
    commit_write,
    nothing_written,
    plan_write,
    run_task,
)
from pyspark_hudi.types import arrow_schema

_log = logging.getLogger(__name__)


class TaskMessage(WriterCommitMessage):
    """A task attempt's message to the commit."""

    def __init__(self, result: TaskResult | None) -> None:
        self.result = result
        """None if the table already has the batch."""


class HudiWriter(DataSourceArrowWriter):
    """One write; pickled once to each task and once to the process that commits."""

    def __init__(self, write: DistributedWrite, committed: str | None = None) -> None:
        self.plan = write
        self.committed = committed
        """Says so if the table already has the batch (`hoodie.internal.spark.streaming.batch.id`)."""

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType, *, overwrite: bool) -> HudiWriter:
        """Plans the write. Raises what `plan_write` raises."""
        batch = given_batch(options)
        plan = plan_write(
            write_target(path, options),
            arrow_schema(schema),
            overwrite=overwrite,
            owner_pid=driver_pid(),
            stream=None if batch is None else batch.identifier,
        )
        try:
            return cls(plan if batch is None else for_batch(plan, batch))
        except BatchCommittedError as error:
            return cls(plan, first_line(error))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if self.committed is None:
            return TaskMessage(run_task(self.plan, task_id(), iterator))
        deque(iterator, maxlen=0)  # Spark expects all rows to be consumed
        return TaskMessage(None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        results = [message.result for message in messages if isinstance(message, TaskMessage)]
        commit_or_skip(self.plan, [result for result in results if result is not None], self.committed)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.committed is None:
            abort_write(self.plan)


def commit_or_skip(write: DistributedWrite, results: Sequence[TaskResult], committed: str | None = None) -> WriteResult:
    """Commits what tasks have written, unless the table already has the batch.

    Args:
        committed: says that it does, if this is known.
    """
    if committed is None:
        try:
            return commit_write(write, results)
        except BatchCommittedError as error:
            committed = first_line(error)
            abort_write(write)
    _log.warning("skipping a write to %s: %s", write.handle.table_uri, committed)
    return nothing_written(write)


def task_id() -> TaskId:
    """Returns the id of the running Spark task attempt."""
    context = TaskContext.get()
    if context is None:  # not within a Spark task
        return TaskId(attempt=random.getrandbits(31))
    return TaskId(context.partitionId(), context.stageId(), context.taskAttemptId())


def driver_pid() -> int | None:
    """Returns the process id of the JVM that runs the tasks: an ancestor of this process, or one that it has started;
    None if it cannot be found."""
    pid = None
    for _ in range(8):
        pid = _parent(pid)
        if pid is None or pid <= 1:
            break
        if _is_jvm(pid):
            return pid
    own, there = os.getpid(), Path("/proc")
    others = (int(folder.name) for folder in there.iterdir() if folder.name.isdigit()) if there.is_dir() else ()
    return next((other for other in others if _parent(other) == own and _is_jvm(other)), None)


def _is_jvm(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java"
    except OSError:  # the process ended, or there is no /proc
        return False


def _parent(pid: int | None) -> int | None:
    try:
        text = Path(f"/proc/{pid or 'self'}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the second field is the command in parentheses, which may itself contain spaces and parentheses
    return int(text[text.rindex(")") + 2 :].split()[1])
