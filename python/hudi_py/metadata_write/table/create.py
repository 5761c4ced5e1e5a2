"""Creates the metadata table, and creates and drops its partitions.

A partition counts once the table's properties name it, which is the last step: the next attempt removes whatever a
killed process left before that. The partitions to create are stored in the properties before the first of them, so that
the next writer creates the remaining ones (`METADATA_TO_MAKE`). Sources:
`HoodieBackedTableMetadataWriter.initializeFromFilesystem`, `HoodieTableConfig.setMetadataPartitionState`,
`HoodieTableMetadataUtil.deleteMetadataPartition` (1.2.0).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import pyarrow as pa

from hudi_py.formats.hfile import HFileWriter
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.named import drop_definitions, put_definition
from hudi_py.metadata_write.table.delta import GroupBuffer, GroupKey, begin_delta, complete_delta, open_file_group
from hudi_py.metadata_write.table.session import BASE_FILE_BLOOM, file_group_id, open_metadata_session
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import WriteStat, WrittenFile
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import (
    METADATA_TABLE,
    PARTITION_METAFILE,
)
from hudi_py.model.names import BaseFileName, FileId, join_path
from hudi_py.model.properties import METADATA_TO_MAKE, TableConfig
from hudi_py.storage import FolderStorage, Storage
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import create_table_config, make_table_folders, update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import add_ms, is_special
from hudi_py.transaction.session import TableSession
from hudi_py.view import FileSystemView
from hudi_py.view.recorded import describe_loss

PARTITIONS_KEY: Final = "hoodie.table.metadata.partitions"
INFLIGHT_KEY: Final = "hoodie.table.metadata.partitions.inflight"
BULK_INSERT: Final = "BULK_INSERT_PREPPED"
_BATCH_ROWS: Final = 1 << 16
_PROPERTIES: Final[Mapping[str, str]] = {
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.populate.meta.fields": "false",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.table.recordkey.fields": "key",
    "hoodie.table.type": "MERGE_ON_READ",
}


def create_metadata_table(session: TableSession) -> TableSession:
    """Creates an empty metadata table of the same version as its table, replacing any that exists. The table's
    properties must not name any of its partitions."""
    config = session.config
    session.storage.delete_tree(METADATA_TABLE)
    own = FolderStorage(session.storage, METADATA_TABLE)
    properties = {**_PROPERTIES, "hoodie.table.name": f"{config.name}_metadata"}
    properties["hoodie.table.version"] = str(config.version)
    if config.has_completion_times:
        properties |= {
            "hoodie.archivelog.folder": "history",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.table.initial.version": str(config.version),
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            "hoodie.timeline.history.path": "history",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
        }
    else:
        properties |= {
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
            "hoodie.timeline.layout.version": "1",
        }
    make_table_folders(own, properties)
    create_table_config(own, properties)
    return open_metadata_session(session)


def initialise(own: TableSession, source: TableSource, made: MetadataPartition) -> TableConfig:
    """Creates a partition from the table's present content and lets readers use it. The table lock must be held.

    Returns:
        The table's properties, which name the partition.
    """
    partition = made.name
    timeline = own.timeline()
    instant = initial_time(own, timeline, source.timeline)
    begin_delta(own, instant, BULK_INSERT)
    groups = open_partition(own, instant, made, made.file_groups(source))
    stats = fill_partition(OpenedPartitions((made,), instant, source, own, {partition: groups}), made)
    complete_delta(own, timeline, instant, BULK_INSERT, stats)
    made.built(source)
    config = source.config
    definition = made.definition(source)
    if definition is not None:
        config = put_definition(source.storage, config, definition)
    names = sorted({*config.metadata_partitions, partition})
    building = [name for name in config.metadata_partitions_inflight if name != partition]
    left = [name for name in config.metadata_partitions_to_make if name != partition]
    return update_table_config(
        source.storage,
        {PARTITIONS_KEY: ",".join(names), INFLIGHT_KEY: ",".join(building), METADATA_TO_MAKE: ",".join(left) or None},
    )


def open_partition(
    own: TableSession, instant: InstantTime, made: MetadataPartition, counts: int | Mapping[str, int]
) -> Mapping[str, int]:
    """Creates the empty file groups of a partition, in place of any that exist, under a delta commit that has begun.

    Args:
        counts: see `MetadataPartition.file_groups`.

    Returns:
        The number of file groups by the prefix of their ids.
    """
    own.storage.delete_tree(made.name)
    groups = counts if isinstance(counts, Mapping) else {made.file_id_prefix: counts}
    _put_partition_metafile(own, made.name, instant)
    for prefix, count in groups.items():
        for number in range(count):
            open_file_group(own, made.name, file_group_id(prefix, number), instant)
    return groups


@dataclass(frozen=True, slots=True)
class OpenedPartitions:
    """Partitions that are being built, and the state of the table that they are built from. Belongs to one process."""

    partitions: tuple[MetadataPartition, ...]
    instant: InstantTime
    """The instant of the delta commit of the metadata table that created their file groups."""
    source: TableSource
    own: TableSession
    """The session of the metadata table."""
    groups: Mapping[str, Mapping[str, int]]
    """By partition, the number of its file groups by the prefix of their ids."""
    ending: str = "0-1"
    """The end of the write tokens of their base files, which differs between attempts."""
    written: dict[str, set[str]] = field(default_factory=dict)
    """Paths of the base files written so far, by partition."""

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions, in order of creation."""
        return tuple(partition.name for partition in self.partitions)

    @property
    def state(self) -> TableState:
        """The state that they are built from."""
        return self.source


def fill_partition(
    opened: OpenedPartitions, made: MetadataPartition, check: Callable[[], None] = lambda: None
) -> list[WriteStat]:
    """Writes the records of everything in the table to base files of the partition's file groups.

    Args:
        check: called before and after each file is written; raises if none may be written any more.
    """
    own, groups = opened.own, opened.groups[made.name]

    def counted(_: str, prefix: str | None) -> tuple[str, int]:
        wanted = prefix or made.file_id_prefix
        return wanted, groups[wanted]

    def write(at: int, key: GroupKey, rows: pa.Table) -> WriteStat:
        check()
        name = BaseFileName(FileId(file_group_id(key[1], key[2])), f"{at}-{opened.ending}", opened.instant, "hfile")
        stat = _write_base_file(own, made.name, name, rows)
        try:
            check()
        except BaseException:  # the process that has taken over did not see this file
            own.storage.delete(stat.path)
            raise
        return stat

    with GroupBuffer(counted) as buffer:
        for chunk in made.initial(opened.source):
            buffer.add(chunk)
        return buffer.write(write, waits=not own.storage.is_local)


def writes_in_the_way(session: TableSession, timeline: Timeline) -> tuple[InstantTime, ...]:
    """Returns the pending writes during which no partition can be created from the table's files.

    In table version 6 the name of a log file does not show which write it belongs to. From version 8 on it does, and
    files of pending instants are left out (`shouldInitializeFromFilesystem`, 1.2.0).

    Args:
        timeline: the table's timeline, in which the caller's own write is not pending.
    """
    if session.config.logs_named_by_instant:
        return ()
    return tuple(write.time for write in PendingPlans(session.storage, timeline).writes)


def lost_files(view: FileSystemView) -> tuple[str, ...]:
    """Returns the data files that completed commits wrote and that are missing, too short or replaced, each with the
    problem.

    A metadata table built without them would hide the loss from readers.
    """
    return tuple(
        describe_loss(file, size) for partition in view.partitions() for file, size in view.lost_files(partition)
    )


def initial_time(own: TableSession, timeline: Timeline, data: Timeline) -> InstantTime:
    """Returns a time for the commit that creates a partition (`generateUniqueInstantTime`, 1.2.0).

    Until something is archived, or if the table has only been bootstrapped, it is the first initial time the metadata
    table does not have yet. Otherwise it is one just before the newest delta commit: after another initial time Apache
    Hudi, which always takes one in table version 8 and later, no longer recognises archived instants as committed.

    Args:
        timeline: the timeline of the metadata table.
        data: the timeline of its table.
    """
    taken = {instant.time for instant in (*timeline.instants, *data.instants)}
    offset = 0 if own.config.has_completion_times else 10
    deltas = [instant.time for instant in timeline.completed if instant.action is Action.DELTA_COMMIT]
    if not deltas or is_special(deltas[-1]) or f"{offset:017}" in taken:
        while f"{offset:017}" in taken:
            offset += 1
        return InstantTime(f"{offset:017}")
    time_ = add_ms(deltas[-1], -1)
    while time_ in taken:
        time_ = add_ms(time_, -1)
    return time_


def note_to_make(storage: Storage, names: Collection[str]) -> TableConfig:
    """Stores the partitions to create next, for the next writer after a crash. The table lock must be held."""
    return update_table_config(storage, {METADATA_TO_MAKE: ",".join(sorted(names)) or None})


def drop_partitions(
    storage: Storage, config: TableConfig, names: Collection[str], *, to_make: bool = False
) -> TableConfig:
    """Drops partitions of the metadata table: first for readers, then their files, then their definitions.

    The table lock must be held. Safe to repeat. Other partitions, in particular `files`, must not depend on them.

    Args:
        to_make: the caller rebuilds them next. The properties list them, and their definitions stay.
    """
    kept = [name for name in config.metadata_partitions if name not in names]
    building = [name for name in config.metadata_partitions_inflight if name not in names]
    left = {name for name in config.metadata_partitions_to_make if name not in names}
    left.update(names if to_make else ())
    config = update_table_config(
        storage,
        {
            PARTITIONS_KEY: ",".join(kept),
            INFLIGHT_KEY: ",".join(building),
            METADATA_TO_MAKE: ",".join(sorted(left)) or None,
        },
    )
    for name in names:
        storage.delete_tree(join_path(METADATA_TABLE, name))
    if not to_make:
        drop_definitions(storage, config, names)
    return config


def _put_partition_metafile(own: TableSession, partition: str, instant: InstantTime) -> None:
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    text = f"#partition metadata\n#{stamp}\ncommitTime={instant}\npartitionDepth=1\n"
    own.storage.put(join_path(partition, PARTITION_METAFILE), text.encode())


def _write_base_file(own: TableSession, partition: str, name: BaseFileName, rows: pa.Table) -> WriteStat:
    path = join_path(partition, str(name))
    started = time.monotonic()
    sink: BinaryIO
    with own.storage.open_output(path) as sink:
        writer = HFileWriter(sink, schema_json=SCHEMA_JSON, bloom=BASE_FILE_BLOOM)
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            writer.add(batch.column(0), batch.column(1))
        size = writer.close()
    took_ms, count = int((time.monotonic() - started) * 1000), rows.num_rows
    return WriteStat.of_base_file(
        WrittenFile(name.file_id, path, partition, size, rows=count, inserts=count, took_ms=took_ms)
    )
