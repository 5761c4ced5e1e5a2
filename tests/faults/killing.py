"""A storage on which the process dies at the n-th call that changes something."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from hudi_py.storage import FileInfo, LocalStorage


class Killed(BaseException):
    """The process is dead: no handler for errors may catch it, and no later call has an effect."""


class KillingStorage:
    """A local table on which the process dies at one call.

    Calls that read are not counted: dying at one is dying before the next change. `kill_at` counts from 0; with `torn`
    the call has had half of its effect when the process dies. Nothing works any more afterwards.
    """

    def __init__(
        self, root: str, kill_at: int | None = None, *, torn: bool = False, die: Callable[[], None] | None = None
    ) -> None:
        self._storage = LocalStorage(root)
        self._kill_at = kill_at
        self._torn = torn
        self._die = die
        self._dead = False
        self._counting = threading.Lock()
        self.calls: list[str] = []

    @property
    def uri(self) -> str:
        return self._storage.uri

    @property
    def is_local(self) -> bool:
        return True

    @property
    def can_rename(self) -> bool:
        return True

    def _change(self, what: str, effect: Callable[[], object], half: Callable[[], object] | None = None) -> object:
        self._live()
        with self._counting:  # or of two threads neither might find its call to be the one to die at
            number = len(self.calls)
            self.calls.append(what)
        if number == self._kill_at:
            if self._torn and half is not None:
                half()
            self._end()
        return effect()

    def _end(self) -> None:
        self._dead = True
        if self._die is not None:
            self._die()
        raise Killed(self.calls[-1])

    def _live(self) -> LocalStorage:
        if self._dead:
            raise Killed("dead already")
        return self._storage

    def read(self, path: str) -> bytes:
        return self._live().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._live().read_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._live().open_input(path)

    def names(self, path: str = "") -> list[str]:
        return self._live().names(path)

    def list(self, path: str = "") -> list[FileInfo]:
        return self._live().list(path)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        return self._live().walk(path)

    def stat(self, path: str) -> FileInfo | None:
        return self._live().stat(path)

    def open_output(self, path: str) -> BinaryIO:
        self._change(f"open {path}", lambda: None)
        return _Output(self, path)  # type: ignore[return-value]

    def finish_output(self, path: str, data: bytes) -> None:
        def write(content: bytes) -> None:
            with self._storage.open_output(path) as out:
                out.write(content)

        self._change(f"close {path}", lambda: write(data), lambda: write(data[: len(data) // 2]))

    def put(self, path: str, data: bytes) -> None:
        self._change(f"put {path}", lambda: self._storage.put(path, data), lambda: self._storage.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def create() -> bool:
            return self._storage.put_if_absent(path, data)

        return bool(self._change(f"create {path}", create, create))

    def delete(self, path: str) -> bool:
        return bool(self._change(f"delete {path}", lambda: self._storage.delete(path)))

    def delete_tree(self, path: str) -> None:
        def half() -> None:
            files = sorted(info.path for info in self._storage.walk(path))
            for name in files[: (len(files) + 1) // 2]:
                self._storage.delete(name)

        self._change(f"delete tree {path}", lambda: self._storage.delete_tree(path), half)

    def rename(self, src: str, dst: str) -> None:
        def link() -> None:  # a local rename that never overwrites is a link, then an unlink
            os.makedirs(os.path.dirname(f"{self._storage.root}/{dst}"), exist_ok=True)
            os.link(f"{self._storage.root}/{src}", f"{self._storage.root}/{dst}")

        self._change(f"rename {src} to {dst}", lambda: self._storage.rename(src, dst), link)

    def touch(self, path: str) -> None:
        self._change(f"touch {path}", lambda: self._storage.touch(path))

    def sync(self) -> None:
        self._live().sync()


class _Output(io.BytesIO):
    """Keeps the content until it is closed. Takes more after that, as a Parquet writer gives when it is collected."""

    def __init__(self, storage: KillingStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._finished = False

    def close(self) -> None:
        if not self._finished:
            self._finished = True
            self._storage.finish_output(self._path, self.getvalue())


def kill_process() -> None:
    """The real thing."""
    os.kill(os.getpid(), signal.SIGKILL)
