"""Lists the pending plans of table services."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hudi_py.services.registry import SERVICES
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState

PLAN_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("service", "instant", "state", "partition", "file_id")]
    + [("files", pa.list_(pa.string()))]
)


def plan_report(state: TableState) -> pa.Table:
    """The plans of pending compactions, log compactions and cleans, oldest first: `PLAN_SCHEMA`.

    There is a row for each file group to compact, with its base file and logs, and for each partition to clean, with
    the files to delete and no file id.

    Raises:
        CorruptFileError: a plan cannot be read.
    """
    plans = PendingPlans(state.storage, state.timeline)
    planned = {each.plans.action: each.plans for each in SERVICES.values() if each.plans is not None}
    rows = [
        {"service": service.name, "instant": instant.time, "state": instant.state.name, **row}
        for instant in state.timeline.pending
        if (service := planned.get(instant.action)) is not None
        for row in service.plan_rows(plans, instant)
    ]
    return pa.Table.from_pylist(rows, PLAN_SCHEMA)
