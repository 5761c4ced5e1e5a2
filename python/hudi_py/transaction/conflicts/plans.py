"""Finds what others have changed in the file groups that a plan replaces, between the plan and its completion.

Writes of hudi-py refuse such file groups while the plan is pending. Those of Apache Hudi may not
(`SparkAllowUpdateStrategy`, 1.2.0): it then completes the plan, and loses their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.errors import ConflictError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import parse_log_file_name
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.transaction.conflicts.policy import WriteScope, completed_since

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


def check_plan(table: LockedTable, scope: WriteScope) -> None:
    """Check that no write has changed a file group that a plan replaces since the plan was made, unless it has written
    its rows to the file groups that take their place as well.

    Raises:
        ConflictError: a write has.
    """
    if not scope.replaced:
        return
    for instant in completed_since(table.timeline, scope):
        metadata = read_commit_metadata(table.session.storage, table.timeline.layout, instant)
        overlap = scope.replaced & metadata.changed_groups
        if not overlap or metadata.compacted or _is_twofold(metadata, scope.instant):
            continue
        partition, file_id = min(overlap)
        more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
        raise ConflictError(
            f"Cannot complete {scope.instant} of {table.session.storage.uri}: since it was planned the "
            f"{instant.action.value} {instant.time} ({metadata.operation}) has changed the file group {file_id} of "
            f"partition {partition!r}{more}, and its rows would be lost; unschedule {scope.instant}, and plan it anew",
            instant=instant.time,
        )


def _is_twofold(metadata: CommitMetadata, plan: InstantTime) -> bool:
    """Whether a write has added its rows to new file groups of a plan too, whose logs have the instant of the plan
    (`SparkConsistentBucketDuplicateUpdateStrategy`, 1.2.0)."""
    logs = (stat.path.rpartition("/")[2] for stat in metadata.stats if stat.log_version is not None)
    names = (parse_log_file_name(name) for name in logs)
    return any(name is not None and name.instant == plan for name in names)
