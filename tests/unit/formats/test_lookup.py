"""Sets of texts: hashed look-ups find what a dictionary finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.formats import lookup
from hudi_py.formats.lookup import TextSet

TEXTS = st.lists(st.text(max_size=9), unique=True, max_size=60)


def expected(texts: list[str], wanted: list[str | None]) -> list[int]:
    numbers: dict[str | None, int] = {text: number for number, text in enumerate(texts)}
    return [numbers.get(each, -1) for each in wanted]


@given(TEXTS, st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=60), st.randoms())
def test_numbers_are_those_of_a_dictionary(texts: list[str], others: list[str | None], random: object) -> None:
    wanted = others + [text for number, text in enumerate(texts) if number % 3]
    random.shuffle(wanted)  # type: ignore[attr-defined]
    found = TextSet(pa.array(texts, pa.string()))
    for some in (wanted, wanted[:3]):  # many, and few: hashed
        assert found.find(pa.array(some, pa.string())).tolist() == expected(texts, some)
        assert found.has(pa.array(some, pa.string())).to_pylist() == [each >= 0 for each in expected(texts, some)]
    slices = pa.chunked_array([pa.array(["x", *wanted[:5]], pa.string())[1:], pa.array(wanted[5:], pa.string())])
    assert found.find(slices).tolist() == expected(texts, wanted)


def test_more_texts_than_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_AT_ONCE", 64)
    texts = pa.array([f"key-{number}" for number in range(1000)])
    wanted = pa.array([f"key-{number}" for number in range(700, 1500)])
    assert TextSet(texts).find(wanted).tolist() == [*range(700, 1000), *[-1] * 500]


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_equal_hashes(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Of the set among themselves, and of others with them."""
    hashes = lookup._text_hashes
    mask = np.uint64((1 << bits) - 1 << 64 - bits if bits else 0)
    monkeypatch.setattr(lookup, "_text_hashes", lambda texts: hashes(texts) & mask)
    texts = [f"{number}" for number in range(40)]
    few = ["39", "nothing", "0", "7"]
    for size in (1, 2, 40):
        assert TextSet(pa.array(texts[:size])).find(pa.array(few[:size])).tolist() == expected(
            texts[:size], list(few[:size])
        )
    alone = TextSet(pa.array(["a", "b"]))
    assert alone.find(pa.array(["b"])).tolist() == [1]
    assert alone.find(pa.array(["c"])).tolist() == [-1]


def test_of_texts_that_repeat_one_is_found() -> None:
    twice = TextSet(pa.array(["a", "b", "a", "c"]))
    assert twice.find(pa.array(["c", "d"])).tolist() == [3, -1]
    assert twice.find(pa.array(["a"])).tolist()[0] in (0, 2)
