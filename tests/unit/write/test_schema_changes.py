"""What a write may do to the columns of a table: it says so, and the table's statistics stay right."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import SchemaMismatchError

WIDEN = {"hoodie.py.write.widen.columns": "true"}
STATS = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.parquet.small.file.limit": "0"}


def rows(ids: list[str], parts: list[str], fare: pa.Array, name: str = "fare") -> pa.Table:
    return pa.table({"id": ids, "p": parts, "ts": [len(ids)] * len(ids), name: fare})


def make(path: Path, fare: pa.Array, kind: str = "cow", **options: str) -> str:
    hudi_py.write(
        str(path),
        rows(["1", "2"], ["x", "y"], fare),
        record_key="id",
        partition_by="p",
        ordering_by="ts",
        table_type=kind,
        options=options,
    )
    return str(path)


def kind_of(path: str) -> pa.DataType:
    return hudi_py.open_table(path).schema.field("fare").type


def test_text_does_not_take_a_column_of_numbers_over(tmp_path: Path) -> None:
    path = make(tmp_path / "t", pa.array([1.5, 2.5]))
    text = rows(["1"], ["x"], pa.array(["3.5"]))
    told = "Column 'fare' is double in the table and string in the data; .*hoodie.py.write.widen.columns=true"
    with pytest.raises(SchemaMismatchError, match=told):
        hudi_py.write(path, text)
    assert kind_of(path) == pa.float64()
    changes = hudi_py.write(path, text, options=WIDEN).schema_changes
    assert [(change.column, change.before, change.after) for change in changes] == [("fare", "double", "string")]
    assert kind_of(path) == pa.string()


def test_values_that_are_integers_stay_so(tmp_path: Path) -> None:
    """As pandas hands over a column of integers with a missing one."""
    path = make(tmp_path / "t", pa.array([1, 2]))
    assert hudi_py.write(path, rows(["1", "3"], ["x", "x"], pa.array([7.0, None]))).schema_changes == ()
    assert kind_of(path) == pa.int64()
    with pytest.raises(SchemaMismatchError, match="'fare' is int64 in the table and double .* 7.500000 was truncated"):
        hudi_py.write(path, rows(["1"], ["x"], pa.array([7.5])))
    found = hudi_py.open_table(path).scan(["id", "fare"]).to_table().to_pylist()
    assert {row["id"]: row["fare"] for row in found} == {"1": 7, "2": 2, "3": None}


def test_a_new_column_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = make(tmp_path / "t", pa.array([1.5, 2.5]))
    misspelt = rows(["1"], ["x"], pa.array([3.5]), "faer")
    with pytest.raises(
        SchemaMismatchError, match="'fare' of the table is missing in the data; the data has 'faer': rename"
    ):
        hudi_py.write(path, misspelt)
    for option in ("hoodie.write.set.null.for.missing.columns", "hoodie.py.write.partial.updates"):
        with pytest.raises(
            SchemaMismatchError, match=r"'faer' of the data is not in the table, whose column 'fare' .*: "
        ):
            hudi_py.write(path, misspelt, options={option: "true"})
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "hudi_py"):
        result = hudi_py.write(path, misspelt, options={"hoodie.datasource.write.reconcile.schema": "true"})
    assert [str(change) for change in result.schema_changes] == ["faer: new -> double"]
    assert f"the write {result.instant} changed columns of the table t: faer: new -> double" in caplog.text


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.array([1, -5], pa.int32()), pa.array([10, -50], pa.int64())),
        (pa.array([1, -5], pa.int64()), pa.array([0.1, -1e300])),
        (pa.array([1, -5], pa.int64()), pa.array(["z", "a"])),
        (pa.array([0.1, -1e300]), pa.array(["z", "a"])),
        (pa.array([0.1, -2.5], pa.float32()), pa.array([0.1, -1e300])),
        (pa.array([Decimal("1.25"), Decimal("-9.50")]), pa.array([Decimal("1.2512"), Decimal("-9.5000")])),
    ],
    ids=["long", "double", "integers to text", "doubles to text", "float", "decimal"],
)
@pytest.mark.sampled(6)
def test_statistics_stay_right_when_a_column_widens(
    tmp_path: Path, kind: str, before: pa.Array, after: pa.Array
) -> None:
    """Also those of partitions which the write does not touch, and of one that it adds a file to."""
    path = make(tmp_path / "t", before, kind, **STATS)
    options: dict[str, Any] = {**WIDEN, **STATS}
    result = hudi_py.write(path, rows(["3", "4"], ["x", "x"], after), "insert", options=options)
    assert [change.column for change in result.schema_changes] == ["fare"]
    table = hudi_py.open_table(path)
    report = table.metadata.verify()
    assert report.ok, str(report)
    every = table.scan(["fare"]).to_table()["fare"].to_pylist()
    for value in set(every):
        literal = f"'{value}'" if isinstance(value, str) else str(value)
        assert table.scan(filter=f"fare = {literal}").to_table().num_rows == every.count(value)
