"""Fixtures of the tests of readers."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a table may be made."""
    return str(tmp_path / "t")
