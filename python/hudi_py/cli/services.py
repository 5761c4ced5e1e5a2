"""Runs table services: previews, questions and reports."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from hudi_py.cli.declare import CommandTarget, confirm
from hudi_py.cli.screen import Screen, ScreenColumn, number
from hudi_py.model.instant import InstantTime
from hudi_py.model.words import counted
from hudi_py.services.methods import ServicePlans
from hudi_py.services.planned.service import Preview, ServiceReport
from hudi_py.services.registry import SERVICES, check_call

_MAX_ROWS = 50


@dataclass(frozen=True, slots=True)
class How:
    """Which phase of a planned service to run; all phases if nothing is set."""

    schedule: bool
    run: str | None
    dry_run: bool

    def __post_init__(self) -> None:
        if sum(map(bool, (self.schedule, self.run, self.dry_run))) > 1:
            raise click.UsageError("Give only one of --schedule, --run and --dry-run.")


@dataclass(frozen=True, slots=True)
class Undone:
    """What a rollback or restore would undo."""

    instants: list[InstantTime]
    purpose: str


def planned(target: CommandTarget, plans: ServicePlans[Any], how: How) -> None:
    """Runs a service with plans, such as `compact`."""
    if how.dry_run:
        _preview(target, plans.preview())
    elif how.schedule:
        _scheduled(target, plans.schedule())
    elif how.run is not None:
        report(target, plans.run(None if how.run == "oldest" else how.run))
    else:
        report(target, plans.schedule_and_run())


def described() -> list[tuple[str, str]]:
    """Returns the name of each service, with its purpose and arguments."""
    return [
        (
            service.name,
            " ".join([f"{service.help}.", *(f"{_flag(own.name)}: {own.help}." for own in service.arguments)]),
        )
        for service in SERVICES.values()
    ]


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A service as the command line names it."""

    service: str
    arguments: Sequence[str]
    """The flags of the service and their values."""
    phase: str | None
    instant: str | None
    dry_run: bool
    yes: bool
    """Whether not to ask."""


def run_service(target: CommandTarget, asked: ServiceRun) -> None:
    """Implements `hudi-py run`."""
    name, phase, instant = asked.service, asked.phase, asked.instant
    arguments, dry_run = _named(name, asked.arguments), asked.dry_run
    if dry_run and "dry_run" in _kinds(name):
        arguments["dry_run"], dry_run = True, False
    service, table = check_call(name, phase, instant, arguments).service, target.open()
    if dry_run:
        if service.plans is None:
            raise click.UsageError(f"The service {name} has no plan to show with --dry-run.")
        _preview(target, table.services.planned(name, **arguments).preview())
        return
    if service.asks and phase != "schedule" and not arguments.get("dry_run"):
        confirm(f"Run {name} on {table.uri}, to {service.asks}?", asked.yes)
    done = table.services.run(name, phase=phase, instant=instant, **arguments)
    if phase == "schedule" and done.instant is not None and not target.as_json:
        Screen().line(f"Planned: {done.instant}. Run it with --phase execute --instant {done.instant}.")
    else:
        report(target, done)


def _kinds(name: str) -> dict[str, type]:
    return {argument.name: argument.kind for argument in SERVICES[name].arguments} if name in SERVICES else {}


def _named(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Parses the arguments of a service: `--name value`, `--name=value`, or `--name` alone for a flag. Unknown
    arguments are left for `check_call` to refuse."""
    left, arguments = list(texts), dict[str, Any]()
    while left:
        flag, separator, value = left.pop(0).partition("=")
        if not flag.startswith("--"):
            raise click.UsageError(f"The argument {flag!r} has no name; give it as --NAME {flag}.")
        key = flag.removeprefix("--").replace("-", "_")
        if separator:
            arguments[key] = value
        elif _kinds(name).get(key) is bool:
            arguments[key] = True
        else:
            arguments[key] = left.pop(0) if left else ""
    return arguments


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def clean(target: CommandTarget, how: How, yes: bool) -> None:
    """Implements `hudi-py clean`."""
    table = target.open()
    plans = table.cleaning
    if how.dry_run:
        _preview(target, plans.preview())
        return
    if not how.schedule:
        question = f"Delete the old file versions of {table.uri}?"
        if not yes and sys.stdin.isatty() and how.run is None:
            preview = plans.preview()
            files = sum(len(row["files"]) for row in preview.rows)
            if files:
                partitions = counted(len(preview.rows), "partition")
                question = f"Delete {counted(files, 'file')} in {partitions} of {table.uri}?"
            elif not plans.pending():
                report(target, plans.schedule_and_run())  # deletes nothing, and says why
                return
        confirm(question, yes)
    planned(target, plans, how)


def change_table(target: CommandTarget, name: str, to: int | str, dry_run: bool, yes: bool) -> None:
    """Implements `hudi-py upgrade`, `downgrade` and `change-type`: shows the consequences, asks, and does it."""
    table = target.open()
    change, screen = getattr(table, name), Screen()
    plan = change(to, dry_run=True)
    if not target.as_json:
        for step in plan.steps:
            screen.line(f"- {step}")
        for limit in plan.limits:
            screen.line(f"Note: {limit}.")
        if plan.steps:
            screen.line(f"To go back: {plan.undo.replace('PATH', table.uri)}")
    if not dry_run and plan.steps:
        ends = f"{plan.source} to {plan.target}"
        what = f"{table.uri} from {ends}" if name == "change_type" else f"{table.uri} from version {ends}"
        confirm(f"{'Change' if name == 'change_type' else name.capitalize()} {what}?", yes)
    report(target, plan if dry_run else change(to))


def archive(target: CommandTarget, dry_run: bool) -> None:
    """Implements `hudi-py archive`."""
    table, screen = target.open(), Screen()
    if not dry_run:
        report(target, table.archive())
        return
    preview = table.preview_archive()
    instants = [instant.time for instant in preview.instants]
    if target.as_json:
        screen.json({"dry_run": True, "reason": preview.reason, "instants": instants})
    elif instants:
        count = counted(len(instants), "instant")
        screen.line(f"{count} would be archived, {instants[0]} to {instants[-1]}. Nothing was changed.")
    else:
        screen.line(f"Nothing would be archived: {preview.reason}.")


def agreed(target: CommandTarget, undone: Undone, dry_run: bool, yes: bool) -> bool:
    """Decides whether to go on with a rollback or restore: shows what it would undo on a dry run, otherwise asks."""
    screen, count = Screen(), counted(len(undone.instants), "instant")
    if dry_run:
        if target.as_json:
            screen.json({"dry_run": True, "instants": undone.instants})
        elif undone.instants:
            screen.line(f"{count} would be undone, in this order: {', '.join(undone.instants)}. Nothing was changed.")
        else:
            screen.line("Nothing would be undone.")
        return False
    if undone.instants:
        listed = ", ".join(undone.instants[:5]) + (", ..." if len(undone.instants) > 5 else "")
        confirm(f"To {undone.purpose}, undo {count} ({listed}) for good?", yes)
    return True


def report(target: CommandTarget, result: ServiceReport) -> None:
    """Reports what a service did."""
    Screen().report(result, as_json=target.as_json)


def create_index(
    target: CommandTarget, name: str, column: str, using: str, given: dict[str, str], if_not_exists: bool
) -> None:
    """`hudi-py index create`. `given`: options stored with the index."""
    made = target.open().index(name, column, using=using, index_options=given, if_not_exists=if_not_exists)
    _said(target, {"created": made}, f"Created the index {name}." if made else f"The index {name} exists already.")


def refresh_index(target: CommandTarget, name: str) -> None:
    """`hudi-py index refresh`."""
    target.open().indexes.refresh(name)
    _said(target, {"refreshed": True}, f"Built the index {name} anew.")


def drop_index(target: CommandTarget, name: str, yes: bool) -> None:
    """Implements `hudi-py index drop`."""
    table = target.open()
    confirm(f"Drop the index {name} of {table.uri}, and what depends on it?", yes)
    table.indexes.drop(name)
    _said(target, {"dropped": True}, f"Dropped the index {name}.")


def _said(target: CommandTarget, facts: Mapping[str, object], text: str) -> None:
    screen = Screen()
    if target.as_json:
        screen.json(dict(facts))
    else:
        screen.line(text)


def verify(target: CommandTarget, partitions: Sequence[str]) -> bool:
    """Implements `hudi-py metadata verify`; returns whether all is well."""
    result, screen = target.open().metadata.verify(*partitions), Screen()
    if target.as_json:
        screen.json(result.to_dict())
    else:
        for line in str(result).splitlines():
            screen.line(line)
    return result.ok


def rebuild(target: CommandTarget, partitions: Sequence[str]) -> None:
    """Implements `hudi-py metadata rebuild`."""
    built, screen = target.open().metadata.rebuild(*partitions), Screen()
    if target.as_json:
        screen.json({"rebuilt": built})
    else:
        screen.line(f"Rebuilt: {', '.join(built) or 'nothing'}.")


def drop(target: CommandTarget, partitions: Sequence[str], yes: bool) -> None:
    """Implements `hudi-py metadata drop`."""
    table, screen = target.open(), Screen()
    confirm(f"Drop {', '.join(partitions)} of the metadata table of {table.uri}, and what depends on them?", yes)
    dropped = table.metadata.drop(*partitions)
    if target.as_json:
        screen.json({"dropped": dropped})
    else:
        screen.line(f"Dropped: {', '.join(dropped) or 'nothing'}.")


def break_lock(target: CommandTarget, owner: str, yes: bool) -> None:
    """Implements `hudi-py locks break`."""
    table, screen = target.open(), Screen()
    confirm(f"Release the lock of {table.uri} that {owner} holds? A holder that still runs will fail.", yes)
    table.locks.release(owner)
    if target.as_json:
        screen.json({"owner": owner, "released": True})
    else:
        screen.line("The lock was released.")


def set_audit(target: CommandTarget, enabled: bool) -> None:
    """Implements `hudi-py locks audit enable` and `disable`."""
    target.open().locks.audit.set_enabled(enabled)
    _said(target, {"enabled": enabled}, f"The audit of the lock is {'enabled' if enabled else 'disabled'}.")


def validate_audit(target: CommandTarget) -> bool:
    """Implements `hudi-py locks audit validate`; returns whether all is well."""
    result = target.open().locks.audit.validate()
    lines = "\n".join((*result.errors, *result.warnings)) or f"{result.details}."
    _said(target, result.to_dict(), lines)
    return not result.num_issues


def clean_up_audit(target: CommandTarget, age_days: int, dry_run: bool, yes: bool) -> None:
    """Implements `hudi-py locks audit cleanup`."""
    audit = target.open().locks.audit
    old = audit.clean_up(age_days, dry_run=True)
    if not dry_run and old:
        confirm(f"Delete {counted(len(old), 'record')} in {audit.folder}?", yes)
        old = audit.clean_up(age_days)
    done = "would be deleted" if dry_run else "deleted"
    _said(target, {"dry_run": dry_run, "files": old}, f"{counted(len(old), 'record')} {done}.")


def _scheduled(target: CommandTarget, instant: InstantTime | None) -> None:
    screen = Screen()
    if target.as_json:
        screen.json({"instant": instant})
    elif instant is None:
        screen.line("Nothing to do: no plan was made. --dry-run shows why.")
    else:
        screen.line(f"Planned: {instant}. Run it with --run {instant}.")


def _preview(target: CommandTarget, preview: Preview) -> None:
    """Returns what a plan made now would contain: file groups to rewrite, or files to delete."""
    screen, rows = Screen(), preview.rows
    if target.as_json:
        gain = {} if preview.gain is None else {"gain": preview.gain.to_dict()}
        screen.json({"dry_run": True, "reason": preview.reason, "plan": list(rows), **gain})
        return
    if not rows:
        screen.line(f"Nothing would be done: {preview.reason}.")
        return
    files = counted(sum(len(row["files"]) for row in rows), "file")
    if rows[0]["file_id"] is not None:
        screen.line(f"{counted(len(rows), 'file group')} with {files} would be rewritten. Nothing was changed.")
        if preview.gain is not None:
            screen.line(f"Gain: {preview.gain}.")
        columns = [ScreenColumn("partition"), ScreenColumn("file id"), number("files")]
        listed = [[row["partition"] or ".", row["file_id"], len(row["files"])] for row in rows]
    else:
        screen.line(f"{files} in {counted(len(rows), 'partition')} would be deleted. Nothing was changed.")
        columns = [ScreenColumn("partition"), ScreenColumn("file")]
        listed = [[row["partition"] or ".", file] for row in rows for file in row["files"]]
    screen.line()
    screen.table(columns, listed[:_MAX_ROWS], empty="")
    if len(listed) > _MAX_ROWS:
        screen.note(f"{len(listed) - _MAX_ROWS:,} more; --json lists all.")
