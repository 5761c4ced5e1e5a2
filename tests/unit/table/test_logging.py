"""What a write, a scan and a service log, and what they do not."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import hudi_py

ROWS = [{"id": "key-a", "ts": 1, "city": "oslo", "fare": 1.5}, {"id": "key-b", "ts": 1, "city": "lima", "fare": 2.5}]


def messages(caplog: pytest.LogCaptureFixture, level: int, package: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and record.name.startswith(package + ".")
    ]


def test_a_write_tells_its_beginning_its_files_and_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "t")
    with caplog.at_level(logging.DEBUG, "hudi_py"):
        result = hudi_py.write(path, ROWS, record_key="id", ordering_by="ts", partition_by="city")
    begins, committed = messages(caplog, logging.INFO, "hudi_py.transaction")
    assert begins == f"the write {result.instant} of file://{path} begins: UPSERT"
    assert committed.startswith(
        f"the write {result.instant} of file://{path} is committed: UPSERT, 2 inserted, 0 updated,"
    )
    assert "0 deleted, 2 files in 2 partitions, " in committed
    debug = messages(caplog, logging.DEBUG, "hudi_py.transaction")
    assert sum(f"the write {result.instant} has " in message for message in debug) == 2
    locked = [message for message in debug if message.startswith(f"locked file://{path} after ")]
    assert [message.rpartition(", to ")[2] for message in locked] == [
        "begin a write",
        f"commit the write {result.instant}",
    ]
    assert f"recorded {result.instant} in the metadata table: column_stats, files, partition_stats" in caplog.messages


def test_a_scan_tells_its_plan_and_not_what_it_looks_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, ROWS, record_key="id", ordering_by="ts", partition_by="city")
    table = hudi_py.open_table(path)
    with caplog.at_level(logging.DEBUG, "hudi_py"):
        assert table.scan(filter="city = 'oslo' AND fare > 0.125", keys=["key-a"]).count() == 1
    (planned,) = messages(caplog, logging.INFO, "hudi_py.read")
    assert planned.startswith(f"scan of file://{path} (snapshot, pinned at ")
    assert "): 1 of 2 partitions, 1 split, " in planned
    assert ", listed by metadata table, planned in " in planned
    assert f"scan of file://{path}: partition path: 2 -> 1 partitions" in messages(
        caplog, logging.DEBUG, "hudi_py.read"
    )
    assert not [message for message in caplog.messages if "0.125" in message or "key-a" in message]


def test_a_service_tells_its_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, ROWS, record_key="id", ordering_by="ts", table_type="mor")
    table = hudi_py.open_table(path)
    table.upsert([{**ROWS[0], "ts": 2}])
    with caplog.at_level(logging.INFO, "hudi_py"):
        report = table.compact()
        rolled = table.rollback(str(report.instant))
    told = messages(caplog, logging.INFO, "hudi_py.services")
    assert told == [f"file://{path}: compaction {report.instant} begins: 1 task", f"file://{path}: {report}"]
    undone = messages(caplog, logging.INFO, "hudi_py.transaction")
    assert undone == [f"rolling back the commit {report.instant} of file://{path}, as rollback {rolled.instant}"]


def test_a_write_that_fails_tells_that_it_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")

    def failing(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(sys.modules["hudi_py.write.api"], "run_operation", failing)
    with caplog.at_level(logging.INFO, "hudi_py"), pytest.raises(OSError, match="full"):
        hudi_py.write(path, ROWS, record_key="id", ordering_by="ts")
    begins, given_up, rolled = messages(caplog, logging.INFO, "hudi_py.transaction")
    instant = begins.split()[2]
    assert given_up == f"the write {instant} of file://{path} is given up"
    assert rolled.startswith(f"rolling back the commit {instant} of file://{path}, as rollback ")


def test_importing_the_package_installs_no_handler() -> None:
    code = "import hudi_py, logging; hudi_py.write; print(logging.getLogger('hudi_py').handlers, logging.root.handlers)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[] []\n"
