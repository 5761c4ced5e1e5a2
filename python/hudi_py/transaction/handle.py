"""The state shared by the processes of one write, and the planning of writes, including those that create their
table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import tzinfo

from hudi_py.errors import ConfigError, ConflictError, HudiError, first_line
from hudi_py.model.instant import WRITE_ACTIONS, Action, InstantTime
from hudi_py.model.properties import BOOTSTRAP_COPIES, CHECKSUM, FIRST_WRITE, METADATA_TO_MAKE, TableConfig
from hudi_py.timeline.properties import update_table_config
from hudi_py.timeline.timeline import Pin
from hudi_py.transaction.conflicts import ConflictPolicy
from hudi_py.transaction.locks import LockProvider
from hudi_py.transaction.owner.identity import WriterIdentity
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.view.bootstrap import FULL_INSTANT

_log = logging.getLogger(__name__)

_LATER = frozenset(
    {
        *(CHECKSUM, FIRST_WRITE, METADATA_TO_MAKE, "hoodie.table.index.defs.path"),
        *("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"),
    }
)
"""Properties that do not describe how a table was created."""


def same_settings(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Returns whether two tables were created with the same settings, judging by their properties."""
    return _creation_settings(one) == _creation_settings(other)


def check_not_recreated(session: TableSession, known: TableConfig, table: TableConfig) -> None:
    """Refuses to write to a table that was recreated since the write read its properties.

    Args:
        known: the properties that the write goes by.
        table: the properties under the table lock.

    Raises:
        ConflictError: the table was recreated with other settings.
    """
    mark = known.properties.get(FIRST_WRITE)
    if mark is None or table.properties.get(FIRST_WRITE) == mark:
        return
    if not same_settings(known.properties, table.properties):
        raise ConflictError(
            f"Cannot write to {session.storage.uri}: another writer has recreated the table in the meantime, with "
            "other settings; write again with the settings of the table"
        )


def note_first_commit(table: LockedTable, instant: InstantTime) -> None:
    """Removes the mark of a new table, after a commit and under its lock: from now on the table stays. The first of two
    commits of a bootstrap keeps the mark."""
    properties = table.config.properties
    if FIRST_WRITE not in properties or (BOOTSTRAP_COPIES in properties and instant < FULL_INSTANT):
        return
    try:
        update_table_config(table.session.storage, {FIRST_WRITE: None, BOOTSTRAP_COPIES: None})
    except HudiError as error:  # harmless for a table with commits, and the write is committed
        _log.warning("the mark %s stays in the properties of the table: %s", FIRST_WRITE, first_line(error))


def _creation_settings(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in _LATER}


@dataclass(frozen=True, slots=True)
class TransactionHandle:
    """The facts about one write that every process of it needs. Small when pickled, holds no credentials."""

    table_uri: str
    instant: InstantTime
    action: Action
    """`COMMIT`, `DELTA_COMMIT` or `REPLACE_COMMIT`."""
    operation: str
    """Name of a `WriteOperationType`, e.g. `UPSERT`, `INSERT_OVERWRITE_TABLE`."""
    config: TableConfig
    """The table's properties when the write was planned."""
    pin: Pin
    """The timeline as the planning process saw it."""
    writer: WriterIdentity
    zone: tzinfo
    """Zone of all instants of this write, in every process: that of the planning process, or UTC for tables in UTC."""
    settings: TransactionSettings
    metadata: MetadataWriter
    """Updates the metadata table as part of the commit, or drops it."""
    locks: LockProvider
    conflicts: ConflictPolicy
    after: tuple[AfterCommit, ...] = ()
    """The steps after the commit, which run in its process."""
    pending: frozenset[InstantTime] = frozenset()
    """Requested times of the writes and table services that were pending when the write was planned."""


@contextmanager
def prepared(session: TableSession, action: Action, purpose: str) -> Iterator[LockedTable]:
    """Locks the table, rolls failed writes back, and updates or creates the metadata table as the options ask."""
    _check_action(action)
    session.metadata.check(session)
    with recovered(session, purpose, beside=True, keep_failed=session.settings.keeps_failed_writes) as table:
        check_not_recreated(session, session.config, table.config)
        config = session.metadata.prepare(table.session, table.timeline)
        yield replace(table, config=config, session=table.session.at(config))


def new_handle(
    table: LockedTable, action: Action, operation: str, writer: WriterIdentity, instant: InstantTime | None
) -> TransactionHandle:
    """Chooses the instant of a write unless it is given, and pins the timeline; the table lock must be held."""
    session = table.session
    return TransactionHandle(
        table_uri=session.storage.uri,
        instant=instant if instant is not None else session.clock.next_instant(table.timeline),
        action=action,
        operation=operation,
        config=session.config,
        pin=table.timeline.pin(),
        writer=writer,
        zone=session.zone,
        settings=session.settings,
        metadata=session.metadata,
        locks=session.locks,
        conflicts=session.conflicts,
        after=session.after,
        pending=frozenset(other.time for other in table.timeline.pending if other.action.comparable in WRITE_ACTIONS),
    )


def _check_action(action: Action) -> None:
    if action not in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT):
        raise ConfigError(f"Cannot begin a write as {action.value}; expected commit, deltacommit or replacecommit")
