"""Rows made of two versions where the index spans all partitions: only the row that is made says where to go."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from tests.support.choice import cases
from tests.support.engine import write_routed
from tests.support.writers import options

RECORD = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"}
INDEXES = {
    "simple": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"},
    "bloom": {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "true"},
    "record": {**RECORD, "hoodie.record.index.update.partition.path": "true"},
    "simple stays": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"},
    "record stays": {**RECORD, "hoodie.record.index.update.partition.path": "false"},
}
PARTIAL = {
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
}
OF_CREATION = ("hoodie.record.merge.mode", "hoodie.datasource.write.payload.class")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("p", pa.string()),
        ("x", pa.int32()),
        ("y", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
FIRST = [("a", 1, "p1", 1, "u"), ("b", 2, "p1", 2, "v"), ("c", 1, "p2", 3, "w"), ("g", 1, "p1", 6, "g")]
SECOND = [
    ("a", 2, "p2", None, "uu"),  # moves, and keeps x
    ("b", 1, "p2", 9, None),  # loses, so that it stays
    ("c", 2, "p2", None, "x"),
    ("d", 1, "p1", None, "q"),  # new, by two rows in several partitions
    ("d", 2, "p3", 5, None),
    ("e", 2, "p3", 7, None),  # the same; the first one is the newer
    ("e", 1, "p1", None, "r"),
    ("f", 1, "p1", 1, "f"),  # the same within a partition
    ("f", 2, "p1", None, "ff"),
    ("g", 2, "p2", None, None, True),  # deletes it wherever it is
]
THIRD = [("a", 3, "p1", 7, None), ("c", 3, "p3", None, None), ("g", 1, "p3", 1, None)]
MOVED = {
    "a": (3, 7, "uu", "p1"),
    "b": (2, 2, "v", "p1"),
    "c": (3, 3, "x", "p3"),
    "d": (2, 5, "q", "p3"),
    "e": (2, 7, "r", "p3"),
    "f": (2, 1, "ff", "p1"),
    "g": (1, 1, None, "p3"),
}
STAYED = {**MOVED, "c": (3, 3, "x", "p2")}


def table_of(given: list[tuple[Any, ...]]) -> pa.Table:
    rows = [dict(zip(SCHEMA.names, (*row, False)[: len(SCHEMA)], strict=True)) for row in given]
    return pa.Table.from_pylist(rows, SCHEMA)


def rows_of(path: Path | str, **query: Any) -> dict[str, tuple[Any, ...]]:
    found = hudi_py.open_table(path).scan(**query).to_table().to_pylist()
    rows = {row["id"]: (row["ts"], row["x"], row["y"], row["_hoodie_partition_path"]) for row in found}
    assert len(rows) == len(found), found
    return rows


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize(
    ("version", "kind", "index"), cases(product((6, 8, 9), ("cow", "mor"), INDEXES), "merges that move", 3)
)
def test_rows_go_where_the_merged_row_belongs(
    version: int, kind: str, index: str, routed: bool, tmp_path: Path
) -> None:
    path, given = str(tmp_path / "t"), {**options(version, kind), **PARTIAL, **INDEXES[index]}
    write = write_routed if routed else hudi_py.write
    write(path, table_of(FIRST), "upsert", given)
    given = {key: value for key, value in given.items() if key not in OF_CREATION}
    for rows in (SECOND, THIRD):
        write(path, table_of(rows), "upsert", given)
    assert rows_of(path) == (STAYED if "stays" in index else MOVED)
    table = hudi_py.open_table(path, given)
    assert table.metadata.verify().ok
    if kind == "mor":
        table.compact(options={"hoodie.compact.inline.max.delta.commits": "1"})
        assert rows_of(path, query_type="read_optimized") == rows_of(path)
        assert rows_of(path) == (STAYED if "stays" in index else MOVED)


def test_a_row_that_comes_late_fills_no_gaps_of_one_that_was_merged(tmp_path: Path) -> None:
    """Where base files may have keys that a log has moved, Apache Hudi logs the whole merged row."""
    path, given = str(tmp_path / "t"), {**options(9, "mor"), **PARTIAL, **INDEXES["simple"]}
    for row in (("a", 1, "p1", 1, "u"), ("a", 5, "p1", None, "v"), ("a", 3, "p1", 9, None)):
        hudi_py.write(path, table_of([row]), "upsert", given)
    assert rows_of(path) == {"a": (5, 1, "v", "p1")}


class Sum:
    """Adds the values up: merging a result once more would count rows twice."""

    required_columns = ("x",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        at = newer.schema.get_field_index("x")
        total = pc.add(older["x"].fill_null(0), newer["x"].fill_null(0))
        return newer.set_column(at, newer.schema.field(at), total)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "index"), [("cow", "record"), ("mor", "simple"), ("mor", "record")])
def test_mergers_in_python_count_each_row_once(kind: str, index: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    keys = {key: value for key, value in PARTIAL.items() if "payload" not in key}
    given = {
        **options(9, kind),
        **keys,
        **INDEXES[index],
        "hoodie.py.record.merger": f"{__name__}:Sum",
    }
    made = {key: value for key, value in given.items() if "merger" not in key}
    hudi_py.write(path, table_of([("a", 1, "p1", 1, "u"), ("b", 1, "p1", 10, "u")]), "upsert", made)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("merge.mode=EVENT_TIME_ORDERING", "merge.mode=CUSTOM")
    lines = [line for line in text.splitlines() if "checksum" not in line]
    properties.write_text("\n".join([*lines, "hoodie.compaction.payload.class=com.example.Mine\n"]))
    del given["hoodie.record.merge.mode"]
    for rows in (
        [("a", 2, "p2", 2, "v"), ("b", 2, "p1", 20, "u")],
        [("a", 3, "p2", 4, "v"), ("b", 3, "p3", 40, "u"), ("c", 3, "p3", 1, "u"), ("c", 4, "p1", 2, "u")],
    ):
        hudi_py.write(path, table_of(rows), "upsert", given)
    merger = {"hoodie.py.record.merger": f"{__name__}:Sum"}
    found = hudi_py.open_table(path, merger).scan().to_table().to_pylist()
    assert {row["id"]: (row["x"], row["_hoodie_partition_path"]) for row in found} == {
        "a": (7, "p2"), "b": (70, "p3"), "c": (3, "p1")
    }  # fmt: skip
