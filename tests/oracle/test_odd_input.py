"""Odd input of ours as Apache Hudi reads it: partition values and keys, widened columns, sorted files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.unit.write.test_keygen import READABLE
from tests.unit.write.test_odd_values import KEYS

pytestmark = pytest.mark.slow

WIDEN = {"hoodie.py.write.widen.columns": "true"}


def same(oracle: Oracle, path: Path) -> None:
    rows = hudi_py.open_table(str(path)).scan().to_table()
    assert_rows_equal(rows, oracle.read(path))
    checked = oracle.check(path)
    assert not checked["problems"], checked["problems"]


@in_turn("odd input", 2, 3)
@pytest.mark.parametrize(("kind", "hive"), cases([("cow", "false"), ("mor", "true")], "odd input", 1))
def test_partition_values_and_keys(oracle: Oracle, tmp_path: Path, kind: str, hive: str) -> None:
    path = tmp_path / "t"
    # Apache Hudi orders the keys of its metadata table by UTF-16 units, which takes this one out of order
    values = [value for value in READABLE if value != "😀"]
    keys = [key for key in KEYS if len(key) < 4000]  # it loses rows by its statistics of longer texts
    count = max(len(values), len(keys))
    parts = [values[at % len(values)] for at in range(count)]
    ids = [keys[at % len(keys)] for at in range(count)]
    first = pa.table({"id": ids, "p": parts, "ts": [1] * count, "v": range(count)})
    options = {"hoodie.datasource.write.hive_style_partitioning": hive}
    hudi_py.write(
        str(path), first, record_key="id", partition_by="p", ordering_by="ts", table_type=kind, options=options
    )
    hudi_py.open_table(str(path)).delete(first.slice(0, 5))
    same(oracle, path)
    oracle.write(path, first.slice(3).set_column(2, "ts", pa.array([5] * (count - 3))), options=options)
    same(oracle, path)
    assert hudi_py.open_table(str(path)).scan().to_table().num_rows == count - 3


@in_turn("odd input", 0, 3)
@pytest.mark.parametrize("kind", cases(["cow", "mor"], "widened columns", 1))
def test_widened_columns(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")

    def rows(ids: list[str], parts: list[str], **columns: pa.Array) -> pa.Table:
        return pa.table({"id": ids, "p": parts, "ts": [len(ids)] * len(ids), **columns})

    before = rows(
        ["1", "2"],
        ["x", "y"],
        a=pa.array([1, -5], pa.int32()),
        b=pa.array([7, -50], pa.int64()),
        c=pa.array([0.1, -1e300]),
        d=pa.array([1, 2], pa.int64()),
    )
    hudi_py.write(path, before, record_key="id", partition_by="p", ordering_by="ts", table_type=kind)
    after = rows(
        ["1", "3", "4"],
        ["x", "x", "y"],
        a=pa.array([10, -50, 2**40], pa.int64()),
        b=pa.array([0.5, None, 1.5]),
        c=pa.array(["z", None, "a"]),
        d=pa.array([5.0, None, 6.0]),
        e=pa.array([True, None, False]),
    )
    with pytest.raises(hudi_py.SchemaMismatchError, match="Column 'c' is double in the table and string in the data"):
        hudi_py.write(path, after)
    whole = after.set_column(6, "d", after["d"].cast(pa.int64()))
    changes = hudi_py.write(path, whole, options=WIDEN).schema_changes
    assert [change.column for change in changes] == ["a", "b", "c", "e"]
    same(oracle, tmp_path / "t")


@in_turn("odd input", 1, 3)
def test_sorted_bulk_inserts(oracle: Oracle, tmp_path: Path) -> None:
    """Rows of each partition lie in the order in which Apache Hudi sorts them."""
    keys = ["b", "a", "Z", "é", "z", "😀", "\uffee", "10", "9", "aa", "A"]
    data = pa.table({"id": keys * 2, "p": ["x"] * len(keys) + ["y"] * len(keys), "ts": range(2 * len(keys))})
    options = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT", "hoodie.bulkinsert.shuffle.parallelism": "1"}
    hudi_py.write(
        str(tmp_path / "ours"), data, "bulk_insert", options, record_key="id", partition_by="p", ordering_by="ts"
    )
    oracle.write(
        tmp_path / "theirs", data, "bulk_insert", key="id", partition="p", ordering="ts", type="cow", options=options
    )
    for part in "xy":
        ours, theirs = (
            [
                key
                for file in sorted((tmp_path / name / part).glob("*.parquet"), key=lambda file: file.name)
                for key in pq.read_table(file)["_hoodie_record_key"].to_pylist()
            ]
            for name in ("ours", "theirs")
        )
        assert ours == theirs
