"""Plans a clean: which files of which partitions to delete (`CleanPlanner`, `CleanPlanActionExecutor`, 1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_py.config import Options
from hudi_py.config import services as clean_config
from hudi_py.config.services import KEEP_LATEST_FILE_VERSIONS, cleaning_policy
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.model.words import counted
from hudi_py.schema.patterns import matching
from hudi_py.services.clean.policy import (
    FILTERED,
    changed_partitions,
    earliest_to_retain,
    last_clean,
    reason_not_due,
    reason_nothing_retained,
)
from hudi_py.services.clean.slices import CHANGE_LOG, Guards, Slice, Slicer, is_data_file, load_guards
from hudi_py.services.context import ServiceContext
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.clean_records import SAVEPOINTS, CleanMetadata, CleanPlan, RetainedInstant
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms
from hudi_py.view import FileSystemView, StorageLister

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, or the reason why there is none."""

    plan: CleanPlan | None
    reason: str = ""


def plan_clean(
    context: ServiceContext,
    state: TableState,
    options: Options,
    *,
    now_ms: int,
    groups: frozenset[FileGroup] | None = None,
) -> Planned:
    """Plans a clean of the table. Changes nothing.

    Args:
        state: the current state, without pending cleans.
        options: options of the clean, which may differ from those of the context.
        now_ms: milliseconds since the epoch, from which hours are counted.
        groups: only these file groups are cleaned, by default all. Of these, the change logs of all versions go too.

    Raises:
        CorruptFileError: a plan, savepoint or commit cannot be read.
    """
    storage, config, timeline = context.storage, state.config, state.timeline
    last, earliest, reason = _cleaning_due(context, timeline, options, now_ms)
    if reason:
        return Planned(None, reason)
    metadata = last[1] if last is not None else None
    if _awaits_compaction(state, options):
        return Planned(None, "the metadata table has not been compacted since the last clean")
    guards = load_guards(storage, timeline)
    changed: set[str] | None = None
    if options.get(clean_config.CLEAN_INCREMENTAL) and earliest is not None:
        changed = changed_partitions(state, last, earliest, guards.savepoints)
    files: dict[str, tuple[str, ...]] = {}
    partitions: list[str] = []
    considered = 0
    if changed is None or changed:
        view = context.view(state)
        chosen = sorted(changed) if changed is not None else _chosen_partitions(view.partitions(), options, groups)
        considered = len(chosen)
        versions = options.get(clean_config.CLEAN_FILE_VERSIONS_RETAINED)
        retention = _Retention(versions, None if earliest is None else earliest.time, groups, guards)
        planner = _Planner(context, view, retention, metadata)
        for partition, names, deletable in planner.plan(chosen):
            if names or deletable:
                # even without files, or Apache Hudi would not report the partition as deleted
                files[partition] = tuple(f"{storage.uri}/{join_path(partition, name)}" for name in names)
            if deletable:
                partitions.append(partition)
    plan = CleanPlan(
        policy=cleaning_policy(options),
        earliest=None if earliest is None else RetainedInstant(earliest.time, earliest.action.value),
        last_completed=timeline.write_completed[-1].time if timeline.write_completed else "",
        files=files,
        partitions_to_delete=tuple(partitions),
        extra=_extra_metadata(options, groups, guards, partitioned=bool(config.partition_fields)),
    )
    if files:
        return Planned(plan)
    if _marks_progress(context, options, plan, last, now_ms):
        return Planned(_not_backwards(plan, metadata))
    partitions_seen = counted(considered, "partition")
    kept = f"{counted(options.get(clean_config.CLEAN_FILE_VERSIONS_RETAINED), 'version')} of each file group"
    if earliest is not None:
        kept = f"what queries as of {earliest.time} and later need"
    return Planned(None, f"no file is superfluous in the {partitions_seen} considered; kept: {kept}")


def _awaits_compaction(state: TableState, options: Options) -> bool:
    """Returns whether a metadata table, cleaned by file versions, has had no new versions since the last clean."""
    config = state.config
    by_versions = cleaning_policy(options) == KEEP_LATEST_FILE_VERSIONS
    return by_versions and config.is_metadata_table and config.is_mor and not _compacted_since(state.timeline)


def why_not_due(context: ServiceContext, timeline: Timeline, options: Options, *, now_ms: int) -> str:
    """Returns why no clean is due, as far as the timeline shows it without listing files; empty if one may be.

    Raises:
        CorruptFileError: the last clean cannot be read.
    """
    return _cleaning_due(context, timeline, options, now_ms)[2]


def _cleaning_due(
    context: ServiceContext, timeline: Timeline, options: Options, now_ms: int
) -> tuple[tuple[Instant, CleanMetadata] | None, Instant | None, str]:
    """Returns the last clean, the earliest commit to retain, and why no clean is due."""
    last = last_clean(context.storage, timeline)
    metadata = last[1] if last is not None else None
    reason = reason_not_due(timeline, options, metadata)
    if reason:
        return last, None, reason
    earliest = earliest_to_retain(
        timeline,
        options,
        now_ms=now_ms,
        zone=context.session.zone,
        last_earliest=metadata.earliest_commit_to_retain if metadata is not None else "",
    )
    if earliest is None and cleaning_policy(options) != KEEP_LATEST_FILE_VERSIONS:
        reason = reason_nothing_retained(timeline, options)
    return last, earliest, reason


@dataclass(frozen=True, slots=True)
class _Retention:
    """What a clean keeps."""

    versions: int
    """How many of each file group, if no commit is named."""
    earliest: InstantTime | None
    """The earliest commit to retain."""
    groups: frozenset[FileGroup] | None
    """Only these file groups are cleaned; None: all."""
    guards: Guards


class _Planner:
    """Chooses the files to delete, one partition at a time."""

    def __init__(
        self, context: ServiceContext, view: FileSystemView, retention: _Retention, last: CleanMetadata | None
    ) -> None:
        self._context = context
        self._versions = retention.versions
        self._groups = retention.groups
        self._earliest = retention.earliest
        self._guards = retention.guards
        self._view = view
        self._slicer = Slicer(view)
        self._failed = {part.partition_path: part.failed for part in last.partitions} if last is not None else {}
        self._storage_lister = StorageLister(context.storage, view.config)

    def plan(self, partitions: list[str]) -> list[tuple[str, list[str], bool]]:
        """Returns the path of each partition, the sorted names of files to delete, and whether to delete the
        partition."""
        paths = [PartitionPath(partition) for partition in partitions]
        return self._view.in_portions(
            paths, lambda some: when_remote(self._context.storage, self._plan_partition, some)
        )

    def _superfluous_slices(self, partition: str, file_id: str, slices: list[Slice]) -> tuple[list[Slice], bool]:
        """Returns the slices of a file group that may go, and whether the file group remains."""
        replaced_at = self._view.replaced.get((partition, file_id))
        if replaced_at is None:
            policy = self._by_versions if self._earliest is None else self._by_commits
            return policy(partition, file_id, slices), True
        if self._earliest is not None and replaced_at >= self._earliest:
            return [], True
        return [slice_ for slice_ in slices if not self._is_guarded(partition, file_id, slice_)], False

    def _plan_partition(self, partition: str) -> tuple[str, list[str], bool]:
        listed = [info.name for info in self._view.lister.files(PartitionPath(partition))]
        groups = self._slicer.groups(partition, listed)
        going: set[str] = set()
        live = False
        among = self._groups
        for file_id, slices in groups.items():
            if among is not None and (partition, file_id) not in among:
                live = True
                continue
            superfluous, is_live = self._superfluous_slices(partition, file_id, slices)
            live = live or is_live
            for slice_ in superfluous:
                if not self._is_kept(partition, slice_):
                    going.update(slice_.names)
            if among is not None:
                kept = (slice_ for slice_ in slices if not self._is_kept(partition, slice_))
                going.update(name for slice_ in kept for name in slice_.names if name.endswith(CHANGE_LOG))
        going.update(self._to_retry(partition, set(listed)))
        deletable = not live and bool(self._view.config.partition_fields) and self._is_all(partition, going)
        return partition, sorted(going), deletable

    def _by_commits(self, partition: str, file_id: str, slices: list[Slice]) -> list[Slice]:
        """Returns the slices before the earliest commit to retain, except the last of them and the newest of the file
        group."""
        earliest = self._earliest
        assert earliest is not None
        newest = slices[0].base_instant
        if len(slices) == 1 or slices[-1].base_instant >= earliest:
            return []
        before = next((slice_.base_instant for slice_ in slices if slice_.base_instant < earliest), None)
        return [
            slice_
            for slice_ in slices
            if slice_.base_instant < earliest
            and slice_.base_instant not in (newest, before)
            and not self._is_guarded(partition, file_id, slice_)
        ]

    def _by_versions(self, partition: str, file_id: str, slices: list[Slice]) -> list[Slice]:
        """Returns all but the newest slices. The slice that a pending compaction will write counts; savepointed ones do
        not."""
        keep = self._versions
        if (partition, file_id) in self._guards.compacting:
            keep -= 1
        going: list[Slice] = []
        for slice_ in slices:
            if self._is_guarded(partition, file_id, slice_) or self._is_kept(partition, slice_):
                continue
            if keep > 0:
                keep -= 1
            else:
                going.append(slice_)
        return going

    def _is_guarded(self, partition: str, file_id: str, slice_: Slice) -> bool:
        return self._guards.needs(partition, file_id, slice_.base_instant)

    def _is_kept(self, partition: str, slice_: Slice) -> bool:
        guards = self._guards
        if guards.savepointed and not guards.savepointed.isdisjoint(slice_.names):
            return True
        return bool(guards.clustering) and any((partition, name) in guards.clustering for name in slice_.names)

    def _to_retry(self, partition: str, listed: set[str]) -> list[str]:
        """Returns the files that the last clean failed to delete and the metadata table no longer lists."""
        storage = self._context.storage
        return [
            name
            for name in self._failed.get(partition, ())
            if name not in listed
            and name not in self._guards.savepointed
            and is_data_file(name)
            and storage.stat(join_path(partition, name)) is not None
        ]

    def _is_all(self, partition: str, going: set[str]) -> bool:
        """Returns whether the partition exists and would be empty after the clean.

        The storage is listed, because the metadata table does not show the files of running writes.
        """
        listed = self._storage_lister.files(PartitionPath(partition))
        if not listed and (self._view.lister.is_storage or partition not in self._view.partitions()):
            return False  # an earlier clean deleted it
        return all(info.name in going for info in listed if is_data_file(info.name))


def needed_files(
    context: ServiceContext, state: TableState, guards: Guards, partitions: list[str]
) -> set[tuple[str, str]]:
    """Returns the partition path and name of files that must stay: those of guarded slices, and of each group's newest
    slice."""
    view = context.view(state)
    slicer = Slicer(view)
    needed: set[tuple[str, str]] = set(guards.clustering)
    for partition in partitions:
        names = [info.name for info in view.lister.files(PartitionPath(partition))]
        for file_id, slices in slicer.groups(partition, names).items():
            visible = (partition, file_id) not in view.replaced
            newest = next((slice_ for slice_ in slices if slice_.names), None)
            for slice_ in slices:
                kept = not guards.savepointed.isdisjoint(slice_.names)
                if kept or (visible and slice_ is newest) or guards.needs(partition, file_id, slice_.base_instant):
                    needed.update((partition, name) for name in slice_.names)
    return needed


def _chosen_partitions(
    partitions: list[PartitionPath], options: Options, groups: frozenset[FileGroup] | None
) -> list[str]:
    if groups is not None:
        return sorted({partition for partition, _ in groups})
    selected = set(options.get(clean_config.CLEAN_PARTITIONS_SELECTED))
    if selected:
        return [partition for partition in partitions if partition in selected]
    pattern = options.get(clean_config.CLEAN_PARTITION_REGEX)
    if pattern:
        return matching(pattern, partitions, clean_config.CLEAN_PARTITION_REGEX.key, whole=True)
    return [str(partition) for partition in partitions]


def _compacted_since(timeline: Timeline) -> bool:
    """Returns whether a metadata table was compacted since its last clean, or was never cleaned."""
    cleans = [instant for instant in timeline.instants if instant.action is Action.CLEAN]
    return not cleans or any(
        instant.action is not Action.DELTA_COMMIT and (instant.completion_time or "") > cleans[-1].time
        for instant in timeline.write_completed
    )


def _extra_metadata(
    options: Options, groups: frozenset[FileGroup] | None, guards: Guards, *, partitioned: bool
) -> dict[str, str]:
    extra: dict[str, str] = {}
    if guards.savepoints and partitioned:
        extra[SAVEPOINTS] = ",".join(guards.savepoints)
    selected, pattern = (
        options.get(clean_config.CLEAN_PARTITIONS_SELECTED),
        options.get(clean_config.CLEAN_PARTITION_REGEX),
    )
    if selected or pattern or groups is not None:
        chosen = selected or sorted({partition for partition, _ in groups or ()})
        extra[FILTERED] = pattern or ",".join(chosen)
    return extra


def _marks_progress(
    context: ServiceContext,
    options: Options,
    plan: CleanPlan,
    last: tuple[Instant, CleanMetadata] | None,
    now_ms: int,
) -> bool:
    """Returns whether a plan without files is recorded as an instant anyway."""
    interval = options.get(clean_config.EMPTY_CLEAN_INTERVAL_HOURS)
    if interval <= 0 or not options.get(clean_config.CLEAN_INCREMENTAL) or plan.earliest is None:
        return False
    if last is None:
        return True
    return now_ms - epoch_ms(last[0].time, context.session.zone) > interval * _HOUR_MS


def _not_backwards(plan: CleanPlan, last: CleanMetadata | None) -> CleanPlan:
    before = last.earliest_commit_to_retain if last is not None else ""
    if plan.earliest is None or plan.earliest.time >= before:
        return plan
    earliest = RetainedInstant(before, plan.earliest.action, plan.earliest.state)
    return CleanPlan(plan.policy, earliest, plan.last_completed, extra=plan.extra)
