"""Which snapshots of an Iceberg table to give up, and the files that nothing refers to afterwards.

A snapshot lists the files that it removed. Those that Hudi has deleted since were needed by the snapshots before it. So
snapshots are only given up from the oldest on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hudi_py.interop.iceberg.columns import Json
from hudi_py.interop.iceberg.files import MetadataFiles
from hudi_py.interop.iceberg.manifests import ManifestEntry
from hudi_py.interop.iceberg.snapshot import Made, manifests_of, removed_by
from hudi_py.storage.threads import when_remote


@dataclass(frozen=True, slots=True)
class Expiry:
    """Snapshots to give up."""

    snapshot_ids: tuple[int, ...] = ()
    locations: tuple[str, ...] = field(default=(), repr=False)
    """Metadata and side files that only they need."""


def expire(
    files: MetadataFiles, former: Sequence[Json], made: Made, *, most: int, may_be_gone: bool, all_former: bool
) -> Expiry:
    """What to give up once a snapshot is there.

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
        removed = _removed(files, chain, made)
        listed: dict[str, set[str]] = {}
        broken = (at for at in range(len(chain) - 1, first, -1) if _any_gone(files, removed[at], listed))
        first = next(broken, first)
    if first == 0:
        return Expiry()
    # what a snapshot removed is of no use once all before it are given up; that of the oldest was deleted with them
    needless = removed[1 : first + 1] if removed is not None else _removed(files, chain[1 : first + 1], made)
    kept = made.manifests if first == len(former) else manifests_of(files, chain[first])
    still = {manifest["manifest_path"] for manifest in kept}
    lists = when_remote(files.storage, lambda each: manifests_of(files, each), chain[:first])
    manifests = {manifest["manifest_path"] for each in lists for manifest in each} - still
    sides = {entry.path for each in needless for entry in each if files.is_side(entry.path)}
    snapshots = {snapshot["manifest-list"] for snapshot in chain[:first]}
    ids = tuple(snapshot["snapshot-id"] for snapshot in chain[:first])
    return Expiry(ids, tuple(sorted(manifests | sides | snapshots)))


def _removed(files: MetadataFiles, chain: Sequence[Json], made: Made) -> list[list[ManifestEntry]]:
    """The files that each snapshot removed."""

    def of(snapshot: Json) -> list[ManifestEntry]:
        return list(made.removed) if snapshot is made.snapshot else removed_by(files, snapshot)

    return when_remote(files.storage, of, chain)


def _any_gone(files: MetadataFiles, removed: Sequence[ManifestEntry], listed: dict[str, set[str]]) -> bool:
    """Whether one of Hudi's files among these does not exist. `listed`: names by folder, as far as known."""
    for entry in removed:
        if files.is_side(entry.path):
            continue
        folder, _, name = files.path(entry.path).rpartition("/")
        if folder not in listed:
            listed[folder] = set(files.storage.names(folder))
        if name not in listed[folder]:
            return True
    return False
