"""The part of a storage that the format readers use, over the bytes of one file."""

from __future__ import annotations

from typing import Any


class OneFile:
    """Answers every path with the same bytes and counts what is read."""

    uri = "memory://one-file"
    is_local = False

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[int] = []

    def read(self, path: str) -> bytes:
        return self.data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        assert offset >= 0
        assert length >= 0
        part = self.data[offset : offset + length]
        self.reads.append(len(part))
        return part

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"unexpected use of storage.{name}")
