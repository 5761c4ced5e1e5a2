"""Files that a clean keeps regardless of its policy: those of savepoints, and those that pending services read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.model.instant import Action, Instant
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.plans import SavepointMetadata, decode_savepoint
from hudi_py.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Guards:
    """The files that a clean must keep."""

    savepoints: tuple[str, ...] = ()
    """Times of the savepoints, oldest first."""
    savepointed: frozenset[str] = frozenset()
    """File names of savepoints; a slice with one of them is kept as a whole."""
    compacting: Mapping[FileGroup, str] = field(default_factory=dict)
    """Maps each file group of a pending compaction or log compaction to the base instant of its first slice to keep."""
    clustering: frozenset[tuple[str, str]] = frozenset()
    """Partition path and name of the files that pending clusterings read."""

    def needs(self, partition: str, file_id: str, base_instant: str) -> bool:
        """Whether a pending compaction or log compaction needs a slice."""
        since = self.compacting.get((partition, file_id))
        return since is not None and base_instant >= since


def savepoints_of(timeline: Timeline) -> list[Instant]:
    """Completed savepoints, oldest commit first."""
    return [instant for instant in timeline.completed if instant.action is Action.SAVEPOINT]


def read_savepoint(storage: Storage, timeline: Timeline, savepoint: Instant) -> SavepointMetadata:
    """The content of a completed savepoint. Raises CorruptFileError."""
    path = timeline.layout.path(savepoint.file_name)
    return decode_savepoint(storage.read(path), f"the savepoint {storage.uri}/{path}")


def load_guards(storage: Storage, timeline: Timeline) -> Guards:
    """Reads the savepoints and the pending plans of a timeline.

    Raises:
        CorruptFileError: one of them cannot be read, so nothing may be deleted.
    """
    savepoints = savepoints_of(timeline)
    names: set[str] = set()
    for savepoint in savepoints:
        for files in read_savepoint(storage, timeline, savepoint).files.values():
            names.update(files)
    compacting: dict[FileGroup, str] = {}
    clustering: set[tuple[str, str]] = set()
    plans = PendingPlans(storage, timeline)
    for instant in plans.of(*COMPACTIONS):
        plan = plans.compaction(instant)
        for operation in plan.operations if plan is not None else ():
            group = (operation.partition_path, operation.file_id)
            compacting[group] = min(operation.base_instant, compacting.get(group, operation.base_instant))
    for instant in plans.clusterings:
        found = plans.clustering(instant)
        for slice_ in found.slices if found is not None else ():
            clustering.update((slice_.partition_path, name) for name in slice_.files)
    return Guards(tuple(instant.time for instant in savepoints), frozenset(names), compacting, frozenset(clustering))
