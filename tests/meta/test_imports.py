"""What importing the packages loads, and that it works where optional packages are missing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# Optional, or slow to load and not needed to import.
HEAVY = {"pyspark", "py4j", "pandas", "polars", "pyiceberg", "duckdb", "fastavro", "obstore", "sqlglot"}

# A finder that says of each package named in its arguments that it is not there.
BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
        return None

sys.meta_path.insert(0, Block())
"""


def run(code: str, *, blocked: tuple[str, ...] = ()) -> str:
    """What the code prints, run by a fresh interpreter without the blocked packages."""
    script = BLOCK.format(blocked=set(blocked)) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(package: str) -> set[str]:
    """Top-level names of all modules that importing the package loads."""
    names = run(f"before = set(sys.modules); import {package}; print(*(set(sys.modules) - before))")
    return {name.split(".")[0] for name in names.split()}


def test_importing_the_core_loads_nothing_heavy() -> None:
    loaded = loaded_by("hudi_py")
    assert {"hudi_py", "pyarrow", "numpy"} <= loaded
    assert not loaded & HEAVY


def test_the_core_works_without_optional_packages() -> None:
    run("import hudi_py; hudi_py.open_table", blocked=("pyspark", "pandas", "polars", "duckdb", "pyiceberg", "obstore"))


def test_importing_the_connector_is_light() -> None:
    """Spark imports every `pyspark_*` package at the first look-up of a data source, whichever it is."""
    assert not loaded_by("pyspark_hudi") & (HEAVY - {"pyspark", "py4j"})


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "numpy", "fastavro", "sqlglot", "hudi_py"])
def test_importing_the_connector_never_fails(missing: str) -> None:
    """One package that fails here would disable the discovery of every other Python data source too."""
    run(
        "import pyspark_hudi; hasattr(pyspark_hudi, 'DefaultSource'); hasattr(pyspark_hudi, '__path__')",
        blocked=(missing,),
    )


def test_spark_finds_the_source() -> None:
    pytest.importorskip("pyspark")
    out = run("""
        import warnings
        warnings.simplefilter("ignore")  # PySpark's own imports
        from pyspark.sql.datasource import DataSource
        import pyspark_hudi
        print(issubclass(pyspark_hudi.DefaultSource, DataSource), pyspark_hudi.DefaultSource.name())
    """)
    assert out.split() == ["True", "hudi-py"]
