"""Runs an update, delete or merge as writes: tasks stage the source, and the commit runs the statement or plans it;
then tasks run the plan, and the commit publishes what they have written."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.services.distributed import store_report
from hudi_py.wiring import after_commit, announcing, metadata_writer
from hudi_py.write.dml.distributed import (
    SpreadPlan,
    SpreadResult,
    SpreadStatement,
    StagedSource,
    StatementCall,
    abort_spread,
    abort_statement,
    commit_spread,
    commit_statement,
    decode_spread,
    forget_source,
    plan_report,
    plan_statement,
    run_spread_task,
    stage_source,
)
from pyspark_hudi.types import arrow_schema
from pyspark_hudi.writer import driver_pid, task_id


class SourceMessage(WriterCommitMessage):
    """What a task staged."""

    def __init__(self, staged: StagedSource | None) -> None:
        self.staged = staged


class SpreadMessage(WriterCommitMessage):
    """What a task has written."""

    def __init__(self, result: SpreadResult) -> None:
        self.result = result


class StatementWriter(DataSourceArrowWriter):
    """One statement, pickled to each Spark task and to the process that runs or plans it."""

    def __init__(self, call: StatementCall) -> None:
        self.call = call

    @classmethod
    def of(cls, path: str, options: Options, schema: StructType) -> StatementWriter:
        """Raises what `plan_statement` raises."""
        columns, after = arrow_schema(schema), after_commit(options)
        return cls(plan_statement(path, options, columns, metadata_writer(options), after))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SourceMessage:
        return SourceMessage(stage_source(self.call, task_id(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = [message.staged for message in messages if isinstance(message, SourceMessage)]
        staged = [each for each in found if each is not None]
        call = self.call
        # other statements have steps after the commit
        altered = (
            announcing(call.path, call.options, dict(call.storage_options)) if call.kind == "alter" else nullcontext()
        )
        with altered:
            result = commit_statement(call, staged, owner_pid=driver_pid())
        if result is not None:
            report = plan_report(result) if isinstance(result, SpreadPlan) else asdict(result)
            store_report(self.call.storage(), self.call.token, report)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_statement(self.call)


class SpreadWriter(DataSourceArrowWriter):
    """A planned statement: its tasks write, and its commit publishes."""

    def __init__(self, plan: SpreadStatement, token: str) -> None:
        self.plan = plan
        self.token = token

    @classmethod
    def planned(cls, options: Options) -> SpreadWriter:
        """Raises ConfigError if the options have no plan of a statement."""
        plan = base64.b64decode(options.get(spark_config.WRITE_PLAN) or "")
        return cls(decode_spread(plan, options.storage), options.get(spark_config.SERVICE_TOKEN) or "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SpreadMessage:
        return SpreadMessage(run_spread_task(self.plan, task_id(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = commit_spread(self.plan, [each.result for each in messages if isinstance(each, SpreadMessage)])
        storage = self.plan.write.attach().storage
        store_report(storage, self.token, done.to_dict())
        forget_source(storage, self.token)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_spread(self.plan, self.token)
