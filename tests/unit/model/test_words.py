"""Counts and sizes in words."""

from __future__ import annotations

import pytest

from hudi_py.model.words import counted, show_bytes


@pytest.mark.parametrize(("count", "text"), [(0, "0 files"), (1, "1 file"), (1200, "1,200 files")])
def test_counts(count: int, text: str) -> None:
    assert counted(count, "file") == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000_000, "2.5 GB")])
def test_sizes(size: int, text: str) -> None:
    assert show_bytes(size) == text
