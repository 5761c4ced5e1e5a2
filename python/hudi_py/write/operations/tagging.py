"""Tags incoming rows: holds them by share, and finds the file groups of their keys.

If an index over all partitions finds keys, and merges fold two versions into one row, rows are merged before they are
placed: only the folded row determines the partition (`HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded`,
1.2.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import delete_marks, merge_with_base
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.schema import RECORD_KEY, conform
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.merge import updates_of
from hudi_py.write.index import GlobalBaseFileIndex, GlobalIndex, Index, KeyLookup, open_index
from hudi_py.write.operations.shares import Share
from hudi_py.write.placement.combine import (
    PLACE,
    OnePerKey,
    add_located,
    located,
    losing_keys,
    made_of_several,
    paths_of,
    placed,
    relocate,
    without_places,
)
from hudi_py.write.rows import (
    KeyedRows,
    LocatedRows,
    PartitionedRows,
    TaggedRows,
    UntaggedRows,
    one_row_per_key,
    sorted_by_key,
    without_keys,
)


@dataclass(frozen=True, slots=True)
class TaggedInput:
    """The input of a write by share."""

    held: PartitionedRows
    names: Iterable[PartitionPath]
    """The names of the shares."""
    rows: Callable[[Share], TaggedRows | UntaggedRows]


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Rows whose keys an index has looked up, or will, by the partitions that they are written to."""

    held: PartitionedRows
    tagged: Callable[[PartitionPath, Sequence[FileSlice]], TaggedRows]
    """Called with a partition and its latest slices."""


@contextmanager
def tagged_input(
    context: WriteContext, operation: Operation, batches: Iterable[pa.RecordBatch]
) -> Iterator[TaggedInput]:
    """Reads the input of a write, and finds the file groups of its keys as far as the operation needs them.

    Raises:
        ConfigError: the table is written with another index.
    """
    settings, combines = context.settings, context.settings.combines and operation.takes_whole_rows
    keyed, schema = map(partial(context.keyed_for, operation), batches), context.schema_for(operation)
    if settings.looks_up(operation):
        with look_up(context, operation, keyed, schema, one_per_key=combines) as looked_up:
            partitions = looked_up.held.partitions
            yield TaggedInput(
                looked_up.held, partitions, lambda part: looked_up.tagged(part.path, [*part.slices.values()])
            )
    elif combines and settings.index.is_global:
        with held_rows(context, placed(keyed), pa.schema([*schema, PLACE])) as held:
            winners = OnePerKey(context, held)
            yield TaggedInput(
                held,
                winners.partitions,
                lambda part: not_looked_up(context, operation, part, UntaggedRows.of(winners.table(part.path))),
            )
    else:
        rows = keyed if context.buckets is None else map(context.buckets.spread, keyed)
        with held_rows(context, rows, schema) as held:
            yield TaggedInput(
                held,
                held.partitions,
                lambda part: not_looked_up(context, operation, part, UntaggedRows.held_by(held, part.name)),
            )


def not_looked_up(
    context: WriteContext, operation: Operation, share: Share, rows: UntaggedRows
) -> TaggedRows | UntaggedRows:
    """Returns the rows of a share whose keys no index looks up: combined, sorted, and tagged by their bucket."""
    settings, bucket = context.settings, share.bucket if operation.looks_up_keys else None
    combines = settings.combines and operation.takes_whole_rows
    if not (combines or settings.sort_by_key or bucket is not None):
        return rows
    table = pa.Table.from_batches(list(rows.batches()), context.schema_for(operation)).combine_chunks()
    if combines:
        table = one_row_per_key(table, settings.merge)
    if settings.sort_by_key:
        table = sorted_by_key(table)
    if bucket is None:
        return UntaggedRows.of(table)
    slice_, every = bucket.slice_, np.arange(table.num_rows)
    if slice_ is None or (operation.traits.known == "delete" and not slice_.size):
        return TaggedRows(table, (), every)
    return TaggedRows(table, ((slice_, every),), every[:0])


@contextmanager
def look_up(
    context: WriteContext, operation: Operation, rows: Iterable[KeyedRows], schema: pa.Schema, *, one_per_key: bool
) -> Iterator[LookedUp]:
    """Looks up the keys of rows in the index of the write, in one process or in a task.

    Args:
        schema: schema of the rows; with `PLACE` if they have their places in the input already, which they then keep.
        one_per_key: keep the row of each key that wins within the input.

    Raises:
        ConfigError: the table is written with another index.
    """
    index = index_of(context)
    if index.is_global:
        with _look_up_everywhere(context, index, operation, rows, schema, one_per_key=one_per_key) as looked_up:
            yield looked_up
        return
    with held_rows(context, rows, schema) as held:

        def tagged(path: PartitionPath, slices: Sequence[FileSlice]) -> TaggedRows:
            table = held.table(path)
            if one_per_key:
                table = one_row_per_key(table, context.settings.merge)
            return index.tag(table, path, slices)

        yield LookedUp(held, tagged)


@contextmanager
def _look_up_everywhere(
    context: WriteContext,
    index: GlobalIndex,
    operation: Operation,
    rows: Iterable[KeyedRows],
    schema: pa.Schema,
    *,
    one_per_key: bool,
) -> Iterator[LookedUp]:
    """Looks keys up in all partitions. If the index moves rows, updates go to their own partition if their key is in
    another one."""
    merge, has_places = context.settings.merge, PLACE.name in schema.names
    moves = operation.traits.known == "update" and context.settings.index.moves_rows
    merges = merge.folds and (moves or one_per_key)
    whole = moves or merges or isinstance(index, GlobalBaseFileIndex)
    own = schema
    if (one_per_key or merges) and not has_places:
        rows, schema = placed(rows), pa.schema([*schema, PLACE])
    # merged rows have lost their place already
    packed = LocatedRows.packed_schema(own if merges else schema, moves=whole)

    def found(held: PartitionedRows, losing: Mapping[PartitionPath, pa.Array], unique: bool) -> LookedUp:
        def tagged(path: PartitionPath, slices: Sequence[FileSlice]) -> TaggedRows:
            table = without_keys(held.table(path), losing.get(path))
            table = table if has_places else without_places(table)
            if not unique:
                table = one_row_per_key(table, merge)
            return LocatedRows.unpacked(table, moves=whole).tagged(slices)

        return LookedUp(held, tagged)

    if not whole:
        with held_rows(context, located(index, rows), packed) as held:
            losing = losing_keys(held, merge, order=PLACE.name, packed=True) if one_per_key else {}
            yield found(held, losing, not one_per_key)
        return
    with held_rows(context, rows, schema) as held, PartitionedRows(packed, context.settings.waiting_bytes) as moved:
        searched = index.searched(_distinct_keys(held))
        if merges:
            merge_and_relocate(context, searched, held, moved, moves=moves)
        else:
            relocate(searched, held, moved, context, moves=moves, order=PLACE.name if one_per_key else None)
        yield found(moved, {}, True)


@contextmanager
def held_rows(context: WriteContext, rows: Iterable[KeyedRows], schema: pa.Schema) -> Iterator[PartitionedRows]:
    """Holds the whole input by share. `schema`: the schema of the rows."""
    with PartitionedRows(schema, context.settings.waiting_bytes) as held:
        context.progress.phase("reading")
        for keyed in rows:
            context.progress.read(keyed.rows.num_rows)
            held.add(keyed.rows, keyed.partitions)
        held.settle()
        context.progress.phase("writing")
        yield held


def _distinct_keys(held: PartitionedRows) -> pa.StringArray:
    """Returns the record keys of all rows, which are their first column."""
    keys = [batch.column(0) for partition in held.partitions for batch in held.batches(partition)]
    return pa.chunked_array(keys, pa.string()).unique()


def index_of(context: WriteContext) -> Index:
    """Opens the index of a write, as of the state that the write sees."""
    transaction, keygen = context.transaction, context.settings.keygen

    def check_key(base: BaseFile, key: str) -> None:
        keygen.check_existing_key(key, base.path)

    return open_index(
        KeyLookup(
            transaction.state,
            transaction.view,
            context.settings.index,
            context.settings.threads,
            check_key if keygen.single_key_form_varies else None,
            context.key_reader().live,
        )
    )


def merge_and_relocate(
    context: WriteContext, index: GlobalIndex, held: PartitionedRows, into: PartitionedRows, *, moves: bool
) -> None:
    """Merges the rows of each key into one, and locates it. With `moves`, a row whose key is in another partition is
    merged with the stored one: the result goes to its own partition, and leaves the old one, where its key is deleted.
    A row stays with its key if it deletes it, or if the result has the partition columns of the stored row.

    Args:
        held: rows with `PLACE`, by the partitions that they ask for.
        into: gets them as `LocatedRows.packed`, by the partitions that they are written to.
    """
    merge, view = context.settings.merge, context.transaction.view
    # As in Apache Hudi: base files may have keys that a log has moved to another partition, so all are merged
    config = context.transaction.config
    repeats = config.is_mor and not context.settings.index.uses_record_index(config)
    twice, made = made_of_several(context, held)
    for partition in dict.fromkeys([*held.partitions, *made]):
        own = without_keys(held.table(partition).drop_columns([PLACE.name]), twice)
        rows = pa.concat_tables([one_row_per_key(own, merge), *made.get(partition, ())]).combine_chunks()
        if not rows.num_rows:
            continue
        partitions, file_ids = index.locate(combined(rows[RECORD_KEY]))
        merging = np.zeros(rows.num_rows, np.bool_)
        if moves:
            known = true_where(partitions.is_valid())
            elsewhere = true_where(pc.not_equal(partitions, partition))
            merging = (known if repeats else elsewhere) & ~delete_marks(rows, merge)
        others = pa.array(~merging)
        paths = pc.coalesce(partitions, pa.scalar(str(partition), pa.string()))
        add_located(into, rows.filter(others), file_ids.filter(others), paths.filter(others), leaving=False)
        for path in partitions.filter(pa.array(merging)).unique().to_pylist():
            slices = {slice_.file_id: slice_ for slice_ in view.latest_slices(PartitionPath(path))}
            there = merging & true_where(pc.equal(partitions, path))
            for file_id in file_ids.filter(pa.array(there)).unique().to_pylist():
                chosen = pa.array(there & true_where(pc.equal(file_ids, file_id)))
                _merge_stored(context, slices[FileId(file_id)], rows.filter(chosen), partition, into)


def _merge_stored(
    context: WriteContext, slice_: FileSlice, rows: pa.Table, asked: PartitionPath, into: PartitionedRows
) -> None:
    """Merges rows with the stored rows of a file group that have their keys, and adds the results."""
    keys, there = combined(rows[RECORD_KEY]), slice_.partition
    wanted = TextSet(keys)
    settings = replace(context.settings.merge, fills_bytes=True)
    stored = [
        conform(batch.filter(wanted.has(batch.column(RECORD_KEY))), context.row_schema, context=there)
        for batch in context.key_reader().rows(slice_, context.row_schema.names)
    ]
    old = pa.Table.from_batches(stored, context.row_schema).combine_chunks()
    log = updates_of(rows, context).records
    new = pa.Table.from_batches(merge_with_base(old.to_batches(), log, settings), context.row_schema).combine_chunks()
    made = combined(new[RECORD_KEY])
    before = paths_of(context, old).take(pc.index_in(made, value_set=combined(old[RECORD_KEY])))
    after = paths_of(context, new)
    moved, stays = pc.not_equal(before, after).fill_null(False), pc.equal(before, after).fill_null(False)

    def add(some: pa.Table, file_id: str | None, paths: str | pa.Array, *, leaving: bool = False) -> None:
        if some.num_rows:
            ids = pa.repeat(pa.scalar(file_id, pa.string()), some.num_rows)
            add_located(into, some, ids, pa.repeat(paths, some.num_rows) if isinstance(paths, str) else paths, leaving)

    add(new.filter(moved), None, after.filter(moved))
    add(new.filter(moved), slice_.file_id, there, leaving=True)
    add(new.filter(before.is_null()), None, asked)  # a log has deleted the stored row
    staying = made.filter(stays)
    if settings.merger is None:
        # the whole row, not the values that were given: a late row fills no gaps in it
        add(new.filter(stays), slice_.file_id, there)
        staying = staying.slice(0, 0)
    # the result of a merger must not be merged with the stored row again; and a delete of the row stays as it is
    own = pc.or_(pc.is_in(keys, value_set=staying), pc.invert(pc.is_in(keys, value_set=made)))
    add(rows.filter(own), slice_.file_id, there)
