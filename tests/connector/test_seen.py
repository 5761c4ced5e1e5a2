"""Statements and writes of rows that Spark has read of the same table, beside another writer, classic and Connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConflictError
from pyspark_hudi import merge_into, read_table, seen, sql, write_table

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIMISTIC = {
    **QUIET,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
STATEMENTS = {
    "update": "UPDATE {t} SET n = n + bit_count(1)",
    "delete": "DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t} WHERE n = 0)",
    "merge": "MERGE INTO {t} AS t USING (SELECT id, n + 1 AS n FROM {t}) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET n = s.n",
    "overwrite": "INSERT OVERWRITE {t} SELECT id, n + 1 FROM {t}",
}
ONCE = {"update": {1: 2, 2: 2}, "delete": {1: 1, 2: 1}, "merge": {1: 2, 2: 2}, "overwrite": {1: 2, 2: 2}}
"""The rows where another writer has set all of them to 1 before the statement was evaluated."""


def make(path: str, options: dict[str, str] = QUIET) -> None:
    hudi_py.write(path, [{"id": 1, "n": 0}, {"id": 2, "n": 0}], "upsert", options, record_key="id")


def values(path: str) -> dict[int, int]:
    return {row["id"]: row["n"] for row in hudi_py.open_table(path).scan(["id", "n"]).to_table().to_pylist()}


@pytest.fixture
def beside(path: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets another writer commit after the rows of the next write were read."""

    def armed() -> None:
        original, waits = seen.seen_in, [True]

        def seen_in(frame: DataFrame, where: str) -> Any:
            found = original(frame, where)
            if waits and waits.pop():
                hudi_py.open_table(path).upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}], options=OPTIMISTIC)
            return found

        monkeypatch.setattr(seen, "seen_in", seen_in)

    return armed


@pytest.mark.parametrize("kind", STATEMENTS)
def test_statements_are_evaluated_again(spark: SparkSession, path: str, beside: Any, kind: str) -> None:
    make(path)
    beside()
    for key, value in {**OPTIMISTIC, RETRIES: "3"}.items():
        spark.conf.set(key, value)
    try:
        sql(spark, STATEMENTS[kind].format(t=f"hudi.`{path}`"))
    finally:
        for key in (*OPTIMISTIC, RETRIES):
            spark.conf.unset(key)
    assert values(path) == ONCE[kind]


def test_without_retries_it_is_a_conflict(spark: SparkSession, path: str, beside: Any) -> None:
    """Also with one writer at a time, and in the ways from Python, whose rows nobody else can read again."""
    make(path)
    for write in (
        lambda: sql(spark, STATEMENTS["update"].format(t=f"hudi.`{path}`")),
        lambda: write_table(read_table(spark, path).selectExpr("id", "n + 1 AS n"), path, options=QUIET),
        lambda: (
            merge_into(spark, path, read_table(spark, path).selectExpr("id", "n + 1 AS n"), "id", options=QUIET)
            .when_matched_update_all()
            .execute()
        ),
    ):
        beside()
        with pytest.raises(ConflictError, match=r"since its rows were read the .* changed the file group"):
            write()
        assert values(path) == {1: 1, 2: 1}
    rows = read_table(spark, path).selectExpr("id", "n + 1 AS n")
    rows.createOrReplaceTempView("held")
    try:
        joined = rows.alias("a").join(spark.table("held").alias("b"), "id").selectExpr("id", "a.n + b.n AS n")
        pins = {seen.seen_in(each, path + "/") for each in (rows, joined, rows.where("n < (SELECT max(n) FROM held)"))}
        assert len(pins) == 1
        assert pins != {None}
        assert seen.seen_in(spark.range(1), path) is None
        assert seen.seen_in(rows, path + "x") is None
        write_table(joined, path, options=QUIET)
    finally:
        spark.catalog.dropTempView("held")
    assert values(path) == {1: 4, 2: 4}
