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
    versions = {
        "hudi-py": _library_version("hudi-py") or "not installed",
        "hudi_py": str(Path(__file__).resolve().parents[1]),
        "python": f"{platform.python_version()} ({sys.executable})",
        **{name: version for name in _PACKAGES if (version := _library_version(name))},
    }
    if "pyspark" in versions:
        python = spark_python()
        versions["spark python"] = python or "none"
        if python is not None:
            versions["spark hudi-py"] = _hudi_of(python)
        versions["java"] = java_release() or "none"
    return versions


def check_environment(versions: dict[str, str]) -> Iterator[Finding]:
    """Yields findings about the environment, from `environment`."""
    if "pyspark" not in versions:
        return
    loaded = versions.get("spark hudi-py", "").partition("|")[2]
    if loaded != str(Path(versions["hudi_py"]) / "__init__.py"):
        yield Finding(
            "environment.spark",
            f"Spark's Python is {versions['spark python']}, which loads hudi-py from {loaded or 'nowhere'}; this "
            f"process has it from {versions['hudi_py']}",
            details=versions,
        )
    release = versions["java"].split(" ")[0].partition(".")[0]
    if not release.isdecimal() or int(release) < _MIN_JAVA:
        yield Finding(
            "environment.java", f"PySpark {versions['pyspark']} needs Java {_MIN_JAVA}; found {versions['java']}"
        )


def spark_python() -> str | None:
    """Returns the interpreter that Spark starts for Python sources: `PYSPARK_PYTHON`, else `python3` on the PATH."""
    named = os.environ.get("PYSPARK_PYTHON") or "python3"
    return shutil.which(named)


def java_release() -> str | None:
    """Returns release and home of the Java that PySpark would start, from its file `release`; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        java = shutil.which("java")
        if java is None:
            return None
        home = str(Path(java).resolve().parent.parent)
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
