"""Spark's writes, services and statements publish to Iceberg as options ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_hudi import run_service, sql
from tests.support.iceberg import assert_published, metadata

pytest.importorskip("pyiceberg")

ENABLED = {"hoodie.py.iceberg.enable": "true"}
OPTIONS = {
    **ENABLED,
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


@pytest.mark.slow
def test_published_after_writes_services_and_statements(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for ts in (1, 2):
        rows = spark.createDataFrame([(n, ts, n * 1.5) for n in range(5 - ts)], "id long, ts long, v double")
        rows.write.format("hudi-py").options(**OPTIONS).mode("append").save(path)
        assert_published(path)
    assert run_service(spark, path, "compaction", options=ENABLED)["instant"] is not None
    assert metadata(path)["snapshots"][-1]["summary"]["total-delete-files"] == "0"
    sql(spark, "SET hoodie.py.iceberg.enable = true")
    sql(spark, f"ALTER TABLE hudi.`{path}` ADD COLUMNS (note STRING)")
    sql(spark, "RESET hoodie.py.iceberg.enable")
    assert "note" in assert_published(path).column_names
