"""Files on the local disk for rows that exceed their memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

_Own = TypeVar("_Own", bound="TemporaryFiles")


class TemporaryFiles:
    """Files in a temporary folder, which is made when a file needs it. A context manager: leaving it removes them.

    What keeps rows in such files derives from it.
    """

    def __init__(self, prefix: str = "hudi-py-", parent: str | None = None) -> None:
        """`parent`: folder in which to make it; None: that of the system."""
        self._prefix = prefix
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self: _Own) -> _Own:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files. May be called twice."""
        if self._folder is not None:
            self._folder.cleanup()

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        if self._folder is None:
            if self._parent is not None:
                os.makedirs(self._parent, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix=self._prefix, dir=self._parent)
        return os.path.join(self._folder.name, name)

    def write_batches(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        """Write a file in the Arrow IPC format, and return its path."""
        path = self.file(name)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return path
