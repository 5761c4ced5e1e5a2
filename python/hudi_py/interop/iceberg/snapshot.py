"""Makes the next snapshot of an Iceberg table from the difference between its files and those that it should have."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hudi_py.interop.iceberg.columns import Json
from hudi_py.interop.iceberg.files import MetadataFiles
from hudi_py.interop.iceberg.manifests import (
    DATA,
    EXISTING,
    REMOVED,
    Entry,
    manifest_entry,
    read_list,
    read_manifest,
    write_list,
    write_manifest,
)
from hudi_py.storage.threads import when_remote

MANIFEST_FILES: Final = 5_000
"""Files of a manifest at most: an update rewrites those with a file that it removes."""
_FEW: Final = 20
"""So many manifests of one kind are merged, if they are small."""


@dataclass(frozen=True, slots=True)
class State:
    """The files of a snapshot."""

    manifests: tuple[tuple[Json, tuple[Entry, ...]], ...] = ()
    """Each manifest with its live entries, which have those members of files that identify and count them."""

    def entries(self) -> Iterator[Entry]:
        return (entry for _, entries in self.manifests for entry in entries)


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot whose files are written."""

    snapshot: Json
    manifests: tuple[Json, ...]
    removed: tuple[Entry, ...]
    """Files of the one before that it lacks."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a snapshot builds on."""

    files: MetadataFiles
    schema: Json
    specs: dict[int, Json]
    number: int
    """Its id."""
    sequence: int
    parent: int | None


def new_id() -> int:
    return secrets.randbits(62) + 1


def load_state(files: MetadataFiles, snapshot: Json | None) -> State:
    """The files of a snapshot. Raises CorruptFileError, FileNotFoundError."""
    if snapshot is None:
        return State()

    def read(manifest: Json) -> tuple[Entry, ...]:
        found = read_manifest(files.read(manifest["manifest_path"]), manifest, whole=False)
        return tuple(entry for entry in found if entry.status != REMOVED)

    manifests = manifests_of(files, snapshot)
    return State(tuple(zip(manifests, when_remote(files.storage, read, manifests), strict=True)))


def manifests_of(files: MetadataFiles, snapshot: Json) -> list[Json]:
    return read_list(files.read(snapshot["manifest-list"]), snapshot["manifest-list"])


def removed_by(files: MetadataFiles, snapshot: Json) -> list[Entry]:
    """The files that a snapshot removed: of those before it, and not of it."""
    number = snapshot["snapshot-id"]
    found = []
    for manifest in manifests_of(files, snapshot):
        if manifest["added_snapshot_id"] == number and manifest["deleted_files_count"]:
            entries = read_manifest(files.read(manifest["manifest_path"]), manifest, whole=False)
            found += [entry for entry in entries if entry.status == REMOVED]
    return found


def make_snapshot(
    base: Base, state: State, added: Sequence[Entry], gone: Collection[str], facts: dict[str, str], timestamp_ms: int
) -> Made:
    """Writes the manifests of a snapshot.

    Args:
        added: new files.
        gone: locations of the files to remove.
        facts: further members of its summary.
    """
    writing = _Manifests(base)
    kept, rewritten, removed = _sorted_out(base.files, state, gone)
    writing.add(added)
    writing.add([entry.as_status(EXISTING) for entry in rewritten])
    writing.add([entry.as_status(REMOVED, base.number) for entry in removed])
    manifests = [*writing.manifests, *kept]
    content = write_list(manifests, base.number, base.parent, base.sequence)
    location = base.files.write("snapshot", content)
    before = [entry for entry in state.entries() if entry.path not in gone]
    snapshot = {
        "snapshot-id": base.number,
        **({} if base.parent is None else {"parent-snapshot-id": base.parent}),
        "sequence-number": base.sequence,
        "timestamp-ms": timestamp_ms,
        "manifest-list": location,
        "summary": {**_summary(added, removed, before), **facts},
        "schema-id": base.schema["schema-id"],
    }
    return Made(snapshot, tuple(manifests), tuple(removed))


def _sorted_out(
    files: MetadataFiles, state: State, gone: Collection[str]
) -> tuple[list[Json], list[Entry], list[Entry]]:
    """Manifests to keep as they are, entries of others to write again, and entries of files to remove."""
    live = [(manifest, entries) for manifest, entries in state.manifests if entries]
    small: dict[tuple[int, int], list[Json]] = defaultdict(list)
    for manifest, entries in live:
        if len(entries) < MANIFEST_FILES // 2:
            small[manifest["content"], manifest["partition_spec_id"]].append(manifest)
    merged = {each["manifest_path"] for some in small.values() if len(some) > _FEW for each in some}
    kept: list[Json] = []
    rewritten: list[Entry] = []
    removed: list[Entry] = []
    for manifest, entries in live:
        if manifest["manifest_path"] not in merged and not any(entry.path in gone for entry in entries):
            kept.append(manifest)
            continue
        for entry in read_manifest(files.read(manifest["manifest_path"]), manifest, whole=True):
            if entry.status != REMOVED:
                (removed if entry.path in gone else rewritten).append(entry)
    return kept, rewritten, removed


class _Manifests:
    """Writes manifests of entries of one kind each."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self.manifests: list[Json] = []

    def add(self, entries: Sequence[Entry]) -> None:
        kinds: dict[tuple[bool, int], list[Entry]] = defaultdict(list)
        for entry in entries:
            kinds[entry.content != DATA, entry.spec_id].append(entry)
        for (_, spec_id), some in sorted(kinds.items()):
            for start in range(0, len(some), MANIFEST_FILES):
                self._write(some[start : start + MANIFEST_FILES], self._base.specs[spec_id])

    def _write(self, entries: Sequence[Entry], spec: Json) -> None:
        base = self._base
        data = write_manifest(entries, base.schema, spec)
        location = base.files.write("manifest", data)
        snapshot = (base.number, base.sequence)
        self.manifests.append(manifest_entry(location, len(data), entries, base.schema, spec, snapshot))


def _summary(added: Sequence[Entry], removed: Sequence[Entry], kept: Sequence[Entry]) -> dict[str, str]:
    """Names of Iceberg's specification, appendix F."""
    new, old, all_of = _Counts.of(added), _Counts.of(removed), _Counts.of([*kept, *added])
    if removed or new.delete_files:
        operation = "overwrite" if added else "delete"
    else:
        operation = "append"
    changes = {
        "added-data-files": new.files,
        "deleted-data-files": old.files,
        "added-records": new.rows,
        "deleted-records": old.rows,
        "added-delete-files": new.delete_files,
        "added-position-delete-files": new.delete_files,
        "removed-delete-files": old.delete_files,
        "removed-position-delete-files": old.delete_files,
        "added-position-deletes": new.deletes,
        "removed-position-deletes": old.deletes,
        "added-files-size": new.size,
        "removed-files-size": old.size,
    }
    totals = {
        "total-data-files": all_of.files,
        "total-delete-files": all_of.delete_files,
        "total-records": all_of.rows,
        "total-files-size": all_of.size,
        "total-position-deletes": all_of.deletes,
        "total-equality-deletes": 0,
    }
    counted = {**{name: value for name, value in changes.items() if value}, **totals}
    return {"operation": operation, **{name: str(value) for name, value in counted.items()}}


@dataclass(frozen=True, slots=True)
class _Counts:
    files: int
    rows: int
    delete_files: int
    deletes: int
    size: int

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> _Counts:
        each = list(entries)
        data = [entry.file["record_count"] for entry in each if entry.content == DATA]
        deletes = [entry.file["record_count"] for entry in each if entry.content != DATA]
        size = sum(entry.file["file_size_in_bytes"] for entry in each)
        return cls(len(data), sum(data), len(deletes), sum(deletes), size)
