"""UPDATE, DELETE and MERGE, compared with a dict, and what they refuse."""

from __future__ import annotations

import random
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import (
    ConfigError,
    DuplicateKeyError,
    SchemaMismatchError,
    TableNotFoundError,
)
from hudi_py.storage import open_storage
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import write_options
from hudi_py.write.dml import run as statements
from hudi_py.write.dml import slices
from hudi_py.write.dml import statements as basic
from hudi_py.write.dml.run import run_statement
from hudi_py.write.dml.statements import Delete
from tests.support.choice import cases

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.py.write.durable": "false"}
INDEXES: dict[str, dict[str, str]] = {
    "SIMPLE": {},
    "BLOOM": {},
    "RECORD_LEVEL_INDEX": {"hoodie.metadata.record.level.index.enable": "true"},
    "GLOBAL_RECORD_LEVEL_INDEX": {"hoodie.metadata.global.record.level.index.enable": "true"},
    "BUCKET": {"hoodie.bucket.index.num.buckets": "2"},
}
COLUMNS = ["id", "ts", "v", "n", "p"]
Row = dict[str, Any]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("v", pa.string()), ("n", pa.float64()), ("p", pa.string())]
)


def row(key: int, ts: int = 10, v: str | None = None, n: float | None = 1.0) -> Row:
    return {"id": key, "ts": ts, "v": v or f"v{key}", "n": n, "p": "xy"[key % 2]}


def make(
    path: Path, rows: list[Row] | None = None, options: dict[str, str] | None = None, **more: Any
) -> hudi_py.Table:
    data = pa.Table.from_pylist([row(key) for key in range(1, 7)] if rows is None else rows, SCHEMA)
    given = {**QUICK, **(options or {})}
    keywords = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", **more}
    hudi_py.write(path, data, "upsert", given, **keywords)
    return hudi_py.open_table(path, given)


def test_an_empty_list_is_no_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for write in (table.upsert, table.insert, table.bulk_insert, table.delete, table.insert_overwrite):
        result = write([])
        assert (result.num_inserted or 0, result.num_updated or 0, result.num_deleted or 0) == (0, 0, 0)
    assert table.merge([], on=["id", "p"]).when_matched_delete().execute().num_files == 0
    assert hudi_py.write(table.uri, [], options=QUICK).num_files == 0
    assert table.scan().count() == 6


def test_a_merge_that_is_not_run_warns(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with pytest.warns(UserWarning, match=r"merge\(\) changed nothing: .* call execute\(\)"):
        table.merge([row(1)], on=["id", "p"]).when_matched_delete()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        builder = table.merge([row(1)], on=["id", "p"])
        builder.when_matched_delete().execute()
        del builder
    assert table.scan().count() == 5


def rows_of(table: hudi_py.Table) -> dict[int, Row]:
    found = table.scan(columns=COLUMNS).to_table().to_pylist()
    assert len({each["id"] for each in found}) == len(found)
    return {each["id"]: each for each in found}


def operations(table: hudi_py.Table) -> list[str]:
    found: list[str] = table.history()["operation"].to_pylist()
    return found


def counts(result: hudi_py.WriteResult) -> tuple[int | None, int | None, int | None]:
    return result.num_inserted, result.num_updated, result.num_deleted


# -- generated statements against a dict


def random_merge(rng: random.Random, table: hudi_py.Table, model: dict[int, Row], ts: int) -> None:
    source = [
        row(key, ts, rng.choice(["new", "del", "skip"]), rng.choice([None, 2.0])) for key in rng.sample(range(1, 10), 5)
    ]
    builder = table.merge(source, rng.choice(["t.id = s.id", "t.id = s.id AND s.p = t.p", "id"]))
    matched: list[tuple[str, Any]] = []
    if rng.random() < 0.5:
        builder = builder.when_matched_delete("s.v = 'del'")
        matched.append(("delete", lambda t, s: s["v"] == "del"))
    if rng.random() < 0.5:
        builder = builder.when_matched_update({"v": "t.v || s.v", "ts": "s.ts"}, "coalesce(s.n, 0) > 1")
        matched.append(("set", lambda t, s: (s["n"] or 0) > 1))
    if rng.random() < 0.5:
        builder = builder.when_matched_update_all()
        matched.append(("all", lambda t, s: True))
    inserts = rng.choice([None, "s.v <> 'skip'", "all"])
    if inserts == "all":
        builder = builder.when_not_matched_insert_all()
    elif inserts:
        builder = builder.when_not_matched_insert({"id": "s.id", "ts": "s.ts + 1", "p": "s.p", "n": 0.5}, inserts)
    by_source = rng.random() < 0.4
    if by_source:
        builder = builder.when_not_matched_by_source_delete("t.id % 3 = 0")
        builder = builder.when_not_matched_by_source_update({"n": "-t.n", "ts": "t.ts + 1"})
    if not builder.plan.clauses:
        with pytest.raises(ConfigError, match="without a clause"):
            builder.execute()
        return
    by_key, done = {each["id"]: each for each in source}, [0, 0, 0]
    for key, old in list(model.items()):
        if key in by_key:
            action = next((name for name, holds in matched if holds(old, by_key[key])), None)
            if action == "delete":
                del model[key]
            elif action == "set":
                model[key] = {**old, "v": old["v"] and old["v"] + by_key[key]["v"], "ts": ts}
            elif action == "all":
                model[key] = by_key[key]
            done[2 if action == "delete" else 1] += action is not None
        elif by_source and key % 3 == 0:
            del model[key]
            done[2] += 1
        elif by_source:
            model[key] = {**old, "n": None if old["n"] is None else -old["n"], "ts": old["ts"] + 1}
            done[1] += 1
        by_key.pop(key, None)
    for key, new in by_key.items():
        if inserts == "all":
            model[key] = new
        elif inserts and new["v"] != "skip":
            model[key] = {**new, "ts": new["ts"] + 1, "v": None, "n": 0.5}
        else:
            continue
        done[0] += 1
    assert counts(builder.execute()) == tuple(done)


@pytest.mark.parametrize(
    ("version", "kind", "index"), cases(product((6, 8, 9), ("cow", "mor"), tuple(INDEXES)), "statements", 4)
)
def test_statements_do_what_they_do_to_a_dict(tmp_path: Path, version: int, kind: str, index: str) -> None:
    rng = random.Random(f"{version}{kind}{index}")
    table = make(
        tmp_path / "t", options={"hoodie.index.type": index, **INDEXES[index]}, table_type=kind, table_version=version
    )
    model = {key: row(key) for key in range(1, 7)}
    for step in range(3):
        random_merge(rng, table, model, 10 * step + 20)
        assert rows_of(table) == model, step
    low = rng.randrange(1, 9)
    changed = {key: {**old, "v": f"u{key}", "n": 7.0} for key, old in model.items() if key >= low}
    result = table.update({"v": "'u' || CAST(id AS STRING)", "n": 7}, f"id >= {low}")
    model |= changed
    assert (counts(result), rows_of(table)) == ((0, len(changed), 0), model)
    result = table.delete_where(pc.field("id") < low)
    assert counts(result) == (0, 0, sum(key < low for key in model))
    assert rows_of(table) == {key: old for key, old in model.items() if key >= low}
    assert table.metadata.verify().ok


# -- update and delete


def test_update_records_what_apache_hudi_does(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.update({"v": "'n'"}, "id = 2")
    table.update({"v": "'n'"}, "id = 99")  # an empty commit, too
    table.delete("id = 3")
    table.merge([row(4, 20)], "id").when_matched_delete().execute()
    assert operations(table) == ["UPSERT", "UPSERT_PREPPED", "UPSERT_PREPPED", "DELETE_PREPPED", "UPSERT"]
    result = table.update({"v": "'n'"}, "id = 99", options={"hoodie.allow.empty.commit": "false"})
    assert (result.instant, counts(result), len(operations(table))) == (None, (0, 0, 0), 5)
    assert rows_of(table) == {1: row(1), 2: row(2, v="n"), 5: row(5), 6: row(6)}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_ordering_values_count_for_updates_and_for_deletes_of_merges_in_logs(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", table_type=kind)
    table.update({"v": "'low'", "ts": "ts - 1"}, "id = 1")
    table.merge([row(2, 1, "low")], "id").when_matched_update_all().execute()
    assert rows_of(table)[1]["v"] == "v1"
    assert rows_of(table)[2]["v"] == "v2"
    done = table.merge([row(2, 9), row(3, 10), row(4, 11)], "id").when_matched_delete().execute()
    assert (done.num_deleted, sorted(rows_of(table))) == ((3, [1, 5, 6]) if kind == "cow" else (2, [1, 2, 5, 6]))
    assert table.delete("id = 1").num_deleted == 1
    # a source without ordering values deletes, too
    assert table.merge([{"id": 5}], "id").when_matched_delete().execute().num_deleted == 1


def test_a_key_that_is_there_twice_is_updated_where_the_condition_holds(tmp_path: Path) -> None:
    options = {**QUICK, "hoodie.parquet.small.file.limit": "0"}
    table = make(tmp_path / "t", [row(1)], options)
    table.insert(pa.Table.from_pylist([row(1, 20, "b")], SCHEMA))
    table.update({"v": "'c'"}, "v = 'b'")
    assert sorted(table.scan(columns=["v"]).to_table()["v"].to_pylist()) == ["c", "v1"]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_one_key_in_a_file_are_counted_as_they_go(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", [row(1), row(2)], {**QUICK, "hoodie.datasource.write.table.type": kind})
    table.insert(pa.Table.from_pylist([row(1, 20, "b"), row(3)], SCHEMA))
    assert table.update({"v": "'c'"}, "id = 1").num_updated == 1
    assert sorted(table.scan(filter="id = 1", columns=["v"]).to_table()["v"].to_pylist()) == ["b", "c"]
    assert table.delete_where("id IN (1, 3)").num_deleted == 2
    assert table.scan(filter="id IN (1, 3)", columns=["id"]).to_table()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("values", "message", "error"),
    [
        ({}, "without columns", ConfigError),
        ({"id": 1}, "record key field 'id' for table 't'", ConfigError),
        ({"P": "'z'"}, "partition field 'p' for table 't'", ConfigError),
        ({"w": 1}, "'w', which the table lacks", SchemaMismatchError),
        ({"_hoodie_record_key": 1}, "Hudi keeps it itself", SchemaMismatchError),
        ({"v": "s.v"}, "does not exist", SchemaMismatchError),
        ({"v": "new"}, "names column 'new'", SchemaMismatchError),
        ({"v": 1, "V": 2}, "set twice", ConfigError),
        ({"ts": "n"}, None, None),
        ({"ts": "v"}, "cannot be written as int64", SchemaMismatchError),
        ({"ts": "n + 0.5"}, "cannot hold exactly", SchemaMismatchError),
        ({"v": "substring(v, 2)"}, "supported:", ConfigError),
    ],
)
def test_updates_that_are_refused(
    tmp_path: Path, values: Row, message: str | None, error: type[Exception] | None
) -> None:
    table = make(tmp_path / "t", [row(1, 0)])
    if error is None:
        table.update(values)
        assert rows_of(table)[1]["ts"] == 1
        return
    with pytest.raises(error, match=message):
        table.update(values)
    assert rows_of(table) == {1: row(1, 0)}


def test_where_is_checked_before_there_is_an_instant(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for run in (lambda: table.update({"n": 1}, "nothing = 1"), lambda: table.delete("nothing = 1")):
        with pytest.raises(SchemaMismatchError, match="does not exist"):
            run()
    assert len(table.instants()) == 1
    with pytest.raises(TableNotFoundError):
        run_statement(WriteTarget(open_storage(tmp_path / "no"), write_options()), Delete("true"))


def test_a_delete_of_rows_still_takes_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.delete(pd.DataFrame({"id": [1], "p": ["y"]}))
    assert sorted(rows_of(table)) == [2, 3, 4, 5, 6]
    table.delete("true")
    assert rows_of(table) == {}


# -- merge


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("t.v = s.v AND t.n > s.n", "required to match on all record key columns, and column 'id'"),
        ("t.id > s.id", "column 'id'"),
        ("t.id = s.id OR t.p = s.p", "column 'id'"),
        ("t.id = 1", "column 'id'"),
        ("t.id = s.v", "compares int64 with string"),
        ("t.id = s.w", "does not exist"),
        ("w", "column 'id'"),
    ],
)
def test_conditions_that_are_refused(tmp_path: Path, on: str, message: str) -> None:
    table = make(tmp_path / "t", [row(1)])
    with pytest.raises((ConfigError, SchemaMismatchError), match=message):
        table.merge([row(1)], on).when_matched_delete().execute()


def test_merges_that_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    one, bare = [row(1, 20)], [{"id": 1, "ts": 20}]

    def merge(source: list[Row] = one, on: str = "t.id = s.id") -> Any:
        return table.merge(source, on)

    refused = [
        (merge(), "without a clause"),
        (merge().when_matched_delete().when_matched_update_all(), "never applies"),
        (merge(bare).when_matched_update_all(), "needs the column 'v', which the source lacks"),
        (merge(bare).when_not_matched_insert_all(), "needs the column 'v'"),
        (merge().when_not_matched_insert({"ts": "s.ts", "p": "s.p"}), "record key field 'id'"),
        (merge().when_not_matched_insert({"id": "s.id", "p": "s.p"}), "ordering field 'ts'"),
        (merge().when_matched_update({"id": "s.id + 1"}), "sets the record key column 'id' to another value"),
        (merge([{**row(1, 20), "p": "z"}]).when_matched_update_all(), "sets the partition column 'p'"),
        (
            merge([row(9)]).when_not_matched_insert({"id": "s.id + 1", "ts": 1, "p": "'x'"}),
            "inserts the record key '10'",
        ),
        (
            merge([row(9)], "t.id = s.id AND t.p = s.p").when_not_matched_insert({"id": "s.id", "ts": 1, "p": "'z'"}),
            "inserts the partition 'z'",
        ),
        (merge().when_not_matched_insert({"id": "t.id"}), "does not exist"),
        (merge().when_matched_delete("s.ts"), "not a condition"),
        (table.merge(one, "id", source_alias="x", target_alias="X").when_matched_delete(), "change one"),
    ]
    for builder, message in refused:
        with pytest.raises((ConfigError, SchemaMismatchError), match=message):
            builder.execute()
    assert rows_of(table) == {key: row(key) for key in range(1, 7)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_several_rows_of_the_source_for_one_key(tmp_path: Path, kind: str, mode: str) -> None:
    """The newest counts, before any clause, as with Apache Hudi."""
    table = make(tmp_path / "t", options={"hoodie.write.record.merge.mode": mode}, table_type=kind)

    def merge(*source: Row, on: str = "id") -> Any:
        return table.merge(list(source), on)

    merge(row(1, 20, "low"), row(1, 30, "high"), row(1, 25, "mid")).when_matched_update_all().execute()
    merge(row(2, 40, "first"), row(2, 40, "second")).when_matched_update_all().execute()
    merge(row(3, 20, "low"), row(3, 30, "high")).when_matched_update_all("s.ts < 25").execute()
    late = merge(row(4, 20, "low"), row(4, 30, "high")).when_matched_delete("s.ts < 25").when_matched_update_all()
    late.execute()
    named = [{"id": 5, "v": "new", "t": 60}, {"id": 5, "v": "old", "t": 50}]
    merge(*named).when_matched_update({"v": "s.v", "ts": "s.t"}).execute()
    found = rows_of(table)
    assert {key: (found[key]["ts"], found[key]["v"]) for key in range(1, 6)} == {
        1: (30, "high"),
        2: (40, "second"),
        3: (10, "v3"),
        4: (30, "high"),
        5: (60, "new"),
    }
    assert merge(row(6, 40), row(6, 50)).when_matched_delete().execute().num_deleted == 1
    news = [
        row(7, 20, "new"),
        row(7, 10, "old"),
        row(8, 20, "new"),
        row(8, 10, "old"),
        row(9, 5, "one"),
        row(9, 5, "two"),
    ]
    inserted = merge(*news).when_not_matched_insert_all("s.id <> 8 OR s.ts < 15").execute()
    assert inserted.num_inserted == 2
    found = rows_of(table)
    assert (found[7]["v"], found[9]["v"], 8 in found) == ("new", "two", False)


def test_several_rows_of_the_source_without_ordering_values(tmp_path: Path) -> None:
    table = make(tmp_path / "t", ordering_by=None)
    both = [row(1, 20, "a"), row(1, 30, "b")]
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        table.merge(both, "id").when_matched_update_all().execute()
    table.merge(both, "id").when_matched_update_all("s.v = 'a'").execute()  # the other one changes nothing
    assert rows_of(table)[1] == row(1, 20, "a")
    assert table.merge(both, "id").when_matched_delete().execute().num_deleted == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_new_rows_of_one_key_in_several_partitions(tmp_path: Path, kind: str) -> None:
    news = [{**row(9, 20, "x"), "p": "x"}, {**row(9, 10, "y"), "p": "y"}, {**row(9, 10, "y2"), "p": "y"}]
    each = make(tmp_path / "each", table_type=kind)
    assert each.merge(news, "id").when_matched_update_all().when_not_matched_insert_all().execute().num_inserted == 2
    found = each.scan(["id", "v", "p", "_hoodie_partition_path"], "id = 9").to_table().sort_by("p").to_pylist()
    assert [(one["v"], one["p"], one["_hoodie_partition_path"]) for one in found] == [("x", "x", "x"), ("y2", "y", "y")]
    only = make(tmp_path / "only", options={"hoodie.index.type": "GLOBAL_SIMPLE"}, table_type=kind)
    assert only.merge(news, "id").when_not_matched_insert_all().execute().num_inserted == 1
    assert rows_of(only)[9] == news[0]


GLOBAL = {
    "simple": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"},
    "record": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        **INDEXES["GLOBAL_RECORD_LEVEL_INDEX"],
        "hoodie.record.index.update.partition.path": "true",
    },
    "stays": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "version", "index"), [*product(("cow", "mor"), (9,), GLOBAL), ("mor", 6, "simple")])
def test_an_update_moves_rows_with_an_index_over_all_partitions(
    tmp_path: Path, kind: str, version: int, index: str
) -> None:
    table = make(tmp_path / "t", options=GLOBAL[index], table_type=kind, table_version=version)
    moved = [{**row(key, 20, "new"), "p": "z"} for key in (1, 2)] + [{**row(3, 5, "late"), "p": "z"}, row(9, 20)]
    merged = table.merge(moved, "id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert counts(merged)[0] == 1
    table.merge([{"id": 4, "q": "w"}, {"id": 5, "q": "y"}], "id").when_matched_update({"p": "s.q", "n": 7.0}).execute()
    # ON compares the partition, but the key is there
    on = table.merge([{**row(6, 20, "on"), "p": "y"}], "t.id = s.id AND t.p = s.p").when_matched_update_all()
    on.when_not_matched_insert_all().execute()
    expected = {key: row(key) for key in range(1, 7)} | {9: row(9, 20)}
    stays = index == "stays"
    for key, values in {
        1: {"ts": 20, "v": "new", "p": "z"},
        2: {"ts": 20, "v": "new", "p": "z"},
        4: {"p": "w", "n": 7.0},
        5: {"p": "y", "n": 7.0},
        6: {"ts": 20, "v": "on", "p": "y"},
    }.items():
        expected[key] |= {**values, "p": expected[key]["p"]} if stays else values
    assert rows_of(table) == expected
    paths = table.scan(["id", "_hoodie_partition_path"]).to_table().to_pylist()
    assert {each["id"]: each["_hoodie_partition_path"] for each in paths} == {
        key: r["p"] for key, r in expected.items()
    }
    if kind == "mor":
        table.compact()
        assert rows_of(table) == expected
    assert table.metadata.verify().ok
    with pytest.raises(ConfigError, match="sets the record key column 'id' to another value"):
        table.merge([row(1)], "id").when_matched_update({"id": "s.id + 1"}).execute()


def test_several_new_rows_without_ordering_fields(tmp_path: Path) -> None:
    table = make(tmp_path / "t", ordering_by=None)
    with pytest.raises(DuplicateKeyError, match="would insert the key '9'"):
        table.merge([row(9), row(9)], "id").when_not_matched_insert_all().execute()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_on_asks_for_besides_the_key(tmp_path: Path, kind: str) -> None:
    """It decides, but a row that would be inserted matches the one that has its key."""
    table = make(tmp_path / "t", table_type=kind)
    source = [row(1, 20, "new"), row(2, 20, "v2"), row(9, 20)]
    merge = table.merge(source, "t.id = s.id AND t.v = s.v")
    done = merge.when_matched_update({"n": 5.0, "ts": "s.ts"}).when_not_matched_insert_all("s.id <> 1").execute()
    assert counts(done) == (1, 1, 0)
    expected = {key: row(key) for key in range(1, 7)} | {2: row(2, 20, n=5.0), 9: row(9, 20)}
    assert rows_of(table) == expected
    merge = table.merge([row(1, 30, "new"), row(2, 30, "x")], "t.id = s.id AND t.v = s.v")
    merge = merge.when_matched_update({"n": 6.0, "ts": "s.ts"}, "s.id = 1").when_not_matched_insert_all()
    done = merge.when_not_matched_by_source_delete().execute()
    assert counts(done) == (0, 1, 5)
    assert rows_of(table) == {1: row(1, 30, "v1", 6.0), 2: expected[2]}
    merge = table.merge([row(2, 40, "other")], "t.id = s.id AND t.v = s.v").when_matched_delete()
    assert counts(merge.execute()) == (0, 0, 0)


def test_on_without_the_record_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key of the source counts, as with Apache Hudi."""
    table = make(tmp_path / "t", [row(1), row(2), row(3)])
    source = [row(1, 20, "v1", 5.0), row(2, 20, "v3", 5.0), row(9, 20, "v1")]
    merge = table.merge(source, "t.v = s.v").when_matched_update({"n": "s.n", "ts": "s.ts"})
    assert counts(merge.when_not_matched_insert_all().execute()) == (1, 2, 0)
    expected = {1: row(1, 20, n=5.0), 2: row(2, 20, n=5.0), 3: row(3), 9: row(9, 20, "v1")}
    assert rows_of(table) == expected
    assert "by id of the source, too, which ON does not compare" in caplog.text
    with pytest.raises(ConfigError, match="required to match on all record key columns, and column 'id'"):
        table.merge([{"v": "v1"}], "t.v = s.v").when_matched_delete().execute()


@pytest.mark.parametrize(
    "on",
    [
        "CAST(t.id AS STRING) = CAST(s.key AS STRING)",
        "CAST(s.key AS BIGINT) = CAST(t.id AS BIGINT)",
        "CAST(t.id AS BIGINT) = s.key",
        "t.id = CAST(s.text AS BIGINT) AND CAST(t.p AS STRING) = s.p",
    ],
)
def test_casts_in_on(tmp_path: Path, on: str) -> None:
    table = make(tmp_path / "t")
    source = pa.table({"key": pa.array([1, 8], pa.int32()), "text": ["1", "8"], "p": ["y", "x"]})
    merge = table.merge(source, on).when_matched_update({"n": 9.0})
    merge = merge.when_not_matched_insert({"id": "CAST(s.text AS BIGINT)", "ts": 1, "p": "s.p"})
    assert counts(merge.execute()) == (1, 1, 0)
    assert rows_of(table)[1] == row(1, n=9.0)


def test_casts_in_on_that_make_keys_equal_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for on in ("CAST(t.id AS TINYINT) = CAST(s.id AS TINYINT)", "CAST(t.id AS DOUBLE) = CAST(s.id AS DOUBLE)"):
        with pytest.raises(ConfigError, match="column 'id' is not compared"):
            table.merge([row(1)], on).when_matched_delete().execute()


def test_keys_that_are_null_match_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    source = pa.Table.from_pylist([{**row(1, 20), "id": None}, row(2, 20, "new")], SCHEMA)
    assert counts(table.merge(source, "id").when_matched_update_all().execute()) == (0, 1, 0)
    with pytest.raises(SchemaMismatchError, match="null or empty"):
        table.merge(source, "id").when_not_matched_insert_all().execute()


def test_names_constants_and_casts(tmp_path: Path) -> None:
    table = make(tmp_path / "t", [{**row(1), "n": None}])
    source = pa.table({"key": pa.array([1, 8], pa.int32()), "extra": [1, None]})
    builder = table.merge(source, "new.key = old.id", source_alias="new", target_alias="old")
    builder = builder.when_matched_update({"old.n": "CASE WHEN old.n IS NULL THEN 0 ELSE old.n END", "V": "'x'"})
    builder = builder.when_not_matched_insert(
        {"id": "key", "ts": 5, "p": "'y'", "v": "CAST(extra AS INT) || ''"}, "false"
    )
    with pytest.raises(ConfigError, match="cast it to STRING"):
        builder.execute()
    builder = table.merge(source, "new.key = old.id", source_alias="new", target_alias="old")
    builder = builder.when_matched_update({"old.n": "CASE WHEN old.n IS NULL THEN 0 ELSE old.n END", "V": "'x'"})
    builder.when_not_matched_insert({"id": "key", "ts": 5, "p": "'y'", "n": "extra"}).execute()
    assert rows_of(table) == {1: row(1, v="x", n=0.0), 8: {"id": 8, "ts": 5, "v": None, "n": None, "p": "y"}}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_members_of_structs_are_assigned_by_name_or_place(tmp_path: Path, kind: str) -> None:
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    nested = pa.struct([("in", pair), ("l", pa.list_(pair)), ("m", pa.map_(pa.string(), pair))])
    schema = pa.schema([("id", pa.int64()), ("s", pair), ("n", nested)])
    rows = [{"id": key, "s": {"a": 1, "b": "x"}, "n": None} for key in (1, 2, 3)]
    hudi_py.write(tmp_path / "t", pa.Table.from_pylist(rows, schema), "upsert", QUICK, record_key="id", table_type=kind)
    table = hudi_py.open_table(tmp_path / "t", QUICK)

    def merge(key: int, s: Row, n: Row | None = None) -> Any:
        return table.merge([{"id": key, "s": s, **({} if n is None else {"n": n})}], "id")

    merge(1, {"b": "named", "A": 5}).when_matched_update({"s": "s.s"}).execute()
    others = pa.array([{"col1": 6, "col2": "placed"}], pa.struct([("col1", pa.int64()), ("col2", pa.string())]))
    whole = pa.StructArray.from_arrays([others, pa.array([others.to_pylist()], pa.list_(others.type))], ["x", "y"])
    maps = pa.array([[("k", {"col1": 7, "col2": "mapped"})]], pa.map_(pa.string(), others.type))
    n = pa.StructArray.from_arrays([*whole.flatten(), maps], ["x", "y", "z"])
    source = pa.table({"id": [2, 4], "s": pa.concat_arrays([others, others]), "n": pa.concat_arrays([n, n])})
    table.merge(source, "id").when_matched_update_all().when_not_matched_insert_all().execute()
    table.update({"s": pa.scalar({"c": 8, "d": "constant"})}, "id = 3")
    found = {row["id"]: (row["s"], row["n"]) for row in table.scan(["id", "s", "n"]).to_table().to_pylist()}
    placed = {"a": 6, "b": "placed"}
    inner = {"in": placed, "l": [placed], "m": [("k", {"a": 7, "b": "mapped"})]}
    assert found == {
        1: ({"a": 5, "b": "named"}, None),
        2: (placed, inner),
        3: ({"a": 8, "b": "constant"}, None),
        4: (placed, inner),
    }
    merge(1, {"a": 9}).when_matched_update({"s": "s.s"}).execute()  # as rows of an upsert that lack it
    assert table.scan(["s"], "id = 1").to_table().to_pylist() == [{"s": {"a": 9, "b": None}}]
    with pytest.raises(SchemaMismatchError, match="'s' has the members a, b in the table, and a, c, d in the value"):
        merge(1, {"a": 1, "c": 2, "d": 3}).when_matched_update({"s": "s.s"}).execute()


def test_other_columns_in_on_are_compared_as_in_a_filter(tmp_path: Path) -> None:
    table = make(tmp_path / "t", options=INDEXES["RECORD_LEVEL_INDEX"])
    source = [{"id": 1, "one": 1}, {"id": 2, "one": 2}]
    on = "t.id = CAST(s.id AS BIGINT) AND t.n = s.one AND (t.v <=> 'v1' OR s.one = 2)"
    merged = table.merge(source, on).when_matched_update({"v": "'both'"}).execute()
    assert (counts(merged), rows_of(table)[1]["v"]) == ((0, 1, 0), "both")
    without = {"hoodie.metadata.enable": "false", "hoodie.py.drop.indexes": "true"}
    table.update({"v": "'without'"}, "id = 1", options=without)
    assert rows_of(table)[1]["v"] == "without"
    assert counts(table.merge(pa.table({"id": pa.array([], pa.int64())}), "id").when_matched_delete().execute()) == (
        0,
        0,
        0,
    )


def test_keys_of_several_columns(tmp_path: Path) -> None:
    data = [{"a": a, "b": b, "ts": 1, "v": 0} for a in ("x", "y") for b in (1, 2)]
    hudi_py.write(tmp_path / "t", data, "upsert", QUICK, record_key=["a", "b"], ordering_by="ts")
    table = hudi_py.open_table(tmp_path / "t", QUICK)
    source = [{"a": "x", "b": 2, "ts": 2, "v": 5}, {"a": "z", "b": 2, "ts": 2, "v": 6}]
    result = table.merge(source, ["a", "b"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert counts(result) == (1, 1, 0)
    found = table.scan(columns=["a", "b", "v"], filter="v > 0").to_table().to_pylist()
    assert sorted(map(str, found)) == [str({"a": each["a"], "b": 2, "v": each["v"]}) for each in source]


def test_a_merge_reads_only_what_the_source_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = slices.read_slices

    def noted(context: Any, request: Any) -> Any:
        for split, batch in whole(context, request):
            read.append(split.partition)
            yield split, batch

    monkeypatch.setattr(basic, "read_slices", noted)
    table = make(tmp_path / "t")
    table.merge([row(1, 20)], "t.id = s.id AND t.p = s.p").when_matched_update_all().execute()
    assert read == ["y"]
    read.clear()
    table.update({"v": "'n'"}, "p = 'x'")
    assert read == ["x"]


# -- other writers


def test_a_conflict_makes_a_statement_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.num.retries.on.conflict.failures": "2",
    }
    table = make(tmp_path / "t", options=options)
    begun: list[int] = []
    run = basic.change_rows

    def interrupted(*arguments: Any) -> Any:
        changed = run(*arguments)
        begun.append(1)
        if len(begun) == 1:
            table.upsert([row(1, 15, "other", 5.0)])
        return changed

    monkeypatch.setattr(statements, "change_rows", interrupted)
    result = table.update({"n": "n + 1", "ts": "ts + 10"}, "id = 1")
    assert result.retries == 1
    assert rows_of(table)[1] == row(1, 25, "other", 6.0)


def test_statements_are_refused_without_blocking(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    table = make(tmp_path / "t", options=options, table_type="mor")
    with pytest.raises(ConfigError, match="NON_BLOCKING|non_blocking"):
        table.update({"n": 1}, options={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"})
