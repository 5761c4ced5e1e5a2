"""Changes the version of a table: what is planned, what comes before, and the change itself under the table lock.

Sources: `UpgradeDowngrade`, `UpgradeDowngradeUtils`, 1.2.0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import services as service_config
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.settings import merge_settings
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.table import COLUMN_STATS, FILES, forget_checked
from hudi_py.model.instant import Action
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, InstantArgument, Service, Step
from hudi_py.services.planned.service import ServiceReport
from hudi_py.services.upgrade.layouts import Copied, LayoutChange, with_changes
from hudi_py.services.upgrade.logs import (
    added_too_fast,
    check_not_indexing,
    compact_logs,
    groups_with_logs,
    logs_of_clustering,
    pending_compactions,
)
from hudi_py.services.upgrade.old_versions import (
    check_old,
    delete_plan_copies,
    observed_options,
    old_null_partition,
    planned_steps,
    raise_version,
    undo_of_old,
)
from hudi_py.services.upgrade.properties import changed_properties, check_keys, steps
from hudi_py.storage import FolderStorage, Storage
from hudi_py.storage.within import can_set_modified
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import WRITABLE_VERSIONS, load_table_config, only_read, update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.session import LockedTable

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_OLDEST: Final = WRITABLE_VERSIONS[0]
_NEWEST: Final = WRITABLE_VERSIONS[-1]
_LAYOUT: Final = "hoodie.timeline.layout.version"
_FIRST_RELEASES: Final[Mapping[int, str]] = {6: "0.14", 8: "1.0", 9: "1.1"}
"""The release of Apache Hudi that brought a version."""


@dataclass(frozen=True, slots=True, repr=False)
class VersionReport(ServiceReport):
    """The result of an upgrade or downgrade, or what it would do. It has no instant."""

    source: int = 0
    """The version before."""
    target: int = 0
    """The version afterwards."""
    steps: tuple[str, ...] = ()
    """The steps, in order."""
    limits: tuple[str, ...] = ()
    """What older readers and writers can no longer do, and what is lost."""
    undo: str = ""
    """How to go back."""
    properties: Mapping[str, str | None] = field(default_factory=dict)
    """The changes of `hoodie.properties`; None: removed."""
    num_instants: int = 0
    """Active instants that were copied to another layout."""
    num_archived: int = 0
    """Archived instants that were copied."""

    def _summary(self) -> Iterator[str]:
        if self.steps:
            yield f"version {self.source} to {self.target}"
        if self.num_instants or self.num_archived:
            yield f"{counted(self.num_instants, 'instant')} and {self.num_archived} archived"


def upgrade(
    context: ServiceContext, instant: str | None = None, *, to: int = _NEWEST, dry_run: bool = False
) -> VersionReport:
    """Upgrades the table to a newer version, by default the newest.

    Args:
        instant: must be None.
        to: the version, 6, 8 or 9; 6 is for tables of versions 2 to 5.
        dry_run: only report what would be done.

    Raises:
        ConfigError: the version is not a newer one, or an option is missing that says what the table does not.
        ConflictError: a write is under way, or an index is being built, or writers do not let its logs be compacted.
        UnsupportedTableError: the table has something that the version or this release does not know.
    """
    return _VersionChange(context, to, "upgrade").run(dry_run)


def downgrade(
    context: ServiceContext, instant: str | None = None, *, to: int = 0, dry_run: bool = False
) -> VersionReport:
    """Downgrades the table to an older version, 8 or 6. For the rest see `upgrade`."""
    return _VersionChange(context, to, "downgrade").run(dry_run)


class _VersionChange:
    """A single call."""

    def __init__(self, context: ServiceContext, to: int, name: str) -> None:
        self._context = replace(context, session=context.session.reread())
        self._config = self._context.session.config
        self._target = to
        self._name = name
        config, wrong = self._config, ""
        if 0 < to < _OLDEST:
            wrong = "versions before 6 are only read, and Apache Hudi 0.14 and 0.15 downgrade further (downgrade_table)"
        elif to not in WRITABLE_VERSIONS:
            wrong = f"there is no version {to}" if to else "no version is given"
        elif name == "upgrade" and to < config.version:
            wrong = f"version {to} is older; use downgrade"
        elif name == "downgrade" and to > config.version:
            wrong = f"version {to} is newer; use upgrade"
        if wrong:
            raise ConfigError(
                f"Cannot {name} table '{config.name}' from version {config.version}: {wrong}; supported versions are "
                f"{', '.join(map(str, WRITABLE_VERSIONS))}"
            )

    @property
    def _storage(self) -> Storage:
        return self._context.storage

    def run(self, dry_run: bool) -> VersionReport:
        to = self._target
        if self._config.version == to and not only_read(self._config):
            if not dry_run:
                with self._context.locked(self._purpose):
                    self._sweep_leftovers(self._storage, self._config)
                    self._sweep_metadata(to)
            return VersionReport(self._name, None, None, f"the table has version {to} already", to, to)
        report = self._plan_change(self._context.state())
        if dry_run:
            return replace(report, reason="this was a dry run")
        if only_read(self._config):
            self._leave_old_version()
            if to == _OLDEST:
                return report
        context = self._context
        for _ in range(_ATTEMPTS):
            if self._needs_compaction(self._config):
                compact_logs(context)
            with recovered(context.session, self._purpose) as table:
                if self._has_obstacles(table):
                    continue
                copied = self._change_version(table)
                _log.info("%s: %s", self._storage.uri, report)
                return replace(report, num_instants=copied.instants, num_archived=copied.archived)
        raise added_too_fast(self._storage.uri, self._purpose)

    # -- what is planned ------------------------------------------------------------------------------------------

    @property
    def _purpose(self) -> str:
        return f"{self._name} the table to version {self._target}"

    @property
    def _moves_timeline(self) -> bool:
        """Whether the timeline moves to another layout."""
        return self._config.has_completion_times != TableConfig.of_version(self._target).has_completion_times

    def _plan_change(self, state: TableState) -> VersionReport:
        """Plans the change.

        Raises:
            ConfigError, ConflictError, UnsupportedTableError: it cannot be done.
        """
        config = state.config
        if only_read(config):
            self._examine_old(state)
        check_keys(config, self._target, self._context.options)
        changes = changed_properties(config, self._target, self._context.options)
        check_not_indexing(state, self._purpose)
        back = "downgrade" if self._name == "upgrade" else "upgrade"
        undo = f"hudi-py {back} PATH --to {config.version}"
        if only_read(config):
            undo = undo_of_old(config, self._target)
        return VersionReport(
            self._name,
            None,
            source=config.version,
            target=self._target,
            steps=tuple(self._planned_steps(state)),
            limits=tuple(self._describe_limits(config)),
            undo=undo,
            properties=changes,
        )

    def _examine_old(self, state: TableState) -> None:
        """Completes the options by what the table's folders show, and refuses what version 6 cannot have, and logs that
        cannot be compacted."""
        view = self._context.view(state)
        options = observed_options(view, self._context.options)
        after = with_changes(state.config, changed_properties(state.config, _OLDEST, options))
        check_old(view, after, options)
        if self._needs_compaction(state.config):
            merge_settings(state.config, options.values)
        self._context = replace(self._context, options=options)

    def _planned_steps(self, state: TableState) -> Iterator[str]:
        config, timeline = state.config, state.timeline
        if only_read(config):
            yield from planned_steps(state)
        writes = PendingPlans(state.storage, timeline).writes
        if writes:
            yield f"{counted(len(writes), 'pending write')} rolled back, unless under way"
        if self._needs_compaction(config):
            pending = pending_compactions(state)
            if pending:
                yield f"{counted(pending, 'pending plan')} of compactions run"
            groups = groups_with_logs(self._context.view(state))
            if groups:
                yield f"{counted(groups, 'file group')} with logs compacted"
        if self._target == _OLDEST and only_read(config):
            return
        if FILES in config.metadata_partitions and config.version >= _OLDEST:
            yield "the metadata table brought to the same version, without indexes that the version does not know"
        if self._moves_timeline:
            folder = layout_for(with_changes(config, {_LAYOUT: "1" if self._target < 8 else "2"})).folder
            yield f"{counted(len(timeline.instants), 'instant')} and all archived ones copied to {folder}"
        yield "hoodie.properties replaced: from then on the table has the new version"
        if self._moves_timeline:
            yield f"the files of the old timeline in {timeline.layout.folder} deleted"

    def _describe_limits(self, config: TableConfig) -> Iterator[str]:
        for source, target in steps(config.version, self._target):
            if target in _FIRST_RELEASES and target > source:
                yield f"Apache Hudi before {_FIRST_RELEASES[target]} can no longer read or write the table"
                undefined = target == 9 and COLUMN_STATS not in read_definitions(self._storage, config)
                if undefined and config.version >= _OLDEST and COLUMN_STATS in config.metadata_partitions:
                    yield "column statistics that Apache Hudi before 1.0 made are dropped; the next write builds them"
            elif target == 8:
                yield "indexes with records of version 9 are dropped: create them again, or let writes do it"
        if only_read(config):
            default = old_null_partition(self._context.view(self._context.state()))
            if default is not None:
                yield f"rows of the partition {default} keep it, and new rows with nulls go to another partition"
            indexes = [name for name in config.metadata_partitions if name != FILES and config.version < _OLDEST]
            if indexes:
                yield f"the indexes {', '.join(indexes)} are dropped; writes whose options ask for them build them"
        if config.is_mor and self._merges_otherwise(config):
            yield "time travel to before the change merges logs as the new version does, and is refused where it cannot"
        if not self._moves_timeline:
            return
        yield (
            "streams and incremental readers go on from their last time, which may give them the commits of the last "
            "moments again"
        )
        if self._target >= 8:
            yield "completion times of old commits are the modification times of their files"
            return
        if can_set_modified(self._storage):
            yield "completion times become modification times of files, which copies of the table may not keep"
        else:
            yield "completion times are lost, as files of this storage get no other time than that of their upload"
        yield "indexes by name and partition statistics are dropped"
        if config.is_mor:
            yield "time travel to before the downgrade is right in hudi-py only, where file groups had logs"

    # -- what comes before ----------------------------------------------------------------------------------------

    def _needs_compaction(self, config: TableConfig) -> bool:
        """Returns whether logs have to be merged, because the new version names or merges them differently, or because
        newer releases read the deletes of old ones otherwise, or not at all."""
        if not config.is_mor:
            return False
        return config.version < _OLDEST or self._moves_timeline or self._merges_otherwise(config)

    def _merges_otherwise(self, config: TableConfig) -> bool:
        after = with_changes(config, changed_properties(config, self._target, self._context.options))
        try:
            return merge_settings(config) != merge_settings(after)
        except UnsupportedTableError:  # a class of the user's own, which stays
            return False

    def _has_obstacles(self, table: LockedTable) -> bool:
        """Returns whether there are still logs or plans of compactions, which the change does not allow.

        Raises:
            ConflictError: a pending clustering keeps them from being compacted, or an index is being built.
        """
        check_not_indexing(table, self._purpose)
        if not self._needs_compaction(table.config):
            return False
        if pending_compactions(table):
            return True
        if not groups_with_logs(self._context.view(table)):
            return False
        clustering = table.plans.of(Action.CLUSTERING, Action.REPLACE_COMMIT)
        if not clustering:
            return True
        if self._target >= 8 and not self._merges_otherwise(table.config):
            return False
        raise logs_of_clustering(table, clustering[0].time, self._purpose)

    # -- the change -----------------------------------------------------------------------------------------------

    def _leave_old_version(self) -> None:
        """Brings an old table to version 6, from which the rest of the change starts, rolls failed writes back, and
        compacts logs. There is no metadata table until the next write makes it: it would count as incomplete if it got
        a compaction that was planned before."""
        compacts, session = self._needs_compaction(self._config), self._context.session
        if self._config.version < _OLDEST:
            session = replace(session, metadata=DropMetadata(drop_indexes=True))
        with self._context.session.locked(self._purpose) as table:
            changes = changed_properties(table.config, _OLDEST, self._context.options)
            raise_version(table, changes, self._purpose)
        self._context = replace(self._context, session=self._context.session.reread())
        self._config = self._context.session.config
        session = session.at(self._config)
        with recovered(session, self._purpose):
            pass
        if compacts:
            compact_logs(replace(self._context, session=session))

    def _change_version(self, table: LockedTable) -> Copied:
        context, storage = self._context, self._storage
        context.progress.phase(f"{self._name.removesuffix('e')}ing")
        delete_plan_copies(storage)
        config = table.session.metadata.convert(table.session, table.timeline, self._target)
        if FILES in config.metadata_partitions:
            own = FolderStorage(storage, METADATA_TABLE)
            own_config = load_table_config(own)
            if own_config.version != self._target:
                self._change_table(own, own_config)
        copied = self._change_table(storage, config)
        forget_checked(storage)
        return copied

    def _change_table(self, storage: Storage, config: TableConfig) -> Copied:
        """Changes one table: copies its timeline, replaces its properties, and deletes the old timeline."""
        changes = changed_properties(config, self._target, self._context.options)
        after, copied = with_changes(config, changes), Copied()
        change = LayoutChange(storage, config, after, self._context.session.zone, self._context.threads)
        moves = config.layout != after.layout
        if moves:
            copied = change.copy()
        storage.sync()
        update_table_config(storage, changes)
        storage.sync()
        if moves:
            change.clear_old()
        return copied

    def _sweep_leftovers(self, storage: Storage, config: TableConfig) -> None:
        """Removes what is left of a change that died after it had replaced the properties."""
        other = with_changes(config, {_LAYOUT: "1" if config.has_completion_times else "2"})
        LayoutChange(storage, other, config, self._context.session.zone, self._context.threads).clear_old()
        delete_plan_copies(storage)

    def _sweep_metadata(self, version: int) -> None:
        own = FolderStorage(self._storage, METADATA_TABLE)
        if FILES in self._config.metadata_partitions:
            config = load_table_config(own)
            if config.version == version:
                self._sweep_leftovers(own, config)


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(service_config.AUTO_UPGRADE) and config.version < _NEWEST:
        yield Step("upgrade", lambda context, _: report if (report := upgrade(context)).steps else None)


def _version_argument(versions: str) -> Argument:
    return Argument("to", int, f"the version, {versions}")


_DRY_RUN: Final = Argument("dry_run", bool, "whether only to report what would be done, and what it means")


def _describe_service(
    name: str,
    help_: str,
    run_: Any,
    versions: str,
    after_commit: AfterCommitRule | None = None,
    *,
    any_version: bool = False,
) -> Service[VersionReport]:
    return Service(
        name=name,
        help=help_,
        run=run_,
        command=name,
        instant=InstantArgument.REFUSED,
        arguments=(_version_argument(versions), _DRY_RUN),
        asks="change its version, which older releases may not read",
        after_commit=after_commit,
        any_version=any_version,
    )


UPGRADE: Final = _describe_service(
    "upgrade",
    "Upgrades the table to a newer version",
    upgrade,
    "6, 8 or 9, by default 9",
    AfterCommitRule(_steps_after_commit),
    any_version=True,
)
DOWNGRADE: Final = _describe_service("downgrade", "Downgrades the table to an older version", downgrade, "8 or 6")
