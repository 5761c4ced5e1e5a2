"""Spark's writes, services and statements report to HTTP services and metrics gateways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_hudi import run_service, sql
from tests.support.answering import Handler, listening

pytest.importorskip("prometheus_client")


@pytest.fixture
def service() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Takes whatever comes: path and body."""
    got: list[tuple[str, str]] = []

    class Taking(Handler):
        def respond(self) -> None:
            got.append((self.path, self.body().decode()))
            self.answer(202)

    with listening(Taking) as url:
        yield url, got


@pytest.mark.slow
def test_told_after_writes_services_and_statements(
    spark: Any, tmp_path: Path, service: tuple[str, list[tuple[str, str]]]
) -> None:
    url, got = service
    path = str(tmp_path / "t")
    telling = {
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.http.url": f"{url}/hook",
        "hoodie.write.commit.callback.http.api.key": "hush-key",
        "hoodie.metrics.on": "true",
        "hoodie.metrics.reporter.type": "PROMETHEUS_PUSHGATEWAY",
        "hoodie.metrics.pushgateway.host": "127.0.0.1",
        "hoodie.metrics.pushgateway.port": url.rpartition(":")[2],
        "hoodie.metrics.pushgateway.job.name": "job",
        "hoodie.metrics.pushgateway.random.job.name.suffix": "false",
        "hoodie.metrics.pushgateway.delete.on.shutdown": "false",
    }
    first = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    }

    def heard() -> tuple[list[str], str]:
        """Since the last call: the commits in messages, and what was pushed."""
        commits = [json.loads(body)["commitTime"] for place, body in got if place == "/hook"]
        pushed = "".join(body for place, body in got if place == "/metrics/job/job")
        got.clear()
        return commits, pushed

    for ts in (1, 2):
        rows = spark.createDataFrame([(n, ts, n * 1.5) for n in range(5 - ts)], "id long, ts long, v double")
        rows.write.format("hudi-py").options(**telling, **first).mode("append").save(path)
        commits, pushed = heard()
        assert len(commits) == 1
        assert f"\nt_deltacommit_totalRecordsWritten {5 - ts}.0\n" in pushed
    assert run_service(spark, path, "compaction", options=telling)["instant"] is not None
    commits, pushed = heard()
    assert commits == []
    assert "\nt_compaction_totalLogFilesCompacted 1.0\n" in pushed
    for key, value in telling.items():
        sql(spark, f"SET {key} = {value}")
    sql(spark, f"UPDATE hudi.`{path}` SET v = 0 WHERE id = 1")
    commits, pushed = heard()
    for key in telling:
        sql(spark, f"RESET {key}")
    assert len(commits) == 1
    assert "\nt_deltacommit_totalUpdateRecordsWritten 1.0\n" in pushed
    left = "".join(file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file())
    assert "hush" not in left
