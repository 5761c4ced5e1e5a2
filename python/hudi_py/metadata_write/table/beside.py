"""Builds partitions of the metadata table beside writers; implements `transaction.protocols.IndexBuilder`.

Under the table lock, empty file groups are created by a delta commit of the metadata table, and the table's properties
name the partition as one that is being built: from then on every writer records its changes there. Without the lock,
base files under the time of that delta commit get the records of everything that was committed before. Readers merge
them with the writers' logs as those of any file slice, so nothing has to be applied again. Under the lock again, the
properties name the partition as one that readers use.

Writers of Apache Hudi may not record their changes in a partition that is being built. If one of them has completed,
the partition is built again, from a state that has its change. Apache Hudi 1.2.0 takes any delta commit of a writer for
a complete one, and lets readers use a partition before it has caught up (`RunIndexActionExecutor`,
`AbstractIndexingCatchupTask`, `HoodieBackedTableMetadataWriter.buildMetadataPartitions`).
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hudi_py.config import Options
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.formats.avro import arrow_schema
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.files import metadata_lister
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.maintenance.rollback import finish_undone, undo
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.named import NamedIndex, drop_definitions, put_definition, source_fields
from hudi_py.metadata_write.partitions.registry import (
    as_defined,
    asked_indexes,
    define_first,
    maintained,
    maintained_names,
    partition_of,
    wanted_partitions,
)
from hudi_py.metadata_write.table.create import (
    BULK_INSERT,
    INFLIGHT_KEY,
    PARTITIONS_KEY,
    OpenedPartitions,
    create_metadata_table,
    fill_partition,
    initial_time,
    initialise,
    lost_files,
    open_partition,
    writes_in_the_way,
)
from hudi_py.metadata_write.table.delta import FED, begin_delta, complete_delta, listed_groups
from hudi_py.metadata_write.table.session import delta_commit, open_metadata_session
from hudi_py.metadata_write.table.source import TableSource, schema_text
from hudi_py.model.instant import Action, InstantTime, State
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.names import join_path, parse_base_file_name
from hudi_py.model.properties import METADATA_TO_MAKE, TableConfig
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.attempt import undo_attempt
from hudi_py.transaction.metadata_drop import drop_metadata_table
from hudi_py.transaction.owner.claim import revoke_claim
from hudi_py.transaction.recovery.failed_writes import examine
from hudi_py.transaction.session import TableSession
from hudi_py.view import load_view

_log = logging.getLogger(__name__)

_TOKEN_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class BesideWriters:
    """The `IndexBuilder` of the options of a call."""

    options: Options

    def wanted(self, state: TableState) -> tuple[str, ...]:
        """See `IndexBuilder.wanted`."""
        config = state.config
        asked = asked_indexes(self.options, partial(read_definitions, state.storage, config))
        names = [*wanted_partitions(self.options, config), *(index.full_name(request.name) for index, request in asked)]
        there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
        return tuple(name for name in names if name not in there)

    def check(self, state: TableState, names: Collection[str]) -> None:
        """See `IndexBuilder.check`."""
        storage, config = state.storage, state.config
        later = {*config.metadata_partitions, *names}
        asked = {index.full_name(request.name) for index, request in asked_indexes(self.options, dict)}
        for name in names:
            partition = partition_of(name)
            why = ""
            if FILES not in config.metadata_partitions and name != FILES:
                why = (
                    "the table has no metadata table; write to it with hoodie.metadata.enable=true, or make it with "
                    "metadata.rebuild('files')"
                )
            elif partition is None:
                why = "hudi-py does not maintain it"
            elif not maintained_names(storage, config, (name,)) and name not in asked:
                why = "the table has no definition of such an index; make it with Table.index"
            elif partition.unsupported_by(config):
                why = f"it needs {partition.unsupported_by(config)}"
            elif partition.needs and partition.needs not in later:
                why = f"it needs {partition.needs}"
            elif not config.populates_meta_fields and partition.keeps_keys:
                why = (
                    "it is made of record keys in files, which the table does not have "
                    "(hoodie.populate.meta.fields=false)"
                )
            if why:
                raise ConfigError(f"Cannot build the partition {name!r} of the metadata table of {storage.uri}: {why}")

    def define(self, session: TableSession, timeline: Timeline, names: Collection[str]) -> None:
        """See `IndexBuilder.define`."""
        storage, config = session.storage, session.config
        asked = asked_indexes(self.options, partial(read_definitions, storage, config))
        schema = resolve_table_schema(session.state(timeline)) if asked else None
        for index, request in asked:
            if index.full_name(request.name) in names:
                index.missing_needs(storage, config, request, self.options, names)
                definition = index.define(config, None if schema is None else schema.arrow, request, self.options)
                config = put_definition(storage, config, definition)
        define_first(storage, config, as_defined(storage, config, self.options), names)

    def stages(self, config: TableConfig, names: Collection[str]) -> list[tuple[str, ...]]:
        """See `IndexBuilder.stages`. Writers derive partition statistics from column statistics, which must be complete
        by then."""
        later = {partition.name for partition in maintained(names) if partition.needs in names}
        stages = [tuple(name for name in names if (name in later) is late) for late in (False, True)]
        return [stage for stage in stages if stage]

    def needs_lock(self, config: TableConfig) -> bool:
        """See `IndexBuilder.needs_lock`."""
        return config.is_mor and not config.logs_named_by_instant

    def open(
        self, session: TableSession, timeline: Timeline, names: Collection[str], instant: InstantTime
    ) -> OpenedPartitions:
        """See `IndexBuilder.open`."""
        storage = session.storage
        session = self._make_files(session, timeline, names)
        config, chosen = session.config, maintained([name for name in names if name != FILES])
        writes = writes_in_the_way(session, timeline)
        if writes:
            raise ConflictError(
                f"Cannot build {', '.join(names)} of {storage.uri}: the writes {', '.join(writes)} are under way, and "
                f"in table version {config.version} names do not show which log files are theirs; wait until they are "
                "completed",
                instant=writes[0],
            )
        source = self._read_source(session.at(_with_moved(config, chosen)), timeline)
        if not chosen:
            return OpenedPartitions((), instant, source, open_metadata_session(session), {}, "")
        own = open_metadata_session(session)
        own_timeline = own.timeline()
        if finish_undone(own, own_timeline, timeline):
            own_timeline = own.timeline()
        time = instant
        if not own.config.has_completion_times or delta_commit(own_timeline, instant) is not None:
            time = initial_time(own, own_timeline, timeline)
        begin_delta(own, time, BULK_INSERT)
        groups = {
            partition.name: open_partition(own, time, partition, partition.file_groups(source)) for partition in chosen
        }
        complete_delta(own, own_timeline, time, BULK_INSERT, ())
        # only now: writers look for the file groups of partitions that are being built
        config = _store_names(storage, _with_moved(config, chosen))
        ending = f"{secrets.randbits(_TOKEN_BITS)}-1"
        return OpenedPartitions(chosen, time, replace(source, config=config), own, groups, ending)

    def fill(self, opened: OpenedPartitions, check: Callable[[], None]) -> None:
        """See `IndexBuilder.fill`."""
        for partition in opened.partitions:
            stats = fill_partition(opened, partition, check)
            opened.written[partition.name] = {stat.path for stat in stats}

    def publish(self, session: TableSession, timeline: Timeline, opened: OpenedPartitions) -> str:
        """See `IndexBuilder.publish`."""
        config = session.config
        if not opened.partitions:  # the listing of files is made when it is opened
            return ""
        why = _why_gone(session, opened) or _why_undone(timeline, opened) or _why_unrecorded(session, timeline, opened)
        if why:
            return why
        lacking = [
            partition
            for partition in opened.partitions
            if partition.needs and partition.needs not in config.metadata_partitions
        ]
        if lacking:
            raise ConfigError(
                f"Cannot build {lacking[0].name} of {session.storage.uri}: it needs {lacking[0].needs}, which another "
                "writer has dropped meanwhile; drop the plan, or build both"
            )
        now = self._read_now(session, timeline, opened)
        why = _why_outdated(opened, now)
        if why:
            return why
        grown = timeline.write_completed != opened.source.timeline.write_completed
        for partition in opened.partitions:
            partition.built(opened.source, now if grown else None)
            definition = partition.definition(now)
            if definition is not None:
                config = put_definition(session.storage, config, definition)
        _store_names(session.storage, _with_moved(config, opened.partitions, built=True))
        return ""

    def clear(
        self, session: TableSession, names: Collection[str], instant: InstantTime, *, keep_published: bool = True
    ) -> None:
        """See `IndexBuilder.clear`."""
        storage, config = session.storage, session.config
        revoke_claim(storage, instant)  # first, so that no process writes again what is removed
        published = {*config.metadata_partitions} if keep_published else set()
        gone = {*names} - published - {FILES}
        kept = {
            name: tuple(other for other in there if other not in gone) for name, there in _listed_names(config).items()
        }
        if kept != _listed_names(config):
            update_table_config(storage, {name: ",".join(there) for name, there in kept.items()})
        if FILES in config.metadata_partitions and published.isdisjoint(names):
            own = open_metadata_session(session)
            for delta in own.timeline().instants:
                # Apache Hudi adds a suffix in table version 6
                if delta.action is Action.DELTA_COMMIT and delta.time.startswith(instant):
                    undo(own, own.timeline(), delta.time, None)
        for name in sorted(gone):
            storage.delete_tree(join_path(METADATA_TABLE, name))

    def clear_dead(self, session: TableSession, timeline: Timeline) -> TableConfig:
        """Undoes the attempts at indexings whose processes have died; their plans stay. Otherwise each write would
        update partitions that nobody completes. Idempotent.

        An indexer of Apache Hudi shows no life while it reads the table, so what it left is kept until its plan is run
        again or dropped.

        Returns:
            The table's properties afterwards.
        """
        plans = PendingPlans(session.storage, timeline)
        for indexing in plans.of(Action.INDEXING):
            state, plan = examine(session.storage, timeline, indexing), plans.indexing(indexing)
            if plan is None or state.writer is None or not state.dead(session.settings.heartbeat_expiry_ms):
                continue
            _log.warning("undoing the failed attempt at the indexing %s of %s", indexing.time, session.storage.uri)
            self.clear(session, plan.names, indexing.time)
            undo_attempt(session.storage, session.layout, indexing.time, Action.INDEXING)
            session = session.reread()
        return session.config

    def forget(self, session: TableSession, names: Collection[str]) -> None:
        """See `IndexBuilder.forget`."""
        config = session.config
        drop_definitions(session.storage, config, {*names} - {*config.metadata_partitions, FILES})

    # -- internals ------------------------------------------------------------------------------------------------

    def _make_files(self, session: TableSession, timeline: Timeline, names: Collection[str]) -> TableSession:
        """Makes the metadata table, if that is planned. Returns the session after it."""
        if FILES in session.config.metadata_partitions:
            return session
        if FILES not in names:
            raise ConflictError(
                f"Cannot build {', '.join(names)} of {session.storage.uri}: its metadata table was dropped; make it "
                "with metadata.rebuild('files'), or drop the plan"
            )
        drop_metadata_table(session.storage, drop_indexes=True)
        session = session.reread()
        own = create_metadata_table(session)
        (files,) = maintained([FILES])
        return session.at(initialise(own, self._read_source(session, timeline), files))

    def _read_source(self, session: TableSession, timeline: Timeline) -> TableSource:
        """Returns the table with the files that it has now. Raises CorruptFileError if some are lost."""
        state = session.state(timeline)
        view = load_view(state)
        view.lister.prefetch(view.partitions())
        lost = lost_files(view)
        if lost:
            raise CorruptFileError(
                f"Cannot build an index of {session.storage.uri}: data files are lost: {lost[0]}; restore them from a "
                "copy, or undo the commits (rollback, restore)"
            )
        options = as_defined(session.storage, session.config, self.options)
        return TableSource(
            state.storage,
            state.config,
            timeline,
            view,
            schema_text(resolve_table_schema(state)),
            options,
            needs_unique_keys=True,
        )

    def _read_now(self, session: TableSession, timeline: Timeline, opened: OpenedPartitions) -> TableSource:
        """Returns the table as it is when the partitions are published."""
        state = session.state(timeline)
        view = load_view(state, metadata_lister(state)[0])
        return replace(
            opened.source,
            config=state.config,
            timeline=timeline,
            view=view,
            schema_json=schema_text(resolve_table_schema(state)),
        )


def fed(session: TableSession, timeline: Timeline, own: TableSession) -> tuple[str, ...]:
    """Returns the partitions being built in which an action records its changes: those that have file groups.

    Raises:
        ConflictError: an indexer of Apache Hudi has announced a partition and not created its file groups yet. If the
            action did not record its changes, the index would lack them for good.
    """
    names = []
    for name in session.config.metadata_partitions_inflight:
        if listed_groups(own, name):
            names.append(name)
            continue
        for instant in timeline.pending:
            if instant.action is not Action.INDEXING or instant.state is not State.INFLIGHT:
                continue
            indexer = examine(session.storage, timeline, instant)
            if not indexer.dead(session.settings.heartbeat_expiry_ms):
                raise ConflictError(
                    f"Cannot commit to {session.storage.uri}: the indexing {instant.time} of "
                    f"{indexer.writer or 'another engine'} is about to create the partition {name} of the metadata "
                    "table; nothing was published: write again",
                    instant=instant.time,
                )
    return tuple(names)


def building_only(config: TableConfig, names: Collection[str]) -> TableConfig:
    """Returns the properties with these partitions alone as those that are being built."""
    if {*names} == {*config.metadata_partitions_inflight}:
        return config
    return replace(config, properties={**config.properties, INFLIGHT_KEY: ",".join(sorted(names))})


def _listed_names(config: TableConfig) -> Mapping[str, tuple[str, ...]]:
    return {PARTITIONS_KEY: config.metadata_partitions, INFLIGHT_KEY: config.metadata_partitions_inflight}


def _with_moved(config: TableConfig, partitions: Sequence[MetadataPartition], *, built: bool = False) -> TableConfig:
    """Returns the properties with these partitions as those that are being built, or as those that readers use."""
    moved = {partition.name for partition in partitions}
    there, building = (set(names) - moved for names in _listed_names(config).values())
    (there if built else building).update(moved)
    left = ",".join(name for name in config.metadata_partitions_to_make if name not in moved)
    names = {PARTITIONS_KEY: ",".join(sorted(there)), INFLIGHT_KEY: ",".join(sorted(building)), METADATA_TO_MAKE: left}
    return replace(config, properties={**config.properties, **names})


def _store_names(storage: Storage, config: TableConfig) -> TableConfig:
    keys = (PARTITIONS_KEY, INFLIGHT_KEY, METADATA_TO_MAKE)
    values = {key: config.properties[key] for key in keys}
    return update_table_config(storage, {**values, METADATA_TO_MAKE: values[METADATA_TO_MAKE] or None})


def _why_gone(session: TableSession, opened: OpenedPartitions) -> str:
    """Returns how the metadata table, or what was built in it, was replaced or compacted; empty if neither."""
    config, names = session.config, set(opened.names)
    if FILES not in config.metadata_partitions or not names <= {*config.metadata_partitions_inflight}:
        return "the metadata table was rebuilt"
    own = open_metadata_session(session)
    made = delta_commit(own.timeline(), opened.instant)
    if made is None or not made.completed:
        return "the metadata table was rebuilt"
    for name in opened.names:
        paths: set[str] = set()
        for info in own.storage.list(name):
            base = parse_base_file_name(info.name)
            if base is None:
                continue
            if base.instant != opened.instant:
                return f"the partition {name} was compacted"
            if base.write_token.endswith(f"-{opened.ending}"):
                paths.add(info.path)
            else:  # written by an attempt that was given up
                own.storage.delete(info.path)
        if paths != opened.written[name]:
            return f"files of the partition {name} are missing"
    return ""


def _why_undone(timeline: Timeline, opened: OpenedPartitions) -> str:
    """Returns which commit that the partitions have was undone; empty if none."""
    there = {instant.time for instant in timeline.instants}
    before = {instant.time for instant in opened.source.timeline.completed}
    start = timeline.start or ""
    for instant in opened.source.timeline.write_completed:
        if instant.time >= start and instant.time not in there:
            return f"the {instant.action.comparable.value} {instant.time} was undone"
    restores = [
        restore for restore in timeline.completed if restore.action is Action.RESTORE and restore.time not in before
    ]
    return f"the table was restored by {restores[0].time}" if restores else ""


def _why_unrecorded(session: TableSession, timeline: Timeline, opened: OpenedPartitions) -> str:
    """Returns which write that was completed since the partitions were opened did not record its changes in them; empty
    if all did. Apache Hudi 1.2.0 leaves them out in writes that update both tables at once
    (`getStreamingMetadataPartitionsToUpdate`), and takes the properties as they were when a write began."""
    own = open_metadata_session(session)
    own_timeline = own.timeline()
    before = {instant.time for instant in opened.source.timeline.completed}
    for instant in timeline.write_completed:
        if instant.time in before:
            continue
        delta, fed = delta_commit(own_timeline, instant.time), set[str]()
        if delta is not None and delta.completed:
            recorded = read_commit_metadata(own.storage, own_timeline.layout, delta)
            fed = {*recorded.extra.get(FED, "").split(","), *(stat.partition_path for stat in recorded.stats)}
        commit = read_commit_metadata(session.storage, timeline.layout, instant)
        for partition in opened.partitions:
            if partition.name not in fed and partition.changed_by(commit):
                what = f"{instant.action.comparable.value} {instant.time}"
                return f"the {what} does not know of the partition {partition.name}"
    return ""


def _why_outdated(opened: OpenedPartitions, now: TableSource) -> str:
    """Returns how the schema has changed so that records are wrong; empty if it has not.

    Raises:
        ConfigError: a table with this schema cannot have such a partition.
    """
    if now.schema_json == opened.source.schema_json or not now.schema_json:
        return ""
    schema = resolve_table_schema(now)
    short = [partition.name for partition in opened.partitions if not partition.survives_evolution]
    if schema is not None and schema.evolves_on_read and short:
        raise ConfigError(
            f"Cannot build {', '.join(short)} of {now.storage.uri}: the schema of the table evolves on read since, and "
            "records that name columns would be wrong; drop the plan"
        )
    before, after = (arrow_schema(json.loads(source.schema_json or "{}")) for source in (opened.source, now))
    for partition in opened.partitions:
        if isinstance(partition, NamedIndex):
            column = ".".join(source_fields(now.definitions, partition.name) or ())
            if partition.outdated_by(type_at(before, column), type_at(after, column)):
                return f"the type of {column} has changed"
    return ""
