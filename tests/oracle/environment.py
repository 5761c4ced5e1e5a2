"""Where the oracle lives: its Python environment and the bundles of Apache Hudi. Standard library only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
ARTIFACT: Final = "hudi-spark3.5-bundle_2.12"
NEWEST: Final = "1.2.0"
# The release that writes table version 6 as the releases before 1.0 did.
OLDEST: Final = "0.15.0"
# Spark 3.5, which the bundle is built for, is made for Java 8 to 17 and runs on 21.
OLDEST_JAVA: Final = 11
NEWEST_JAVA: Final = 21


def default_version() -> str:
    """The release to ask unless a test names another one."""
    return os.environ.get("HUDI_ORACLE_VERSION") or NEWEST


def python() -> Path:
    """The interpreter of the oracle's own environment."""
    return Path(os.environ.get("HUDI_ORACLE_VENV") or ROOT / ".oracle") / "bin" / "python"


def bundle(version: str) -> Path:
    """The bundle's file: the one named by HUDI_ORACLE_JAR, else the one that `setup.sh` fetched."""
    named = os.environ.get("HUDI_ORACLE_JAR")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("HUDI_ORACLE_CACHE") or home / "hudi-py" / "oracle")
    return cache / f"{ARTIFACT}-{version}.jar"


def lance_class_path() -> str | None:
    """The jars with which Apache Hudi reads and writes Lance files, which must come before Spark's own; None if they
    are not there. `tests/oracle/setup.sh lance` fetches them to the folder that HUDI_ORACLE_LANCE names, or its
    default."""
    folder = Path(os.environ.get("HUDI_ORACLE_LANCE") or bundle(NEWEST).parent / "lance")
    return ":".join(map(str, sorted(folder.glob("*.jar")))) or None


def locate(version: str | None = None) -> tuple[str, str] | None:
    """Python and bundle, where both have been set up; else None."""
    interpreter, jar = python(), bundle(version or default_version())
    return (str(interpreter), str(jar)) if interpreter.exists() and jar.exists() else None


def set_up(versions: Sequence[str]) -> str | None:
    """Run setup.sh for these releases of Apache Hudi; None when they are ready, else why not."""
    script = [str(HERE / "setup.sh"), *versions]
    done = subprocess.run(script, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "cannot be set up" in line]
    return lines[-1].lstrip("! ") if lines else f"setup.sh failed: {done.stderr.strip()[-400:]}"
