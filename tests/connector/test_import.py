"""`import pyspark_hudi` is light, and fails nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from pyspark_hudi import register
from pyspark_hudi.environment import REQUIRED, environment_report, missing
from tests.meta.sources import ROOT, connector, core

HEAVY = ("pandas", "fastavro", "sqlglot", "duckdb", "polars", "pyiceberg", "obstore", "grpc", "py4j.java_gateway")


def run(program: str, path: str | None = None) -> str:
    environment = None if path is None else {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_source_is_there_and_nothing_heavy_is_loaded_for_it() -> None:
    program = f"""
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_hudi
assert pyspark_hudi.DefaultSource.name() == "hudi-py"
print([name for name in {HEAVY!r} if name in set(sys.modules) - before])
"""
    assert run(program).strip() == "[]"


def test_without_spark_the_import_does_not_fail() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import pyspark_hudi
assert "DefaultSource" not in pyspark_hudi.__all__
try:
    pyspark_hudi.register(None)
except ImportError as error:
    print(error)
"""
    assert "cannot be used in this environment" in run(program)


@pytest.mark.slow
def test_a_wheel_is_shipped_as_what_workers_import_from(tmp_path: Path) -> None:
    wheel = tmp_path / "hudi_py-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for module in [*core(), *connector()]:
            archive.write(module.path, Path(*module.path.relative_to(ROOT).parts[1:]))
        for file in (ROOT / "python").rglob("*.avsc"):
            archive.write(file, file.relative_to(ROOT / "python"))
    program = """
import pyspark_hudi.session, zipfile
archive = pyspark_hudi.session._shipped_wheel()
print(archive, archive and zipfile.ZipFile(archive).testzip())
"""
    shipped, damaged = run(program, str(wheel)).split()
    assert shipped.endswith("/hudi_py-1-py3-none-any.zip")
    assert damaged == "None"
    assert not Path(shipped).exists()
    assert run(program, f"{ROOT}/python:{ROOT}/connector").split() == ["None", "None"]


def test_libraries_that_are_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    import fastavro

    monkeypatch.setitem(sys.modules, "sqlglot", None)
    monkeypatch.setattr(fastavro, "__version__", "1.9.3")
    lacking = missing(environment_report().to_pylist())
    assert [text.split()[0] for text in lacking] == ["fastavro", "sqlglot"]
    assert "1.9.5 or later (found: 1.9.3)" in lacking[0]
    assert "ModuleNotFoundError" in lacking[1]


@pytest.mark.parametrize(
    ("rows", "failure", "message"),
    [
        (
            [],
            "[PYTHON_DATA_SOURCE_ERROR] Failed:\nModuleNotFoundError: No module named 'pyspark_hudi'\n at x",
            "Spark's Python cannot load hudi-py: ModuleNotFoundError: No module named 'pyspark_hudi'; install",
        ),
        (
            [("python", "3.10", "3.12.1", "/bin/python"), ("fastavro", "1.9.5", None, "ModuleNotFoundError: fastavro")],
            None,
            "Spark's Python, /bin/python, cannot run hudi-py: it needs fastavro 1.9.5 or later",
        ),
    ],
)
def test_register_says_what_is_missing(rows: list[tuple[str, ...]], failure: str | None, message: str) -> None:
    spark = MagicMock()
    collect = spark.read.format.return_value.option.return_value.load.return_value.collect
    collect.side_effect = None if failure is None else PySparkException(failure)
    collect.return_value = [Row(library=a, required=b, found=c, location=d) for a, b, c, d in rows]
    with pytest.raises(ImportError, match=re.escape(message)):
        register(spark)


def test_the_libraries_looked_for_are_the_dependencies() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8").split("\ndependencies = [")[1].split("\n]")[0]
    for_the_command_line = {"click", "rich"}
    found = dict(re.findall(r'"(\w+)>=([\d.]+),', declared))
    assert {name: least for name, least in found.items() if name not in for_the_command_line} == REQUIRED
