"""What other systems are told after commits: callbacks and metrics."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.interop.callbacks import CommitCallback
from hudi_py.interop.metrics import metric_name, reported
from hudi_py.wiring import after_commit
from tests.support.answering import Handler, listening
from tests.support.catalogs import FAST

CALLBACK = "hoodie.write.commit.callback."
METRICS = "hoodie.metrics."
ROWS = [{"id": 1, "ts": 1, "p": "x"}, {"id": 2, "ts": 1, "p": "y"}]
KEYS = {"record_key": "id", "ordering_by": "ts", "partition_by": "p", "table_type": "mor"}


@pytest.fixture
def service() -> Iterator[tuple[str, list[Any]]]:
    """Takes whatever comes: method, path, headers, body."""
    got: list[Any] = []

    class Taking(Handler):
        def respond(self) -> None:
            got.append((self.command, self.path, dict(self.headers), self.body().decode()))
            self.answer(500 if "fail" in self.path else 202)

    with listening(Taking) as url:
        yield url, got


def calling(url: str, **more: str) -> dict[str, str]:
    return {
        **FAST,
        f"{CALLBACK}on": "true",
        f"{CALLBACK}http.url": url,
        f"{CALLBACK}http.api.key": "hush-key",
        f"{CALLBACK}http.custom.headers": "Team:rides; Pass: hush-pass",
        **{f"{CALLBACK}{name.replace('_', '.')}": value for name, value in more.items()},
    }


@pytest.mark.parametrize("hidden", [False, True])
def test_a_callback(
    tmp_path: Path, service: tuple[str, list[Any]], caplog: pytest.LogCaptureFixture, hidden: bool
) -> None:
    """Members as Jackson writes Apache Hudi 1.2.0's message; tests/oracle compares them."""
    url, got = service
    caplog.set_level(logging.DEBUG)
    options = calling(f"{url}/hook")
    if hidden:
        options |= {f"storage.secret.{key}": options.pop(key) for key in list(options) if ".http.api" in key}
    result = hudi_py.write(tmp_path / "t", ROWS, options=options, **KEYS)
    assert result.services == ("callback",)
    ((method, path, headers, body),) = got
    assert (method, path) == ("POST", "/hook")
    given = {name.lower(): value for name, value in headers.items()}
    assert given["hudi-callback-key"] == "hush-key"
    assert (given["team"], given["pass"]) == ("rides", "hush-pass")
    assert given["content-type"] == "application/json; charset=UTF-8"
    message = json.loads(body)
    assert message["commitTime"] == result.instant
    assert (message["tableName"], message["basePath"]) == ("t", f"file://{tmp_path}/t")
    assert message["commitActionType"] == {"empty": False, "present": True, "value": "deltacommit"}
    assert "schema" in message["extraMetadata"]["value"]
    stats = message["hoodieWriteStat"]
    assert sorted(each["partitionPath"] for each in stats) == ["x", "y"]
    assert {each["numInserts"] for each in stats} == {1}
    written = "".join(file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file())
    assert "hush" not in written + caplog.text


def test_a_callback_shows_no_secret() -> None:
    resolved = Options.resolve(calling("http://host/"), Scope.WRITE)
    (step,) = [each for each in after_commit(resolved) if isinstance(each, CommitCallback)]
    assert "hush" not in repr(resolved) + repr(step) + repr(after_commit(resolved))
    assert pickle.loads(pickle.dumps(step)) == step
    assert b"hush" not in pickle.dumps([step, resolved.without_credentials()])


def test_a_callback_that_fails_is_a_warning(
    tmp_path: Path, service: tuple[str, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    url, _ = service
    result = hudi_py.write(tmp_path / "t", ROWS, options=calling(f"{url}/fail"), **KEYS)
    assert result.services == ()
    assert f"the commit {result.instant} of" in caplog.text
    assert "answered with 500" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({f"{CALLBACK}on": "true"}, "needs hoodie.write.commit.callback.http.url"),
        (calling("host"), "expected http://host or https://host"),
        (calling("http://h", http_custom_headers="hush"), r"http.custom.headers is not valid: expected name:value"),
        (
            calling("http://h", **{"class": "org.apache.hudi.utilities.callback.kafka.X"}),
            "callback.class = .* expected",
        ),
        ({f"{METRICS}on": "true"}, "hoodie.metrics.reporter.type is not set, which in Apache Hudi means GRAPHITE"),
        ({f"{METRICS}on": "true", f"{METRICS}reporter.type": "JMX"}, "'JMX' is not supported: use PROMETHEUS"),
        (
            {f"{METRICS}on": "true", f"{METRICS}reporter.type": "LOG4J"},
            "reporter.type = 'LOG4J' is not valid: expected one of PROMETHEUS_PUSHGATEWAY",
        ),
        (
            {
                f"{METRICS}on": "true",
                f"{METRICS}reporter.type": "CONSOLE",
                f"{METRICS}pushgateway.report.labels": "x",
            },
            "has the label 'x': expected name:value",
        ),
    ],
)
def test_wrong_options_are_refused_before_the_write(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        hudi_py.write(tmp_path / "t", ROWS, options=options, **KEYS)
    assert "hush" not in str(refused.value)
    assert not (tmp_path / "t").exists()


def test_metrics_in_memory(tmp_path: Path) -> None:
    options = {**FAST, f"{METRICS}on": "true", f"{METRICS}reporter.type": "INMEMORY"}
    path = tmp_path / "t"
    hudi_py.write(path, ROWS, options=options, **KEYS)
    assert hudi_py.write(path, ROWS[:1], options=options).services == ("metrics",)
    found = reported(path.as_uri())
    expected = {"totalPartitionsWritten": 1, "totalRecordsWritten": 1, "totalUpdateRecordsWritten": 1}
    assert {name: found[f"t.deltacommit.{name}"] for name in expected} == expected
    assert found["t.deltacommit.totalInsertRecordsWritten"] == 0
    assert found["t.deltacommit.totalBytesWritten"] > 0
    assert found["t.deltacommit.duration"] > 0
    assert found["t.clean.pendingCleanInstantCount"] == 0
    assert "t.compaction.duration" not in found
    table = hudi_py.open_table(path, options)
    report = table.compact()
    found = reported(path.as_uri())
    assert found["t.compaction.totalLogFilesCompacted"] == 1
    assert found["t.commit.latestCompletedCompactionInstant"] == int(report.instant)
    table.rollback(report.instant)
    assert reported(path.as_uri())["t.rollback.numFilesDeleted"] == 1


def test_metrics_printed_and_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    options = {**FAST, f"{METRICS}on": "true", f"{METRICS}reporter.metricsname.prefix": "lake"}
    hudi_py.write(tmp_path / "t", ROWS, options={**options, f"{METRICS}reporter.type": "CONSOLE"}, **KEYS)
    assert "\nlake.deltacommit.totalRecordsWritten = 2\n" in capsys.readouterr().out
    hudi_py.write(tmp_path / "t", ROWS, options={**options, f"{METRICS}reporter.type": "SLF4J"})
    assert "type=GAUGE, name=lake.deltacommit.totalRecordsWritten, value=2" in caplog.text


def test_metrics_pushed(
    tmp_path: Path, service: tuple[str, list[Any]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("prometheus_client")
    url, got = service
    options = {
        **FAST,
        f"{METRICS}on": "true",
        f"{METRICS}reporter.type": "PROMETHEUS_PUSHGATEWAY",
        f"{METRICS}pushgateway.host": "127.0.0.1",
        f"{METRICS}pushgateway.port": url.rpartition(":")[2],
        f"{METRICS}pushgateway.job.name": "job",
        f"{METRICS}pushgateway.random.job.name.suffix": "false",
        f"{METRICS}pushgateway.report.labels": "env:test",
        f"{METRICS}pushgateway.delete.on.shutdown": "false",
    }
    hudi_py.write(tmp_path / "t", ROWS, options=options, **KEYS)
    ((method, path, _, body),) = got
    assert (method, path) == ("POST", "/metrics/job/job/env/test")
    assert "\nt_deltacommit_totalRecordsWritten 2.0\n" in body
    forgotten: list[Any] = []
    monkeypatch.setattr("atexit.register", lambda *call: forgotten.append(call))
    hudi_py.write(tmp_path / "t", ROWS, options={**options, f"{METRICS}pushgateway.delete.on.shutdown": "true"})
    ((forget, *arguments),) = forgotten
    forget(*arguments)
    assert got[-1][:2] == ("DELETE", "/metrics/job/job/env/test")
    unheard = {**options, f"{METRICS}pushgateway.port": "9"}
    assert hudi_py.write(tmp_path / "t", ROWS, options=unheard).services == ()
    assert "could not be reported to PROMETHEUS_PUSHGATEWAY" in caplog.text


def test_metrics_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    started: list[Any] = []
    monkeypatch.setattr(prometheus, "start_http_server", lambda port, registry: started.append(registry))
    monkeypatch.setattr("hudi_py.interop.metrics._served", {})
    options = {
        **FAST,
        f"{METRICS}on": "true",
        f"{METRICS}reporter.type": "PROMETHEUS",
        f"{METRICS}pushgateway.report.labels": "env:test",
    }
    for _ in range(2):
        hudi_py.write(tmp_path / "t", ROWS, options=options, **KEYS)
    (registry,) = started
    assert registry.get_sample_value("t_deltacommit_totalRecordsWritten", {"env": "test"}) == 2


def test_names_for_prometheus() -> None:
    assert metric_name("my-table.commit.duration") == "my_table_commit_duration"
    assert metric_name("1t.x") == "_1t_x"
