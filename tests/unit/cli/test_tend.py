"""`tend`: what it prints, its exit codes, and its end by a signal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hudi_py
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import update_table_config
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.settings import LockSettings
from tests.unit.cli.conftest import Run

DUE = ("-o", "hoodie.compact.inline.max.delta.commits=2")
QUICK = ("-o", "hoodie.write.lock.wait_time_ms=1", "-o", "hoodie.write.lock.client.num_retries=0")


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    """Two tables, one of which cannot be read."""
    shutil.copytree(made, tmp_path / "lake" / "trips")
    shutil.copytree(made, tmp_path / "lake" / "broken")
    (tmp_path / "lake" / "broken" / ".hoodie" / "hoodie.properties").write_text("garbage")
    return tmp_path / "lake"


def test_a_plan_and_what_was_done(cli: Run, lake: Path) -> None:
    planned = cli("tend", lake, "--dry-run", *DUE, code=7)
    lines = planned.out.splitlines()
    assert lines[0] == f"file://{lake}/trips  merge on read, version 9"
    assert lines[1].startswith("  due: compaction: 3 delta commits not compacted, 2 file groups with logs (about ")
    assert lines[2] == f"file://{lake}/broken"
    assert lines[3].startswith("  cannot be examined: Cannot read the properties of the table at ")
    assert lines[-1].startswith("2 tables; 1 due; 1 could not be examined; ")
    assert lines[-1].endswith(" Nothing was changed.")
    done = cli("tend", lake, *DUE, code=7).out
    assert "  done: compaction " in done
    assert "\n2 tables; 1 done; 1 could not be examined; " in done
    again = cli("tend", lake / "trips", *DUE).out
    assert again.startswith("1 table; nothing is due; ")


def test_several_services_are_summed_up(cli: Run, trips: Path) -> None:
    options = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    update_table_config(LocalStorage(str(trips)), options)
    out = cli("tend", trips, *DUE, "--dry-run").out
    assert "\nservice     due\ncompaction    1\nclustering    1\n" in out


def test_json(cli: Run, lake: Path) -> None:
    ran = cli("tend", lake, *DUE, "--json", code=7)
    assert (ran.json["num_tables"], ran.json["num_done"], ran.json["num_unreadable"]) == (2, 1, 1)
    done, broken = ran.json["tables"]
    assert done["services"][0]["report"]["num_file_groups"] == 2
    assert broken["error"] == "CorruptFileError"
    assert ran.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("LAKE/nowhere",), 3, "There is no table at or below"),
        (("LAKE", "--services", "upgrade"), 2, "by the service 'upgrade'"),
        (("LAKE", "--budget-time", "soon"), 2, "as a duration"),
        (("LAKE", "-o", "hoodie.partition.ttl.inline=true"), 2, "each table's own properties"),
        ((), 2, "Missing argument 'PATH...'"),
    ],
)
def test_refusals(cli: Run, lake: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = cli("tend", *(each.replace("LAKE", str(lake)) for each in arguments), code=code)
    assert said in ran.err


def test_a_lock_that_is_taken(cli: Run, trips: Path) -> None:
    with FileLock(LocalStorage(str(trips)), LockSettings(), purpose="a test"):
        ran = cli("tend", trips, *DUE, *QUICK, code=4)
    assert "  busy: compaction: 3 delta commits not compacted" in ran.out
    assert "  done: compaction " in cli("tend", trips, *DUE, *QUICK).out


def test_budgets(cli: Run, trips: Path) -> None:
    ran = cli("tend", trips, *DUE, "--budget-requests", 120, "--budget-time", "1h", "--budget-bytes", "1GB")
    assert "  left: compaction: " in ran.out
    assert "; it takes about 1" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_takes_back_what_was_begun(trips: Path, number: signal.Signals) -> None:
    """The process is told to end in the middle of a compaction: the plan is left as if it had not begun, and the next
    run carries it out."""
    code = (
        "import os, time\n"
        "from hudi_py.services.compaction import service\n"
        "def wait(*_):\n"
        "    print('compacting', flush=True)\n"
        "    time.sleep(60)\n"
        "service.compact_slice = wait\n"
        "from hudi_py.cli.main import main\n"
        "main()\n"
    )

    def heeds() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a process in the background may ignore

    words = ["tend", str(trips), *DUE, "-o", "hoodie.py.write.threads=1", "--json"]
    before = hudi_py.open_table(trips).scan().to_table().num_rows
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, preexec_fn=heeds
    )
    timer = threading.Timer(120, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "compacting\n"
        time.sleep(0.2)
        os.kill(process.pid, number)
        out, _ = process.communicate(timeout=60)
    finally:
        timer.cancel()
        process.kill()
    assert process.returncode == 130
    told = json.loads(out)
    assert told["interrupted"] is True
    assert [each["state"] for each in told["tables"][0]["services"]] == ["interrupted"]
    table = hudi_py.open_table(trips)
    assert table.scan().to_table().num_rows == before
    assert table.instants()["state"].to_pylist().count("INFLIGHT") == 0
    assert len(table.compaction.pending()) == 1
    report = hudi_py.tend(trips, {"hoodie.compact.inline.max.delta.commits": "2"})
    assert report.count("done") == 1
    assert table.compaction.pending() == []
