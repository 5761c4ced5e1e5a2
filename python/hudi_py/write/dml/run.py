"""Runs a statement on a table: binds it, reads, changes and commits, and runs it again as a whole after a conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import TypeAlias

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.read import make_scan
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession, WriteTarget
from hudi_py.view import FileSystemView
from hudi_py.write.api import existing_table, open_or_create
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.merge import Merge, MergedSource
from hudi_py.write.dml.merge_plan import BoundMerge
from hudi_py.write.dml.merge_source import MergeSource
from hudi_py.write.dml.statements import (
    BoundDelete,
    BoundUpdate,
    Delete,
    RowChanges,
    StatementOutcome,
    Update,
    change_rows,
)
from hudi_py.write.result import WriteResult, result_of
from hudi_py.write.retry import begin_planned, redo_on_conflict
from hudi_py.write.settings import WriteSettings, settings_as_stored
from hudi_py.write.table.first import FirstWrite

Statement: TypeAlias = Update | Delete | Merge
BoundRows: TypeAlias = BoundUpdate | BoundDelete | BoundMerge
"""The part of a statement that tasks need to change rows. Pickles."""


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement that was checked against the columns and properties of its table. Pickles."""

    statement: Statement
    config: TableConfig
    settings: WriteSettings
    """The settings of its write."""
    rows: BoundRows
    source: MergeSource | None = field(default=None, repr=False)
    """The rows of the source of a merge, in the process that runs it."""

    @classmethod
    def of(cls, statement: Statement, view: FileSystemView, options: Options) -> BoundStatement:
        """Binds a statement to its table.

        Raises:
            ConfigError, SchemaMismatchError, UnsupportedTableError: it does not fit the table.
        """
        settings = settings_as_stored(view, statement.operation, options, statement.title)
        return cls(statement, view.config, settings, statement.bind(view.config, settings))

    def on(self, view: FileSystemView) -> BoundStatement:
        """Returns the statement for another state of its table. It is bound again only if columns or properties differ.
        Raises the errors of `of`."""
        statement, options = self.statement, self.settings.options
        settings = settings_as_stored(view, statement.operation, options, statement.title)
        if (view.config, settings) == (self.config, self.settings):
            return self
        again = replace(self, config=view.config, settings=settings, rows=statement.bind(view.config, settings))
        return again if self.source is None else again.merging(pa.Table.from_struct_array(self.source.rows))

    def merging(self, source: pa.Table) -> BoundStatement:
        """Returns the merge with the rows of its source.

        Raises:
            ConfigError, SchemaMismatchError: a value by which they match cannot be evaluated.
        """
        assert isinstance(self.rows, BoundMerge)
        return replace(self, source=MergeSource.of(self.rows, source, self.settings))

    @property
    def changes(self) -> RowChanges:
        """The changes to the rows of the table; for a merge, the source must be known."""
        if not isinstance(self.rows, BoundMerge):
            return self.rows
        assert self.source is not None
        return MergedSource(self.source)

    def narrowed(self, context: WriteContext) -> WriteContext:
        """Returns the context with which the statement writes."""
        return context.updating(self.rows.updated_columns)


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A bound statement, and the splits that it reads of a state of its table."""

    bound: BoundStatement
    view: FileSystemView
    schema: pa.Schema
    splits: Sequence[Split]

    @classmethod
    def of(cls, bound: BoundStatement, view: FileSystemView) -> PlannedStatement:
        """Plans a statement in the process that runs it."""
        return cls.reading(bound, view, bound.changes.request(bound.settings, view))

    @classmethod
    def reading(cls, bound: BoundStatement, view: FileSystemView, request: ScanRequest | None) -> PlannedStatement:
        """Plans a statement that reads these rows."""
        if request is None:
            return cls(bound, view, pa.schema([]), ())
        scan = make_scan(view.state, request)
        return cls(bound, view, scan.schema, scan.splits())

    @property
    def size(self) -> int:
        """Bytes of the table that the statement reads."""
        return sum(split.size for split in self.splits)


def run_statement(target: WriteTarget, statement: Statement, *, source: pa.Table | None = None) -> WriteResult:
    """Runs a statement as one commit.

    It reads the state of the table with which its transaction begins, so that a concurrent commit to the same file
    groups is a conflict. A statement that changes nothing makes an empty commit, as in Apache Hudi, unless
    `hoodie.allow.empty.commit=false`.

    Args:
        source: the rows of a merge.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
        DuplicateKeyError: rows of a merge are for the same key.
        ConflictError: another write is pending, or completed meanwhile.
    """
    session = statement_session(target, statement)
    bound, view = bind_statement(session, statement, target.options)
    return run_bound(session, bound if source is None else bound.merging(source), view)


def bind_statement(
    session: TableSession, statement: Statement, options: Options
) -> tuple[BoundStatement, FileSystemView]:
    """Binds a statement to the current state of its table, and returns both. Raises the errors of
    `BoundStatement.of`."""
    view = session.view_for_write(session.timeline())
    return BoundStatement.of(statement, view, options), view


def run_bound(
    session: TableSession,
    bound: BoundStatement,
    view: FileSystemView,
    planned: PlannedStatement | None = None,
) -> WriteResult:
    """Runs a bound statement. For errors see `run_statement`.

    Args:
        view: the state of the table that it is bound to.
        planned: what it reads of this state, if that is known.
    """
    first = bound if planned is None else planned
    attempts = chain([(first, view)], repeat((bound, None)))
    (result, committed), retries = redo_on_conflict(
        lambda: _run_once(session, *next(attempts)), session.settings.conflict_retries
    )
    services = () if committed is None else session.run_after(committed)
    return replace(result, retries=retries, services=services)


def statement_session(target: WriteTarget, statement: Statement) -> TableSession:
    """Opens the session of a statement. Raises the errors of `run_statement` if there is no table or it cannot be
    written."""
    storage, options = target.durable, target.options
    existing = existing_table(storage)
    if existing is None:
        raise TableNotFoundError(
            f"Cannot {statement.title} the table at {storage.uri}: there is no table; check the path"
        )
    if options.get(concurrency_config.MODE) == concurrency_config.NON_BLOCKING:
        raise ConfigError(
            f"Cannot {statement.title} the table '{existing.name}' with {concurrency_config.MODE.key} = "
            f"'{concurrency_config.NON_BLOCKING}': changes that others make to the same rows meanwhile would be lost; "
            f"use {concurrency_config.OPTIMISTIC}"
        )
    first = FirstWrite.of(process_identity(), options)
    return target.session(open_or_create(target, existing, pa.schema([]), statement.operation, first))


def _run_once(
    session: TableSession, first: BoundStatement | PlannedStatement, seen: FileSystemView | None
) -> tuple[WriteResult, Committed | None]:
    """Runs a statement once. `seen`: the state to which the statement is bound, and possibly planned for; None if it
    may have changed since."""
    given = first.bound if isinstance(first, PlannedStatement) else first
    statement, options = given.statement, given.settings.options
    config, kind = session.config, statement.operation

    def plan(view: FileSystemView) -> BoundStatement | PlannedStatement:
        return first if view is seen else given.on(view)

    with Progress.on_terminal(f"{statement.title} {config.name}") as progress:
        begun = begin_planned(session, plan, action=kind.action(config), operation=statement.java_name, seen=seen)
        with begun as (transaction, planned):
            if isinstance(planned, BoundStatement):
                with transaction.view.naming_lost_files():
                    planned = PlannedStatement.of(planned, transaction.view)
            bound = planned.bound
            context = bound.narrowed(WriteContext(transaction, bound.settings, progress=progress))
            changed = change_rows(bound.changes, context, planned.splits)
            if not changed.stats and not options.get(write_config.ALLOW_EMPTY_COMMIT):
                return result_of(kind.value, None, None, ()), None
            written = OperationResult(
                changed.stats,
                relied_on=tuple({RECORD_INDEX} & {*transaction.config.metadata_partitions}),
                knows_keys=bound.settings.index.is_global,
            )
            done, committed = context.commit_rows(kind, written, options.commit_metadata)
    return _with_counts(done, changed), committed


def _with_counts(result: WriteResult, changed: StatementOutcome) -> WriteResult:
    counts = changed.counts
    return replace(result, num_inserted=counts.inserted, num_updated=counts.updated, num_deleted=counts.deleted)
