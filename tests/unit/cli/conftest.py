"""The program run in this process, and small tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hudi_py
from tests.support.program import Ran, run_program

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


Run = Callable[..., Ran]


@pytest.fixture
def cli() -> Run:
    """`cli("show", path)` runs a command whose output is not a terminal; `code` is the exit code that it must have."""

    return run_program


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merge-on-read table of three writes, with logs. Tests only read it; see `trips`."""
    path = tmp_path_factory.mktemp("cli") / "trips"
    for ts in range(3):
        rows = [
            {"id": f"{n}", "ts": ts, "city": ("oslo", "lima")[n % 2], "fare": n * 1.5, "note": None}
            for n in range(2 * ts, 10)
        ]
        rows[0]["note"] = "x"
        keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
        hudi_py.write(path, rows, options=OPTIONS, table_type="mor", **keys)
    return path


@pytest.fixture
def trips(made: Path, tmp_path: Path) -> Path:
    """A copy of the table that the test may change."""
    target = tmp_path / "trips"
    shutil.copytree(made, target)
    return target
