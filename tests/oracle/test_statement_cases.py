"""The cases of Apache Hudi's own tests of its SQL (`statement_cases.py`): what hudi-py answers, and Apache Hudi."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_hudi import enable
from tests.oracle.client import Oracle
from tests.oracle.statement_cases import Case, read_answers, read_cases, run_case, write_answers

CASES = read_cases()
ANSWERS = read_answers()
GATE = frozenset(
    {
        "alter: columns of a partitioned table mor",
        "create: like a Hudi table cow",
        "functions: queries by function mor",
        "insert: static partitions cow",
        "partitions: added, with a location, twice",
        "rows: a delete by other columns mor",
    }
)
"""Cases that run with each commit."""
OPEN = frozenset(
    {
        "compaction: of a copy-on-write table",
        "indexes: secondary indexes cow",
        "indexes: a record index by statement cow",
        "indexes: expression indexes cow",
        "indexes: functions of expression indexes lower",
        "indexes: functions of expression indexes upper",
        "indexes: functions of expression indexes trim",
        "indexes: expression indexes of numbers and dates",
        "insert_modes: the older mode alone upsert",
        "insert_modes: the older mode alone strict",
        "insert_modes: policy of duplicates of bulk inserts drop",
        "merge: merge on read, by conditions",
        "merge: expressions of the ordering value cow",
        "merge: expressions of the key",
        "merge: names of columns after the source",
        "merge: without keys, several rows of the source for one row ",
        "merge: logs alone",
        "modes: commit time, rows cow 6",
        "modes: null ordering values cow",
        "procedures: arguments",
        "procedures: savepoints",
        "queries: columns named like members of unions cow",
        "types: blobs, read by their function",
        "types: blobs elsewhere mor",
    }
)
"""Cases whose difference is neither settled nor documented yet."""
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences"


def _marked(case: Case) -> Any:
    marks = [] if case.name in GATE else [pytest.mark.nightly]
    if case.name in OPEN:
        marks.append(pytest.mark.xfail(strict=True, reason="an open difference"))
    return pytest.param(case, id=case.name, marks=marks)


def _shown(outcomes: list[list[Any]]) -> list[list[Any]]:
    """Errors are worded otherwise."""
    return [outcome[:1] if outcome[0] == "error" else outcome for outcome in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_our_answers(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    enable(spark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that a property has no effect
        found = run_case(spark.sql, case, str(tmp_path), CASES.index(case))
    expected = ANSWERS[case.name]
    if case.differs:
        assert _shown(found) != _shown(expected), "no difference any more: the case and the page say that there is one"
        return
    pairs = zip(case.statements, found, expected, strict=True)
    assert _shown(found) == _shown(expected), [(text, *both) for text, *both in pairs if both[0] != both[1]]


def test_differences_are_documented() -> None:
    for case in CASES:
        if case.differs:
            page, _, text = case.differs.partition(": ")
            shown = (DIFFERENCES / page).read_text(encoding="utf-8")
            assert text.strip() in re.sub(r"\s+", " ", shown), f"{case.name}: {page} lacks {text!r}"
    names = {case.name for case in CASES}
    assert names == ANSWERS.keys()
    assert names >= GATE | OPEN


@pytest.mark.nightly
def test_apache_hudis_answers(oracle: Oracle) -> None:
    """Those that are stored. `HUDI_PY_WRITE_ANSWERS=1` stores them anew."""
    found = oracle.request("cases", timeout=7200)["answers"]
    if os.environ.get("HUDI_PY_WRITE_ANSWERS"):
        write_answers(found)
        return
    assert {name: _shown(outcomes) for name, outcomes in found.items()} == {
        name: _shown(outcomes) for name, outcomes in ANSWERS.items()
    }
