"""The README says what is: its example runs, and its matrix is the one that the tests give."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.meta.sources import ROOT
from tools import matrix

README = ROOT / "README.md"
MOST_LINES = 10


def example() -> str:
    """The first block of Python in the README."""
    found = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, "README.md has no ```python block"
    return found[1]


# The example may use a session by this name, as PySpark's shell does.
SESSION = """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""


def test_the_example_is_short_and_runs(tmp_path: Path) -> None:
    code = example()
    counted = [line for line in code.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(counted) <= MOST_LINES
    code = code.replace('"/tmp/', f'"{tmp_path}/')
    script = (SESSION if re.search(r"\bspark\.", code) else "") + code
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_matrix_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert matrix.updated(text) == text, "the compatibility matrix is out of date: run `make matrix`"


def test_the_two_commands_are_named() -> None:
    text = README.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), (
            f"README.md names `make {target}`, the Makefile does not"
        )
    assert "make demo" in text
    assert "make test" in text
