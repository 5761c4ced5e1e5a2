"""The active timeline: its instants, their states, and which of them count as committed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import lru_cache
from operator import attrgetter

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.layout import META_FOLDER, TIMELINE
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.times import format_instant, table_zone

INITIAL = "00000000000000"
"""Prefix of the times of a metadata table's initial commits."""
_QUICK_S = 0.1
"""Maximum duration of a listing during which no instant can be both requested and completed."""
_LISTINGS = 10
_WRITES = frozenset(action.value for action in WRITE_ACTIONS)
"""`WRITE_ACTIONS` in the form of `Instant.sort_key`."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The part of a timeline that a reader or writer has seen.

    Layout 2: everything completed up to a completion time. Layout 1, which does not store completion times: everything
    up to the newest completed instant, except for instants that were pending.
    """

    time: str
    """Greatest completion time (layout 2) or requested time (layout 1) seen; empty for an empty timeline."""
    pending: tuple[tuple[str, str], ...] = ()
    """Layout 1: (requested time, comparable action) of instants below `time` that had not completed."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The instants of a table when they were listed (`HoodieDefaultTimeline`, `InstantComparators`, 1.2.0)."""

    layout: Layout
    files: tuple[Instant, ...]
    """Every state file, sorted."""
    start: InstantTime | None = None
    """First active write instant without a savepoint, in any state; older instants were archived, hence completed."""
    instants: tuple[Instant, ...] = field(init=False, compare=False)
    """One per (requested time, comparable action), in its highest state; sorted by requested time. Of several completed
    files the one with the smallest completion time counts, since the instant has been complete from then on
    (`CompletionTimeQueryViewV2`, 1.2.0)."""
    completed: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    pending: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    """Requested and inflight instants."""
    write_completed: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    """Completed commits, deltacommits and replacecommits, including those of table services."""
    _completions: dict[str, CompletionTime] = field(init=False, compare=False, repr=False)

    plans: dict[tuple[str, Action], tuple[bytes, str]] = field(init=False, compare=False, repr=False)
    """Cache of `PendingPlans`: plans do not change while their instants are pending."""

    def __post_init__(self) -> None:
        instants = _highest(self.files)
        completed = tuple(instant for instant in instants if instant.state is State.COMPLETED)
        writes = tuple(instant for instant in completed if instant.sort_key[1] in _WRITES)
        _set(self, "plans", {})
        _set(self, "instants", instants)
        _set(self, "completed", completed)
        _set(self, "pending", tuple(instant for instant in instants if instant.state is not State.COMPLETED))
        _set(self, "write_completed", writes)
        _set(self, "_completions", {i.time: i.completion_time or CompletionTime(i.time) for i in writes})

    @property
    def last_completed(self) -> Instant | None:
        """Returns the completed write instant with the greatest requested time."""
        return self.write_completed[-1] if self.write_completed else None

    def is_committed(self, instant_time: str) -> bool:
        """Returns whether files and log blocks of an instant count: it is a completed write, or older than the
        timeline."""
        return instant_time in self._completions or self.is_archived(instant_time)

    def completion_time(self, instant_time: str) -> CompletionTime | None:
        """Returns the completion time of a write instant; its own time if archived, None if pending or unknown. See
        `archived.ArchivedCompletions`."""
        value = self._completions.get(instant_time)
        if value is None and self.is_archived(instant_time):
            return CompletionTime(instant_time)
        return value

    def is_archived(self, instant_time: str) -> bool:
        """Returns whether a write instant has left this timeline."""
        return self.start is not None and instant_time < self.start and instant_time not in self._completions

    def find(self, instant_time: str, action: Action | None = None) -> Instant | None:
        """Finds the instant with a requested time, preferably a write; with `action` only one of a comparable
        action."""
        instants = [
            instant
            for instant in self.instants
            if instant.time == instant_time and (action is None or instant.action.comparable is action.comparable)
        ]
        writes = [instant for instant in instants if instant.action.comparable in WRITE_ACTIONS]
        return next(iter(writes or instants), None)

    def moved_since(self, seen: Timeline) -> bool:
        """Returns whether anything has been done or planned since another timeline of the table was read. Even a plan
        counts, since it may open the slices that a write adds to."""
        return self.instants != seen.instants

    def states_of(self, instant: Instant) -> tuple[Instant, ...]:
        """Returns every state file of an instant, requested first."""
        key = (instant.time, instant.action.comparable)
        return tuple(file for file in self.files if (file.time, file.action.comparable) == key)

    def plus(self, completed: Instant) -> Timeline:
        """Returns the timeline with a completed instant added."""
        return timeline_of(self.layout, (*self.files, completed))

    def latest_times(self) -> tuple[InstantTime | None, CompletionTime | None]:
        """Returns the greatest requested time of any instant, and the greatest completion time in a file name (layout
        2)."""
        requested = self.instants[-1].time if self.instants else None
        if not self.layout.has_completion_times:
            return requested, None
        return requested, max(
            (i.completion_time for i in self.files if i.completed and i.completion_time), default=None
        )

    def pin(self) -> Pin:
        """Returns the pin with which `at` reproduces this state from a later timeline."""
        if self.layout.has_completion_times:
            return Pin(self.latest_times()[1] or "")
        if not self.completed:
            return Pin("")
        newest = self.completed[-1].time
        return Pin(newest, tuple((i.time, i.action.comparable.value) for i in self.pending if i.time < newest))

    def pin_before(self, instant: InstantTime) -> Pin:
        """Returns the pin of the state that the planner of an instant saw under the table lock.

        Layout 1 does not store when others have completed: the modification time of their files tells.
        """
        if self.layout.has_completion_times:
            return Pin(instant)
        others = (i for i in self.instants if i.time < instant)
        return Pin(
            instant,
            tuple((i.time, i.action.comparable.value) for i in others if (i.completion_time or "~") > instant),
        )

    def at(self, pin: Pin) -> Timeline:
        """Returns the pinned state of this timeline: instants completed since are pending again, if they have other
        files."""
        if self.layout.has_completion_times:
            kept = [i for i in self.files if not i.completed or (i.completion_time or i.time) <= pin.time]
        else:
            pending = set(pin.pending)
            kept = [
                i
                for i in self.files
                if not i.completed or (i.time <= pin.time and (i.time, i.action.comparable.value) not in pending)
            ]
        return self if len(kept) == len(self.files) else Timeline(self.layout, tuple(kept), self.start)

    def completed_since(self, pin: Pin) -> list[Instant]:
        """Returns the completed instants of any action that are not complete in the pinned state."""
        seen = {(item.time, item.action.comparable) for item in self.at(pin).completed}
        return [item for item in self.completed if (item.time, item.action.comparable) not in seen]


def _highest(files: Iterable[Instant]) -> tuple[Instant, ...]:
    # Sorted by state, so the highest is last; the dictionary keeps the order of times and actions
    highest: dict[tuple[str, str], Instant] = {}
    for file in files:
        key = file.sort_key[:2]
        earlier = highest.get(key)
        if earlier is None or not earlier.completed or _completion(file) < _completion(earlier):
            highest[key] = file
    return tuple(highest.values())


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.time


def timeline_of(layout: Layout, files: Iterable[Instant]) -> Timeline:
    """Builds the timeline from state files."""
    ordered = tuple(sorted(files, key=attrgetter("sort_key", "file_name")))
    saved = {instant.time for instant in ordered if instant.action is Action.SAVEPOINT}
    active = [i.time for i in ordered if i.sort_key[1] in _WRITES]
    writes = [time for time in active if time not in saved]
    # partitions added to a metadata table later also have initial times, although later instants were archived
    regular = next((time for time in writes if not time.startswith(INITIAL)), None)
    # If all have savepoints, commits between them may have been archived; Apache Hudi ignores those
    return Timeline(layout, ordered, regular or next(iter(writes or active[-1:]), None))


def load_timeline(
    storage: Storage, config: TableConfig, zone: tzinfo | None = None, *, locked: bool = False
) -> Timeline:
    """Lists the active timeline.

    Completed files without a completion time in their name (layouts 0 and 1, legacy names of layout 2) have their
    modification time as completion time.

    A listing takes time: if two instants complete while it runs, it may find the second and miss the first, and a
    reader that continues after the second would never see the first one's rows. So if an instant is pending, or listing
    was slow, the timeline is listed again. Everything that completed before an instant of the first listing is in the
    second one; whatever completed later than all of the first listing counts as pending.

    Args:
        zone: replaces the process's own zone for tables with LOCAL times.
        locked: whether the caller holds the table's lock, so that nothing completes meanwhile.
    """
    layout, zone = layout_for(config), table_zone(config, zone)
    began = time.monotonic()
    timeline = _listed(storage, layout, zone)
    if locked or not (timeline.pending or time.monotonic() - began > _QUICK_S):
        return timeline
    for _ in range(_LISTINGS):
        again = _listed(storage, layout, zone)
        if again.completed == timeline.completed:
            return again
        if layout.has_completion_times:
            return again.at(timeline.pin())
        timeline = again  # modification times may be whole seconds, too coarse for a cut
    return timeline


def _listed(storage: Storage, layout: Layout, zone: tzinfo) -> Timeline:
    if layout.has_completion_times:
        known = _named(layout, tuple(storage.names(layout.folder)))
        if known is not None:
            timeline = copy(known)
            _set(timeline, "plans", {})  # a plan may be rewritten while it is pending
            return timeline
    files: list[Instant] = []
    for info in storage.list(layout.folder):
        instant = None if info.is_dir else layout.parse(info.name)
        if instant is None:
            continue
        if instant.state is State.COMPLETED and instant.completion_time is None:
            instant = replace(instant, completion_time=CompletionTime(format_instant(info.modified_ms, zone)))
        files.append(instant)
    if not files:
        _check_elsewhere(storage, layout)
    return timeline_of(layout, files)


@lru_cache(maxsize=16)  # each action loads the timelines of a table and its metadata table several times
def _named(layout: Layout, names: tuple[str, ...]) -> Timeline | None:
    """Builds the timeline of these files; None if there are none, or a completion time is not in its name."""
    files = [instant for name in names if (instant := layout.parse(name)) is not None]
    if not files or any(file.legacy for file in files):
        return None
    return timeline_of(layout, files)


def _check_elsewhere(storage: Storage, layout: Layout) -> None:
    """Raises CorruptFileError if an empty timeline's table has instants in the folder of another layout."""
    for folder, version in ((META_FOLDER, 1), (TIMELINE, 2)):
        if folder == layout.folder:
            continue
        other = Layout(version, folder)
        name = next((info.name for info in storage.list(folder) if not info.is_dir and other.parse(info.name)), None)
        if name is not None:
            raise CorruptFileError(
                f"Cannot read the timeline {storage.uri}/{layout.folder}: it has no instants, but {folder} has {name};"
                " correct hoodie.timeline.layout.version or hoodie.timeline.path in hoodie.properties"
            )


def _set(timeline: Timeline, name: str, value: object) -> None:
    object.__setattr__(timeline, name, value)
