"""Lists the services that have plans, and their pending plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from hudi_py.services.bucket_resize.service import RESIZE_BUCKETS
from hudi_py.services.clean import CLEAN
from hudi_py.services.clustering.service import CLUSTERING
from hudi_py.services.compaction.service import COMPACTION
from hudi_py.services.descriptor import Service
from hudi_py.services.indexing import INDEXING
from hudi_py.services.log_compaction import LOG_COMPACTION
from hudi_py.services.planned.phases import RewritingService
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState

PLANNED: Final[tuple[Service[Any], ...]] = (COMPACTION, LOG_COMPACTION, CLUSTERING, CLEAN, RESIZE_BUCKETS, INDEXING)
SERVICE_ACTIONS: Final[Mapping[str, str]] = {
    planner.operation: planner.action.value
    for planner in (planned.planner() for planned in PLANNED)
    if isinstance(planner, RewritingService)
}
"""The actions of services by the operation (`WriteOperationType`) of their commits, which change no rows."""
PLAN_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("service", "instant", "state", "partition", "file_id")]
    + [("files", pa.list_(pa.string()))]
)


def plan_report(state: TableState) -> pa.Table:
    """Lists the pending plans of the services that hudi-py runs, oldest first: `PLAN_SCHEMA`.

    There is a row for each file group to rewrite, with its base file and logs, and for each partition to clean, with
    the files to delete and no file id.

    Raises:
        CorruptFileError: a plan cannot be read.
    """
    plans = PendingPlans(state.storage, state.timeline)
    services = [planned.planner() for planned in PLANNED]
    plans_of_services = [(instant, service) for service in services for instant in service.planned(plans)]
    rows = [
        {"service": service.name, "instant": instant.time, "state": instant.state.name, **row}
        for instant, service in sorted(plans_of_services, key=lambda entry: entry[0].sort_key)
        for row in service.plan_rows(plans, instant)
    ]
    return pa.Table.from_pylist(rows, PLAN_SCHEMA)
