"""Runs a table service as a write: Spark tasks execute the tasks of a plan, and the commit completes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_py.config import Options
from hudi_py.errors import TableNotFoundError
from hudi_py.services.distributed import ServiceCall, abort_call, commit_call, execute_tasks, plan_call
from hudi_py.wiring import announcing, metadata_writer

TASK = "task"
"""The column with the numbers of the plan's tasks that a Spark task executes."""


class ServiceMessage(WriterCommitMessage):
    """The outcomes of a Spark task."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        self.outcomes = tuple(outcomes)


class ServiceWriter(DataSourceArrowWriter):
    """One call, pickled to each Spark task and to the process that commits."""

    def __init__(self, call: ServiceCall) -> None:
        self.call = call

    @classmethod
    def of(cls, path: str, options: Options) -> ServiceWriter:
        """Raises what `plan_call` raises."""
        return cls(plan_call(path, options, metadata_writer(options)))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ServiceMessage:
        tasks = [task for batch in iterator for task in batch.column(TASK).to_pylist()]
        try:
            return ServiceMessage(execute_tasks(self.call, tasks))
        except TableNotFoundError as error:  # the planning process found it
            raise TableNotFoundError(
                f"{error}; Spark's driver can see the table, but its executor on {socket.gethostname()} cannot: give a "
                "path that all of them can reach"
            ) from error

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        outcomes = [each for message in messages if isinstance(message, ServiceMessage) for each in message.outcomes]
        with announcing(self.call.path, self.call.options):
            commit_call(self.call, outcomes)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_call(self.call)
