"""Merges of tables with generated keys: ON is any condition, and rows are updated by the keys that they have. Against
a model that compares each row of the table with each row of the source."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, DuplicateKeyError
from hudi_py.write.dml import merging as merging_module
from hudi_py.write.dml import spread as spread_module
from tests.support.choice import SEED
from tests.support.spread import merging

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("fare", pa.float64()), ("city", pa.string())])
SOURCE = pa.schema([("id", pa.int32()), ("name", pa.string()), ("least", pa.float64()), ("city", pa.string())])
Row = dict[str, Any]


def equal(left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(left == right)


CONDITIONS: dict[str, Callable[[Row, Row], bool]] = {
    "t.id = s.id": lambda t, s: equal(t["id"], s["id"]),
    "s.name = t.name AND t.city = s.city": lambda t, s: equal(t["name"], s["name"]) and equal(t["city"], s["city"]),
    "t.id + 1 = s.id AND t.fare > s.least": lambda t, s: equal(t["id"] + 1, s["id"]) and t["fare"] > s["least"],
    "t.fare < s.least": lambda t, s: t["fare"] < s["least"],
    "t.name <=> s.name": lambda t, s: bool(t["name"] == s["name"]),
    "t.fare = s.least": lambda t, s: equal(t["fare"], s["least"]),
    "t.city = s.city AND s.id > 3 AND t.id = 2": lambda t, s: (
        equal(t["city"], s["city"]) and s["id"] > 3 and t["id"] == 2
    ),
}


def make(path: Path, rows: list[Row], kind: str, version: int = 9) -> hudi_py.Table:
    hudi_py.write(
        path,
        pa.Table.from_pylist(rows, SCHEMA),
        options={"hoodie.metadata.enable": "false"},
        partition_by="city",
        table_type=kind,
        table_version=version,
    )
    return hudi_py.open_table(path, {"hoodie.metadata.enable": "false"})


def plain(table: hudi_py.Table) -> list[str]:
    return sorted(map(str, table.scan(columns=SCHEMA.names).to_table().to_pylist()))


def keys(table: hudi_py.Table) -> list[str]:
    found: list[str] = table.scan(columns=["_hoodie_record_key"]).to_table()[0].to_pylist()
    return found


@pytest.mark.parametrize("on", CONDITIONS)
def test_a_merge_on_any_condition(tmp_path: Path, on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(f"{SEED} {on}")
    monkeypatch.setattr(merging_module, "_MAX_PAIRS", rnd.choice([1, 7, 1 << 20]))
    holds = CONDITIONS[on]

    def row(number: float) -> Row:
        name, city = rnd.choice(["a", "b", "a:", None]), rnd.choice(["oslo", "lima"])
        return {"id": rnd.randrange(5), "name": name, "fare": number, "city": city}

    rows = [row(rnd.choice([1.5, 2.0, 3.0])) for _ in range(12)]
    source = []
    for _ in range(3):
        made = {**row(0), "least": rnd.choice([1.0, 2.0, 9.0])}
        del made["fare"]
        if not any(holds(each, made) and holds(each, other) for each in rows for other in source):
            source.append(made)
    table = make(tmp_path / "t", rows, rnd.choice(["cow", "mor"]), rnd.choice([6, 8, 9]))
    before = set(keys(table))
    expected = []
    for each in rows:
        other = next((other for other in source if holds(each, other)), None)
        if other is None:
            expected.append({**each, "fare": -1.0} if each["id"] == 4 else each)
        elif each["id"] != 0:
            expected.append({**each, "fare": each["fare"] + other["least"], "name": other["name"]})
    alone = [each for each in source if not any(holds(other, each) for other in rows)]
    new = [{"id": each["id"], "name": "new", "fare": each["least"], "city": each["city"]} for each in alone]
    done = (
        table.merge(pa.Table.from_pylist(source, SOURCE), on)
        .when_matched_delete("t.id = 0")
        .when_matched_update({"fare": "t.fare + s.least", "name": "s.name"})
        .when_not_matched_insert({"id": "s.id", "name": "'new'", "fare": "s.least", "city": "s.city"})
        .when_not_matched_by_source_update({"fare": "-1.0"}, "t.id = 4")
        .execute()
    )
    assert plain(table) == sorted(map(str, expected + new))
    after = keys(table)
    assert len(set(after)) == len(after)
    assert done.num_inserted == len(new)
    assert len(set(after) & before) == len(expected)  # rows keep their keys


@pytest.mark.parametrize("on", ["t.id = s.id", "t.fare < s.least - 8.0", "t.city = s.city AND t.name <=> s.name"])
def test_a_merge_in_tasks(tmp_path: Path, on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_module, "_TASK_BYTES", 300)
    monkeypatch.setattr(spread_module, "_EXACT_KEYS", 0)
    rows = [{"id": at, "name": f"n{at}", "fare": at / 2, "city": ["oslo", "lima"][at % 2]} for at in range(20)]
    source = [{"id": at, "name": f"n{at}", "least": 9.0, "city": ["oslo", "lima"][at % 2]} for at in range(18, 60)]
    table = pa.Table.from_pylist(source[: 1 if "fare" in on else None], SOURCE)
    found = []
    for name in ("one", "spread"):
        made = make(tmp_path / name, rows, "cow")
        options = {"hoodie.metadata.enable": "false"}
        spread = name == "spread"
        merge = (
            merging(table, (on,), tmp_path / name, options, seed=f"{SEED} {on}") if spread else made.merge(table, on)
        )
        values = {"id": "s.id", "name": "'new'", "fare": "s.least", "city": "s.city"}
        done = (
            merge.when_matched_update({"fare": "t.fare + s.least"}, "t.id < 19")
            .when_matched_delete()
            .when_not_matched_insert(values)
            .when_not_matched_by_source_delete("t.id = 5")
            .execute()
        )
        assert len(set(keys(made))) == len(keys(made))
        found.append((plain(made), done.num_inserted, done.num_updated, done.num_deleted))
    assert found[0] == found[1]


def test_rows_that_are_alike_have_keys_of_their_own(tmp_path: Path) -> None:
    row = {"id": 1, "name": "a", "fare": 1.0, "city": "oslo"}
    table = make(tmp_path / "t", [row, row], "mor")
    source = pa.Table.from_pylist([{**row, "id": 2}] * 3, SCHEMA)
    table.merge(source, "t.id = s.id").when_not_matched_insert_all().execute()
    assert len(set(keys(table))) == 5
    table.merge(source.slice(0, 1), on=["id"]).when_matched_update({"fare": "9.0"}).execute()
    assert table.scan(columns=["fare"]).to_table()[0].to_pylist().count(9.0) == 3


def test_null_is_equal_to_nothing(tmp_path: Path) -> None:
    row = {"id": None, "name": None, "fare": 1.0, "city": "oslo"}
    table = make(tmp_path / "t", [row], "cow")
    source = pa.Table.from_pylist([row], SCHEMA)
    assert table.merge(source, "t.id = s.id").when_matched_delete().execute().num_deleted == 0
    merge = table.merge(source, "t.city = s.city AND t.name = s.name")
    assert merge.when_matched_delete().when_not_matched_insert_all().execute().num_inserted == 1
    assert table.merge(source, "t.id <=> s.id").when_matched_delete().execute().num_deleted == 2


def test_several_values_are_equal_one_by_one(tmp_path: Path) -> None:
    table = make(tmp_path / "t", [{"id": 1, "name": "2x", "fare": 1.0, "city": "c"}], "cow")
    source = pa.Table.from_pylist([{"id": 12, "name": "x"}], SOURCE)
    merge = table.merge(source, "t.id = s.id AND t.name = s.name").when_matched_delete()
    assert merge.execute().num_deleted == 0


def test_several_rows_for_one_are_refused(tmp_path: Path) -> None:
    row = {"id": 1, "name": "a", "fare": 1.0, "city": "oslo"}
    table = make(tmp_path / "t", [row], "cow")
    merge = table.merge(pa.Table.from_pylist([row, row], SCHEMA), "t.id = s.id")
    with pytest.raises(DuplicateKeyError, match="several rows of the source match"):
        merge.when_matched_update_all().execute()
    assert merge.when_matched_delete().execute().num_deleted == 1


def test_rows_of_one_partition_alone_are_read(tmp_path: Path) -> None:
    rows = [{"id": at, "name": "a", "fare": 1.0, "city": city} for at, city in enumerate(("oslo", "lima"))]
    table = make(tmp_path / "t", rows, "cow")
    source = pa.Table.from_pylist([{"id": 0, "city": "oslo"}, {"id": 7, "city": None}], SOURCE)
    source = source.select(["id", "city"])
    (lima,) = (tmp_path / "t" / "lima").glob("*.parquet")
    lima.unlink()
    merge = table.merge(source, "t.city = s.city AND t.id = s.id").when_matched_update({"fare": "2.0"})
    assert merge.execute().num_updated == 1


def test_no_rows_of_the_source(tmp_path: Path) -> None:
    table = make(tmp_path / "t", [{"id": 1, "name": "a", "fare": 1.0, "city": "oslo"}], "cow")
    nothing = SOURCE.empty_table()
    assert table.merge(nothing, "t.id = s.id").when_matched_delete().execute().num_deleted == 0
    assert table.merge(nothing, "true").when_not_matched_by_source_delete().execute().num_deleted == 1


def test_a_row_stays_in_its_partition(tmp_path: Path) -> None:
    table = make(tmp_path / "t", [{"id": 1, "name": "a", "fare": 1.0, "city": "oslo"}], "cow")
    source = pa.Table.from_pylist([{"id": 1, "city": "lima"}], SOURCE)
    with pytest.raises(ConfigError, match="partition column 'city' to another value"):
        table.merge(source, "t.id = s.id").when_matched_update({"city": "s.city"}).execute()


@pytest.mark.parametrize("keyed", [True, False])
def test_merges_by_record_keys(tmp_path: Path, keyed: bool) -> None:
    rows = [{"id": 1, "name": "a", "fare": 1.0, "city": city} for city in ("oslo", "lima")]
    path = tmp_path / "t"
    hudi_py.write(path, pa.Table.from_pylist(rows, SCHEMA), record_key="id" if keyed else None, partition_by="city")
    table = hudi_py.open_table(path)
    found = table.scan(columns=["_hoodie_record_key", "_hoodie_partition_path"], filter="city = 'lima'").to_table()
    source = found.rename_columns(["k", "p"])
    on = "t._hoodie_record_key = s.k AND s.p = t._hoodie_partition_path"
    assert table.merge(source, on).when_matched_update({"fare": "5.0"}).execute().num_updated == 1
    assert plain(table) == sorted(str({**row, "fare": 5.0 if row["city"] == "lima" else 1.0}) for row in rows)
    merge = table.merge(source, "t._hoodie_record_key = s.k")
    assert merge.when_matched_delete().execute().num_deleted == (2 if keyed else 1)
    values = {"id": "1", "city": "s.p"}
    if keyed:
        with pytest.raises(ConfigError, match="compare the key columns id in ON"):
            merge.when_not_matched_insert(values).execute()
    else:
        assert merge.when_not_matched_insert(values).execute().num_inserted == 1
    with pytest.raises(ConfigError, match="without _hoodie_record_key"):
        table.merge(source, "t._hoodie_partition_path = s.p AND t.id = 1").when_matched_delete().execute()
    with pytest.raises(ConfigError, match="compares string with int32"):
        table.merge(source, "t._hoodie_record_key = length(s.k)").when_matched_delete().execute()


NESTED = pa.schema([("k", pa.struct([("a", pa.int64()), ("b", pa.string())])), ("v", pa.int64())])


def test_keys_that_are_fields_of_structs(tmp_path: Path) -> None:
    rows = [{"k": {"a": at, "b": "x"}, "v": at} for at in range(3)]
    hudi_py.write(tmp_path / "t", pa.Table.from_pylist(rows, NESTED), record_key="k.a")
    table = hudi_py.open_table(tmp_path / "t")
    source = pa.Table.from_pylist([{"k": {"a": 1, "b": "y"}, "v": 10}, {"k": {"a": 7, "b": "y"}, "v": 70}], NESTED)
    merge = table.merge(source, "t.k.a = s.k.a").when_matched_update_all().when_not_matched_insert_all()
    done = merge.execute()
    assert (done.num_updated, done.num_inserted) == (1, 1)
    found = table.scan(columns=["k", "v"]).to_table().sort_by("v").to_pylist()
    assert found == [rows[0], rows[2], *source.to_pylist()]
    with pytest.raises(ConfigError, match=r"record key column 'k.a' to another value"):
        table.merge(source, "t.k.a = s.k.a + 1").when_matched_update({"k": "s.k"}).execute()
    with pytest.raises(ConfigError, match=r"column 'k.a' is not compared"):
        table.merge(source, "t.v > s.v").when_matched_delete().execute()
    assert table.delete([{"k": {"a": 2}}]).num_deleted == 1  # rows to delete need the key alone
    flat = pa.table({"id": [0, 7]})
    assert table.merge(flat, "t.k.a = s.id").when_matched_delete().execute().num_deleted == 2
    assert table.scan().count() == 1
