"""Spark reads and writes tables on an S3 server: credentials reach the workers by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from tests.stores.servers import KEY, REGION, SECRET, Server
from tests.stores.test_tables import found

pytestmark = pytest.mark.spark
pyspark = pytest.importorskip("pyspark")


def provided() -> dict[str, object]:
    """A provider of credentials, called in each worker."""
    return {"access_key_id": KEY, "secret_access_key": SECRET, "token": None, "expires_at": None}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    # Workers import this module
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), before)))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()
    os.environ["PYTHONPATH"] = before


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_is_written_and_read(s3: Server, bucket: str, spark: Any, kind: str) -> None:
    path = f"{bucket}/t"
    storage = {
        "storage.credential_provider": "tests.stores.test_spark:provided",
        "storage.endpoint": s3.url,
        "storage.region": REGION,
        "storage.allow_http": "true",
    }
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        **storage,
    }

    def write(keys: range, ts: int, **more: str) -> None:
        rows = spark.createDataFrame(
            [(f"k{key}", ts, "ab"[key % 2]) for key in keys], "id string, ts long, city string"
        )
        rows.write.format("hudi-py").options(**options, **more).mode("append").save(path)

    write(range(12), 1)
    write(range(8, 16), 2)
    expected = {f"k{key}": 1 if key < 8 else 2 for key in range(16)}
    assert found(hudi_py.open_table(path, storage_options=s3.options)) == expected
    read = spark.read.format("hudi-py").options(**storage).load(path)
    assert {row["id"]: row["ts"] for row in read.collect()} == expected
    assert read.where("city = 'a' and ts = 2").count() == 4
    with pytest.raises(Exception, match="not supported through Spark: writes and services run in several processes"):
        write(range(1), 3, **{"hoodie.write.lock.provider": "InProcessLockProvider"})
    assert hudi_py.open_table(path, storage_options=s3.options).locks() == []
