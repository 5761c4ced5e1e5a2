"""Iceberg's runtime for Spark reads what was published as hudi-py and Apache Hudi read the table."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.interop.iceberg import publish
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.test_iceberg import PUBLISHED, options
from tests.oracle import environment
from tests.oracle.client import Oracle
from tests.support.choice import SEED

pytestmark = pytest.mark.filterwarnings("ignore:Rows are missing or old")

RELEASE = "1.10.0"
ARTIFACT = "iceberg-spark-runtime-3.5_2.12"
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
jar, tables = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
for path, out in tables.items():
    spark.read.format("iceberg").load(path).coalesce(1).write.parquet(out)
"""


def runtime() -> Path:
    """Iceberg's runtime for the oracle's Spark, fetched once by its Maven coordinates."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudi-py" / "iceberg"
    jar = cache / f"{ARTIFACT}-{RELEASE}.jar"
    if jar.exists():
        return jar
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as part:
        coordinates = f"org.apache.iceberg:{ARTIFACT}:{RELEASE}"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={part}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            why = done.stderr or done.stdout
        except OSError as error:
            why = str(error)
        made = Path(part) / jar.name
        if not made.exists():
            told = f"{coordinates} cannot be fetched: {why.strip()[-400:]}"
            if os.environ.get("CI"):
                pytest.fail(told)
            pytest.skip(told)
        made.rename(jar)
    return jar


def read_by_spark(paths: Sequence[Path], out: Path) -> Mapping[Path, pa.Table]:
    """The rows of some Iceberg tables by their folders."""
    tables = {str(path): f"{out}/{at}" for at, path in enumerate(paths)}
    command = [str(environment.python()), "-c", SCRIPT, str(runtime()), json.dumps(tables)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {Path(path): pq.read_table(place) for path, place in tables.items()}


@pytest.mark.slow
def test_spark_reads_the_same_rows(golden_copy: Callable[[str], Path], oracle: Oracle, tmp_path: Path) -> None:
    tables: dict[Path, hudi_py.Table] = {}
    for name in {"v9_mor_all_types", *random.Random(SEED).sample(PUBLISHED, 2)}:
        path = golden_copy(name)
        tables[path] = hudi_py.open_table(path, options(name))
        publish(tables[path])
    ours = tmp_path / "ours"
    rows = [{"id": n, "ts": 1, "city": ["oslo", "lima"][n % 2], "v": n * 1.5} for n in range(20)]
    enabled = {"hoodie.py.iceberg.enable": "true"}
    hudi_py.write(ours, rows, options=enabled, record_key="id", ordering_by="ts", partition_by="city", table_type="mor")
    tables[ours] = hudi_py.open_table(ours, enabled)
    tables[ours].upsert([{**row, "ts": 2} for row in rows[:3]])
    tables[ours].delete("id = 7")
    # what lies beside a table is nothing to Apache Hudi, which goes on to write
    assert_rows_equal(oracle.read(ours), tables[ours].scan().to_table())
    assert oracle.check(ours)["problems"] == []
    oracle.write(ours, pa.Table.from_pylist([{"id": 8, "ts": 5, "city": "oslo", "v": 0.5}]), operation="upsert")
    publish(ours)
    for path, found in read_by_spark(list(tables), tmp_path / "out").items():
        assert_rows_equal(found, tables[path].scan().to_table(), ignore=())
