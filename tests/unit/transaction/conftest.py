"""Fixtures of the tests of writes."""

from __future__ import annotations

import pytest

from hudi_py.storage import MemoryStorage


@pytest.fixture
def storage(request) -> MemoryStorage:
    """An empty storage of the test's own."""
    return MemoryStorage(request.node.nodeid)
