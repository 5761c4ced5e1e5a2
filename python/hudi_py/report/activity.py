"""The timeline over time: kinds of actions, their durations, and which ran concurrently."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.services.planned.pending import SERVICE_ACTIONS
from hudi_py.timeline.times import epoch_ms, is_special

MAX_BINS: Final = 90
MAX_ENTRIES: Final = 40

Role = Literal["write", "service", "undo", "mark"]
"""The purpose of a kind of action; `mark`: it changes no file."""

_ROLES: Final[dict[str, Role]] = {
    "commit": "write",
    "deltacommit": "write",
    "replacecommit": "write",
    "compaction": "service",
    "logcompaction": "service",
    "clustering": "service",
    "clean": "service",
    "indexing": "service",
    "rollback": "undo",
    "restore": "undo",
    "savepoint": "mark",
    "schemacommit": "mark",
}
"""Roles in the order in which they are shown."""
_IDLE_SHARE: Final = 0.6
"""Maximum share of idle times on a `Scale`, relative to the time in which something ran."""


@dataclass(frozen=True, slots=True)
class ReportedInstant:
    """An instant in the report."""

    instant: str
    kind: str
    """Its action, or a more specific kind for services that complete as commits."""
    role: Role
    state: str
    """`requested`, `inflight` or `completed`."""
    operation: str
    """Empty unless the instant is a completed write."""
    start_ms: int | None
    """Milliseconds since the epoch; None if the instant is no valid time."""
    end_ms: int | None
    """None while pending, or if unknown, as for savepoints, whose requested time is the one of their commit."""
    changed: tuple[int, int, int] | None
    """Rows inserted, updated and deleted by a write."""
    bytes: int | None
    """Bytes written by a commit."""
    overlaps: int = 0
    """Number of completed actions that ran at the same time, at least partly."""

    @property
    def pending(self) -> bool:
        return self.state != "completed"

    @property
    def duration_ms(self) -> int | None:
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class Lane:
    """All instants of one kind."""

    kind: str
    role: Role
    count: int
    pending: int
    last: str
    """The newest instant."""
    durations: tuple[int, int, int] | None
    """Median, 95th percentile and greatest, ms; None: unknown."""
    bins: tuple[int, ...]
    """Number of instants that begin in each bin of `Activity`."""
    pending_bins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """The active timeline."""

    count: int
    pending: int
    lanes: tuple[Lane, ...]
    edges: tuple[int, ...]
    """Limits of the bins, ms since the epoch, one more than there are bins; empty if no instant is a valid time."""
    entries: tuple[ReportedInstant, ...]
    """The pending instants, and the newest of the others; newest first, at most `MAX_ENTRIES`."""
    overlapping: int
    """Number of completed actions that ran while another one did."""
    most_at_once: int
    copied: bool
    """Whether completion times are unknown, because they are modification times of files that were copied later."""


def activity_of(instants: pa.Table, history: pa.Table, zone: tzinfo, *, layout: int) -> Activity:
    """Summarises the timeline of `Table.instants()`, with the changes of its writes from `Table.history()`.

    Args:
        zone: of the table's instants.
        layout: of the timeline. Before layout 2, completion times are modification times of files.
    """
    entries = _reported_entries(instants.to_pylist(), {row["instant"]: row for row in history.to_pylist()}, zone)
    copied = layout < 2 and _was_copied(entries)
    if copied:
        entries = [replace(entry, end_ms=None) for entry in entries]
    entries, most = _with_overlaps(entries)
    edges = _bin_edges(entries)
    newest = sorted(entries, key=lambda entry: (entry.pending, entry.instant), reverse=True)[:MAX_ENTRIES]
    return Activity(
        count=len(entries),
        pending=sum(entry.pending for entry in entries),
        lanes=tuple(_kind_lanes(entries, edges)),
        edges=tuple(edges),
        entries=tuple(sorted(newest, key=lambda entry: entry.instant, reverse=True)),
        overlapping=sum(entry.overlaps > 0 for entry in entries),
        most_at_once=most,
        copied=copied,
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Time as a share of a width. Idle times are shortened, so that seconds remain visible next to days."""

    times: tuple[int, ...]
    places: tuple[float, ...]
    shortened: bool

    def place(self, ms: int) -> float:
        return float(np.interp(ms, self.times, self.places))


def scale_of(spans: Iterable[tuple[int, int]]) -> Scale:
    """Returns the scale from 0 to 1 on which all time spans fit."""
    busy: list[list[int]] = []
    for start, end in sorted(spans):
        if busy and start <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([start, end])
    if not busy:
        return Scale((0,), (0.0,), False)
    work = sum(end - start for start, end in busy) or 1
    gap = max(int(work * _IDLE_SHARE / len(busy)), 1)
    times, widths, shortened = [busy[0][0]], [0], False
    for index, (start, end) in enumerate(busy):
        if index:
            idle = start - busy[index - 1][1]
            times.append(start)
            widths.append(widths[-1] + min(idle, gap))
            shortened = shortened or idle > gap
        times.append(end)
        widths.append(widths[-1] + max(end - start, 1))
    return Scale(tuple(times), tuple(width / widths[-1] for width in widths), shortened)


def _reported_entries(
    instants: Sequence[dict[str, Any]], history: dict[str, dict[str, Any]], zone: tzinfo
) -> list[ReportedInstant]:
    result = []
    for row in instants:
        completed = row["state"] == "COMPLETED"
        written = history.get(row["instant"], {}) if completed else {}
        if written.get("action") != row["action"]:
            written = {}
        operation = written.get("operation") or ""
        kind = SERVICE_ACTIONS.get(operation, row["action"])
        role = _ROLES.get(kind, "mark")
        changed = (written["num_inserts"], written["num_updates"], written["num_deletes"]) if written else None
        result.append(
            ReportedInstant(
                instant=row["instant"],
                kind=kind,
                role=role,
                state=row["state"].lower(),
                operation=operation,
                start_ms=_instant_ms(row["instant"], zone),
                end_ms=_instant_ms(row["completion_time"], zone) if completed and kind != "savepoint" else None,
                changed=changed if role == "write" else None,
                bytes=written.get("num_bytes"),
            )
        )
    return result


def _instant_ms(instant: str | None, zone: tzinfo) -> int | None:
    if not instant or is_special(instant):
        return None
    try:
        return epoch_ms(instant, zone)
    except ConfigError:  # no valid time: foreign or damaged
        return None


def _was_copied(entries: Sequence[ReportedInstant]) -> bool:
    """Returns whether everything seems to have completed after the newest action began."""
    starts = [entry.start_ms for entry in entries if entry.start_ms is not None]
    ends = [entry.end_ms for entry in entries if entry.end_ms is not None]
    return len(ends) > 2 and min(ends) > max(starts)


def _with_overlaps(entries: Sequence[ReportedInstant]) -> tuple[list[ReportedInstant], int]:
    """Returns the entries with their overlaps, and the maximum number of concurrent actions."""
    spans = np.array(
        [(index, entry.start_ms, entry.end_ms) for index, entry in enumerate(entries) if (entry.duration_ms or 0) > 0],
        dtype=np.int64,
    ).reshape(-1, 3)
    result = list(entries)
    if not len(spans):
        return result, min(len(result), 1)
    starts, ends = np.sort(spans[:, 1]), np.sort(spans[:, 2])
    # those that began before its end, minus those that ended before its start, and itself
    counts = np.searchsorted(starts, spans[:, 2], "left") - np.searchsorted(ends, spans[:, 1], "right") - 1
    for index, count in zip(spans[:, 0].tolist(), counts.tolist(), strict=True):
        result[index] = replace(result[index], overlaps=count)
    at_once = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, "right")
    return result, int(at_once.max())


def _bin_edges(entries: Sequence[ReportedInstant]) -> list[int]:
    times = [time for entry in entries for time in (entry.start_ms, entry.end_ms) if time is not None]
    if not times:
        return []
    low, high = min(times), max(times) + 1
    count = min(MAX_BINS, max(high - low, 1))
    return [int(item) for item in np.linspace(low, high, count + 1)]


def _kind_lanes(entries: Sequence[ReportedInstant], edges: Sequence[int]) -> Iterable[Lane]:
    order = [*_ROLES]
    by_kind: dict[str, list[ReportedInstant]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry)
    for kind in sorted(by_kind, key=lambda kind: (order.index(kind) if kind in order else len(order), kind)):
        own = by_kind[kind]
        taken = [entry.duration_ms for entry in own if entry.duration_ms is not None and entry.duration_ms >= 0]
        spread = np.percentile(taken, (50, 95, 100)) if taken else None
        yield Lane(
            kind=kind,
            role=own[0].role,
            count=len(own),
            pending=sum(entry.pending for entry in own),
            last=own[-1].instant,
            durations=None if spread is None else (int(spread[0]), int(spread[1]), int(spread[2])),
            bins=_bin_counts(own, edges),
            pending_bins=_bin_counts([entry for entry in own if entry.pending], edges),
        )


def _bin_counts(entries: Sequence[ReportedInstant], edges: Sequence[int]) -> tuple[int, ...]:
    starts = [entry.start_ms for entry in entries if entry.start_ms is not None]
    if not edges:
        return ()
    counts, _ = np.histogram(starts, bins=np.array(edges))
    return tuple(int(count) for count in counts)
