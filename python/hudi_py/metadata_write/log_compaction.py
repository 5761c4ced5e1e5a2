"""Log compaction of the metadata table, between its compactions (`HoodieLogCompactionPlanGenerator`,
`HoodieBackedTableMetadataWriter.compactIfNecessary`, 1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hudi_py.merge import CommittedInstants, scan_log
from hudi_py.metadata_write.compact import compact_logs
from hudi_py.metadata_write.own import COMMIT_SCHEMA
from hudi_py.model.commit import CompactedLogs, WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import parse_log_file_name
from hudi_py.services.attempt import Attendance, give_up_attempt
from hudi_py.services.compaction.execute import publishing, slice_of, write_token
from hudi_py.services.compaction.phases import (
    CompactionWork,
    Outcome,
    begin_plan,
    commit_plan,
    execute_plan,
    join_plan,
)
from hudi_py.services.compaction.plan import busy_groups, operations_of, pending_plans
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.trigger import since_compaction, since_log_compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.service import Scheduled, Work
from hudi_py.storage import Storage
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.timeline import Timeline
from hudi_py.write.instants import request

_ACTION = Action.LOG_COMPACTION


@dataclass(frozen=True, slots=True)
class MetadataLogCompaction:
    """Log compaction of a metadata table of version 8 or 9. Implements `PlannedService`; pickles."""

    committed: CommittedInstants
    """Instants whose log blocks count."""
    threshold: int = 5
    """Delta commits, and log files or blocks of a file group, from which on one is due."""

    @property
    def name(self) -> str:
        return "log_compaction"

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans a log compaction where one is due."""
        storage = context.storage
        with context.locked("plan a log compaction") as timeline:
            backlog = since_compaction(timeline)
            count = 0 if backlog is None else min(backlog.count, since_log_compaction(storage, timeline))
            if count < self.threshold:
                return Scheduled(None, f"{count} delta commits since the last one, it is due after {self.threshold}")
            view = context.view(timeline)
            chosen = instant if instant is not None else context.clock.next_instant(timeline)
            operations = operations_of(
                view,
                list(view.partitions()),
                instant=chosen,
                busy=busy_groups(storage, timeline, view, log_compactions=True),
                max_file_size=0,
                wanted=partial(self._has_enough, storage),
            )
            if not operations:
                return Scheduled(None, f"no file group has {self.threshold} log files or blocks")
            plan = encode_compaction_plan(CompactionPlan(tuple(operations), ()), log_compaction=True)
            request(storage, timeline.layout, chosen, _ACTION, plan)
            return Scheduled(chosen)

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in pending_plans(context.timeline(), _ACTION)]

    def begin(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        return begin_plan(context, instant, _ACTION, _no_settings, local=True)

    def join(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        return join_plan(context, instant, _ACTION, _no_settings)

    def execute(self, context: ServiceContext, work: Work, pieces: Sequence[int]) -> list[Outcome]:
        assert isinstance(work, CompactionWork)
        return execute_plan(context, work, pieces, partial(self._compact, context, work))

    def commit(self, context: ServiceContext, work: Work, outcomes: Sequence[Outcome]) -> CompactionReport:
        assert isinstance(work, CompactionWork)
        return commit_plan(context, self.name, "LOG_COMPACT", work, outcomes, {"schema": COMMIT_SCHEMA})

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)

    def give_up(self, context: ServiceContext, work: Work) -> None:
        assert isinstance(work, CompactionWork)
        give_up_attempt(context, work.attempt, f"give the log compaction {work.instant} up")

    def _has_enough(self, storage: Storage, piece: FileSlice) -> bool:
        """`isFileSliceEligibleForLogCompaction`: blocks of one instant count as one."""
        instants = {block.instant_time for block in scan_log(storage, piece.log_files, committed=self.committed)}
        return len(instants) > 1 and max(len(piece.log_files), len(instants)) >= self.threshold

    def _compact(
        self,
        context: ServiceContext,
        work: CompactionWork,
        attendance: Attendance,
        operation: CompactionOperation,
        piece: int,
    ) -> WriteStat:
        started = time.monotonic()
        storage, publication = context.storage, attendance.publication
        whole = slice_of(storage, operation)
        permit = publication.permit_log_file(whole.partition, whole.file_id, write_token(piece))
        name = permit.path.rpartition("/")[2]
        parsed = parse_log_file_name(name)
        with publishing(publication, permit, operation):
            done = compact_logs(storage, whole, work.instant, committed=self.committed)
            storage.put(permit.temp_path, done.data)
        counts = done.counts
        return WriteStat(
            file_id=whole.file_id,
            path=permit.path,
            partition_path=whole.partition,
            prev_commit=operation.base_instant,
            num_writes=counts.written,
            num_updates=counts.written,
            num_deletes=done.deletes,
            total_write_bytes=counts.bytes,
            file_size=counts.bytes,
            log_version=parsed.version if parsed is not None else 1,
            log_offset=0,
            base_file="",
            log_files=(name,),
            upsert_time_ms=int((time.monotonic() - started) * 1000),
            compacted=CompactedLogs(
                files=len(whole.log_files),
                size=counts.log_bytes,
                blocks=counts.log_blocks,
                records=counts.log_records,
                updated=counts.log_keys,
            ),
        )


def _no_settings(timeline: Timeline) -> None:
    return None
