"""What importing the packages loads, and that it works where optional packages are missing."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import pytest

import hudi_py

# Optional, or slow to load and not needed to import.
HEAVY = {
    "pyspark",
    "py4j",
    "pandas",
    "polars",
    "pyiceberg",
    "duckdb",
    "fastavro",
    "obstore",
    "sqlglot",
    "click",
    "rich",
}

# A finder that says of each package named in its arguments that it is not there.
BLOCK = """
import sys

blocked = set({blocked!r})

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
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


def loaded_by(package: str, then: str = "") -> set[str]:
    """Top-level names of all modules that importing the package, and then some code, loads."""
    names = run(f"before = set(sys.modules); import {package}; {then}\nprint(*(set(sys.modules) - before))")
    return {name.split(".")[0] for name in names.split()}


def test_importing_the_core_loads_nothing_heavy() -> None:
    """And the function `write` is not hidden by the package of this name."""
    loaded = loaded_by(
        "hudi_py", "hudi_py.open_table; import hudi_py.write.api; assert 'function' in str(hudi_py.write)"
    )
    assert {"hudi_py", "pyarrow", "numpy"} <= loaded
    assert not loaded & HEAVY


def test_public_names_are_loaded_when_they_are_used() -> None:
    assert not loaded_by("hudi_py") & {"pyarrow", "numpy"}
    names = hudi_py.__all__
    assert dir(hudi_py) == names == sorted(names)
    assert all(getattr(hudi_py, name).__module__.startswith("hudi_py.") for name in names)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(hudi_py, "nothing")  # noqa: B009


def test_functions_that_name_the_module_can_be_sent_to_workers() -> None:
    assert pickle.loads(pickle.dumps(hudi_py)) is hudi_py


def test_the_help_of_the_command_line_is_quick() -> None:
    """PyArrow and rich take most of the time that a command needs to start."""
    run_help = "from hudi_py.cli.main import main\ntry: main(['read', '--help'])\nexcept SystemExit: pass"
    assert not loaded_by("hudi_py", run_help) & {"pyarrow", "numpy", "rich"}


def test_the_core_works_without_optional_packages() -> None:
    run("import hudi_py; hudi_py.open_table", blocked=("pyspark", "pandas", "polars", "duckdb", "pyiceberg", "obstore"))


def test_importing_the_connector_is_light() -> None:
    """Spark imports every `pyspark_*` package at the first look-up of a data source, whichever it is."""
    assert not loaded_by("pyspark_hudi") & (HEAVY - {"pyspark", "py4j"})


def test_importing_the_connector_never_fails() -> None:
    """One package that fails here would disable the discovery of every other Python data source too. Spark finds ours
    where all of them are there."""
    pytest.importorskip("pyspark")
    out = run("""
        import os, sys, warnings
        warnings.simplefilter("ignore")  # PySpark's own imports
        import fastavro, numpy, pyarrow, sqlglot
        from pyspark.sql.datasource import DataSource

        for missing in ("pyspark", "pyarrow", "numpy", "fastavro", "sqlglot", "hudi_py"):
            if not os.fork():
                for name in list(sys.modules):
                    if name.split(".")[0] == missing:
                        del sys.modules[name]
                blocked.add(missing)
                import pyspark_hudi
                there = hasattr(pyspark_hudi, "DefaultSource"), hasattr(pyspark_hudi, "__path__")
                print(missing, *there, flush=True)
                os._exit(0)
            assert os.wait()[1] == 0, missing
        import pyspark_hudi
        print(issubclass(pyspark_hudi.DefaultSource, DataSource), pyspark_hudi.DefaultSource.name())
    """)
    found = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert found.pop("True") == ["hudi-py"]
    absent = ("pyspark", "pyarrow", "numpy", "hudi_py")  # without one of them, there is only the package
    lazy = ("fastavro", "sqlglot")
    assert found == {name: ["False", "True"] for name in absent} | {name: ["True", "True"] for name in lazy}
