"""Tables in S3 through Spark, classic and Connect, and what a run leaves behind of the credentials.

Classic and Connect sessions do not share a process: one test starts a second pytest for Connect.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from tests.stores.servers import KEY, REGION, SECRET, Server
from tests.stores.test_tables import found

pytestmark = pytest.mark.spark
pyspark = pytest.importorskip("pyspark")
CONNECT = os.environ.get("HUDI_PY_SPARK") == "connect"
ROOT = Path(__file__).parents[2]


def provided() -> dict[str, object]:
    """A provider of credentials, called in each worker."""
    return {"access_key_id": KEY, "secret_access_key": SECRET, "token": None, "expires_at": None}


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Spark's event log and of the log of its JVM."""
    return tmp_path_factory.mktemp("left-behind")


@pytest.fixture(scope="module")
def spark(left_behind: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from tests.connector.conftest import connect_port

    (left_behind / "events").mkdir()
    (left_behind / "log4j2.properties").write_text(
        f"rootLogger.level = info\nrootLogger.appenderRef.file.ref = file\nappender.file.type = File\n"
        f"appender.file.name = file\nappender.file.fileName = {left_behind}/jvm.log\n"
        "appender.file.layout.type = PatternLayout\nappender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{left_behind}/events",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={left_behind}/log4j2.properties",
    }
    builder: Any = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # workers import this module
        if CONNECT:
            from pyspark.sql.connect.client.core import DefaultChannelBuilder

            settings["spark.connect.grpc.binding.port"] = "0"
            environment.setattr(DefaultChannelBuilder, "default_port", staticmethod(connect_port))
        for key, value in settings.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings():
            # A Connect client sets all of them once more at the server it started
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
            session = builder.getOrCreate()
        yield session
        session.stop()


def options_of(s3: Server, kind: str, **storage: str) -> dict[str, str]:
    return {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        **{f"storage.{key}": value for key, value in storage.items()},
        "storage.endpoint": s3.url,
        "storage.region": REGION,
        "storage.allow_http": "true",
    }


def of_storage(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key.startswith("storage.")}


def write(spark: Any, path: str, options: dict[str, str], keys: range, ts: int) -> None:
    rows = spark.createDataFrame([(f"k{key}", ts, "ab"[key % 2]) for key in keys], "id string, ts long, city string")
    rows.write.format("hudi-py").options(**options).mode("append").save(path)


@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.nightly), "MERGE_ON_READ"])
def test_a_table_is_written_and_read(s3: Server, bucket: str, spark: Any, kind: str) -> None:
    path = f"{bucket}/t"
    options = options_of(s3, kind, credential_provider="tests.stores.test_spark:provided")
    write(spark, path, options, range(12), 1)
    write(spark, path, options, range(8, 16), 2)
    expected = {f"k{key}": 1 if key < 8 else 2 for key in range(16)}
    assert found(hudi_py.open_table(path, storage_options=s3.options)) == expected
    read = spark.read.format("hudi-py").options(**of_storage(options)).load(path)
    assert {row["id"]: row["ts"] for row in read.collect()} == expected
    assert read.where("city = 'a' and ts = 2").count() == 4
    with pytest.raises(Exception, match="not supported through Spark: writes and services run in several processes"):
        write(spark, path, {**options, "hoodie.write.lock.provider": "InProcessLockProvider"}, range(1), 3)
    assert hudi_py.open_table(path, storage_options=s3.options).locks.holders() == []


def test_keys_among_the_options_are_not_left_behind(
    s3: Server,
    bucket: str,
    spark: Any,
    left_behind: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """They are in what Spark pickles for its tasks, and in the event log of a Connect server."""
    from pyspark_hudi import run_service

    path = f"{bucket}/t"
    keys = {"secret.aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    options = options_of(s3, "MERGE_ON_READ", **keys)
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG, "hudi_py"):
        write(spark, path, options, range(12), 1)
        write(spark, path, options, range(8, 16), 2)
        storage = of_storage(options)
        cleaning = {**storage, "hoodie.clean.commits.retained": "1"}
        shown.append(repr(run_service(spark, path, "compaction", options=storage)))
        shown.append(repr(run_service(spark, path, "clean", options=cleaning)))
        read = spark.read.format("hudi-py").options(**storage).load(path)
        assert {row["id"]: row["ts"] for row in read.collect()} == {f"k{key}": 1 if key < 8 else 2 for key in range(16)}
        read.createOrReplaceTempView("trips")
        joined = spark.sql("SELECT a.id FROM trips a JOIN trips b ON a.id = b.id WHERE a.ts = 2")
        assert joined.count() == 8
        shown.append(repr(read))
        for mode in ("extended", "formatted", "codegen", "cost"):
            read.where("ts = 2").explain(mode)
        nobody = {"storage.endpoint": "http://127.0.0.1:1", "storage.max_retries": "0"}
        for wrong in ({"filter": "no_such = 1"}, {"storage.no_such_option": SECRET}, nobody):
            with pytest.raises(Exception) as caught:
                spark.read.format("hudi-py").options(**{**storage, **wrong}).load(path).collect()
            shown.append("".join(traceback.format_exception(caught.value)))
        with pytest.raises(Exception) as caught:
            write(spark, path, {**options, "hoodie.no.such.option": "1"}, range(1), 3)
        shown.append("".join(traceback.format_exception(caught.value)))
    out, err = capfd.readouterr()
    assert "== Physical Plan ==" in out
    files = {str(file): file.read_bytes() for file in left_behind.rglob("*") if file.is_file()}
    events = [name for name in files if "/events/" in name]
    assert any(b"SparkListenerSQLExecutionStart" in files[name] for name in events)
    assert len(files[f"{left_behind}/jvm.log"]) > 1000
    client = s3.client("s3")
    for entry in client.list_objects_v2(Bucket=bucket.removeprefix("s3://"))["Contents"]:
        body = client.get_object(Bucket=bucket.removeprefix("s3://"), Key=entry["Key"])["Body"]
        files[entry["Key"]] = body.read()
    client.close()
    for secret in (SECRET, KEY):
        assert [text for text in (out, err, caplog.text, *shown) if secret in text] == []
        left = [name for name, data in files.items() if secret.encode() in data]
        # The server of Connect writes requests into its event log, options included: docs/object-stores.md says so
        assert [name for name in left if not (CONNECT and name in events)] == []


@pytest.mark.slow
@pytest.mark.skipif(CONNECT, reason="this is the Connect process")
@pytest.mark.parametrize(("chosen", "count"), [("left", 1), pytest.param("written", 2, marks=pytest.mark.nightly)])
def test_through_spark_connect(chosen: str, count: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "HUDI_PY_SPARK": "connect"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{count} passed" in done.stdout
