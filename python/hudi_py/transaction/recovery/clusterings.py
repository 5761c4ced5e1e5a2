"""Drops pending clusterings that a write conflicts with (`BaseSparkCommitActionExecutor.clusteringHandleUpdate` with
`hoodie.clustering.rollback.pending.replacecommit.on.conflict`, 1.2.0)."""

from __future__ import annotations

import logging
from collections.abc import Set

from hudi_py.model.instant import State
from hudi_py.timeline.plans import FileGroup
from hudi_py.transaction.attempt import check_dead
from hudi_py.transaction.recovery.failed_writes import examine
from hudi_py.transaction.recovery.plans import remove_plan
from hudi_py.transaction.session import LockedTable
from hudi_py.transaction.settings import TransactionSettings

_log = logging.getLogger(__name__)


def drop_overlapping(table: LockedTable, groups: Set[FileGroup], settings: TransactionSettings) -> LockedTable:
    """Rolls back the pending clusterings of some file groups, and removes their plans, if the settings of a write say
    so. Returns the table afterwards. With a preferred writer, those that a process is running are left alone, as they
    check for conflicts themselves.

    Raises:
        ConflictError: a process is running one of them.
    """
    session, dropped = table.session, False
    if not settings.drops_clusterings:
        return table
    for instant in table.plans.clusterings:
        if not groups & table.plans.file_groups(instant):
            continue
        if instant.state is State.INFLIGHT:
            expiry_ms = session.settings.heartbeat_expiry_ms
            if settings.prefers_writer and not examine(session.storage, table.timeline, instant).dead(expiry_ms):
                continue
            check_dead(session, table.timeline, instant, "write to file groups of")
        _log.warning(
            "the clustering %s of %s is dropped: a write changes its file groups", instant.time, session.storage.uri
        )
        remove_plan(table, instant.time, instant.action)
        dropped = True
    return table.reread() if dropped else table
