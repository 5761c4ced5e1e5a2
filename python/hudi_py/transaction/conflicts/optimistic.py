"""Allows several concurrent writers: of two that change the same file group, the one that commits later fails.

Candidates and rules are those of `SimpleConcurrentFileWritesConflictResolutionStrategy`,
`PreferWriterConflictResolutionStrategy`, `BucketIndexConcurrentFileWritesConflictResolutionStrategy` and
`ConcurrentOperation` (1.2.0), and for changes of the schema those of `SimpleSchemaConflictResolutionStrategy` and
`AvroSchemaComparatorForSchemaEvolution`. To find what completed since a write began, Apache Hudi compares with the
last completed instant and the set of pending ones at that time; the pin stands for both.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.formats.keys.buckets import BUCKET_DIGITS
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.table_schema import SCHEMA_KEY, SCHEMA_OF_PLAN
from hudi_py.transaction.conflicts.policy import ALTER_SCHEMA, BUCKET_RESCALE, WriteScope, check_plan, completed_since
from hudi_py.transaction.settings import ConflictStrategy, TransactionSettings

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class OptimisticWriters:
    """The `ConflictPolicy` of `OPTIMISTIC_CONCURRENCY_CONTROL`, and of `NON_BLOCKING_CONCURRENCY_CONTROL`, for which
    Apache Hudi does not check at all and loses rows added to a file group that is replaced in the meantime."""

    settings: TransactionSettings
    one_at_a_time: bool = False

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        _check_restores(table, scope)
        newest = table.timeline.instants[-1] if table.timeline.instants else None
        if not table.timeline.layout.has_completion_times and newest is not None and newest.time > scope.instant:
            # version 6 has no completion times: to other writes that began in between, a write that became pending only
            # now would look completed
            raise ConflictError(
                f"Cannot begin the write {scope.instant} of {table.session.storage.uri}: the {newest.action.value} "
                f"{newest.time} was requested after this write was planned, and table version {table.config.version} "
                "orders writes by the time at which they begin; write again, or upgrade the table to version 8 or 9",
                instant=newest.time,
            )

    def check_commit(self, table: LockedTable, scope: WriteScope) -> str | None:
        _check_restores(table, scope)
        _check_archived(table, scope)
        completed = [
            (instant, read_commit_metadata(table.session.storage, table.timeline.layout, instant))
            for instant in completed_since(table.timeline, scope)
        ]
        _check_altered(scope, completed)
        schema = schema_to_commit(table, scope, completed) if self.settings.get(concurrency.RESOLVE_SCHEMAS) else None
        for instant, metadata in completed:
            self.check_completed(table.config, scope, instant, metadata)
        for instant, operation, groups in self._pending_changes(table, scope):
            self._refuse_overlap(scope, instant, operation, groups)
        return schema

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None:
        check_plan(table, scope)

    def check_completed(
        self, config: TableConfig, scope: WriteScope, instant: Instant, metadata: CommitMetadata
    ) -> None:
        """Raises ConflictError if an instant completed since the write began has changed its file groups."""
        _check_replaced(self.settings.strategy, scope, instant, metadata)
        if not self._may_follow(config, scope, instant, metadata):
            shared = self._shared_logs(config, scope, instant, metadata)
            self._refuse_overlap(scope, instant, metadata.operation, metadata.changed_groups, shared)

    def _may_follow(self, config: TableConfig, scope: WriteScope, instant: Instant, metadata: CommitMetadata) -> bool:
        """Returns whether a completed instant is a compaction that a write to the same file groups may follow."""
        # log compactions are marked as compacted too; old compactions have no operation
        if metadata.operation != "COMPACT" and (metadata.operation == "LOG_COMPACT" or not metadata.compacted):
            return False
        if instant.time < scope.instant:
            return True  # pending when the write began, so the write added to the slice that it opens
        if self.settings.strategy is ConflictStrategy.PREFER_WRITER or not config.logs_named_by_instant:
            return False
        # logs belong to the slice that is newest when they complete
        return not (scope.touched - scope.logged) & metadata.changed_groups

    def _shared_logs(
        self, config: TableConfig, scope: WriteScope, instant: Instant, metadata: CommitMetadata
    ) -> frozenset[FileGroup]:
        """Returns the file groups to which both writes only added logs, if that is not a conflict."""
        if not self.settings.shares_logs or metadata.compacted:
            return frozenset()
        return scope.logged & WriteScope.of(instant.time, scope.pin, metadata, config).logged

    def _pending_changes(
        self, table: LockedTable, scope: WriteScope
    ) -> Iterator[tuple[Instant, str, frozenset[FileGroup]]]:
        """Yields the pending instants to check, with their operations and the file groups they change."""
        prefers_writer = self.settings.strategy is ConflictStrategy.PREFER_WRITER
        for instant in table.timeline.pending:
            if instant.time == scope.instant:
                continue
            if table.plans.is_clustering(instant):
                if not prefers_writer:
                    yield instant, "CLUSTER", table.plans.file_groups(instant)
            elif instant.time < scope.instant:
                continue
            elif instant.action is Action.COMPACTION and not table.config.logs_named_by_instant:
                # Apache Hudi's PreferWriter strategy skips these, and loses what the write adds to logs that the plan
                # does not name
                yield instant, "COMPACT", table.plans.file_groups(instant)
            elif instant.action is Action.REPLACE_COMMIT and instant.state is State.INFLIGHT and not prefers_writer:
                metadata = read_commit_metadata(
                    table.session.storage, table.timeline.layout, instant, may_be_empty=True
                )
                yield instant, metadata.operation, metadata.written_groups

    def _refuse_overlap(
        self,
        scope: WriteScope,
        instant: Instant,
        operation: str,
        groups: frozenset[FileGroup],
        shared: frozenset[FileGroup] = frozenset(),
    ) -> None:
        touched = scope.touched - shared
        if self.settings.strategy is ConflictStrategy.BUCKET:
            buckets = {(partition, file_id[:BUCKET_DIGITS]) for partition, file_id in groups}
            overlap = {group for group in touched if (group[0], group[1][:BUCKET_DIGITS]) in buckets}
        else:
            overlap = set(touched & groups)
        if not overlap:
            return
        partition, file_id = min(overlap)
        more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
        state = "completed since this write began, changed" if instant.completed else "is pending and changes"
        raise _conflict_error(
            scope.instant, instant, f"({operation}) {state} the file group {file_id} of partition {partition!r}{more}"
        )


def _check_restores(table: LockedTable, scope: WriteScope) -> None:
    seen = {other.time for other in table.timeline.at(scope.pin).completed}
    for instant in table.timeline.instants:
        if instant.action is Action.RESTORE and instant.time not in seen:
            what = "restored the table to an earlier state" if instant.completed else "is restoring the table"
            raise _conflict_error(scope.instant, instant, what)


def _check_altered(scope: WriteScope, completed: Sequence[tuple[Instant, CommitMetadata]]) -> None:
    """Refuses a write whose files may have columns or buckets other than those valid at its instant. Apache Hudi does
    not check that."""
    for instant, metadata in completed:
        if metadata.operation == ALTER_SCHEMA:
            raise _conflict_error(scope.instant, instant, "has altered the columns of the table")
        if metadata.operation == BUCKET_RESCALE:
            raise _conflict_error(scope.instant, instant, "has changed the numbers of buckets")
        if scope.alters and metadata.operation not in SCHEMA_OF_PLAN:
            raise _conflict_error(scope.instant, instant, f"({metadata.operation}) has been completed since it began")


def _check_replaced(strategy: ConflictStrategy, scope: WriteScope, instant: Instant, metadata: CommitMetadata) -> None:
    """Refuses writes by bucket to a partition of which one replaces file groups: with consistent hashing it may have
    replaced buckets that had no files yet, to which the other has written. Apache Hudi does not check that."""
    if strategy is not ConflictStrategy.BUCKET:
        return
    own, others = {partition for partition, _ in scope.touched}, {partition for partition, _ in metadata.changed_groups}
    both = (own & set(metadata.replaced)) | (others & {partition for partition, _ in scope.replaced})
    if both:
        raise _conflict_error(
            scope.instant,
            instant,
            f"({metadata.operation}) has changed the partition {min(both)!r}, and one of them replaces its file groups",
        )


def _check_archived(table: LockedTable, scope: WriteScope) -> None:
    """Refuses a write if an instant that was pending when it began may have completed and been archived since: its
    changes are then unknown. Apache Hudi ignores those."""
    timeline = table.timeline
    active = {instant.time for instant in timeline.instants}
    for time in sorted(scope.pending - active):
        if timeline.start is not None and time < timeline.start:
            raise ConflictError(
                f"Cannot commit the write {scope.instant}: the instant {time}, which was pending when the write began, "
                f"has been archived since, so whether it changed the same files cannot be checked; {_REMEDY}",
                instant=time,
            )


_REMEDY = f"nothing was published: write again ({concurrency.RETRIES.key} does so automatically)"


def _conflict_error(own: InstantTime, instant: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {own}: the {instant.action.value} {instant.time} {what}; {_REMEDY}",
        instant=instant.time,
    )


def schema_to_commit(
    table: LockedTable, scope: WriteScope, completed: Sequence[tuple[Instant, CommitMetadata]]
) -> str | None:
    """Returns the schema to commit instead of the write's own because another write has changed it; None: its own.

    Args:
        completed: instants that completed since the write began.

    Raises:
        ConflictError: both writes change the schema, in different ways.
    """
    changes = [(instant, text) for instant, metadata in completed if (text := _schema_of(metadata))]
    if not changes or not scope.schema_json:
        return None
    newest, now = max(changes, key=lambda change: change[0].completion_time or change[0].time)
    own = _comparable_schema(scope.schema_json)
    if own == _comparable_schema(now):
        return None
    before = _schema_before(table, scope)
    if before is not None and own == _comparable_schema(before):
        return now
    if before is None or _comparable_schema(before) != _comparable_schema(now):
        raise _schema_conflict(table, scope, newest, "changed the schema of the table in another way than this write")
    latest = max(changes, key=lambda entry: entry[0].time)[0]
    if latest.time > scope.instant:
        # The schema of a table is that of the write that began last, so this change would not be seen; Apache Hudi
        # commits it anyway
        raise _schema_conflict(table, scope, latest, "began after this write, which changes the schema of the table")
    return None


def _comparable_schema(schema_json: str) -> Hashable:
    """Returns a table's schema for comparison. Tables with schema on read store it with meta columns, others
    without."""
    record = json.loads(schema_json)
    return canonical({**record, "fields": [field for field in record["fields"] if field["name"] not in META_FIELDS]})


def canonical(schema: Any) -> Hashable:
    """Converts an Avro schema (parsed JSON) to a form that is equal for equivalent schemas: without documentation,
    namespaces, aliases, custom properties and the order of unions."""
    if isinstance(schema, str):
        return schema.rpartition(".")[2]
    if isinstance(schema, list):
        return "union", frozenset(canonical(field) for field in schema)
    kind = schema["type"]
    if not isinstance(kind, str):
        return canonical(kind)
    logical = tuple(schema.get(key) for key in ("logicalType", "precision", "scale")) if "logicalType" in schema else ()
    name = str(schema.get("name", "")).rpartition(".")[2]
    match kind:
        case "record":
            return kind, logical, tuple(_canonical_field(field) for field in schema["fields"])
        case "enum":
            return kind, name, tuple(schema["symbols"])
        case "fixed":
            return kind, name, schema["size"], logical
        case "array":
            return kind, canonical(schema["items"])
        case "map":
            return kind, canonical(schema["values"])
        case _:
            return (kind, logical) if logical else canonical(kind)


def _canonical_field(field: dict[str, Any]) -> Hashable:
    default = json.dumps(field["default"], sort_keys=True) if "default" in field else None
    return field["name"], field.get("order", "ascending"), default, canonical(field["type"])


def _schema_before(table: LockedTable, scope: WriteScope) -> str | None:
    """Returns the schema of the table when the write began."""
    seen = table.timeline.at(scope.pin).write_completed
    for instant in sorted(seen, key=lambda write: write.completion_time or write.time, reverse=True):
        text = _schema_of(
            read_commit_metadata(table.session.storage, table.timeline.layout, instant, may_be_empty=True)
        )
        if text:
            return text
    return None


def _schema_of(metadata: CommitMetadata) -> str:
    """Returns the schema that a commit records; a table service records that of its plan, which may be older."""
    return "" if metadata.operation in SCHEMA_OF_PLAN else metadata.extra.get(SCHEMA_KEY, "")


def _schema_conflict(table: LockedTable, scope: WriteScope, other: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {scope.instant} of {table.session.storage.uri}: the {other.action.value} "
        f"{other.time} {what}; nothing was published: write again ({concurrency.RETRIES.key} does so automatically), "
        f"or set {concurrency.RESOLVE_SCHEMAS.key}=false to commit this write's schema",
        instant=other.time,
    )
