"""DuckDB with its Iceberg extension, in a process of its own.

The extension comes as a wheel for one release of DuckDB, which is not the one that the lock files have for
`Scan.to_duckdb`; two releases cannot be loaded into one process. So this release and its extensions are installed once
into a folder of the user's cache, by pip, and a child process runs them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

RELEASE = "1.5.5"
_PACKAGES = ("duckdb", "duckdb-extensions", "duckdb-extension-avro", "duckdb-extension-iceberg")
_CHILD = """
import json, sys
import duckdb, duckdb_extensions, pyarrow as pa
for name in ("avro", "iceberg"):
    duckdb_extensions.import_extension(name)
con = duckdb.connect()
con.execute("LOAD avro; LOAD iceberg; SET TimeZone = 'UTC'")
for line in sys.stdin:
    query, out = json.loads(line)
    try:
        found = con.sql(query).to_arrow_table()
        with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        answer = ""
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer), flush=True)
"""


def folder() -> Path:
    """Where the release is installed, for this version of Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "hudi-py" / f"duckdb-{RELEASE}-{sys.version_info[0]}.{sys.version_info[1]}"


def install() -> str | None:
    """Installs the release unless it is there; why that failed."""
    target = folder()
    if target.exists():
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    part = tempfile.mkdtemp(dir=target.parent)
    packages = [f"{name}=={RELEASE}" for name in _PACKAGES]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        part,
        *packages,
    ]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()[-400:]
    with contextlib.suppress(OSError):  # another process was first
        os.rename(part, target)
    return None


class Duck:
    """Answers queries."""

    def __init__(self) -> None:
        why = install()
        if why is not None:
            told = f"DuckDB {RELEASE} with its Iceberg extension cannot be installed: {why}"
            if os.environ.get("CI"):
                pytest.fail(told)
            pytest.skip(told)
        path = os.pathsep.join([str(folder()), os.environ.get("PYTHONPATH", "")])
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def read(self, table: str | Path) -> pa.Table:
        """The rows of an Iceberg table by its folder."""
        return self.ask(f"SELECT * FROM iceberg_scan('{table}')")

    def ask(self, query: str) -> pa.Table:
        child: Any = self._child
        with tempfile.TemporaryDirectory() as out:
            place = f"{out}/rows.arrow"
            child.stdin.write(json.dumps([query, place]) + "\n")
            child.stdin.flush()
            answer = json.loads(child.stdout.readline() or '"DuckDB ended"')
            assert not answer, answer
            with pa.OSFile(place) as source:
                return pa.ipc.open_file(source).read_all()

    def close(self) -> None:
        child: Any = self._child
        child.stdin.close()
        child.wait()
        child.stdout.close()
