"""The procedures that show the timeline, cleans and rollbacks (`ShowTimelineProcedure`, `ShowCleansProcedure`,
`ShowCleansPlanProcedure`, `ShowRollbacksProcedure`, `CommitsCompareProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.inspect.procedures.shown import Given, Opened, Rows, Shown, columns, limited, needed_text, text_of
from hudi_py.model.instant import Action, Instant, State
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.pending_plans import clustering_plan, compaction_plan
from hudi_py.timeline.records import Fields, decode_record


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An instant of the active timeline or of the archived one."""

    time: str
    action: Action
    state: State
    completion: str | None
    archived: bool
    file_name: str
    content: Callable[[], bytes | None]
    """Reads the completed file."""
    plan: Callable[[], bytes | None]
    """Reads the requested file."""

    @property
    def described(self) -> str:
        return f"the {self.action.value} {self.time}"

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED

    def result(self) -> dict[str, Any]:
        return decode_record(self.content() or b"", self.described)

    def requested(self) -> dict[str, Any]:
        return decode_record(self.plan() or b"", f"the plan of {self.described}")


def active_entries(table: Opened, *actions: Action) -> list[TimelineEntry]:
    """Lists entries, newest first; all actions if none is named."""
    layout, storage = table.timeline.layout, table.storage

    def entry(instant: Instant) -> TimelineEntry:
        plans = () if instant.action is Action.SAVEPOINT else layout.plan_paths(instant.time, instant.action)
        return TimelineEntry(
            instant.time,
            instant.action,
            instant.state,
            instant.completion_time,
            archived=False,
            file_name=instant.file_name,
            content=lambda: storage.read(layout.path(instant.file_name)),
            plan=lambda: storage.read(plans[0]),
        )

    return [entry(instant) for instant in reversed(table.timeline.instants) if not actions or instant.action in actions]


def archived_entries(table: Opened, *actions: Action, plans: bool = False) -> list[TimelineEntry]:
    """Lists entries, newest first, without those that are still active; entries of named actions have their
    contents."""
    active = {(instant.time, instant.action.comparable) for instant in table.timeline.instants}
    instants = archived_instants(
        table.storage,
        table.config,
        ArchiveQuery(
            chosen=(lambda instant: instant.action in actions) if actions else None, metadata=bool(actions), plans=plans
        ),
    )

    def entry(position: int) -> TimelineEntry:
        item = instants[position]
        return TimelineEntry(
            item.time,
            item.action,
            item.state,
            item.completion_time,
            archived=True,
            file_name=f"{item.time}.{item.action.value}",
            content=lambda: item.metadata,
            plan=lambda: item.plan,
        )

    kept = (index for index, item in enumerate(instants) if (item.time, item.action.comparable) not in active)
    return [entry(index) for index in reversed(list(kept))]


# ---- cleans


def _show_cleans(table: Opened, given: Given, rows: Callable[[TimelineEntry], Iterator[tuple[Any, ...]]]) -> Rows:
    """Lists completed cleans, newest first."""
    entries = [entry for entry in active_entries(table, Action.CLEAN) if entry.completed]
    if given["showArchived"]:
        entries += archived_entries(table, Action.CLEAN)
    entries.sort(key=lambda entry: entry.time, reverse=True)
    return islice((row for entry in entries for row in rows(entry)), limited(given))


def _clean_rows(entry: TimelineEntry) -> Iterator[tuple[Any, ...]]:
    record = entry.result()
    yield (
        entry.time,
        entry.completion,
        entry.action.value,
        record.get("startCleanTime"),
        record.get("timeTakenInMillis"),
        record.get("totalFilesDeleted"),
        record.get("earliestCommitToRetain"),
        record.get("lastCompletedCommitTimestamp"),
        record.get("version"),
    )


def _cleaned_partitions(entry: TimelineEntry) -> Iterator[tuple[Any, ...]]:
    record = Fields(entry.result(), entry.described)
    for path, partition in record.record_map("partitionMetadata").items():
        yield (
            entry.time,
            entry.completion,
            entry.action.value,
            record.optional_text("startCleanTime"),
            path,
            partition.optional_text("policy"),
            len(partition.texts("deletePathPatterns")),
            len(partition.texts("successDeleteFiles")),
            len(partition.texts("failedDeleteFiles")),
            partition.flag("isPartitionDeleted"),
            record.number("timeTakenInMillis"),
            record.number("totalFilesDeleted"),
        )


def _clean_plans(table: Opened, given: Given) -> Rows:
    entries = active_entries(table, Action.CLEAN)
    if given["showArchived"]:
        entries += archived_entries(table, Action.CLEAN, plans=True)
    entries.sort(key=lambda entry: entry.time, reverse=True)
    for entry in entries[: limited(given)]:
        head = (entry.time, entry.state.name, entry.action.value)
        try:
            record = Fields(entry.requested(), entry.described)
        except (CorruptFileError, FileNotFoundError):  # in Apache Hudi such a plan also has a row without contents
            yield (*head, *(None,) * 7)
            continue
        earliest = record.record("earliestInstantToRetain")
        extra = record.text_map("extraMetadata")
        yield (
            *head,
            None if earliest is None else earliest.optional_text("timestamp"),
            record.optional_text("lastCompletedCommitTimestamp"),
            record.optional_text("policy"),
            record.optional_number("version"),
            len(record.records_map("filePathsToBeDeletedPerPartition")),
            len(record.texts("partitionsToBeDeleted")),
            ", ".join(f"{key}={value}" for key, value in extra.items()) or None,
        )


# ---- compactions


def _show_compactions(table: Opened, given: Given) -> Rows:
    """Lists pending and completed compactions, newest first, with the number of file groups that they compact."""
    if not table.config.is_mor:
        raise ConfigError(
            f"Cannot show the compactions of {table.storage.uri}: it is a table of the type {table.config.table_type}, "
            "which has no logs to compact"
        )
    layout = table.timeline.layout
    for entry in active_entries(table, Action.COMPACTION, Action.COMMIT)[: limited(given)]:
        plan = compaction_plan(table.storage, layout, entry.time, Action.COMPACTION)
        if plan is not None:
            yield entry.time, len(plan.operations), entry.state.name


# ---- clusterings


def _show_clusterings(table: Opened, given: Given) -> Rows:
    """Lists pending and completed clusterings, newest first, with the number of groups and, if wanted, the partition of
    each file slice of their plans. The limit includes other replacecommits."""
    layout = table.timeline.layout
    for entry in active_entries(table, Action.CLUSTERING, Action.REPLACE_COMMIT)[: limited(given)]:
        plan = clustering_plan(table.storage, layout, entry.time)
        if plan is not None:
            paths = ",".join(sorted(slice_.partition_path for slice_ in plan.slices))
            shown = paths if given["show_involved_partition"] else "*"
            yield entry.time, len(plan.groups), entry.state.name, shown


# ---- rollbacks


def _rolled_back(record: Mapping[str, Any]) -> list[str]:
    return [str(item) for item in record.get("commitsRollback") or ()]


def _show_rollbacks(table: Opened, given: Given) -> Rows:
    """Lists rollbacks, oldest first."""
    entries = [entry for entry in reversed(active_entries(table, Action.ROLLBACK)) if entry.completed]
    records = [entry.result() for entry in entries]
    result = (
        (
            record.get("startRollbackTime"),
            instant,
            record.get("totalFilesDeleted"),
            record.get("timeTakenInMillis"),
            len(record.get("partitionMetadata") or ()),
        )
        for record in records
        for instant in _rolled_back(record)
    )
    return islice(result, limited(given))


def _rollback_detail(table: Opened, given: Given) -> Rows:
    time = needed_text(given, "instant_time")
    entries = [entry for entry in active_entries(table, Action.ROLLBACK) if entry.time == time and entry.completed]
    if not entries:
        raise ConfigError(
            f"Cannot show the rollback {time} of {table.storage.uri}: the active timeline has no completed rollback of "
            "this time; CALL show_rollbacks lists them"
        )
    record = entries[0].result()
    shown = f"[{', '.join(_rolled_back(record))}]"
    result = (
        (record.get("startRollbackTime"), shown, path, file, deleted)
        for path, partition in (record.get("partitionMetadata") or {}).items()
        for name, deleted in (("successDeleteFiles", True), ("failedDeleteFiles", False))
        for file in partition.get(name) or ()
    )
    return islice(result, limited(given))


# ---- timeline


def _show_timeline(table: Opened, given: Given) -> Rows:
    """Lists the timeline, newest first. A range with both ends is listed completely, whatever the limit."""
    start, end = text_of(given, "startTime"), text_of(given, "endTime")
    entries = active_entries(table)
    undone = _undone_instants([entry for entry in entries if entry.action is Action.ROLLBACK])
    if given["showArchived"]:
        older = archived_entries(table)
        rollbacks = (
            archived_entries(table, Action.ROLLBACK) if any(item.action is Action.ROLLBACK for item in older) else []
        )
        own = {rollback.time: rollback for rollback in rollbacks}
        entries += [own.get(item.time, item) if item.action is Action.ROLLBACK else item for item in older]
        undone |= _undone_instants(rollbacks)
        entries.sort(key=lambda entry: entry.time, reverse=True)
    entries = [entry for entry in entries if start <= entry.time and (not end or entry.time <= end)]
    modified = _modified_times(table)
    for entry in entries if start and end else entries[: limited(given)]:
        yield (
            entry.time,
            entry.action.value,
            entry.state.name,
            *_state_times(entry, modified),
            "ARCHIVED" if entry.archived else "ACTIVE",
            _undoing_text(entry, undone),
        )


def _rollback_targets(entry: TimelineEntry) -> list[str]:
    """Returns what a rollback undoes."""
    if entry.completed:
        return _rolled_back(entry.result())
    instant = Fields(entry.requested(), entry.described).record("instantToRollback")
    return [] if instant is None else [instant.text("commitTime")]


def _undone_instants(rollbacks: list[TimelineEntry]) -> dict[str, list[str]]:
    """Returns the rollbacks of each instant."""
    result: dict[str, list[str]] = {}
    for entry in reversed(rollbacks):
        try:
            targets = _rollback_targets(entry)
        except (CorruptFileError, FileNotFoundError):  # the doctor reports it; show the rest
            continue
        for time in targets:
            result.setdefault(time, []).append(entry.time)
    return result


def _undoing_text(entry: TimelineEntry, undone: Mapping[str, list[str]]) -> str | None:
    if entry.action is not Action.ROLLBACK:
        return f"Rolled back by: {', '.join(undone[entry.time])}" if entry.time in undone else None
    try:
        targets = ", ".join(_rollback_targets(entry))
    except (CorruptFileError, FileNotFoundError):
        return None
    return f"Rolled back: {targets}" if entry.completed else f"Rolls back {targets}"


def _state_times(entry: TimelineEntry, modified: Mapping[tuple[str, Action, State], str]) -> list[str | None]:
    """Returns when the instant was requested, begun and completed; the archive has two of these times."""
    if entry.archived:
        requested = _shown_time(entry.time)
        return [requested, requested, _shown_time(entry.completion or entry.time)]
    return [modified.get((entry.time, entry.action.comparable, state)) for state in State]


def _shown_time(time: str) -> str:
    return f"{time[4:6]}-{time[6:8]} {time[8:10]}:{time[10:12]}:{time[12:14]}"


def _modified_times(table: Opened) -> dict[tuple[str, Action, State], str]:
    """Returns the modification times of the active timeline's files, in this process's time zone."""
    layout = table.timeline.layout
    result: dict[tuple[str, Action, State], str] = {}
    for info in table.storage.list(layout.folder):
        instant = None if info.is_dir else layout.parse(info.name)
        if instant is not None:
            when = datetime.fromtimestamp(info.modified_ms / 1000)
            result[instant.time, instant.action.comparable, instant.state] = when.strftime("%m-%d %H:%M:%S")
    return result


def _compare_commits(table: Opened, given: Given) -> Rows:
    """Compares commits by requested time, as `InstantComparison` does."""
    other = Opened(needed_text(given, "path"), table.options)
    own, others = ([item.time for item in one.timeline.write_completed] for one in (table, other))
    newest, newest_of_other = (times[-1] if times else "0" for times in (own, others))
    name = table.config.name
    if newest_of_other > newest:
        missing, word = [other for other in others if other > newest], "behind"
    else:
        missing, word = [item for item in own if item > newest_of_other], "ahead"
    result = f"[{', '.join(missing)}]"
    yield (f"Source {name} is {word} by {len(missing)} commits. Commits to catch up - {result}",)


_CLEANS: Final = {"table": None, "limit": 10, "showArchived": False, "filter": ""}
PROCEDURES: Final = {
    "show_compaction": Shown(
        {"table": None, "path": None, "limit": 20},
        columns("timestamp text, operation_size int, state text"),
        _show_compactions,
    ),
    "show_clustering": Shown(
        {"table": None, "path": None, "limit": 20, "show_involved_partition": False},
        columns("timestamp text, input_group_size int, state text, involved_partitions text"),
        _show_clusterings,
    ),
    "show_rollbacks": Shown(
        {"table": None, "limit": 10},
        columns(
            "instant text, rollback_instant text, total_files_deleted int, time_taken_in_millis long, "
            "total_partitions int"
        ),
        _show_rollbacks,
    ),
    "show_rollback_detail": Shown(
        {"table": None, "limit": 10, "instant_time": None},
        columns("instant text, rollback_instant text, partition text, deleted_file text, succeeded flag"),
        _rollback_detail,
    ),
    "show_cleans": Shown(
        _CLEANS,
        columns(
            "clean_time text, state_transition_time text, action text, start_clean_time text, "
            "time_taken_in_millis long, total_files_deleted int, earliest_commit_to_retain text, "
            "last_completed_commit_timestamp text, version int"
        ),
        lambda table, given: _show_cleans(table, given, _clean_rows),
    ),
    "show_cleans_metadata": Shown(
        _CLEANS,
        columns(
            "clean_time text, state_transition_time text, action text, start_clean_time text, partition_path text, "
            "policy text, delete_path_patterns int, success_delete_files int, failed_delete_files int, "
            "is_partition_deleted flag, time_taken_in_millis long, total_files_deleted int"
        ),
        lambda table, given: _show_cleans(table, given, _cleaned_partitions),
    ),
    "show_clean_plans": Shown(
        _CLEANS,
        columns(
            "plan_time text, state text, action text, earliest_instant_to_retain text, "
            "last_completed_commit_timestamp text, policy text, version int, total_partitions_to_clean int, "
            "total_partitions_to_delete int, extra_metadata text"
        ),
        _clean_plans,
    ),
    "show_timeline": Shown(
        {
            "table": None,
            "path": None,
            "limit": 20,
            "showArchived": False,
            "filter": "",
            "startTime": "",
            "endTime": "",
        },
        columns(
            "instant_time text, action text, state text, requested_time text, inflight_time text, "
            "completed_time text, timeline_type text, rollback_info text"
        ),
        _show_timeline,
    ),
    "commits_compare": Shown(
        {"table": None, "path": None}, columns("compare_detail text"), _compare_commits, compares=True
    ),
}
