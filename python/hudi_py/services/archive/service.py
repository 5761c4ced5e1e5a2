"""Archiving: completed instants are written to the archive, then removed from the active timeline.

Archiving is not an action on the timeline: it has no instant and nothing to complete, so it needs only the table lock.

The archive is complete before the first state file is deleted. Pending files are deleted before completed ones,
because an instant without its completed file would look pending; completed files are deleted oldest first, so that the
timeline never has a hole (HUDI-7207). A process that dies in between leaves instants that are both archived and
active; the next run removes them from the active timeline.

Replacecommits are archived once the file groups that they replaced are gone; otherwise these would count again. Apache
Hudi relies on what the last clean retained (`ClusteringUtils.getEarliestInstantToRetainForClustering`, 1.2.0). But a
clean of chosen partitions, a savepoint, a write that was pending then, or a file that could not be deleted leaves
replaced files behind, whose rows would reappear. And if no file ever becomes superfluous, there is no clean, and
nothing would be archived. So hudi-py looks for the files themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hudi_py.config import Options
from hudi_py.config import services as config
from hudi_py.config import services as services_config
from hudi_py.config.services import check_archive
from hudi_py.errors import TableNotFoundError
from hudi_py.metadata.table import FILES as FILES_PARTITION
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.model.layout import MARKERS, METADATA_TABLE
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.services.archive import lsm, v1
from hudi_py.services.archive.select import ArchiveConstraints, Selection, select_instants, too_few
from hudi_py.services.clean.policy import last_clean
from hudi_py.services.clean.slices import split_base_name, split_log_name
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Due, InstantArgument, Service, Step, done
from hudi_py.services.planned.service import ServiceReport
from hudi_py.storage import FolderStorage, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import ArchivedInstant, archive_folder, archived_instants, check_history
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline, timeline_of
from hudi_py.timeline.times import table_zone
from hudi_py.transaction.markers import remove_markers

_log = logging.getLogger(__name__)

NAME: Final = "archive"
_INSTANTS_AT_ONCE: Final = 500
"""Maximum number of instants in one archive file, so that archiving a long timeline takes bounded memory."""
Key = tuple[str, Action]


@dataclass(frozen=True, slots=True, repr=False)
class ArchiveReport(ServiceReport):
    """The result of archiving. `instant` is the newest archived instant, or None; it has no completion time."""

    num_instants: int = 0
    oldest: InstantTime | None = None
    files_written: tuple[str, ...] = ()
    """Names of the new archive files."""
    written_bytes: int = 0
    num_files_deleted: int = 0
    """State files deleted from the active timeline."""
    num_levels_compacted: int = 0
    """Levels of the archive that were compacted (timeline layout 2)."""
    num_files_merged: int = 0
    """Small archive files that were merged into one (timeline layout 1)."""
    num_files_cleaned: int = 0
    """Archive files deleted because no reader needs them anymore."""

    def _summary(self) -> Iterator[str]:
        if self.num_instants:
            yield f"{counted(self.num_instants, 'instant')} archived, {self.oldest} and newer"
        if self.written_bytes:
            yield f"{show_bytes(self.written_bytes)} written"
        for count, noun, verb in (
            (self.num_files_deleted, "timeline file", "removed"),
            (self.num_levels_compacted, "archive level", "compacted"),
            (self.num_files_merged, "archive file", "merged"),
            (self.num_files_cleaned, "archive file", "removed"),
        ):
            if count:
                yield f"{counted(count, noun)} {verb}"


def archive(context: ServiceContext, *, data_timeline: Timeline | None = None) -> ArchiveReport:
    """Archives the instants that the options allow, and maintains the archive itself.

    Args:
        data_timeline: for a metadata table, the active timeline of its table, which limits what may be archived.

    Raises:
        ConfigError: the options contradict each other.
        CorruptFileError: an instant to archive, or the archive, cannot be read; nothing was deleted.
        LockError: the table lock could not be acquired in time.
    """
    check_archive(context.options)
    with context.locked("archive instants") as state:
        report = _Archiver(context, state).run(data_timeline)
    _log.log(logging.DEBUG if report.instant is None else logging.INFO, "%s: %s", context.storage.uri, report)
    return report


def preview_archive(context: ServiceContext) -> Selection:
    """Returns the instants that `archive` would move now, or why there are none. Changes nothing, and does not take the
    lock.

    Raises:
        ConfigError: the options contradict each other.
    """
    check_archive(context.options)
    return _Archiver(context, context.state()).select(None)


def may_be_due(context: ServiceContext, state: TableState) -> bool:
    """Returns whether `archive` may find something to do, for callers that do not hold the table lock."""
    check_archive(context.options)
    if not too_few(state.timeline, context.options) or _half_deleted(state.timeline, _states_by_key(state.timeline)):
        return True
    if state.timeline.layout.has_completion_times:
        return False
    return context.options.get(config.ARCHIVE_MERGE) or v1.is_merging(context.storage, archive_folder(state.config))


def archive_commits(context: ServiceContext, state: TableState, commits: Sequence[Instant]) -> None:
    """Archives some completed commits regardless of the options. The table lock must be held."""
    _Archiver(context, state).archive(commits, ArchiveReport(NAME, None))


def archived_after(state: TableState, time: InstantTime) -> list[ArchivedInstant]:
    """Returns the archived commits after a savepointed one that is still active (`hoodie.archive.beyond.savepoint`)."""
    active = {instant.time for instant in state.timeline.instants}
    return archived_instants(
        state.storage,
        state.config,
        ArchiveQuery(
            since=time,
            chosen=lambda instant: (
                instant.action in WRITE_ACTIONS and instant.time > time and instant.time not in active
            ),
        ),
    )


class _Archiver:
    """A single call, under the table lock."""

    def __init__(self, context: ServiceContext, state: TableState) -> None:
        self._context = context
        self._storage = context.storage
        self._options = context.options
        self._state = state
        self._config = state.config
        self._timeline = state.timeline
        self._folder = archive_folder(self._config)
        self._states_by_key = _states_by_key(state.timeline)

    def run(self, data_timeline: Timeline | None) -> ArchiveReport:
        storage, folder, options = self._storage, self._folder, self._options
        report = ArchiveReport(NAME, None)
        if self._timeline.layout.has_completion_times:
            report = replace(report, num_files_deleted=self._finish_deletes())
        else:
            cleaned = v1.finish_merge(storage, folder)
            report = replace(report, num_files_cleaned=cleaned, num_files_deleted=self._finish_deletes())
        selection = self.select(data_timeline)
        if selection.instants:
            self._context.progress.phase("archiving instants")
            if self._timeline.layout.has_completion_times:
                check_history(storage, self._config)
        self._remove_markers(selection.instants)
        for start in range(0, len(selection.instants), _INSTANTS_AT_ONCE):
            report = self.archive(selection.instants[start : start + _INSTANTS_AT_ONCE], report)
        if report.num_instants and self._timeline.layout.has_completion_times:
            levels = lsm.compact_levels(
                storage,
                folder,
                batch=options.get(config.ARCHIVE_COMPACTION_BATCH),
                target_bytes=options.get(config.ARCHIVE_COMPACTION_TARGET),
            )
            retained = options.get(config.ARCHIVE_MANIFESTS_RETAINED) + levels
            cleaned = lsm.clean_versions(storage, folder, retained=retained)
            report = replace(report, num_levels_compacted=levels, num_files_cleaned=cleaned)
        elif options.get(config.ARCHIVE_MERGE) and not self._timeline.layout.has_completion_times:
            merged = v1.merge_small_files(
                storage,
                folder,
                limit_bytes=options.get(config.ARCHIVE_MERGE_LIMIT),
                batch=options.get(config.ARCHIVE_MERGE_BATCH),
            )
            report = replace(report, num_files_merged=merged)
        return report if report.num_instants else replace(report, reason=selection.reason)

    def select(self, data_timeline: Timeline | None) -> Selection:
        reason = too_few(self._timeline, self._options)
        if reason:
            return Selection((), reason)
        facts = gather_facts(self._state, data_timeline)
        return select_instants(self._timeline, self._options, facts)

    def archive(self, instants: Sequence[Instant], report: ArchiveReport) -> ArchiveReport:
        storage, folder, timeline = self._storage, self._folder, self._timeline
        threads = self._context.threads
        known = self._archived_keys(instants)
        new = [instant for instant in instants if _key_of(instant) not in known]
        names: tuple[str, ...] = ()
        size = 0
        if new and self._timeline.layout.has_completion_times:
            run, added = lsm.add_to_history(storage, folder, timeline, self._states_by_key, new, threads=threads)
            held_back = {_key_of(instant) for instant in new[len(added) :]}
            instants = [instant for instant in instants if _key_of(instant) not in held_back]
            if run is not None:
                names, size = (run.name,), run.size
        elif new:
            file = v1.add_to_archive(
                self._state,
                self._states_by_key,
                new,
                batch_size=self._options.get(config.ARCHIVE_BATCH_SIZE),
                zone=table_zone(self._config, self._context.session.zone),
                threads=threads,
            )
            names, size = (file.name,), file.size
        if not instants:
            return report
        return replace(
            report,
            instant=instants[-1].time,
            oldest=report.oldest or instants[0].time,
            num_instants=report.num_instants + len(instants),
            files_written=report.files_written + names,
            written_bytes=report.written_bytes + size,
            num_files_deleted=report.num_files_deleted + self._delete_states(instants),
        )

    def _archived_keys(self, instants: Sequence[Instant]) -> set[Key]:
        if not self._timeline.layout.has_completion_times:
            return v1.archived_keys(self._storage, self._folder, instants)
        return lsm.archived_keys(self._storage, self._config, self._folder, instants)

    def _finish_deletes(self) -> int:
        """Removes from the active timeline the instants that a dead process archived but only began to delete.

        If it had deleted nothing, the same instants are selected again and found in the archive. Otherwise, an instant
        lacks its pending files.
        """
        if not _half_deleted(self._timeline, self._states_by_key):
            return 0
        completed = [instant for instant in self._timeline.completed if instant.action is not Action.SAVEPOINT]
        known = self._archived_keys(completed)
        instants = [instant for instant in completed if _key_of(instant) in known]
        deleted = self._delete_states(instants)
        if deleted:
            gone = {file.file_name for instant in instants for file in self._states_by_key[_key_of(instant)]}
            kept = [file for file in self._timeline.files if file.file_name not in gone]
            self._timeline = timeline_of(self._timeline.layout, kept)
            self._states_by_key = _states_by_key(self._timeline)
        return deleted

    def _delete_states(self, instants: Sequence[Instant]) -> int:
        storage, layout = self._storage, self._timeline.layout
        files = [file for instant in instants for file in self._states_by_key[_key_of(instant)]]
        pending = [layout.path(file.file_name) for file in files if not file.completed]
        deleted = sum(when_remote(storage, storage.delete, pending, self._context.threads))
        storage.sync()  # an instant without its completed file would look pending and be rolled back
        for file in files:
            if file.completed:
                deleted += storage.delete(layout.path(file.file_name))
        return deleted

    def _remove_markers(self, instants: Iterable[Instant]) -> None:
        """Removes marker folders left by processes that died right after their commit."""
        times = {instant.time for instant in instants}
        left = {info.name for info in self._storage.list(MARKERS)} if times else set()
        for time in sorted(times & left):
            remove_markers(self._storage, time)


def gather_facts(state: TableState, data_timeline: Timeline | None = None) -> ArchiveConstraints:
    """Collects the facts besides the timeline that decide which instants may be archived.

    Raises:
        CorruptFileError: the last clean, a replacecommit, or a pending rollback or restore cannot be read.
    """
    has_metadata_table = FILES_PARTITION in state.config.metadata_partitions
    last = last_clean(state.storage, state.timeline)
    return ArchiveConstraints(
        merge_on_read=state.config.is_mor,
        earliest_retained=last[1].earliest_commit_to_retain if last is not None else "",
        replaced=first_replaced(state),
        has_metadata_table=has_metadata_table,
        metadata_compaction=_last_metadata_compaction(state.storage) if has_metadata_table else None,
        rolled_back=tuple(_instants_undone(state)),
        data_timeline=data_timeline,
    )


def _last_metadata_compaction(storage: Storage) -> str | None:
    metadata = FolderStorage(storage, METADATA_TABLE)
    try:
        timeline = load_timeline(metadata, load_table_config(metadata))
    except TableNotFoundError:
        return None
    done = [instant for instant in timeline.completed if instant.action is Action.COMMIT]
    return done[-1].time if done else None


def _instants_undone(state: TableState) -> list[str]:
    """Returns the instants that pending rollbacks undo, and the savepoints of pending restores."""
    plans = PendingPlans(state.storage, state.timeline)
    undone: list[str] = []
    for instant in plans.of(Action.ROLLBACK):
        undoing = plans.rollback(instant)
        undone.append(undoing.instant if undoing is not None else instant.time)
    for instant in plans.of(Action.RESTORE):
        restoring = plans.restore(instant)
        undone.append(restoring.savepoint if restoring is not None else instant.time)
    return [time for time in undone if time]


def _half_deleted(timeline: Timeline, states: Mapping[Key, Sequence[Instant]]) -> bool:
    """Returns whether pending files of a completed instant are gone."""
    return any(
        i.action is not Action.SAVEPOINT and all(file.completed for file in states[_key_of(i)])
        for i in timeline.completed
    )


def _states_by_key(timeline: Timeline) -> dict[Key, list[Instant]]:
    """Groups the state files of each instant, requested first."""
    states: dict[Key, list[Instant]] = {}
    for file in timeline.files:
        states.setdefault(_key_of(file), []).append(file)
    return states


def _key_of(instant: Instant) -> Key:
    return instant.time, instant.action.comparable


def first_replaced(state: TableState) -> str | None:
    """Finds the requested time of the first completed replacecommit whose replaced files may still exist.

    While a clean is pending, this is the first replacecommit: the metadata table does not yet record what the clean
    deleted.

    Raises:
        CorruptFileError: a replacecommit cannot be read.
    """
    replacing = [instant for instant in state.timeline.write_completed if instant.action is Action.REPLACE_COMMIT]
    cleaning = any(instant.action is Action.CLEAN for instant in state.timeline.pending)
    there: dict[str, frozenset[str]] = {}

    def holds(instant: Instant) -> bool:
        for partition, file_ids in read_commit_metadata(state.storage, state.timeline.layout, instant).replaced.items():
            if partition not in there:
                there[partition] = _file_ids(state.storage, partition)
            if not there[partition].isdisjoint(file_ids):
                return True
        return False

    return next((instant.time for instant in replacing if cleaning or holds(instant)), None)


def _file_ids(storage: Storage, partition: str) -> frozenset[str]:
    """Lists the file groups that have a base, log or change data file in a partition, whoever wrote it."""
    names = (info.name for info in storage.list(partition))
    parts = (split_log_name(name) if name[:1] == "." else split_base_name(name) for name in names)
    return frozenset(part[0] for part in parts if part is not None)


def _archive_if_due(context: ServiceContext, state: TableState) -> ServiceReport | None:
    # archiving is rarely due after a commit, and the timeline shows it without the lock
    return done(archive(context)) if may_be_due(context, state) else None


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(services_config.ARCHIVE_AUTOMATIC):
        yield Step("archive", _archive_if_due)


def _check_options(options: Options) -> None:
    # Even if archiving is off, as in `HoodieWriteConfig.validate`: the metadata table uses the same numbers
    check_archive(options)


def _find_due(context: ServiceContext, state: TableState) -> Due:
    selection = preview_archive(context)
    more = f"{counted(len(selection.instants), 'instant')} can be archived"
    gone = {(instant.time, instant.action.comparable) for instant in selection.instants}
    files = sum((state_file.time, state_file.action.comparable) in gone for state_file in state.timeline.files)
    return Due("archive", bool(gone), more if selection.instants else selection.reason, files=files)


def _run_service(context: ServiceContext, instant: str | None) -> ArchiveReport:
    return archive(context)


ARCHIVE: Final = Service(
    name="archive",
    help="Moves old instants from the active timeline to the archived one",
    run=_run_service,
    instant=InstantArgument.REFUSED,
    command="archive",
    after_commit=AfterCommitRule(
        _steps_after_commit, check_options=_check_options, switch={services_config.ARCHIVE_AUTOMATIC: "true"}
    ),
    due=_find_due,
)
