"""Maintains the metadata table as part of every action; implements `transaction.protocols.MetadataWriter`.

An action is recorded by a delta commit with the same requested time, which completes before the action does. Readers
ignore it until the action is completed, so a writer that dies in between leaves nothing half visible: the next write
rolls back the action, including its delta commit (`HoodieBackedTableMetadataWriter`, 1.2.0).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from hudi_py.config import DEFAULTS, Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config.indexes import METADATA_ENABLE
from hudi_py.config.write import DROP_INDEXES
from hudi_py.errors import ConfigError, CorruptFileError, HudiError, StorageError
from hudi_py.expressions.functions import check_zone
from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.formats.avro import arrow_schema
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.files import metadata_lister
from hudi_py.metadata.records import note_written
from hudi_py.metadata.table import (
    COLUMN_STATS,
    FILES,
    CachedLister,
    MetadataTable,
    forget_checked,
    own_view_for_write,
)
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.maintenance.rollback import can_undo, finish_undone, undo
from hudi_py.metadata_write.maintenance.services import compact_whole, run_due
from hudi_py.metadata_write.partitions.named import (
    NamedIndex,
    is_stored,
    put_definition,
    put_definitions,
    source_fields,
)
from hudi_py.metadata_write.partitions.registry import (
    asked_indexes,
    define_first,
    maintained,
    maintained_names,
    partitions_unknown_to,
    unwanted_partitions,
    wanted_partitions,
    with_dependants,
)
from hudi_py.metadata_write.table.beside import BesideWriters, building_only, fed
from hudi_py.metadata_write.table.create import (
    create_metadata_table,
    drop_partitions,
    initialise,
    lost_files,
    note_to_make,
    writes_in_the_way,
)
from hudi_py.metadata_write.table.delta import write_delta
from hudi_py.metadata_write.table.session import delta_commit, open_metadata_session
from hudi_py.metadata_write.table.source import TableSource, schema_text
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import visible
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import LATEST_SCHEMA_KEY, resolve_table_schema, table_schema_of
from hudi_py.timeline.timeline import Timeline, timeline_of
from hudi_py.transaction.metadata_drop import DropMetadata, drop_metadata_table
from hudi_py.transaction.protocols import MetadataUpdate, TableChange
from hudi_py.transaction.session import TableSession
from hudi_py.view import FileSystemView, load_view

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataTableWriter:
    """A `MetadataWriter` that maintains every partition it knows, whether or not the options name it."""

    options: Options = DEFAULTS

    def __post_init__(self) -> None:
        """Checks the options. Raises ConfigError if they contradict each other, or for an unknown time zone."""
        indexes_config.check_metadata(self.options)
        option = indexes_config.EXPRESSION_INDEX_ZONE
        try:
            check_zone((zone := self.options.get(option)) or "UTC")
        except ValueError as error:
            raise ConfigError(f"Option {option.key} = '{zone}' is not valid: {error}") from None

    @property
    def maintains(self) -> bool:
        """See `MetadataWriter.maintains`."""
        return not self._drops

    @property
    def builder(self) -> BesideWriters | None:
        """See `MetadataWriter.builder`."""
        return BesideWriters(self.options) if self.maintains else None

    def check(self, session: TableSession, rolled_back: tuple[InstantTime, ...] = ()) -> None:
        """See `MetadataWriter.check`. Undoing a delta commit undoes every index, so rollbacks are refused only if a
        compaction has moved its records into base files."""
        if self._drops:
            DropMetadata(self.options.get(DROP_INDEXES)).check(session, rolled_back)
            return
        foreign = self._foreign_partitions(session.storage, session.config)
        if not foreign or self.options.get(DROP_INDEXES):
            return
        if not rolled_back or not self._can_undo(session, rolled_back):
            what = f"roll back {', '.join(rolled_back)} of" if rolled_back else "write to"
            raise ConfigError(
                f"Cannot {what} the table {session.config.name!r}: its metadata table has the indexes "
                f"{', '.join(foreign)}, which hudi-py does not maintain and which would become outdated; "
                "drop them with hudi_py's metadata.drop, or set hoodie.py.drop.indexes=true, which drops them"
            )

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        """See `MetadataWriter.prepare`."""
        storage = session.storage
        forget_checked(storage)
        if self._drops:
            drop_metadata_table(storage, drop_indexes=self.options.get(DROP_INDEXES))
            return load_table_config(storage)
        config = self._without_foreign(storage, BesideWriters(self.options).clear_dead(session, timeline))
        gone = unwanted_partitions(self.options, config)
        if gone:
            config = drop_partitions(storage, config, gone)
        own: TableSession | None = None
        wanted = set(wanted_partitions(self.options, config))
        if self.options.get(METADATA_ENABLE):
            wanted.update(config.metadata_partitions_to_make)
        short_lived = _without_evolution(wanted - {*config.metadata_partitions})
        if short_lived:
            schema = resolve_table_schema(session.at(config).state(timeline))
            if schema is not None and schema.evolves_on_read:
                wanted -= short_lived
        if FILES in config.metadata_partitions:
            own = self._recover_table(session.at(config), timeline)
            if own is None:
                wanted.update(config.metadata_partitions)
                config = self._discard_table(storage, config, wanted)
            elif outgrown := self._outgrown_partitions(session.at(config).state(timeline), wanted):
                config = drop_partitions(storage, config, outgrown, to_make=True)
                wanted.update(outgrown)
        if FILES not in wanted:
            return config
        if self.options.get(indexes_config.INDEX_ASYNC):
            # a service builds the others; those that were begun under the lock are completed
            wanted &= {FILES, *config.metadata_partitions, *config.metadata_partitions_to_make}
        else:
            config, named = self._define_named(session.at(config), timeline, wanted)
            wanted.update(named)
        return self._create_missing(session.at(config), timeline, own, wanted)

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        """See `MetadataWriter.record`."""
        if self._drops:
            return DropMetadata(self.options.get(DROP_INDEXES)).record(session, timeline, change)
        storage, config = session.storage, session.config
        dropped: tuple[str, ...] = ()
        if change.action not in (Action.ROLLBACK, Action.RESTORE):
            dropped = self._foreign_partitions(storage, config) if self.options.get(DROP_INDEXES) else ()
            config = self._without_foreign(storage, config)
        if change.commit is not None and LATEST_SCHEMA_KEY in change.commit.extra:
            gone = _without_evolution({*config.metadata_partitions, *config.metadata_partitions_to_make})
            config = drop_partitions(storage, config, sorted(gone)) if gone else config
        if FILES not in config.metadata_partitions:
            return MetadataUpdate(dropped)
        own = open_metadata_session(session)
        own_timeline = own.timeline()
        if finish_undone(own, own_timeline, timeline):
            _log.info("finished what a killed process left in %s", own.storage.uri)
            own_timeline = own.timeline()
        if change.action in (Action.ROLLBACK, Action.RESTORE):
            undone = self._undo_commits(own, own_timeline, change)
            if undone is None:
                foreign = self._foreign_partitions(storage, config)
                remade = self._rebuild_table(session.at(config), timeline, change)
                if remade is None:
                    return MetadataUpdate(foreign)
                return MetadataUpdate(foreign, partial(self._run_maintenance, remade, remade.timeline()))
            own_timeline = undone
            if change.action is Action.ROLLBACK and own.config.has_completion_times:
                # only its own delta commit recorded the files of the rolled-back instant
                return MetadataUpdate(dropped, partial(self._run_maintenance, own, own_timeline))
        if delta_commit(own_timeline, change.instant) is not None:
            # recorded by an attempt that did not complete the action, possibly with other files
            undo(own, own_timeline, change.instant, None)
            own_timeline = own.timeline()
        own_view = own_view_for_write(session.storage, own.state(own_timeline))
        building = fed(session.at(config), timeline, own)
        config = building_only(config, building)
        source = self._without_outdated(self._table_source(session.at(config), timeline, change, own_view))
        try:
            own_timeline, written = write_delta(
                own,
                own_view,
                change.instant,
                self._changed_records(source, change),
                new_groups=self.options.get(indexes_config.RECORD_INDEX_MIN_GROUPS),
                building=building,
            )
        except CorruptFileError as error:
            if own.storage.uri not in str(error):
                raise
            return self._drop_damaged(session.storage, config, dropped, f": {error}")
        if source.view.lister.is_storage:  # its file records could not be read, as a warning has said
            return self._drop_damaged(session.storage, config, dropped)
        self._update_definitions(source)
        _log.debug(
            "recorded %s in the metadata table: %s", change.instant, ", ".join(sorted(config.metadata_partitions))
        )
        return MetadataUpdate(dropped, partial(self._run_maintenance, own, own_timeline, written=written))

    def convert(self, session: TableSession, timeline: Timeline, version: int) -> TableConfig:
        """See `MetadataWriter.convert`."""
        storage, config = session.storage, session.config
        forget_checked(storage)
        there = config.metadata_partitions
        if self._drops:
            drop_metadata_table(storage, drop_indexes=self.options.get(DROP_INDEXES))
            return load_table_config(storage)
        if FILES not in there:
            return self._discard_table(storage, config, config.metadata_partitions_to_make)
        own = self._recover_table(session, timeline)
        if own is None:
            return self._discard_table(storage, config, there)
        target, definitions = TableConfig.of_version(version), read_definitions(storage, config)
        gone = with_dependants(partitions_unknown_to(version, definitions, there), there)
        if gone:
            config = drop_partitions(storage, config, gone)
        if target.index_version > config.index_version:  # without a version, Apache Hudi assumes the table's
            put_definitions(storage, config, {name: {"version": "V1", **kept} for name, kept in definitions.items()})
        undated = [name for name in there if name == COLUMN_STATS and name not in definitions]
        if undated and target.index_version > config.index_version:
            # old releases did not define indexes: their records would count as those of the new version
            config = drop_partitions(storage, config, with_dependants(undated, there), to_make=True)
        if own.config.logs_named_by_instant != target.logs_named_by_instant and not compact_whole(
            own, timeline, self.options
        ):
            return self._discard_table(storage, config, config.metadata_partitions)
        return config

    def sidecar(self, config: TableConfig, schema_json: str) -> SidecarSettings | None:
        """See `MetadataWriter.sidecar`."""
        kept = () if self._drops else maintained(config.metadata_partitions)
        keys = any(partition.keeps_keys for partition in kept)
        columns = tuple(name for partition in kept for name in partition.columns(config, schema_json, self.options))
        return SidecarSettings(keys, columns) if keys or columns else None

    # -- internals ------------------------------------------------------------------------------------------------

    @property
    def _drops(self) -> bool:
        return not self.options.get(METADATA_ENABLE) and self.options.get(
            indexes_config.METADATA_AUTO_DELETE_PARTITIONS
        )

    def _run_maintenance(
        self,
        own: TableSession,
        own_timeline: Timeline,
        timeline: Timeline,
        *,
        written: Mapping[str, bytes] | None = None,
    ) -> None:
        """See `MetadataUpdate.maintain`. Takes the timelines of the metadata table and its table after the action; they
        are still current, as the lock is held. `written`: see `write_delta`."""
        note_written(own.storage, written or {})
        try:
            run_due(own, own_timeline, timeline, self.options)
        except Exception as error:  # of any kind: the action is complete, and the next one tries again
            _log.warning("the services of %s are left to the next write: %s", own.storage.uri, error)

    def _foreign_partitions(self, storage: Storage, config: TableConfig) -> tuple[str, ...]:
        """Returns the partitions of the table that hudi-py does not maintain."""
        there = tuple(dict.fromkeys((*config.metadata_partitions, *config.metadata_partitions_inflight)))
        known = maintained_names(storage, config, there)
        return tuple(name for name in there if name not in known)

    def _define_named(
        self, session: TableSession, timeline: Timeline, later: Collection[str]
    ) -> tuple[TableConfig, tuple[str, ...]]:
        """Defines the indexes that the options name, unless their columns have one. Returns the properties, and the
        partitions to make. A table without commits gets them with the next write."""
        storage, config = session.storage, session.config
        asked = asked_indexes(self.options, partial(read_definitions, storage, config))
        schema = resolve_table_schema(session.state(timeline)) if asked and timeline.write_completed else None
        if schema is None:
            return config, ()
        made: list[str] = []
        for index, request in asked:
            index.missing_needs(storage, config, request, self.options, later)
            definition = index.define(config, schema.arrow, request, self.options)
            config = put_definition(storage, config, definition)
            made.append(definition.name)
        return config, tuple(made)

    def _without_foreign(self, storage: Storage, config: TableConfig) -> TableConfig:
        foreign = self._foreign_partitions(storage, config) if self.options.get(DROP_INDEXES) else ()
        if not foreign:
            return config
        return drop_partitions(storage, config, foreign)

    def _recover_table(self, session: TableSession, timeline: Timeline) -> TableSession | None:
        """Returns the metadata table with unfinished work cleared; None if it is unusable."""
        try:
            own = open_metadata_session(session)
            own_timeline = own.timeline()
            if finish_undone(own, own_timeline, timeline):
                own_timeline = own.timeline()
            # detects commits of another writer that did not record them here
            lister = CachedLister(own.storage, own.config)
            view = load_view(own.state(own_timeline), lister)
            MetadataTable(session.state(timeline), view).check()
        except StorageError:  # no damage: the next attempt may read it
            raise
        except (HudiError, FileNotFoundError) as error:
            warnings.warn(
                f"The metadata table of {session.config.name!r} is rebuilt: {error}", UserWarning, stacklevel=2
            )
            return None
        return own

    def _outgrown_partitions(self, state: TableState, wanted: Collection[str]) -> tuple[str, ...]:
        """Returns the partitions that lack what the options ask for, so that they must be rebuilt."""
        there = state.config.metadata_partitions
        asked = (partition for partition in maintained(there) if partition.name in wanted)
        return with_dependants([own.name for own in asked if own.falls_short(state, self.options)], there)

    def _without_outdated(self, source: TableSource) -> TableSource:
        """Drops the indexes of columns to which the commit gives a type that makes their records wrong. The next write
        rebuilds them."""
        named = [index for index in maintained(source.config.metadata_partitions) if isinstance(index, NamedIndex)]
        stored = resolve_table_schema(source) if named and source.schema_json else None
        if stored is None:
            return source
        new = arrow_schema(json.loads(source.schema_json))
        outdated = []
        for partition in named:
            field = ".".join(source_fields(source.definitions, partition.name) or ())
            if partition.outdated_by(type_at(stored.arrow, field), type_at(new, field)):
                outdated.append(partition.name)
        if not outdated:
            return source
        return replace(source, config=drop_partitions(source.storage, source.config, outdated, to_make=True))

    def _discard_table(self, storage: Storage, config: TableConfig, to_make: Collection[str]) -> TableConfig:
        """Drops the metadata table; some of its partitions are rebuilt next."""
        names = [partition.name for partition in maintained(maintained_names(storage, config, tuple(to_make)))]
        config = define_first(storage, config, self.options, names)
        drop_metadata_table(storage, drop_indexes=True, to_make=names)
        return load_table_config(storage)

    def _drop_damaged(
        self, storage: Storage, config: TableConfig, dropped: tuple[str, ...], why: str = ""
    ) -> MetadataUpdate:
        """Drops the metadata table, which was found damaged while an action was being recorded."""
        warnings.warn(
            f"The metadata table of {config.name!r} is damaged, and the next write rebuilds it{why}", stacklevel=2
        )
        self._discard_table(storage, config, {*config.metadata_partitions, *config.metadata_partitions_to_make})
        return MetadataUpdate(dropped)

    def _create_missing(
        self, session: TableSession, timeline: Timeline, own: TableSession | None, wanted: Collection[str]
    ) -> TableConfig:
        """Creates the partitions that are wanted and missing."""
        storage, config = session.storage, session.config
        # another engine's indexer is building the inflight ones
        not_now = {*config.metadata_partitions, *config.metadata_partitions_inflight}
        if not timeline.completed:
            not_now.update(partition.name for partition in maintained(wanted) if partition.deferred(self.options))
        made = maintained(maintained_names(storage, config, tuple({*wanted} - not_now)))
        names = [partition.name for partition in made]
        writes = writes_in_the_way(session, timeline) if names else ()
        if writes:
            _log.warning(
                "the metadata partitions %s of %s will be created once the pending writes %s are completed",
                ", ".join(names),
                storage.uri,
                ", ".join(writes),
            )
            return config
        if own is None and names:
            self._check_initial(timeline)
            if self._lacks_files(session, timeline):
                return config
        config = define_first(storage, config, self.options, names)
        if set(names) != set(config.metadata_partitions_to_make):
            config = note_to_make(storage, names)
        for partition in made:
            own = create_metadata_table(session.at(config)) if own is None else own
            config = initialise(own, self._table_source(session.at(config), timeline, None), partition)
        return config

    def _lacks_files(self, session: TableSession, timeline: Timeline) -> bool:
        """Returns whether data files are lost. If so, warns that no metadata table is created until they are back."""
        lost = lost_files(session.view(timeline)) if timeline.write_completed else ()
        if lost:
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            warnings.warn(
                f"The metadata table of {session.config.name!r} is not created, as it would hide that files are lost: "
                f"{visible(str(lost[0]))}{more}; restore them from a copy, or undo the commits (rollback, restore)",
                UserWarning,
                stacklevel=2,
            )
        return bool(lost)

    def _check_initial(self, timeline: Timeline) -> None:
        if not self.options.get(indexes_config.METADATA_AUTO_INITIALIZE) and timeline.completed:
            raise ConfigError(
                "Cannot create a metadata table without the files of the table: hoodie.metadata.auto.initialize=false, "
                "and the table has commits; remove the option, or write with hoodie.metadata.enable=false"
            )

    def _table_source(
        self,
        session: TableSession,
        timeline: Timeline,
        change: TableChange | None,
        own_view: FileSystemView | None = None,
    ) -> TableSource:
        state = session.state(timeline)
        own = change.commit.extra.get("schema") if change is not None and change.commit is not None else None
        schema = table_schema_of(json.loads(own), state.config) if own else resolve_table_schema(state)
        view = load_view(state, metadata_lister(state, own_view)[0])
        return TableSource(state.storage, state.config, timeline, view, schema_text(schema), self.options)

    def _changed_records(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the action's changes to each partition that the table has or that is being created."""
        config = source.config
        there = (*config.metadata_partitions, *config.metadata_partitions_inflight)
        undoing = change.action in (Action.ROLLBACK, Action.RESTORE)
        for partition in maintained(maintained_names(source.storage, config, there)):
            records = partition.changes_of_undoing if undoing else partition.changes
            yield from records(source, change)

    def _update_definitions(self, source: TableSource) -> None:
        """Updates index definitions that the commit has changed: columns with statistics."""
        config = source.config
        for partition in maintained(config.metadata_partitions):
            definition = partition.definition(source)
            if definition is not None and not is_stored(source.definitions, config, definition):
                config = put_definition(source.storage, config, definition)

    def _can_undo(self, session: TableSession, instants: tuple[InstantTime, ...]) -> bool:
        if FILES not in session.config.metadata_partitions:
            return True
        own = open_metadata_session(session)
        own_timeline = own.timeline()
        return all(can_undo(own.storage, own_timeline, instant) for instant in instants)

    def _undo_commits(self, own: TableSession, own_timeline: Timeline, change: TableChange) -> Timeline | None:
        """Rolls back the delta commits of rolled-back instants, newest first. Returns the metadata table's timeline
        afterwards; None, with nothing changed, if that is not enough."""
        targets = sorted(set(change.rolled_back), reverse=True)
        if not all(can_undo(own.storage, own_timeline, target) for target in targets):
            return None
        for target in targets:
            undo(own, own_timeline, target, change.instant)
            own_timeline = own.timeline()
        return own_timeline

    def _rebuild_table(self, session: TableSession, timeline: Timeline, change: TableChange) -> TableSession | None:
        """Rebuilds all partitions from the table without the rolled-back instants; None if pending writes of others
        leave that to a later write."""
        config = session.config
        there = maintained_names(
            session.storage, config, {*config.metadata_partitions, *config.metadata_partitions_to_make}
        )
        gone = set(change.rolled_back)
        left = timeline_of(timeline.layout, [file for file in timeline.files if file.time not in gone])
        config = self._discard_table(session.storage, config, there)
        if writes_in_the_way(session, left) or self._lacks_files(session.at(config), left):
            return None
        own = create_metadata_table(session.at(config))
        for partition in maintained(there):
            config = initialise(own, self._table_source(session.at(config), left, None), partition)
        return own


def _without_evolution(names: Collection[str]) -> set[str]:
    """Returns the partitions among these that a table loses once its schema evolves on read."""
    return {partition.name for partition in maintained(names) if not partition.survives_evolution}
