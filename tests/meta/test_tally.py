"""What a run of pytest tells `.ci/run` and `.ci/nightly`, and what these print of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.meta.sources import ROOT

TESTS = """
import pytest

@pytest.mark.parametrize("steps", [3, 4])
def test_counts(record_property, steps):
    record_property("counted: steps", steps)

def test_fails():
    assert False

@pytest.mark.skip
def test_skipped(): ...
"""
CONFTEST = """
from tests.support import tally

def pytest_terminal_summary(terminalreporter):
    tally.keep(terminalreporter)
"""
SCRIPT = f"""
set -euo pipefail
source {ROOT}/tools/steps.sh
beside "side" echo from the side
attempt "first" false
step "second" "$@" || true
join
step "last" bash -c "exit 3"
"""


def test_steps_and_tests_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", SCRIPT, "script", *command, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "counted: 7 steps\n" in done.stdout
    steps, _, rest = done.stdout.partition(" s in all\n")[2].partition("==== tests")
    assert [line.split("  ")[-1].partition(" (beside")[0] for line in steps.splitlines()] == [
        "first",
        "second",
        "side",
        "last",
    ]
    assert steps.count(", failed") == 3
    lines = [line.split(maxsplit=1) for line in rest.splitlines()]
    assert {("2", "passed"), ("1", "failed"), ("1", "skipped"), ("7", "steps")} <= set(map(tuple, lines))
    assert "test_some.py::test_fails" in rest.partition("==== the slowest")[2]
    assert "from the side" in done.stdout
