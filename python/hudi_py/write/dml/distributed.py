"""A statement on an engine with several processes: tasks stage its source, then one process runs it, or plans it for
tasks (`spread`)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.config import write as write_config
from hudi_py.model.layout import SOURCES
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
from hudi_py.storage import Storage, open_storage, with_durability
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.write.api import create_empty_table
from hudi_py.write.context import TaskId
from hudi_py.write.distributed import abort_write
from hudi_py.write.dml.builder import MergeBuilder
from hudi_py.write.dml.merge import BoundMergeOf
from hudi_py.write.dml.merge_plan import MergePlan
from hudi_py.write.dml.run import bind_statement, run_in_session, statement_session
from hudi_py.write.dml.source import SourceColumns, StagedSource, stage_rows
from hudi_py.write.dml.spread import (
    PARCELS,
    WORK,
    SpreadPlan,
    SpreadResult,
    SpreadStatement,
    SpreadSteps,
    commit_spread,
    decode_spread,
    encode_plan,
    plan_spread,
    run_spread_task,
)
from hudi_py.write.dml.text import (
    alter_text,
    column_changes,
    delete_text,
    forget_text,
    kind_of,
    merge_text,
    new_partitions,
    new_place,
    partitions_text,
    rename_text,
    statement_of,
    table_text,
    update_text,
)
from hudi_py.write.result import WriteResult
from hudi_py.write.retry import redo_on_conflict
from hudi_py.write.rows.input import normalise_schema
from hudi_py.write.rows.keygen import key_generator
from hudi_py.write.staging import staged_rows
from hudi_py.write.table.alter import alter_table
from hudi_py.write.table.drop import drop_table
from hudi_py.write.table.partitions import add_partitions
from hudi_py.write.table.rename import check_move, rename_table

__all__ = [
    "PARCELS",
    "WORK",
    "MergeBuilder",
    "MergePlan",
    "SpreadPlan",
    "SpreadResult",
    "SpreadStatement",
    "SpreadSteps",
    "StagedSource",
    "StatementCall",
    "TableConfig",
    "WriteResult",
    "abort_spread",
    "abort_statement",
    "alter_text",
    "commit_spread",
    "commit_statement",
    "decode_spread",
    "delete_text",
    "forget_source",
    "forget_text",
    "merge_text",
    "partition_path",
    "partitions_text",
    "plan_report",
    "plan_statement",
    "redo_on_conflict",
    "rename_text",
    "run_spread_task",
    "stage_source",
    "table_text",
    "update_text",
]

_SOURCE_LIFE_MS: Final = 24 * 3600 * 1000


def partition_path(config: TableConfig, values: pa.RecordBatch) -> str:
    """The path of the partition with the values of the one row of `values`."""
    return str(key_generator(config).partition_paths(values)[0].as_py())


@dataclass(frozen=True, slots=True)
class StatementCall:
    """A statement as each process receives it. Pickles."""

    path: str
    options: Options
    """Those of the write, without the options of the storage."""
    text: str
    """See `hudi_py.write.dml.text`."""
    token: str
    """Unique to the call; names the files of its source and its report."""
    source: pa.Schema
    """Normalised columns of the rows that tasks get: of the source of a merge, or of a new table; or the types that an
    alteration names."""
    metadata: MetadataWriter
    after: tuple[AfterCommit, ...] = ()
    columns: SourceColumns | None = None
    """Of a merge: what it does with rows of the source alone."""
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def storage(self) -> Storage:
        storage = open_storage(self.path, dict(self.storage_options) or None)
        return with_durability(storage, self.options.get(write_config.DURABLE))

    @property
    def kind(self) -> str:
        return kind_of(self.text)


def plan_statement(
    path: str, options: Options, schema: pa.Schema, metadata: MetadataWriter, after: tuple[AfterCommit, ...]
) -> StatementCall:
    """The statement that the options describe, checked against the table. Changes nothing.

    Args:
        schema: the columns of the rows that tasks will get.

    Raises:
        HudiError: as `run_statement`, if the statement does not fit the table or its source.
    """
    check_many_processes(options)
    text = options.get(spark_config.STATEMENT) or ""
    token = options.get(spark_config.SERVICE_TOKEN) or ""
    bare = options.without_credentials()
    storage_options = tuple(options.storage.items())
    call = StatementCall(path, bare, text, token, pa.schema([]), metadata, after, storage_options=storage_options)
    if call.kind in ("merge", "create", "alter"):
        columns = pa.schema([each for each in schema if each.name not in META_FIELDS])
        call = replace(call, source=normalise_schema(columns))
    if call.kind == "rename":
        check_move(path, new_place(text)[1], call.storage())
    if call.kind in ("create", "drop", "alter", "forget", "rename", "partitions"):
        return call
    statement = statement_of(text, call.source.empty_table())
    session = statement_session(call.storage(), statement, bare, metadata, (), dict(storage_options) or None)
    bound, settings = bind_statement(session.view(session.timeline()), statement, bare)
    if not isinstance(bound, BoundMergeOf):
        return call
    return replace(call, columns=SourceColumns.of(bound.bound, settings))


def stage_source(call: StatementCall, task: TaskId, batches: Iterable[pa.RecordBatch]) -> StagedSource | None:
    """Stages the rows of one task attempt; None: there are none.

    Raises:
        SchemaMismatchError, ConfigError: a value that no table holds, or a key that cannot be evaluated.
    """
    if call.columns is None:
        return None
    return stage_rows(call.storage(), call.token, task, call.source, call.columns, batches)


def commit_statement(
    call: StatementCall, staged: Sequence[StagedSource], *, owner_pid: int | None = None
) -> WriteResult | SpreadPlan | None:
    """Runs the statement, whatever its tasks staged, and removes its source; or plans it for tasks. Only a
    change of rows or columns has a result.

    Args:
        owner_pid: the process whose end ends a write by tasks.

    Raises:
        HudiError: as `run_statement` or `create_empty_table`.
    """
    storage, storage_options = call.storage(), dict(call.storage_options) or None
    if call.kind == "create":
        create_empty_table(storage, call.source, call.options)
        return None
    if call.kind == "drop":
        drop_table(storage, call.options, metadata=call.metadata, storage_options=storage_options)
        return None
    if call.kind == "rename":
        name, target = new_place(call.text)
        rename_table(storage, name, target, call.options, metadata=call.metadata, storage_options=storage_options)
        return None
    if call.kind == "partitions":
        paths, quiet = new_partitions(call.text)
        add_partitions(
            storage, paths, call.options, if_not_exists=quiet, metadata=call.metadata, storage_options=storage_options
        )
        return None
    if call.kind == "forget":
        forget_source(storage, call.token)
        return None
    if call.kind == "alter":
        found = column_changes(call.text, call.source)
        return alter_table(storage, found, call.options, metadata=call.metadata, storage_options=storage_options)
    planned = None
    try:
        statement = statement_of(call.text, call.source.empty_table())
        session = statement_session(storage, statement, call.options, call.metadata, call.after, storage_options)
        planned, _ = redo_on_conflict(
            lambda: plan_spread(
                session, statement, call.options, text=call.text, files=staged, after=call.after, owner_pid=owner_pid
            ),
            session.settings.conflict_retries,
        )
        if planned is not None:
            return planned
        rows = pa.Table.from_batches(list(staged_rows(storage, [each.file for each in staged])), call.source)
        return run_in_session(session, statement_of(call.text, rows), call.options, call.after)
    finally:
        if planned is None:
            forget_source(storage, call.token)


def plan_report(plan: SpreadPlan) -> dict[str, Any]:
    """A plan in JSON's types, for the process that starts its tasks."""
    settings = plan.statement.write.handle.settings
    return {
        "plan": base64.b64encode(encode_plan(plan.statement)).decode(),
        "work": [base64.b64encode(each).decode() for each in plan.work],
        "shuffles": plan.shuffles,
        "parts": plan.statement.parts,
        "writers": plan.writers,
        "retries": settings.conflict_retries,
    }


def abort_statement(call: StatementCall) -> None:
    """Removes what the tasks of a statement staged."""
    if call.columns is not None:
        forget_source(call.storage(), call.token)


def abort_spread(plan: SpreadStatement, token: str) -> None:
    """Rolls back what the tasks of a planned statement have written, unless it was published."""
    try:
        abort_write(plan.write)
    finally:
        forget_source(plan.write.attach().storage, token)


def forget_source(storage: Storage, token: str) -> None:
    """Removes what the tasks of a statement staged, and sources older than a day."""
    for info in storage.list(SOURCES):
        if info.name.startswith(f"{token}-") or now_ms() - info.modified_ms > _SOURCE_LIFE_MS:
            storage.delete(info.path)
