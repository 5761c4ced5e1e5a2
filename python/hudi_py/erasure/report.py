"""Plans and reports of erasures, without the keys they found, so that they can be archived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hudi_py.model.words import Spoken, counted

_NAMED: Final = 20
_OUTSIDE: Final = "Not part of the table, and not changed: files that it was bootstrapped from"
_DERIVED: Final = {"index": "indexes", "Iceberg": "Iceberg's metadata"}
"""Kinds of files that are derived from data files."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A file that contains something of the rows."""

    path: str
    """Relative to the table."""
    kind: str
    """`base file`, `log`, `change log`, `index`, `Iceberg` or `other`."""
    count: int
    """Number of row versions, deletes, index entries, or texts."""
    note: str = ""
    """What the file is, or why it still exists."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of reading every file of a table."""

    traces: tuple[Trace, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Files, or parts of them, that could not be read, with the reason."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Number of files read, by kind."""

    @property
    def num_files(self) -> int:
        return sum(self.files.values())


@dataclass(frozen=True, slots=True, repr=False)
class ErasurePlan(Spoken):
    """What an erasure would do now. A plan changes nothing."""

    uri: str
    asked: str
    """The filter, or the number of keys."""
    num_rows: int
    """Rows of the newest state that would be deleted."""
    num_versions: int
    """Row versions and deletes in all data files: those that would be deleted, and older ones."""
    rewritten: tuple[str, ...] = ()
    """Data files of the newest state that contain the rows; their other rows are written to new files."""
    removed: tuple[str, ...] = ()
    """Data files of older versions that contain the rows."""
    indexes: tuple[str, ...] = ()
    """Partitions of the metadata table that would be rebuilt."""
    published: bool = False
    """Whether the Iceberg metadata of the table would be republished."""
    savepoints: tuple[str, ...] = ()
    """Savepoints that keep files with the rows. They prevent the erasure unless they may be deleted."""
    in_the_way: tuple[str, ...] = ()
    """Other obstacles that must be removed first."""
    outside: tuple[str, ...] = ()
    """URIs of files that the table was bootstrapped from. They may contain the rows, and stay."""
    searched: Searched = field(default_factory=Searched)

    @property
    def needed(self) -> bool:
        """Returns whether there is anything to erase."""
        return bool(self.num_rows or self.searched.traces)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return asdict(self)

    def _text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        files = counted(self.searched.num_files, "file")
        if not self.needed:
            yield f"nothing to erase: {self.asked}: none of {files} has anything of such rows"
        else:
            yield (
                f"to erase: {self.asked}: {counted(self.num_rows, 'row')} of the newest state, "
                f"{counted(self.num_versions, 'version')} in {counted(len(self._data), 'data file')} ({files} read)"
            )
        yield from _listed_lines("Would be written again without the rows", self.rewritten)
        yield from _listed_lines("Would be removed", self.removed)
        if self.indexes:
            yield f"Would be built anew: {', '.join(self.indexes)}"
        if self.published:
            yield "Would be published anew, without earlier snapshots: the Iceberg metadata"
        yield from _listed_lines("Savepoints that keep such files", self.savepoints)
        yield from _listed_lines("In the way", self.in_the_way)
        yield from _listed_lines(_OUTSIDE, self.outside)
        yield from _listed_lines("Not read", [f"{path}: {why}" for path, why in self.searched.unread.items()])

    @property
    def _data(self) -> set[str]:
        return {*self.rewritten, *self.removed}


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """One step of an erasure."""

    what: str
    """`delete`, `compaction`, `savepoint`, `clean`, `indexes`, `iceberg`."""
    instant: str | None
    """Requested time of the action, if it has one."""
    sentence: str


@dataclass(frozen=True, slots=True, repr=False)
class ErasureReport(Spoken):
    """What an erasure did, and what is left of the rows. It can be archived: it contains no keys, and of values only
    those in the given filter."""

    uri: str
    table: str
    asked: str
    """The filter, or the number of keys."""
    reference: str
    """A reference given by the caller, such as the number of a request."""
    began: str
    """UTC, ISO 8601."""
    ended: str
    program: str
    """Name and version of the program."""
    steps: tuple[ErasureStep, ...] = ()
    before: Searched = field(default_factory=Searched)
    """Files that contained something of the rows before."""
    after: Searched = field(default_factory=Searched)
    """Files that still do, after every file was read again."""
    removed: tuple[str, ...] = ()
    """Files of `before` that no longer exist."""
    outside: tuple[str, ...] = ()
    """URIs of files that the table was bootstrapped from. They may contain the rows; hudi-py never changes them."""

    @property
    def complete(self) -> bool:
        """Returns whether every file of the table could be read again, and nothing of the rows was found."""
        return not self.after.traces and not self.after.unread

    @property
    def left(self) -> tuple[Trace, ...]:
        """Returns what is left of the rows."""
        return self.after.traces

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {**asdict(self), "complete": self.complete}

    def _text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        state = "complete" if self.complete else "not complete"
        if not self.steps:
            state += ", nothing was to be erased"
        yield f"erasure of {self.asked}: {state}"
        if self.reference:
            yield f"Reference: {self.reference}"
        yield f"{self.table} at {self.uri}"
        yield f"{self.began} to {self.ended}, {self.program}"
        for number, step in enumerate(self.steps, 1):
            yield f"{number}. {step.sentence}"
        yield from _found_files(self.before)
        if self.before.traces:
            gone = len(self.before.traces) - len(self.removed)
            yield "Gone since: all of them" if not gone else f"Gone since: {len(self.removed):,}, all but {gone:,}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.after.files.items()))
        yield f"Read again: {counted(self.after.num_files, 'file')} ({kinds})"
        yield from _listed_lines("Left", list(map(_trace_text, self.left)))
        yield from _listed_lines("Not read", [f"{path}: {why}" for path, why in self.after.unread.items()])
        yield from _listed_lines(_OUTSIDE, self.outside)
        if self.complete:
            yield "Nothing of the rows was found."


def _found_files(searched: Searched) -> Iterator[str]:
    """Yields the files that contained something, summarised if they derive from others."""
    own = [trace for trace in searched.traces if trace.kind not in _DERIVED]
    yield from _listed_lines("Found in", list(map(_trace_text, own)))
    for kind in _DERIVED:
        some = [trace for trace in searched.traces if trace.kind == kind]
        if some:
            times = sum(trace.count for trace in some)
            yield f"Found in {counted(len(some), 'file')} of {_DERIVED[kind]}, {counted(times, 'time')}"


def _trace_text(trace: Trace) -> str:
    note = f" ({trace.note})" if trace.note else ""
    return f"{trace.path}: {trace.kind}, {trace.count:,}{note}"


def _listed_lines(title: str, items: Sequence[str]) -> Iterator[str]:
    if not items:
        return
    yield f"{title}: {len(items):,}"
    yield from (f"  {item}" for item in items[:_NAMED])
    if len(items) > _NAMED:
        yield f"  and {len(items) - _NAMED:,} more; as JSON all are listed"
