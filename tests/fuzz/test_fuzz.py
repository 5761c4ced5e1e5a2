"""A sample of damaged inputs; `python -m tests.fuzz` runs as many as one likes, each with a time limit of its own."""

from __future__ import annotations

import pytest

from tests.fuzz.run import Figures, feed
from tests.fuzz.targets import TARGETS

INPUTS = 1500
"""Of all targets together."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_damaged_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    total = sum(target.weight for target in TARGETS.values())
    figures = Figures()
    feed(name, range(max(5, INPUTS * TARGETS[name].weight // total)), lambda number: None, figures)
    assert not figures.failures, "\n".join(map(str, figures.failures))
    assert figures.values + figures.errors == figures.inputs
