"""Carrying out one group of a plan: its rows, in order, go to new file groups (`SparkSortAndSizeExecutionStrategy`,
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
    """How the groups of one plan are carried out. Implements `MoveSettings`."""

    rewrite: RewriteSettings
    order: RowOrder
    max_file_bytes: int | None
    """Size at which a file is full; None: each group becomes one file."""
    memory: int


@dataclass(frozen=True, slots=True)
class KeySample:
    """Keys of every so many rows."""

    step: int
    keys: tuple[Key, ...]


def sample_keys(order: RowOrder, rows: Iterable[pa.RecordBatch]) -> KeySample:
    """Return the keys of some of the rows, evenly spaced."""
    keys: list[Key] = []
    step, skip = 1, 0
    for batch in rows:
        found = order.keys(batch)
        table = pa.RecordBatch.from_arrays([*found.values()], names=[*found])
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
    """Return the greatest keys of all ranges but the last, which have about as many rows each."""
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
    """Divide rows by ranges of their keys."""
    for number, part in ordered(_keyed(order, rows), order.key_names, bounds):
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
    """Write rows to file groups of up to some bytes, or to one that has a name.

    Args:
        outputs: how many file groups of equal numbers of rows there are to be, if rows are sorted and files have a
            size.
    """
    if not order.sorts:
        return unit.written(rows, max_bytes=max_bytes, file_id=file_id)
    with ExitStack() as opened:
        held: OrderedRows | None = None
        for batch in rows:
            keyed = _keyed(order, batch)
            if held is None:
                held = opened.enter_context(OrderedRows(keyed.schema, order.key_names, unit.settings.memory))
            held.add(keyed)
        if held is None:
            return []
        found = (batch.select(unit.files.keyed_schema.names) for batch in held.batches())
        max_rows = None if max_bytes is None else -(-held.num_rows // max(outputs, 1))
        return unit.written(found, max_bytes=max_bytes, max_rows=max_rows, file_id=file_id)


def _keyed(order: RowOrder, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with what they are sorted by."""
    keys = order.keys(rows)
    return pa.RecordBatch.from_arrays([*rows.columns, *keys.values()], names=[*rows.schema.names, *keys])
