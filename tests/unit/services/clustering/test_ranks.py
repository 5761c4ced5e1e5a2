"""Curves by ranks in a sample of the rows."""

from __future__ import annotations

import pickle
import random
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.services.clustering.execute import KeyRanges, ranked_ranges, sample_ranked
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.clustering.ranks import Sampling, ranks_among, sample_rows
from tests.unit.services.clustering.test_clustering import PLAN, QUICK, context, plan_of, read, without_name

ROWS = 3_000


def some_rows() -> pa.RecordBatch:
    chance = random.Random(3)
    return pa.record_batch(
        {
            "wide": pa.array(chance.sample(range(-(10**9), 10**9), ROWS), pa.int64()),
            "real": [chance.gauss(0, 1) for _ in range(ROWS)],
            "text": [f"prefix-of-all-{chance.randrange(10**6)}" for _ in range(ROWS)],
            "few": pa.array([chance.choice([None, 1, 2, 3]) for _ in range(ROWS)], pa.int32()),
            "flag": [chance.random() < 0.5 for _ in range(ROWS)],
        }
    )


def ranks_of(rows: pa.RecordBatch, names: list[str], max_bounds: int) -> list[list[int]]:
    sampling = Sampling(max_bounds)
    compared = sampling.comparable([rows.column(name) for name in names])
    sample = sample_rows([compared.slice(first, 700) for first in range(0, ROWS, 700)], sampling.max_rows)
    assert sample is not None
    return [found.tolist() for found in ranks_among(sampling, [sample]).of(compared)]


def bounds_by_rows(values: list[Any], parts: int) -> list[Any]:
    """The rule of Apache Hudi, one row after the other."""
    width = len(values) / parts
    bounds: list[Any] = []
    for number, value in enumerate(sorted(values), 1):
        if len(bounds) < parts - 1 and number >= width * (len(bounds) + 1) and (not bounds or value > bounds[-1]):
            bounds.append(value)
    return bounds


@pytest.mark.parametrize("max_bounds", [200_000, 400])
def test_ranks_are_those_of_the_rule(max_bounds: int) -> None:
    rows = some_rows()
    texts = [text.encode() for text in rows.column("text").to_pylist()]
    bits = np.array(rows.column("real").to_pylist()).view(np.int64).tolist()
    for name, values in (("wide", rows.column("wide").to_pylist()), ("real", bits), ("text", texts)):
        bounds = bounds_by_rows(values, min(max_bounds, ROWS))
        assert ranks_of(rows, [name], max_bounds) == [[bisect_left(bounds, value) for value in values]]


def test_ranks_of_few_values_are_spread() -> None:
    """Each over as many ranks as the column with the most has for it; nulls come last."""
    wide, few = ranks_of(some_rows(), ["wide", "few"], 200_000)
    assert sorted(wide) == list(range(ROWS))
    by_value: dict[int | None, list[int]] = {}
    for value, rank in zip(some_rows().column("few").to_pylist(), few, strict=True):
        by_value.setdefault(value, []).append(rank)
    (null_rank,) = set(by_value.pop(None))
    ends = [(min(ranks), max(ranks)) for _, ranks in sorted(by_value.items(), key=lambda item: item[0] or 0)]
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    assert all(high - low > ROWS // 5 for low, high in ends)
    assert null_rank > max(few_rank for _, few_rank in ends)


def test_other_types_are_compared_naturally() -> None:
    """A curve that has a column which Apache Hudi cannot map is a Z-order curve, in the order of the table."""
    rows = some_rows()
    order = RowOrder.of(["wide", "flag", "real"], "HILBERT", rows.schema, "t", max_bounds=200_000)
    assert (order.layout, order.columns) == ("ZORDER", ("wide", "real", "flag"))
    mapped = RowOrder.of(["text", "wide"], "HILBERT", rows.schema, "t", max_bounds=200_000)
    assert (mapped.layout, mapped.columns) == ("HILBERT", ("text", "wide"))
    assert RowOrder.of(["wide"], "ZORDER", rows.schema, "t", max_bounds=200_000).sorts


def test_samples_of_large_inputs() -> None:
    rows = some_rows()
    sample = sample_rows((rows.slice(first, 70) for first in range(0, ROWS, 70)), 100)
    assert sample is not None
    assert sample.step == 32
    assert sample.rows["wide"].to_pylist() == rows.column("wide").to_pylist()[::32]
    assert sample_rows([], 100) is None


@pytest.mark.parametrize("names", [["text", "wide"], ["real", "few"], ["wide", "flag", "text"]])
def test_ranges_travel_and_divide_rows_evenly(names: list[str]) -> None:
    rows = some_rows()
    order = RowOrder.of(names, "HILBERT", rows.schema, "t", max_bounds=500)
    samples = [sample_ranked(order, [rows.slice(first, 1_000)]) for first in range(0, ROWS, 1_000)]
    samples = pickle.loads(pickle.dumps([*samples, sample_ranked(order, [])]))
    ranges: KeyRanges = pickle.loads(pickle.dumps(ranked_ranges(order, samples, 4)))
    parts = dict(ranges.divide(rows))
    assert set(parts) == {"0", "1", "2", "3"}
    assert sum(part.num_rows for part in parts.values()) == ROWS
    assert all(ROWS // 5 < part.num_rows < ROWS // 3 for part in parts.values())
    assert ranked_ranges(order, [None], 4).bounds == ()


def test_a_clustering_by_ranks(tmp_path: Path) -> None:
    """Clusters texts that a curve by values treats as equal. The plan has the settings."""
    path, chance = str(tmp_path / "t"), random.Random(5)
    sampled = {"hoodie.layout.optimize.curve.build.method": "sample"}
    for first in (0, 2_000):
        keys = range(first, first + 2_000)
        data = {
            "k": [f"{key}" for key in keys],
            "u": [f"https://example.com/{chance.randrange(10**9):010}" for _ in keys],
            "v": [chance.randrange(10**6) for _ in keys],
        }
        hudi_py.write(path, pa.table(data), "insert", QUICK, record_key="k")
    before = read(path)
    size = sum(file.stat().st_size for file in Path(path).glob("*.parquet"))
    given = {
        f"{PLAN}sort.columns": "u,v",
        "hoodie.layout.optimize.strategy": "zorder",
        f"{PLAN}target.file.max.bytes": str(size // 16),
        **sampled,
    }
    assert plan_of(path, {**given, "hoodie.layout.optimize.build.curve.sample.size": "900"}).parameters == {
        f"{PLAN}sort.columns": "u,v",
        "hoodie.layout.optimize.strategy": "ZORDER",
        "hoodie.layout.optimize.curve.build.method": "SAMPLE",
        "hoodie.layout.optimize.build.curve.sample.size": "900",
        f"{PLAN}target.file.max.bytes": str(size // 16),
    }
    table = hudi_py.open_table(path, {**QUICK, **given, "hoodie.py.write.memory.max.bytes": "100000"})
    report = table.cluster()
    assert report.num_files >= 12
    after = read(path)
    assert without_name(after).sort_by("k").equals(without_name(before).sort_by("k"))
    files = [pq.read_table(file, columns=["u", "v"]) for file in Path(path).glob(f"*_{report.instant}.parquet")]
    for name in ("u", "v"):
        point = sorted(after[name].to_pylist())[1_000]
        opened = sum(min(file[name].to_pylist()) <= point <= max(file[name].to_pylist()) for file in files)
        assert opened <= len(files) // 2
    assert not context(path).state().timeline.pending
