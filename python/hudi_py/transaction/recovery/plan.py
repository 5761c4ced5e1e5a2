"""Determines what an instant wrote, and thus what its rollback must undo.

A pending instant is planned by its markers (`MarkerBasedRollbackStrategy`, 1.2.0); one without markers, or a completed
one, by its commit metadata and by listing the table (`ListingBasedRollbackStrategy`). Paths in plans are absolute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hudi_py.config.concurrency import ROLLBACK_BY_MARKERS
from hudi_py.errors import ConflictError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.log import read_blocks
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, Instant, State
from hudi_py.model.names import LogFileName, PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.metadata import RollbackPlan, RollbackRequest, read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import requested_path
from hudi_py.transaction.markers import Marker, MarkerType, read_markers
from hudi_py.transaction.session import TableSession
from hudi_py.view import StorageLister
from hudi_py.view.lister import Lister

LogGroup = tuple[str, str, str]
"""Partition path, file id and base instant of a slice to whose logs an instant of table version 6 has appended."""


def plan_rollback(
    session: TableSession,
    timeline: Timeline,
    instant: Instant,
    *,
    restoring: bool = False,
    lister: Lister | None = None,
) -> RollbackPlan:
    """Plans the rollback of one instant; only reads. A pending instant is planned by its markers if it has any, unless
    the settings say otherwise (`hoodie.rollback.using.markers`).

    Args:
        instant: the instant in its current state on the timeline.
        restoring: part of a restore: a compaction is removed with its plan, including logs of the slice it opened.
        lister: lists the storage; one with a cache saves a restore from listing again for each instant.

    Raises:
        CorruptFileError: a marker does not name a data file, or the commit metadata cannot be read.
        UnsupportedTableError: it shares log files with others from before the upgrade to table version 8 or later.
    """
    state, storage = session.state(timeline), session.storage
    lister = lister or StorageLister(storage, session.config)
    if instant.completed:
        requests = list(_plan_by_commit(state, instant, lister))
    elif restoring and instant.action is Action.COMPACTION:
        requests = list(_plan_by_listing(state, instant, lister, logs=True))
    elif instant.state is State.REQUESTED:
        requests = []  # nothing is written before the inflight file exists
    else:
        markers = read_markers(storage, instant.time) if session.settings.get(ROLLBACK_BY_MARKERS) else None
        if markers is not None:
            requests = list(_plan_by_markers(storage, instant, markers))
        else:
            # Writers keep appending to the slice that a pending compaction opened: its logs are not the compaction's
            logs = instant.action is not Action.COMPACTION
            requests = list(_plan_by_listing(state, instant, lister, logs=logs))
    return RollbackPlan(instant.time, instant.action.value, tuple(requests))


def group_logs(storage: Storage, partition: str, file_id: str, base_instant: str) -> list[tuple[LogFileName, FileInfo]]:
    """Lists the log files of a slice of table version 6, oldest first."""
    logs: list[tuple[LogFileName, FileInfo]] = []
    for info in storage.list(partition):
        name = None if info.is_dir else parse_log_file_name(info.name)
        if name is not None and not name.cdc and (name.file_id, name.instant) == (file_id, base_instant):
            logs.append((name, info))
    return sorted(logs, key=lambda pair: pair[0].sort_key)


def _plan_by_markers(storage: Storage, instant: Instant, markers: tuple[Marker, ...]) -> Iterator[RollbackRequest]:
    appended: set[LogGroup] = set()
    for marker in markers:
        partition, _, name = marker.path.rpartition("/")
        owner = _owner_of(name)
        if owner is None:
            raise CorruptFileError(
                f"Cannot roll back {instant.time}: its {marker.type.value} marker names {marker.path}, "
                "which is not the name of a data file",
                path=marker.path,
                instant=instant.time,
            )
        # an APPEND marker of an old release names the base file whose log was appended to
        appends_elsewhere = marker.type is MarkerType.APPEND and parse_log_file_name(name) is None
        if owner[1] == instant.time and not appends_elsewhere:
            yield _delete_request(storage, partition, marker.path)
        else:
            appended.add((partition, *owner))
    yield from _blocks_to_undo(storage, instant, appended)


def _plan_by_listing(state: TableState, instant: Instant, lister: Lister, *, logs: bool) -> Iterator[RollbackRequest]:
    """Plans by the names of all files; in version 6 also by blocks in logs that changed since the instant began.

    `logs`: log files named by the instant are deleted too.
    """
    begun = state.storage.stat(requested_path(state.timeline.layout, instant.time, instant.action))
    begun_ms = begun.modified_ms if begun is not None else 0
    appended: set[LogGroup] = set()
    for partition, files in _list_partitions(lister):
        for info in files:
            owner = _owner_of(info.name)
            if owner is None:
                continue
            log = parse_log_file_name(info.name)
            is_log = log is not None and not log.cdc
            if owner[1] == instant.time:
                if logs or not is_log:
                    yield _delete_request(state.storage, partition, info.path)
            elif not state.config.logs_named_by_instant and is_log and info.modified_ms >= begun_ms:
                appended.add((partition, *owner))
    if instant.action not in (Action.COMPACTION, Action.CLUSTERING):
        yield from _blocks_to_undo(state.storage, instant, appended)


def _plan_by_commit(state: TableState, instant: Instant, lister: Lister) -> Iterator[RollbackRequest]:
    """Plans by the statistics of the commit. On MERGE_ON_READ the table is listed too, as logs of the file slices that
    the instant opened are deleted with them."""
    metadata = read_commit_metadata(state.storage, state.timeline.layout, instant)
    paths: dict[str, str] = {}  # path to partition
    appended: dict[LogGroup, set[str]] = defaultdict(set)
    for stat in metadata.stats:
        paths |= dict.fromkeys(stat.cdc_stats or {}, stat.partition_path)
        owner = _owner_of(stat.path.rpartition("/")[2])
        if owner is None:
            continue
        if owner[1] == instant.time:
            paths[stat.path] = stat.partition_path
        elif not state.config.logs_named_by_instant:
            appended[stat.partition_path, owner[0], owner[1]].add(stat.path)
        elif _is_whole(state.storage, stat.path, instant):  # a log from before the table was upgraded
            paths[stat.path] = stat.partition_path
    if state.config.is_mor:
        for folder, files in _list_partitions(lister):
            for info in files:
                owner = _owner_of(info.name)
                if owner is not None and owner[1] == instant.time:
                    paths[info.path] = folder
    for path, partition in sorted(paths.items()):
        yield _delete_request(state.storage, partition, path)
    for (partition, file_id, base_instant), logs in sorted(appended.items()):
        # Logs deleted with a compaction's slice need no block; one in a new log would bring the slice back
        infos = (state.storage.stat(path) for path in sorted(logs))
        there = {f"{state.storage.uri}/{info.path}": info.size for info in infos if info is not None}
        if there:
            yield RollbackRequest(partition, file_id, base_instant, (), there)


def check_logs(storage: Storage, config: TableConfig, instant: Instant, metadata: CommitMetadata) -> None:
    """Refuses to undo a completed instant whose logs cannot be taken back.

    Raises:
        ConflictError: logs would come back to a copy-on-write table, whose writers do not merge them.
        UnsupportedTableError: other commits share its log files, as planning finds.
    """
    if not config.is_mor and (metadata.compacted or metadata.operation == "COMPACT"):
        raise ConflictError(
            f"Cannot undo the compaction {instant.time} of {storage.uri}: the table was changed to COPY_ON_WRITE "
            "afterwards, and cannot have the logs again; change its type to MERGE_ON_READ first",
            instant=instant.time,
        )
    for stat in metadata.stats if config.logs_named_by_instant else ():
        owner = _owner_of(stat.path.rpartition("/")[2])
        if owner is not None and owner[1] != instant.time:
            _is_whole(storage, stat.path, instant)


def _is_whole(storage: Storage, path: str, instant: Instant) -> bool:
    """Returns whether a log file not named by its instant exists and has only blocks of that instant.

    Raises:
        UnsupportedTableError: it has blocks of others too.
    """
    info = storage.stat(path)
    if info is None:
        return False
    if all(block.instant_time == instant.time for block in read_blocks(storage, path, info.size)):
        return True
    raise UnsupportedTableError(
        f"Cannot roll back the {instant.action.value} {instant.time} of {storage.uri}: before the table was upgraded, "
        f"it wrote to {path}, as did other commits; supported: log files of one commit since table version 8; "
        "write the rows again instead",
        path=path,
        instant=instant.time,
    )


def _blocks_to_undo(storage: Storage, instant: Instant, groups: set[LogGroup]) -> Iterator[RollbackRequest]:
    """Yields the slices of table version 6 whose logs have blocks of the instant."""
    for partition, file_id, base_instant in sorted(groups):
        touched = {
            f"{storage.uri}/{info.path}": info.size
            for _, info in group_logs(storage, partition, file_id, base_instant)
            if any(block.instant_time == instant.time for block in read_blocks(storage, info.path, info.size))
        }
        if touched:
            yield RollbackRequest(partition, file_id, base_instant, (), touched)


def _delete_request(storage: Storage, partition: str, path: str) -> RollbackRequest:
    return RollbackRequest(partition, "", "", (f"{storage.uri}/{path}",), {})


def _owner_of(name: str) -> tuple[str, str] | None:
    """Returns file id and instant in a data file's name."""
    base = parse_base_file_name(name)
    if base is not None:
        return base.file_id, base.instant
    log = parse_log_file_name(name)
    return None if log is None else (log.file_id, log.instant)


def _list_partitions(lister: Lister) -> Iterator[tuple[PartitionPath, list[FileInfo]]]:
    partitions = lister.partitions()
    yield from zip(partitions, in_threads(lister.files, partitions), strict=True)


class RememberingLister(Lister):
    """Lists each folder of the storage once, for restores of table version 8 and later, which only delete."""

    is_storage = True

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._lister = StorageLister(storage, config)
        self._partitions: list[PartitionPath] | None = None
        self._files: dict[PartitionPath, list[FileInfo]] = {}

    def partitions(self) -> list[PartitionPath]:
        if self._partitions is None:
            self._partitions = self._lister.partitions()
        return self._partitions

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        listed = self._files.get(partition)
        if listed is None:
            listed = self._files[partition] = self._lister.files(partition)
        return listed
