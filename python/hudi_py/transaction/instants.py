"""Writes the state files of instants, atomically and only if absent, so that of two writers with the same instant one
fails."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.names import join_path
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout


def requested_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.requested_name(time, action))


def inflight_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.inflight_name(time, action))


@dataclass(frozen=True, slots=True)
class InstantFiles:
    """The state files of an instant."""

    storage: Storage
    layout: Layout
    time: InstantTime
    action: Action
    """The action of the pending files: a compaction is one until it completes, and becomes a commit."""

    @property
    def requested(self) -> str:
        """The path of the requested file."""
        return requested_path(self.layout, self.time, self.action)

    @property
    def inflight(self) -> str:
        """The path of the inflight file."""
        return inflight_path(self.layout, self.time, self.action)

    def request(self, content: bytes) -> None:
        """Writes the requested file. It may already exist with the same content, left by a killed process.

        Raises:
            ConflictError: the instant was requested with different content.
        """
        path = self.requested
        if not self.storage.put_if_absent(path, content) and self.storage.read(path) != content:
            raise ConflictError(
                f"Cannot request the {self.action.value} {self.time}: {path} already exists with other content, so "
                "another writer has taken the instant; try again",
                path=path,
                instant=self.time,
            )

    def begin(self, content: bytes = b"", *, requested: bool = False) -> None:
        """Moves a requested instant to inflight; an inflight one stays as it is. `requested`: the caller has just
        requested it, under a lock that it still holds.

        Raises:
            ConflictError: the instant is not requested: it was rolled back, or never planned.
        """
        if self.action is not Action.SAVEPOINT and not requested and self.storage.stat(self.requested) is None:
            raise ConflictError(
                f"Cannot begin the {self.action.value} {self.time}: {self.requested} is missing; it was rolled back, "
                "or never planned",
                path=self.requested,
                instant=self.time,
            )
        self.storage.put_if_absent(self.inflight, content)

    def revert(self) -> None:
        """Moves an inflight table service back to requested, to be run again. Idempotent."""
        self.storage.delete(self.inflight)

    def complete(self, completion: CompletionTime, content: bytes, *, begun: bool = False) -> Instant:
        """Writes the completed file; the table lock must be held. In layout 1 its name has no completion time.

        Everything written before is on disk first, and the completed file is on disk when this returns. `begun`: the
        caller has begun it, under a lock that it still holds.

        Returns:
            The completed instant, for `Timeline.plus`.

        Raises:
            ConflictError: the instant is not inflight, or is already completed.
        """
        storage, action = self.storage, self.action
        name = self.layout.completed_name(self.time, action, completion)
        if not begun and storage.stat(self.inflight) is None:
            raise ConflictError(
                f"Cannot complete the {action.value} {self.time}: {self.inflight} is missing; it was rolled back, or "
                "never begun",
                instant=self.time,
            )
        storage.sync()
        if not _create_file(storage, join_path(self.layout.folder, name), content):
            raise ConflictError(
                f"Cannot complete the {action.value} {self.time}: {name} already exists, so another writer has "
                "completed it; write again",
                path=name,
                instant=self.time,
            )
        storage.sync()
        return Instant(self.time, action.comparable, State.COMPLETED, name, completion)

    def remove_pending(self) -> None:
        """Deletes the inflight file, then the requested one (`HoodieActiveTimeline.deletePending`). Idempotent."""
        self.storage.delete(self.inflight)
        self.storage.delete(self.requested)


def _create_file(storage: Storage, path: str, content: bytes) -> bool:
    """Writes content that must not be written twice with `put_if_absent`; also returns True if only the response was
    lost."""
    try:
        return storage.put_if_absent(path, content)
    except OSError:
        with contextlib.suppress(OSError):
            if storage.read(path) == content:
                return True
        raise
