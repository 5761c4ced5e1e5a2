"""Copies the timeline of a table to another layout: active instants, the archive, and the history of the schema.

Everything is copied first, to names that no reader of the table uses. The table changes with its properties, and the
old files are deleted last. So a process that dies leaves either the old table or the new one complete; other leftovers
do no harm, and the next change of the version removes them. Apache Hudi moves one file after another, so that readers
miss rows in the meantime (`SevenToEightUpgradeHandler`, `EightToSevenDowngradeHandler`, 1.2.0).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.properties import TableConfig
from hudi_py.services.archive.lsm import HistoryEntry, append_run
from hudi_py.services.archive.v1 import archive_entry, write_entries
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.storage.within import set_modified
from hudi_py.timeline.archived import ArchivedInstant, archive_folder, archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.metadata import convert_commit_metadata
from hudi_py.timeline.properties import make_table_folders
from hudi_py.timeline.records import decode_record, is_container
from hudi_py.timeline.table_schema import history_files, history_path
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.timeline.times import add_ms, epoch_ms, is_bootstrap, is_special

_AT_ONCE: Final = 500
"""Maximum number of archived instants in memory."""
_BLOCK_ENTRIES: Final = 10
"""Entries in a block of the archive of layout 1 (`hoodie.commits.archival.batch`)."""
_STATS: Final = "partitionToWriteStats"
_OWN_NAMES: Final = frozenset({*WRITE_ACTIONS, Action.CLUSTERING})
"""Actions whose inflight files hold the metadata of a commit, rather than nothing or a plan."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How much was copied."""

    instants: int = 0
    archived: int = 0


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """The change of a table, or metadata table, from one timeline layout to another."""

    storage: Storage
    before: TableConfig
    after: TableConfig
    """The properties with which the table will be read."""
    zone: tzinfo
    threads: int

    def copy(self) -> Copied:
        """Copies everything to the other layout, starting over. The table lock must be held."""
        self._clear_layout(self._new)
        timeline = load_timeline(self.storage, self.before, self.zone, locked=True)
        make_table_folders(self.storage, self.after.properties)
        archived = archived_instants(self.storage, self.before)
        completions = Completions.of(self.before, timeline, archived)
        count = self._copy_archive(timeline, archived, completions)
        files = _counted_once(timeline)
        when_remote(self.storage, lambda file: self._copy_file(file, completions), files, self.threads)
        self._copy_schemas(timeline, completions)
        return Copied(len(timeline.instants), count)

    def clear_old(self) -> None:
        """Deletes the files of the old layout, once the properties name the new one. Safe to repeat."""
        self._clear_layout(self._old)

    @property
    def _old(self) -> Layout:
        return layout_for(self.before)

    @property
    def _new(self) -> Layout:
        return layout_for(self.after)

    def _clear_layout(self, layout: Layout) -> None:
        """Deletes the state files of the layout that the table no longer has, newest first, so that a process that has
        still read the old properties sees an older state, and never a part of one. The archive of layout 1 stays, as
        after an upgrade by Apache Hudi."""
        if layout.has_completion_times and not layout.folder.removeprefix(META_FOLDER).strip("/"):
            raise ConfigError(
                f"Cannot change the timeline layout of the table at {self.storage.uri}: hoodie.timeline.path names no "
                "folder of its own; set it to 'timeline'"
            )
        state_files = [
            parsed for name in self.storage.names(layout.folder) if (parsed := layout.parse(name)) is not None
        ]
        for file in sorted(state_files, key=lambda state_file: state_file.sort_key, reverse=True):
            self.storage.delete(layout.path(file.file_name))
        if layout.has_completion_times:
            self.storage.delete_tree(layout.folder)
        histories = history_files(self.storage)
        twice = {time for _, time, dated in histories if dated} & {time for _, time, dated in histories if not dated}
        for path, time, dated in histories:
            if time in twice and dated == layout.has_completion_times:
                self.storage.delete(path)

    def _copy_file(self, file: Instant, completions: Completions) -> None:
        action = self._action_in_new(file)
        content = self.storage.read(self._old.path(file.file_name))
        if file.action in _OWN_NAMES and not self._is_plan(file):
            content = convert_commit_metadata(
                content,
                self._new,
                action=action,
                completed=file.completed,
                context=f"{self.storage.uri}/{self._old.path(file.file_name)}",
            )
        name = self._new_name(file, action, completions)
        self.storage.put(self._new.path(name), content)
        if file.completed and not self._new.has_completion_times and file.completion_time is not None:
            set_modified(self.storage, self._new.path(name), epoch_ms(file.completion_time, self.zone))

    def _new_name(self, file: Instant, action: Action, completions: Completions) -> str:
        if file.state is State.REQUESTED:
            return self._new.requested_name(file.time, action)
        if file.state is State.INFLIGHT:
            return self._new.inflight_name(file.time, action)
        return self._new.completed_name(file.time, file.action, completions.at(file.time, file.completion_time))

    def _is_plan(self, file: Instant) -> bool:
        return file.state is State.REQUESTED and file.action.comparable is Action.REPLACE_COMMIT

    def _action_in_new(self, file: Instant) -> Action:
        """Returns the action in the new layout: since version 8, a pending clustering has a name of its own. Apache
        Hudi gives it to all actions that replace file groups."""
        if file.action is not Action.REPLACE_COMMIT or file.completed or not self._new.has_completion_times:
            return file.action
        path = self._old.path(self._old.requested_name(file.time, file.action))
        try:
            content = self.storage.read(path)
        except FileNotFoundError:
            return file.action
        values = decode_record(content, f"{self.storage.uri}/{path}") if is_container(content) else {}
        return Action.CLUSTERING if values.get("clusteringPlan") is not None else file.action

    def _copy_schemas(self, timeline: Timeline, completions: Completions) -> None:
        for path, time, dated in history_files(self.storage):
            completion = completions.at(InstantTime(time), timeline.completion_time(time))
            if dated != self._new.has_completion_times:
                self.storage.put(history_path(self._new, time, completion), self.storage.read(path))

    def _copy_archive(self, timeline: Timeline, archived: Sequence[ArchivedInstant], completions: Completions) -> int:
        active = {(instant.time, instant.action.comparable) for instant in timeline.completed}
        known = active | (set() if self._new.has_completion_times else self._archived_keys(self.after))
        wanted = [archived_instant for archived_instant in archived if _key_of(archived_instant) not in known]
        for at in range(0, len(wanted), _AT_ONCE):
            part = wanted[at : at + _AT_ONCE]
            keys = {_key_of(archived_instant) for archived_instant in part}
            full = archived_instants(
                self.storage,
                self.before,
                ArchiveQuery(
                    since=part[0].time,
                    until=part[-1].time,
                    chosen=lambda entry, keys=keys: _key_of(entry) in keys,  # type: ignore[misc]
                    metadata=True,
                    plans=True,
                ),
            )
            folder = archive_folder(self.after)
            if self._new.has_completion_times:
                append_run(
                    self.storage,
                    folder,
                    [self._history_entry(archived_instant, completions) for archived_instant in full],
                )
            else:
                entries = [entry for archived_instant in full for entry in _old_entries(archived_instant)]
                write_entries(self.storage, folder, entries, batch_size=_BLOCK_ENTRIES)
        return len(wanted)

    def _archived_keys(self, config: TableConfig) -> set[tuple[str, Action]]:
        """Returns what the archive of layout 1 already has, from before an upgrade or from a downgrade that died."""
        folder = archive_folder(config)
        if not any(info.size for info in self.storage.list(folder) if not info.is_dir):
            return set()
        return {_key_of(archived_instant) for archived_instant in archived_instants(self.storage, config)}

    def _history_entry(self, archived: ArchivedInstant, completions: Completions) -> HistoryEntry:
        metadata = archived.metadata
        if metadata is not None and archived.action in WRITE_ACTIONS:
            context = f"the archived {archived.action.value} {archived.time} of {self.storage.uri}"
            metadata = convert_commit_metadata(
                metadata, self._new, action=archived.action, completed=True, context=context
            )
        completion = completions.at(archived.time, archived.completion_time)
        return HistoryEntry(archived.time, completion, archived.action.value, metadata, archived.plan)


@dataclass(frozen=True, slots=True)
class Completions:
    """Completion times of instants, which layout 2 needs.

    Layout 1 has only modification times of files, and a copied table has those of the copy. A write that seems to have
    completed after a later compaction would put its logs behind that compaction, and rows that it has already merged
    would count again. But in version 6, a compaction is planned only if no earlier write is pending, so earlier writes
    did complete before it.
    """

    compactions: Sequence[str] = ()

    @classmethod
    def of(cls, config: TableConfig, timeline: Timeline, archived: Sequence[ArchivedInstant]) -> Completions:
        """Collects the completion times of a table."""
        if not config.is_mor or config.has_completion_times:
            return cls()
        times = {instant.time for instant in timeline.completed if instant.action is Action.COMMIT}
        times.update(archived_instant.time for archived_instant in archived if archived_instant.action is Action.COMMIT)
        times.update(instant.time for instant in timeline.pending if instant.action is Action.COMPACTION)
        return cls(sorted(time for time in times if not is_bootstrap(time)))

    def at(self, time: InstantTime, stored: str | None) -> CompletionTime:
        """Returns the completion time of an instant, given the one in the old layout."""
        completion = stored or time
        later = bisect_right(self.compactions, time)
        while later < len(self.compactions) and self.compactions[later].startswith(time):
            later += 1  # of a metadata table: the time of its newest commit, with a suffix
        if later < len(self.compactions) and self.compactions[later] <= completion:
            earlier = self.compactions[later]
            # a time made of a bootstrap's, of a metadata table: nothing completed before it has a real time
            completion = time if is_special(earlier) else add_ms(earlier, -1)
        return CompletionTime(max(completion, time))


def _counted_once(timeline: Timeline) -> list[Instant]:
    """Returns the state files, with only the completed file that counts for each instant."""
    counted = {instant.file_name for instant in timeline.completed}
    return [file for file in timeline.files if not file.completed or file.file_name in counted]


def _key_of(archived: ArchivedInstant) -> tuple[str, Action]:
    return archived.time, archived.action.comparable


def _old_entries(archived: ArchivedInstant) -> Iterator[dict[str, object]]:
    """Yields the entries of an instant in the archive of layout 1, one for each state."""
    time, context = archived.time, f"the archived {archived.action.value} {archived.time}"
    plan = archived.plan or b""
    values = decode_record(plan, context) if is_container(plan) else {}
    begun = plan if _STATS in values else b""  # of a write that replaces, the history has the inflight file
    requested = b"" if begun else plan
    pending = archived.action
    if "operations" in values:
        pending = Action.LOG_COMPACTION if archived.action is Action.DELTA_COMMIT else Action.COMPACTION
    states = ((State.REQUESTED, pending, requested), (State.INFLIGHT, pending, begun or requested))
    for state, action, content in states:
        if action is not Action.SAVEPOINT or state is State.INFLIGHT:
            if state is State.INFLIGHT and action is Action.REPLACE_COMMIT:
                content = begun
            yield archive_entry(Instant(time, action, state, ""), time, content, context)
    done = Instant(time, archived.action, State.COMPLETED, "")
    yield archive_entry(done, archived.completion_time, archived.metadata or b"", context)


def with_changes(config: TableConfig, changes: Mapping[str, str | None]) -> TableConfig:
    """Returns the properties with changes."""
    kept = {key: value for key, value in config.properties.items() if key not in changes}
    kept.update({key: value for key, value in changes.items() if value is not None})
    return replace(config, properties=kept)
