"""Pending plans of table services, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from hudi_py.model.instant import Action, Instant
from hudi_py.services.clean.execute import files_of
from hudi_py.services.compaction.plan import read_plan
from hudi_py.storage import Storage
from hudi_py.timeline.clean_records import decode_clean_plan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import requested_path

PLAN_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("service", "instant", "state", "partition", "file_id")]
    + [("files", pa.list_(pa.string()))]
)
SERVICES: Final = {
    Action.COMPACTION: "compaction",
    Action.LOG_COMPACTION: "log_compaction",
    Action.CLEAN: "clean",
}
"""Actions with plans that are made and carried out here, and the services they are of."""


def plan_report(storage: Storage, timeline: Timeline) -> pa.Table:
    """What pending compactions, log compactions and cleans are to do, oldest first: `PLAN_SCHEMA`.

    A row for each file group to compact, with its base file and logs; for each partition to clean, with the files to
    delete, and without a file id.

    Raises:
        CorruptFileError: a plan cannot be read.
    """
    rows = [
        {"service": name, "instant": instant.time, "state": instant.state.name, **row}
        for instant in timeline.pending
        if (name := SERVICES.get(instant.action)) is not None
        for row in _rows(storage, timeline, instant)
    ]
    return pa.Table.from_pylist(rows, PLAN_SCHEMA)


def _rows(storage: Storage, timeline: Timeline, instant: Instant) -> Iterator[dict[str, object]]:
    if instant.action is Action.CLEAN:
        path = requested_path(timeline.layout, instant.time, Action.CLEAN)
        try:
            content = storage.read(path)
        except FileNotFoundError:  # completed since it was listed
            return
        if not content:
            return
        files: dict[str, list[str]] = {}
        for partition, name in files_of(decode_clean_plan(content, f"the plan {storage.uri}/{path}")):
            files.setdefault(partition, []).append(name)
        for partition, names in files.items():
            yield {"partition": partition, "file_id": None, "files": names}
        return
    plan = read_plan(storage, timeline, instant.time, instant.action)
    for operation in plan.operations if plan is not None else ():
        base = [operation.base_file] if operation.base_file else []
        names = [*base, *operation.log_files]
        yield {"partition": operation.partition_path, "file_id": operation.file_id, "files": names}
