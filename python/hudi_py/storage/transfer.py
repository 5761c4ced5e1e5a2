"""An object of an object store as a file: range reads, and uploads in parts."""

from __future__ import annotations

import io
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_py.storage.objects import ObjectStorage

READ_AHEAD_BYTES = 1 << 20
"""Minimum size of a read request; at the end of a file, about twice the footer of a base file with a bloom filter."""
PART_BYTES = 8 << 20
"""Size of the parts of an upload. Smaller objects take one request; S3 allows 10,000 parts."""
_PARTS_AT_ONCE = 4


class Download:
    """Range reads as a seekable stream for Arrow: one request for each range that is not buffered.

    Buffers the end of the object and the last range. A short range is extended by the bytes that follow it.
    """

    def __init__(self, storage: ObjectStorage, path: str, size: int, end: bytes) -> None:
        """Args: `end` has the last bytes of the object, or all of them."""
        self._storage = storage
        self._path = path
        self._size = size
        self._end = memoryview(end)
        self._last = (0, memoryview(b""))
        self._position = 0
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
        self._end, self._last = memoryview(b""), (0, memoryview(b""))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> memoryview:
        start = min(self._position, self._size)
        length = self._size - start if size < 0 else min(size, self._size - start)
        data = self._range(start, length) if length else memoryview(b"")
        self._position = start + len(data)
        return data

    def _range(self, start: int, length: int) -> memoryview:
        tail = self._size - len(self._end)
        for first, held in ((tail, self._end), self._last):
            if first <= start and start + length <= first + len(held):
                return held[start - first : start - first + length]
        if start < tail < start + length:  # do not fetch buffered bytes again
            before = self._storage.read_range(self._path, start, tail - start)
            return memoryview(before + self._end[: start + length - tail])
        wanted = max(length, min(READ_AHEAD_BYTES, tail - start))
        data = memoryview(self._storage.read_range(self._path, start, wanted))
        self._last = (start, data)
        return data[:length]


class Upload(io.RawIOBase):
    """An upload in parts, of which a few are in memory at a time. The object appears when the stream is closed; after
    an error inside its `with` block, or without `close`, the parts are discarded."""

    def __init__(self, storage: ObjectStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._writer: Any = storage.writer(path, PART_BYTES, _PARTS_AT_ONCE)
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        if self._writer is None:
            raise ValueError("write to closed file")
        view = memoryview(data).cast("B")
        try:
            with self._storage.asked(self._path):
                self._writer.write(view)
        except BaseException as error:
            self._abort(error)
            raise
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                with self._storage.asked(self._path):
                    writer.close()
        finally:
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
        self.close()

    def __del__(self) -> None:
        # io's own finaliser would close, and so complete, a file that was never closed
        self._abort(RuntimeError("the file was never closed"))
        super().__del__()

    def _abort(self, error: BaseException) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.__exit__(type(error), error, None)
