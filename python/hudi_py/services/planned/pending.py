"""Lists the pending plans of table services."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from hudi_py.model.instant import Action, Instant
from hudi_py.services.clean.execute import clean_rows
from hudi_py.services.compaction.plan import compaction_rows
from hudi_py.storage import Storage
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.timeline import Timeline

PLAN_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("service", "instant", "state", "partition", "file_id")]
    + [("files", pa.list_(pa.string()))]
)
SERVICES: Final = {Action.COMPACTION: "compaction", Action.LOG_COMPACTION: "log_compaction", Action.CLEAN: "clean"}
"""Actions whose plans hudi-py makes and executes, and the names of their services."""


def plan_report(storage: Storage, timeline: Timeline) -> pa.Table:
    """The plans of pending compactions, log compactions and cleans, oldest first: `PLAN_SCHEMA`.

    There is a row for each file group to compact, with its base file and logs, and for each partition to clean, with
    the files to delete and no file id.

    Raises:
        CorruptFileError: a plan cannot be read.
    """
    plans = PendingPlans(storage, timeline)
    rows = [
        {"service": name, "instant": instant.time, "state": instant.state.name, **row}
        for instant in timeline.pending
        if (name := SERVICES.get(instant.action)) is not None
        for row in _rows(plans, instant)
    ]
    return pa.Table.from_pylist(rows, PLAN_SCHEMA)


def _rows(plans: PendingPlans, instant: Instant) -> tuple[dict[str, Any], ...]:
    if instant.action is Action.CLEAN:
        clean = plans.clean(instant)
        return () if clean is None else clean_rows(clean)
    compaction = plans.compaction(instant)
    return () if compaction is None else compaction_rows(compaction)
