"""Reads the plans of pending instants, and checks the names in plans and markers.

Only this module knows that version 6 stores a clustering like any other replacecommit, where plans are stored, and that
a missing plan was cancelled or completed since the timeline was listed.

Anyone may have written a plan or marker, and the files that it names are deleted or written. Apache Hudi deletes
whatever a plan names. Here, a plan may only name data and log files in partitions of the table, and instants and
actions that are on the timeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.storage import Storage
from hudi_py.storage.local import check_folders
from hudi_py.timeline.clean_records import CleanPlan, decode_clean_plan
from hudi_py.timeline.clustering_records import ClusteringPlan, decode_clustering_plan
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.plans import (
    CompactionPlan,
    FileGroup,
    IndexPlan,
    RestorePlan,
    RollbackPlan,
    decode_compaction_plan,
    decode_index_plan,
    decode_restore_plan,
    decode_rollback_plan,
)
from hudi_py.timeline.timeline import Timeline

T = TypeVar("T")

COMPACTIONS = (Action.COMPACTION, Action.LOG_COMPACTION)
_CLUSTERINGS = (Action.CLUSTERING, Action.REPLACE_COMMIT)
"""Possible actions of a clustering, by table version."""
_INSTANT = re.compile(r"\d+", re.ASCII)
_ACTIONS = frozenset(action.value for action in Action)


def read_plan(storage: Storage, layout: Layout, time: str, action: Action) -> tuple[bytes, str]:
    """Reads the bytes of a plan (empty if there is none, or its writer died before writing it), and returns its name
    for errors.

    Plans of completed compactions exist as long as their requested files.
    """
    for path in layout.plan_paths(time, action):
        try:
            return storage.read(path), f"the plan {storage.uri}/{path}"
        except FileNotFoundError:
            continue
    return b"", ""


def compaction_plan(storage: Storage, layout: Layout, time: str, action: Action) -> CompactionPlan | None:
    """Reads the plan of a compaction or log compaction, pending or completed; None if there is none.

    Raises:
        CorruptFileError: the plan cannot be read.
    """
    data, context = read_plan(storage, layout, time, action)
    return decode_compaction_plan(data, context) if data else None


def clustering_plan(storage: Storage, layout: Layout, time: str) -> ClusteringPlan | None:
    """Reads the plan of a clustering, pending or completed; None if there is none, or the instant is not a clustering.

    Raises:
        CorruptFileError: the plan cannot be read.
    """
    for action in _CLUSTERINGS:
        data, context = read_plan(storage, layout, time, action)
        if data:
            return decode_clustering_plan(data, context)
    return None


def planned_groups(action: Action, data: bytes, context: str) -> frozenset[FileGroup]:
    """Returns the file groups in the plan of a compaction, log compaction or clustering; none for other actions and
    without data.

    Raises:
        CorruptFileError: the plan cannot be read.
    """
    if data and action in COMPACTIONS:
        operations = decode_compaction_plan(data, context).operations
        return frozenset((operation.partition_path, operation.file_id) for operation in operations)
    if data and action in _CLUSTERINGS:
        plan = decode_clustering_plan(data, context)
        return frozenset((slice_.partition_path, slice_.file_id) for slice_ in plan.slices) if plan else frozenset()
    return frozenset()


class PendingPlans:
    """The plans of a timeline's pending instants. Each is read once per timeline, when it is needed.

    Raises (all methods):
        CorruptFileError: a plan cannot be read.
    """

    def __init__(self, storage: Storage, timeline: Timeline) -> None:
        self._storage = storage
        self._timeline = timeline

    def of(self, *actions: Action) -> list[Instant]:
        """Returns pending instants of these actions, oldest first. Clusterings are found by their plans."""
        clusterings = self.clusterings if Action.CLUSTERING in actions else ()
        return [instant for instant in self._timeline.pending if instant.action in actions or instant in clusterings]

    @cached_property
    def clusterings(self) -> list[Instant]:
        """Returns pending clusterings, oldest first."""
        return [instant for instant in self._timeline.pending if self.is_clustering(instant)]

    @cached_property
    def writes(self) -> list[Instant]:
        """Returns pending writes, without table services, oldest first."""
        return [instant for instant in self.of(*WRITE_ACTIONS) if not self.is_clustering(instant)]

    def is_clustering(self, instant: Instant) -> bool:
        return instant.action is Action.CLUSTERING or self.clustering(instant) is not None

    def clustering(self, instant: Instant) -> ClusteringPlan | None:
        """Returns the plan of a clustering; None if the instant is not a clustering, or has no plan."""
        if instant.action not in _CLUSTERINGS:
            return None
        return self.decoded(instant, decode_clustering_plan)

    def compaction(self, instant: Instant) -> CompactionPlan | None:
        """Returns the plan of a compaction or log compaction; None if there is none."""
        return self.decoded(instant, decode_compaction_plan)

    def clean(self, instant: Instant) -> CleanPlan | None:
        return self.decoded(instant, decode_clean_plan)

    def rollback(self, instant: Instant) -> RollbackPlan | None:
        return self.decoded(instant, decode_rollback_plan)

    def restore(self, instant: Instant) -> RestorePlan | None:
        return self.decoded(instant, decode_restore_plan)

    def indexing(self, instant: Instant) -> IndexPlan | None:
        return self.decoded(instant, decode_index_plan)

    def decoded(self, instant: Instant, decode: Callable[[bytes, str], T | None]) -> T | None:
        """Returns the decoded plan of an instant; None if there is none."""
        data, context = self._content(instant)
        return decode(data, context) if data else None

    def file_groups(self, instant: Instant) -> frozenset[FileGroup]:
        """Returns the file groups that a compaction, log compaction or clustering will rewrite; empty for other
        instants."""
        if instant.action not in (*COMPACTIONS, *_CLUSTERINGS):  # no need to read their files
            return frozenset()
        return planned_groups(instant.action, *self._content(instant))

    def _content(self, instant: Instant) -> tuple[bytes, str]:
        key = (instant.time, instant.action)
        content = self._timeline.plans.get(key)
        if content is None:
            content = read_plan(self._storage, self._timeline.layout, *key)
            if content[0]:  # otherwise the plan may still be written
                self._timeline.plans[key] = content
        return content


def is_data_file(name: str) -> bool:
    """Returns whether a file name is that of a base, log or change log file."""
    return parse_base_file_name(name) is not None or parse_log_file_name(name) is not None


def check_partition(partition: str, context: str) -> None:
    """Raises CorruptFileError, with the message `Cannot <context>: ...`, if a path cannot be a partition."""
    parts = partition.split("/")
    if partition and (parts[0] == META_FOLDER or "\0" in partition or {"", ".", ".."} & set(parts)):
        raise CorruptFileError(
            f"Cannot {context}: it names the partition {partition!r}; expected a folder of the table, outside of "
            f"{META_FOLDER}"
        )


def check_clean_plan(storage: Storage, instant: str, plan: CleanPlan) -> None:
    """Checks that a clean deletes only data and log files below the table's real path.

    Raises:
        CorruptFileError: a name is not that of a data file, or a partition is none.
        UnsupportedTableError: a partition leads out of the table by a symbolic link.
    """
    context = f"run the clean {instant} of {storage.uri}"
    for partition, paths in plan.files.items():
        _check_files(partition, paths, context)
    for partition in plan.partitions_to_delete:
        check_partition(partition, context)
    check_folders(storage, [*plan.files, *plan.partitions_to_delete], context + ": deleting")


def check_rollback_plan(storage: Storage, rollback: str, plan: RollbackPlan) -> None:
    """Checks that a rollback undoes an instant of the timeline, and deletes only data and log files below the table's
    real path. Raises what `check_clean_plan` raises."""
    context = f"run the rollback {rollback} of {storage.uri}"
    check_instant(plan.instant, plan.action, context)
    for request in plan.requests:
        _check_files(request.partition_path, [*request.files_to_delete, *request.log_blocks], context)
    check_folders(storage, (request.partition_path for request in plan.requests), context + ": deleting")


def check_restore_plan(storage: Storage, restore: str, plan: RestorePlan) -> None:
    """Checks that a restore undoes instants of the timeline. Raises CorruptFileError."""
    for info in plan.instants:
        check_instant(info.time, info.action, f"run the restore {restore} of {storage.uri}")


def check_instant(time: str, action: str, context: str) -> None:
    """Raises CorruptFileError, with the message `Cannot <context>: ...`, if a time or action is not valid: the time
    becomes the name of a folder."""
    if not _INSTANT.fullmatch(time) or action not in _ACTIONS:
        raise CorruptFileError(f"Cannot {context}: its plan names the {action!r} {time!r}; expected an instant")


def _check_files(partition: str, paths: Iterable[str], context: str) -> None:
    check_partition(partition, context)
    for path in paths:
        name = path.rpartition("/")[2]
        if not is_data_file(name):
            raise CorruptFileError(
                f"Cannot {context}: its plan names {name!r} in partition {partition!r}, which is not the name of a "
                "data or log file; only these are deleted by a plan"
            )
