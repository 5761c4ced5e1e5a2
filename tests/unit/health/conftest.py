"""Healthy tables, built once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ill_tables import build


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Path]:
    """`made(version, kind)` is a healthy table, built once."""
    folder = tmp_path_factory.mktemp("healthy")

    def get(version: int, kind: str) -> Path:
        path = folder / f"{version}{kind}" / "t"
        if not path.exists():
            build(path, version, kind)
        return path

    return get
