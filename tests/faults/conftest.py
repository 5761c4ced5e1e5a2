"""What of the kinds of kills is left to CI."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kills in the middle of a call (`torn`) are `slow`: those before each call show most of what they show."""
    for item in items:
        chosen = getattr(item, "callspec", None)
        if item.path.parent == FOLDER and chosen is not None and chosen.params.get("torn"):
            item.add_marker(pytest.mark.slow)
