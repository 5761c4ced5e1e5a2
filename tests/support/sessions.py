"""Sessions of tables, for tests that call what works under the table lock by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hudi_py.config import Options, concurrency
from hudi_py.config import write as write_config
from hudi_py.config.option import Option
from hudi_py.config.write import DROP_INDEXES
from hudi_py.model.instant import Instant
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.locks import caller_holds_lock
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.protocols import MetadataUpdate, MetadataWriter, TableChange
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.transaction.recovery.rollback import rollback_instant
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.transaction.settings import LockSettings, TransactionSettings


def lock_settings(**options: object) -> LockSettings:
    """Settings of the lock from options, by the names that `hudi_py.config.concurrency` gives them."""
    return LockSettings.of(Options.resolve({_option(name).key: value for name, value in options.items()}, defaults={}))


def settings_of(**options: object) -> TransactionSettings:
    """Settings of a write from options, by the names that `hudi_py.config` gives them. They need not fit together."""
    return changed(TransactionSettings(), **options)


def changed(settings: TransactionSettings, **options: object) -> TransactionSettings:
    """Settings of a write with other options, as of `settings_of`."""
    resolved = settings.options.replace({_option(name): str(value) for name, value in options.items()})
    return TransactionSettings(resolved, LockSettings.of(resolved))


def _option(name: str) -> Option[Any]:
    found: Option[Any] = getattr(concurrency, name, None) or getattr(write_config, name)
    return found


def session_of(
    storage: Storage,
    metadata: MetadataWriter | None = None,
    *,
    config: TableConfig | None = None,
    settings: TransactionSettings | None = None,
    clock: InstantClock | None = None,
) -> TableSession:
    """A session; without `metadata` its actions drop the metadata table."""
    chosen = settings or TransactionSettings()
    return TableSession.open(
        storage, metadata or DropMetadata(chosen.get(DROP_INDEXES)), config=config, settings=chosen, clock=clock
    )


@contextmanager
def unlocked(session: TableSession) -> Iterator[LockedTable]:
    """The table as under its lock, which is not taken."""
    with replace(session, locks=caller_holds_lock).locked("test") as table:
        yield table


def roll_back(session: TableSession, instant: Instant) -> str:
    """The time of the rollback."""
    with unlocked(session) as table:
        return rollback_instant(table, instant).start_time


def recover(
    storage: Storage,
    metadata: MetadataWriter | None = None,
    *,
    settings: TransactionSettings | None = None,
    clock: InstantClock | None = None,
) -> Timeline:
    """What the next write does first."""
    return recover_failed_writes(session_of(storage, metadata, settings=settings, clock=clock))


def record(storage: Storage, metadata: MetadataWriter, change: TableChange, clock: InstantClock) -> MetadataUpdate:
    """The change in the metadata table, as of the table now."""
    session = session_of(storage, metadata, clock=clock)
    return metadata.record(session, session.timeline(), change)


def prepare(storage: Storage, metadata: MetadataWriter, clock: InstantClock) -> TableConfig:
    """The metadata table as its writer is to have it before a write."""
    session = session_of(storage, metadata, clock=clock)
    return metadata.prepare(session, session.timeline())
