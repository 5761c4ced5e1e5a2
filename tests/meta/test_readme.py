"""The README says what is: its commands exist, its figures are stored ones, and what it says of hudi-py others test."""

from __future__ import annotations

import json
import re

from benchmarks import chart
from tests.golden.tables import load
from tests.meta.sources import ROOT
from tools import matrix, pictures

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SECONDS = json.loads(chart.FIGURES.read_text(encoding="utf-8"))["seconds"]


def test_the_matrix_is_current() -> None:
    text = matrix.DOCUMENT.read_text(encoding="utf-8")
    assert matrix.updated(text) == text, f"the matrix of {matrix.DOCUMENT} is out of date: run `make matrix`"


def test_the_two_commands_are_named() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), (
            f"README.md names `make {target}`, the Makefile does not"
        )
    assert "make demo" in TEXT
    assert "make test" in TEXT


def test_the_chart_is_drawn_from_the_stored_figures() -> None:
    assert chart.CHART.read_text(encoding="utf-8") == chart.drawn(), "run `python -m benchmarks.chart`"


def test_drawings_are_current() -> None:
    for path, drawing in pictures.drawn().items():
        assert path.read_text(encoding="utf-8") == drawing, "run `python -m tools.pictures`"


def test_seconds_are_stored_ones() -> None:
    upsert, every = SECONDS["upsert of 5 %, mor"], SECONDS["all, mor, 5 % in logs"]
    said = [
        f"takes {upsert['hudi-py (core)']:g} seconds",
        f"takes {upsert['hudi-py (enabled)']:g} seconds in Spark, where Apache Hudi takes {upsert['Apache Hudi']:g}",
        f"takes {every['hudi-py (enabled)']:g}, where Apache Hudi takes {every['Apache Hudi']:g}",
        f"and hudi-rs {every['hudi-rs']:g}",
    ]
    assert [text for text in said if text not in re.sub(r"\s+", " ", TEXT)] == []


def test_counts_are_those_of_the_tests() -> None:
    tables = [golden for golden in load().values() if any(query.kind == "snapshot" for query in golden.expected)]
    assert f"All {len(tables)} golden tables" in TEXT
    operations, columns = matrix.written()
    assert len(operations) == 7
    assert "the seven operations" in re.sub(r"\s+", " ", TEXT)
    assert {version for version, _ in columns} == {6, 8, 9}


def test_versions_are_those_of_the_package() -> None:
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'spark = ["pyspark>=4.0,<4.4"' in package
    assert "PySpark 4.0 to 4.3" in TEXT
    assert re.search(r'requires-python = ">=3.10"', package)
    assert re.findall(r"Python :: 3\.(\d+)", package)[-1] == "13"
    assert "3.10 to 3.13" in re.sub(r"\s+", " ", TEXT)
