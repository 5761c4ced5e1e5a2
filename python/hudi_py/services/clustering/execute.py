"""Executes one group of a plan: its rows, in order, go to new file groups (`SparkSortAndSizeExecutionStrategy`,
`SparkSingleFileSortExecutionStrategy`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_py.model.commit import WriteStat
from hudi_py.model.names import FileId
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.planned.moves import UnitFiles
from hudi_py.write.rows.ordered import Key, OrderedRows, key_of, ordered

_MAX_SAMPLE = 4_096


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to execute the groups of one plan. Implements `MoveSettings`."""

    rewrite: RewriteSettings
    order: RowOrder
    max_file_bytes: int | None
    """Size at which a file is full; None: each group becomes one file."""
    memory: int


@dataclass(frozen=True, slots=True)
class KeySample:
    """The keys of rows at regular intervals."""

    step: int
    keys: tuple[Key, ...]


def sample_keys(order: RowOrder, rows: Iterable[pa.RecordBatch]) -> KeySample:
    """Returns the keys of some of the rows, evenly spaced."""
    keys: list[Key] = []
    step, skip = 1, 0
    for batch in rows:
        columns = order.keys(batch)
        table = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
        for row in range(skip, batch.num_rows, step):
            keys.append(key_of(table, row, table.schema.names))
        skip = (skip - batch.num_rows) % step
        while len(keys) > _MAX_SAMPLE:
            # the next row to take is a multiple of the step away from the first
            if len(keys) % 2:
                skip += step
            keys, step = keys[::2], step * 2
    return KeySample(step, tuple(keys))


def key_bounds(samples: Iterable[KeySample], parts: int) -> tuple[Key, ...]:
    """Returns the greatest keys of all ranges but the last; the ranges have about the same number of rows."""
    weighted = sorted((key, sample.step) for sample in samples for key in sample.keys)
    total, seen = sum(weight for _, weight in weighted), 0
    bounds: list[Key] = []
    for key, weight in weighted:
        seen += weight
        if len(bounds) < parts - 1 and seen * parts >= total * (len(bounds) + 1) and (not bounds or key > bounds[-1]):
            bounds.append(key)
    return tuple(bounds)


def divide_by_keys(
    order: RowOrder, bounds: tuple[Key, ...], rows: pa.RecordBatch
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Divides rows by ranges of their keys."""
    for number, part in ordered(_with_sort_keys(order, rows), order.key_names, bounds):
        yield f"{number}", part.select(rows.schema.names)


def write_in_order(
    unit: UnitFiles[Any],
    order: RowOrder,
    rows: Iterator[pa.RecordBatch],
    *,
    max_bytes: int | None = None,
    outputs: int = 1,
    file_id: FileId | None = None,
) -> list[WriteStat]:
    """Writes rows to file groups of limited size, or to a single one with a given id.

    Args:
        outputs: how many file groups of equal numbers of rows to write, if rows are sorted and files have a
            size.
    """
    if not order.sorts:
        return unit.written(rows, max_bytes=max_bytes, file_id=file_id)
    with ExitStack() as opened:
        held: OrderedRows | None = None
        for batch in rows:
            keyed = _with_sort_keys(order, batch)
            if held is None:
                held = opened.enter_context(OrderedRows(keyed.schema, order.key_names, unit.settings.memory))
            held.add(keyed)
        if held is None:
            return []
        batches = (batch.select(unit.files.keyed_schema.names) for batch in held.batches())
        max_rows = None if max_bytes is None else -(-held.num_rows // max(outputs, 1))
        return unit.written(batches, max_bytes=max_bytes, max_rows=max_rows, file_id=file_id)


def _with_sort_keys(order: RowOrder, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Adds the columns by which rows are sorted."""
    keys = order.keys(rows)
    return pa.RecordBatch.from_arrays([*rows.columns, *keys.values()], names=[*rows.schema.names, *keys])
