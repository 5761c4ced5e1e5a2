"""A statement on an engine with several processes: tasks stage its source, then one process runs it, or plans it for
tasks (`spread`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
from hudi_py.storage import Storage, open_storage, with_durability
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.write.context import TaskId
from hudi_py.write.dml.builder import MergeBuilder
from hudi_py.write.dml.merge import BoundMergeOf, Merge
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
    abort_spread,
    commit_spread,
    plan_spread,
    run_spread_task,
)
from hudi_py.write.dml.statements import Delete, Update
from hudi_py.write.result import WriteResult
from hudi_py.write.retry import redo_on_conflict
from hudi_py.write.rows.input import normalise_schema
from hudi_py.write.rows.keygen import key_generator
from hudi_py.write.staging import forget_source, staged_rows

__all__ = [
    "PARCELS",
    "WORK",
    "Delete",
    "MergeBuilder",
    "MergePlan",
    "SpreadPlan",
    "SpreadResult",
    "SpreadStatement",
    "SpreadSteps",
    "StagedSource",
    "StatementCall",
    "TableConfig",
    "Update",
    "WriteResult",
    "abort_spread",
    "abort_statement",
    "commit_spread",
    "commit_statement",
    "partition_path",
    "plan_statement",
    "redo_on_conflict",
    "run_spread_task",
    "stage_source",
]


def partition_path(config: TableConfig, values: pa.RecordBatch) -> str:
    """The path of the partition with the values of the one row of `values`."""
    return str(key_generator(config).partition_paths(values)[0].as_py())


@dataclass(frozen=True, slots=True)
class StatementCall:
    """A statement as each process of it gets it. Pickles."""

    path: str
    options: Options
    """Those of the write, without the options of the storage."""
    change: Update | Delete | MergePlan
    metadata: MetadataWriter
    after: tuple[AfterCommit, ...]
    source: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Normalised columns of the source of a merge."""
    columns: SourceColumns | None = None
    """What a merge does with rows of its source alone."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names the files of its source."""
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def storage(self) -> Storage:
        storage = open_storage(self.path, dict(self.storage_options) or None)
        return with_durability(storage, self.options.get(write_config.DURABLE))

    def statement(self, rows: pa.Table | None = None) -> Update | Delete | Merge:
        """The statement with the rows of its source; None: without them."""
        if not isinstance(self.change, MergePlan):
            return self.change
        return Merge(self.change, self.source.empty_table() if rows is None else rows)


def plan_statement(
    path: str,
    options: Options,
    change: Update | Delete | MergePlan,
    metadata: MetadataWriter,
    after: tuple[AfterCommit, ...],
    source: pa.Schema | None = None,
) -> StatementCall:
    """The statement, checked against the table. Changes nothing.

    Args:
        source: the columns of the source of a merge.

    Raises:
        HudiError: as `run_statement`, if the statement does not fit the table or its source.
    """
    check_many_processes(options)
    bare, storage_options = options.without_credentials(), tuple(options.storage.items())
    call = StatementCall(path, bare, change, metadata, after, storage_options=storage_options)
    if source is not None:
        columns = pa.schema([each for each in source if each.name not in META_FIELDS])
        call = replace(call, source=normalise_schema(columns))
    statement = call.statement()
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
    assert call.columns is not None
    return stage_rows(call.storage(), call.token, task, call.source, call.columns, batches)


def commit_statement(
    call: StatementCall, staged: Sequence[StagedSource] = (), *, owner_pid: int | None = None
) -> WriteResult | SpreadPlan:
    """Runs the statement, whatever its tasks staged, and removes its source; or plans it for tasks.

    Args:
        owner_pid: the process whose end ends a write by tasks.

    Raises:
        HudiError: as `run_statement`.
    """
    storage, storage_options = call.storage(), dict(call.storage_options) or None
    planned = None
    try:
        statement = call.statement()
        session = statement_session(storage, statement, call.options, call.metadata, call.after, storage_options)
        planned, _ = redo_on_conflict(
            lambda: plan_spread(
                *(session, statement, call.options),
                token=call.token,
                files=staged,
                after=call.after,
                owner_pid=owner_pid,
            ),
            session.settings.conflict_retries,
        )
        if planned is not None:
            return planned
        rows = pa.Table.from_batches(list(staged_rows(storage, [each.file for each in staged])), call.source)
        return run_in_session(session, call.statement(rows), call.options, call.after)
    finally:
        if planned is None:
            forget_source(storage, call.token)


def abort_statement(call: StatementCall) -> None:
    """Removes what the tasks of a statement staged."""
    if call.columns is not None:
        forget_source(call.storage(), call.token)
