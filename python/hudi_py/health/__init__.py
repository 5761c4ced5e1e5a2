"""The doctor: examines tables, and mends them.

`hudi_py.doctor(path)` works on tables that cannot be opened, too. See docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hudi_py.config import Options, Scope
from hudi_py.health.codes import CODES, Severity
from hudi_py.health.diagnose import diagnose
from hudi_py.health.findings import Diagnosis, Finding
from hudi_py.health.mending.ledger import KeptRepair
from hudi_py.health.mending.ledger import repairs as kept_repairs
from hudi_py.health.mending.plan import RepairPlan, RepairReport, plan_repair
from hudi_py.health.mending.run import forget_repair as forget
from hudi_py.health.mending.run import repair as carry_out
from hudi_py.health.mending.run import undo_repair as undo
from hudi_py.progress import Progress
from hudi_py.storage import Storage, StrPath, open_storage

__all__ = [
    "CODES",
    "Diagnosis",
    "Finding",
    "KeptRepair",
    "RepairPlan",
    "RepairReport",
    "Severity",
    "doctor",
    "doctor_of",
    "forget_repair",
    "repair",
    "repair_of",
    "repair_plan",
    "repairs",
    "undo_repair",
]


def doctor(
    path: StrPath,
    options: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Examines the table at a path, even one that cannot be opened; see `Table.doctor`."""
    return doctor_of(_opened(path, options, storage_options), options, full=full, storage_options=storage_options)


def repair_plan(
    path: StrPath,
    options: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
    lose_rows: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> RepairPlan:
    """Plans the repair of the table at a path, even one that cannot be opened; see `Table.repair_plan`."""
    return plan_repair(doctor(path, options, full=full, storage_options=storage_options), lose_rows=lose_rows)


def repair(
    path: StrPath,
    plan: RepairPlan,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """Repairs the table at a path, even one that cannot be opened; see `Table.repair`.

    If `hoodie.properties` is lost, `options` must say what is stored nowhere else:
    `hoodie.datasource.write.recordkey.field`, `hoodie.datasource.write.partitionpath.field` and
    `hoodie.table.ordering.fields`.
    """
    return repair_of(_opened(path, options, storage_options), plan, options, storage_options=storage_options)


def repairs(
    path: StrPath,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[KeptRepair]:
    """The repairs of the table at a path that can be undone; see `Table.repairs`."""
    return kept_repairs(_opened(path, options, storage_options))


def undo_repair(
    path: StrPath,
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> KeptRepair:
    """Undoes a repair of the table at a path, even one that cannot be opened; see `Table.undo_repair`."""
    return undo(_opened(path, options, storage_options), id, options, storage_options=storage_options)


def forget_repair(
    path: StrPath,
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> KeptRepair:
    """Deletes what a repair has kept; see `Table.forget_repair`."""
    return forget(_opened(path, options, storage_options), id)


def doctor_of(
    storage: Storage,
    options: Mapping[str, Any] | None,
    *,
    full: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Diagnosis:
    """`diagnose`, with its progress on a terminal."""
    with _shown("doctor") as progress:
        return diagnose(storage, options, full=full, storage_options=storage_options, progress=progress)


def repair_of(
    storage: Storage,
    plan: RepairPlan,
    options: Mapping[str, Any] | None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """`run.repair`, with its progress on a terminal."""
    with _shown("repair") as progress:
        return carry_out(storage, plan, options, storage_options=storage_options, progress=progress)


@contextmanager
def _shown(title: str) -> Iterator[Progress]:
    progress = Progress.on_terminal(title)
    try:
        yield progress
    finally:
        progress.close()


def _opened(path: StrPath, options: Mapping[str, Any] | None, storage_options: Mapping[str, str] | None) -> Storage:
    resolved = Options.resolve(options, Scope.WRITE)
    return open_storage(path, resolved.for_storage(storage_options))
