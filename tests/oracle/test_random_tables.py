"""A sample of the random tables; many more are run by `python -m tests.oracle.random_tables`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle.client import Oracle
from tests.oracle.random_tables import RESULTS, make_and_compare
from tests.support.choice import cases, in_turn


@in_turn("random histories", 0, 2, chosen="nightly")
@pytest.mark.parametrize("seed", cases([1, 2, 12, 21], "random tables", 1))
def test_both_sides_answer_every_query_alike(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    outcome = make_and_compare(oracle, tmp_path, seed)
    assert not outcome.failures, outcome.recipe.title + "\n" + "\n".join(outcome.failures)
    assert outcome.compared.total() >= 20, f"{outcome.recipe.title}: hardly anything was compared: {outcome.refused}"


def test_the_long_run_found_nothing() -> None:
    """The record of the last long run, committed with the seeds that it tried."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert len(record["seeds"]) >= 40
    assert sum(record["compared"].values()) >= 1000
    assert record["failures"] == {}
