"""`hudi-py report`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


def test_the_page_is_written_and_opened(trips: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_page(uri: str) -> bool:
        opened.append(uri)
        return True

    monkeypatch.setattr(webbrowser, "open", open_page)
    monkeypatch.chdir(tmp_path)
    ran = cli("report", trips, "--open")
    page = tmp_path / "trips-report.html"
    assert ran.out.startswith(f"{page} (")
    assert opened == [page.as_uri()]
    assert "What to do next" in page.read_text(encoding="utf-8")


def test_json_names_the_page(trips: Path, cli: Run, tmp_path: Path) -> None:
    target = tmp_path / "a b.html"
    assert cli("report", trips, "--output", target, "--json").json == {
        "path": str(target),
        "num_bytes": target.stat().st_size,
    }


def test_errors(trips: Path, cli: Run, tmp_path: Path) -> None:
    assert "is a directory" in cli("report", trips, "--output", tmp_path, code=2).err
    assert "No Hudi table at" in cli("report", tmp_path / "none", code=3).err
