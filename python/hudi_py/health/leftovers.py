"""Examines locks, and what finished or vanished actions have left below `.hoodie`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from hudi_py.errors import HudiError, first_line
from hudi_py.health.facts import Facts
from hudi_py.health.findings import Finding
from hudi_py.health.mending.ledger import repairs
from hudi_py.model.layout import HEARTBEATS, LOCK_FILE, MARKERS, META_FOLDER, STAGING
from hudi_py.model.words import counted, show_bytes
from hudi_py.storage import FileInfo
from hudi_py.transaction.locks import LockHolder, lock_holders
from hudi_py.transaction.owner.identity import parse_writer

_PATIENCE: Final = timedelta(hours=1)
_BROKEN: Final = "lock.broken."
_NAMED: Final = 10


def check_locks(facts: Facts) -> Iterator[Finding]:
    """Findings about the table lock."""
    try:
        holders = lock_holders(facts.raw, facts.given, facts.storage_options)
    except (HudiError, OSError) as error:
        facts.skipped.append(f"table lock: {first_line(error)}")
        return
    for holder in holders:
        yield _lock(facts, holder)


def _lock(facts: Facts, holder: LockHolder) -> Finding:
    now = datetime.fromtimestamp(facts.now_ms / 1000, timezone.utc)
    dead = holder.expires is not None and holder.expires < now
    if holder.process and holder.provider == "FileSystemBasedLockProvider":
        try:
            writer = parse_writer(facts.raw.read(f"{META_FOLDER}/{LOCK_FILE}"))
        except FileNotFoundError:
            writer = None
        dead = dead or (writer is not None and writer.id == holder.owner and writer.provably_dead)
    old = not holder.process and holder.since is not None and now - holder.since > _PATIENCE
    since = "" if holder.since is None else f" since {holder.since.isoformat(timespec='seconds')}"
    return Finding(
        "lock.dead" if dead else ("lock.old" if old else "lock.held"),
        f"{holder.place} is held by {holder.process or 'another engine'}{since}"
        + (", which has ended or let it expire" if dead else ""),
        details={"owner": holder.owner, "place": holder.place, "process": holder.process},
    )


def check_leftovers(facts: Facts) -> Iterator[Finding]:
    """Findings about files of instants that are not pending, and about repairs."""
    pending = set() if facts.timeline is None else {instant.time for instant in facts.timeline.pending}
    if facts.timeline is not None:
        for folder, code, what in (
            (MARKERS, "leftovers.markers", "marker folder"),
            (STAGING, "leftovers.staging", "write folder"),
            (HEARTBEATS, "leftovers.heartbeats", "heartbeat"),
        ):
            found = [info for info in facts.storage.list(folder) if info.name not in pending and _is_instant(info)]
            if found:
                names = ", ".join(info.name for info in found[:_NAMED])
                yield Finding(
                    code,
                    f"{counted(len(found), what)} of finished or vanished instants in {folder}: {names}",
                    paths=tuple(info.path for info in found),
                )
    broken = [info for info in facts.storage.list(META_FOLDER) if info.name.startswith(_BROKEN)]
    if broken:
        yield Finding(
            "leftovers.locks",
            f"{counted(len(broken), 'broken lock')} in {META_FOLDER}",
            paths=tuple(info.path for info in broken),
        )
    for repair in repairs(facts.raw):
        code = "repair.kept" if repair.state == "done" else "repair.unfinished"
        yield Finding(
            code,
            f"the repair {repair.id} is {repair.state}, and keeps {counted(repair.num_kept, 'file')} of "
            f"{show_bytes(repair.num_bytes)} in {repair.folder}",
            details={"id": repair.id, "files": repair.num_kept, "bytes": repair.num_bytes},
        )


def _is_instant(info: FileInfo) -> bool:
    return info.name.isdecimal()
