"""Examines the environment: this process's Python, and the one that Spark would start. Starts no JVM."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from hudi_py.health.findings import Finding

_PACKAGES: Final = ("pyarrow", "numpy", "fastavro", "sqlglot", "pyspark", "obstore", "pandas", "polars", "duckdb")
_WAIT_S: Final = 20
_MIN_JAVA: Final = 17
_ASK: Final = (
    "import importlib.metadata as m, importlib.util as u\n"
    "try: v = m.version('hudi-py')\n"
    "except m.PackageNotFoundError: v = 'not installed'\n"
    "s = u.find_spec('hudi_py')\n"
    "print(v, s.origin if s and s.origin else '', sep='|')\n"
)


def environment() -> dict[str, str]:
    """Returns the releases of hudi-py, Python and the libraries; of Spark's Python and its hudi-py, and of Java, if
    there are any.

    Looks into files and asks another Python, if Spark would use one.
    """
    result = {
        "hudi-py": _library_version("hudi-py") or "not installed",
        "hudi_py": str(Path(__file__).resolve().parents[1]),
        "python": f"{platform.python_version()} ({sys.executable})",
        **{name: version for name in _PACKAGES if (version := _library_version(name))},
    }
    if "pyspark" in result:
        python = spark_python()
        result["spark python"] = python or "none"
        if python is not None:
            result["spark hudi-py"] = _hudi_of(python)
        result["java"] = java_release() or "none"
    return result


def check_environment(result: dict[str, str]) -> Iterator[Finding]:
    """Yields findings about the environment, from `environment`."""
    if "pyspark" not in result:
        return
    loaded = result.get("spark hudi-py", "").partition("|")[2]
    if loaded != str(Path(result["hudi_py"]) / "__init__.py"):
        yield Finding(
            "environment.spark",
            f"Spark's Python is {result['spark python']}, which loads hudi-py from {loaded or 'nowhere'}; this process "
            f"has it from {result['hudi_py']}",
            details=result,
        )
    release = result["java"].split(" ")[0].partition(".")[0]
    if not release.isdecimal() or int(release) < _MIN_JAVA:
        yield Finding("environment.java", f"PySpark {result['pyspark']} needs Java {_MIN_JAVA}; found {result['java']}")


def spark_python() -> str | None:
    """Returns the interpreter that Spark starts for Python sources: `PYSPARK_PYTHON`, else `python3` on the PATH."""
    named = os.environ.get("PYSPARK_PYTHON") or "python3"
    return shutil.which(named)


def java_release() -> str | None:
    """Returns release and home of the Java that PySpark would start, from its file `release`; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        result = shutil.which("java")
        if result is None:
            return None
        home = str(Path(result).resolve().parent.parent)
    try:
        text = (Path(home) / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:  # an installation without the file, or none
        return f"unknown ({home})" if (Path(home) / "bin" / "java").exists() else None
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "JAVA_VERSION":
            return f"{value.strip(chr(34))} ({home})"
    return f"unknown ({home})"


def _library_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _hudi_of(python: str) -> str:
    """Returns release and file of the hudi-py that an interpreter would load, separated by `|`."""
    try:
        asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}|"
    return asked.stdout.strip() if asked.returncode == 0 else f"unknown: {asked.stderr.strip()[-200:]}|"
