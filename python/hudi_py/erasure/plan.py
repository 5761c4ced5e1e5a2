"""Plans an erasure: finds the rows to erase in every file, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.config import interop as interop_config
from hudi_py.erasure.contents import DataFiles, ErasureScope, satisfied
from hudi_py.erasure.report import ErasurePlan, Searched, Trace
from hudi_py.erasure.search import BASE, CHANGES, LOG, Search, repair_of
from hudi_py.errors import ConfigError, HudiError, first_line
from hudi_py.formats.arrays import combined
from hudi_py.formats.lookup import TextSet
from hudi_py.interop.iceberg.run import IcebergPublication
from hudi_py.interop.iceberg.target import HINT, BesideTable, IcebergTarget
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.partitions.registry import maintained_names
from hudi_py.model.instant import Action, Instant
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.read import Scan, make_scan
from hudi_py.read.slices.task import read_split_on
from hudi_py.schema import RECORD_KEY
from hudi_py.services.clean.slices import Slicer, read_savepoint, savepoints_of
from hudi_py.services.compaction import check_compactable
from hudi_py.services.context import ServiceContext
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.transaction.recovery.failed_writes import examine
from hudi_py.view.bootstrap import load_bootstrap_sources
from hudi_py.write.dml.slices import Condition, scan_request
from hudi_py.write.table.support import check_writable


@dataclass(frozen=True)
class Prepared:
    """The findings in a state of the table: what to erase."""

    plan: ErasurePlan
    wanted: ErasureScope
    search: Search
    groups: frozenset[FileGroup]
    """The file groups that have a version of the rows."""
    seen: str
    """The state, in the form of `hoodie.py.write.seen`."""


def plan_erasure(context: ServiceContext, condition: Condition, keys: frozenset[str] | None) -> ErasurePlan:
    """Returns what `erase` would do. Changes nothing, and takes no lock. Raises as `prepare`."""
    return prepare(context, condition, keys).plan


def prepare(context: ServiceContext, condition: Condition, keys: frozenset[str] | None) -> Prepared:
    """Reads every file of the table to find what to erase.

    Args:
        condition: a filter; None if `keys` are given.
        keys: record keys, in all partitions.

    Raises:
        ConfigError: both are given, or neither.
        ConfigError, SchemaMismatchError: the filter does not fit the table.
        UnsupportedTableError: the table cannot be written, or compacted if it has logs.
    """
    if (condition is None) == (keys is None):
        raise ConfigError(f"Cannot erase rows of {context.storage.uri}: give a filter, or record keys")
    storage, state = context.storage, context.state()
    config = state.config
    check_writable(config)
    if config.is_mor:
        check_compactable(config)
    context.progress.phase("looking for rows")
    scan = find_rows(context, state, condition, keys)
    spec = scan.plan().spec
    data = DataFiles(storage, config, spec, load_bootstrap_sources(storage, config, state.bootstrap))
    search = Search(storage, data, context.threads, context.progress)
    rows = combined(scan.to_table()[RECORD_KEY])
    if keys is None:
        first = ErasureScope(spec.filter, TextSet(pa.array([], pa.string())))
        known = pa.chunked_array([rows, search.keys_satisfying(first)], pa.string()).unique()
        wanted = ErasureScope(spec.filter, TextSet(known), dict(_staying(context, state, known, condition)))
        asked = f"rows for which {condition}"
    else:
        wanted = ErasureScope(None, TextSet(pa.array(sorted(keys), pa.string())))
        asked = f"rows of {counted(len(keys), 'key')}"
    searched = search.run(wanted)
    data_traces = [trace for trace in searched.traces if trace.kind in (BASE, LOG, CHANGES)]
    own = [trace for trace in data_traces if repair_of(trace.path) is None]
    groups = frozenset(_group(trace) for trace in own)
    needed = bool(len(rows) or searched.traces)
    indexes = value_indexes(config) if needed else ()
    plan = ErasurePlan(
        storage.uri,
        asked,
        len(rows),
        sum(trace.count for trace in data_traces),
        *_parts(context, state, own),
        indexes=indexes,
        published=needed and published_target(context) is not None,
        savepoints=tuple(_savepoints(context, state, own)),
        in_the_way=tuple(_in_the_way(context, state, data_traces, groups)),
        outside=tuple(sorted({data.sources[group].uri for group in groups if group in data.sources})),
        searched=searched,
    )
    return Prepared(plan, wanted, search, groups, scan.pin)


def find_rows(context: ServiceContext, state: TableState, condition: Condition, keys: frozenset[str] | None) -> Scan:
    """Plans a scan of the record keys of rows for which a filter is true, or which have the keys."""
    request = scan_request(context.options, columns=[RECORD_KEY], condition=condition, keys=keys)
    return make_scan(state, request)


def value_indexes(config: TableConfig) -> tuple[str, ...]:
    """Returns the partitions of a metadata table that hold keys or values of rows."""
    return tuple(name for name in config.metadata_partitions if name != FILES)


def published_target(context: ServiceContext) -> IcebergTarget | None:
    """Returns where the table is published to Iceberg: as the options say, else beside the table; None if it is not.

    Raises:
        ConfigError: the catalog that the options name cannot be opened.
    """
    storage, options = context.storage, context.options
    if options.get(interop_config.ICEBERG_ENABLED):
        return IcebergPublication(options).target(storage)
    return BesideTable(storage, storage.uri) if storage.stat(HINT) is not None else None


def _staying(
    context: ServiceContext, state: TableState, keys: pa.StringArray, condition: Condition
) -> Iterator[tuple[str, pa.StringArray]]:
    """Yields, by partition, the keys with a row in the newest state for which the filter is not true."""
    if not len(keys):
        return
    judge = find_rows(context, state, condition, None).plan().spec.filter
    assert judge is not None
    columns = dict.fromkeys((RECORD_KEY, *sorted(judge.columns)))
    request = scan_request(context.options, columns=columns, keys=keys.to_pylist())
    scan = make_scan(state, request)
    staying: dict[str, list[pa.Array]] = {}
    for split in scan.splits():
        for batch in read_split_on(context.storage, split):
            stays = pa.array(~satisfied(judge, batch))
            staying.setdefault(str(split.partition), []).append(combined(batch[RECORD_KEY]).filter(stays))
    for partition, parts in staying.items():
        yield partition, pa.chunked_array(parts, pa.string()).unique()


def _group(trace: Trace) -> FileGroup:
    folder, _, name = trace.path.rpartition("/")
    parsed = parse_base_file_name(name) or parse_log_file_name(name)
    assert parsed is not None
    return folder, parsed.file_id


def _parts(context: ServiceContext, state: TableState, traces: list[Trace]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits files into those of the newest state and others."""
    view = context.view(state)
    newest: set[str] = set()
    for partition in {trace.path.rpartition("/")[0] for trace in traces}:
        for slice_ in view.latest_slices(PartitionPath(partition)):
            newest.update(log.path for log in slice_.log_files)
            newest.update([slice_.base_file.path] if slice_.base_file is not None else [])
    paths = [trace.path for trace in traces]
    return tuple(path for path in paths if path in newest), tuple(path for path in paths if path not in newest)


def _savepoints(context: ServiceContext, state: TableState, traces: list[Trace]) -> Iterator[str]:
    names = {trace.path.rpartition("/")[2] for trace in traces}
    for savepoint in savepoints_of(state.timeline):
        files = read_savepoint(context.storage, state.timeline, savepoint).files
        if any(not names.isdisjoint(kept) for kept in files.values()):
            yield savepoint.time


def _in_the_way(
    context: ServiceContext, state: TableState, traces: list[Trace], groups: frozenset[FileGroup]
) -> Iterator[str]:
    storage, timeline = context.storage, state.timeline
    plans = PendingPlans(storage, timeline)
    dead: set[str] = set()
    for write in plans.writes:
        begun = examine(storage, timeline, write)
        if begun.dead(context.session.settings.heartbeat_expiry_ms):
            dead.add(write.time)
        else:
            writer = begun.writer or "another engine"
            yield f"the {write.action.value} {write.time} of {writer} is under way; wait until it is done"
    for instant in plans.of(Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING):
        if groups & {(str(partition), str(file_id)) for partition, file_id in plans.file_groups(instant)}:
            yield f"the pending {_named(instant)} has file groups with the rows; run it, or remove it (unschedule)"
    for repair in sorted({id_ for trace in traces if (id_ := repair_of(trace.path)) is not None}):
        yield f"the repair {repair} keeps files with the rows; delete them (forget_repair, hudi-py repairs forget)"
    for path in _strangers(context, state, (trace.path for trace in traces if repair_of(trace.path) is None), dead):
        yield f"{path} belongs to no completed write; the doctor says why, and a repair moves it away"
    known = maintained_names(storage, state.config, state.config.metadata_partitions)
    for name in sorted(set(state.config.metadata_partitions) - {*known}):
        yield f"the index {name} may hold values of the rows, and hudi-py cannot build it anew; drop it (drop_index)"
    target = published_target(context)
    try:
        if target is not None:
            target.load()
    except HudiError as error:
        yield f"the Iceberg metadata cannot be made anew: {first_line(error)}"


def _named(instant: Instant) -> str:
    return f"{instant.action.value} {instant.time}"


def _strangers(context: ServiceContext, state: TableState, paths: Iterable[str], dead: set[str]) -> Iterator[str]:
    """Yields data files that belong to no version of a file group, except those of failed writes, which are rolled
    back."""
    view = context.view(state)
    slicer = Slicer(view)
    by_partition: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        by_partition.setdefault(folder, []).append(name)
    for partition, names in by_partition.items():
        listed = [info.name for info in context.storage.list(partition) if not info.is_dir]
        groups = slicer.groups(partition, listed)
        known = {name for slices in groups.values() for slice_ in slices for name in slice_.names}
        for name in names:
            parsed = parse_base_file_name(name) or parse_log_file_name(name)
            if name not in known and parsed is not None and parsed.instant not in dead:
                yield f"{partition}/{name}".lstrip("/")


def failures(searched: Searched, failed: Iterable[str]) -> Searched:
    """Returns the result of a search, updated with the files that a clean could not delete."""
    stuck = set(failed)
    traces = tuple(
        Trace(trace.path, trace.kind, trace.count, "could not be deleted") if trace.path in stuck else trace
        for trace in searched.traces
    )
    return Searched(traces, searched.unread, searched.files)
