"""The same through Spark Connect, in a process of its own: classic and Connect sessions do not share one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connector.conftest import CONNECT

pytestmark = pytest.mark.connect

PARTS = (
    ("test_enable.py", "test_read.py", "test_write.py"),
    ("test_functions.py", "test_read_table.py", "test_sql.py", "test_write_table.py"),
    ("test_golden.py", "test_services.py", "test_sink_spark.py", "test_stream.py"),
    ("test_dialect.py", "test_named.py", "test_statements.py"),
)
FIRST = "connect_first and not slow"


@pytest.mark.skipif(CONNECT, reason="this is the Connect process")
@pytest.mark.timeout(2500)
@pytest.mark.parametrize(
    ("modules", "marked"),
    [
        pytest.param(("test_write.py", "test_statements.py"), FIRST, id="first", marks=pytest.mark.slow),
        *(
            pytest.param(part, f"not nightly and not ({FIRST})", id=f"rest {number}", marks=pytest.mark.nightly)
            for number, part in enumerate(PARTS)
        ),
    ],
)
def test_through_spark_connect(modules: tuple[str, ...], marked: str) -> None:
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "-m", marked]
    command += [str(folder / module) for module in modules]
    environment = {**os.environ, "HUDI_PY_SPARK": "connect", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, cwd=folder.parents[1], capture_output=True, text=True, timeout=2400, check=False
    )
    report = [line for line in done.stdout.splitlines() if not line.lstrip().startswith(("at ", "JVM stacktrace"))]
    assert done.returncode == 0, "\n".join(report[-120:])
    assert " passed" in report[-1]
