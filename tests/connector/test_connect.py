"""The same through Spark Connect, in a process of its own: classic and Connect sessions do not share one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connector.conftest import CONNECT

pytestmark = pytest.mark.connect

# Writes, which are read back, statements, and errors; CI does without the rest, of which the nightly run has all
FIRST = ("test_write.py", "test_statements.py")
OF_FIRST = "test_every_operation or test_a_task_that or test_refused_writes or test_what_a_first or test_merge["
REST = (
    ("test_enable.py", "test_read.py", "test_write.py"),
    ("test_functions.py", "test_read_table.py", "test_sql.py", "test_write_table.py"),
    ("test_golden.py", "test_services.py", "test_sink_spark.py", "test_stream.py"),
    ("test_dialect.py", "test_named.py", "test_statements.py"),
)
# What depends on the kind of session: planning, tasks, commit, errors and snapshots; not each combination.
CHOSEN = (
    "not test_every_operation or 9-mor",
    "not test_every_type or 9-cow",
    "not test_overwrite_replaces or upsert-9",
    "not test_a_task_that or upsert",
    "not test_many_and_empty",
    "not test_large_pieces",
    "not test_a_limit_leaves",
    "not test_options_reach",
    "not test_more_files_than",
    "not test_one_frame_used_often",
    "not test_damage_is",
    "not test_incremental_reads",
    "not test_a_projection_by",
    "not test_what_depends_on",
    "not test_metadata_has",
    "not test_changes_of_a_range",
    "not test_clean_and_archive",
    "not test_savepoint_restore",
    "not test_pending_plans_first",
    "not test_a_clean_that_lost",
    "not test_the_libraries_of",
    "not test_complete_output",
    "not test_errors_of_writes_are",
    "not test_many_threads",
    "not test_operations_and",
    "not test_what_the_plain",
    # Of the streams, what runs in the server: planning, tasks, restart, handling of batches
    "not test_stream or test_a_snapshot_then or test_limits_and or test_into_a",
)


@pytest.mark.skipif(CONNECT, reason="this is the Connect process")
@pytest.mark.timeout(2500)
@pytest.mark.parametrize(
    ("modules", "marked", "which"),
    [
        pytest.param(FIRST, "not slow", (OF_FIRST,), id="first"),
        *(
            pytest.param(
                part,
                "not nightly",
                () if {*FIRST}.isdisjoint(part) else (f"not ({OF_FIRST})",),
                id=f"rest {number}",
                marks=pytest.mark.nightly,
            )
            for number, part in enumerate(REST)
        ),
    ],
)
def test_through_spark_connect(modules: tuple[str, ...], marked: str, which: tuple[str, ...]) -> None:
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
    command += ["-m", marked, "-k", " and ".join(f"({choice})" for choice in (*CHOSEN, *which))]
    command += [str(folder / module) for module in modules]
    environment = {**os.environ, "HUDI_PY_SPARK": "connect", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, cwd=folder.parents[1], capture_output=True, text=True, timeout=2400, check=False
    )
    report = [line for line in done.stdout.splitlines() if not line.lstrip().startswith(("at ", "JVM stacktrace"))]
    assert done.returncode == 0, "\n".join(report[-120:])
    assert " passed" in report[-1]
