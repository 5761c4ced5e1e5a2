"""Rows that a global index keeps in the partition of their former value: they show the path's, by which filters choose.

Apache Hudi 1.2.0 shows the same in each of these queries, of tables of versions 6, 8 and 9.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from tests.support.choice import cases

RECORD_INDEX = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
SIMPLE = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
SHOWN = {("a", "x", 2), ("b", "x", 2), ("c", "y", 1), ("n", None, 2)}
VALUES: dict[str, dict[str, Any]] = {"text": {"x": "x", "y": "y"}, "number": {"x": 1, "y": 2}}


def table(rows: list[tuple[str, str | None, int]], kind: str) -> pa.Table:
    values = [None if p is None else VALUES[kind][p] for _, p, _ in rows]
    types = pa.string() if kind == "text" else pa.int32()
    return pa.table({"id": [r[0] for r in rows], "p": pa.array(values, types), "v": [r[2] for r in rows]})


@pytest.mark.parametrize(
    ("version", "kind", "index", "values"),
    cases(product((6, 8, 9), ("cow", "mor"), ("record", "simple", "dropped"), VALUES), "values of paths", 4),
)
def test_rows_show_what_filters_see(tmp_path: Path, version: int, kind: str, index: str, values: str) -> None:
    path = str(tmp_path / "t")
    options: dict[str, str] = {
        **(SIMPLE if index == "simple" else RECORD_INDEX),
        **(DROPPED if index == "dropped" else {}),
    }
    how: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "v", "table_type": kind}
    first = [("a", "x", 1), ("b", "x", 1), ("c", "y", 1), ("n", None, 1)]
    hudi_py.write(path, table(first, values), "upsert", options, table_version=version, **how)
    moved = hudi_py.write(path, table([("a", "y", 2), ("b", None, 2), ("n", "y", 2)], values), "upsert", options)
    found = hudi_py.open_table(path, options)
    names = {"None": None, **{str(value): name for name, value in VALUES[values].items()}}
    # columns that files lack are texts, as in Apache Hudi
    x, y = ([str, repr][index == "dropped" or values == "text"](str(VALUES[values][name])) for name in "xy")

    def shown(**scan: Any) -> set[tuple[str, str | None, int]]:
        rows = found.scan(columns=["id", "p", "v"], **scan).to_table().to_pylist()
        return {(row["id"], names[str(row["p"])], row["v"]) for row in rows}

    ranged = {"query_type": "incremental", "begin": "000"}
    for scan in ({}, {"as_of": moved.instant}, ranged):
        assert shown(**scan) == SHOWN, scan
        assert shown(filter=f"p = {x}", **scan) == {("a", "x", 2), ("b", "x", 2)}, scan
        assert shown(filter=f"p = {y} AND v > 0", **scan) == {("c", "y", 1)}, scan
        assert shown(filter="p IS NULL", **scan) == {("n", None, 2)}, scan
    assert shown(keys=["a", "n"]) == {("a", "x", 2), ("n", None, 2)}
    assert {(key, p) for key, p, _ in shown(query_type="read_optimized")} == {(key, p) for key, p, _ in SHOWN}
    assert found.scan(filter=f"p = {y}").count() == 1
    assert found.delete(f"p = {y}").num_deleted == 1
    assert found.update({"v": "7"}, f"p = {x}").num_updated == 2
    assert shown() == {("a", "x", 7), ("b", "x", 7), ("n", None, 2)}
    found.compact() if kind == "mor" else None
    assert shown() == {("a", "x", 7), ("b", "x", 7), ("n", None, 2)}
    assert found.metadata.verify().ok


def test_changes_show_what_was_written(tmp_path: Path) -> None:
    """Also as in Apache Hudi: the images of a row are those of the files."""
    path = str(tmp_path / "t")
    options = {**RECORD_INDEX, "hoodie.table.cdc.enabled": "true"}
    how: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "v"}
    first = hudi_py.write(path, table([("a", "x", 1)], "text"), "upsert", options, **how)
    hudi_py.write(path, table([("a", "y", 2)], "text"), "upsert", options)
    rows = hudi_py.open_table(path).scan(query_type="cdc", begin=first.completion_time).to_table().to_pylist()
    assert [(row["op"], '"p": "x"' in row["before"], '"p": "y"' in row["after"]) for row in rows] == [("u", True, True)]


def test_indexes_of_partition_columns_are_not_asked(tmp_path: Path) -> None:
    """Their entries are of the values in files. Row groups are still left out by other columns."""
    path = str(tmp_path / "t")
    options = {**RECORD_INDEX, "hoodie.parquet.block.size": "4096", "hoodie.parquet.small.file.limit": "0"}
    how: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "v"}
    hudi_py.write(path, table([("a", "x", 1), ("c", "y", 1)], "text"), "upsert", options, **how)
    hudi_py.write(path, table([("b", "x", 9)], "text"), "upsert", options)
    found = hudi_py.open_table(path, options)
    found.index("of_p", "p")
    hudi_py.write(path, table([("a", "y", 2)], "text"), "upsert", options)
    assert found.scan(filter="p = 'x'").to_table().num_rows == 2
    assert found.scan(filter="p = 'x' AND v = 2").to_table()["id"].to_pylist() == ["a"]
