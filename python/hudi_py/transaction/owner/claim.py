"""Records which process works on an instant: the claim that lets an attempt publish files, and the owner note that
outlives it.

A plan may be attempted repeatedly under its instant, so an attempt is identified by the random id of its owner. The
claim, a file in `.hoodie/.hudi_py/<instant>`, exists while the attempt accepts files; commit and rollback remove it
first. If a process is killed after that, the note shows whose commit it was: the owner file of a planned action, whose
inflight file must be empty for Apache Hudi, or the inflight file of a write.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hudi_py.errors import ConflictError, RolledBackError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import (
    SOURCES,
    STAGING,
    claim_path,
    forbidden_path,
    heartbeat_path,
    marker_folder,
    owner_path,
    write_folder,
)
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.base import BulkStorage
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.transaction.instants import inflight_path
from hudi_py.transaction.markers import remove_markers
from hudi_py.transaction.owner.heartbeat import remove_heartbeat
from hudi_py.transaction.owner.identity import WRITER_KEY, WriterIdentity, parse_writer

PLANNED = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
"""Actions that execute a plan, which stays when an attempt fails or is rolled back."""
_EMPTY_INFLIGHT = PLANNED | {Action.INDEXING}
"""Actions whose inflight files never name their writer."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The facts about an attempt at an action that every process of it needs. Pickles; holds no credentials."""

    instant: InstantTime
    action: Action
    """The action of the pending files."""
    config: TableConfig
    """The table's properties when the attempt began."""
    owner: WriterIdentity

    @property
    def inflight(self) -> str:
        """Path of the inflight file."""
        return inflight_path(layout_for(self.config), self.instant, self.action)

    def __str__(self) -> str:
        return f"{self.action.value} {self.instant}"


def claim(storage: Storage, attempt: Attempt) -> None:
    """Lets the attempt publish files.

    Raises:
        ConflictError: another attempt has claimed the instant.
    """
    if storage.put_if_absent(claim_path(attempt.instant), attempt.owner.to_json().encode()):
        return
    owner = claimant(storage, attempt.instant)
    if owner is None and storage.delete(claim_path(attempt.instant)):  # closed by an attempt that was undone
        claim(storage, attempt)
        return
    if owner is None or owner.id != attempt.owner.id:
        raise ConflictError(
            f"Cannot begin the {attempt} of {storage.uri}: another process has begun it "
            f"({claim_path(attempt.instant)}); wait until it is done, or write again under another instant",
            instant=attempt.instant,
        )


def claim_proof(storage: Storage, instant: InstantTime, writer: WriterIdentity) -> None:
    """Leaves a claim for an instant that begins and ends under one table lock. A process that holds the lock and finds
    the instant pending then knows that its owner has died."""
    storage.put_if_absent(claim_path(instant), writer.to_json().encode())


def claimant(storage: Storage, instant: InstantTime) -> WriterIdentity | None:
    """Returns the writer that may publish files under the instant; None if there is none."""
    return _read_writer(storage, claim_path(instant))


def revoke_claim(storage: Storage, instant: InstantTime) -> None:
    """Prevents attempts from publishing files from now on. Idempotent."""
    storage.delete(claim_path(instant))


def close_claim(storage: Storage, instant: InstantTime) -> None:
    """Does the same as `revoke_claim` for an attempt that is about to be completed."""
    if storage.can_rename:
        revoke_claim(storage, instant)
    else:  # there are no empty folders here, and this one shows the next write what a killed process has left
        storage.put(claim_path(instant), b"")


def holder(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> WriterIdentity | None:
    """Returns the writer that works or last worked on a pending instant; None if it is another engine, or there is
    none."""
    owner = claimant(storage, instant)
    if owner is not None:
        return owner
    if action in _EMPTY_INFLIGHT:
        return _read_writer(storage, owner_path(instant))
    try:
        content = storage.read(inflight_path(layout, instant, action))
    except FileNotFoundError:
        return None
    if not content:  # clusterings of version 6 are named like writes
        return _read_writer(storage, owner_path(instant))
    text = decode_commit_metadata(content).extra.get(WRITER_KEY)
    return parse_writer(text) if text else None


def check_claim(storage: Storage, attempt: Attempt) -> None:
    """Raises RolledBackError if the attempt's claim was revoked."""
    owner = claimant(storage, attempt.instant)
    if owner is None:
        raise superseded(storage, attempt, "it takes no more files")
    if owner.id != attempt.owner.id:
        raise superseded(storage, attempt, "another attempt has begun")


def check_open(storage: Storage, attempt: Attempt) -> None:
    """Raises RolledBackError if the attempt no longer accepts files."""
    check_claim(storage, attempt)
    if storage.stat(attempt.inflight) is None:
        raise superseded(storage, attempt, "its inflight file has vanished")


def superseded(storage: Storage, attempt: Attempt, what: str) -> RolledBackError:
    """Builds the error of an attempt that can no longer publish files; `what` gives the reason."""
    return RolledBackError(
        f"Cannot continue the {attempt} of {storage.uri}: {what}; it was given up, rolled back, or completed without "
        "this attempt",
        instant=attempt.instant,
    )


def forbid(storage: Storage, instant: InstantTime) -> None:
    """Prevents the instant from being begun. The next write removes the file once other writes have begun anyway."""
    storage.put_if_absent(forbidden_path(instant), b"")


def is_forbidden(storage: Storage, instant: InstantTime) -> bool:
    """Returns whether the write was aborted before it began."""
    return storage.stat(forbidden_path(instant)) is not None


def remove_write_folder(storage: Storage, instant: InstantTime) -> None:
    """Removes the claim, unpublished files and staged data of a write."""
    if storage.can_rename:  # in other storages nothing is unpublished, and one request removes the folder
        revoke_claim(storage, instant)
    storage.delete_tree(write_folder(instant))


def forget_write(storage: Storage, instant: InstantTime) -> None:
    """Removes all files of a write except timeline and data. The write folder goes last: after a crash the next write
    uses it to remove the rest."""
    if isinstance(storage, BulkStorage):
        markers = [info.path for info in storage.walk(marker_folder(instant))]
        storage.delete_many([heartbeat_path(instant), *markers])
    else:
        remove_heartbeat(storage, instant)
        remove_markers(storage, instant)
    remove_write_folder(storage, instant)


def sweep_vanished(storage: Storage, pending: Collection[str]) -> None:
    """Removes folders, markers and heartbeats that finished writes of hudi-py left. The table lock must be held,
    because a write creates its folder and its instant under it.

    `pending`: requested times of the timeline's pending instants.
    """
    for info in storage.list(STAGING):
        instant = InstantTime(info.name)
        if instant not in pending and info.path != SOURCES:
            forget_write(storage, instant)


def _read_writer(storage: Storage, path: str) -> WriterIdentity | None:
    try:
        return parse_writer(storage.read(path))
    except FileNotFoundError:
        return None
