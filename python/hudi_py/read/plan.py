"""Planning a scan: which file slices of which partitions, and how they become splits."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.merge import LogMemory, merge_settings
from hudi_py.metadata import MetadataLister
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.arguments import check_partitions
from hudi_py.read.base_file import row_group_sizes
from hudi_py.read.filter import Filter
from hudi_py.read.keys import virtual_key_fields
from hudi_py.read.partition import partition_values, path_values
from hudi_py.read.skipping import Pruned, ReadOptions, Skipping, metadata_of
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import ReadSpec, SliceMode, Split, split_of
from hudi_py.read.support import check_slices
from hudi_py.read.task import gone
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.view import FileSystemView, load_view


@dataclass(frozen=True, slots=True)
class Plan:
    """The file slices of a scan, and what was left out on the way."""

    spec: ReadSpec
    splits: tuple[Split, ...]
    """One for each file slice, in order of partition and file group."""
    partitions_before: int
    partitions_after: int
    listed_by: str = "storage"
    """`storage`, `metadata table`, or `commits` for what the metadata of commits names."""
    pruning: tuple[Pruned, ...] = ()
    """Each step which could leave something out, in order."""

    @property
    def size(self) -> int:
        return sum(split.size for split in self.splits)


def plan_scan(
    snapshot: Snapshot,
    *,
    columns: Sequence[str],
    condition: Filter | None,
    query_type: str,
    partitions: Sequence[str] | None,
    limit: int | None,
    batch_rows: int,
    options: Mapping[str, str] | None = None,
    view: FileSystemView | None = None,
    keys: Collection[str] | None = None,
    mode: SliceMode = "merge",
    emit_deletes: bool = False,
    escaped: bool = False,
) -> Plan:
    """The file slices that hold the rows asked for, of all that `view` shows; None: all of the table.

    Args:
        keys: only rows with these record keys; None: all.
        mode: what of a slice is read.
        emit_deletes: whether deletes come out as rows.
        escaped: whether texts of partition columns are shown as url-encoded paths have them.

    Raises:
        UnsupportedTableError: a slice cannot be read right by this release, or rows do not tell their record keys.
    """
    config, schema = snapshot.config, snapshot.schema
    chosen_options = ReadOptions.of(options)
    key_fields: tuple[str, ...] = ()
    if keys is not None:
        deletes = emit_deletes or mode == "unmerged"
        key_fields = virtual_key_fields(config, schema, snapshot.storage.uri, deletes=deletes)
    uses_metadata = chosen_options.metadata and view is None
    lister, metadata = metadata_of(
        snapshot, chosen_options, listing=uses_metadata, skipping=condition is not None or keys is not None
    )
    listed_by = "commits"
    if view is None:
        view = load_view(snapshot.storage, config, snapshot.timeline, lister, read_damaged=chosen_options.damaged)
        listed_by = "storage" if lister is None else "metadata table"
    before = view.partitions()
    check_known(partitions, before, snapshot, options)
    chosen = before if partitions is None else sorted(set(before) & set(partitions))
    after = [path for path in chosen if _may_match(snapshot, condition, path, escaped)]
    steps = [Pruned("partition path", "partitions", len(before), len(after))]
    skipping = Skipping(
        snapshot,
        metadata,
        condition,
        # indexes may have a key of one column in another form
        None if keys is None or key_fields else frozenset(keys),
        # what the newest state of the index says does not hold for an earlier one
        newest=uses_metadata and snapshot.as_of is None and query_type != "read_optimized",
        buckets=chosen_options.buckets,
        steps=steps,
    )
    after = skipping.partitions(after)
    if isinstance(lister, MetadataLister):
        lister.prefetch(after)
    slices = _slices(view, after, snapshot, query_type)
    if lister is not None and lister.is_storage:
        listed_by = "storage"
    check_slices(config, slices, snapshot.storage.uri)
    settings = merge_settings(config, options) if any(piece.log_files for piece in slices) else None
    # older versions of a row count where versions are not merged (a caller with a view of its own may not merge), and a
    # merger of the user's may make new values
    plain = uses_metadata and mode == "merge" and not emit_deletes and (settings is None or settings.merger is None)
    slices = skipping.slices(slices, merged=plain)
    spec = ReadSpec(
        uri=snapshot.storage.uri,
        table_schema=schema,
        columns=tuple(columns),
        filter=condition,
        merge=settings,
        committed=snapshot.committed if settings else None,
        as_of=snapshot.as_of,
        batch_rows=batch_rows,
        limit=limit,
        mode=mode,
        keys=None if keys is None else frozenset(keys),
        key_fields=key_fields,
        emit_deletes=emit_deletes,
        history=snapshot.history,
        memory=LogMemory.of(options or {}),
        read_damaged=chosen_options.damaged,
    )
    uri = snapshot.storage.uri
    splits = tuple(
        split_of(spec, piece, path_values(config, schema, piece.partition, uri, escaped=escaped)) for piece in slices
    )
    return Plan(spec, splits, len(before), len(after), listed_by, tuple(steps))


def check_columns(names: Iterable[str], schema: pa.Schema, uri: str) -> tuple[str, ...]:
    """The names, each once a column of the schema.

    Raises:
        SchemaMismatchError: one is not; the message has the nearest name.
    """
    result: list[str] = []
    for name in names:
        if name not in schema.names:
            folded = [own for own in schema.names if own.lower() == name.lower()]
            if len(folded) != 1:
                near = difflib.get_close_matches(name, schema.names, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(schema.names)}"
                raise SchemaMismatchError(f"Table at {uri} has no column '{name}'; {hint}")
            name = folded[0]
        if name in result:
            raise SchemaMismatchError(f"Column '{name}' is asked for twice; name each column once")
        result.append(name)
    return tuple(result)


def check_known(
    partitions: Sequence[str] | None, seen: Iterable[str], snapshot: Snapshot, options: Mapping[str, str] | None
) -> None:
    """Raises ConfigError where a partition to read is none of the table's.

    Args:
        seen: partitions that are known to be; of a range those of its commits, which need not be all.
    """
    if partitions is None or set(partitions) <= set(seen):
        return
    lister, _ = metadata_of(snapshot, ReadOptions.of(options), listing=True, skipping=False)
    view = load_view(snapshot.storage, snapshot.config, snapshot.timeline, lister)
    check_partitions(partitions, {*seen, *view.partitions()}, snapshot.config, snapshot.storage.uri)


def divide(storage: Storage, splits: Sequence[Split], target_bytes: int) -> list[Split]:
    """Splits larger than `target_bytes`, of slices without logs, divided at row groups; the others as they are."""
    result: list[list[Split]] = [[split] for split in splits]
    large = [at for at, split in enumerate(splits) if not split.merged and split.size > target_bytes]
    divided = in_threads(lambda at: _divide(storage, splits[at], target_bytes), large)
    for at, pieces in zip(large, divided, strict=True):
        result[at] = pieces
    return [piece for pieces in result for piece in pieces]


def _divide(storage: Storage, split: Split, target_bytes: int) -> list[Split]:
    assert split.base_file is not None
    try:
        sizes = row_group_sizes(storage, split.base_file)
    except FileNotFoundError as error:
        raise gone(storage, split, error) from error
    pieces: list[Split] = []
    start, held = 0, 0
    for number, size in enumerate(sizes):
        if number > start and held + size > target_bytes:
            pieces.append(replace(split, row_groups=(start, number)))
            start, held = number, 0
        held += size
    pieces.append(replace(split, row_groups=(start, len(sizes))))
    return pieces if len(pieces) > 1 else [split]


def _slices(
    view: FileSystemView, partitions: Sequence[PartitionPath], snapshot: Snapshot, query_type: str
) -> list[FileSlice]:
    read = view.latest_base_slices if query_type == "read_optimized" else view.latest_slices

    def list_one(partition: PartitionPath) -> list[FileSlice]:
        return read(partition, snapshot.as_of)

    return [piece for pieces in in_threads(list_one, partitions) for piece in pieces]


def _may_match(snapshot: Snapshot, condition: Filter | None, path: PartitionPath, escaped: bool) -> bool:
    if condition is None:
        return True
    return condition.may_match(partition_values(snapshot.config, snapshot.schema, path, escaped=escaped))
