"""Errors of hudi-py from Spark's processes end the traceback with their sentence. Without a JVM."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PySparkException

from hudi_py.errors import ConflictError
from pyspark_hudi.failure import raised_here
from pyspark_hudi.table import read_or

_SPARKS = """Job aborted due to stage failure: Task 0 in stage 1.0 failed: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "worker.py", line 1, in main
hudi_py.errors.ConflictError: Cannot commit the write 1: another writer was first

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
Driver stacktrace:"""


def test_pages_of_java_are_not_printed() -> None:
    with (
        pytest.raises(ConflictError, match="^Cannot commit the write 1: another writer was first$") as caught,
        raised_here(),
    ):
        raise PySparkException(_SPARKS)
    assert isinstance(caught.value.__context__, PySparkException)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.endswith("\nhudi_py.errors.ConflictError: Cannot commit the write 1: another writer was first\n")
    assert "org.apache" not in shown
    with pytest.raises(PySparkException, match="no_such_table"), raised_here():
        raise PySparkException("no_such_table")


def test_of_two_failed_ways_to_read_the_last_is_printed() -> None:
    def plain() -> None:
        raise PySparkException("from the plain format")

    with pytest.raises(PySparkException, match="from the plain format") as caught:
        read_or(object(), "relative", {}, plain)  # type: ignore[arg-type]
    assert "During handling" not in "".join(traceback.format_exception(caught.value))
