"""Runs an update, delete or merge as a write: Spark's tasks stage the source, and the commit runs the statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.services.distributed import store_report
from hudi_py.wiring import after_commit, metadata_writer, published
from hudi_py.write.dml.distributed import (
    StagedFile,
    StatementCall,
    commit_statement,
    forget_source,
    plan_statement,
    stage_source,
)
from pyspark_hudi.types import arrow_schema
from pyspark_hudi.writer import task_id


class SourceMessage(WriterCommitMessage):
    """What a task staged."""

    def __init__(self, staged: StagedFile | None) -> None:
        self.staged = staged


class StatementWriter(DataSourceArrowWriter):
    """One statement, pickled to each Spark task and to the process that runs it."""

    def __init__(self, call: StatementCall) -> None:
        self.call = call

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType) -> StatementWriter:
        """Raises what `plan_statement` raises."""
        columns = arrow_schema(schema)
        return cls(plan_statement(path, options, columns, metadata_writer(options), after_commit(options)))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SourceMessage:
        return SourceMessage(stage_source(self.call, task_id(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = [message.staged for message in messages if isinstance(message, SourceMessage)]
        call = self.call
        # other statements have steps after the commit
        altered = (
            published(call.path, call.options, dict(call.storage_options)) if call.kind == "alter" else nullcontext()
        )
        with altered:
            result = commit_statement(call, [each for each in found if each is not None])
        if result is not None:
            store_report(self.call.storage(), self.call.token, asdict(result))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        forget_source(self.call)
