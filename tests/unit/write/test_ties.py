"""Rows of one key in several partitions of an input: the last one of the greatest ordering value counts, in the order
of the input. Apache Hudi's answers, which `tests/oracle/test_ties.py` asks for again."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.support.engine import write_routed
from tests.support.writers import options

RECORD = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"}
INDEXES = {
    "simple": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"},
    "record": {**RECORD, "hoodie.record.index.update.partition.path": "true"},
    "simple stays": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"},
    "record stays": RECORD,
}
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "p": pa.string(), "v": pa.int64()})
FIRST = [("k0", 1, "a", 0), ("k2", 1, "b", 0), ("k3", 1, "a", 0)]
SECOND = [
    *[("k1", 5, path, at) for at, path in enumerate("aba")],  # new, and the last one is in the first partition
    *[("k2", 5, path, at) for at, path in enumerate("abca")],  # in b so far
    *[("k3", 5, path, at) for at, path in enumerate("bab")],  # in a so far
    *[("k4", 5, path, at) for at, path in enumerate("ba")],
    *[("k5", ts, path, ts) for path, ts in (("a", 5), ("b", 6), ("a", 4))],  # the greatest is not the last
]
COMBINE = {"hoodie.combine.before.insert": "true"}
NEW = [("k1", 2, "a"), ("k4", 1, "a")]
K5 = {"EVENT_TIME_ORDERING": ("k5", 6, "b"), "COMMIT_TIME_ORDERING": ("k5", 4, "a")}
STORED = [("k2", 0, "b"), ("k3", 0, "a")]
MOVED, STAYED = [("k2", 3, "a"), ("k3", 2, "b")], [("k2", 3, "b"), ("k3", 2, "a")]


def table_of(rows: list[tuple[str, int, str, int]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def expected(operation: str, index: str, mode: str) -> list[tuple[str, int, str]]:
    stays = operation == "upsert" and "stays" in index
    known = [*(STAYED if stays else MOVED), *(STORED if operation in ("insert", "bulk_insert") else [])]
    rest = [] if operation == "insert_overwrite_table" else [("k0", 0, "a")]
    return sorted([*rest, *NEW, K5[mode], *known])


@pytest.mark.parametrize("routed", [False, True], ids=["one process", "routed"])
@pytest.mark.parametrize("mode", K5)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite_table"])
@pytest.mark.parametrize(("kind", "index"), list(product(("cow", "mor"), INDEXES)))
@pytest.mark.sampled(12)
def test_the_last_row_counts(tmp_path: Path, kind: str, index: str, operation: str, mode: str, routed: bool) -> None:
    root = str(tmp_path / "t")
    given = {**options(9, kind), "hoodie.record.merge.mode": mode, **INDEXES[index]}
    hudi_py.write(root, table_of(FIRST), "insert", given)
    later = {**{key: value for key, value in given.items() if key != "hoodie.record.merge.mode"}, **COMBINE}
    if routed:
        write_routed(root, table_of(SECOND), operation, later)
    else:
        hudi_py.write(root, table_of(SECOND), operation, later)
    names = ["id", "v", "_hoodie_partition_path"]
    found = hudi_py.open_table(root).scan(columns=names).to_table()
    rows = zip(*(found[name].to_pylist() for name in names), strict=True)
    assert sorted(rows) == expected(operation, index, mode)


@pytest.mark.parametrize("routed", [False, True], ids=["one process", "routed"])
def test_without_an_index_over_all_partitions_each_has_its_row(tmp_path: Path, routed: bool) -> None:
    root = str(tmp_path / "t")
    given = {**options(9, "cow"), **COMBINE}
    if routed:
        write_routed(root, table_of(SECOND), "insert", given)
    else:
        hudi_py.write(root, table_of(SECOND), "insert", given)
    found = hudi_py.open_table(root).scan(columns=["id", "v", "p"]).to_table().to_pylist()
    assert sorted((row["v"], row["p"]) for row in found if row["id"] == "k2") == [(1, "b"), (2, "c"), (3, "a")]
