"""From incoming rows to tagged ones: rows are kept by partition, and an index finds the file groups of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from hudi_py.model.files import BaseFile
from hudi_py.model.names import PartitionPath
from hudi_py.write.context import WriteContext
from hudi_py.write.index import GlobalBaseFileIndex, GlobalIndex, Index, KeyLookup, open_index
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, write_partitions
from hudi_py.write.placement.combine import PLACE, OnePerKey, losing_keys, placed, without_places
from hudi_py.write.placement.merged import merge_and_relocate
from hudi_py.write.placement.relocate import located, relocate
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, TaggedRows, one_row_per_key, without_keys

WriteTagged = Callable[[PartitionWriter, TaggedRows], None]


@contextmanager
def held_rows(context: WriteContext, rows: Iterable[KeyedRows], schema: pa.Schema) -> Iterator[PartitionedRows]:
    """The whole input by partition. `schema`: of the rows."""
    with PartitionedRows(schema, context.settings.waiting_bytes) as held:
        context.progress.phase("reading")
        for keyed in rows:
            context.progress.read(keyed.rows.num_rows)
            held.add(keyed.rows, keyed.partitions)
        context.progress.phase("writing")
        yield held


@contextmanager
def one_row_per_key_of(context: WriteContext, rows: Iterable[KeyedRows]) -> Iterator[tuple[PartitionedRows, OnePerKey]]:
    """The whole input by partition, and the row of each key that wins in it: over all partitions, where the index
    spans them."""
    schema = context.row_schema
    if context.settings.index.is_global:
        rows, schema = placed(rows), pa.schema([*schema, PLACE])
    with held_rows(context, rows, schema) as held:
        yield held, OnePerKey(context, held)


def tag_and_write(
    context: WriteContext,
    rows: Iterable[KeyedRows],
    schema: pa.Schema,
    write: WriteTagged,
    *,
    one_per_key: bool = False,
    moves: bool = False,
) -> OperationResult:
    """Reads an input, tags it by the index of the write, and writes it partition by partition.

    Args:
        schema: of the rows.
        write: writes the rows of a partition.
        one_per_key: keep the row of each key that wins within the input.
        moves: with an index over all partitions, rows go to their own partition when their key is in another one.

    Raises:
        ConfigError: the table is written with another index.
        ConflictError: rows belong to file groups that a pending clustering is about to replace.
    """
    index = index_of(context)
    if index.is_global:
        return _locate_and_write(context, index, rows, schema, write, one_per_key=one_per_key, moves=moves)
    with held_rows(context, rows, schema) as held:

        def write_one(partition: PartitionWriter) -> None:
            table = held.table(partition.path)
            if one_per_key:
                table = one_row_per_key(table, context.settings.merge)
            write(partition, index.tag(table, partition.path, list(partition.slices.values())))

        return write_partitions(context, held, write_one)


def _locate_and_write(
    context: WriteContext,
    index: GlobalIndex,
    rows: Iterable[KeyedRows],
    schema: pa.Schema,
    write: WriteTagged,
    *,
    one_per_key: bool,
    moves: bool,
) -> OperationResult:
    merge = context.settings.merge
    merges = merge.folds and (moves or one_per_key)
    whole = moves or merges or isinstance(index, GlobalBaseFileIndex)
    own = schema
    if one_per_key or merges:
        rows, schema = placed(rows), pa.schema([*schema, PLACE])
    # what is merged has lost its place already
    packed = LocatedRows.packed_schema(own if merges else schema, moves=whole)

    def write_all(held: PartitionedRows, losing: Mapping[PartitionPath, pa.Array], unique: bool) -> OperationResult:
        def write_one(partition: PartitionWriter) -> None:
            table = without_places(without_keys(held.table(partition.path), losing.get(partition.path)))
            if not unique:
                table = one_row_per_key(table, merge)
            write(partition, LocatedRows.unpacked(table, moves=whole).tagged(list(partition.slices.values())))

        return write_partitions(context, held, write_one)

    if not whole:
        with held_rows(context, located(index, rows), packed) as held:
            losing = losing_keys(held, merge, order=PLACE.name, packed=True) if one_per_key else {}
            return write_all(held, losing, not one_per_key)
    with held_rows(context, rows, schema) as held, PartitionedRows(packed, context.settings.waiting_bytes) as moved:
        searched = index.searched(distinct_keys(held))
        if merges:
            merge_and_relocate(context, searched, held, moved, moves=moves)
            return write_all(moved, {}, True)
        reader = context.key_reader() if moves else None
        order = PLACE.name if one_per_key else None
        relocate(searched, held, moved, reader, context.transaction.view, merge, order=order)
        return write_all(moved, {}, True)


def distinct_keys(held: PartitionedRows) -> pa.StringArray:
    """The record keys of all rows, which are their first column."""
    keys = [batch.column(0) for partition in held.partitions for batch in held.batches(partition)]
    return pa.chunked_array(keys, pa.string()).unique()


def index_of(context: WriteContext) -> Index:
    """The index of a write, as of what the write sees."""
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
