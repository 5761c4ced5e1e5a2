"""Changes the type of a table: COPY_ON_WRITE to MERGE_ON_READ and back.

Apache Hudi takes a `commit` of a merge-on-read table for a compaction, and its readers of a copy-on-write table do not
see files of a `deltacommit` (`HoodieTableMetaClient.getCommitsAndCompactionTimeline`, 1.2.0). So the writes of the
active timeline get the names of the other type, which `table change-table-type` of hudi-cli leaves as they are. First
come copies, then the property, and the old names go last: a process that dies leaves the old type or the new one, and
another call finishes the change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hudi_py.errors import ConfigError, ConflictError, UnsupportedTableError
from hudi_py.merge.settings import merge_settings
from hudi_py.model.instant import Action, Instant, State
from hudi_py.model.layout import HASHING_METADATA
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.read import table_schema
from hudi_py.schema.paths import type_at
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Argument, InstantArgument, Service
from hudi_py.services.planned.service import ServiceReport
from hudi_py.services.upgrade.logs import (
    added_too_fast,
    check_not_indexing,
    compact_logs,
    groups_with_logs,
    logs_of_clustering,
    pending_compactions,
)
from hudi_py.storage.within import can_set_modified, set_modified
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.times import epoch_ms
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.session import LockedTable

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_TYPE: Final = "hoodie.table.type"
_SHORT: Final = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@dataclass(frozen=True, slots=True, repr=False)
class TypeReport(ServiceReport):
    """The result of a change of the type, or what it would do. It has no instant."""

    source: str = ""
    """The type before."""
    target: str = ""
    """The type afterwards."""
    steps: tuple[str, ...] = ()
    """What it does, in order."""
    limits: tuple[str, ...] = ()
    """What readers can no longer do, and what is lost."""
    undo: str = ""
    """How to go back."""
    num_instants: int = 0
    """Writes of the active timeline that got another name."""

    def _summary(self) -> Iterator[str]:
        if self.steps:
            yield f"{self.source} to {self.target}"
        if self.num_instants:
            yield f"{counted(self.num_instants, 'instant')} renamed"


def change_type(
    context: ServiceContext, instant: str | None = None, *, to: str = "", dry_run: bool = False
) -> TypeReport:
    """Change the type of the table.

    Args:
        instant: must be None.
        to: COPY_ON_WRITE or MERGE_ON_READ, or cow or mor.
        dry_run: only report what would be done.

    Raises:
        ConfigError: there is no such type.
        ConflictError: a write is under way or has failed and is kept, an index is being built, or logs cannot be
            compacted.
        UnsupportedTableError: the table has something that the type does not allow for.
    """
    return _TypeChange(context, to).run(dry_run)


class _TypeChange:
    """One call."""

    def __init__(self, context: ServiceContext, to: str) -> None:
        self._context = replace(context, session=context.session.reread())
        self._config = self._context.session.config
        self._to = _SHORT.get(to.lower(), to.upper())
        if self._to not in _SHORT.values():
            raise ConfigError(
                f"Cannot change the type of table '{self._config.name}' to {to!r}: supported types are "
                f"{' and '.join(_SHORT.values())}, or {' and '.join(_SHORT)}"
            )

    @property
    def _purpose(self) -> str:
        return f"change the type of the table to {self._to}"

    def run(self, dry_run: bool) -> TypeReport:
        context, config, to = self._context, self._config, self._to
        if config.table_type == to:
            if not dry_run:
                with context.locked(self._purpose) as table:
                    self._delete_files(table, _named_twice(table))
            return TypeReport("change_type", None, None, f"the table is {to} already", to, to)
        report = self._plan_change(context.state())
        if dry_run:
            return replace(report, reason="this was a dry run")
        for _ in range(_ATTEMPTS):
            if config.is_mor:
                compact_logs(context)
            with recovered(context.session, self._purpose) as table:
                if self._has_obstacles(table):
                    continue
                report = replace(report, num_instants=self._change_names(table))
                _log.info("%s: %s", context.storage.uri, report)
                return report
        raise added_too_fast(context.storage.uri, self._purpose)

    # -- what is planned ------------------------------------------------------------------------------------------

    def _plan_change(self, state: TableState) -> TypeReport:
        """Returns what would be done. Raises if it cannot be done."""
        check_not_indexing(state, self._purpose)
        self._check_allowed(state)
        return TypeReport(
            "change_type",
            None,
            None,
            source=state.config.table_type,
            target=self._to,
            steps=tuple(self._planned_steps(state)),
            limits=tuple(self._describe_limits(state.config)),
            undo=f"hudi-py change-type PATH {state.config.table_type}",
        )

    def _planned_steps(self, state: TableState) -> Iterator[str]:
        if state.config.is_mor:
            pending = pending_compactions(state)
            if pending:
                yield f"{counted(pending, 'pending plan')} of compactions run"
            groups = groups_with_logs(self._context.view(state))
            if groups:
                yield f"{counted(groups, 'file group')} with logs compacted"
        old, new = _actions_of(state.config)
        writes = _writes_of(state)
        if writes:
            yield f"{counted(len(writes), f'{old.value} instant')} of the active timeline copied as {new.value}"
        yield f"{_TYPE} set: from then on the table is {self._to}"
        if writes:
            yield f"the {old.value} instants deleted"

    def _describe_limits(self, config: TableConfig) -> Iterator[str]:
        if config.is_mor:
            yield "time travel to before the change is right in hudi-py only, where file groups had logs"
            yield "Apache Hudi does not clean logs of earlier versions; hudi-py does"
        else:
            yield "readers that take base files only, such as read-optimized queries, see updates after a compaction"
            yield "incremental queries take commits that are archived already for compactions"
        if not config.has_completion_times and not can_set_modified(self._context.storage):
            yield "completion times are lost, as files of this storage get no other time than that of their upload"

    def _check_allowed(self, state: TableState) -> None:
        """Raises UnsupportedTableError if tables of the new type cannot be like this one."""
        config, wrong = state.config, ""
        if config.is_mor and any(state.storage.walk(HASHING_METADATA)):
            wrong = "its buckets have consistent hashing, which needs MERGE_ON_READ"
        if not config.is_mor:
            schema = table_schema(state)
            kinds = {name: type_at(schema, name) for name in merge_settings(config).ordering_fields}
            binary = [name for name, kind in kinds.items() if kind is not None and pa.types.is_binary(kind)]
            if binary:
                wrong = f"its ordering column '{binary[0]}' is binary, which Apache Hudi cannot read in logs"
        if wrong:
            raise UnsupportedTableError(
                f"Cannot {self._purpose} at {state.storage.uri}: {wrong}; write its rows to a new table"
            )

    # -- the change -----------------------------------------------------------------------------------------------

    def _has_obstacles(self, table: LockedTable) -> bool:
        """Returns whether there are still logs or plans of compactions, which the change does not allow.

        Raises:
            ConflictError: a pending clustering keeps them from being compacted, an index is being built, or a failed
                write is kept.
        """
        check_not_indexing(table, self._purpose)
        if table.plans.writes:
            failed = table.plans.writes[0].time
            raise ConflictError(
                f"Cannot {self._purpose} at {table.storage.uri}: the failed write {failed} is kept; roll it back first",
                instant=failed,
            )
        if not table.config.is_mor:
            return False
        if pending_compactions(table):
            return True
        if not groups_with_logs(self._context.view(table)):
            return False
        clustering = table.plans.of(Action.CLUSTERING, Action.REPLACE_COMMIT)
        if clustering:
            raise logs_of_clustering(table, clustering[0].time, self._purpose)
        return True

    def _change_names(self, table: LockedTable) -> int:
        """Copies the writes to their new names, sets the property, and deletes the old names."""
        self._context.progress.phase("renaming instants")
        storage, writes = table.storage, _writes_of(table)
        _, action = _actions_of(table.config)
        for instant in writes:
            # completed files first: a pending one alone would be rolled back, with the files of the write
            for file in sorted(
                table.timeline.states_of(instant), key=lambda state_file: int(state_file.state), reverse=True
            ):
                self._copy_file(table, file, action)
        storage.sync()
        table.lock.check()
        update_table_config(storage, {_TYPE: self._to})
        storage.sync()
        self._delete_files(table, writes)
        return len(writes)

    def _copy_file(self, table: LockedTable, file: Instant, action: Action) -> None:
        layout, storage = table.timeline.layout, table.storage
        if file.state is State.REQUESTED:
            name = layout.requested_name(file.time, action)
        elif file.state is State.INFLIGHT:
            name = layout.inflight_name(file.time, action)
        elif file.legacy:
            name = f"{file.time}.{action.value}"
        else:
            name = layout.completed_name(file.time, action, file.completion_time)
        plan = file.action is Action.LOG_COMPACTION and not file.completed
        storage.put(layout.path(name), b"" if plan else storage.read(layout.path(file.file_name)))
        dated = layout.has_completion_times and not file.legacy
        if file.completed and not dated and file.completion_time is not None:
            set_modified(storage, layout.path(name), epoch_ms(file.completion_time, self._context.session.zone))

    def _delete_files(self, table: LockedTable, instants: Sequence[Instant]) -> None:
        """Deletes all files of instants, completed ones last, so that no one takes them for pending."""
        for instant in instants:
            for file in sorted(table.timeline.states_of(instant), key=lambda state_file: int(state_file.state)):
                table.storage.delete(table.timeline.layout.path(file.file_name))
        table.storage.sync()


def _actions_of(config: TableConfig) -> tuple[Action, Action]:
    """Returns the action of writes to the table, and to one of the other type."""
    return (Action.DELTA_COMMIT, Action.COMMIT) if config.is_mor else (Action.COMMIT, Action.DELTA_COMMIT)


def _writes_of(state: TableState) -> list[Instant]:
    """Returns the completed writes of the active timeline whose names depend on the table's type."""
    old, _ = _actions_of(state.config)
    writes = [instant for instant in state.timeline.completed if instant.action.comparable is old]
    return [write for write in writes if state.config.is_mor or not _is_compacted(state, write)]


def _is_compacted(state: TableState, commit: Instant) -> bool:
    """Returns whether a commit was made by a compaction, before an earlier change of the type."""
    if any(file.action is Action.COMPACTION for file in state.timeline.states_of(commit)):
        return True
    return read_commit_metadata(state.storage, state.timeline.layout, commit, may_be_empty=True).compacted


def _named_twice(state: TableState) -> list[Instant]:
    """Returns the instants with the name of the other type that also have the one of this type, as a change leaves
    them that was killed."""
    own, other = _actions_of(state.config)
    times = {instant.time for instant in state.timeline.completed if instant.action.comparable is own}
    return [
        instant for instant in state.timeline.completed if instant.action.comparable is other and instant.time in times
    ]


CHANGE_TYPE: Final = Service(
    name="change_type",
    help="Makes a copy-on-write table merge-on-read, or the other way round",
    run=change_type,
    command="change-type",
    instant=InstantArgument.REFUSED,
    arguments=(
        Argument("to", str, "the type, COPY_ON_WRITE or MERGE_ON_READ"),
        Argument("dry_run", bool, "whether only to report what would be done, and what it means"),
    ),
    asks="change its type",
)
