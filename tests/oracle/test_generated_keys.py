"""Record keys and partition paths of generated layouts and values: ours, and those of Apache Hudi's key generators."""

from __future__ import annotations

import pytest

from tests.oracle.client import Oracle
from tests.support.choice import SEED
from tests.support.key_layouts import REFUSED_BY_US, Layout, layout

pytestmark = pytest.mark.slow


def of_theirs(oracle: Oracle, layout: Layout) -> list[list[str] | str] | str:
    schema, rows = layout.avro()
    name = f"{layout.kind}AvroKeyGenerator"
    answer = oracle.request("keys", generator=name, properties=dict(layout.options), schema=schema, rows=rows)
    found: list[list[str] | str] | str = answer.get("refused") or answer["keys"]
    return found


def check(oracle: Oracle, seed: str, count: int) -> int:
    """How many rows have the same key and path on both sides."""
    same = 0
    for number in range(count):
        chosen = layout(f"{seed} {number}")
        ours, theirs = chosen.of_ours(), of_theirs(oracle, chosen)
        if isinstance(ours, str):
            assert isinstance(theirs, str) or REFUSED_BY_US.search(ours), (chosen.options, ours)
            continue
        if isinstance(theirs, str):
            assert all(isinstance(each, str) for each in ours), (chosen.options, theirs)
            continue
        for row, own, other in zip(chosen.rows, ours, theirs, strict=True):
            where = chosen.kind, chosen.options, row, own, other
            if isinstance(own, str):
                assert isinstance(other, str) or REFUSED_BY_US.search(own), where
            else:
                assert list(own) == other, where
                same += 1
    return same


def test_generated_layouts(oracle: Oracle) -> None:
    assert check(oracle, SEED, 15) > 50


@pytest.mark.long
def test_a_thousand_generated_layouts(oracle: Oracle) -> None:
    assert check(oracle, f"long {SEED}", 1000) > 5000
