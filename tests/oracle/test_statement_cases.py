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
from tests.oracle.statement_cases import Case, read_answers, read_cases, run_case, words, write_answers
from tests.support.choice import covering

CASES = read_cases()
NAMES = frozenset(case.name for case in CASES)
ANSWERS = read_answers()
OPEN: frozenset[str] = frozenset()
"""Cases whose difference is neither settled nor documented yet."""
_SETTLED = [case for case in CASES if case.name not in OPEN and not case.differs]
GATE = frozenset(
    _SETTLED[place].name
    for place in covering([(case.name.partition(":")[0], case.name) for case in _SETTLED], "statements", 8)
)
"""Cases that run with each commit: of eight files, as HUDI_PY_SEED says."""
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences"


def _marked(case: Case) -> Any:
    marks = [] if case.name in GATE else [pytest.mark.nightly]
    if case.name in OPEN:
        marks.append(pytest.mark.xfail(strict=True, reason="an open difference"))
    return pytest.param(case, id=case.name, marks=marks)


def _shown(outcomes: list[list[Any]]) -> list[list[Any]]:
    """Errors are worded otherwise."""
    return [outcome[:1] if outcome[0] in ("error", "failed") else outcome for outcome in outcomes]


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
    alike = list(zip(case.statements, found, expected, strict=True))[: case.alike]
    assert _shown([ours for _, ours, _ in alike]) == _shown([theirs for *_, theirs in alike]), [
        each for each in alike if _shown([each[1]]) != _shown([each[2]])
    ]
    for statement, outcome, _ in alike:
        lacking = _lacking(statement, outcome)
        assert not lacking, f"refused for another reason: {statement!r} fails with {outcome[1]!r}, without {lacking}"


def _lacking(statement: str, outcome: list[Any]) -> list[str]:
    """Words that the error of a refused statement should name."""
    text = outcome[1].lower() if outcome[0] == "failed" else ""
    return [word for word in words(statement) if text and not any(each in text for each in word.split("|"))]


def test_refusals_name_their_cause() -> None:
    """Errors count as equal where both name the same: a column, an option, a value."""
    waiting = {name.rpartition(" ")[0] for name in OPEN}
    for case in CASES:
        for statement, outcome in zip(case.statements, ANSWERS[case.name], strict=True):
            if statement.startswith("!"):
                assert statement[1:].lstrip().startswith("["), f"{case.name}: no words, not even []: {statement}"
                assert not _lacking(statement, outcome), f"{case.name}: {statement}: {outcome[1]}"
            elif outcome[0] == "error":
                settled = not case.differs and case.name.rpartition(" ")[0] not in waiting
                assert not settled, f"{case.name}: refused by Apache Hudi: {statement}"


def test_differences_are_documented() -> None:
    for case in CASES:
        if case.differs:
            page, _, text = case.differs.partition(": ")
            shown = (DIFFERENCES / page).read_text(encoding="utf-8")
            assert text.strip() in re.sub(r"\s+", " ", shown), f"{case.name}: {page} lacks {text!r}"
    assert ANSWERS.keys() == NAMES
    assert NAMES >= OPEN


@pytest.mark.nightly
def test_apache_hudis_answers(oracle: Oracle) -> None:
    """Those that are stored. `HUDI_PY_WRITE_ANSWERS=1` stores them anew, another value those whose names it finds."""
    only = os.environ.get("HUDI_PY_WRITE_ANSWERS")
    names = None if not only or only == "1" else [case.name for case in CASES if re.search(only, case.name)]
    found = oracle.request("cases", names=names, timeout=7200)["answers"]
    if only:
        write_answers({name: answer for name, answer in (ANSWERS | found).items() if name in NAMES})
        return
    assert {name: _shown(outcomes) for name, outcomes in found.items()} == {
        name: _shown(outcomes) for name, outcomes in ANSWERS.items()
    }
