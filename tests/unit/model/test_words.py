"""Counts and sizes in words."""

from __future__ import annotations

import pytest

from hudi_py.model.words import counted, show_bytes, show_duration, visible


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (1200, "1,200 files")])
def test_counts(count: int, text: str) -> None:
    assert counted(count, "file") == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000_000, "2.5 GB")])
def test_sizes(size: int, text: str) -> None:
    assert show_bytes(size) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (60_000, "1 min"),
        (3_700_000, "1 h 1 min"),
        (86_400_000, "1 d"),
        (100_000_000_000, "1,157 d 9 h"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert show_duration(milliseconds) == text


def test_odd_texts_are_one_line_of_plain_text() -> None:
    assert visible("a\n\x1b[31m\u202eb\u2066\udc80") == r"a\n\x1b[31m\u202eb\u2066\udc80"
    assert visible("Zürich, Αθήνα, القاهرة, 東京") == "Zürich, Αθήνα, القاهرة, 東京"
