"""What tests of savepoints, rollbacks and restores share: small tables, and services called on them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from hudi_py.config import Options
from hudi_py.model.instant import Action, Instant
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run
from hudi_py.storage import LocalStorage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import WriteTarget

VERSIONS = (6, 8, 9)


class Recorder(DropMetadata):
    """Drops the metadata table, and remembers the changes it was told of."""

    changes: ClassVar[list[TableChange]] = []

    def record(self, session, timeline, change):
        self.changes.append(change)
        return super().record(session, timeline, change)


def context(root: Path, storage=None, options: dict[str, str] | None = None, *, metadata=None) -> ServiceContext:
    """A context that hardly waits for clock skew."""
    storage = storage if storage is not None else LocalStorage(str(root))
    given = {"hoodie.time.generator.max_expected_clock_skew_ms": "20", **(options or {})}
    clock = InstantClock(load_table_config(storage), skew_ms=20)
    return ServiceContext.of(
        WriteTarget(storage, Options.resolve(given, defaults={}), metadata or DropMetadata(False), clock=clock)
    )


def compact(root: Path) -> None:
    """Compacts everything that has logs."""
    working = context(root)
    scheduled = Compaction(always=True).schedule(working)
    assert scheduled.instant is not None, scheduled.reason
    run(Compaction(), working, scheduled.instant)


def times(timeline: Timeline) -> list[str]:
    return [instant.time for instant in timeline.write_completed]


def of_action(timeline: Timeline, action: Action) -> list[Instant]:
    return [instant for instant in timeline.instants if instant.action is action]
