"""What writers and readers of several processes asked and were answered, and a proof that it is serialisable.

Writers are blind: each commit gives new values to some keys, and the values name it. So the commits one after the
other, in the order in which they completed, must give every answer: a snapshot is the state after some number of them,
an incremental query what those of a range have left, and both keep to real time. Whatever does not fit is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, permutations
from typing import Final

State = dict[int, str]
"""Key to value: the name of the commit that wrote it."""
_MAX_ORDERS: Final = 120


@dataclass(frozen=True)
class Commit:
    """A commit as the table has it, with what its writer knows of it."""

    name: str
    completed: str
    """Completion time; commits are ordered by it."""
    keys: frozenset[int]
    asked_ns: int = 0
    """When its writer asked for it, by a clock that all processes share and nobody sets."""
    answered_ns: int | None = None
    """When it was confirmed; None: never, its writer was killed."""


@dataclass(frozen=True)
class Answer:
    """The answer to a query."""

    who: str
    rows: Mapping[int, str]
    asked_ns: int
    answered_ns: int
    since: str | None = None
    """Of an incremental query: the completion time after which it begins. None: a snapshot."""
    until: str = ""
    """The completion time with which it ends."""


@dataclass
class History:
    """Commits in the order in which they completed, and answers."""

    first: State
    """The rows before the first commit; their values name none of them."""
    commits: Sequence[Commit]
    answers: Sequence[Answer] = ()
    confirmed: Sequence[str] = ()
    """Names of the commits that were confirmed to their writers."""
    states: list[State] = field(init=False)
    """After each number of commits."""

    def __post_init__(self) -> None:
        self._order(sorted(self.commits, key=lambda commit: commit.completed))
        for _, same in groupby(enumerate(self.commits), lambda each: each[1].completed):
            places, tied = zip(*same, strict=True)
            if len(tied) > 1:
                self._settle(places[0], tied)

    def _order(self, commits: Sequence[Commit]) -> None:
        self.commits = commits
        self.states = [dict(self.first)]
        for commit in commits:
            self.states.append(self.states[-1] | dict.fromkeys(commit.keys, commit.name))
        self._place = {commit.name: at for at, commit in enumerate(commits)}

    def _settle(self, start: int, tied: Sequence[Commit]) -> None:
        """Brings commits with the same completion time, which object stores keep in seconds for version 6, into the
        order with which most agrees."""
        before, after = self.commits[:start], self.commits[start + len(tied) :]
        fewest: int | None = None
        for order in islice(permutations(tied), _MAX_ORDERS):
            previous = self.commits
            self._order([*before, *order, *after])
            found = len(self._found())
            if fewest is None or found < fewest:
                fewest = found
            else:
                self._order(previous)
            if not fewest:
                break

    def check(self) -> None:
        """Raises AssertionError, which names all that is not serialisable."""
        found = self._found()
        assert not found, "\n".join(found)

    def _found(self) -> list[str]:
        found = [*self._counted(), *self._in_real_time()]
        for answer in self.answers:
            found += self._snapshot(answer) if answer.since is None else self._range(answer)
        return found

    def _counted(self) -> Iterator[str]:
        for name, times in Counter(commit.name for commit in self.commits).items():
            if times > 1:
                yield f"doubled: {name!r} is committed {times} times"
        for name, times in Counter(self.confirmed).items():
            if times > 1:
                yield f"doubled: {name!r} was confirmed {times} times"
            if name not in self._place:
                yield f"lost: {name!r} was confirmed and is not there"

    def _in_real_time(self) -> Iterator[str]:
        """A commit that was confirmed before another one was asked for comes before it."""
        latest: Commit | None = None  # the one asked for last, of those so far
        for commit in self.commits:
            if latest is not None and commit.answered_ns is not None and commit.answered_ns < latest.asked_ns:
                yield f"out of order: {commit.name!r} was confirmed before {latest.name!r} was asked for"
            if latest is None or commit.asked_ns > latest.asked_ns:
                latest = commit

    def _snapshot(self, answer: Answer) -> Iterator[str]:
        confirmed = [
            at + 1
            for at, commit in enumerate(self.commits)
            if commit.answered_ns is not None and commit.answered_ns < answer.asked_ns
        ]
        begun = [at + 1 for at, commit in enumerate(self.commits) if commit.asked_ns < answer.answered_ns]
        least, most = max(confirmed, default=0), max(begun, default=0)
        if any(self.states[number] == answer.rows for number in range(least, most + 1)):
            return
        unknown = {value for value in answer.rows.values() if value not in self._place} - {*self.first.values()}
        if unknown:
            yield f"{answer.who} saw {min(unknown)!r}, which is not committed"
            return
        seen = max((self._place[value] + 1 for value in answer.rows.values() if value in self._place), default=0)
        if seen < least:
            yield f"outdated: {answer.who} did not see {self.commits[least - 1].name!r}, confirmed before it asked"
        if seen > most:
            yield f"{answer.who} saw {self.commits[seen - 1].name!r}, which was asked for after its answer"
        yield from self._cycles(answer, seen)

    def _cycles(self, answer: Answer, seen: int) -> Iterator[str]:
        """Rows that are older than the newest commit in an answer tells: it comes both before and after another."""
        newest = self.commits[seen - 1].name if seen else "the first rows"
        for key in sorted({*answer.rows, *self.states[seen]}):
            found, expected = answer.rows.get(key), self.states[seen].get(key)
            if found != expected:
                yield (
                    f"cycle: {answer.who} saw {newest!r}, and of key {key} {found!r}, which {expected!r} had replaced "
                    "before it"
                )

    def _range(self, answer: Answer) -> Iterator[str]:
        assert answer.since is not None
        inside = [commit for commit in self.commits if answer.since < commit.completed <= answer.until]
        expected = {key: commit.name for commit in inside for key in commit.keys}
        for key in sorted({*expected, *answer.rows}):
            if answer.rows.get(key) != expected.get(key):
                yield (
                    f"{answer.who} asked for changes in ({answer.since}, {answer.until}] and saw of key {key} "
                    f"{answer.rows.get(key)!r}; expected is {expected.get(key)!r}"
                )
