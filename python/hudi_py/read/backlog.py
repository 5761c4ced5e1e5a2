"""The commits that a stream has not delivered yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hudi_py.model.instant import Instant
from hudi_py.read.offsets import Axis
from hudi_py.timeline.commits import Commit, InstantRange, read_commits
from hudi_py.timeline.state import TableState

_FIRST_REACH = 64
"""Commits whose metadata is read at first where a batch takes only some."""


@dataclass(frozen=True, slots=True)
class Seen(TableState):
    """The table as it was loaded once."""

    axis: Axis

    def place(self, instant: Instant) -> str:
        """The time of a completed instant on the axis."""
        return instant.time if self.axis is Axis.REQUESTED else instant.completion_time or instant.time

    def places(self, begin: str, end: str) -> tuple[tuple[str, str], ...]:
        """(time on the axis, file name) of the active writes after `begin` up to `end`."""
        found = ((self.place(instant), instant.file_name) for instant in self.timeline.write_completed)
        return tuple(sorted((place, name) for place, name in found if begin < place <= end))


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
        """The commits after `begin` up to `end`, oldest first, including compactions and clusterings.

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
        """The oldest commits of a range until they are `enough`: a stream that lags far behind reads them in parts."""
        commits: list[Commit] = []
        read = self._read
        if read is not None and read.begin <= begin < read.end <= end:
            commits = self.between(seen, begin, read.end)
            if enough(commits):
                return commits
        for reach in _reaches(seen, begin, end):
            commits = self.between(seen, begin, reach)
            if enough(commits):
                break
        return commits


def _reaches(seen: Seen, begin: str, end: str) -> Iterator[str]:
    """Ends of ever larger parts of a range; the last is the end of the range itself."""
    places = [place for place, _ in seen.places(begin, end)]
    count = _FIRST_REACH
    while count < len(places):
        yield places[count]
        count *= 8
    yield end
