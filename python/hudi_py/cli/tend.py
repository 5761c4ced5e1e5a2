"""`hudi-py tend`: what is due on many tables, and what was done."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import hudi_py
from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.failure import code_of, worst
from hudi_py.cli.screen import Screen, ScreenColumn, number
from hudi_py.errors import first_line
from hudi_py.model.words import capitalised, counted, show_bytes, show_duration
from hudi_py.tending import Budget, TendedService, TendedTable, TendReport

_STYLES = {"done": "green", "failed": "red", "busy": "yellow", "left": "dim", "interrupted": "yellow"}


@dataclass(frozen=True, slots=True)
class TendArguments:
    """The arguments of the command, as the command line gives them."""

    places: Sequence[str]
    services: Sequence[str] | None
    budget_time: str | None
    budget_bytes: str | None
    budget_requests: int | None
    jobs: int
    depth: int | None
    dry_run: bool

    @property
    def budget(self) -> Budget:
        """Raises ConfigError if a text is not valid."""
        return Budget.parse(self.budget_time, self.budget_bytes, self.budget_requests)


def tend(target: CommandTarget, given: TendArguments) -> int:
    """Runs it; the exit code."""
    screen, seen = Screen(), list[TendedTable]()

    def watch(table: TendedTable) -> None:
        seen.append(table)
        if not target.as_json and (table.services or table.error or table.skipped or table.remarks):
            _show(screen, table)

    try:
        with _terminated_as_interrupted():
            report = hudi_py.tend(
                given.places,
                target.options,
                services=given.services,
                budget=given.budget,
                jobs=given.jobs,
                depth=given.depth,
                dry_run=given.dry_run,
                storage_options=target.storage_options,
                watch=watch,
            )
    except KeyboardInterrupt:
        if target.as_json:
            screen.json({"interrupted": True, "tables": [table.to_dict() for table in seen]})
        raise
    if target.as_json:
        screen.json(report.to_dict())
    else:
        _sum_up(screen, report)
    return worst([code_of(error) for error in report.errors])


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, by which schedulers end what takes too long, interrupts, so that what was begun is taken back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(screen: Screen, table: TendedTable) -> None:
    kind = {"MERGE_ON_READ": "merge on read", "COPY_ON_WRITE": "copy on write"}.get(table.table_type, "")
    screen.title(table.uri, f"{kind}, version {table.version}" if table.version else "")
    if table.error is not None:
        screen.line(f"  cannot be examined: {first_line(table.error)}", "red", hang=4)
    if table.skipped:
        screen.line(f"  skipped: {table.skipped}", "dim", hang=4)
    for tended in table.services:
        screen.line(f"  {_sentence(tended)}", _STYLES.get(tended.state, ""), hang=4)
    for remark in table.remarks:
        screen.line(f"  note: {remark}", "dim", hang=4)


def _sentence(tended: TendedService) -> str:
    name = tended.service.replace("_", " ")
    if tended.state == "done" and tended.report is not None:
        took = f" ({show_duration(round(tended.seconds * 1000))}, {counted(tended.used.requests, 'request')})"
        return f"done: {tended.report}{took}"
    estimate = f" (about {counted(tended.requests, 'request')}"
    estimate += f", {show_bytes(tended.num_bytes)})" if tended.num_bytes else ")"
    return f"{tended.state}: {name}: {tended.reason}" + (estimate if tended.state == "due" else "")


def _sum_up(screen: Screen, report: TendReport) -> None:
    due = [(table, service) for table in report.tables for service in table.services if service.state != "nothing"]
    if len(due) > 1:
        by_service: dict[str, dict[str, int]] = {}
        for _, service in due:
            counts = by_service.setdefault(service.service, {})
            counts[service.state] = counts.get(service.state, 0) + 1
        states = list(dict.fromkeys(state for counts in by_service.values() for state in counts))
        screen.line()
        columns = [ScreenColumn("service"), *map(number, states)]
        rows = [
            [name.replace("_", " "), *(counts.get(state) for state in states)] for name, counts in by_service.items()
        ]
        screen.table(columns, rows, empty="")
        screen.line()
    for folder in report.not_searched:
        screen.note(f"Not examined: {folder}")
    screen.line(f"{capitalised(str(report))}." + (" Nothing was changed." if report.dry_run else ""))
