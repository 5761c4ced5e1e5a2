"""Removes pending plans of table services."""

from __future__ import annotations

from hudi_py.model.instant import Action, InstantTime, State
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.storage import FolderStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.owner.claim import forget_write
from hudi_py.transaction.recovery.rollback import rollback_instant
from hudi_py.transaction.session import LockedTable


def remove_plan(table: LockedTable, instant: InstantTime, action: Action) -> InstantTime | None:
    """Removes a pending plan that no process is executing. Idempotent.

    An earlier attempt to execute it is rolled back first. If this process dies in between, the plan is pending, but not
    begun.

    Returns:
        The instant of that rollback; None if there was nothing to roll back.

    Raises:
        ConfigError: the metadata table has changes of the instant, and can be neither maintained nor dropped.
    """
    table = table.reread()
    storage, timeline = table.session.storage, table.timeline
    rollback: InstantTime | None = None
    for pending in timeline.pending:
        if (pending.time, pending.action) != (instant, action):
            continue
        if pending.state is State.INFLIGHT or _is_recorded(table, instant):
            rollback = InstantTime(rollback_instant(table, pending).start_time)
    forget_write(storage, instant)
    InstantFiles(storage, timeline.layout, instant, action).remove_pending()
    return rollback


def _is_recorded(table: LockedTable, instant: InstantTime) -> bool:
    """Returns whether the metadata table has changes of an attempt that was given up. Once the plan is removed, nothing
    would show that they do not count."""
    if not table.config.metadata_partitions:
        return False
    own = FolderStorage(table.session.storage, METADATA_TABLE)
    return load_timeline(own, load_table_config(own)).find(instant, Action.DELTA_COMMIT) is not None
