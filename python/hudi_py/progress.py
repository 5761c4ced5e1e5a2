"""Progress of a long write, on standard error if that is a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

from hudi_py.model.words import counted, show_bytes

_FIRST_AFTER_S = 1.0
_EVERY_S = 0.2
_CLOCK_EVERY_S = 1.0


class Progress:
    """Shows phase, rows, files, bytes and time on one line, rewritten in place; shows nothing if `stream` is None.

    If the number of files of a phase is known, the line shows how many are done. It appears after a second, so not for
    short work, and its time advances without updates. Thread-safe.
    """

    def __init__(self, title: str, stream: TextIO | None) -> None:
        self._title = title
        self._stream = stream
        self._lock = threading.Lock()
        self._phase = ""
        self._rows = self._files = self._bytes = 0
        self._before = self._expected = 0
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._width = 0
        self._clock: threading.Thread | None = None
        self._closed = threading.Event()

    @classmethod
    def on_terminal(cls, title: str) -> Progress:
        """Shows progress on standard error if that is a terminal."""
        return cls(title, sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None)

    @classmethod
    def silent(cls) -> Progress:
        return cls("", None)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def phase(self, name: str, files: int = 0) -> None:
        """Starts a phase; `files`: the number of files it will write, 0: unknown."""
        with self._lock:
            self._phase = name
            self._before, self._expected = self._files, files
            self._show()
            if self._stream is not None and self._clock is None:
                self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)
                self._clock.start()

    def read(self, rows: int) -> None:
        """Adds incoming rows."""
        with self._lock:
            self._rows += rows
            self._show()

    def wrote(self, size: int) -> None:
        """Adds a finished file of `size` bytes."""
        with self._lock:
            self._files += 1
            self._bytes += size
            self._show()

    def close(self) -> None:
        """Clears the line; nothing is shown afterwards."""
        self._closed.set()
        with self._lock:
            if self._stream is not None and self._width:
                self._stream.write("\r" + " " * self._width + "\r")
                self._stream.flush()
                self._width = 0

    def _tick(self) -> None:
        while not self._closed.wait(_CLOCK_EVERY_S):
            with self._lock:
                self._show()

    def _show(self) -> None:
        if self._stream is None or self._closed.is_set():
            return
        now = time.monotonic()
        if now - self._started < _FIRST_AFTER_S or now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        # a line that wraps cannot be rewritten in place
        text = self._text(now)[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def _text(self, now: float) -> str:
        parts = [f"{self._title}: {self._phase}"]
        if self._rows:
            parts.append(counted(self._rows, "row"))
        if self._expected:
            parts.append(f"{self._files - self._before:,} of {counted(self._expected, 'file')}")
        elif self._files:
            parts.append(counted(self._files, "file"))
        if self._bytes:
            parts.append(show_bytes(self._bytes))
        return ", ".join((*parts, f"{now - self._started:.0f} s"))
