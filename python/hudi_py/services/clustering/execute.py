"""Executes one group of a plan: its rows, in order, go to new file groups (`SparkSortAndSizeExecutionStrategy`,
`SparkSingleFileSortExecutionStrategy`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_py.model.commit import WriteStat
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.clustering.ranks import RowSample, sample_rows
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.planned.moves import UnitFiles
from hudi_py.write.rows import PartitionedRows
from hudi_py.write.rows.ordered import Key, OrderedRows, key_of, ordered

_MAX_SAMPLE = 4_096
_MAX_RANKED_SAMPLE = 20_000
"""Rows of a slice, which travel from its task, for a curve by ranks."""


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


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Divides rows by ranges of their keys. Pickles."""

    order: RowOrder
    bounds: tuple[Key, ...]
    """The greatest keys of all ranges but the last."""

    def divide(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Divides rows by the numbers of their ranges."""
        for number, part in ordered(_with_sort_keys(self.order, rows), self.order.key_names, self.bounds):
            yield f"{number}", part.select(rows.schema.names)


def sample_keys(order: RowOrder, rows: Iterable[pa.RecordBatch]) -> KeySample:
    """Returns the keys of some of the rows, evenly spaced."""
    sample = sample_rows(map(partial(_sort_keys, order), rows), _MAX_SAMPLE)
    return KeySample(1, ()) if sample is None else _key_sample(sample.step, sample.rows)


def sample_ranked(order: RowOrder, rows: Iterable[pa.RecordBatch]) -> RowSample | None:
    """Returns some of the rows, evenly spaced, for a curve by ranks; None if there are no rows."""
    assert order.sampling is not None
    return sample_rows(map(order.sampled, rows), min(order.sampling.max_bounds, _MAX_RANKED_SAMPLE))


def _key_sample(step: int, rows: pa.Table) -> KeySample:
    names = rows.column_names
    keys = (key_of(batch, row, names) for batch in rows.to_batches() for row in range(batch.num_rows))
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


def key_ranges(order: RowOrder, samples: Iterable[KeySample], parts: int) -> KeyRanges:
    """Computes ranges with about the same number of rows, from samples of all rows."""
    return KeyRanges(order, key_bounds(samples, parts))


def ranked_ranges(order: RowOrder, samples: Iterable[RowSample | None], parts: int) -> KeyRanges:
    """Computes ranges of a curve by ranks, from samples of all rows."""
    taken = [sample for sample in samples if sample is not None]
    if not taken:
        return KeyRanges(order, ())
    ranked = order.ranked(taken)
    return key_ranges(ranked, [_key_sample(sample.step, ranked.keys_of_sample(sample.rows)) for sample in taken], parts)


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
    budget = unit.settings.memory
    with ExitStack() as opened:
        if order.sampling is not None:
            budget //= 2
            waiting = opened.enter_context(PartitionedRows(unit.files.keyed_schema, budget))
            order = _ranked_among(order, waiting, rows)
            rows = waiting.batches(PartitionPath(""))
        held: OrderedRows | None = None
        for batch in rows:
            keyed = _with_sort_keys(order, batch)
            if held is None:
                held = opened.enter_context(OrderedRows(keyed.schema, order.key_names, budget))
            held.add(keyed)
        if held is None:
            return []
        batches = (batch.select(unit.files.keyed_schema.names) for batch in held.batches())
        max_rows = None if max_bytes is None else -(-held.num_rows // max(outputs, 1))
        return unit.written(batches, max_bytes=max_bytes, max_rows=max_rows, file_id=file_id)


def _ranked_among(order: RowOrder, waiting: PartitionedRows, rows: Iterator[pa.RecordBatch]) -> RowOrder:
    """Returns the order by ranks among the rows, which it keeps."""
    assert order.sampling is not None

    def values() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            waiting.add(batch, pa.repeat("", batch.num_rows))
            yield order.sampled(batch)

    sample = sample_rows(values(), order.sampling.max_rows)
    return order if sample is None else order.ranked([sample])


def _sort_keys(order: RowOrder, rows: pa.RecordBatch) -> pa.RecordBatch:
    keys = order.keys(rows)
    return pa.RecordBatch.from_arrays([*keys.values()], names=[*keys])


def _with_sort_keys(order: RowOrder, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Adds the columns by which rows are sorted."""
    keys = order.keys(rows)
    return pa.RecordBatch.from_arrays([*rows.columns, *keys.values()], names=[*rows.schema.names, *keys])
