"""Runs a statement on an engine with several processes: tasks stage the source of a merge, then one process runs the
statement, or plans it for tasks (`spread`). A statement is bound once, and travels in bound form (`bound`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
from hudi_py.storage import Storage, open_storage
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.transaction.session import TableSession, WriteTarget
from hudi_py.write.context import TaskId
from hudi_py.write.dml.merge import Merge, MergeBuilder
from hudi_py.write.dml.merge_plan import BoundMerge, MergePlan
from hudi_py.write.dml.run import BoundStatement, PlannedStatement, bind_statement, run_bound, statement_session
from hudi_py.write.dml.source import SourceColumns, StagedSource, stage_rows
from hudi_py.write.dml.spread import (
    WORK,
    SpreadPlan,
    SpreadResult,
    SpreadStatement,
    SpreadSteps,
    abort_spread,
    commit_spread,
    has_few_keys,
    plan_spread,
    plan_staged,
    run_spread_task,
)
from hudi_py.write.dml.statements import Delete, Update
from hudi_py.write.exchange import PARCELS
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
    "MergeCall",
    "MergePlan",
    "SpreadPlan",
    "SpreadResult",
    "SpreadStatement",
    "SpreadSteps",
    "StagedSource",
    "TableConfig",
    "Update",
    "WriteResult",
    "abort_merge",
    "abort_spread",
    "commit_merge",
    "commit_spread",
    "partition_path",
    "plan_merge",
    "redo_on_conflict",
    "run_change",
    "run_spread_task",
    "stage_source",
]


def partition_path(config: TableConfig, values: pa.RecordBatch) -> str:
    """Returns the path of the partition with the values in the one row of `values`."""
    return str(key_generator(config).partition_paths(values)[0].as_py())


@dataclass(frozen=True, slots=True)
class MergeCall:
    """A bound merge, as each of its processes receives it. Pickles."""

    path: str
    bound: BoundStatement
    metadata: MetadataWriter
    after: tuple[AfterCommit, ...]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names the files of its source."""
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def source(self) -> pa.Schema:
        """Normalised columns of the source."""
        assert isinstance(self.bound.statement, Merge)
        return self.bound.statement.source

    def target(self) -> WriteTarget:
        options = self.bound.settings.options.with_storage(dict(self.storage_options))
        return WriteTarget(open_storage(self.path, options.for_storage()), options, self.metadata, self.after)

    def storage(self) -> Storage:
        return self.target().durable


def run_change(
    target: WriteTarget, change: Update | Delete, *, owner_pid: int | None = None
) -> WriteResult | SpreadPlan:
    """Runs an update or a delete, or plans it for tasks.

    Args:
        owner_pid: the process whose end ends a write by tasks.

    Raises:
        HudiError: as `run_statement`.
    """
    check_many_processes(target.options)
    session = statement_session(target, change)
    bound, view = bind_statement(session, change, target.options)
    planned = PlannedStatement.of(bound, view)
    if _fits_one_process(planned):
        return run_bound(session, bound, view, planned)
    return _plan_for_tasks(session, planned, owner_pid)


def plan_merge(target: WriteTarget, plan: MergePlan, source: pa.Schema) -> MergeCall:
    """Binds a merge to its table. Changes nothing.

    Args:
        source: the columns of its source.

    Raises:
        HudiError: as `run_statement`, if the merge does not fit the table or its source.
    """
    options = target.options
    check_many_processes(options)
    columns = pa.schema([field for field in source if field.name not in META_FIELDS])
    statement = Merge(plan, normalise_schema(columns))
    session = statement_session(replace(target, after=()), statement)
    bound, _ = bind_statement(session, statement, options)
    given = tuple(options.storage.items())
    return MergeCall(target.storage.uri, bound, session.metadata, target.after, storage_options=given)


def stage_source(call: MergeCall, task: TaskId, batches: Iterable[pa.RecordBatch]) -> StagedSource | None:
    """Stages the rows of one task attempt. Returns None if there are none.

    Raises:
        SchemaMismatchError, ConfigError: a value that no table holds, or a key that cannot be evaluated.
    """
    assert isinstance(call.bound.rows, BoundMerge)
    columns = SourceColumns.of(call.bound.rows, call.bound.settings)
    return stage_rows(call.storage(), call.token, task, call.source, columns, batches)


def commit_merge(
    call: MergeCall, staged: Sequence[StagedSource], *, owner_pid: int | None = None
) -> WriteResult | SpreadPlan:
    """Runs a merge with the rows that its tasks have staged, and removes these; or plans it for tasks.

    Args:
        owner_pid: the process whose end ends a write by tasks.

    Raises:
        HudiError: as `run_statement`.
    """
    target, done = call.target(), None
    storage, options = target.durable, target.options
    try:
        session = statement_session(target, call.bound.statement)
        view = session.view_for_write(session.timeline())
        bound = call.bound.on(view)
        if has_few_keys(staged) and _is_small(options, staged):
            bound = bound.merging(_read_source(call, staged))
        planned = plan_staged(bound, view, staged)
        if not _fits_one_process(planned, staged):
            done = _plan_for_tasks(session, planned, owner_pid, call.token, staged)
            return done
        if bound.source is None:
            return run_bound(session, bound.merging(_read_source(call, staged)), view)
        return run_bound(session, bound, view, planned)
    finally:
        if done is None:
            forget_source(storage, call.token)


def abort_merge(call: MergeCall) -> None:
    """Removes what the tasks of a merge have staged."""
    forget_source(call.storage(), call.token)


def _plan_for_tasks(
    session: TableSession,
    planned: PlannedStatement,
    owner_pid: int | None,
    token: str = "",
    files: Sequence[StagedSource] = (),
) -> SpreadPlan:
    plan, _ = redo_on_conflict(
        lambda: plan_spread(session, planned, token=token, files=files, owner_pid=owner_pid),
        session.settings.conflict_retries,
    )
    return plan


def _fits_one_process(planned: PlannedStatement, files: Sequence[StagedSource] = ()) -> bool:
    """Returns whether one process runs a statement faster than tasks do, judging by what it reads of its table and
    source."""
    return _is_small(planned.bound.settings.options, files, planned.size)


def _is_small(options: Options, files: Sequence[StagedSource], more: int = 0) -> bool:
    """Returns whether one process should hold a source. `more`: bytes that it reads besides."""
    num_bytes = sum(file.file.num_bytes for file in files)
    most = options.get(write_config.LOCAL_MAX_BYTES)
    return num_bytes + more <= most and num_bytes <= options.get(write_config.STAGING_MAX_BYTES)


def _read_source(call: MergeCall, staged: Sequence[StagedSource]) -> pa.Table:
    rows = staged_rows(call.storage(), [file.file for file in staged])
    return pa.Table.from_batches(list(rows), call.source)
