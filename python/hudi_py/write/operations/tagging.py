"""From incoming rows to tagged ones: rows are kept by partition, and an index finds the file groups of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from hudi_py.merge import MergeSettings
from hudi_py.model.files import BaseFile
from hudi_py.model.names import PartitionPath
from hudi_py.write.context import WriteContext
from hudi_py.write.index import Index, PartitionIndex, open_index
from hudi_py.write.operations.partition import PartitionWriter
from hudi_py.write.placement.relocate import located, losing_keys, relocate
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, TaggedRows, one_row_per_key, without_keys


@contextmanager
def held_rows(context: WriteContext, rows: Iterable[KeyedRows], schema: pa.Schema) -> Iterator[PartitionedRows]:
    """The whole input by partition. `schema`: of the rows."""
    with PartitionedRows(schema, context.settings.memory_bytes) as held:
        context.progress.phase("reading")
        for keyed in rows:
            context.progress.read(keyed.rows.num_rows)
            held.add(keyed.rows, keyed.partitions)
        context.progress.phase("writing")
        yield held


class TaggedInput(Protocol):
    """An input by partition, whose rows can be tagged."""

    @property
    def held(self) -> PartitionedRows: ...

    def tagged(self, partition: PartitionWriter) -> TaggedRows:
        """The rows of a partition.

        Raises:
            ConflictError: they belong to a file group that a pending clustering is about to replace.
        """
        ...


@contextmanager
def tag_input(
    context: WriteContext,
    rows: Iterable[KeyedRows],
    schema: pa.Schema,
    *,
    one_per_key: bool = False,
    moves: bool = False,
) -> Iterator[TaggedInput]:
    """Reads an input and tags it by the index of the write.

    Args:
        schema: of the rows.
        one_per_key: keep the row of each key that wins within the input.
        moves: with an index over all partitions, rows go to their own partition when their key is in another one.
    """
    settings = context.settings
    index = _open_index(context)
    if not index.is_global:
        with held_rows(context, rows, schema) as held:
            yield _TaggedByPartition(held, index, settings.merge if one_per_key else None)
    elif moves:
        with (
            held_rows(context, rows, schema) as held,
            PartitionedRows(LocatedRows.packed_schema(schema, moves=True), settings.memory_bytes) as moved,
        ):
            reader, view = context.key_reader(), context.transaction.view
            relocate(index, held, moved, reader, view, one_per_key=one_per_key)
            yield _Located(moved, moves=True)
    else:
        packed = LocatedRows.packed_schema(schema, moves=False)
        with held_rows(context, (located(index, keyed) for keyed in rows), packed) as held:
            losing = losing_keys(held, settings.merge, packed=True) if one_per_key else {}
            yield _Located(held, settings.merge if one_per_key else None, losing)


def _open_index(context: WriteContext) -> Index:
    transaction, keygen = context.transaction, context.settings.keygen

    def check_key(base: BaseFile, key: str) -> None:
        keygen.check_existing_key(key, base.path)

    return open_index(
        transaction.storage,
        transaction.config,
        transaction.timeline,
        transaction.view,
        context.settings.index,
        threads=context.settings.threads,
        check_key=check_key if keygen.single_key_form_varies else None,
    )


@dataclass(frozen=True, slots=True)
class _TaggedByPartition:
    """Rows under the partition of their own, tagged within it."""

    held: PartitionedRows
    index: PartitionIndex
    merge: MergeSettings | None
    """Set where one row of each key counts."""

    def tagged(self, partition: PartitionWriter) -> TaggedRows:
        rows = self.held.table(partition.path)
        if self.merge is not None:
            rows = one_row_per_key(rows, self.merge)
        return partition.checked(self.index.tag(rows, partition.path, list(partition.slices.values())))


@dataclass(frozen=True, slots=True)
class _Located:
    """Rows (`LocatedRows.packed`) under the partition that an index over all partitions chose."""

    held: PartitionedRows
    merge: MergeSettings | None = None
    """Set where one row of each key counts, and rows may still repeat keys."""
    losing: Mapping[PartitionPath, pa.Array] = field(default_factory=dict)
    """New keys by the partitions in which they lose against the row of another one."""
    moves: bool = False

    def tagged(self, partition: PartitionWriter) -> TaggedRows:
        rows = without_keys(self.held.table(partition.path), self.losing.get(partition.path))
        if self.merge is not None:
            rows = one_row_per_key(rows, self.merge)
        slices = list(partition.slices.values())
        return partition.checked(LocatedRows.unpacked(rows, moves=self.moves).tagged(slices))
