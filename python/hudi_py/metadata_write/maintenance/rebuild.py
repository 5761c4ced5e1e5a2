"""Rebuilds and drops partitions of the metadata table, or the whole of it, on demand.

Sources: `HoodieBackedTableMetadataWriter`, `HoodieTableMetadataUtil.deleteMetadataTablePartition`; the procedures
`CreateMetadataTableProcedure`, `InitMetadataTableProcedure` and `DeleteMetadataTableProcedure` (1.2.0).
"""

from __future__ import annotations

from collections.abc import Collection

from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, Remedy
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.maintenance.verify import check_names, source_of
from hudi_py.metadata_write.partitions.registry import (
    as_defined,
    define_first,
    maintained,
    maintained_names,
    own_names,
    partition_of,
    wanted_partitions,
    with_dependants,
)
from hudi_py.metadata_write.table.create import (
    create_metadata_table,
    drop_partitions,
    initialise,
    lost_files,
    writes_in_the_way,
)
from hudi_py.metadata_write.table.session import open_metadata_session
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage
from hudi_py.transaction.metadata_drop import DROPPABLE, drop_metadata_table
from hudi_py.transaction.recovery.failed_writes import recovered

_COMPLETE = Remedy(
    "Table.metadata.rebuild adds partitions that it lacks, Table.metadata.drop removes it",
    cli="`hudi-py metadata rebuild` adds partitions that it lacks, `hudi-py metadata drop` removes it",
    sql="CALL init_metadata_table adds partitions that it lacks, CALL delete_metadata_table removes it",
)
_CREATE = Remedy(
    "Table.metadata.rebuild('files') creates one",
    cli="`hudi-py metadata rebuild` of `files` creates one",
    sql="CALL create_metadata_table creates one",
)


def rebuild(
    context: ServiceContext, names: Collection[str] | None = None, *, needs_unique_keys: bool = False
) -> tuple[str, ...]:
    """Rebuilds partitions of the metadata table from the table's files, by default all that hudi-py maintains.

    Until a partition is back, readers list the storage or do without the index. If this process dies, the next write
    makes the remaining partitions. With `files` the whole metadata table is rebuilt, including every other partition.

    Args:
        context: of the table, not of its metadata table.
        names: partitions to rebuild; those the table does not have are created. An index keeps its definition (the
            columns of `column_stats`, whether the record index is partitioned).
        needs_unique_keys: see `TableSource`.

    Returns:
        The partitions that were made, in order.

    Raises:
        ConfigError: hudi-py does not maintain a partition, or it needs another one that does not exist, or rebuilding
            `files` would lose an index that hudi-py does not maintain, or there are no partitions and none is named.
        ConflictError: a write is under way, and the options allow for one writer at a time, or the table has version 6.
        CorruptFileError: data files that completed commits wrote are missing or too short; nothing was changed.
        LockError: the table lock could not be acquired in time.
    """
    storage = context.storage
    _to_rebuild(storage, context.config(), names)  # refuse before anything is rolled back
    with recovered(context.session, "rebuild the metadata table", beside=True) as table:
        session, config = table.session, table.config
        chosen = _to_rebuild(storage, config, names)
        writes = writes_in_the_way(session, table.timeline)
        if writes:
            raise ConflictError(
                f"Cannot rebuild the metadata table of {storage.uri}: the writes {', '.join(writes)} are under way, "
                f"and in table version {config.version} names do not show which log files are theirs; wait until they "
                "are completed",
                instant=writes[0],
            )
        lost = lost_files(session.view(table.timeline))
        if lost:
            raise CorruptFileError(
                f"Cannot rebuild the metadata table of {storage.uri}: it would hide that data files are lost: {lost[0]}"
                + (f" (and {len(lost) - 1} more, see metadata.verify())" if len(lost) > 1 else "")
                + "; restore them from a copy, or undo the commits (rollback, restore), then rebuild"
            )
        options = as_defined(storage, config, context.options)
        config = define_first(storage, config, options, chosen)
        if FILES in chosen:
            drop_metadata_table(storage, drop_indexes=True, to_make=chosen)
            config = context.config()
            own = create_metadata_table(session.at(config))
        else:
            config = drop_partitions(storage, config, sorted(chosen), to_make=True)
            own = open_metadata_session(session)
        made: list[str] = []
        for partition in maintained(chosen):
            context.progress.phase(f"building {partition.name}")
            source = source_of(session.at(config), table.timeline, options, needs_unique_keys=needs_unique_keys)
            try:
                config = initialise(own, source, partition)
            except ConfigError:  # an index that the table cannot have must not stay listed as one to create
                drop_partitions(storage, context.config(), [partition.name])
                raise
            made.append(partition.name)
        return tuple(made)


def drop(context: ServiceContext, names: Collection[str]) -> tuple[str, ...]:
    """Drops partitions of the metadata table, and those that need them. The next write creates them again unless its
    options disable them (`hoodie.metadata.index.column.stats.enable=false`, `hoodie.metadata.enable=false`, ...).

    Dropping `files` drops the whole metadata table.

    Returns:
        The partitions that were dropped, sorted.

    Raises:
        ConfigError: none is named, or there is no such partition, or dropping `files` would also drop a record,
            secondary or expression index that is not named.
        ConflictError: a write is under way.
        LockError: the table lock could not be acquired in time.
    """
    storage = context.storage
    _to_drop(context.config(), names, storage.uri)  # refuse before anything is rolled back
    with recovered(context.session, "drop partitions of the metadata table") as table:
        config = table.config
        gone = _to_drop(config, names, storage.uri)
        if FILES in gone:
            return drop_metadata_table(storage, drop_indexes=True)
        drop_partitions(storage, config, gone)
        return gone


def _to_rebuild(storage: Storage, config: TableConfig, names: Collection[str] | None) -> set[str]:
    uri = storage.uri
    there = {*config.metadata_partitions, *config.metadata_partitions_to_make}
    known = set(maintained_names(storage, config, there))
    chosen = known if names is None else _check_rebuildable(names, config, storage)
    if not chosen:
        raise ConfigError(
            f"Cannot rebuild the metadata table of {uri}: the table has none; name 'files' and any other partitions it "
            "should have, or leave it to the next write (hoodie.metadata.enable)"
        )
    if FILES in chosen:
        foreign = sorted(there - known)
        if foreign:
            raise ConfigError(
                f"Cannot rebuild the partition 'files' of the metadata table of {uri}: it would drop all other "
                f"partitions, and hudi-py cannot rebuild {', '.join(foreign)}; drop them first"
            )
        chosen.update(there)
    return chosen


def _to_drop(config: TableConfig, names: Collection[str], uri: str) -> tuple[str, ...]:
    there = tuple(
        dict.fromkeys(
            (*config.metadata_partitions, *config.metadata_partitions_inflight, *config.metadata_partitions_to_make)
        )
    )
    if not names:
        raise ConfigError(
            f"Cannot drop partitions of the metadata table of {uri}: none is named; it has "
            f"{', '.join(sorted(there)) or 'none'}, and 'files' drops all of them"
        )
    gone = with_dependants(check_names(names, there, there, "drop", uri), there)
    kept = sorted(set(there) - DROPPABLE - set(gone)) if FILES in gone else ()
    if kept:
        raise ConfigError(
            f"Cannot drop the partition 'files' of the metadata table of {uri}: it would drop all other "
            f"partitions, including {', '.join(kept)}; name them too"
        )
    return gone


def _check_rebuildable(names: Collection[str], config: TableConfig, storage: Storage) -> set[str]:
    later = (*config.metadata_partitions, *names)
    for name in names:
        why = ""
        partition = partition_of(name) if isinstance(name, str) else None
        if partition is not None and not maintained_names(storage, config, (name,)):
            why = "the table has no index of this name; make it with Table.index"
        elif partition is None:
            why = "hudi-py does not maintain it; it maintains " + ", ".join(own_names())
        elif FILES not in later:
            why = "the table has no metadata table; name 'files' too"
        else:
            needs = [partition.needs] if partition.needs and partition.needs not in later else []
            needs += [partition.unsupported_by(config)] if partition.unsupported_by(config) else []
            why = f"it needs {' and '.join(needs)}" if needs else ""
        if why:
            raise ConfigError(f"Cannot rebuild the partition {name!r} of the metadata table of {storage.uri}: {why}")
    return set(names)


def change_metadata_table(context: ServiceContext, action: str) -> tuple[str, ...]:
    """Creates, completes or removes the metadata table. `make`: builds a metadata table with the partitions that the
    options ask for. `complete`: builds those that the metadata table lacks. `remove`: drops it with all indexes; if
    there is none, this is not an error.

    Returns:
        The partitions that were made or dropped.

    Raises:
        ConfigError: there is a metadata table already (`make`), there is none (`complete`), or the options disable it.
        ConflictError, CorruptFileError, LockError: as `rebuild` and `drop`.
    """
    config, uri = context.config(), context.storage.uri
    there = {*config.metadata_partitions, *config.metadata_partitions_to_make}
    if action == "remove":
        return drop(context, sorted({*there, FILES})) if there else ()
    if action == "make" and there:
        raise ConfigError(
            f"Cannot create the metadata table of {uri}: it exists, with {', '.join(sorted(there))}; {_COMPLETE}",
            remedies=(_COMPLETE,),
        )
    if action == "complete" and FILES not in there:
        raise ConfigError(f"Cannot open the metadata table of {uri}: there is none; {_CREATE}", remedies=(_CREATE,))
    wanted = wanted_partitions(context.options, config)
    if not wanted:
        raise ConfigError(
            f"Cannot make the metadata table of {uri}: hoodie.metadata.enable is false; set it to true, or leave it out"
        )
    missing = [name for name in wanted if name not in config.metadata_partitions]
    return rebuild(context, missing) if missing else ()
