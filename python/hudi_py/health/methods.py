"""The methods of `Table` that examine it and mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_py.health import Diagnosis, KeptRepair, RepairPlan, RepairReport, doctor_of, repair_of
from hudi_py.health.mending.ledger import repairs
from hudi_py.health.mending.plan import plan_repair
from hudi_py.health.mending.run import forget_repair, undo_repair
from hudi_py.storage import Storage


class HealthMethods:
    """Doctor and repair of a table."""

    _storage: Storage
    _options: Mapping[str, Any]
    _storage_options: Mapping[str, str] | None

    def doctor(self, *, full: bool = False, options: Mapping[str, Any] | None = None) -> Diagnosis:
        """Examines the table: properties, timeline, files, keys, metadata table, locks and leftovers. Changes nothing.

        Args:
            full: read every row and every record of the metadata table, in the memory that the keys of a partition
                take (of the table, if its index is global); otherwise a sample.
            options: of writes; they name the lock, and what archiving, compaction and small files are held against.

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
        """What `repair` would do about a diagnosis, by default a new one. Changes nothing.

        Args:
            lose_rows: also give up the rows of files that are missing or cannot be read, and keep the others.
        """
        return plan_repair(self.doctor(options=options) if diagnosis is None else diagnosis, lose_rows=lose_rows)

    def repair(self, plan: RepairPlan, *, options: Mapping[str, Any] | None = None) -> RepairReport:
        """Carries out a plan, if it still holds. What is removed or replaced is kept in `.hoodie/.hudi_py_repair` until
        `forget_repair`. If a step fails, those before it stay done, and the repair can be undone.

        Raises:
            ConflictError: the plan no longer holds, or another action is in the way.
            ConfigError, UnsupportedTableError: a step cannot be taken; the error says why.
            LockError: the table lock could not be acquired in time.
        """
        given = {**self._options, **(options or {})}
        return repair_of(self._storage, plan, given, storage_options=self._storage_options)

    def repairs(self) -> list[KeptRepair]:
        """Repairs that can be undone, oldest first."""
        return repairs(self._storage)

    def undo_repair(self, id: str, *, options: Mapping[str, Any] | None = None) -> KeptRepair:
        """Brings the table back to what it was before a repair. Readers may see a state in between.

        Raises:
            ConfigError: there is no such repair.
            ConflictError: the table has been written to since, or a later repair is kept.
        """
        given = {**self._options, **(options or {})}
        return undo_repair(self._storage, id, given, storage_options=self._storage_options)

    def forget_repair(self, id: str) -> KeptRepair:
        """Deletes what a repair has kept. It cannot be undone any more."""
        return forget_repair(self._storage, id)
