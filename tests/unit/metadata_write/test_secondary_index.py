"""Secondary indexes: entries equal the rows after every action, and lead to them."""

from __future__ import annotations

import datetime
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.keys import secondary_keys, secondary_texts
from hudi_py.metadata.records import NO_FIELDS
from hudi_py.metadata.table import open_metadata
from hudi_py.metadata_write.partitions.secondary_index import changes_texts
from hudi_py.metadata_write.table import beside
from hudi_py.metadata_write.table.create import drop_partitions
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state
from hudi_py.wiring import IndexChange, index_table
from tests.support.choice import cases

GLOBAL = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
VALUES = [None, "", "a", "a$b", "\\", "$", "\0", "ü🎈", "a\\$b"]
Row = dict[str, Any]


def entries(path: Path, name: str = "secondary_index_ix") -> list[str]:
    """The entries of an index, sorted."""
    storage = LocalStorage(str(path))
    metadata = open_metadata(load_state(storage))
    assert metadata is not None

    versions = metadata.records(name, NO_FIELDS)
    return sorted(versions.keys.take(pa.array(versions.newest())).to_pylist())


def expected(rows: list[Row], column: str = "name") -> list[str]:
    values = secondary_texts(pa.array([row[column] for row in rows], SCHEMA.field(column).type))
    return sorted(secondary_keys(values, pa.array([row["id"] for row in rows], pa.string())).to_pylist())


SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("name", pa.string()), ("n", pa.int32())])


def make(path: Path, rows: list[Row], *, version: int = 9, kind: str = "cow") -> hudi_py.Table:
    hudi_py.write(
        str(path),
        pa.Table.from_pylist(rows, SCHEMA),
        options=GLOBAL,
        record_key="id",
        partition_by="p",
        table_type=kind,
        table_version=version,
    )
    return hudi_py.open_table(str(path), GLOBAL)


def batch(chance: random.Random, size: int) -> list[Row]:
    ids = chance.sample(range(30), size)
    return [
        {"id": f"k${i}", "p": chance.choice("ab"), "name": chance.choice(VALUES), "n": chance.randrange(4)} for i in ids
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "seed"),
    cases([(v, k, s) for v in (8, 9) for k in ("cow", "mor") for s in range(4)], "secondary index histories", 1),
)
def test_entries_equal_the_rows_after_every_action(tmp_path: Path, version: int, kind: str, seed: int) -> None:
    path, chance = tmp_path / "t", random.Random(seed)
    first = batch(chance, 12)
    table = make(path, first, version=version, kind=kind)
    model = {row["id"]: row for row in first}
    assert table.index("ix", "name")
    table.index("of_n", "n")
    for step in range(8):
        before = dict(model)
        action = chance.choice(["upsert", "upsert", "delete", "overwrite", "drop", "compact", "clean", "rollback"])
        some = batch(chance, 6)
        if action == "upsert":
            table.upsert(pa.Table.from_pylist(some, SCHEMA))
            model |= {row["id"]: row for row in some}
        elif action == "delete":
            known = [model[key] for key in chance.sample(sorted(model), min(3, len(model)))]
            table.delete(pa.Table.from_pylist(known, SCHEMA))
            model = {key: row for key, row in model.items() if row not in known}
        elif action == "overwrite":
            some = [row for row in some if row["id"] not in model or model[row["id"]]["p"] == row["p"]]
            table.insert_overwrite(pa.Table.from_pylist(some, SCHEMA))
            replaced = {row["p"] for row in some}
            model = {key: row for key, row in model.items() if row["p"] not in replaced}
            model |= {row["id"]: row for row in some}
        elif action == "drop" and step % 3 == 0:
            table.delete_partition("a")
            model = {key: row for key, row in model.items() if row["p"] != "a"}
        elif action == "compact" and kind == "mor":
            table.compact()
        elif action == "clean":
            table.clean(options={"hoodie.clean.commits.retained": "1"})
        elif action == "rollback":
            table.upsert(pa.Table.from_pylist(some, SCHEMA))
            table.rollback(str(table.timeline.write_completed[-1].time))
            model = before
        rows = list(model.values())
        assert entries(path) == expected(rows), (step, action)
        assert entries(path, "secondary_index_of_n") == expected(rows, "n"), (step, action)
    assert table.metadata.verify().ok, table.metadata.verify()
    for value in filter(None, VALUES):
        found = table.scan(filter=pc.field("name") == value)
        assert sorted(found.to_table()["id"].to_pylist()) == sorted(
            row["id"] for row in model.values() if row["name"] == value
        )


def test_it_leads_to_the_slices_of_a_value(tmp_path: Path) -> None:
    rows = [{"id": f"k{i}", "p": str(i), "name": f"n{i}", "n": i % 2} for i in range(6)]
    table = make(tmp_path / "t", rows)
    table.index("ix", "name")
    table.index("of_n", "n")
    scan = table.scan(filter="name = 'n3'")
    assert len(scan.splits()) == 1
    assert [step.why for step in scan.plan().pruning if step.step == "secondary index"] == ["ix: 1 key"]
    assert len(table.scan(filter="n = 1 AND name IN ('n3', 'n4')").splits()) == 1
    table.indexes.drop("secondary_index_ix")
    assert len(table.scan(filter="name = 'n3'").splits()) == 6


@pytest.mark.parametrize(
    ("kind", "values", "condition", "found"),
    [
        (pa.date32(), [datetime.date(2024, 1, day) for day in (1, 2, 3)], "v = DATE '2024-01-02'", 1),
        (
            pa.timestamp("us", "UTC"),
            [datetime.datetime(2024, 1, day, tzinfo=datetime.timezone.utc) for day in (1, 2, 3)],
            "v IN (TIMESTAMP '2024-01-02 00:00:00Z', TIMESTAMP '2024-01-03 00:00:00Z')",
            2,
        ),
        (pa.float64(), [0.0, -0.0, 1e10], "v = 0.0", 2),
        (pa.float64(), [0.5, 1.0, 1e10], "v = 1e10", 1),
        (pa.int64(), [1, 2, 3], "v = 2", 1),
    ],
)
def test_filters_of_other_types_use_it(
    tmp_path: Path, kind: pa.DataType, values: list[Any], condition: str, found: int
) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"id": ["a", "b", "c"], "v": pa.array(values, kind)})
    hudi_py.write(path, data, options=GLOBAL, record_key="id", partition_by="id")
    table = hudi_py.open_table(path, GLOBAL)
    table.index("ix", "v")
    scan = table.scan(filter=condition)
    assert scan.to_table().num_rows == len(scan.splits()) == found
    assert any(step.step == "secondary index" for step in scan.plan().pruning)


def test_indexes_are_listed_refreshed_and_dropped(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(random.Random(1), 5))
    table.index("ix", "name", index_options={"note": "x"})
    assert not table.index("ix", "name", if_not_exists=True)
    with pytest.raises(ConfigError, match="Cannot create the index 'ix' .* exists already"):
        table.index("ix", "name")
    listed = {row["name"]: row for row in table.indexes.list().to_pylist()}
    assert list(listed) == ["record_index", "secondary_index_ix"]
    assert listed["secondary_index_ix"] == {
        "name": "secondary_index_ix",
        "kind": "secondary_index",
        "columns": ["name"],
        "function": "identity",
        "options": [("note", "x")],
        "version": "V2",
        "ready": True,
    }
    before = entries(tmp_path / "t")
    table.indexes.refresh("ix")
    assert entries(tmp_path / "t") == before
    assert table.indexes.drop("ix")
    assert not table.indexes.drop("ix", if_exists=True)
    with pytest.raises(ConfigError, match="there is no such index; it has record_index"):
        table.indexes.drop("ix")
    table.index("ix", "name")
    table.indexes.drop("record_index")  # the other one needs it
    assert table.indexes.list().num_rows == 0


def test_statements_of_sql(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(tmp_path / "t", batch(random.Random(1), 5))
    options = Options.resolve(GLOBAL, Scope.WRITE)
    for statement, ready in (
        (IndexChange("create", "ix", "name", options={"a": "b"}), [True, True]),
        (IndexChange("create", "ix", "name", quiet=True), [True, True]),
        (IndexChange("refresh", "ix"), [True, True]),
        (IndexChange("drop", "ix"), [True]),
        (IndexChange("drop", "ix", quiet=True), [True]),
    ):
        pickle.loads(pickle.dumps(statement)).run(path, options)
        assert index_table(path, options)["ready"].to_pylist() == ready


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.table({"id": ["1"], "flag": [True], "s": [{"x": 1}]})
    hudi_py.write(str(path), data, record_key="id")
    table = hudi_py.open_table(str(path))
    asking = {"hoodie.metadata.global.record.level.index.enable": "true"}
    with pytest.raises(ConfigError, match=r"needs a record index.*global.record.level.index.enable=true"):
        table.index("ix", "id")
    for column, why in (("flag", "has the type bool"), ("s", "has the type struct"), ("no", "no column 'no'; it has")):
        with pytest.raises(ConfigError, match=why):
            table.index("ix", column, options=asking)
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        table.index("../x", "id", options=asking)
    with pytest.raises(ConfigError, match="there is no kind 'btree'"):
        table.index("ix", "id", using="btree")
    by_partition = {"hoodie.metadata.record.level.index.enable": "true"}
    with pytest.raises(ConfigError, match="its record index is partitioned"):
        table.index("ix", "id", options=by_partition)
    assert table.index("ix", "s.x", options=asking)
    assert entries(path) == ["1$1"]
    assert "record_index" in table.indexes.list()["name"].to_pylist()
    hudi_py.write(str(tmp_path / "six"), data, record_key="id", table_version=6, options=asking)
    with pytest.raises(ConfigError, match="version 6, and indexes by name need version 8 or 9"):
        hudi_py.open_table(str(tmp_path / "six")).index("ix", "id")


def test_options_of_a_write_make_and_drop_indexes(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(random.Random(2), 5))
    one = pa.Table.from_pylist([{"id": "x", "p": "a", "name": "v", "n": 1}], SCHEMA)
    table.upsert(one, options={"hoodie.metadata.index.secondary.column": "name", "hoodie.index.name": "ix"})
    assert "v$x" in entries(tmp_path / "t")
    table.upsert(one, options={"hoodie.metadata.index.secondary.column": "name"})  # the column has one
    table.upsert(one, options={"hoodie.metadata.index.secondary.column": "n"})
    names = ["record_index", "secondary_index_ix", "secondary_index_n"]
    assert table.indexes.list()["name"].to_pylist() == names
    table.upsert(one, options={"hoodie.metadata.index.drop": "secondary_index_ix"})
    assert table.indexes.list()["name"].to_pylist() == ["record_index", "secondary_index_n"]
    table.upsert(one, options={"hoodie.metadata.index.secondary.enable": "false"})
    assert table.indexes.list()["name"].to_pylist() == ["record_index"]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.sampled(1)
def test_a_rollback_of_what_was_written_before_it_was_made(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    rows = [{"id": f"k{i}", "p": "a", "name": "x", "n": i} for i in range(3)]
    table = make(path, rows, kind=kind)
    table.upsert(pa.Table.from_pylist([{**rows[0], "n": 7}], SCHEMA))
    table.index("ix", "n")
    table.index("of_name", "name", using="column_stats", index_options={"expr": "upper"})
    assert entries(path) == ["1$k1", "2$k2", "7$k0"]
    table.rollback(str(table.timeline.write_completed[-1].time))
    assert entries(path) == ["0$k0", "1$k1", "2$k2"]
    assert table.metadata.verify().ok
    assert table.indexes.list().num_rows == 3


def test_the_next_write_completes_what_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    rows = [{"id": f"k{i}", "p": "a", "name": "x", "n": i} for i in range(3)]
    table = make(path, rows)
    table.index("ix", "n")
    storage = LocalStorage(str(path))
    drop_partitions(storage, load_table_config(storage), ["secondary_index_ix"], to_make=True)  # as a killed process
    assert table.indexes.list()["ready"].to_pylist() == [True, False]
    table.upsert(pa.Table.from_pylist(rows[:1], SCHEMA))
    assert entries(path) == ["0$k0", "1$k1", "2$k2"]

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(beside, "fill_partition", failing)
    with pytest.raises(OSError, match="no space left"):
        table.index("other", "name")
    assert table.indexes.list()["name"].to_pylist() == ["record_index", "secondary_index_ix"], (
        "what fails leaves nothing"
    )
    assert "secondary_index_other" not in read_definitions(storage, load_table_config(storage))


def test_rebuilding_the_metadata_table_rebuilds_them(tmp_path: Path) -> None:
    table = make(tmp_path / "t", batch(random.Random(3), 8))
    table.index("ix", "name")
    table.metadata.rebuild("files")
    assert table.indexes.list()["ready"].to_pylist() == [True, True]
    assert table.metadata.verify().ok


def test_a_column_that_becomes_one_of_another_form_is_indexed_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**GLOBAL, "hoodie.py.write.widen.columns": "true"}
    rows = [{"id": f"k{i}", "p": "a", "name": "x", "n": i} for i in range(3)]
    table = make(path, rows)
    table.index("ix", "n")
    wider = pa.table({"id": ["k1"], "p": ["a"], "name": ["x"], "n": [1.5]})
    table.upsert(wider, options=options)
    assert table.indexes.list()["ready"].to_pylist() == [True, False]
    assert table.scan(filter="n = 2").to_table().num_rows == 1
    table.upsert(wider, options=options)
    assert entries(path) == ["0.0$k0", "1.5$k1", "2.0$k2"]
    assert table.metadata.verify().ok


def test_texts_are_those_of_spark() -> None:
    day, moment = datetime.date(2024, 1, 5), datetime.datetime(2024, 1, 1, 0, 0, 5, 123456)
    for value, kind, text in (
        (day, pa.date32(), "19727"),
        (moment, pa.timestamp("us", "UTC"), "1704067205123456"),
        (moment, pa.timestamp("us"), "1704067205123456"),
        (4.5e9, pa.float64(), "4.5E9"),
        (1.1, pa.float32(), "1.1"),
        (7, pa.int64(), "7"),
        (None, pa.string(), None),
    ):
        assert secondary_texts(pa.array([value], kind)).to_pylist() == [text]
    assert changes_texts(pa.int32(), pa.float64())
    assert changes_texts(pa.int32(), None)
    assert not changes_texts(pa.int32(), pa.string())
    assert not changes_texts(pa.int32(), pa.int64())
    assert changes_texts(pa.date32(), pa.string())


def test_a_record_index_is_one_of_the_record_key(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, [{"id": 1, "k": "a", "v": 2}], record_key=["id", "k"])
    table = hudi_py.open_table(path)
    for column in ("v", "id", "id,k,v"):
        with pytest.raises(ConfigError, match=f"on {column}: a record index is one of the record key, which is id, k"):
            table.index("record_index", column, using="record_index")
    with pytest.raises(ConfigError, match="give a secondary index another name"):
        table.index("record_index", "v")
    assert table.index("record_index", "K,id", using="record_index")
