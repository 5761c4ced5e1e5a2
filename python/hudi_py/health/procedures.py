"""Apache Hudi's SQL procedures that repair a table: what the doctor repairs, one kind of problem at a time
(`RepairAddpartitionmetaProcedure`, `RepairCorruptedCleanFilesProcedure`, `RepairDeduplicateProcedure`,
`RepairMigratePartitionMetaProcedure`, `RepairOverwriteHoodiePropsProcedure`, `DeleteMarkerProcedure`, 1.2.0).

Rows and columns are Apache Hudi's. docs/differences says where the repairs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.health.diagnose import diagnose
from hudi_py.health.findings import Diagnosis
from hudi_py.health.mending.plan import plan_repair
from hudi_py.health.mending.properties import write_properties
from hudi_py.health.mending.rewrite import check_can_rewrite, replace_groups, rows_by_group
from hudi_py.health.mending.run import repair
from hudi_py.health.properties import read_properties
from hudi_py.inspect.procedures.shown import Given, Rows, columns, needed_text, table_of
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import PARTITION_METAFILE, PROPERTIES
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.model.properties import (
    CHECKSUM,
    NAME,
    damaged_keys,
    invalid_properties,
    parse_properties,
    with_checksum,
)
from hudi_py.progress import Progress
from hudi_py.schema import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage, open_beside, open_storage
from hudi_py.timeline.properties import update_table_config
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.markers import remove_markers
from hudi_py.transaction.partition_metafile import creation_time, partition_metafile
from hudi_py.view import StorageLister
from hudi_py.wiring import service_target

_VERSION: Final = "hoodie.table.version"
_TYPE: Final = "hoodie.table.type"
_LAYOUT: Final = "hoodie.timeline.layout.version"
_BY_OTHERS: Final = {
    _VERSION: "Table.upgrade or Table.downgrade",
    _LAYOUT: "Table.upgrade or Table.downgrade",
    _TYPE: "Table.change_type",
}
"""Properties that change along with files of the table, and what changes them."""
_BASE_FORMAT: Final = "hoodie.partition.metafile.use.base.format"
_DEDUPE_TYPES: Final = ("insert_type", "update_type", "upsert_type")


@dataclass(frozen=True)
class RepairCall:
    """The table that a procedure repairs, which may not open."""

    path: str
    given: Mapping[str, Any]
    """Options of writes."""

    @cached_property
    def options(self) -> Options:
        return Options.resolve(self.given, Scope.WRITE)

    @cached_property
    def storage(self) -> Storage:
        return open_storage(self.path, self.options.for_storage())

    def context(self) -> ServiceContext:
        """Returns the context of an action. Raises TableNotFoundError, UnsupportedTableError."""
        return ServiceContext.of(service_target(self.storage, self.options))

    def diagnosis(self) -> Diagnosis:
        return diagnose(self.storage, self.given, storage_options=self.options.for_storage())

    def mend(self, diagnosis: Diagnosis, code: str) -> None:
        """Repairs the findings with a code, as `Table.repair` does: what is removed is kept."""
        plan = plan_repair(replace(diagnosis, findings=diagnosis.of(code)))
        repair(self.storage, plan, self.given, storage_options=self.options.for_storage())


@dataclass(frozen=True, slots=True)
class RepairProcedure:
    """A procedure that repairs something."""

    parameters: Mapping[str, Any]
    """Parameters with their default values, in order."""
    columns: pa.Schema
    rows: Callable[[RepairCall, Given], Rows] = field(repr=False)


def run_repair_procedure(path: str, options: Mapping[str, Any], name: str, given: Given) -> pa.Table:
    """Runs one of `REPAIRS` and returns its rows.

    Args:
        options: options of writes.
        given: values of parameters; the others have their defaults.

    Raises:
        ConfigError: a parameter is wrong.
        HudiError: the repair is not possible; the error says why.
    """
    procedure = REPAIRS[name]
    rows = procedure.rows(RepairCall(path, options), {**procedure.parameters, **given})
    return table_of(procedure.columns, list(rows))


def _add_metafiles(call: RepairCall, given: Given) -> Rows:
    """Adds the metafiles of partitions that lack them, whose folders have data files."""
    diagnosis = call.diagnosis()
    lacking = {str(finding.partition) for finding in diagnosis.of("files.no_metafile")}
    if lacking and not given["dry_run"]:
        call.mend(diagnosis, "files.no_metafile")
    done = "None" if given["dry_run"] else "Repaired"
    for partition in sorted({*_marked_partitions(call), *lacking}):
        yield partition, "No" if partition in lacking else "Yes", done if partition in lacking else "None"


def _marked_partitions(call: RepairCall) -> Iterator[PartitionPath]:
    """Yields the partitions with a metafile."""
    for path in StorageLister(call.storage, call.context().config()).partitions():
        if path or any(name.startswith(PARTITION_METAFILE) for name in call.storage.names(path)):
            yield path


def _drop_corrupt_cleans(call: RepairCall, given: Given) -> Rows:
    """Drops pending cleans whose plan cannot be read."""
    diagnosis = call.diagnosis()
    if diagnosis.of("timeline.clean_unreadable"):
        call.mend(diagnosis, "timeline.clean_unreadable")
    yield (True,)


def _migrate_metafiles(call: RepairCall, given: Given) -> Rows:
    """Replaces the text metafiles of partitions by ones in the format of base files.

    New files first, then the property, then the old files: readers find the partitions at any time, and a call after
    one that was killed finishes it.
    """
    context = call.context()
    if given["dry_run"]:
        for partition, text, base in _metafiles(context):
            yield partition, _flag(text), _flag(base), "MIGRATE" if text else "NONE"
        return
    with context.locked("migrate the partition metafiles of the table") as table:
        storage, config = table.storage, table.config
        if config.base_file_extension != "parquet":
            raise ConfigError(
                f"Cannot migrate the partition metafiles of {storage.uri}: its base files are "
                f"{config.base_file_extension} files; supported: parquet"
            )
        old = replace(config, properties={**config.properties, _BASE_FORMAT: "false"})
        new = replace(config, properties={**config.properties, _BASE_FORMAT: "true"})
        metafiles = _metafiles(context)
        newest = max((write.time for write in table.timeline.write_completed), default=InstantTime("0"))
        for partition, _, base in metafiles:
            if not base:
                since = creation_time(storage, old, partition) or newest
                storage.put(*partition_metafile(new, partition, since))
        storage.sync()
        update_table_config(storage, {_BASE_FORMAT: "true"})
        for partition, text, _ in metafiles:
            if text:
                storage.delete(join_path(partition, PARTITION_METAFILE))
        storage.sync()
    for partition, text, base in metafiles:
        yield partition, _flag(text), _flag(base), "MIGRATED"


def _metafiles(context: ServiceContext) -> list[tuple[PartitionPath, bool, bool]]:
    """Returns each partition that has a metafile, and whether it has one as text and in the format of base files."""
    config, storage = context.config(), context.storage
    base_name = f"{PARTITION_METAFILE}.{config.base_file_extension}"
    metafiles = []
    for partition in StorageLister(storage, config).partitions():
        names = set(storage.names(partition))
        text, base = PARTITION_METAFILE in names, base_name in names
        if partition or text or base:
            metafiles.append((partition, text, base))
    return metafiles


def _flag(value: bool) -> str:
    return str(value).lower()


def _overwrite_properties(call: RepairCall, given: Given) -> Rows:
    """Replaces the properties of the table by those in a file, with a new checksum.

    Raises:
        ConfigError: the file is missing, no table could be opened with it, or it changes a property that files of the
            table depend on.
    """
    source, storage = needed_text(given, "new_props_file_path"), call.storage
    new = with_checksum({key: value for key, value in _read_file(call, source).items() if key != CHECKSUM})
    lock = table_lock(
        storage,
        LockSettings.of(call.options),
        purpose="replace the properties of the table",
        storage_options=call.options.for_storage(),
    )
    with lock:
        old, problem = read_properties(storage, PROPERTIES)
        _check_properties(storage, source, new, {} if old is None or problem else old)
        if old is None or problem:
            write_properties(storage, new)
        else:
            update_table_config(storage, {**dict.fromkeys(old.keys() - new.keys()), **new})
        storage.sync()
    before = old or {}
    for key in sorted({*before, *new}):
        yield key, before.get(key, "null"), new.get(key, "null")


def _read_file(call: RepairCall, path: str) -> dict[str, str]:
    folder, _, name = path.rpartition("/")
    try:
        data = open_beside(call.storage, folder or "/").read(name)
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(
            f"Cannot replace the properties of {call.storage.uri}: there is no file {path}; give the path or URI of "
            "one that the table's storage options can read"
        ) from None
    return parse_properties(data.decode("latin-1"))


def _check_properties(storage: Storage, source: str, new: Mapping[str, str], old: Mapping[str, str]) -> None:
    """Checks that a table with these properties could be opened, and has the files that they ask for."""
    wrong = [f"it has no {key}" for key in (NAME, _VERSION, _TYPE, _LAYOUT) if not new.get(key)]
    wrong += (
        f"{key!r} is unknown and differs from {known} in one character" for key, known in damaged_keys(new).items()
    )
    wrong += (f"{key}={new[key]!r} is none of {', '.join(known)}" for key, known in invalid_properties(new).items())
    wrong += (
        f"it changes {key} from {old[key]} to {new[key]}, which takes more than properties: use {instead}"
        for key, instead in _BY_OTHERS.items()
        if old.get(key) and new.get(key) and old[key] != new[key]
    )
    if wrong:
        raise ConfigError(f"Cannot replace the properties of {storage.uri} by those in {source}: {'; '.join(wrong)}")


def _deduplicate(call: RepairCall, given: Given) -> Rows:
    """Keeps one row of each key that a partition has several times, the one written last.

    On a dry run, writes what the file groups would hold to a folder. Otherwise, writes those with such keys again, as a
    commit: the old rows stay readable by time travel.
    """
    partition = PartitionPath(needed_text(given, "duplicated_partition_path").strip("/"))
    folder, kind = needed_text(given, "repaired_output_path"), str(given["dedupe_type"])
    if kind not in _DEDUPE_TYPES:
        raise ConfigError(
            f"Cannot call repair_deduplicate with dedupe_type => {kind!r}; supported: {', '.join(_DEDUPE_TYPES)}"
        )
    context = call.context()
    check_can_rewrite(context.config(), call.storage.uri)
    seen = context.timeline()
    slices = context.view(context.state()).latest_slices(partition)
    if not slices:
        raise ConfigError(
            f"Cannot remove duplicates from the partition {partition!r} of {call.storage.uri}: there is no such "
            "partition with rows; CALL show_metadata_table_partitions lists partitions"
        )
    rows = rows_by_group(context.session, seen, [(str(partition), str(slice_.file_id)) for slice_ in slices])
    kept = dict(zip(rows, _newest_rows([*rows.values()]), strict=True))
    if given["dry_run"]:
        _write_copies(call, folder, {file_id: table for (_, file_id), table in kept.items()})
        yield (f"Deduplicated files placed in: {folder}.",)
        return
    changed = [group for group, table in kept.items() if table.num_rows < rows[group].num_rows]
    if changed:
        left = pa.concat_tables(kept[group] for group in changed)
        replace_groups(context.session, seen, context.options, changed, left, Progress.silent())
    yield (f"Deduplicated files placed in: {partition}.",)


def _newest_rows(groups: Sequence[pa.Table]) -> list[pa.Table]:
    """Returns the rows of each group without those whose key another row has that was written later."""
    place, number, order = "__group", "__row", "__order"
    numbered = pa.concat_tables(
        table.select([RECORD_KEY, COMMIT_TIME, COMMIT_SEQNO])
        .append_column(place, pa.array([index] * table.num_rows, pa.int32()))
        .append_column(number, pa.array(range(table.num_rows), pa.int64()))
        for index, table in enumerate(groups)
    )
    in_order = numbered.sort_by([(name, "ascending") for name in (COMMIT_TIME, COMMIT_SEQNO, place, number)])
    in_order = in_order.append_column(order, pa.array(range(in_order.num_rows), pa.int64()))
    last = in_order.group_by(RECORD_KEY).aggregate([(order, "max")])[f"{order}_max"]
    newest = in_order.select([place, number]).take(last).sort_by(number)
    return [table.take(newest.filter(pc.equal(newest[place], index))[number]) for index, table in enumerate(groups)]


def _write_copies(call: RepairCall, folder: str, rows: Mapping[str, pa.Table]) -> None:
    inside = folder.rstrip("/") + "/"
    if any(inside.startswith(f"{base.rstrip('/')}/") for base in (call.storage.uri, call.path)):
        raise ConfigError(f"Cannot write copies of rows to {folder}: it lies in the table; give a folder elsewhere")
    storage = open_beside(call.storage, folder)
    if storage.list(""):
        raise ConfigError(f"Cannot write copies of rows to {folder}: it is not empty; give another folder")
    for file_id, table in rows.items():
        with storage.open_output(f"{file_id}.parquet") as sink:
            pq.write_table(table, sink)
    storage.sync()


def _delete_markers(call: RepairCall, given: Given) -> Rows:
    """Deletes the markers of instants that are over.

    Raises:
        ConflictError: an instant is pending: its writer, or the rollback of its write, needs the markers.
    """
    names = [part.strip() for part in needed_text(given, "instant_time").split(",") if part.strip()]
    context = call.context()
    with context.locked("delete markers of the table") as table:
        pending = {unfinished.time for unfinished in table.timeline.pending}
        for name in names:
            if "/" in name or name.startswith("."):
                raise ConfigError(f"Cannot delete the markers of {name!r}: it is not an instant")
            if name in pending:
                raise ConflictError(
                    f"Cannot delete the markers of {name} of {table.storage.uri}: the instant is pending, and its "
                    "writer or the rollback of its write needs them; CALL rollback_to_instant removes them with its "
                    "files",
                    instant=name,
                )
        for name in names:
            remove_markers(table.storage, InstantTime(name))
    yield (True,)


REPAIRS: Final[Mapping[str, RepairProcedure]] = {
    "repair_add_partition_meta": RepairProcedure(
        {"table": None, "dry_run": True},
        columns("partition_path text, metadata_is_present text, action text"),
        _add_metafiles,
    ),
    "repair_corrupted_clean_files": RepairProcedure({"table": None}, columns("result flag"), _drop_corrupt_cleans),
    "repair_deduplicate": RepairProcedure(
        {
            **dict.fromkeys(("table", "duplicated_partition_path", "repaired_output_path")),
            "dry_run": True,
            "dedupe_type": _DEDUPE_TYPES[0],
        },
        columns("result text"),
        _deduplicate,
    ),
    "repair_migrate_partition_meta": RepairProcedure(
        {"table": None, "dry_run": True},
        columns("partition_path text, text_metafile_present text, base_metafile_present text, action text"),
        _migrate_metafiles,
    ),
    "repair_overwrite_hoodie_props": RepairProcedure(
        dict.fromkeys(("table", "new_props_file_path")),
        columns("property text, old_value text, new_value text"),
        _overwrite_properties,
    ),
    "delete_marker": RepairProcedure(
        dict.fromkeys(("table", "instant_time")), columns("delete_marker_result flag"), _delete_markers
    ),
}
"""The procedures by name."""
