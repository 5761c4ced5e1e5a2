"""Rows sorted in memory and on the local disk."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_py.write.rows.ordered import OrderedRows

VALUES = {
    pa.int64(): [None, -1, 0, 5, 1 << 40],
    pa.string(): [None, "", "a", "ab", "ü"],
    pa.binary(): [None, b"", b"\xff", b"a"],
    pa.bool_(): [None, False, True],
}


@pytest.mark.parametrize("seed", range(12))
def test_the_order_is_that_of_a_sort_in_memory(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls come first, and equal rows in order of arrival, however much is spilled; no files are left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chance = random.Random(seed)
    kinds = chance.sample(list(VALUES), chance.choice([1, 2]))
    schema = pa.schema([*((f"c{number}", kind) for number, kind in enumerate(kinds)), ("n", pa.int64())])
    arrived = []
    with OrderedRows(
        schema, [f"c{number}" for number in range(len(kinds))], chance.choice([1, 2_000, 1 << 20])
    ) as held:
        for _ in range(chance.randrange(12)):
            rows = [
                {
                    **{f"c{number}": chance.choice(VALUES[kind]) for number, kind in enumerate(kinds)},
                    "n": len(arrived) + row,
                }
                for row in range(chance.randrange(1, 60))
            ]
            arrived += rows
            held.add(pa.RecordBatch.from_pylist(rows, schema))
        assert held.num_rows == len(arrived)
        found = [row for batch in held.batches() for row in batch.to_pylist()]
    names = schema.names[:-1]
    assert found == sorted(
        arrived, key=lambda row: [(row[name] is not None, row[name] or type(row[name])()) for name in names]
    )
    assert not list(tmp_path.iterdir())


def test_runs_are_merged_in_blocks() -> None:
    """Blocks of runs that overlap, follow one another, or are equal."""
    schema = pa.schema([("k", pa.int32()), ("n", pa.int32())])
    with OrderedRows(schema, ["k"], 1) as held:
        for number, first in enumerate([40, 0, 0, 20, 20]):
            keys = pa.array([first + row // 8 for row in range(200_000 // 4)], pa.int32())
            held.add(pa.record_batch([keys, pa.array([number] * len(keys), pa.int32())], schema=schema))
        table = pa.Table.from_batches(held.batches(), schema)
    assert table.num_rows == 250_000
    pairs = table.select(["k", "n"]).to_pydict()
    found = list(zip(pairs["k"], pairs["n"], strict=True))
    assert found == sorted(found)
