"""The active timeline: which instants there are, how far each has come, and which count as committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from operator import attrgetter

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.times import format_instant, table_zone

INITIAL = "00000000000000"
"""What the times of a metadata table's initial commits begin with (format reference 10.3)."""
_WRITES = frozenset(action.value for action in WRITE_ACTIONS)
"""As in the keys by which instants are sorted."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What of a timeline a reader or writer has seen; small, and travels with plans and messages.

    Layout 2: everything completed up to a completion time. Layout 1, where completion times are not written: everything
    up to the newest completed instant, without those then pending.
    """

    time: str
    """Greatest completion time (layout 2) or requested time (layout 1) seen; empty for an empty timeline."""
    pending: tuple[tuple[str, str], ...] = ()
    """Layout 1: (requested time, comparable action) of instants below `time` which had not completed."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Instants of a table at one moment. Rules are those of `HoodieDefaultTimeline` and `InstantComparators`, 1.2.0."""

    layout: Layout
    files: tuple[Instant, ...]
    """Every state file, sorted."""
    start: InstantTime | None = None
    """First active write instant that has no savepoint, in whatever state; older ones were archived, so completed."""
    instants: tuple[Instant, ...] = field(init=False, compare=False)
    """One per (requested time, comparable action), in its highest state; sorted by requested time."""
    completed: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    pending: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    """Requested or inflight."""
    write_completed: tuple[Instant, ...] = field(init=False, compare=False, repr=False)
    """Completed commits, deltacommits and replacecommits, those of table services among them."""
    _completions: dict[str, CompletionTime] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Sorted by state, so the last one is the highest; the dictionary keeps the order of times and actions
        instants = tuple({instant.sort_key[:2]: instant for instant in self.files}.values())
        completed = tuple(instant for instant in instants if instant.state is State.COMPLETED)
        writes = tuple(instant for instant in completed if instant.sort_key[1] in _WRITES)
        _set(self, "instants", instants)
        _set(self, "completed", completed)
        _set(self, "pending", tuple(instant for instant in instants if instant.state is not State.COMPLETED))
        _set(self, "write_completed", writes)
        _set(self, "_completions", {i.time: i.completion_time or CompletionTime(i.time) for i in writes})

    @property
    def last_completed(self) -> Instant | None:
        """The completed write instant with the greatest requested time."""
        return self.write_completed[-1] if self.write_completed else None

    def is_committed(self, instant_time: str) -> bool:
        """Whether files and log blocks of an instant are valid: it is a completed write, or older than the timeline."""
        return instant_time in self._completions or self._is_archived(instant_time)

    def completion_time(self, instant_time: str) -> CompletionTime | None:
        """Completion time of a write instant; its own time when archived, None when pending or unknown."""
        found = self._completions.get(instant_time)
        if found is None and self._is_archived(instant_time):
            return CompletionTime(instant_time)
        return found

    def find(self, instant_time: str, action: Action | None = None) -> Instant | None:
        """The instant with a requested time, a write instant before others; with `action` only one comparable to it."""
        found = [
            instant
            for instant in self.instants
            if instant.time == instant_time and (action is None or instant.action.comparable is action.comparable)
        ]
        writes = [instant for instant in found if instant.action.comparable in WRITE_ACTIONS]
        return next(iter(writes or found), None)

    def states_of(self, instant: Instant) -> tuple[Instant, ...]:
        """Every state file of an instant, requested first."""
        key = (instant.time, instant.action.comparable)
        return tuple(file for file in self.files if (file.time, file.action.comparable) == key)

    def plus(self, completed: Instant) -> Timeline:
        """The timeline once an instant has completed, by the completed file alone."""
        return timeline_of(self.layout, (*self.files, completed))

    def latest_times(self) -> tuple[InstantTime | None, CompletionTime | None]:
        """The greatest requested time of any instant, and the greatest completion time written in a name (layout 2)."""
        requested = self.instants[-1].time if self.instants else None
        if self.layout.version < 2:
            return requested, None
        return requested, max((i.completion_time for i in self.completed if i.completion_time), default=None)

    def pin(self) -> Pin:
        """What this timeline shows, to be seen again with `at` when there is more."""
        if self.layout.version == 2:
            return Pin(self.latest_times()[1] or "")
        if not self.completed:
            return Pin("")
        newest = self.completed[-1].time
        return Pin(newest, tuple((i.time, i.action.comparable.value) for i in self.pending if i.time < newest))

    def at(self, pin: Pin) -> Timeline:
        """The timeline as it was pinned: instants completed since then are pending, where their files still say so."""
        if self.layout.version == 2:
            kept = [i for i in self.files if not i.completed or (i.completion_time or i.time) <= pin.time]
        else:
            pending = set(pin.pending)
            kept = [
                i
                for i in self.files
                if not i.completed or (i.time <= pin.time and (i.time, i.action.comparable.value) not in pending)
            ]
        return self if len(kept) == len(self.files) else Timeline(self.layout, tuple(kept), self.start)

    def _is_archived(self, instant_time: str) -> bool:
        return self.start is not None and instant_time < self.start


def timeline_of(layout: Layout, files: Iterable[Instant]) -> Timeline:
    """The timeline of some state files."""
    ordered = tuple(sorted(files, key=attrgetter("sort_key", "file_name")))
    saved = {instant.time for instant in ordered if instant.action is Action.SAVEPOINT}
    active = [i.time for i in ordered if i.sort_key[1] in _WRITES]
    writes = [time for time in active if time not in saved]
    # partitions which a metadata table got later have initial times, too, behind which others were archived
    regular = next((time for time in writes if not time.startswith(INITIAL)), None)
    # Where all have savepoints, commits between them may be archived; Apache Hudi loses sight of those
    return Timeline(layout, ordered, regular or next(iter(writes or active[-1:]), None))


def load_timeline(storage: Storage, config: TableConfig, zone: tzinfo | None = None) -> Timeline:
    """Lists the active timeline. `zone` stands for the process's own zone in tables whose times are LOCAL.

    Completed files without completion time in their name (layouts 0 and 1, legacy names of layout 2) complete at their
    modification time.
    """
    layout = layout_for(config)
    times = table_zone(config, zone)
    files: list[Instant] = []
    for info in storage.list(layout.folder):
        instant = None if info.is_dir else layout.parse(info.name)
        if instant is None:
            continue
        if instant.state is State.COMPLETED and instant.completion_time is None:
            instant = replace(instant, completion_time=CompletionTime(format_instant(info.modified_ms, times)))
        files.append(instant)
    if not files:
        _check_elsewhere(storage, layout)
    return timeline_of(layout, files)


def _check_elsewhere(storage: Storage, layout: Layout) -> None:
    """Raises CorruptFileError where a timeline without instants is not the one that was written."""
    for folder, version in ((".hoodie", 1), (".hoodie/timeline", 2)):
        if folder == layout.folder:
            continue
        other = Layout(version, folder)
        found = next((info.name for info in storage.list(folder) if not info.is_dir and other.parse(info.name)), None)
        if found is not None:
            raise CorruptFileError(
                f"Cannot read the timeline {storage.uri}/{layout.folder}: it has no instant, but {folder} has {found}; "
                "correct hoodie.timeline.layout.version or hoodie.timeline.path in hoodie.properties"
            )


def _set(timeline: Timeline, name: str, value: object) -> None:
    object.__setattr__(timeline, name, value)
