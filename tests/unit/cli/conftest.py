"""The program run in this process, and small tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


# Before 8.2, click has to be told to keep standard error apart
APART: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def cli() -> Run:
    """`cli("show", path)` runs a command whose output is not a terminal; `code` is the exit code that it must have."""

    def run(*args: object, code: int = 0, input: bytes | None = None) -> Ran:
        found = CliRunner(**APART).invoke(main, [str(each) for each in args], input=input)
        assert found.exit_code == code, (found.output, found.exception)
        return Ran(found.exit_code, found.stdout, found.stderr)

    return run


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
