"""Declares the interface of conflict policies and their input, and implements the rule that all of them share: a plan
is not completed if others have changed its file groups since it was made. Also contains the policy of tables with one
writer at a time, and the check for changes between the read from which a write was computed and its begin.

Writes of hudi-py refuse such file groups while the plan is pending. Writes of Apache Hudi may not
(`SparkAllowUpdateStrategy`, 1.2.0): it then completes the plan and loses their rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.model.names import parse_log_file_name
from hudi_py.model.operation import REWRITING, Operation
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import COMPACTIONS
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.timeline import Pin, Timeline

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable

ALTER_SCHEMA: Final = "ALTER_SCHEMA"
"""The operation of commits that change columns but no rows."""
BUCKET_RESCALE: Final = "BUCKET_RESCALE"
"""The operation of commits that change the numbers of buckets of partitions."""


@dataclass(frozen=True, slots=True)
class WriteScope:
    """The part of the table that a write saw and the part that it changes."""

    instant: InstantTime
    pin: Pin
    touched: frozenset[FileGroup] = frozenset()
    """File groups that the write changes or replaces; unknown until its commit."""
    logged: frozenset[FileGroup] = frozenset()
    """The touched file groups that only get log files named by their own instant (from table version 8 on)."""
    pending: frozenset[InstantTime] = frozenset()
    """Requested times of the writes and table services that were pending when the write was planned."""
    schema_json: str = ""
    """Avro schema of the table after the write; empty before its commit."""
    alters: bool = False
    """Whether the write changes the columns of the table or its numbers of buckets, which requires that other writes
    have written nothing in the meantime."""
    replaced: frozenset[FileGroup] = frozenset()
    """File groups that the write replaces by others."""

    @classmethod
    def of(
        cls,
        instant: InstantTime,
        pin: Pin,
        metadata: CommitMetadata,
        config: TableConfig,
        pending: frozenset[InstantTime] = frozenset(),
    ) -> WriteScope:
        """Returns the scope of a write that is about to be committed with this metadata."""
        replaced = metadata.replaced_groups
        logs = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is not None}
        bases = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is None}
        logged = logs - bases - replaced if config.logs_named_by_instant else set()
        alters = metadata.operation in (ALTER_SCHEMA, BUCKET_RESCALE)
        schema = metadata.extra.get("schema", "")
        return cls(instant, pin, metadata.changed_groups, frozenset(logged), pending, schema, alters, replaced)


def completed_since(timeline: Timeline, scope: WriteScope) -> list[Instant]:
    """Returns the commits, deltacommits and replacecommits that the write did not see."""
    completed = timeline.completed_since(scope.pin)
    return [
        instant for instant in completed if instant.time != scope.instant and instant.action.comparable in WRITE_ACTIONS
    ]


class ConflictPolicy(Protocol):
    """Compares the current table with what a write saw. Pickles; holds no credentials."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether a write must not begin while another one is pending, unless the other one has failed."""
        ...

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        """Checks a planned write before it becomes pending.

        Raises:
            ConflictError: names the conflicting instant.
        """
        ...

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None:
        """Checks an executed plan before it completes. See `check_plan`.

        Raises:
            ConflictError: names the conflicting instant and the file group.
        """
        ...

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        """Checks a write whose files are written before it completes.

        Returns:
            The Avro schema to commit instead of the write's own if another write has changed it; usually None.

        Raises:
            ConflictError: names the conflicting instant and, where applicable, the file group.
        """
        ...


def check_plan(table: LockedTable, scope: WriteScope) -> None:
    """Checks that no write has changed a file group that a plan replaces since the plan was made, unless the write has
    also written its rows to the file groups that replace it.

    Raises:
        ConflictError: a write has.
    """
    if not scope.replaced:
        return
    for instant in completed_since(table.timeline, scope):
        metadata = read_commit_metadata(table.session.storage, table.timeline.layout, instant)
        overlap = scope.replaced & metadata.changed_groups
        if not overlap or metadata.compacted or _writes_both(metadata, scope.instant):
            continue
        partition, file_id = min(overlap)
        more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
        raise ConflictError(
            f"Cannot complete {scope.instant} of {table.session.storage.uri}: since it was planned the "
            f"{instant.action.value} {instant.time} ({metadata.operation}) has changed the file group {file_id} of "
            f"partition {partition!r}{more}, and its rows would be lost; unschedule {scope.instant}, and plan it again",
            instant=instant.time,
        )


def _writes_both(metadata: CommitMetadata, plan: InstantTime) -> bool:
    """Returns whether a write has also added its rows to new file groups of a plan, whose logs have the instant of the
    plan (`SparkConsistentBucketDuplicateUpdateStrategy`, 1.2.0)."""
    logs = (stat.path.rpartition("/")[2] for stat in metadata.stats if stat.log_version is not None)
    names = (parse_log_file_name(name) for name in logs)
    return any(name is not None and name.instant == plan for name in names)


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
                raise _conflict_error(own, instant, "restored the table to an earlier state")
            if instant.action.comparable not in WRITE_ACTIONS:
                continue
            metadata = read_commit_metadata(storage, timeline.layout, instant)
            if metadata.operation not in REWRITING and not metadata.compacted:
                raise _conflict_error(own, instant, f"({metadata.operation}) has been completed", _AGAIN)
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
                raise _conflict_error(own, instant, "is under way")
            if instant in table.plans.writes:
                raise _conflict_error(own, instant, "is under way", _AGAIN)
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
        raise _conflict_error(own, instant, f"{what} the file group {file_id} of partition {partition!r}{more}")


_AGAIN: Final = f"write again; {concurrency.ONE_WRITER}"


def _conflict_error(own: InstantTime, instant: Instant, what: str, remedy: str = "write again") -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {own}: since it was planned the {instant.action.value} {instant.time} {what}; "
        f"nothing was published, {remedy}",
        instant=instant.time,
    )


_INSERTS: Final = frozenset(
    name
    for operation in Operation
    if operation.takes_whole_rows and not operation.traits.replaces and not operation.looks_up_keys
    for name in (operation.java_name, f"{operation.java_name}_PREPPED")
)
"""Operations that overwrite no rows."""
_SERVICES: Final = REWRITING | {"INDEX"}
"""Operations that change no rows."""


# A statement whose expressions an engine evaluates reads the table before it begins, and so does a program that writes
# rows it has read. The write begins later, so its own conflict check would not see changes in between. Apache Hudi
# (`HoodieSparkSqlWriter`, 1.2.0) chooses the instant of a statement before it evaluates rows.
def check_seen(table: LockedTable, scope: WriteScope, seen: Pin, operation: str) -> None:
    """Checks that no other write has changed the write's file groups since the state `seen`.

    Raises:
        ConflictError: another write has, or the timeline no longer shows whether one has.
    """
    if operation in _INSERTS:
        return
    timeline = table.timeline
    if seen.time and not _still_has(timeline, seen):
        raise ConflictError(
            f"Cannot commit the write {scope.instant}: the newest instant that its rows were computed from, "
            f"{seen.time}, has been rolled back or archived since; {_REMEDY}",
            instant=scope.instant,
        )
    for instant in timeline.at(scope.pin).completed_since(seen):
        if instant.action is Action.RESTORE:
            raise _changed_error(scope, instant, "restored the table to an earlier state")
        if instant.action.comparable not in WRITE_ACTIONS:
            continue
        metadata = read_commit_metadata(table.session.storage, timeline.layout, instant)
        if metadata.operation in _SERVICES or metadata.compacted:
            continue
        if overlap := scope.touched & metadata.changed_groups:
            partition, file_id = min(overlap)
            more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
            what = f"({metadata.operation}) changed the file group {file_id} of partition {partition!r}{more}"
            raise _changed_error(scope, instant, what)


def _still_has(timeline: Timeline, seen: Pin) -> bool:
    """Returns whether the timeline still has the instant that gave the pin its time."""
    if timeline.layout.has_completion_times:
        return any(instant.completion_time == seen.time for instant in timeline.completed)
    return any(instant.time == seen.time for instant in timeline.completed)


_REMEDY: Final = (
    "nothing was published: read the table again, compute the rows again and write them (statements of SQL do so as "
    f"often as {concurrency.RETRIES.key} says)"
)


def _changed_error(scope: WriteScope, instant: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {scope.instant}: since its rows were read the {instant.action.value} {instant.time} "
        f"{what}; {_REMEDY}",
        instant=instant.time,
    )
