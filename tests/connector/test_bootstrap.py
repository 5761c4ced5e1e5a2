"""Bootstraps through Spark: `df.write` and CALL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_hudi import sql
from tests.support.sources import contents, source


@pytest.mark.slow
def test_a_bootstrap_by_df_write_and_by_call(spark: SparkSession, tmp_path: Path) -> None:
    folder = source(tmp_path / "source", "hive")
    before = contents(folder)
    given = {
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.bootstrap.base.path": str(folder),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    }
    empty = spark.createDataFrame([], "id string")
    one = spark.createDataFrame([("x",)], "id string")
    with pytest.raises(Exception, match="write an empty DataFrame"):
        one.write.format("hudi-py").options(**given).mode("append").save(str(tmp_path / "t"))
    empty.write.format("hudi-py").options(**given).mode("append").save(str(tmp_path / "t"))
    with pytest.raises(Exception, match="there is one already"):
        empty.write.format("hudi-py").options(**given).mode("overwrite").save(str(tmp_path / "t"))
    done = sql(
        spark,
        f"CALL run_bootstrap(table => 'u', table_type => 'MERGE_ON_READ', bootstrap_path => '{folder}', "
        f"base_path => '{tmp_path / 'u'}', rowKey_field => 'id', partition_path_field => 'city', "
        "options => 'hoodie.datasource.write.precombine.field=ts')",
    )
    assert [tuple(row) for row in done.collect()] == [(0,)]
    expected = [(f"k{number}", number) for number in range(12)]
    for name in ("t", "u"):
        frame = spark.read.format("hudi-py").load(str(tmp_path / name))
        assert sorted(map(tuple, frame.select("id", "n").collect())) == sorted(expected)
    changed = spark.createDataFrame([("k3", 100, 9, "oslo")], "id string, n bigint, ts bigint, city string")
    changed.write.format("hudi-py").mode("append").save(str(tmp_path / "u"))
    found = spark.read.format("hudi-py").load(str(tmp_path / "u")).where("n = 100 or id = 'k8'")
    assert sorted(map(tuple, found.select("id", "n", "city").collect())) == [("k3", 100, "oslo"), ("k8", 8, "rome")]
    shown = sql(spark, f"CALL show_bootstrap_mapping(path => '{tmp_path / 'u'}')").collect()
    assert [row["source_partition"] for row in shown] == ["city=oslo", "city=rome"]
    assert contents(folder) == before
