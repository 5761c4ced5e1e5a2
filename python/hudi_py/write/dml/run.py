"""Running a statement on a table: read, change and commit, and again as a whole after a conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.progress import Progress
from hudi_py.storage import Storage, with_durability
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.protocols import AfterCommit, Committed, MetadataWriter, run_after
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import begin_planned
from hudi_py.view import FileSystemView
from hudi_py.write.api import existing_table, open_or_create
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.statements import Bound, Statement, StatementOutcome, run_bound
from hudi_py.write.result import WriteResult, committed_write, result_of
from hudi_py.write.retry import redo_on_conflict
from hudi_py.write.settings import WriteSettings, settings_as_stored
from hudi_py.write.table.first import FirstWrite


def run_statement(
    storage: Storage,
    statement: Statement,
    options: Options,
    *,
    metadata: MetadataWriter | None = None,
    after: Sequence[AfterCommit] = (),
    storage_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Runs a statement as one commit.

    It reads the state of the table that its transaction begins with, so that a change that another writer commits
    meanwhile to the same file groups is a conflict. A statement that changes nothing makes an empty commit, as in
    Apache Hudi, unless `hoodie.allow.empty.commit=false`. For other arguments see `write_rows`.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
        DuplicateKeyError: rows of a merge are for the same key.
        ConflictError: another write is pending, or completed meanwhile.
    """
    storage = with_durability(storage, options.get(write_config.DURABLE))
    session = statement_session(storage, statement, options, metadata, after, storage_options)
    return run_in_session(session, statement, options, after)


def run_in_session(
    session: TableSession, statement: Statement, options: Options, after: Sequence[AfterCommit]
) -> WriteResult:
    """Run a statement in a session from `statement_session`. For errors see `run_statement`."""
    (result, committed), retries = redo_on_conflict(
        lambda: _attempt(session, statement, options), session.settings.conflict_retries
    )
    services = () if committed is None else run_after(after, session, committed)
    return replace(result, retries=retries, services=services)


def check_statement(
    storage: Storage,
    statement: Statement,
    options: Options,
    metadata: MetadataWriter | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Raises the errors of `run_statement` that show before any row is read."""
    session = statement_session(storage, statement, options, metadata, (), storage_options)
    bind_statement(session.view(session.timeline()), statement, options)


def statement_session(
    storage: Storage,
    statement: Statement,
    options: Options,
    metadata: MetadataWriter | None,
    after: Sequence[AfterCommit],
    storage_options: Mapping[str, str] | None,
) -> TableSession:
    """The session of a statement. Raises as `run_statement`, if there is no table or it cannot be written."""
    existing = existing_table(storage)
    if existing is None:
        raise TableNotFoundError(f"Cannot {statement.title} the table at {storage.uri}: there is none; check the path")
    if options.get(concurrency_config.MODE) == concurrency_config.NON_BLOCKING:
        raise ConfigError(
            f"Cannot {statement.title} the table '{existing.name}' with {concurrency_config.MODE.key} = "
            f"'{concurrency_config.NON_BLOCKING}': changes that others make to the same rows meanwhile would be lost; "
            f"use {concurrency_config.OPTIMISTIC}"
        )
    first = FirstWrite.of(process_identity(), TransactionSettings.of(options), storage_options)
    config = open_or_create(storage, existing, pa.schema([]), statement.operation, options, after, first)
    return TableSession.of(storage, options, metadata, config=config, storage_options=storage_options)


def _attempt(session: TableSession, statement: Statement, options: Options) -> tuple[WriteResult, Committed | None]:
    config, kind = session.config, statement.operation

    def plan(view: FileSystemView) -> tuple[Bound, WriteSettings]:
        return bind_statement(view, statement, options)

    progress = Progress.on_terminal(f"{statement.title} {config.name}")
    try:
        begun = begin_planned(session, plan, action=kind.action(config), operation=statement.java_name)
        with begun as (transaction, (bound, settings)):
            context = WriteContext(transaction, settings, progress=progress)
            changed = run_bound(bound, context)
            if not changed.result.stats and not options.get(write_config.ALLOW_EMPTY_COMMIT):
                return result_of(kind.value, None, None, ()), None
            commit = context.commit(
                changed.result.stats,
                extra=options.commit_metadata,
                relied_on=tuple({RECORD_INDEX} & {*transaction.config.metadata_partitions}),
                knows_keys=settings.index.is_global,
            )
    finally:
        progress.close()
    done = result_of(kind.value, commit.instant, commit.completion_time, changed.result.stats)
    return _counted(done, changed), committed_write(commit, statement.java_name, changed.result.stats, {})


def bind_statement(view: FileSystemView, statement: Statement, options: Options) -> tuple[Bound, WriteSettings]:
    """Check a statement against a state of its table. Return it bound, with the settings of its write.

    Raises:
        ConfigError, SchemaMismatchError, UnsupportedTableError: it does not fit the table.
    """
    settings = settings_as_stored(view, statement.operation, options, statement.title)
    return statement.bind(view.config, settings, options), settings


def _counted(result: WriteResult, changed: StatementOutcome) -> WriteResult:
    counts = changed.counts
    return replace(result, num_inserted=counts.inserted, num_updated=counts.updated, num_deleted=counts.deleted)
