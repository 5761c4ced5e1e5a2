"""State files of instants: created whole and only if absent, so that of two writers with the same instant one fails."""

from __future__ import annotations

from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.names import join_path
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout


def requested_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.requested_name(time, action))


def inflight_path(layout: Layout, time: InstantTime, action: Action) -> str:
    return join_path(layout.folder, layout.inflight_name(time, action))


def complete(
    storage: Storage,
    layout: Layout,
    time: InstantTime,
    action: Action,
    completion: CompletionTime,
    content: bytes,
) -> None:
    """Writes the completed file; the table lock must be held. Layout 1 keeps no completion time in the name.

    Raises:
        ConflictError: the instant is completed already.
    """
    name = layout.completed_name(time, action, completion)
    if not storage.put_if_absent(join_path(layout.folder, name), content):
        raise ConflictError(
            f"Cannot complete the {action.value} {time}: {name} exists already, so another writer has completed it; "
            "write again"
        )


def remove_pending(storage: Storage, layout: Layout, time: InstantTime, action: Action) -> None:
    """Deletes the inflight file, then the requested one (`HoodieActiveTimeline.deletePending`). Idempotent."""
    storage.delete(inflight_path(layout, time, action))
    storage.delete(requested_path(layout, time, action))
