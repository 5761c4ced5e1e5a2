"""`update`, `delete_from` and `merge_into`: statements of the core in Spark's processes, classic and Connect."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError, DuplicateKeyError, SchemaMismatchError, TableNotFoundError
from hudi_py.transaction.paths import SOURCES
from pyspark_hudi import delete_from, merge_into, update

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def make(path: str, kind: str = "mor") -> None:
    rows = [{"id": n, "p": "ab"[n % 2], "ts": 1, "v": n * 1.5, "d": Decimal("10.50")} for n in range(6)]
    hudi_py.write(path, rows, "upsert", QUIET, record_key="id", partition_by="p", ordering_by="ts", table_type=kind)


def values(path: str) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in hudi_py.open_table(path).scan(["id", "v"]).to_table().to_pylist()}


def test_update_and_delete(spark: SparkSession, path: str) -> None:
    make(path)
    done = update(spark, path, {"v": "v + id", "d": Decimal("1.25")}, "p = 'a' AND id > 0", options=QUIET)
    assert (done.num_inserted, done.num_updated, done.num_deleted) == (0, 2, 0)
    assert values(path) == {0: 0.0, 1: 1.5, 2: 5.0, 3: 4.5, 4: 10.0, 5: 7.5}
    history = hudi_py.open_table(path).history().to_pylist()[-1]
    assert (history["instant"], history["operation"]) == (done.instant, "UPSERT_PREPPED")
    assert hudi_py.open_table(path).scan(["d"], "id = 4").to_table().to_pylist() == [{"d": Decimal("1.25")}]
    assert delete_from(spark, path, "id >= 4").num_deleted == 2
    assert set(values(path)) == {0, 1, 2, 3}


def test_merge(spark: SparkSession, path: str) -> None:
    make(path, "cow")
    source = spark.range(4, 12, 1, 3).selectExpr("id", "element_at(array('a', 'b'), CAST(id % 2 AS INT) + 1) AS p")
    source = source.selectExpr("*", "9L AS ts", "id * 10D AS v", "DATE '2026-01-01' AS day")
    merge = merge_into(spark, path, source, "t.id = s.id AND t.p = s.p", options=QUIET)
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


def test_refusals_are_those_of_the_core(spark: SparkSession, path: str) -> None:
    with pytest.raises(TableNotFoundError, match="Cannot delete the table at .*: there is none"):
        delete_from(spark, path, "id = 1")
    make(path)
    before = hudi_py.open_table(path).history().to_pylist()
    with pytest.raises(ConfigError, match="disallowed assignment clause in UPDATE statement for record key field 'id'"):
        update(spark, path, {"id": 3})
    with pytest.raises(SchemaMismatchError, match="Cannot set the column 'w', which the table lacks"):
        update(spark, path, {"w": 3})
    with pytest.raises(ConfigError, match="with the filter None; supported is a condition as text"):
        delete_from(spark, path, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is of type object; supported are None"):
        update(spark, path, {"v": object()})
    twice = spark.createDataFrame([(1, 2.0), (1, 3.0)], "id long, v double")
    with pytest.raises(ConfigError, match="required to match on all record key columns"):
        merge_into(spark, path, twice, "t.p = 'a'").when_matched_delete().execute()
    with pytest.raises(DuplicateKeyError, match="several rows of the source match the row with the key '1'"):
        merge_into(spark, path, twice, "id").when_matched_update({"v": "s.v"}).execute()
    large = merge_into(spark, path, twice, "id", options={"hoodie.py.staging.max.bytes": "10"}).when_matched_delete()
    with pytest.raises(ConfigError, match="its source takes more than 10 bytes"):
        large.execute()
    assert hudi_py.open_table(path).history().to_pylist() == before
    assert not os.listdir(Path(path, SOURCES))
