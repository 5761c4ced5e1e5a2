"""Builds the next snapshot of an Iceberg table from the difference between its files and those it should have, and
decides which snapshots expire, with the files that only they need.

A snapshot lists the files that it removed. Any of them that Hudi has deleted since were needed by the snapshots before
it. So snapshots expire only from the oldest on.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hudi_py.interop.iceberg.columns import Json
from hudi_py.interop.iceberg.index import Group, Index, Ranges, may_name, prefixes, ranges_of
from hudi_py.interop.iceberg.manifests import (
    DATA,
    EXISTING,
    REMOVED,
    ManifestEntry,
    manifest_entry,
    read_list,
    read_manifest,
    write_list,
    write_manifest,
)
from hudi_py.interop.iceberg.target import MetadataFiles
from hudi_py.storage.threads import when_remote

MANIFEST_FILES: Final = 500
"""Maximum number of files in a manifest: an update rewrites manifests with a file that it removes."""
_MAX_SMALL_MANIFESTS: Final = 20
"""Number of small manifests of one kind from which on they are merged."""
_TOTALS: Final = {
    "files": "total-data-files",
    "rows": "total-records",
    "delete_files": "total-delete-files",
    "deletes": "total-position-deletes",
    "size": "total-files-size",
}


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The known files of a snapshot."""

    manifests: tuple[Json, ...] = ()
    """All of them."""
    read: Mapping[str, tuple[ManifestEntry, ...]] = field(default_factory=dict)
    """Live entries of each manifest that was read, by its location, with path and counts only."""
    ranges: Mapping[str, Ranges] = field(default_factory=dict)
    """The ranges of each manifest, by location."""
    totals: SnapshotCounts = field(default_factory=lambda: SnapshotCounts())

    def entries(self) -> Iterator[ManifestEntry]:
        """Yields the known entries."""
        return (entry for entries in self.read.values() for entry in entries)


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot whose files are written."""

    snapshot: Json
    manifests: tuple[Json, ...]
    ranges: Mapping[str, Ranges]
    """The ranges of each of its manifests, by location."""
    removed: tuple[ManifestEntry, ...]
    """Files of the previous snapshot that it lacks."""


@dataclass(frozen=True, slots=True)
class Base:
    """The metadata on which a new snapshot is based."""

    files: MetadataFiles
    schema: Json
    specs: dict[int, Json]
    number: int
    """Its id."""
    sequence: int
    parent: int | None


def new_id() -> int:
    return secrets.randbits(62) + 1


def load_state(files: MetadataFiles, snapshot: Json | None) -> SnapshotFiles:
    """Reads all files of a snapshot. Raises CorruptFileError."""
    if snapshot is None:
        return SnapshotFiles()
    manifests = manifests_of(files, snapshot)
    read = _read_manifests(files, manifests)
    ranges = {path: ranges_of(files, (entry.path for entry in entries)) for path, entries in read.items()}
    totals = SnapshotCounts.of(entry for entries in read.values() for entry in entries)
    return SnapshotFiles(tuple(manifests), read, ranges, totals)


def load_groups(files: MetadataFiles, snapshot: Json, index: Index, groups: Iterable[Group]) -> SnapshotFiles:
    """Reads the files of some file groups, and what else the next snapshot needs. Reads only manifests that may name
    them. Raises CorruptFileError."""
    places = tuple(prefix for group in groups for prefix in prefixes(files, group))
    manifests = manifests_of(files, snapshot)
    ranges = {path: index.ranges[path] for path in _manifest_paths(manifests) if path in index.ranges}
    some = [manifest for manifest in manifests if _may_name_any(ranges.get(manifest["manifest_path"]), places)]
    read = _read_manifests(files, some)
    result = {
        path: tuple(entry for entry in entries if entry.path.startswith(places)) for path, entries in read.items()
    }
    for path, entries in read.items():
        ranges.setdefault(path, ranges_of(files, (entry.path for entry in entries)))
    return SnapshotFiles(tuple(manifests), result, ranges, SnapshotCounts.from_summary(snapshot["summary"]))


def _may_name_any(ranges: Ranges | None, places: Iterable[str]) -> bool:
    return any(may_name(ranges, place) for place in places)


def _manifest_paths(manifests: Iterable[Json]) -> list[str]:
    return [manifest["manifest_path"] for manifest in manifests]


def _read_manifests(files: MetadataFiles, manifests: Sequence[Json]) -> dict[str, tuple[ManifestEntry, ...]]:
    def read(manifest: Json) -> tuple[ManifestEntry, ...]:
        entries = read_manifest(files.read(manifest["manifest_path"]), manifest, whole=False)
        return tuple(entry for entry in entries if entry.status != REMOVED)

    return dict(zip(_manifest_paths(manifests), when_remote(files.storage, read, manifests), strict=True))


def manifests_of(files: MetadataFiles, snapshot: Json) -> list[Json]:
    return read_list(files.read(snapshot["manifest-list"]), snapshot["manifest-list"])


def removed_by(files: MetadataFiles, snapshot: Json) -> list[ManifestEntry]:
    """Returns the files that a snapshot removed: those that only its predecessor has."""
    number = snapshot["snapshot-id"]
    result = []
    for manifest in manifests_of(files, snapshot):
        if manifest["added_snapshot_id"] == number and manifest["deleted_files_count"]:
            entries = read_manifest(files.read(manifest["manifest_path"]), manifest, whole=False)
            result += [entry for entry in entries if entry.status == REMOVED]
    return result


def make_snapshot(
    base: Base,
    state: SnapshotFiles,
    added: Sequence[ManifestEntry],
    gone: Collection[str],
    facts: dict[str, str],
    timestamp_ms: int,
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
    ranges = {path: state.ranges[path] for path in _manifest_paths(kept) if path in state.ranges} | writing.ranges
    content = write_list(manifests, base.number, base.parent, base.sequence)
    location = base.files.write("snapshot", content)
    snapshot = {
        "snapshot-id": base.number,
        **({} if base.parent is None else {"parent-snapshot-id": base.parent}),
        "sequence-number": base.sequence,
        "timestamp-ms": timestamp_ms,
        "manifest-list": location,
        "summary": {**_snapshot_summary(SnapshotCounts.of(added), SnapshotCounts.of(removed), state.totals), **facts},
        "schema-id": base.schema["schema-id"],
    }
    return Made(snapshot, tuple(manifests), ranges, tuple(removed))


def _sorted_out(
    files: MetadataFiles, state: SnapshotFiles, gone: Collection[str]
) -> tuple[list[Json], list[ManifestEntry], list[ManifestEntry]]:
    """Returns manifests to keep, entries of others to rewrite, and entries of files to remove."""
    live = [manifest for manifest in state.manifests if _num_files(manifest)]
    small: dict[tuple[int, int], list[Json]] = defaultdict(list)
    for manifest in live:
        if _num_files(manifest) < MANIFEST_FILES // 2:
            small[manifest["content"], manifest["partition_spec_id"]].append(manifest)
    merged = {item["manifest_path"] for some in small.values() if len(some) > _MAX_SMALL_MANIFESTS for item in some}
    kept: list[Json] = []
    rewritten: list[ManifestEntry] = []
    removed: list[ManifestEntry] = []
    for manifest in live:
        entries = state.read.get(manifest["manifest_path"], ())
        if manifest["manifest_path"] not in merged and not any(entry.path in gone for entry in entries):
            kept.append(manifest)
            continue
        for entry in read_manifest(files.read(manifest["manifest_path"]), manifest, whole=True):
            if entry.status != REMOVED:
                (removed if entry.path in gone else rewritten).append(entry)
    return kept, rewritten, removed


def _num_files(manifest: Json) -> int:
    """Returns the number of live files in a manifest."""
    return int(manifest["added_files_count"]) + int(manifest["existing_files_count"])


class _Manifests:
    """Writes manifests, each with entries of one kind."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self.manifests: list[Json] = []
        self.ranges: dict[str, Ranges] = {}
        """The ranges of each manifest's live files."""

    def add(self, entries: Sequence[ManifestEntry]) -> None:
        kinds: dict[tuple[bool, int], list[ManifestEntry]] = defaultdict(list)
        for entry in entries:
            kinds[entry.content != DATA, entry.spec_id].append(entry)
        for (_, spec_id), some in sorted(kinds.items()):
            some.sort(key=lambda entry: entry.path)  # so that few manifests name files of one group
            for start in range(0, len(some), MANIFEST_FILES):
                self._write(some[start : start + MANIFEST_FILES], self._base.specs[spec_id])

    def _write(self, entries: Sequence[ManifestEntry], spec: Json) -> None:
        base = self._base
        data = write_manifest(entries, base.schema, spec)
        location = base.files.write("manifest", data)
        snapshot = (base.number, base.sequence)
        live = (entry.path for entry in entries if entry.status != REMOVED)
        self.ranges[location] = ranges_of(base.files, live)
        self.manifests.append(manifest_entry(location, len(data), entries, base.schema, spec, snapshot))


def _snapshot_summary(new: SnapshotCounts, old: SnapshotCounts, before: SnapshotCounts) -> dict[str, str]:
    """Builds the summary, with the names of Iceberg's specification, appendix F. `new` and `old` are the files added
    and removed."""
    all_of = before.plus(new).plus(old, -1)
    if old.files or old.delete_files or new.delete_files:
        operation = "overwrite" if new.files or new.delete_files else "delete"
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
    totals = {name: getattr(all_of, member) for member, name in _TOTALS.items()} | {"total-equality-deletes": 0}
    counted = {**{name: value for name, value in changes.items() if value}, **totals}
    return {"operation": operation, **{name: str(value) for name, value in counted.items()}}


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """Numbers of files and their contents."""

    files: int = 0
    rows: int = 0
    delete_files: int = 0
    deletes: int = 0
    size: int = 0

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> SnapshotCounts:
        """Returns the totals in a snapshot's summary."""
        return cls(**{member: int(summary[name]) for member, name in _TOTALS.items()})

    def plus(self, other: SnapshotCounts, times: int = 1) -> SnapshotCounts:
        """Returns the sum with a multiple of others."""
        return SnapshotCounts(*(getattr(self, name) + times * getattr(other, name) for name in _TOTALS))

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry]) -> SnapshotCounts:
        item = list(entries)
        data = [entry.file["record_count"] for entry in item if entry.content == DATA]
        deletes = [entry.file["record_count"] for entry in item if entry.content != DATA]
        size = sum(entry.file["file_size_in_bytes"] for entry in item)
        return cls(len(data), sum(data), len(deletes), sum(deletes), size)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Snapshots to expire."""

    snapshot_ids: tuple[int, ...] = ()
    locations: tuple[str, ...] = field(default=(), repr=False)
    """Metadata and side files that only they need."""


def expire(
    files: MetadataFiles, former: Sequence[Json], made: Made, *, most: int, may_be_gone: bool, all_former: bool
) -> Expiry:
    """Decides which snapshots expire once a new one exists.

    Args:
        former: the snapshots before it, oldest first.
        most: how many to keep, with the new one.
        may_be_gone: whether Hudi may have deleted files since the last time.
        all_former: whether no former snapshot can be read any more.
    """
    chain = [*former, made.snapshot]
    first = max(len(chain) - most, 0)
    if all_former:
        first = len(former)
    removed: list[list[ManifestEntry]] | None = None
    if may_be_gone and first < len(former):
        removed = _removed_files(files, chain, made)
        listed: dict[str, set[str]] = {}
        broken = (index for index in range(len(chain) - 1, first, -1) if _any_gone(files, removed[index], listed))
        first = next(broken, first)
    if first == 0:
        return Expiry()
    # files that a snapshot removed are not needed once all snapshots before it expire; those of the oldest were deleted
    # with these
    needless = removed[1 : first + 1] if removed is not None else _removed_files(files, chain[1 : first + 1], made)
    kept = made.manifests if first == len(former) else manifests_of(files, chain[first])
    still = {manifest["manifest_path"] for manifest in kept}
    lists = when_remote(files.storage, lambda item: manifests_of(files, item), chain[:first])
    manifests = {manifest["manifest_path"] for list_ in lists for manifest in list_} - still
    sides = {entry.path for item in needless for entry in item if files.is_side(entry.path)}
    snapshots = {snapshot["manifest-list"] for snapshot in chain[:first]}
    ids = tuple(snapshot["snapshot-id"] for snapshot in chain[:first])
    return Expiry(ids, tuple(sorted(manifests | sides | snapshots)))


def _removed_files(files: MetadataFiles, chain: Sequence[Json], made: Made) -> list[list[ManifestEntry]]:
    """Returns the files that each snapshot removed."""

    def of(snapshot: Json) -> list[ManifestEntry]:
        return list(made.removed) if snapshot is made.snapshot else removed_by(files, snapshot)

    return when_remote(files.storage, of, chain)


def _any_gone(files: MetadataFiles, removed: Sequence[ManifestEntry], listed: dict[str, set[str]]) -> bool:
    """Returns whether any of Hudi's files among these is missing. `listed` contains the known names by folder."""
    for entry in removed:
        if files.is_side(entry.path):
            continue
        folder, _, name = files.path(entry.path).rpartition("/")
        if folder not in listed:
            listed[folder] = set(files.storage.names(folder))
        if name not in listed[folder]:
            return True
    return False
