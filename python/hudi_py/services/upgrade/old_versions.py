"""Brings a table of versions 2 to 5, or one with timeline layout 0, to version 6: what is found out and refused before,
and the change itself.

Only metadata changes: properties, plans of compactions, and the metadata table, which the next write builds anew, as
releases before 0.14 gave it other records. The properties change last but for files that no reader of version 6 asks
for, so a process that dies leaves the old or the new table.

Sources: `TwoToThreeUpgradeHandler`, `ThreeToFourUpgradeHandler`, `FourToFiveUpgradeHandler`, `FiveToSixUpgradeHandler`,
0.15.0. The handlers for versions 0 and 1 are left out, since these tables cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Option, Options
from hudi_py.config import services as service_config
from hudi_py.config import table as table_config
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.formats.base.files import iter_base_batches
from hudi_py.metadata.table import forget_checked
from hudi_py.model.instant import Action, State
from hudi_py.model.layout import AUXILIARY, METADATA_TABLE
from hudi_py.model.names import NULL_PARTITION, OLD_NULL_PARTITION, PARTITION_PATH, RECORD_KEY, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.within import set_modified
from hudi_py.timeline.properties import WRITABLE_VERSIONS, only_read, update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.transaction.instants import requested_path
from hudi_py.transaction.metadata_drop import drop_metadata_table
from hudi_py.transaction.recovery.failed_writes import refuse_living
from hudi_py.transaction.session import LockedTable
from hudi_py.view import FileSystemView
from hudi_py.write.rows.keygen import key_generator

_FIRST: Final = WRITABLE_VERSIONS[0]
_SETTLED: Final = 3
"""The version from which a table stores how its keys and paths are formed."""
_NULLS_SETTLED: Final = 5
"""The version from which nulls have a partition that no text has."""
_KEYGENS: Final = ("hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type")
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_PLAN: Final = f".{Action.COMPACTION.value}.{State.REQUESTED.name.lower()}"
_SAMPLED_FILES: Final = 3
_SAMPLED_ROWS: Final = 100


# -- what is found out ------------------------------------------------------------------------------------------------


def observed_options(view: FileSystemView, options: Options) -> Options:
    """Completes the options by what old versions do not store, as the table's folders show it. Releases of Apache Hudi
    take the defaults of options instead, so that later writes go to other folders, or find no keys.

    Raises:
        ConfigError: the folders do not show it, or contradict the options.
    """
    config = view.config
    if config.version >= _SETTLED or not config.partition_fields:
        return options
    observed = {}
    paths = view.partitions()
    if not _stores(config, table_config.HIVE_STYLE.key) and paths:
        hive = [_is_hive_style(config, path) for path in paths]
        if any(hive) and not all(hive):
            raise ConfigError(
                f"{_refused(config)}: some of its partitions are named "
                f"column=value, such as {paths[hive.index(True)]}, and others are not, such as "
                f"{paths[hive.index(False)]}; version 3 and later have one or the other"
            )
        _check_given(config, options, table_config.HIVE_STYLE, all(hive), paths[0])
        observed[table_config.HIVE_STYLE] = str(all(hive)).lower()
    if not _stores(config, table_config.URL_ENCODE.key) and not options.given(table_config.URL_ENCODE):
        escaped = next((path for path in paths if _ESCAPE.search(path)), None)
        if escaped is not None:
            raise ConfigError(
                f"{_refused(config)}: its partition {escaped} may be "
                f"url-encoded, and versions before 3 do not store that; give {table_config.URL_ENCODE.key}=true if "
                "%25 in paths stands for %, or false",
                key=table_config.URL_ENCODE.key,
            )
    return options.replace(observed)


def _refused(config: TableConfig) -> str:
    return f"Cannot upgrade table '{config.name}' from version {config.version}"


def _stores(config: TableConfig, key: str) -> bool:
    return bool(config.properties.get(key, "").strip())


def _is_hive_style(config: TableConfig, path: PartitionPath) -> bool:
    return all(f"/{field}=" in f"/{path}" for field in config.partition_fields)


def _check_given(config: TableConfig, options: Options, option: Option[bool], observed: bool, path: str) -> None:
    if options.given(option) and options.get(option) is not observed:
        raise ConfigError(
            f"{_refused(config)} with {option.key}="
            f"{str(not observed).lower()}: its partitions have names such as {path}; leave the option out",
            key=option.key,
        )


# -- what is refused --------------------------------------------------------------------------------------------------


def check_old(view: FileSystemView, after: TableConfig, options: Options) -> None:
    """Refuses tables that would be read or written wrongly afterwards.

    Args:
        after: the properties of version 6.

    Raises:
        ConfigError: an option has to say what the table does not, or rows with nulls are in the partition `default`.
        ConflictError: a killed rollback of a release before 0.10 left no plan.
    """
    config, timeline = view.config, view.timeline
    default = old_null_partition(view)
    if default is not None and not options.get(service_config.SKIP_DEFAULT_PARTITION):
        raise ConfigError(
            f"{_refused(config)}: releases before 0.12 wrote rows with a null partition value to "
            f"{default}, and those of version 5 and later write them to {NULL_PARTITION}, where they do not replace "
            f"the old ones; give {service_config.SKIP_DEFAULT_PARTITION.key}=true to keep the rows, whose value is "
            f"then the text '{OLD_NULL_PARTITION}', and move them afterwards; or move them with Apache Hudi first",
            key=service_config.SKIP_DEFAULT_PARTITION.key,
        )
    for instant in timeline.pending:
        if instant.action is Action.ROLLBACK and instant.state is State.INFLIGHT:
            path = requested_path(timeline.layout, instant.time, instant.action)
            if view.state.storage.stat(path) is None:
                raise ConflictError(
                    f"{_refused(config)}: the rollback {instant.time} was killed, and as of a release "
                    "before 0.10 it has no plan; let the release that wrote it finish it",
                    instant=instant.time,
                )
    if not any(_stores(config, key) for key in _KEYGENS):
        _check_sample(view, after, options)


def old_null_partition(view: FileSystemView) -> PartitionPath | None:
    """Returns the partition to which releases before 0.12 wrote rows with nulls; None if there is none."""
    config = view.config
    if config.version >= _NULLS_SETTLED or not config.partition_fields:
        return None
    return next((path for path in view.partitions() if OLD_NULL_PARTITION in _values(path)), None)


def _values(path: PartitionPath) -> list[str]:
    return [part.rpartition("=")[2] for part in path.split("/")]


def _check_sample(view: FileSystemView, after: TableConfig, options: Options) -> None:
    """Compares keys and paths of some rows with those which the key generator makes that was chosen.

    Raises:
        ConfigError: they differ.
    """
    keygen = replace(key_generator(after, options=options), names_single_key=True)
    bases = (
        slice_.base_file
        for path in view.partitions()
        if not {OLD_NULL_PARTITION, NULL_PARTITION} & {*_values(path)}
        for slice_ in view.latest_base_slices(path)
    )
    for base in islice((base for base in bases if base is not None and base.source is None), _SAMPLED_FILES):
        names = {field.partition(".")[0] for field in (*after.record_key_fields, *after.partition_fields)}
        wanted = [RECORD_KEY, PARTITION_PATH, *sorted(names)]
        for batch in islice(iter_base_batches(view.state.storage, base.path, wanted, batch_rows=_SAMPLED_ROWS), 1):
            if not {RECORD_KEY, PARTITION_PATH, *names} <= {*batch.schema.names}:
                continue
            _check_same(view.config, batch[PARTITION_PATH], keygen.partition_paths(batch), "partition path", base.path)
            keys = keygen.record_keys(batch) if keygen.key_fields else batch[RECORD_KEY]
            _check_same(view.config, batch[RECORD_KEY], keys, "record key", base.path)


def _check_same(config: TableConfig, stored: pa.Array, made: pa.Array, what: str, path: str) -> None:
    at = pc.index(pc.equal(stored, made).fill_null(False), pa.scalar(False)).as_py()
    if at >= 0:
        option = table_config.KEYGEN_CLASS
        raise ConfigError(
            f"{_refused(config)}: rows have another {what} ({stored[at].as_py()!r} in {path}) than "
            f"its key generator makes ({made[at].as_py()!r}), which the table does not store; give {option.key} with "
            "its options, as the writers of the table have them",
            key=option.key,
        )


# -- the steps --------------------------------------------------------------------------------------------------------


def planned_steps(state: TableState) -> Iterator[str]:
    """Yields what brings the table to version 6, in order."""
    if state.config.version < _FIRST and (state.config.metadata_partitions or state.storage.list(METADATA_TABLE)):
        yield "the metadata table of the old release deleted; the next write builds it anew"
    copied = len(list(_plans_to_copy(state)))
    if copied:
        yield f"{counted(copied, 'plan')} of running compactions copied from {AUXILIARY} to the timeline"
    yield f"hoodie.properties replaced: from then on the table has version {_FIRST}"
    kept = len(_plan_copies(state.storage))
    if kept:
        yield f"{counted(kept, 'compaction plan')} in {AUXILIARY}, of which the timeline has its own, deleted"


def raise_version(table: LockedTable, changes: Mapping[str, str | None], purpose: str) -> None:
    """Brings a table to version 6. Failed writes stay, for the rollbacks of version 6.

    Args:
        changes: the properties of version 6.
        purpose: follows "Cannot" in messages.

    Raises:
        ConflictError: an action of another process may be under way.
    """
    if not only_read(table.config):  # another process was quicker
        return
    begun = [
        pending
        for pending in table.timeline.pending
        if pending.state is State.INFLIGHT or pending in table.plans.writes
    ]
    refuse_living(table, begun, purpose)
    storage = table.storage
    if table.config.version < _FIRST:
        drop_metadata_table(storage, drop_indexes=True)
    for path, copied in _plans_to_copy(table):
        storage.put(path, storage.read(copied.path))
        set_modified(storage, path, copied.modified_ms)  # not a sign of life of the compaction
    storage.sync()
    update_table_config(storage, changes)
    forget_checked(storage)
    delete_plan_copies(storage)


def delete_plan_copies(storage: Storage) -> None:
    """Deletes the copies of compaction plans that releases before 0.14 kept beside the timeline. Safe to repeat."""
    for path in _plan_copies(storage):
        storage.delete(path)


def _plan_copies(storage: Storage) -> list[str]:
    return [info.path for info in storage.list(AUXILIARY) if not info.is_dir and info.name.endswith(_PLAN)]


def _plans_to_copy(state: TableState) -> Iterator[tuple[str, FileInfo]]:
    """Yields the plans of compactions that only the auxiliary folder has, after their paths on the timeline. Layout 0
    renames the request when a compaction begins."""
    layout = state.timeline.layout
    for instant in state.timeline.pending:
        if instant.action is not Action.COMPACTION:
            continue
        path, *others = layout.plan_paths(instant.time, instant.action)
        for other in others if state.storage.stat(path) is None else ():
            info = state.storage.stat(other)
            if info is not None:
                yield path, info


def undo_of_old(config: TableConfig, to: int) -> str:
    """Returns how to go back from a version to one before 6, or to timeline layout 0."""
    if config.version >= _FIRST:
        return "there is no way back to timeline layout 0"
    first = f"hudi-py downgrade PATH --to {_FIRST}, then " if to > _FIRST else ""
    return (
        f"{first}downgrade_table of Apache Hudi 0.14 or 0.15 to version {config.version}, since hudi-py writes no "
        f"version before {_FIRST}"
    )
