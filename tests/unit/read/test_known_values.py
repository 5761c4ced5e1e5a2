"""Partition columns that are known to have the value of the path."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.read import plan_table

MOR: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "table_type": "mor"}
STAYS = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}


@pytest.fixture
def path(tmp_path: Any) -> str:
    return str(tmp_path / "table")


def known(path: str, columns: list[str] | None = None, **options: str) -> dict[str, dict[str, Any]]:
    """Partition to its known columns."""
    planned = plan_table(path, Options.resolve(options, Scope.READ), columns)
    splits = planned.with_known_values(planned.splits)
    return {split.partition: {name: value.as_py() for name, value in split.known_values} for split in splits}


def native(path: str, **options: str) -> dict[str, str | None]:
    """Partition to the reason why Spark's reader does not read its base file."""
    planned = plan_table(path, Options.resolve(options, Scope.READ), None)
    return {split.partition: why for split, why in zip(planned.splits, planned.why_not_native(), strict=True)}


def test_a_row_that_stays_in_its_partition(path: str) -> None:
    """Rows have the value of the path; Spark's reader reads files that are shown to have no other."""
    rows = [{"id": n, "p": "abc"[n % 3], "ts": 1} for n in range(9)]
    hudi_py.write(path, rows, options=STAYS, partition_by="p", **MOR)
    every = {name: {"p": name} for name in "abc"}
    assert known(path) == every
    hudi_py.write(path, [{"id": 0, "p": "b", "ts": 2}, {"id": 1, "p": None, "ts": 2}], options=STAYS)
    assert known(path) == every
    no_statistics = {"hoodie.metadata.enable": "false"}
    for options in ({}, no_statistics):
        assert set(native(path, **options).values()) == {None}, "only logs have other values"
    hudi_py.open_table(path).compact()
    assert known(path) == every
    for options in ({}, no_statistics):
        assert native(path, **options) == {**dict.fromkeys("abc", "column p takes its value from the path"), "c": None}


def test_types_nulls_and_several_columns(path: str) -> None:
    day = datetime.date(2024, 2, 29)
    data = pa.table(
        {
            "id": range(4),
            "ts": [1] * 4,
            "y": pa.array([1, 1, -2, None], pa.int32()),
            "d": [day, None, day, None],
            "t": ["b'c", "x", "é", None],
        }
    )
    hudi_py.write(path, data, partition_by=["y", "d", "t"], **MOR)
    hudi_py.write(path, data.slice(0, 3))
    found = known(path)
    assert sorted(found.values(), key=repr) == sorted(
        [{"y": 1, "d": day, "t": "b'c"}, {"y": 1, "t": "x"}, {"y": -2, "d": day, "t": "é"}, {}], key=repr
    )
    assert set(map(tuple, known(path, ["id", "d"]).values())) == {("d",), ()}


def test_texts_of_paths_in_rows_of_a_range(path: str) -> None:
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    data = [{"id": n, "p": text, "ts": 1} for n, text in enumerate(("50%", "x"))]
    hudi_py.write(path, data, options=encoded, partition_by="p", **MOR)
    hudi_py.write(path, [{**row, "ts": 2} for row in data])
    assert known(path) == {"50%25": {"p": "50%"}, "x": {"p": "x"}}
    ranged = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    table = hudi_py.open_table(path).scan(query_type="incremental", begin="000").to_table()
    assert sorted(table["p"].to_pylist()) == ["50%25", "x"]
    assert known(path, **ranged) == {"50%25": {"p": "50%25"}, "x": {"p": "x"}}
