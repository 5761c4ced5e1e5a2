"""Ranks the values of columns among a sample of the rows, so that a curve follows their distribution
(`RangeSampleSort`, Apache Hudi 1.2.0).

The order of rows equals Apache Hudi's where that is determined: if all rows are in the sample, and no column has less
than half as many different values as the one with the most. Otherwise Apache Hudi draws random numbers; here equal data
has equal order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, double_codes
from hudi_py.services.clustering.curves import Longs, as_longs, fill_nulls, is_text

RANK_BITS: Final = 32
"""Bits of each column on a Hilbert curve by ranks."""
_ROWS_FOR_BOUND: Final = 20
_MAX_ROWS: Final = 1_000_000
_LEAST: Final = np.iinfo(np.int64).min
_GREATEST: Final = np.iinfo(np.int64).max
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiples of it are spread evenly."""
_Values: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How rows are sampled."""

    max_bounds: int
    """Maximum number of ranges of a column."""
    natural: bool = False
    """Whether values compare as in Spark. Otherwise they compare by the integers that Apache Hudi maps them to, such as
    the bits of floating-point numbers."""

    @property
    def max_rows(self) -> int:
        """Maximum number of rows in a sample."""
        return min(_ROWS_FOR_BOUND * self.max_bounds, _MAX_ROWS)

    def comparable(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Converts columns to int64 or binary values that compare as ranks do."""
        arrays = [_natural_values(column) if self.natural else _mapped_values(column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[f"{number}" for number in range(len(arrays))])


def is_mapped(kind: pa.DataType) -> bool:
    """Returns whether Apache Hudi maps the values of a type to integers; if a curve has any other column, it compares
    all of them naturally."""
    return not (pa.types.is_boolean(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _mapped_values(column: pa.Array) -> pa.Array:
    if is_text(column.type):
        return column.cast(pa.binary())
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64()).view(pa.int64())
    return as_longs(column)


def _natural_values(column: pa.Array) -> pa.Array:
    kind = column.type
    if is_text(kind):
        return column.cast(pa.binary())
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_floating(column.type):
        return pa.array(double_codes(column), pa.int64(), mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    return column.cast(pa.int64())


@dataclass(frozen=True, slots=True)
class RowSample:
    """Some rows at regular intervals. Pickles, and may travel through a read of Spark (`pyspark_hudi/remote`)."""

    step: int
    """How many rows each of them represents."""
    data: bytes
    """The rows as an Arrow IPC stream."""

    @property
    def rows(self) -> pa.Table:
        """Returns the rows."""
        return _table_of(self.data)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _table_of(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


@lru_cache(maxsize=16)  # converting texts takes long, and each batch of rows needs them
def _values_of(data: bytes) -> _Values:
    column = combined(_table_of(data).column(0))
    return column.to_numpy() if pa.types.is_int64(column.type) else _objects(column)


def _objects(column: pa.Array) -> _Values:
    """Returns the values as an array of objects; NumPy would make one of fixed width."""
    return np.array([*column.to_pylist(), None], object)[:-1]


def sample_rows(batches: Iterable[pa.RecordBatch], max_rows: int) -> RowSample | None:
    """Takes rows at regular intervals, as many as possible. Returns None if there are no batches."""
    held: list[pa.RecordBatch] = []
    step, skip, count = 1, 0, 0
    for batch in batches:
        taken = batch.take(pa.array(np.arange(skip, batch.num_rows, step)))
        held.append(taken)
        count += taken.num_rows
        skip = (skip - batch.num_rows) % step
        while count > max_rows:
            # the next row to take is a multiple of the step away from the first
            if count % 2:
                skip += step
            step *= 2
            every_second = pa.array(np.arange(0, count, 2))
            held = pa.Table.from_batches(held).take(every_second).combine_chunks().to_batches()
            count = len(every_second)
    return RowSample(step, _packed(pa.Table.from_batches(held))) if held else None


@dataclass(frozen=True, slots=True)
class _Dimension:
    """The ranges of one column."""

    data: bytes
    """The greatest values of all ranges but the last, ascending, int64 or binary: an Arrow IPC stream of one column."""
    stretch: float
    """By how much ranks are multiplied, so that all columns have about as many."""
    null_rank: int
    fractional: bool
    """Whether ranks are multiplied by the whole `stretch` before they are rounded down (texts)."""
    equal_only: bool
    """Whether only values equal to a bound are spread over the ranks up to the next one (mapped numbers)."""

    def ranks(self, values: pa.Array, spread: npt.NDArray[np.uint64]) -> Longs:
        """Returns the ranks of values; `spread` decides among the ranks of an equal value."""
        bounds = _values_of(self.data)
        if pa.types.is_int64(values.type):
            numbers = fill_nulls(values, 0)
            ranks = np.searchsorted(bounds, numbers)
            if self.equal_only:
                spread = np.where(np.append(bounds, _GREATEST)[ranks] == numbers, spread, np.uint64(0))
        else:
            encoded = combined(values.fill_null(b"")).dictionary_encode()
            different = _objects(encoded.dictionary)
            ranks = np.searchsorted(bounds, different)[encoded.indices.to_numpy()]
        if self.stretch > 1:
            whole = int(self.stretch)
            ranks = (ranks * self.stretch).astype(np.int64) if self.fractional else ranks * whole
            ranks = ranks + (spread % np.uint64(whole)).astype(np.int64)
        return np.where(values.is_null().to_numpy(zero_copy_only=False), self.null_rank, ranks).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranges of all columns of a curve. Pickles."""

    dimensions: tuple[_Dimension, ...]

    def of(self, rows: pa.RecordBatch) -> list[Longs]:
        """Returns the ranks of `Sampling.comparable` values of each column, from 0."""
        ranks = []
        for number, dimension in enumerate(self.dimensions):
            places = np.arange(rows.num_rows, dtype=np.uint64) * np.uint64(len(self.dimensions)) + np.uint64(number)
            ranks.append(dimension.ranks(rows.column(number), places * _GOLDEN >> np.uint64(32)))
        return ranks


def ranks_among(sampling: Sampling, samples: Sequence[RowSample]) -> Ranks:
    """Computes ranges with about equal numbers of rows, from samples of `Sampling.comparable` values."""
    tables = [sample.rows for sample in samples]
    rows = pa.concat_tables(tables)
    steps = [np.full(len(table), sample.step, np.float64) for table, sample in zip(tables, samples, strict=True)]
    weights = np.concatenate(steps)
    parts = min(sampling.max_bounds, len(rows))
    bounds = [_bounds_of(sampling, combined(column), weights, parts) for column in rows.columns]
    return Ranks(_stretched(sampling, bounds))


def _stretched(sampling: Sampling, bounds: Sequence[pa.Array]) -> tuple[_Dimension, ...]:
    packed = [_packed(pa.table({"bound": column})) for column in bounds]
    most = max(map(len, bounds))
    sizes = [max(len(column), 1) for column in bounds]
    if sampling.natural:
        return tuple(
            _Dimension(data, most / size, most + 1, fractional=False, equal_only=False)
            for data, size in zip(packed, sizes, strict=True)
        )
    # numbers get as many ranks as fit into the most, and texts those of the widest column after that
    numeric = [pa.types.is_int64(column.type) for column in bounds]
    ranges = [
        size * max(most // size, 1) if is_number else size for size, is_number in zip(sizes, numeric, strict=True)
    ]
    widest = max(ranges)
    return tuple(
        _Dimension(data, most // size, own + 1, fractional=False, equal_only=True)
        if is_number
        else _Dimension(data, widest / size, widest + 1, fractional=True, equal_only=False)
        for data, size, own, is_number in zip(packed, sizes, ranges, numeric, strict=True)
    )


def _bounds_of(sampling: Sampling, column: pa.Array, weights: npt.NDArray[np.float64], parts: int) -> pa.Array:
    """Returns the different bounds of up to `parts` ranges (`RangeSample.determineBound`)."""
    null: Any = b""
    if pa.types.is_int64(column.type):
        null = _LEAST if sampling.natural else _GREATEST
    values = column.fill_null(null)
    order = pc.sort_indices(values)
    values, reached = values.take(order), np.cumsum(weights[order.to_numpy()])
    is_last = np.ones(len(values), bool)
    is_last[:-1] = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    last = np.flatnonzero(is_last)
    width = float(reached[-1]) / parts if parts else 0.0
    chosen: list[int] = []
    wanted = width
    # whether a value becomes a bound depends on the one before
    for place, weight in zip(last.tolist(), reached[last].tolist(), strict=True):
        if len(chosen) == parts - 1:
            break
        if weight >= wanted:
            chosen.append(place)
            wanted += width
    return values.take(pa.array(chosen, pa.int64()))
