"""`update`, `delete_from` and `merge_into`: statements of the core in Spark's processes, classic and Connect."""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError, DuplicateKeyError, SchemaMismatchError, TableNotFoundError
from hudi_py.model.layout import SOURCES
from hudi_py.write.dml.distributed import SpreadSteps
from pyspark_hudi import delete_from, merge_into, update
from pyspark_hudi.types import spark_schema
from tests.support.choice import SEED, cases
from tests.support.merges import COLUMNS, KEYS, Generator, row_of
from tests.unit.write.test_generated_merges import OPTIONS, SCHEMA

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
TASKS = {**QUIET, "hoodie.py.local.max.bytes": "0"}
"""However small a statement is, Spark's tasks run it."""


def make(path: str, kind: str = "mor") -> None:
    rows = [{"id": n, "p": "ab"[n % 2], "ts": 1, "v": n * 1.5, "d": Decimal("10.50")} for n in range(6)]
    hudi_py.write(path, rows, "upsert", QUIET, record_key="id", partition_by="p", ordering_by="ts", table_type=kind)


def values(path: str) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in hudi_py.open_table(path).scan(["id", "v"]).to_table().to_pylist()}


@pytest.mark.parametrize("options", [QUIET, TASKS], ids=["process", "tasks"])
def test_update_and_delete(spark: SparkSession, path: str, options: dict[str, str]) -> None:
    make(path)
    done = update(spark, path, {"v": "v + id", "d": Decimal("1.25")}, "p = 'a' AND id > 0", options=options)
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (0, 2, 0)
    assert values(path) == {0: 0.0, 1: 1.5, 2: 5.0, 3: 4.5, 4: 10.0, 5: 7.5}
    history = hudi_py.open_table(path).history().to_pylist()[-1]
    assert (history["instant"], history["operation"]) == (done.instant, "UPSERT_PREPPED")
    assert hudi_py.open_table(path).scan(["d"], "id = 4").to_table().to_pylist() == [{"d": Decimal("1.25")}]
    assert delete_from(spark, path, "id >= 4", options=options).num_deleted == 2
    assert set(values(path)) == {0, 1, 2, 3}


@pytest.mark.parametrize("options", [QUIET, TASKS], ids=["process", "tasks"])
@pytest.mark.connect_first
def test_merge(spark: SparkSession, path: str, options: dict[str, str]) -> None:
    make(path, "cow")
    source = spark.range(4, 12, 1, 3).selectExpr("id", "element_at(array('a', 'b'), CAST(id % 2 AS INT) + 1) AS p")
    source = source.selectExpr("*", "9L AS ts", "id * 10D AS v", "DATE '2026-01-01' AS day")
    merge = merge_into(spark, path, source, "t.id = s.id AND t.p = s.p", options=options)
    merge = merge.when_matched_delete("s.id = 5").when_matched_update({"v": "t.v + s.v", "ts": "s.ts"})
    merge = merge.when_not_matched_insert(
        {"id": "s.id", "p": "s.p", "ts": "s.ts", "v": "s.v", "d": Decimal("20")},
        f"s.day = DATE '{datetime.date(2026, 1, 1)}' AND s.id < 10",
    )
    done = merge.when_not_matched_by_source_delete("t.id = 0").execute()
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (4, 1, 2)
    assert values(path) == {1: 1.5, 2: 3.0, 3: 4.5, 4: 46.0, 6: 60.0, 7: 70.0, 8: 80.0, 9: 90.0}
    assert not os.listdir(Path(path, SOURCES))
    inserted = hudi_py.open_table(path).scan(["d"], "id = 9").to_table().to_pylist()
    assert inserted == [{"d": Decimal("20.00")}]


@pytest.mark.slow
def test_merges_where_keys_are_generated(spark: SparkSession, path: str) -> None:
    rows = [{"id": at % 50, "p": "ab"[at % 2], "v": float(at)} for at in range(100)]
    hudi_py.write(path, rows, "insert", QUIET, partition_by="p", table_type="cow")
    source = spark.range(20, 120, 1, 4).selectExpr("id", "'a' AS p", "1000D AS v")
    merge = merge_into(spark, path, source, "t.id = s.id", options=TASKS)
    merge = merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert_all()
    done = merge.when_not_matched_by_source_delete("t.id < 5").execute()
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (70, 60, 10)
    found = hudi_py.open_table(path).scan().to_table()
    assert len(found["_hoodie_record_key"].unique()) == found.num_rows == 160
    kept = [row["v"] + 1000 * (row["id"] >= 20) for row in rows if row["id"] >= 5]
    assert sorted(found["v"].to_pylist()) == sorted([*kept, *[1000.0] * 70])
    merge = merge_into(spark, path, spark.sql("SELECT 1099D AS least"), "t.v > s.least", options=TASKS)
    assert merge.when_matched_delete().execute().num_deleted == 0
    merge = merge_into(spark, path, spark.sql("SELECT 1098.5D AS least"), "t.v > s.least", options=TASKS)
    assert merge.when_matched_delete().execute().num_deleted == 1


def test_refusals_are_those_of_the_core(spark: SparkSession, path: str) -> None:
    with pytest.raises(TableNotFoundError, match="Cannot delete the table at .*: there is no table"):
        delete_from(spark, path, "id = 1")
    make(path)
    before = hudi_py.open_table(path).history().to_pylist()
    with pytest.raises(ConfigError, match="disallowed assignment clause in UPDATE statement for record key field 'id'"):
        update(spark, path, {"id": 3})
    with pytest.raises(SchemaMismatchError, match="Cannot set the column 'w', which the table lacks"):
        update(spark, path, {"w": 3})
    with pytest.raises(ConfigError, match="with the filter None; supported: a condition as text"):
        delete_from(spark, path, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is of type object; supported: None"):
        update(spark, path, {"v": object()})
    twice = spark.createDataFrame([(1, 2.0), (1, 3.0)], "id long, v double")
    with pytest.raises(ConfigError, match="required to match on all record key columns"):
        merge_into(spark, path, twice, "t.p = 'a'").when_matched_delete().execute()
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        merge_into(spark, path, twice, "id").when_matched_update({"v": "s.v"}).execute()
    in_tasks = merge_into(spark, path, twice, "id", options=TASKS).when_matched_update({"v": "s.v"})
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        in_tasks.execute()
    assert hudi_py.open_table(path).history().to_pylist() == before
    assert not os.listdir(Path(path, SOURCES))


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), cases(product((6, 9), ("cow", "mor")), "merges in tasks", 1))
def test_generated_merges_in_tasks(spark: SparkSession, path: str, version: int, kind: str) -> None:
    rnd = random.Random(f"{SEED} {version} {kind}")
    options = {**OPTIONS, "hoodie.index.type": rnd.choice(["SIMPLE", "BUCKET"]), "hoodie.bucket.index.num.buckets": "2"}
    model = {key: row_of(rnd, key, 10) for key in rnd.sample(KEYS, 20)}
    rows = pa.Table.from_pylist(list(model.values()), SCHEMA)
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    hudi_py.write(path, rows, "upsert", options, **keys, table_type=kind, table_version=version)
    generator = Generator(rnd, late=kind == "cow")
    for number in range(3):
        merge = generator.merge(11 + number)
        frame = spark.createDataFrame([[row[name] for name in COLUMNS] for row in merge.source], spark_schema(SCHEMA))
        merge.by(merge_into(spark, path, frame.repartition(2), merge.on, options={**options, **TASKS}))
        model = merge.apply(model, ordered=True)
        table = hudi_py.open_table(path).scan(columns=COLUMNS).to_table()
        assert {row["id"]: row for row in table.to_pylist()} == model, merge.sql()
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.slow
@pytest.mark.classic_only
def test_a_task_that_fails_once_runs_again(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)
    marker, steps = str(tmp_path / "marker"), SpreadSteps.merge

    def failing(self: SpreadSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from steps(self, batches)
        try:
            os.remove(marker)
        except FileNotFoundError:
            return
        raise ValueError("once")

    monkeypatch.setattr(SpreadSteps, "merge", failing)
    Path(marker).touch()
    frame = spark.range(4, 8).selectExpr(
        "id", "element_at(array('a', 'b'), CAST(id % 2 AS INT) + 1) AS p", "9L ts", "0D v"
    )
    merge = merge_into(spark, path, frame, "t.id = s.id AND t.p = s.p", options=TASKS)
    done = (
        merge.when_matched_update({"v": "s.v"})
        .when_not_matched_insert({"id": "s.id", "p": "s.p", "ts": "s.ts", "v": "s.v"})
        .execute()
    )
    assert not os.path.exists(marker)
    assert (done.num_inserted, done.num_updated) == (2, 2)
    assert values(path) == {0: 0.0, 1: 1.5, 2: 3.0, 3: 4.5, 4: 0.0, 5: 0.0, 6: 0.0, 7: 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("options", [QUIET, TASKS], ids=["process", "tasks"])
def test_the_rules_of_merges(spark: SparkSession, path: str, options: dict[str, str]) -> None:
    """Several rows of the source, moves to other partitions, and what ON says besides the key, as in the core."""
    index = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    rows = [{"id": n, "p": "ab"[n % 2], "ts": 10, "v": float(n), "name": f"n{n}"} for n in range(8)]
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
    hudi_py.write(path, rows, "upsert", {**QUIET, **index}, **keys)
    own = {**options, **index}

    def merge(source: str, on: str) -> Any:
        return merge_into(spark, path, spark.sql(source).repartition(3), on, options=own)

    columns = "AS r(id, p, ts, v, name)"
    done = merge(
        "SELECT * FROM VALUES (0L, 'c', 20L, 1D, 'moved'), (0L, 'b', 15L, 2D, 'older'), (1L, 'b', 20L, 3D, 'stays'), "
        f"(2L, 'd', 5L, 4D, 'late'), (8L, 'a', 1L, 5D, 'first'), (8L, 'b', 2L, 6D, 'newest') {columns}",
        "id",
    )
    done = done.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (1, 3, 0)
    done = merge(
        f"SELECT * FROM VALUES (3L, 'b', 9L, 1D, 'x'), (4L, 'a', 11L, 1D, 'x'), (4L, 'a', 9L, 2D, 'y') {columns}", "id"
    )
    assert done.when_matched_delete().execute().num_deleted == 1
    done = merge(
        "SELECT * FROM VALUES (5L, 'b', 20L, 50D, 'n5'), (6L, 'a', 20L, 60D, 'other'), "
        f"(7L, 'b', 20L, 70D, 'z') {columns}",
        "CAST(t.id AS STRING) = CAST(s.id AS STRING) AND t.name = s.name",
    )
    done = done.when_matched_update({"v": "s.v", "ts": "s.ts"}).when_not_matched_insert_all("s.id <> 7").execute()
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (0, 2, 0)
    shown = ["id", "p", "v", "name", "_hoodie_partition_path"]
    found = hudi_py.open_table(path).scan(shown).to_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (0, "c", 1.0, "moved", "c"),
        (1, "b", 3.0, "stays", "b"),
        (2, "a", 2.0, "n2", "a"),
        (3, "b", 3.0, "n3", "b"),
        (5, "b", 50.0, "n5", "b"),
        (6, "a", 60.0, "n6", "a"),
        (7, "b", 7.0, "n7", "b"),
        (8, "b", 6.0, "newest", "b"),
    ]
    assert hudi_py.open_table(path).metadata.verify().ok
