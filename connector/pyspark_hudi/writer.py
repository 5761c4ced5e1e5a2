"""`df.write.format("hudi-py")`: Spark's writer."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options, Problems, Scope
from hudi_py.config import spark as spark_config
from hudi_py.errors import first_line
from hudi_py.services.distributed import store_report
from hudi_py.wiring import after_commit, checked_write, metadata_writer
from hudi_py.write.batches import BatchCommittedError, for_batch, given_batch
from hudi_py.write.distributed import (
    DistributedWrite,
    TaskId,
    TaskResult,
    abort_write,
    commit_write,
    nothing_written,
    plan_write,
    run_task,
)
from hudi_py.write.routed import PLAN_SCHEMA, decode_plan, plan_routed
from pyspark_hudi.types import arrow_schema

_log = logging.getLogger(__name__)

ABANDONED = "abandoned"
"""The plan, as base64, of a write that ended before Spark's writer had it."""


class TaskMessage(WriterCommitMessage):
    """What a task attempt passes to the commit."""

    def __init__(self, result: TaskResult | None) -> None:
        self.result = result
        """None: the table holds the batch already."""


class HudiWriter(DataSourceArrowWriter):
    """One write; pickled once to each task and once to the process that commits."""

    def __init__(self, write: DistributedWrite, committed: str | None = None, token: str | None = None) -> None:
        self.plan = write
        self.token = token
        """Under which the result is stored."""
        self.committed = committed
        """Says that the table holds the batch already, if so (`hoodie.internal.spark.streaming.batch.id`)."""

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType, *, overwrite: bool) -> HudiWriter:
        """Plan the write. Raises what `plan_write` raises."""
        batch = given_batch(options)
        plan = plan_write(
            path,
            options,
            arrow_schema(schema),
            after=after_commit(options),
            metadata=metadata_writer(options),
            overwrite=overwrite,
            owner_pid=driver_pid(),
            stream=None if batch is None else batch.identifier,
        )
        try:
            return cls(plan if batch is None else for_batch(plan, batch))
        except BatchCommittedError as error:
            return cls(plan, first_line(error))

    @classmethod
    def planned(cls, options: Options) -> HudiWriter:
        """For a write by `write_table`, whose plan is in the options."""
        write = decode_plan(base64.b64decode(options.get(spark_config.WRITE_PLAN) or ""), options.storage)
        if options.get(spark_config.WRITE_STAGES):
            write = replace(write, arrival="one")
        return cls(write, token=options.get(spark_config.SERVICE_TOKEN))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if self.committed is None:
            return TaskMessage(run_task(self.plan, task_id(), iterator))
        deque(iterator, maxlen=0)  # Spark expects that all rows are taken
        return TaskMessage(None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = [message.result for message in messages if isinstance(message, TaskMessage)]
        committed, done = self.committed, nothing_written(self.plan)
        if committed is None:
            try:
                done = commit_write(self.plan, [result for result in found if result is not None])
            except BatchCommittedError as error:
                committed = first_line(error)
                abort_write(self.plan)
        if committed is not None:
            _log.warning("skipping a write to %s: %s", self.plan.handle.table_uri, committed)
        if self.token is not None:
            store_report(self.plan.attach().storage, self.token, done.to_dict())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.committed is None:
            abort_write(self.plan)


def write_plan(path: str, options: Options) -> pa.Table:
    """The plan of the write that the options of a read ask for: one row of `PLAN_SCHEMA`. Or gives up the
    one that they name. Raises as `plan_routed`."""
    request = json.loads(options.get(spark_config.WRITE_REQUEST) or "{}")
    if ABANDONED in request:
        abort_write(decode_plan(base64.b64decode(request[ABANDONED]), options.storage))
        return PLAN_SCHEMA.empty_table()
    problems = Problems()
    resolved = checked_write(Options.resolve(request["options"], Scope.WRITE, problems=problems), problems)
    asked = replace(resolved, storage=options.storage)
    return plan_routed(
        path,
        request["operation"],
        asked,
        arrow_schema(StructType.fromJson(request["schema"])),
        after=after_commit(asked),
        metadata=metadata_writer(asked),
        owner_pid=driver_pid(),
    )


def task_id() -> TaskId:
    """Of this attempt of a Spark task."""
    context = TaskContext.get()
    if context is None:  # not in a Spark task
        return TaskId(attempt=random.getrandbits(31))
    return TaskId(context.partitionId(), context.stageId(), context.taskAttemptId())


def driver_pid() -> int | None:
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
