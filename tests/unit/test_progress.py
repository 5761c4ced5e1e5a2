"""The line that tells how far a write or service is."""

from __future__ import annotations

import io
import time

import pytest

from hudi_py import progress as progress_module
from hudi_py.progress import Progress


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, which the test moves on."""
    moment = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    monkeypatch.setattr(progress_module, "_CLOCK_EVERY_S", 3600)
    monkeypatch.setenv("COLUMNS", "80")
    return moment


def test_it_shows_after_a_while_and_wipes_itself(now: list[float]) -> None:
    shown = io.StringIO()
    progress = Progress("upsert t", shown)
    progress.phase("reading")
    progress.read(5)
    assert shown.getvalue() == ""
    now[0] = 2.0
    progress.wrote(2_500_000)
    assert shown.getvalue() == "\rupsert t: reading, 5 rows, 1 file, 2.5 MB, 2 s"
    now[0] = 3.0
    progress.phase("compacting", 1_200)
    now[0] = 4.0
    progress.wrote(1_000_000)
    assert shown.getvalue().endswith("\rupsert t: compacting, 5 rows, 1 of 1,200 files, 3.5 MB, 4 s")
    progress.close()
    assert shown.getvalue().endswith("\r")
    now[0] = 9.0
    progress.wrote(1)
    assert shown.getvalue().endswith("\r")
    silent = Progress.silent()
    silent.phase("x")
    silent.close()


def line(now: list[float], seconds: float, title: str, phase: str) -> str:
    """What a phase shows that begins after so many seconds."""
    shown = io.StringIO()
    progress = Progress(title, shown)
    now[0] = seconds
    progress.phase(phase)
    found = shown.getvalue()
    progress.close()
    return found


def test_what_there_is_none_of_is_not_told(now: list[float]) -> None:
    found = line(now, 7.0, "restore t", "3 of 5 instants are left to undo")
    assert found == "\rrestore t: 3 of 5 instants are left to undo, 7 s"


def test_a_line_never_wraps(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert line(now, 2.0, "compaction of a table with a long name", "planning") == "\rcompaction of a tab"


def test_it_goes_on_while_a_phase_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_CLOCK_EVERY_S", 0.01)
    monkeypatch.setattr(progress_module, "_FIRST_AFTER_S", 0.0)
    shown = io.StringIO()
    progress = Progress("verify t", shown)
    progress.phase("verifying files")
    before = shown.getvalue()
    until = time.monotonic() + 20
    while shown.getvalue() == before and time.monotonic() < until:
        time.sleep(0.01)
    progress.close()
    assert shown.getvalue().count("\rverify t: verifying files, ") > 1
