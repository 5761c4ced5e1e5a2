"""The doctor's functions, which take a table's path and work even if it cannot be opened, and the methods of
`Table`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_py.config import Options, Scope
from hudi_py.health.diagnose import diagnose, with_environment
from hudi_py.health.findings import Diagnosis
from hudi_py.health.mending.ledger import KeptRepair
from hudi_py.health.mending.ledger import repairs as kept_repairs
from hudi_py.health.mending.plan import RepairPlan, RepairReport, plan_repair
from hudi_py.health.mending.run import forget_repair as forget
from hudi_py.health.mending.run import repair as carry_out
from hudi_py.health.mending.run import undo_repair as undo
from hudi_py.progress import Progress
from hudi_py.storage import Storage, StrPath, open_storage


def doctor(
    path: StrPath,
    options: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Examines the table at a path, even one that cannot be opened; see `Table.doctor`."""
    return doctor_of(
        _opened_storage(path, options, storage_options), options, full=full, storage_options=storage_options
    )


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
    return repair_of(_opened_storage(path, options, storage_options), plan, options, storage_options=storage_options)


def repairs(
    path: StrPath,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> list[KeptRepair]:
    """Lists the repairs of the table at a path that can be undone; see `Table.health.repairs`."""
    return kept_repairs(_opened_storage(path, options, storage_options))


def undo_repair(
    path: StrPath,
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> KeptRepair:
    """Undoes a repair of the table at a path, even one that cannot be opened; see `Table.health.undo`."""
    return undo(_opened_storage(path, options, storage_options), id, options, storage_options=storage_options)


def forget_repair(
    path: StrPath,
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> KeptRepair:
    """Deletes what a repair has kept; see `Table.health.forget`."""
    return forget(_opened_storage(path, options, storage_options), id)


def doctor_of(
    storage: Storage,
    options: Mapping[str, Any] | None,
    *,
    full: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Runs `diagnose`, with its progress on a terminal."""
    with Progress.on_terminal("doctor") as progress:
        found = diagnose(storage, options, full=full, storage_options=storage_options, progress=progress)
        return with_environment(found)


def repair_of(
    storage: Storage,
    plan: RepairPlan,
    options: Mapping[str, Any] | None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """Runs `run.repair`, with its progress on a terminal."""
    with Progress.on_terminal("repair") as progress:
        return carry_out(storage, plan, options, storage_options=storage_options, progress=progress)


def _opened_storage(
    path: StrPath, options: Mapping[str, Any] | None, storage_options: Mapping[str, str] | None
) -> Storage:
    resolved = Options.resolve(options, Scope.WRITE)
    return open_storage(path, resolved.for_storage(storage_options))


class TableHealth:
    """The repairs of a table that can be undone. `Table.doctor` examines the table and `Table.repair` mends it."""

    def __init__(self, storage: Storage, options: Mapping[str, Any], storage_options: Mapping[str, str] | None) -> None:
        self._storage = storage
        self._options = options
        self._storage_options = storage_options

    def repairs(self) -> list[KeptRepair]:
        """Repairs that can be undone, oldest first."""
        return kept_repairs(self._storage)

    def undo(self, id: str, *, options: Mapping[str, Any] | None = None) -> KeptRepair:
        """Brings the table back to what it was before a repair. Readers may see a state in between.

        Raises:
            ConfigError: there is no such repair.
            ConflictError: the table has been written to since, or a later repair is kept.
        """
        given = {**self._options, **(options or {})}
        return undo(self._storage, id, given, storage_options=self._storage_options)

    def forget(self, id: str) -> KeptRepair:
        """Deletes what a repair has kept. It cannot be undone any more."""
        return forget(self._storage, id)


class HealthMethods:
    """Doctor and repair of a table."""

    _storage: Storage
    _options: Mapping[str, Any]
    _storage_options: Mapping[str, str] | None

    @property
    def health(self) -> TableHealth:
        """Repairs that can be undone."""
        return TableHealth(self._storage, self._options, self._storage_options)

    def doctor(self, *, full: bool = False, options: Mapping[str, Any] | None = None) -> Diagnosis:
        """Examines the table: properties, timeline, files, keys, metadata table, locks and leftovers. Changes nothing.

        Args:
            full: read every row and every record of the metadata table, in the memory that the keys of a partition
                take (of the table, if its index is global); otherwise a sample.
            options: of writes; they name the lock, and set the limits for archiving, compaction and small files.

        Returns:
            What was found, the most harmful first. `docs/doctor.md` lists all codes.
        """
        given = {**self._options, **(options or {})}
        return doctor_of(self._storage, given, full=full, storage_options=self._storage_options)

    def repair_plan(
        self,
        diagnosis: Diagnosis | None = None,
        *,
        lose_rows: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> RepairPlan:
        """Plans what `repair` would do about a diagnosis, by default a new one. Changes nothing.

        Args:
            lose_rows: also give up the rows of files that are missing or cannot be read, and keep the others.
        """
        return plan_repair(self.doctor(options=options) if diagnosis is None else diagnosis, lose_rows=lose_rows)

    def repair(self, plan: RepairPlan, *, options: Mapping[str, Any] | None = None) -> RepairReport:
        """Carries out a plan, if it still holds. What is removed or replaced is kept in `.hoodie/.hudi_py_repair` until
        `health.forget`. If a step fails, those before it stay done, and the repair can be undone.

        Raises:
            ConflictError: the plan no longer holds, or another action is running.
            ConfigError, UnsupportedTableError: a step cannot be taken; the error says why.
            LockError: the table lock could not be acquired in time.
        """
        given = {**self._options, **(options or {})}
        return repair_of(self._storage, plan, given, storage_options=self._storage_options)
