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


def test_a_value_that_moved_in_a_log(path: str) -> None:
    hudi_py.write(
        path, [{"id": n, "p": "abc"[n % 3], "ts": 1} for n in range(9)], options=STAYS, partition_by="p", **MOR
    )
    every = {name: {"p": name} for name in "abc"}
    assert known(path) == every
    hudi_py.write(path, [{"id": 0, "p": "b", "ts": 2}, {"id": 1, "p": "b", "ts": 2}], options=STAYS)
    assert known(path) == every | {"a": {}}
    instants = hudi_py.open_table(path).history()["instant"].to_pylist()
    assert known(path, **{"as.of.instant": instants[0]}) == every
    hudi_py.open_table(path).compact()
    assert known(path) == every | {"a": {}}


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


def test_without_statistics_nothing_is_known(path: str) -> None:
    hudi_py.write(path, [{"id": n, "p": n, "ts": 1} for n in range(2)], partition_by="p", **MOR)
    nothing: dict[str, dict[str, Any]] = {"0": {}, "1": {}}
    assert known(path) == {"0": {"p": 0}, "1": {"p": 1}}
    for option in ("hoodie.metadata.enable", "hoodie.enable.data.skipping"):
        assert known(path, **{option: "false"}) == nothing
    assert known(path, **{"hoodie.datasource.merge.type": "skip_merge"}) == nothing


def test_texts_of_paths_in_rows_of_a_range(path: str) -> None:
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    data = [{"id": n, "p": text, "ts": 1} for n, text in enumerate(("50%", "x"))]
    hudi_py.write(path, data, options=encoded, partition_by="p", **MOR)
    hudi_py.write(path, [{**row, "ts": 2} for row in data])
    assert known(path) == {"50%25": {"p": "50%"}, "x": {"p": "x"}}
    ranged = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    table = hudi_py.open_table(path).scan(query_type="incremental", begin="000").to_table()
    assert sorted(table["p"].to_pylist()) == ["50%25", "x"]
    assert known(path, **ranged) == {"50%25": {}, "x": {"p": "x"}}
