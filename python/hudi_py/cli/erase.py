"""Erasures: what would be done, the question, and the report."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from hudi_py.cli.declare import CommandTarget, confirm
from hudi_py.cli.screen import Screen
from hudi_py.model.words import Spoken, counted


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What to erase, by a condition or by keys, and how."""

    where: str | None
    keys: list[str] | None
    delete_savepoints: bool
    reference: str


def erase(target: CommandTarget, asked: ErasureRequest, dry_run: bool, yes: bool) -> bool:
    """`hudi-py erase`; whether nothing is left of the rows."""
    table, screen = target.open(), Screen()
    question = f"Erase rows from {table.uri} for good?"
    if dry_run or (not yes and sys.stdin.isatty()):
        plan = table.preview_erase(asked.where, keys=asked.keys)
        if dry_run and target.as_json:
            screen.json({"dry_run": True, **plan.to_dict()})
        elif not target.as_json:
            _show(screen, plan)
        if dry_run or (not plan.needed and not target.as_json):
            return True
        refused = plan.in_the_way or (plan.savepoints and not asked.delete_savepoints)
        yes = bool(refused) or not plan.needed  # then nothing is changed, and there is nothing to ask
        question = f"Erase {counted(plan.num_rows, 'row')}, and older versions, from {table.uri} for good?"
    confirm(question, yes)
    report = table.erase(
        asked.where, keys=asked.keys, delete_savepoints=asked.delete_savepoints, reference=asked.reference
    )
    if target.as_json:
        screen.json(report.to_dict())
    else:
        _show(screen, report)
    return report.complete


def _show(screen: Screen, found: Spoken) -> None:
    first, *more = str(found).splitlines()
    for line in (first[:1].upper() + first[1:], *more):
        screen.line(line, hang=len(line) - len(line.lstrip()) + 2)
