"""Files that a clean keeps regardless of its policy: savepointed ones, and those that pending services read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.model.instant import Action
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.recovery_records import decode_savepoint
from hudi_py.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Guards:
    """What must stay."""

    savepoints: tuple[str, ...] = ()
    """Times of the savepoints, oldest first."""
    savepointed: frozenset[str] = frozenset()
    """Names of files; a slice of which one is named stays whole."""
    compacting: Mapping[FileGroup, str] = field(default_factory=dict)
    """File group of a pending compaction or log compaction to the base instant from which on its slices stay."""
    clustering: frozenset[tuple[str, str]] = frozenset()
    """Partition path and name of the files that pending clusterings read."""

    def needs(self, partition: str, file_id: str, base_instant: str) -> bool:
        """Whether a pending compaction or log compaction needs a slice."""
        since = self.compacting.get((partition, file_id))
        return since is not None and base_instant >= since


def load_guards(storage: Storage, timeline: Timeline) -> Guards:
    """Reads the savepoints and the pending plans of a timeline.

    Raises:
        CorruptFileError: one of them cannot be read, so nothing may be deleted.
    """
    savepoints = [instant for instant in timeline.completed if instant.action is Action.SAVEPOINT]
    names: set[str] = set()
    for savepoint in savepoints:
        path = timeline.layout.path(savepoint.file_name)
        found = decode_savepoint(storage.read(path), f"the savepoint {storage.uri}/{path}")
        for files in found.files.values():
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
        for slice_ in plans.clustering(instant) or ():
            clustering.update((slice_.partition_path, path.rpartition("/")[2]) for path in slice_.files)
    return Guards(tuple(instant.time for instant in savepoints), frozenset(names), compacting, frozenset(clustering))
