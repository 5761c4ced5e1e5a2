"""What a plan or a marker may name. Their writers are not known, and what they name is deleted or written.

Apache Hudi deletes whatever a plan names. Here, a plan names data and log files in partitions of the table, instants
and actions as the timeline has them, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import Action
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.storage import Storage
from hudi_py.storage.inside import check_folders
from hudi_py.timeline.clean_records import CleanPlan
from hudi_py.timeline.plans import RollbackPlan
from hudi_py.timeline.recovery_records import RestorePlan

_INSTANT = re.compile(r"\d+", re.ASCII)
_ACTIONS = frozenset(action.value for action in Action)


def is_data_file(name: str) -> bool:
    """Whether a file's name, without its folder, is that of a base, log or change log file."""
    return parse_base_file_name(name) is not None or parse_log_file_name(name) is not None


def check_partition(partition: str, context: str) -> None:
    """Raises CorruptFileError, with the message `Cannot <context>: ...`, if a path cannot be that of a partition."""
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
    """Raises CorruptFileError, with the message `Cannot <context>: ...`, if these are no instant's time and action:
    folders are named by the time."""
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
