"""A size-bounded cache of values from files that do not change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """Keeps values by key up to a total size, and evicts the least recently used ones. Thread-safe."""

    def __init__(self, max_bytes: int, max_value_bytes: int | None = None) -> None:
        """
        Args:
            max_bytes: of all values together.
            max_value_bytes: larger values are not kept; by default an eighth of `max_bytes`.
        """
        self._max_bytes = max_bytes
        self._max_value_bytes = max_bytes // 8 if max_value_bytes is None else max_value_bytes
        self._found: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.num_bytes = 0

    def get(self, key: _K) -> _V | None:
        with self._lock:
            value = self._found.get(key)
            if value is None:
                return None
            self._found.move_to_end(key)
            return value[0]

    def take(self, key: _K) -> _V | None:
        """Removes and returns a value."""
        with self._lock:
            value = self._found.pop(key, None)
            if value is None:
                return None
            self.num_bytes -= value[1]
            return value[0]

    def put(self, key: _K, value: _V, num_bytes: int) -> None:
        """Caches a value that takes about `num_bytes`."""
        if num_bytes > self._max_value_bytes:
            return
        with self._lock:
            before = self._found.pop(key, None)
            self.num_bytes += num_bytes - (before[1] if before is not None else 0)
            self._found[key] = value, num_bytes
            while self.num_bytes > self._max_bytes:
                self.num_bytes -= self._found.popitem(last=False)[1][1]
