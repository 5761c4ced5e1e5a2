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
def test_ordering_values_count_for_updates_but_not_for_deletes(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", table_type=kind)
    table.update({"v": "'low'", "ts": "ts - 1"}, "id = 1")
    table.merge([row(2, 1, "low")], "id").when_matched_update_all().execute()
    assert rows_of(table)[1]["v"] == "v1"
    assert rows_of(table)[2]["v"] == "v2"
    table.merge([row(2, 1)], "id").when_matched_delete().execute()
    assert 2 not in rows_of(table)


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
        ({"v": "substring(v, 2)"}, "supported are", ConfigError),
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
        run_statement(open_storage(tmp_path / "no"), Delete("true"), write_options())


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
        ("t.v = s.v", "required to match on all record key columns, and column 'id'"),
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


def test_several_rows_of_the_source_for_one_row(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    both = [row(1, 20, "a"), row(1, 30, "b")]
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        table.merge(both, "id").when_matched_update_all().execute()
    table.merge(both, "id").when_matched_update_all("s.v = 'a'").execute()  # the other one changes nothing
    assert rows_of(table)[1] == row(1, 20, "a")
    assert table.merge(both, "id").when_matched_delete().execute().num_deleted == 1
    # of new rows with one key the newest stays, as with Apache Hudi
    assert table.merge(both, "id").when_not_matched_insert_all().execute().num_inserted == 1
    assert rows_of(table)[1] == row(1, 30, "b")


def test_several_new_rows_without_ordering_fields(tmp_path: Path) -> None:
    table = make(tmp_path / "t", ordering_by=None)
    with pytest.raises(DuplicateKeyError, match="would insert the key '9'"):
        table.merge([row(9), row(9)], "id").when_not_matched_insert_all().execute()


def test_a_row_that_only_a_condition_keeps_from_matching_is_not_inserted_again(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    builder = table.merge([row(1, 20), row(9, 20)], "t.id = s.id AND t.v = 'other'").when_not_matched_insert_all()
    with pytest.raises(DuplicateKeyError, match="key '1' is not matched by ON"):
        builder.execute()
    assert sorted(rows_of(table)) == [1, 2, 3, 4, 5, 6]


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
    run = basic.run_bound

    def interrupted(*arguments: Any) -> Any:
        changed = run(*arguments)
        begun.append(1)
        if len(begun) == 1:
            table.upsert([row(1, 15, "other", 5.0)])
        return changed

    monkeypatch.setattr(statements, "run_bound", interrupted)
    result = table.update({"n": "n + 1", "ts": "ts + 10"}, "id = 1")
    assert result.retries == 1
    assert rows_of(table)[1] == row(1, 25, "other", 6.0)


def test_statements_are_refused_without_blocking(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    table = make(tmp_path / "t", options=options, table_type="mor")
    with pytest.raises(ConfigError, match="NON_BLOCKING|non_blocking"):
        table.update({"n": 1}, options={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"})
