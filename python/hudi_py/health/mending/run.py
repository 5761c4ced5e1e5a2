"""Carries out a repair: checks that the plan still holds, and runs its steps."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timezone
from typing import Any, Final

from hudi_py.config import Options, Scope
from hudi_py.config.write import DURABLE
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.health.diagnose import diagnose
from hudi_py.health.mending.ledger import (
    KeepingStorage,
    KeptRepair,
    folder_of,
    forget,
    keeping,
    repairs,
    undo,
    write_note,
)
from hudi_py.health.mending.plan import RepairPlan, RepairReport, RepairStep, StepKind
from hudi_py.health.mending.properties import rebuilt_properties, write_properties
from hudi_py.health.mending.rewrite import check_can_rewrite, one_row_per_key, replace_groups, rows_of, salvaged
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.partitions.named import put_definitions
from hudi_py.metadata_write.partitions.registry import maintained_names
from hudi_py.model.layout import BACKUP, BROKEN_LOCK, PROPERTIES
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.progress import Progress
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.rollback import rollback
from hudi_py.storage import Storage, with_durability
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.properties import check_writable, load_table_config
from hudi_py.timeline.times import format_instant
from hudi_py.transaction.locks import break_lock, table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.partition_metafile import partition_metafile
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.wiring import service_target

_UNDER_LOCK: Final = frozenset(
    {StepKind.RESTORE_PROPERTIES, StepKind.REBUILD_PROPERTIES, StepKind.REMOVE, StepKind.MARK_PARTITION}
)
"""Steps that change files directly. The others are actions, which take the lock themselves."""
_FILES_ONLY: Final = _UNDER_LOCK | {StepKind.BREAK_LOCK}
_NO_METADATA: Final = {"hoodie.metadata.enable": "false", "hoodie.py.drop.indexes": "true"}


@dataclass(eq=False)
class _Repair:
    """A repair in progress."""

    storage: KeepingStorage
    given: Mapping[str, Any]
    storage_options: Mapping[str, str] | None
    progress: Progress
    rows_lost: int = 0
    keys_lost: list[str] = field(default_factory=list)

    def context(self, **more: str) -> ServiceContext:
        """Opens the context of an action, with the options of the repair and some others."""
        options = Options.resolve({**self.given, **more}, Scope.WRITE)
        target = service_target(self.storage, options, self.storage_options)
        return ServiceContext.of(target, progress=self.progress)


def repair(
    storage: Storage,
    plan: RepairPlan,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Carries out a plan. Examines the table again first, and refuses if the plan no longer holds.

    Everything that is removed or replaced is kept in `.hoodie/.hudi_py_repair/<id>`, until `forget`. If a step fails,
    the steps before it stay done, and the repair can be undone.

    Args:
        options: of a write; they name the lock, and what to write.

    Raises:
        ConflictError: the plan no longer holds, or another action is running.
        ConfigError: the plan is of another table.
        ConfigError, UnsupportedTableError: a step cannot be taken; its error says why. Nothing was changed by the step.
        LockError: the table lock could not be acquired in time.
    """
    if not plan.steps:
        return RepairReport(None)
    if plan.uri != storage.uri:
        raise ConfigError(f"Cannot repair {storage.uri} by a plan for {plan.uri}; make a plan of this table")
    resolved = Options.resolve(options, Scope.WRITE)
    storage = with_durability(storage, resolved.get(DURABLE))
    _check_first(storage, plan, resolved)
    id_ = f"{format_instant(wall_clock_ms(), timezone.utc)}-{uuid.uuid4().hex[:6]}"
    work = _Repair(keeping(storage, folder_of(id_)), options or {}, storage_options, progress or Progress.silent())
    sentences = [step.sentence for step in plan.steps]
    for step in plan.steps:
        if step.kind is StepKind.BREAK_LOCK:
            _examine(storage, plan, options, storage_options)
            write_note(storage, id_, "begun", sentences)
            break_lock(storage, str(step.arguments["owner"]), options or {}, storage_options)
            storage.delete(f"{BROKEN_LOCK}{step.arguments['owner']}")  # a broken lock is not restored
    lock = table_lock(storage, LockSettings.of(resolved), purpose="repair the table", storage_options=storage_options)
    with lock:
        _examine(storage, plan, options, storage_options, own_lock=True)
        write_note(storage, id_, "begun", sentences)
        for step in plan.steps:
            if step.kind in _UNDER_LOCK:
                work.progress.phase(step.kind.value)
                _STEPS[step.kind](work, step)
        storage.sync()
    for step in plan.steps:
        if step.kind not in _FILES_ONLY:
            work.progress.phase(step.kind.value)
            _STEPS[step.kind](work, step)
    write_note(storage, id_, "done", sentences)
    kept = next(listed for listed in repairs(storage) if listed.id == id_)
    return RepairReport(
        id_,
        tuple(sentences),
        kept.num_kept,
        kept.num_bytes,
        kept.folder,
        work.rows_lost,
        tuple(work.keys_lost),
    )


def undo_repair(
    storage: Storage,
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> KeptRepair:
    """Brings the table back to its state before a repair, under the table lock; see `ledger.undo`."""
    settings = LockSettings.of(Options.resolve(options, Scope.WRITE))
    with table_lock(storage, settings, purpose="undo a repair of the table", storage_options=storage_options):
        return undo(storage, id)


def forget_repair(storage: Storage, id: str) -> KeptRepair:
    """Deletes what a repair has kept; see `ledger.forget`."""
    return forget(storage, id)


def _check_first(storage: Storage, plan: RepairPlan, options: Options) -> None:
    """Refuses steps that cannot be carried out before running any."""
    kinds = {step.kind for step in plan.steps}
    if not kinds <= _FILES_ONLY and not kinds & {StepKind.RESTORE_PROPERTIES, StepKind.REBUILD_PROPERTIES}:
        check_writable(load_table_config(storage))
    for step in plan.steps:
        if step.kind in (StepKind.DEDUPLICATE, StepKind.QUARANTINE):
            check_can_rewrite(load_table_config(storage), storage.uri)
        if step.kind is StepKind.REBUILD_PROPERTIES:
            rebuilt_properties(storage, options)


def _examine(
    storage: Storage,
    plan: RepairPlan,
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, str] | None,
    *,
    own_lock: bool = False,
) -> None:
    """Raises ConflictError if the table no longer has a finding that the plan repairs.

    `own_lock`: the caller holds the lock, so that findings about locks are of no account.
    """
    now = diagnose(storage, options, full=plan.full, storage_options=storage_options)
    there = {finding.subject for finding in now.findings}
    for step in plan.steps:
        for finding in step.findings:
            if finding.subject not in there and not (
                own_lock and finding.code.startswith(("lock.", "leftovers.locks"))
            ):
                raise ConflictError(
                    f"Cannot repair {storage.uri}: the plan no longer holds, as {finding.what} [{finding.code}] is not "
                    "so any more; examine the table again (doctor, repair_plan)"
                )


def _restore_properties(work: _Repair, step: RepairStep) -> None:
    work.storage.put(PROPERTIES, work.storage.read(BACKUP))
    work.storage.delete(BACKUP)


def _rebuild_properties(work: _Repair, step: RepairStep) -> None:
    options = Options.resolve(work.given, Scope.WRITE)
    write_properties(work.storage, rebuilt_properties(work.storage, options))


def _remove(work: _Repair, step: RepairStep) -> None:
    for path in step.arguments["paths"]:
        stored = work.storage.stat(path)
        if stored is not None and not stored.is_dir:
            work.storage.set_aside(path)
        else:
            for info in list(work.storage.walk(path)):
                work.storage.set_aside(info.path)
            work.storage.delete_tree(path)


def _recover(work: _Repair, step: RepairStep) -> None:
    recover_failed_writes(work.context().session)


def _undo_attempt(work: _Repair, step: RepairStep) -> None:
    rollback(work.context(), str(step.arguments["instant"]))


def _mark_partition(work: _Repair, step: RepairStep) -> None:
    partition = str(step.arguments["partition"])
    names = (parse_base_file_name(info.name) or parse_log_file_name(info.name) for info in work.storage.list(partition))
    first = min(name.instant for name in names if name is not None)
    work.storage.put(*partition_metafile(work.context().config(), partition, first))


def _deduplicate(work: _Repair, step: RepairStep) -> None:
    context = work.context()
    groups = step.arguments["groups"]
    seen = context.timeline()
    rows = rows_of(context.session, seen, groups)
    across = any(finding.code == "keys.across" for finding in step.findings)
    kept = one_row_per_key(rows, context.session.config, across=across)
    replace_groups(context.session, seen, context.options, groups, kept, work.progress)


def _quarantine(work: _Repair, step: RepairStep) -> None:
    context = work.context(**_NO_METADATA)
    groups = step.arguments["groups"]
    config = context.session.config
    names = maintained_names(work.storage, config, config.metadata_partitions)
    definitions = read_definitions(work.storage, config)
    seen = context.timeline()
    saved = salvaged(context.session, seen, groups)
    work.rows_lost += saved.num_lost
    work.keys_lost += saved.keys_lost
    if names:
        drop(work.context(), context.session.config.metadata_partitions)
    session = replace(context.session, config=load_table_config(work.storage))
    replace_groups(session, seen, context.options, groups, saved.rows, work.progress)
    for path in step.arguments["paths"]:
        if work.storage.stat(path) is not None:
            work.storage.set_aside(path)
    if names:
        kept = {name: known for name, known in definitions.items() if name in names}
        put_definitions(work.storage, load_table_config(work.storage), kept)
        rebuild(work.context(), names=names)


def _rebuild_metadata(work: _Repair, step: RepairStep) -> None:
    rebuild(work.context(), names=step.arguments["names"] or None)


_STEPS: Final[Mapping[StepKind, Callable[[_Repair, RepairStep], None]]] = {
    StepKind.RESTORE_PROPERTIES: _restore_properties,
    StepKind.REBUILD_PROPERTIES: _rebuild_properties,
    StepKind.REMOVE: _remove,
    StepKind.RECOVER: _recover,
    StepKind.UNDO_ATTEMPT: _undo_attempt,
    StepKind.MARK_PARTITION: _mark_partition,
    StepKind.QUARANTINE: _quarantine,
    StepKind.DEDUPLICATE: _deduplicate,
    StepKind.REBUILD_METADATA: _rebuild_metadata,
}
