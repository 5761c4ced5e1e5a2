"""What the pending instants of a timeline are to do.

The one place which knows that version 6 names a clustering like any other replacecommit, where plans lie, and that a
plan which is not there was taken back, or completed, since the timeline was listed.
"""

from __future__ import annotations

from functools import cached_property

from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.storage import Storage
from hudi_py.timeline.clean_records import CleanPlan, decode_clean_plan
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.plans import (
    ClusteringSlice,
    CompactionPlan,
    FileGroup,
    RollbackPlan,
    decode_clustering_plan,
    decode_compaction_plan,
    decode_rollback_plan,
)
from hudi_py.timeline.recovery_records import RestorePlan, decode_restore_plan
from hudi_py.timeline.timeline import Timeline

COMPACTIONS = (Action.COMPACTION, Action.LOG_COMPACTION)


def read_plan(storage: Storage, layout: Layout, time: str, action: Action) -> tuple[bytes, str]:
    """The bytes of a plan, empty where there is none or its writer died before it was there; and its name for errors.

    Those of completed compactions are there as long as their requested files.
    """
    for path in layout.plan_paths(time, action):
        try:
            return storage.read(path), f"the plan {storage.uri}/{path}"
        except FileNotFoundError:
            continue
    return b"", ""


def compaction_plan(storage: Storage, layout: Layout, time: str, action: Action) -> CompactionPlan | None:
    """The plan of a compaction or log compaction, pending or completed; None where it is not there.

    Raises:
        CorruptFileError: it cannot be read.
    """
    data, context = read_plan(storage, layout, time, action)
    return decode_compaction_plan(data, context) if data else None


class PendingPlans:
    """The plans of a timeline's pending instants. Each is read once for a timeline, when it is asked for.

    Raises (all methods):
        CorruptFileError: a plan cannot be read.
    """

    def __init__(self, storage: Storage, timeline: Timeline) -> None:
        self._storage = storage
        self._timeline = timeline

    def of(self, *actions: Action) -> list[Instant]:
        """Pending instants of these actions, oldest first."""
        return [instant for instant in self._timeline.pending if instant.action in actions]

    @cached_property
    def clusterings(self) -> list[Instant]:
        """Pending clusterings, oldest first."""
        return [instant for instant in self._timeline.pending if self.is_clustering(instant)]

    @cached_property
    def writes(self) -> list[Instant]:
        """Writes (not table services) that were begun and not completed, oldest first."""
        return [
            instant
            for instant in self._timeline.pending
            if instant.action in WRITE_ACTIONS and not self.is_clustering(instant)
        ]

    def is_clustering(self, instant: Instant) -> bool:
        return instant.action is Action.CLUSTERING or self.clustering(instant) is not None

    def clustering(self, instant: Instant) -> tuple[ClusteringSlice, ...] | None:
        """The file slices that a clustering replaces; None where the instant is none, or its plan is not there."""
        if instant.action not in (Action.CLUSTERING, Action.REPLACE_COMMIT):
            return None
        return decode_clustering_plan(*self._content(instant))

    def compaction(self, instant: Instant) -> CompactionPlan | None:
        """The plan of a compaction or log compaction; None where it is not there."""
        data, context = self._content(instant)
        return decode_compaction_plan(data, context) if data else None

    def clean(self, instant: Instant) -> CleanPlan | None:
        data, context = self._content(instant)
        return decode_clean_plan(data, context) if data else None

    def rollback(self, instant: Instant) -> RollbackPlan | None:
        data, context = self._content(instant)
        return decode_rollback_plan(data, context) if data else None

    def restore(self, instant: Instant) -> RestorePlan | None:
        data, context = self._content(instant)
        return decode_restore_plan(data, context) if data else None

    def file_groups(self, instant: Instant) -> frozenset[FileGroup]:
        """The file groups that a compaction, log compaction or clustering is to rewrite; of other instants none."""
        if instant.action in COMPACTIONS:
            plan = self.compaction(instant)
            return frozenset((each.partition_path, each.file_id) for each in plan.operations) if plan else frozenset()
        return frozenset((each.partition_path, each.file_id) for each in self.clustering(instant) or ())

    def _content(self, instant: Instant) -> tuple[bytes, str]:
        key = (instant.time, instant.action)
        found = self._timeline.plans.get(key)
        if found is None:
            found = read_plan(self._storage, self._timeline.layout, *key)
            if found[0]:  # else it may be written yet
                self._timeline.plans[key] = found
        return found
