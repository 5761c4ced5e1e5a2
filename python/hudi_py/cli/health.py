"""Runs the doctor and repairs: findings, plans and reports."""

from __future__ import annotations

import hudi_py
from hudi_py.cli.declare import CommandTarget, confirm
from hudi_py.cli.screen import Screen, ScreenColumn, number
from hudi_py.health import Diagnosis, Severity
from hudi_py.health.mending.ledger import KeptRepair
from hudi_py.health.mending.plan import RepairPlan
from hudi_py.model.words import counted, show_bytes

_STYLES = {Severity.CRITICAL: "bold red", Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTICE: "dim"}


def examine(target: CommandTarget, full: bool) -> bool:
    """Implements `hudi-py doctor`; returns whether the table is healthy."""
    diagnosis = hudi_py.doctor(target.path, target.options, full=full, storage_options=target.storage_options)
    if target.as_json:
        Screen().json(diagnosis.to_dict())
    else:
        _show_diagnosis(Screen(), target, diagnosis)
    return diagnosis.healthy


def mend(target: CommandTarget, *, full: bool, lose_rows: bool, dry_run: bool, yes: bool) -> None:
    """Implements `hudi-py repair`."""
    storage_options, screen = target.storage_options, Screen()
    plan = hudi_py.repair_plan(
        target.path, target.options, full=full, lose_rows=lose_rows, storage_options=storage_options
    )
    if dry_run or not plan.steps:
        screen.json({"dry_run": dry_run, **plan.to_dict()}) if target.as_json else _show_plan(screen, plan)
        return
    if not target.as_json:
        _show_plan(screen, plan)
    confirm(f"Carry out {counted(len(plan.steps), 'step')} on {plan.uri}?", yes)
    report = hudi_py.repair(target.path, plan, target.options, storage_options=storage_options)
    if target.as_json:
        screen.json(report.to_dict())
        return
    screen.line(f"Done: {counted(len(report.done), 'step')}.")
    if report.rows_lost:
        screen.line(f"{counted(report.rows_lost, 'row')} lost.", "red")
        for key in report.keys_lost:
            screen.path(f"  {key}")
    screen.line(f"{counted(report.num_kept, 'file')} of {show_bytes(report.num_bytes)} kept in {report.folder}.")
    screen.path(f"  Undo:   hudi-py repairs undo {target.path} {report.id}")
    screen.path(f"  Forget: hudi-py repairs forget {target.path} {report.id}")


def kept(target: CommandTarget) -> None:
    """Implements `hudi-py repairs list`."""
    screen = Screen()
    result = hudi_py.repairs(target.path, target.options, storage_options=target.storage_options)
    if target.as_json:
        screen.json_lines(item.to_dict() for item in result)
        return
    columns = [
        ScreenColumn("id", keep=True),
        ScreenColumn("state"),
        number("files"),
        number("size"),
        ScreenColumn("steps"),
    ]
    rows = [(item.id, item.state, item.num_kept, show_bytes(item.num_bytes), "; ".join(item.steps)) for item in result]
    screen.table(columns, rows, empty="No repairs are kept.")


def undo(target: CommandTarget, id: str) -> None:
    """Implements `hudi-py repairs undo`."""
    undone = hudi_py.undo_repair(target.path, id, target.options, storage_options=target.storage_options)
    _print_repair(target, undone, f"Undone: the repair {id}. {counted(undone.num_kept, 'file')} brought back.")


def forget(target: CommandTarget, id: str) -> None:
    """Implements `hudi-py repairs forget`."""
    forgotten = hudi_py.forget_repair(target.path, id, target.options, storage_options=target.storage_options)
    _print_repair(target, forgotten, f"Deleted what the repair {id} had kept: {counted(forgotten.num_kept, 'file')}.")


def _print_repair(target: CommandTarget, repair: KeptRepair, sentence: str) -> None:
    if target.as_json:
        Screen().json(repair.to_dict())
    else:
        Screen().line(sentence)


def _show_diagnosis(screen: Screen, target: CommandTarget, diagnosis: Diagnosis) -> None:
    bad = sum(finding.severity >= Severity.WARNING for finding in diagnosis.findings)
    screen.title(diagnosis.uri, "healthy" if diagnosis.healthy else f"{counted(bad, 'finding')} to fix")
    for finding in diagnosis.findings:
        screen.line()
        screen.line(f"{finding.severity.word}: {finding.what} [{finding.code}]", _STYLES[finding.severity], hang=2)
        screen.line(f"  {finding.consequence}", hang=2)
        screen.line(f"  To fix: {finding.remedy_for('cli')}", hang=2)
    if diagnosis.findings:
        screen.line()
    for reason in diagnosis.skipped:
        screen.line(f"Not examined: {reason}", hang=2)
    if not diagnosis.full and diagnosis.checked:
        screen.note("Only a sample of the rows was examined; --full reads all.")
    if not diagnosis.healthy:
        screen.path(f"See what a repair would do: hudi-py repair {target.path} --dry-run")


def _show_plan(screen: Screen, plan: RepairPlan) -> None:
    if not plan.steps:
        screen.line("There is nothing to repair." if not plan.left else "No repair fixes these findings:")
    for index, step in enumerate(plan.steps, 1):
        screen.line(f"{index}. {step.sentence}", hang=3)
    if plan.steps and plan.left:
        screen.line("Not repaired:")
    for finding in plan.left:
        screen.line(f"  {finding} {finding.remedy_for('cli')}", hang=4)
