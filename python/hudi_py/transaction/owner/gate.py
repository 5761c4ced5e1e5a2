"""The folder `.hoodie/.hudi_py/<instant>` of a running write, and what crashed writes leave of it."""

from __future__ import annotations

from collections.abc import Collection

from hudi_py.model.instant import InstantTime
from hudi_py.storage import Storage
from hudi_py.transaction.markers import remove_markers
from hudi_py.transaction.owner.heartbeat import remove_heartbeat
from hudi_py.transaction.owner.identity import WriterIdentity, parse_writer
from hudi_py.transaction.paths import REPORTS, STAGING, bar_path, gate_path, write_folder


def open_gate(storage: Storage, instant: InstantTime, writer: WriterIdentity) -> bool:
    """Lets the write take files. False when another writer's gate is there."""
    storage.put_if_absent(gate_path(instant), writer.to_json().encode())
    keeper = gate_keeper(storage, instant)
    return keeper is not None and keeper.id == writer.id


def gate_keeper(storage: Storage, instant: InstantTime) -> WriterIdentity | None:
    """Who opened the gate of the instant; None when it is closed."""
    try:
        return parse_writer(storage.read(gate_path(instant)))
    except FileNotFoundError:
        return None


def close_gate(storage: Storage, instant: InstantTime) -> None:
    """From here on no attempt gets or keeps leave to publish a file. Idempotent."""
    storage.delete(gate_path(instant))


def bar_gate(storage: Storage, instant: InstantTime) -> None:
    """The instant is not to be begun any more. The next write sweeps the bar away: by then others have begun."""
    storage.put_if_absent(bar_path(instant), b"")


def is_barred(storage: Storage, instant: InstantTime) -> bool:
    """Whether the write was aborted before it began."""
    return storage.stat(bar_path(instant)) is not None


def remove_write_folder(storage: Storage, instant: InstantTime) -> None:
    """Removes gate, unpublished files and staged data of a write."""
    close_gate(storage, instant)
    storage.delete_tree(write_folder(instant))


def sweep_vanished(storage: Storage, pending: Collection[str]) -> None:
    """Removes folders, markers and heartbeats that our own writes left when they were over. The table lock must be
    held: a write that is about to begin makes its folder and its instant under it.

    `pending`: requested times of the timeline's pending instants.
    """
    for info in storage.list(STAGING):
        instant = InstantTime(info.name)
        if instant in pending or info.path == REPORTS:
            continue
        remove_heartbeat(storage, instant)
        remove_markers(storage, instant)
        remove_write_folder(storage, instant)
