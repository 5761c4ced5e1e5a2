"""`df.write.format("hudi-py")`: Spark's writer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.wiring import after_commit, metadata_writer
from hudi_py.write.distributed import (
    DistributedWrite,
    TaskId,
    TaskResult,
    abort_write,
    commit_write,
    plan_write,
    run_task,
)
from pyspark_hudi.types import arrow_schema


class TaskMessage(WriterCommitMessage):
    """What a task attempt passes to the commit."""

    def __init__(self, result: TaskResult) -> None:
        self.result = result


class HudiWriter(DataSourceArrowWriter):
    """One write; pickled once to each task and once to the process that commits."""

    def __init__(self, write: DistributedWrite) -> None:
        self.plan = write

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType, *, overwrite: bool) -> HudiWriter:
        """Plan the write. Raises what `plan_write` raises."""
        return cls(
            plan_write(
                path,
                options,
                arrow_schema(schema),
                metadata=metadata_writer(options),
                after=after_commit(options),
                overwrite=overwrite,
                owner_pid=_driver_pid(),
            )
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(run_task(self.plan, _task_id(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_write(self.plan, [message.result for message in messages if isinstance(message, TaskMessage)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_write(self.plan)


def _task_id() -> TaskId:
    context = TaskContext.get()
    if context is None:  # not in a Spark task
        return TaskId(attempt=random.getrandbits(31))
    return TaskId(context.partitionId(), context.stageId(), context.taskAttemptId())


def _driver_pid() -> int | None:
    """Of the JVM that runs the job, an ancestor of the process that plans a writer; None if it cannot be found."""
    pid = None
    for _ in range(8):
        pid = _parent(pid)
        if pid is None or pid <= 1:
            return None
        try:
            if Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java":
                return pid
        except OSError:  # the process ended, or there is no /proc
            return None
    return None


def _parent(pid: int | None) -> int | None:
    try:
        text = Path(f"/proc/{pid or 'self'}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the second field is the command in parentheses and may itself hold spaces and parentheses
    return int(text[text.rindex(")") + 2 :].split()[1])
