"""Tracks the position of a stream: offsets, as checkpoints store them, limits on one batch, and the commits that are
not delivered yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from hudi_py.errors import ConfigError
from hudi_py.model.instant import Instant
from hudi_py.timeline.commits import Commit, InstantRange, read_commits
from hudi_py.timeline.state import TableState

FROM_THE_BEGINNING = "000"
"""A time before every instant."""
_KEYS = frozenset({"axis", "time", "start", "since"})
_FIRST_REACH = 64
"""Number of commits whose metadata is read first if a batch takes only some."""


class Axis(str, Enum):
    """The kind of time in an offset, which decides the order of commits."""

    COMPLETION = "completion"
    """Completion times: since table version 8, and with `USE_TRANSITION_TIME`."""
    REQUESTED = "requested"
    """Requested times, before version 8."""


class Start(str, Enum):
    """Where a stream without a checkpoint begins."""

    SNAPSHOT = "snapshot"
    """With all rows of the table."""
    EARLIEST = "earliest"
    """With the first commit that can still be read."""
    LATEST = "latest"
    """With the first commit after the start."""
    INSTANT = "instant"
    """With the first commit after a given time."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A stream has delivered everything up to and including `time`. Holds no paths and no credentials."""

    time: str
    """Empty before the first snapshot."""
    axis: Axis
    start: Start | None = None
    """Set in the offset at which a stream begins; None in those at which batches end."""
    since: str | None = None
    """In the end offset of the first batch: where that batch begins (exclusive).

    An engine that repeats the first batch asks for the initial offset again, when `latest` is another instant.
    """

    def to_json(self) -> dict[str, str]:
        """Encodes a flat dict of strings, identical for equal offsets, including the order of keys."""
        values = {"axis": self.axis.value, "time": self.time}
        if self.start is not None:
            values["start"] = self.start.value
        if self.since is not None:
            values["since"] = self.since
        return values

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Decodes the result of `to_json`.

        Raises:
            ConfigError: the value is the offset of another source or of a newer release.
        """
        try:
            unknown = sorted(set(value) - _KEYS)
            if unknown or not all(isinstance(text, str) for text in value.values()):
                raise ValueError(f"unexpected members {', '.join(unknown) or 'of another type than text'}")
            start = value.get("start")
            return cls(value["time"], Axis(value["axis"]), None if start is None else Start(start), value.get("since"))
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"Cannot continue from the offset {dict(value)!r}: it is not an offset of this release of hudi-py "
                f"({error}); expected are axis and time; start the query with a new checkpoint"
            ) from None


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits on one batch; None means no limit. A batch has at least one commit, so that the stream advances."""

    commits: int | None = None
    bytes: int | None = None
    """Maximum number of bytes that the commits wrote."""
    rows: int | None = None
    """Maximum number of rows that the commits wrote, including unchanged rows of rewritten files."""

    def admit(self, commits: Sequence[Weight]) -> int:
        """Returns how many of the commits, oldest first, fit into one batch."""
        taken_bytes = taken_rows = 0
        for count, weight in enumerate(commits):
            taken_bytes += weight.bytes
            taken_rows += weight.rows
            if count and (
                (self.commits is not None and count >= self.commits)
                or (self.bytes is not None and taken_bytes > self.bytes)
                or (self.rows is not None and taken_rows > self.rows)
            ):
                return count
        return len(commits)


class Weight(NamedTuple):
    """A commit's share of the limits."""

    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Seen(TableState):
    """The table as loaded once."""

    axis: Axis

    def place(self, instant: Instant) -> str:
        """Returns the time of a completed instant on the axis."""
        return instant.time if self.axis is Axis.REQUESTED else instant.completion_time or instant.time

    def places(self, begin: str, end: str) -> tuple[tuple[str, str], ...]:
        """Returns (time on the axis, file name) of the active writes after `begin` up to `end`."""
        result = ((self.place(instant), instant.file_name) for instant in self.timeline.write_completed)
        return tuple(sorted((place, name) for place, name in result if begin < place <= end))


@dataclass(frozen=True, slots=True)
class _Read:
    axis: Axis
    begin: str
    end: str
    places: tuple[tuple[str, str], ...]
    """`Seen.places` of the range when it was read."""
    commits: list[Commit]


class Backlog:
    """Reads commit metadata and caches the last range, since a stream asks for parts of it again."""

    def __init__(self) -> None:
        self._read: _Read | None = None

    def between(self, seen: Seen, begin: str, end: str) -> list[Commit]:
        """Returns the commits after `begin` up to `end`, oldest first, including compactions and clusterings.

        Raises:
            CorruptFileError: an instant's metadata or the archive cannot be read.
        """
        read = self._read
        if read is None or read.axis is not seen.axis or not (read.begin <= begin and end <= read.end):
            read = None
        elif tuple(p for p in read.places if begin < p[0] <= end) != seen.places(begin, end):
            read = None  # something was archived, rolled back or restored
        if read is None:
            commits = read_commits(
                seen,
                InstantRange(begin, end),
                skip_compaction=False,  # they add no rows, but move rows of other commits between files
                skip_clustering=False,
                transition_times=seen.axis is Axis.COMPLETION,
            )
            self._read = read = _Read(seen.axis, begin, end, seen.places(begin, end), commits)
        return [commit for commit in read.commits if begin < commit.completion_time <= end]

    def ahead(self, seen: Seen, begin: str, end: str, enough: Callable[[Sequence[Commit]], bool]) -> list[Commit]:
        """Returns at least the oldest `enough` commits of a range: a stream that lags far behind reads it in parts."""
        commits: list[Commit] = []
        read = self._read
        if read is not None and read.begin <= begin < read.end <= end:
            commits = self.between(seen, begin, read.end)
            if enough(commits):
                return commits
        for reach in _growing_ends(seen, begin, end):
            commits = self.between(seen, begin, reach)
            if enough(commits):
                break
        return commits


def _growing_ends(seen: Seen, begin: str, end: str) -> Iterator[str]:
    """Yields ends of ever larger parts of a range; the last is the end of the range itself."""
    places = [place for place, _ in seen.places(begin, end)]
    count = _FIRST_REACH
    while count < len(places):
        yield places[count]
        count *= 8
    yield end
