"""Writes the state files of instants, atomically and only if absent, so that of two writers with the same instant one
fails."""

from __future__ import annotations

import contextlib

from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.names import join_path
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout


def requested_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.requested_name(time, action))


def inflight_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.inflight_name(time, action))


def request(storage: Storage, layout: Layout, time: InstantTime, action: Action, content: bytes) -> None:
    """Writes the requested file. It may already exist with the same content, left by a killed process.

    Raises:
        ConflictError: the instant was requested with different content.
    """
    path = requested_path(layout, time, action)
    if not storage.put_if_absent(path, content) and storage.read(path) != content:
        raise ConflictError(
            f"Cannot request the {action.value} {time}: {path} already exists with other content, so another writer "
            "has taken the instant; try again",
            path=path,
            instant=time,
        )


def begin(
    storage: Storage,
    layout: Layout,
    time: InstantTime,
    action: Action,
    content: bytes = b"",
    *,
    requested: bool = False,
) -> None:
    """Moves a requested instant to inflight; an inflight one stays as it is. `requested`: the caller has just requested
    it, under a lock that it still holds.

    Raises:
        ConflictError: the instant is not requested: it was rolled back, or never planned.
    """
    if action is not Action.SAVEPOINT and not requested:
        path = requested_path(layout, time, action)
        if storage.stat(path) is None:
            raise ConflictError(
                f"Cannot begin the {action.value} {time}: {path} is missing; it was rolled back, or never planned",
                path=path,
                instant=time,
            )
    storage.put_if_absent(inflight_path(layout, time, action), content)


def revert(storage: Storage, layout: Layout, time: InstantTime, action: Action) -> None:
    """Moves an inflight table service back to requested, to be run again. Idempotent."""
    storage.delete(inflight_path(layout, time, action))


def complete(
    storage: Storage,
    layout: Layout,
    time: InstantTime,
    action: Action,
    completion: CompletionTime,
    content: bytes,
    *,
    begun: bool = False,
) -> Instant:
    """Writes the completed file; the table lock must be held. In layout 1 its name has no completion time.

    Everything written before is on disk first, and the completed file is on disk when this returns.

    `action`: the action of the pending files; a compaction is passed as such, and becomes a commit. `begun`: the caller
    has begun it, under a lock that it still holds.

    Returns:
        The completed instant, for `Timeline.plus`.

    Raises:
        ConflictError: the instant is not inflight, or is already completed.
    """
    name = layout.completed_name(time, action, completion)
    if not begun and storage.stat(inflight_path(layout, time, action)) is None:
        raise ConflictError(
            f"Cannot complete the {action.value} {time}: {inflight_path(layout, time, action)} is missing; it was "
            "rolled back, or never begun",
            instant=time,
        )
    storage.sync()
    if not _create_file(storage, join_path(layout.folder, name), content):
        raise ConflictError(
            f"Cannot complete the {action.value} {time}: {name} already exists, so another writer has completed it; "
            "write again",
            path=name,
            instant=time,
        )
    storage.sync()
    return Instant(time, action.comparable, State.COMPLETED, name, completion)


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


def remove_pending(storage: Storage, layout: Layout, time: InstantTime, action: Action) -> None:
    """Deletes the inflight file, then the requested one (`HoodieActiveTimeline.deletePending`). Idempotent."""
    storage.delete(inflight_path(layout, time, action))
    storage.delete(requested_path(layout, time, action))
