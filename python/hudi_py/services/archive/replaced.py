"""Finds the replacecommits that may be archived: once one is, the file groups that it replaced count again.

Apache Hudi relies on what the last clean retained (`ClusteringUtils.getEarliestInstantToRetainForClustering`, 1.2.0).
But a clean of chosen partitions, a savepoint, a write that was pending then, or a file that could not be deleted leaves
replaced files behind, whose rows would reappear. And if no file ever becomes superfluous, there is no clean, and
nothing would be archived. hudi-py looks for the files themselves instead.
"""

from __future__ import annotations

from hudi_py.model.instant import Action, Instant
from hudi_py.services.clean.slices import split_base_name, split_log_name
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState


def first_replaced(state: TableState) -> str | None:
    """Requested time of the first completed replacecommit whose replaced files may still exist.

    While a clean is pending, this is the first replacecommit: the metadata table does not yet record what the clean
    deleted.

    Raises:
        CorruptFileError: a replacecommit cannot be read.
    """
    replacing = [instant for instant in state.timeline.write_completed if instant.action is Action.REPLACE_COMMIT]
    cleaning = any(instant.action is Action.CLEAN for instant in state.timeline.pending)
    there: dict[str, frozenset[str]] = {}

    def holds(instant: Instant) -> bool:
        for partition, file_ids in read_commit_metadata(state.storage, state.timeline.layout, instant).replaced.items():
            if partition not in there:
                there[partition] = _file_ids(state.storage, partition)
            if not there[partition].isdisjoint(file_ids):
                return True
        return False

    return next((instant.time for instant in replacing if cleaning or holds(instant)), None)


def _file_ids(storage: Storage, partition: str) -> frozenset[str]:
    """File groups that have a base, log or change data file in a partition, whoever wrote it."""
    names = (info.name for info in storage.list(partition))
    parts = (split_log_name(name) if name[:1] == "." else split_base_name(name) for name in names)
    return frozenset(found[0] for found in parts if found is not None)
