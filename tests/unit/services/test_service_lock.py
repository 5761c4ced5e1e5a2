"""Table services whose lock is taken away by somebody else while they complete."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hudi_py.config import Options
from hudi_py.errors import LockError
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import pending_instants, run
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.tables import rows, write

LOCK = ".hoodie/lock"


class _RobbedClock(InstantClock):
    """Tells the time of a completion when the table lock has just been taken away."""

    robbed: MemoryStorage

    def next_completion(self, timeline: Timeline, after: InstantTime | None = None) -> CompletionTime:
        assert self.robbed.delete(LOCK)
        return super().next_completion(timeline, after)


def test_nothing_is_completed_without_the_lock(request: pytest.FixtureRequest) -> None:
    storage = MemoryStorage(re.sub(r"\W+", "-", request.node.nodeid))
    write(storage, rows(range(10), 1), "insert", 9, "mor")
    write(storage, rows(range(4), 2), "upsert", 9, "mor")
    config = load_table_config(storage)
    context = ServiceContext.of(
        WriteTarget(storage, Options.resolve({}), NoMetadata(), clock=InstantClock(config, skew_ms=0))
    )
    compaction = Compaction(always=True)
    planned = compaction.schedule(context).instant
    clock = _RobbedClock(config, skew_ms=0)
    clock.robbed = storage
    with pytest.raises(LockError, match=f"commit the compaction {planned}.*was taken away"):
        run(compaction, replace(context, session=replace(context.session, clock=clock)))
    assert pending_instants(compaction, context) == [planned]
    assert storage.stat(LOCK) is None
    assert run(compaction, context).instant == planned
    assert load_timeline(storage, config).pending == ()
