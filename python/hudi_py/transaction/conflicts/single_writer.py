"""Allows one writer at a time: any other write since the plan of a write is a conflict. Table services are not, unless
they touch a file group that the write touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.model.operation import REWRITING
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import COMPACTIONS
from hudi_py.timeline.plans import FileGroup
from hudi_py.transaction.conflicts.policy import WriteScope, check_plan

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class SingleWriter:
    """The `ConflictPolicy` of `SINGLE_WRITER`. Stricter than Apache Hudi, which does not check in this mode."""

    one_at_a_time: bool = True

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        for instant in table.plans.writes:
            if instant.time != scope.instant and instant.time not in scope.pending:
                raise ConflictError(
                    f"Cannot begin the write {scope.instant} of {table.session.storage.uri}: since it was planned the "
                    f"{instant.action.value} {instant.time} has begun; wait until it is done and "
                    f"write again; {concurrency.ONE_WRITER}",
                    instant=instant.time,
                )
        self.check_commit(table, scope)

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None:
        check_plan(table, scope)

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        own, timeline, storage = scope.instant, table.timeline, table.session.storage
        # a log belongs to the slice that is newest when it completes, so compactions do not conflict with it
        rewritten = scope.touched - scope.logged
        for instant in timeline.completed_since(scope.pin):
            if instant.time == own:
                continue
            if instant.action is Action.RESTORE:
                raise _conflict(own, instant, "restored the table to an earlier state")
            if instant.action.comparable not in WRITE_ACTIONS:
                continue
            metadata = read_commit_metadata(storage, timeline.layout, instant)
            if metadata.operation not in REWRITING and not metadata.compacted:
                raise _conflict(own, instant, f"({metadata.operation}) has been completed", _AGAIN)
            if metadata.operation == "COMPACT" and instant.time < own:
                continue  # was pending when the write was planned, so the plan allows for it
            touched = rewritten if metadata.operation in ("COMPACT", "LOG_COMPACT") else scope.touched
            _refuse_overlap(own, instant, touched & metadata.changed_groups, "has rewritten")
        for instant in timeline.pending:
            if instant.time == own:
                continue
            if instant in table.plans.writes and instant.time in scope.pending:
                continue  # had already failed when this write was planned, and stays (policy NEVER)
            if instant.action is Action.RESTORE:
                raise _conflict(own, instant, "is under way")
            if instant in table.plans.writes:
                raise _conflict(own, instant, "is under way", _AGAIN)
            groups = table.plans.file_groups(instant)
            if instant.action in COMPACTIONS:
                # the plan allows for anything scheduled before it
                overlap = rewritten & groups if instant.time > own else frozenset()
            else:
                overlap = scope.touched & groups
            _refuse_overlap(own, instant, overlap, "is going to rewrite")
        return None


def _refuse_overlap(own: InstantTime, instant: Instant, overlap: frozenset[FileGroup], what: str) -> None:
    if overlap:
        partition, file_id = min(overlap)
        more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
        raise _conflict(own, instant, f"{what} the file group {file_id} of partition {partition!r}{more}")


_AGAIN: Final = f"write again; {concurrency.ONE_WRITER}"


def _conflict(own: InstantTime, instant: Instant, what: str, remedy: str = "write again") -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {own}: since it was planned the {instant.action.value} {instant.time} {what}; "
        f"nothing was published, {remedy}",
        instant=instant.time,
    )
