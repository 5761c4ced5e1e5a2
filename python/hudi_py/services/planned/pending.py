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
    """The pending plans of the services that hudi-py runs, oldest first: `PLAN_SCHEMA`.

    There is a row for each file group to rewrite, with its base file and logs, and for each partition to clean, with
    the files to delete and no file id.

    Raises:
        CorruptFileError: a plan cannot be read.
    """
    plans = PendingPlans(state.storage, state.timeline)
    services = [each.plans for each in SERVICES.values() if each.plans is not None]
    found = [(instant, service) for service in services for instant in service.planned(plans)]
    rows = [
        {"service": service.name, "instant": instant.time, "state": instant.state.name, **row}
        for instant, service in sorted(found, key=lambda each: each[0].sort_key)
        for row in service.plan_rows(plans, instant)
    ]
    return pa.Table.from_pylist(rows, PLAN_SCHEMA)
