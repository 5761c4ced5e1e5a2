"""Plans a scan: selects partitions and file slices, and turns them into splits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.expressions.filter import parse_filter
from hudi_py.merge import LogSpec, merge_settings
from hudi_py.metadata.files import MetadataLister
from hudi_py.metadata.table import MetadataTable
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.partition import path_values
from hudi_py.read.pruning.keys import virtual_key_fields
from hudi_py.read.pruning.pruner import Pruned, SoughtRows
from hudi_py.read.pruning.registry import prune_partitions, prune_slices
from hudi_py.read.request import ScanRequest, check_partitions
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.support import check_slices, missing_file
from hudi_py.schema import META_FIELDS, RECORD_KEY
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.view import FileSystemView


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The file slices of a scan, and the results of pruning."""

    spec: ReadSpec
    splits: tuple[Split, ...]
    """One for each file slice, in order of partition and file group."""
    partitions_before: int
    partitions_after: int
    listed_by: str = "storage"
    """`storage`, `metadata table`, or `commits` (commit metadata)."""
    pruning: tuple[Pruned, ...] = ()
    """Each step that could prune something, in order."""
    note: str | None = None
    """What may be unexpected about the time or range that is read."""

    @property
    def size(self) -> int:
        """Returns the size of all files in bytes."""
        return sum(split.size for split in self.splits)


def plan_scan(
    snapshot: Snapshot, request: ScanRequest, *, view: FileSystemView | None = None, escaped: bool = False
) -> ScanPlan:
    """Plans which file slices hold the requested rows: candidates, minus what pruners leave out, as splits.

    Args:
        view: the file slices to choose from; None: all of the table.
        escaped: see `partition.path_values`.

    Raises:
        UnsupportedTableError: a slice cannot be read by this release, or keys were requested and the record keys of
            rows are unknown.
    """
    config, uri = snapshot.config, snapshot.storage.uri
    spec = _rows_of(snapshot, request)
    candidates = _candidate_slices(snapshot, request, spec, view)
    every = candidates.view.partitions()
    check_known(every, snapshot, request)
    sought = SoughtRows(snapshot, request, spec, candidates.metadata, given=candidates.given, escaped=escaped)
    partitions, steps = prune_partitions(sought, every)
    slices = _newest_slices(candidates.view, partitions, snapshot, request.query_type)
    check_slices(config, slices, uri, request.bootstrap_sources)
    if any(slice_.log_files for slice_ in slices):
        spec = replace(spec, logs=log_spec(snapshot, request))
    sought.merged = not candidates.given and request.use_metadata and _is_newest_of_each(spec)
    slices, more = prune_slices(sought, slices)
    splits = _split_slices(snapshot, spec, slices, escaped=escaped)
    return ScanPlan(spec, splits, len(every), len(partitions), candidates.listed_by, (*steps, *more))


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The file slices that may be read."""

    view: FileSystemView
    metadata: MetadataTable | None
    """The table whose indexes may prune them; None if there is none, or nothing to prune by."""
    given: bool
    """Whether the caller provides them, so that they may not be the newest state's."""

    @property
    def listed_by(self) -> str:
        return "commits" if self.given else "storage" if self.view.lister.is_storage else "metadata table"


def _candidate_slices(
    snapshot: Snapshot, request: ScanRequest, spec: ReadSpec, view: FileSystemView | None
) -> _Candidates:
    if view is None:
        view = snapshot.view(by_metadata=request.use_metadata, read_damaged=request.read_damaged)
        return _Candidates(view, view.lister.metadata if isinstance(view.lister, MetadataLister) else None, given=False)
    prunes = request.use_metadata and request.use_indexes and (spec.filter is not None or spec.keys is not None)
    return _Candidates(view, snapshot.metadata("files are not pruned by it") if prunes else None, given=True)


def _split_slices(
    snapshot: Snapshot, spec: ReadSpec, slices: Sequence[FileSlice], *, escaped: bool
) -> tuple[Split, ...]:
    """Builds one split for each slice, with the values from its partition's path."""
    values = {
        path: path_values(snapshot.config, snapshot.schema, path, snapshot.storage.uri, escaped=escaped)
        for path in dict.fromkeys(slice_.partition for slice_ in slices)
    }
    return tuple(Split.of(spec, slice_, values[slice_.partition]) for slice_ in slices)


def _rows_of(snapshot: Snapshot, request: ScanRequest) -> ReadSpec:
    """Returns how to read the requested rows from slices without logs."""
    config, schema, uri = snapshot.config, snapshot.schema, snapshot.storage.uri
    has_keys = request.with_keys and not config.populates_meta_fields
    rows = pa.schema([pa.field(RECORD_KEY, pa.string()), *schema]) if has_keys else schema
    columns, condition = requested_columns(request, rows, uri), parse_filter(request.filter, schema)
    key_fields: tuple[str, ...] = ()
    if request.keys is not None or has_keys:
        deletes = request.emit_deletes or request.mode == "unmerged"
        key_fields = virtual_key_fields(config, schema, uri, deletes=deletes)
    return ReadSpec(
        uri=uri,
        table_schema=rows,
        columns=columns,
        batch_rows=request.batch_rows,
        filter=condition,
        limit=request.limit,
        mode=request.mode,
        keys=request.keys,
        key_fields=key_fields,
        emit_deletes=request.emit_deletes,
        history=snapshot.history,
    )


def log_spec(snapshot: Snapshot, request: ScanRequest) -> LogSpec:
    """Returns how to read the logs of a snapshot. Raises what `merge_settings` raises."""
    settings = merge_settings(snapshot.config, request.options.values)
    return LogSpec(settings, snapshot.committed, snapshot.as_of, request.memory, request.read_damaged)


def _is_newest_of_each(spec: ReadSpec) -> bool:
    """Returns whether each row is the newest version of its key, with values from the files: without a merge older
    versions count too, and a user-defined merger may create new values."""
    return spec.mode == "merge" and not spec.emit_deletes and (spec.logs is None or spec.logs.merge.merger is None)


def requested_columns(request: ScanRequest, schema: pa.Schema, uri: str) -> tuple[str, ...]:
    """Returns the columns that a request reads. Raises what `check_columns` raises."""
    if request.columns is None and not request.meta:
        return tuple(name for name in schema.names if name not in META_FIELDS)
    return check_columns(request.columns, schema, uri)


def check_columns(names: Iterable[str] | None, schema: pa.Schema, uri: str) -> tuple[str, ...]:
    """Returns the names in the schema's spelling; None: all columns.

    Raises:
        SchemaMismatchError: a column does not exist (the message suggests the closest match), or is named twice.
    """
    result: list[str] = []
    for name in schema.names if names is None else names:
        if name not in schema.names:
            folded = [own for own in schema.names if own.lower() == name.lower()]
            if len(folded) != 1:
                near = difflib.get_close_matches(name, schema.names, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(schema.names)}"
                raise SchemaMismatchError(f"Table at {uri} has no column '{name}'; {hint}")
            name = folded[0]
        if name in result:
            raise SchemaMismatchError(f"Column '{name}' is requested twice; name each column once")
        result.append(name)
    return tuple(result)


def check_known(seen: Iterable[str], snapshot: Snapshot, request: ScanRequest) -> None:
    """Raises ConfigError if the table has no such partition.

    Args:
        seen: partitions known to exist; not necessarily all.
    """
    partitions = request.partitions
    if partitions is None or set(partitions) <= set(seen):
        return
    view = snapshot.view(by_metadata=request.use_metadata, read_damaged=request.read_damaged)
    check_partitions(partitions, {*seen, *view.partitions()}, snapshot.config, snapshot.storage.uri)


def divide(storage: Storage, splits: Sequence[Split], target_bytes: int) -> list[Split]:
    """Divides splits without logs that are larger than `target_bytes` at row groups; keeps the others."""
    result: list[list[Split]] = [[split] for split in splits]
    large = [index for index, split in enumerate(splits) if is_divided(split, target_bytes)]
    divided = in_threads(lambda index: _divide_split(storage, splits[index], target_bytes), large)
    for index, parts in zip(large, divided, strict=True):
        result[index] = parts
    return [part for parts in result for part in parts]


def is_divided(split: Split, target_bytes: int) -> bool:
    """Returns whether `divide` reads the footer of the split's file, to divide it."""
    return not split.merged and split.size > target_bytes


def _divide_split(storage: Storage, split: Split, target_bytes: int) -> list[Split]:
    assert split.base_file is not None
    try:
        with BaseFileReader(storage, split.base_file) as reader:
            sizes = reader.row_group_sizes()
    except FileNotFoundError as error:
        raise missing_file(storage, split, error) from error
    parts: list[Split] = []
    start, held = 0, 0
    for number, size in enumerate(sizes):
        if number > start and held + size > target_bytes:
            parts.append(replace(split, row_groups=(start, number)))
            start, held = number, 0
        held += size
    parts.append(replace(split, row_groups=(start, len(sizes))))
    return parts if len(parts) > 1 else [split]


def _newest_slices(
    view: FileSystemView, partitions: Sequence[PartitionPath], snapshot: Snapshot, query_type: str
) -> list[FileSlice]:
    """Returns the newest slices, in order of partition and file group."""
    read = view.latest_base_slices if query_type == "read_optimized" else view.latest_slices
    return view.in_portions(
        partitions, lambda some: [slice_ for partition in some for slice_ in read(partition, snapshot.as_of)]
    )
