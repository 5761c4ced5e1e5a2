from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.merge import RecordMerger, choose_rows
from hudi_py.merge.merger import load_merger
from tests.unit.merge.mergers import Cheaper
from tests.unit.read.tables import MadeTable, deletes, plain, row

HERE = "tests.unit.merge.mergers:"


def custom(path: Path) -> MadeTable:
    table = MadeTable(
        str(path / "t"),
        properties={
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "f0e1d2c3-0000-0000-0000-000000000000",
        },
    )
    table.base(1, [row("a", 1, "base", 5.0), row("b", 1, "base", 5.0), row("c", 1, "base", 5.0), row("d", 1)])
    table.commit(1)
    table.log(2, [row("a", 2, "second", 7.0), row("b", 2, "second", 3.0), row("n", 2, "new", 9.0)], number=1)
    table.commit(2)
    table.log(3, [row("b", 3, "third", 4.0), row("n", 3, "cheap", 8.0)], deletes("c", "d"), number=1)
    table.commit(3)
    table.log(4, [row("d", 4, "back", 50.0)], number=1)
    table.commit(4)
    return table


def read(table: MadeTable, merger: str, **more: Any) -> pa.Table:
    return hudi_py.open_table(table.uri).scan(options={"hoodie.py.record.merger": HERE + merger}, **more).to_table()


def test_the_merger_makes_the_rows(tmp_path: Path) -> None:
    assert plain(read(custom(tmp_path), "Cheaper")) == [
        ("a", 1, "base", 5.0),
        ("b", 2, "second", 3.0),
        ("d", 4, "back", 50.0),
        ("n", 3, "cheap", 8.0),
    ]


def test_required_columns_are_read_and_left_out(tmp_path: Path) -> None:
    names = read(custom(tmp_path), "Cheaper", columns=["name"])
    assert names.schema.names == ["name"]
    assert sorted(names["name"].to_pylist()) == ["back", "base", "cheap", "second"]


def test_new_values_and_deletes_by_the_merger(tmp_path: Path) -> None:
    table = custom(tmp_path)
    assert plain(read(table, "Adding")) == [
        ("a", 2, "second", 12.0),
        ("b", 3, "third", 12.0),
        ("d", 4, "back", 50.0),
        ("n", 3, "cheap", 17.0),
    ]
    table.log(5, [row("a", 5, "much", 90.0), row("d", 5, "more", 51.0)], number=1)
    table.commit(5)
    assert [found[0] for found in plain(read(table, "Adding"))] == ["b", "n"]


def test_what_is_refused(tmp_path: Path) -> None:
    table = custom(tmp_path)
    with pytest.raises(UnsupportedTableError, match=r"hoodie.py.record.merger=module:Class"):
        hudi_py.open_table(table.uri).scan()
    with pytest.raises(ConfigError, match="NoSuch"):
        read(table, "NoSuch")
    with pytest.raises(ConfigError, match="needs a method merge"):
        read(table, "NotOne")
    with pytest.raises(SchemaMismatchError, match=r"returned \d rows for \d pairs"):
        read(table, "TooShort")
    with pytest.raises(ConfigError, match="must be importable"):
        load_merger("no_such_module:Merger")


def test_splits_pickle_and_load_the_merger_where_they_are_read(tmp_path: Path) -> None:
    scan = hudi_py.open_table(custom(tmp_path).uri).scan(options={"hoodie.py.record.merger": HERE + "Cheaper"})
    (split,) = pickle.loads(pickle.dumps(scan.splits()))
    assert sum(batch.num_rows for batch in hudi_py.read_split(split)) == 4


def test_choosing_rows() -> None:
    assert isinstance(Cheaper(), RecordMerger)
    first = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})
    second = pa.RecordBatch.from_pydict({"a": [4, 5, 6]})
    assert choose_rows(pa.array([True, False, None]), first, second).to_pydict() == {"a": [1, 5, 6]}
    assert choose_rows(pa.array([], pa.bool_()), first.slice(3), second.slice(3)).num_rows == 0
