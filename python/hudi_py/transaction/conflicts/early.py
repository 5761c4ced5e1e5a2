"""Detects conflicts before a write is done, by checking the markers of other writes once before each data file.

Implements `SimpleDirectMarkerBasedDetectionStrategy`, `DirectMarkerBasedDetectionStrategy` and
`MarkerUtils.getCandidateInstants` (1.2.0): of two writes to a file group, the one with the later instant fails. If both
began at the same moment, the conflict may be missed, and is found at the commit as usual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.layout import MARKERS
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.conflicts.optimistic import OptimisticWriters
from hudi_py.transaction.conflicts.policy import WriteScope, completed_since
from hudi_py.transaction.markers import has_marker
from hudi_py.transaction.owner.claim import PLANNED
from hudi_py.transaction.owner.heartbeat import last_beat_ms, now_ms

if TYPE_CHECKING:
    from hudi_py.transaction.session import TableSession


class EarlyDetection:
    """Early detection for one write in one process. Methods may be called from several threads."""

    def __init__(self, session: TableSession, scope: WriteScope) -> None:
        """Creates the detection. `scope`: the scope of the write, without file groups."""
        self._session = session
        self._scope = scope

    def check(self, partition: PartitionPath, file_id: FileId, *, logs: bool) -> None:
        """Checks a file group before the marker of a data file is created.

        Args:
            logs: whether the data file is a log file.

        Raises:
            ConflictError: another write is changing the file group or, if the options ask for that check
                (`hoodie.write.concurrency.early.conflict.check.commit.conflict`), has changed it.
        """
        marked = [time for time in self._earlier_instants() if self._is_marked(time, partition, file_id)]
        if not marked and not self._session.settings.get(concurrency.EARLY_COMMITS):
            return
        timeline = self._session.timeline()
        for instant in marked:
            self._check_marked(timeline, instant, partition, file_id)
        if self._session.settings.get(concurrency.EARLY_COMMITS):
            self._check_completed(timeline, partition, file_id, logs=logs)

    def _earlier_instants(self) -> list[InstantTime]:
        folders = self._session.storage.list(MARKERS)
        return [InstantTime(info.name) for info in folders if info.name < self._scope.instant]

    def _is_marked(self, instant: InstantTime, partition: PartitionPath, file_id: FileId) -> bool:
        """Returns whether a live write has a file of the file group, or is about to write one."""
        storage = self._session.storage
        if not has_marker(storage, instant, partition, file_id):
            return False
        beat_ms = last_beat_ms(storage, instant)
        return beat_ms is not None and now_ms() - beat_ms <= self._session.settings.heartbeat_expiry_ms

    def _check_marked(self, timeline: Timeline, time: InstantTime, partition: PartitionPath, file_id: FileId) -> None:
        instant = timeline.find(time)
        if instant is None:  # rolled back
            return
        if instant.completed:
            if instant not in completed_since(timeline, self._scope):
                return  # its markers are about to be removed
        elif instant.action in PLANNED or instant.action is Action.REPLACE_COMMIT:
            return  # only the commit knows whether these conflict
        raise self._conflict_error(instant, partition, file_id)

    def _check_completed(self, timeline: Timeline, partition: PartitionPath, file_id: FileId, *, logs: bool) -> None:
        session, group = self._session, frozenset({(partition, file_id)})
        only_logs = logs and session.config.logs_named_by_instant
        scope = replace(self._scope, touched=group, logged=group if only_logs else frozenset())
        for instant in completed_since(timeline, scope):
            metadata = read_commit_metadata(session.storage, timeline.layout, instant)
            OptimisticWriters(session.settings).check_completed(session.config, scope, instant, metadata)

    def _conflict_error(self, instant: Instant, partition: PartitionPath, file_id: FileId) -> ConflictError:
        return ConflictError(
            f"Cannot continue the write {self._scope.instant} of {self._session.storage.uri}: the "
            f"{instant.action.value} {instant.time}, which began earlier, is also changing the file group {file_id} of "
            f"partition {partition!r} ({concurrency.EARLY_DETECTION.key}); nothing was published: write again "
            f"({concurrency.RETRIES.key} does so automatically)",
            instant=instant.time,
        )
