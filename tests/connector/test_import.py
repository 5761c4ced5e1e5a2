"""`import pyspark_hudi` is light, and fails nowhere."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pandas", "fastavro", "sqlglot", "duckdb", "polars", "pyiceberg", "obstore", "grpc", "py4j.java_gateway")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
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
