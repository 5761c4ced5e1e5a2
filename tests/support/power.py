"""Power failures: what a local table may look like after one, at any point of what was done to it.

Nothing about a file system is assumed but this: the content of a file is on disk once the file was flushed, a name once
the folder that holds it was, and everything else may be there or not, in any combination. Not even a move is one step.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from hudi_py.storage import LocalStorage, flushing, local

Names = dict[int, dict[str, int]]
Tree = dict[str, bytes | None]
"""Path to content; None: a folder."""
REAL_FLUSHES: Final = (flushing.Unflushed._flush, flushing._flush_data)
_UNREAD: Final = re.compile(r"(^|/)\.hoodie/(\.hudi_py|\.heartbeat|\.temp|lock)")
CHANGES: Final = ("put", "put_if_absent", "delete", "delete_tree", "rename", "touch")


def never_flush() -> None:
    """Nothing is flushed any more in this process, but where a test asks for it."""
    flushing.Unflushed._flush = _nothing  # type: ignore[method-assign]
    flushing._flush_data = _nothing


def _nothing(*_: object) -> None:
    pass


@dataclass
class Cut:
    """One moment: what processes saw then, and what was on disk for sure."""

    after: str
    names: Names
    contents: dict[int, bytes]
    durable_names: Names
    durable_contents: dict[int, bytes]


@dataclass
class Recorder:
    """What is done to a folder, change by change. Inodes are kept open, so that no number comes again."""

    root: Path
    cuts: list[Cut] = field(default_factory=list)
    flushes: int = 0
    _names: Names = field(default_factory=dict)
    _contents: dict[int, bytes] = field(default_factory=dict)
    _durable_names: Names = field(default_factory=dict)
    _durable_contents: dict[int, bytes] = field(default_factory=dict)
    _open: dict[int, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def begin(self) -> None:
        """What is there is on disk."""
        self._look()
        self._durable_names = {number: dict(names) for number, names in self._names.items()}
        self._durable_contents = dict(self._contents)
        self.cut("begin")

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def cut(self, after: str) -> None:
        with self._lock:
            self._look()
            durable = {number: dict(names) for number, names in self._durable_names.items()}
            self.cuts.append(Cut(after, self._names, dict(self._contents), durable, dict(self._durable_contents)))

    def flush_descriptor(self, descriptor: int) -> None:
        with self._lock:
            number = os.fstat(descriptor).st_ino
            self._hold(number, f"/proc/self/fd/{descriptor}")
            self._durable_contents[number] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            self.flushes += 1

    def flush_file(self, full: str) -> None:
        with self._lock, contextlib.suppress(FileNotFoundError), open(full, "rb") as file:
            self.flush_descriptor(file.fileno())

    def flush_folder(self, full: str) -> None:
        with self._lock, contextlib.suppress(FileNotFoundError):
            number = os.stat(full).st_ino
            self._hold(number, full)
            self._durable_names[number] = self._listed(full)
            self.flushes += 1

    def _look(self) -> None:
        self._names = {}
        folders = [str(self.root.parent)]
        top = True
        while folders:
            folder = folders.pop()
            # beside the root of the table nothing is looked at
            only = self.root.name if top else None
            top = False
            # files and folders of another thread may go while this one looks
            with contextlib.suppress(FileNotFoundError):
                number, names = os.stat(folder).st_ino, self._listed(folder, only)
                self._names[number] = names
                for name, inode in names.items():
                    with contextlib.suppress(FileNotFoundError):
                        if self._is_folder(f"{folder}/{name}", inode):
                            folders.append(f"{folder}/{name}")

    def _is_folder(self, path: str, number: int) -> bool:
        """Whether it is one; the content of a file that may have changed is read."""
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return True
        if len(self._contents.get(number, b"?")) != status.st_size or not status.st_size:
            self._contents[number] = Path(path).read_bytes()
        return False

    def _listed(self, folder: str, only: str | None = None) -> dict[str, int]:
        found: dict[str, int] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                if only is None or entry.name == only:
                    number = entry.inode()
                    with contextlib.suppress(FileNotFoundError):  # another thread removed it since it was listed
                        self._hold(number, entry.path)
                        found[entry.name] = number
        return found

    def _hold(self, number: int, path: str) -> None:
        if number not in self._open:
            self._open[number] = os.open(path, os.O_RDONLY)


@contextlib.contextmanager
def recorded(root: Path) -> Iterator[Recorder]:
    """Records what the block does to the folder `root` through local storages, in one process. Nothing is really
    flushed."""
    recorder = Recorder(root)

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def change(self: LocalStorage, path: str, *rest: Any) -> Any:
            done = call(self, path, *rest)
            recorder.cut(f"{name} {path}")
            return done

        return change

    def close(self: Any, call: Any = local._LocalFile.close) -> None:
        if not self.closed:
            call(self)
            recorder.cut(f"close {self.name}")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("flush_file", "flush_folder", "flush_descriptor"):
            patch.setattr(flushing, name, getattr(recorder, name))
        patch.setattr(local, "flush_descriptor", recorder.flush_descriptor)
        patch.setattr(flushing.Unflushed, "_flush", REAL_FLUSHES[0])
        for name in CHANGES:
            patch.setattr(LocalStorage, name, watched(name, getattr(LocalStorage, name)))
        patch.setattr(local._LocalFile, "close", close)
        recorder.begin()
        try:
            yield recorder
            recorder.cut("end")
        finally:
            recorder.close()


class Failure(ABC):
    """What a power failure leaves of changes that were not flushed."""

    @abstractmethod
    def keeps_change(self, path: str) -> bool:
        """Whether a change of a name survives."""

    @abstractmethod
    def content(self, path: str, written: bytes) -> bytes:
        """What is left of the content of a file."""


class Kept(Failure):
    """Everything."""

    def keeps_change(self, path: str) -> bool:
        return True

    def content(self, path: str, written: bytes) -> bytes:
        return written


class Dropped(Failure):
    """Nothing."""

    def keeps_change(self, path: str) -> bool:
        return False

    def content(self, path: str, written: bytes) -> bytes:
        return b""


class Torn(Failure):
    """All names, and half of the contents."""

    def keeps_change(self, path: str) -> bool:
        return True

    def content(self, path: str, written: bytes) -> bytes:
        return written[: len(written) // 2]


class Mixed(Failure):
    """Some names, and of contents the whole, the first half, or as many zeros."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def keeps_change(self, path: str) -> bool:
        return self._random.random() < 0.5

    def content(self, path: str, written: bytes) -> bytes:
        return self._random.choice((written, written[: len(written) // 2], bytes(len(written))))


def after_failure(cut: Cut, failure: Failure, root: Path) -> Tree:
    """What is below the root after a power failure at the cut."""
    tree: Tree = {}

    def add(number: int, path: str) -> None:
        if number not in cut.names and number not in cut.durable_names:
            durable = cut.durable_contents.get(number)
            written = cut.contents.get(number, durable or b"")
            tree[path] = written if written == durable or not written else failure.content(path, written)
            return
        tree[path] = None
        before, now = cut.durable_names.get(number, {}), cut.names.get(number, {})
        for name in sorted({*before, *now}):
            below = f"{path}/{name}" if path else name
            there = before.get(name)
            if there != now.get(name) and failure.keeps_change(below):
                there = now.get(name)
            if there is not None:
                add(there, below)

    top = os.stat(root.parent).st_ino
    before, now = (names[top].get(root.name) for names in (cut.durable_names, cut.names))
    there = before if before == now or not failure.keeps_change("") else now
    if there is not None:
        add(there, "")
    return tree


def make(tree: Tree, root: Path) -> None:
    """Lays a tree down, as long ago as it takes to count writers for dead."""
    then = time.time() - 3600
    for path, content in sorted(tree.items()):
        full = root / path
        if content is None:
            full.mkdir(parents=True, exist_ok=True)
        else:
            full.write_bytes(content)
            os.utime(full, (then, then))


def distinct(recorder: Recorder, root: Path, seeds: int = 1) -> Iterator[tuple[str, bool, Tree]]:
    """What power failures leave at every cut: what was done last, whether it was all, what is left. Of those that
    differ in files of running writes alone, which no reader looks at, the first."""
    seen: set[bytes] = set()
    for number, cut in enumerate(recorder.cuts):
        failures: list[Failure] = [Dropped(), Torn(), *(Mixed(seeds * number + seed) for seed in range(seeds))]
        for failure in failures:
            tree = after_failure(cut, failure, root)
            read = sorted((path, data) for path, data in tree.items() if not _UNREAD.search(path))
            digest = hashlib.sha256(repr(read).encode()).digest()
            end = number == len(recorder.cuts) - 1
            if digest not in seen or end:
                seen.add(digest)
                yield f"{number} {cut.after}, {type(failure).__name__}", end, tree
