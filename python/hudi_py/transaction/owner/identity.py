"""The identity of a writer, stored in its inflight file, and whether its process has provably ended."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from dataclasses import dataclass
from functools import cache

from hudi_py.model.limits import parse_json

WRITER_KEY = "hudi_py.writer"
"""Key of the identity within an inflight's `extraMetadata`."""

_HIDDEN = ""
"""Start time of a running process that this user may not inspect."""

_at_work: set[str] = set()
_at_work_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, distinguished from all others that ever ran on its host."""

    host: str
    boot: str
    """Boot id of the kernel and the process id namespace."""
    pid: int
    start: str
    """Start time in clock ticks since boot."""

    @property
    def provably_dead(self) -> bool:
        """Whether the process ran on this host, in this boot and namespace, and has ended."""
        here = _boot_and_namespace()
        if here is None or (self.host, self.boot) != here:
            return False
        return _start_time(self.pid) not in (self.start, _HIDDEN)


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """The random id of a write, and the process whose end ends the write, if known."""

    id: str
    process: ProcessIdentity | None = None

    @property
    def provably_dead(self) -> bool:
        """Whether its process has provably ended, or is this one and no longer working on the write."""
        if self.process is None:
            return False
        if self.process == process_identity():
            with _at_work_lock:
                return self.id not in _at_work
        return self.process.provably_dead

    @property
    def provably_alive(self) -> bool:
        """Whether its process runs on this host."""
        return self.process is not None and process_identity(self.process.pid) == self.process

    def __str__(self) -> str:
        if self.process is None:
            return f"writer {self.id}"
        return f"writer {self.id} (process {self.process.pid} on {self.process.host})"

    def to_json(self) -> str:
        content: dict[str, object] = {"id": self.id}
        if self.process is not None:
            process = self.process
            content |= {"host": process.host, "boot": process.boot, "pid": process.pid, "start": process.start}
        return json.dumps(content, sort_keys=True)


def parse_writer(text: str | bytes) -> WriterIdentity | None:
    """Parses the identity in `text`; None if there is none."""
    try:
        content = parse_json(text)
    except ValueError:  # includes undecodable bytes
        return None
    if not isinstance(content, dict) or not isinstance(content.get("id"), str):
        return None
    host, boot, pid, start = (content.get(key) for key in ("host", "boot", "pid", "start"))
    if isinstance(host, str) and isinstance(boot, str) and isinstance(pid, int) and isinstance(start, str):
        return WriterIdentity(content["id"], ProcessIdentity(host, boot, pid, start))
    return WriterIdentity(content["id"])


def new_writer_id() -> str:
    """Returns a random id of 32 hexadecimal digits."""
    return uuid.uuid4().hex


def begin_work(writer_id: str) -> None:
    """Records that this process is working on the write."""
    with _at_work_lock:
        _at_work.add(writer_id)


def end_work(writer_id: str) -> None:
    """Records that this process has finished working on the write, successfully or not."""
    with _at_work_lock:
        _at_work.discard(writer_id)


def process_identity(pid: int | None = None) -> ProcessIdentity | None:
    """Returns the identity of the process `pid` (default: this one); None if there is no such process, or the platform
    does not report it."""
    here = _boot_and_namespace()
    start = _own_start_time() if pid is None else _start_time(pid)
    pid = os.getpid() if pid is None else pid
    return ProcessIdentity(*here, pid, start) if here is not None and start not in (None, _HIDDEN) else None


@cache
def _boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # no such pseudo-file: not Linux
        return None


def _boot_and_namespace() -> tuple[str, str] | None:
    boot = _boot_id()
    if boot is None:
        return None
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # containers may forbid it; then two containers on one kernel must not judge each other
        return None
    return socket.gethostname(), f"{boot}/{namespace}"


@cache
def _own_start_time() -> str | None:
    return _start_time(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own_start_time.cache_clear)


def _start_time(pid: int) -> str | None:
    """Returns the start time of a running process, `_HIDDEN` if this user may not see it; None if there is no such
    process or it is a zombie: dead, but not yet reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return _HIDDEN if _is_there(pid) else None
    # the second field is the command in parentheses, which may itself contain spaces and parentheses
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def _is_there(pid: int) -> bool:
    """Returns whether the process exists, even if /proc is mounted with `hidepid` and hides other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # belongs to another user
        pass
    return True
