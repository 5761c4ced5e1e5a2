"""What an erasure would do, and what it did: values to file, without the keys that it found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hudi_py.model.words import Spoken, counted

_NAMED: Final = 20
_OUTSIDE: Final = "Not part of the table, and not changed: files that it was bootstrapped from"
_DERIVED: Final = {"index": "indexes", "Iceberg": "Iceberg's metadata"}
"""Kinds of files that are made of data files."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A file with something of the rows."""

    path: str
    """Relative to the table."""
    kind: str
    """`base file`, `log`, `change log`, `index`, `Iceberg` or `other`."""
    count: int
    """Versions of rows, deletes of them, index entries, or texts."""
    note: str = ""
    """What it is, or why it is still there."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The outcome of reading every file of a table."""

    traces: tuple[Trace, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Path to reason of files, or parts of them, that could not be read."""
    files: Mapping[str, int] = field(default_factory=dict)
    """The number of files that were read, by kind."""

    @property
    def num_files(self) -> int:
        return sum(self.files.values())


@dataclass(frozen=True, slots=True, repr=False)
class ErasurePlan(Spoken):
    """What an erasure would do now. Nothing is changed until then."""

    uri: str
    asked: str
    """The filter or the number of keys that were given."""
    num_rows: int
    """Rows of the newest state that would be deleted."""
    num_versions: int
    """Versions of rows, and deletes of them, in all data files: those that would be deleted, and older ones."""
    rewritten: tuple[str, ...] = ()
    """Data files with the rows that are part of the newest state: their other rows are written to new files."""
    removed: tuple[str, ...] = ()
    """Data files of older versions with the rows."""
    indexes: tuple[str, ...] = ()
    """Partitions of the metadata table that would be built anew."""
    published: bool = False
    """Whether the Iceberg metadata of the table would be made anew."""
    savepoints: tuple[str, ...] = ()
    """Savepoints that keep files with the rows. They are in the way unless they may be deleted."""
    in_the_way: tuple[str, ...] = ()
    """What else has to be done first."""
    outside: tuple[str, ...] = ()
    """URIs of files that the table was bootstrapped from, which may have the rows and stay."""
    searched: Searched = field(default_factory=Searched)

    @property
    def needed(self) -> bool:
        """Whether there is anything to erase."""
        return bool(self.num_rows or self.searched.traces)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
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
        yield from _listed("Would be written again without the rows", self.rewritten)
        yield from _listed("Would be removed", self.removed)
        if self.indexes:
            yield f"Would be built anew: {', '.join(self.indexes)}"
        if self.published:
            yield "Would be published anew, without earlier snapshots: the Iceberg metadata"
        yield from _listed("Savepoints that keep such files", self.savepoints)
        yield from _listed("In the way", self.in_the_way)
        yield from _listed(_OUTSIDE, self.outside)
        yield from _listed("Not read", [f"{path}: {why}" for path, why in self.searched.unread.items()])

    @property
    def _data(self) -> set[str]:
        return {*self.rewritten, *self.removed}


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """One thing that an erasure did."""

    what: str
    """`delete`, `compaction`, `savepoint`, `clean`, `indexes`, `iceberg`."""
    instant: str | None
    """Requested time of the action; None if it has none."""
    sentence: str


@dataclass(frozen=True, slots=True, repr=False)
class ErasureReport(Spoken):
    """What an erasure did, and what is left of the rows. It can be filed: it holds no keys, and of values only those
    of the filter, as it was given."""

    uri: str
    table: str
    asked: str
    """The filter or the number of keys that were given."""
    reference: str
    """As given, such as the number of a request."""
    began: str
    """UTC, ISO 8601."""
    ended: str
    program: str
    """What erased, with its version."""
    steps: tuple[ErasureStep, ...] = ()
    before: Searched = field(default_factory=Searched)
    """What had something of the rows before."""
    after: Searched = field(default_factory=Searched)
    """What still has, after every file was read again."""
    removed: tuple[str, ...] = ()
    """Files of `before` that are gone."""
    outside: tuple[str, ...] = ()
    """URIs of files that the table was bootstrapped from, which may have the rows: hudi-py never changes them."""

    @property
    def complete(self) -> bool:
        """Whether every file of the table could be read again, and nothing of the rows was found."""
        return not self.after.traces and not self.after.unread

    @property
    def left(self) -> tuple[Trace, ...]:
        """What is left of the rows."""
        return self.after.traces

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
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
        yield from _found(self.before)
        if self.before.traces:
            gone = len(self.before.traces) - len(self.removed)
            yield "Gone since: all of them" if not gone else f"Gone since: {len(self.removed):,}, all but {gone:,}"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.after.files.items()))
        yield f"Read again: {counted(self.after.num_files, 'file')} ({kinds})"
        yield from _listed("Left", list(map(_shown, self.left)))
        yield from _listed("Not read", [f"{path}: {why}" for path, why in self.after.unread.items()])
        yield from _listed(_OUTSIDE, self.outside)
        if self.complete:
            yield "Nothing of the rows was found."


def _found(searched: Searched) -> Iterator[str]:
    """The files that had something, in short where they follow from others."""
    own = [trace for trace in searched.traces if trace.kind not in _DERIVED]
    yield from _listed("Found in", list(map(_shown, own)))
    for kind in _DERIVED:
        some = [trace for trace in searched.traces if trace.kind == kind]
        if some:
            times = sum(trace.count for trace in some)
            yield f"Found in {counted(len(some), 'file')} of {_DERIVED[kind]}, {counted(times, 'time')}"


def _shown(trace: Trace) -> str:
    note = f" ({trace.note})" if trace.note else ""
    return f"{trace.path}: {trace.kind}, {trace.count:,}{note}"


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    if not items:
        return
    yield f"{title}: {len(items):,}"
    yield from (f"  {item}" for item in items[:_NAMED])
    if len(items) > _NAMED:
        yield f"  and {len(items) - _NAMED:,} more; as JSON all are listed"
