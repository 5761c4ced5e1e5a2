"""An object of an object store as a file: read by ranges, uploaded in parts."""

from __future__ import annotations

import io
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_py.storage.objects import ObjectStorage

PART_BYTES = 8 << 20
"""Size of the parts of an upload. Objects that are smaller go in one request; S3 takes 10,000 parts."""
_PARTS_AT_ONCE = 4


class Download(io.RawIOBase):
    """Range reads as a seekable stream."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        self._storage = storage
        self._path = path
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._storage.read_range(self._path, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


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
        # io's own finaliser would close, and so complete, what nobody has closed
        self._abort(RuntimeError("the file was never closed"))
        super().__del__()

    def _abort(self, error: BaseException) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.__exit__(type(error), error, None)
