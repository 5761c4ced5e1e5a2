"""Examines the timeline: instants that are stuck, unreadable, or contradict the clock; locks; and leftovers of finished
or vanished actions below `.hoodie`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from hudi_py.config.services import ARCHIVE_MAX_COMMITS
from hudi_py.errors import ConfigError, CorruptFileError, HudiError, StorageError, first_line
from hudi_py.health.facts import Facts, decoded_commit
from hudi_py.health.findings import Finding
from hudi_py.health.mending.ledger import repairs
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, State
from hudi_py.model.layout import HEARTBEATS, LOCK_FILE, MARKERS, META_FOLDER, STAGING, marker_folder
from hudi_py.model.words import counted, show_bytes
from hudi_py.storage import FileInfo
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.records import decode_record
from hudi_py.timeline.table_schema import schema_of_write
from hudi_py.timeline.timeline import INITIAL, load_timeline
from hudi_py.timeline.times import epoch_ms, table_zone
from hudi_py.transaction.locks import LockHolder, lock_holders
from hudi_py.transaction.owner.claim import holder
from hudi_py.transaction.owner.heartbeat import last_beat_ms
from hudi_py.transaction.owner.identity import WriterIdentity, parse_writer
from hudi_py.transaction.recovery.failed_writes import PendingWrite
from hudi_py.transaction.settings import TransactionSettings

_MINUTE_MS: Final = 60_000
_QUARTER_MS: Final = 15 * _MINUTE_MS
_ZONE_TOLERANCE_MS: Final = 5_000
_MAX_ZONE_MS: Final = 14 * 60 * _MINUTE_MS
_SERVICES: Final = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.CLEAN, Action.INDEXING}
)
_SERVICE_PATIENCE_MS: Final = 60 * _MINUTE_MS
"""How long a service of another engine, which has no heartbeat of ours, may go without a sign of activity."""
_LONG: Final = 3
"""Factor by which the active timeline may exceed the length that archiving allows."""
_PATIENCE: Final = timedelta(hours=1)
_BROKEN: Final = "lock.broken."
_NAMED: Final = 10


def check_readable(facts: Facts) -> Iterator[Finding]:
    """Yields findings about a timeline that cannot be read; sets `facts.timeline` if it can."""
    try:
        facts.timeline = load_timeline(facts.storage, facts.table)
    except StorageError:  # not a sign of damage
        raise
    except HudiError as error:
        yield Finding("timeline.unreadable", first_line(error), paths=(facts.table.timeline_folder,))


def check_contents(facts: Facts) -> Iterator[Finding]:
    """Yields findings about the files of completed instants, and of the archive."""
    timeline = facts.active
    path = timeline.layout.path
    for instant in timeline.write_completed:
        content = facts.contents.get(instant.file_name)
        if content is None:
            continue  # archived since the listing
        what = f"the completed {instant.action.value} {instant.time}"
        if not content:
            later = (facts.commits.get(other.time) for other in timeline.write_completed if other.time > instant.time)
            certain = any(item is not None and schema_of_write(item) for item in later)
            code = "timeline.empty_commit" if certain else "timeline.empty_newest"
            yield _instant_finding(instant, code, f"{what} has an empty file", path(instant.file_name))
        elif decoded_commit(content, instant) is None:
            yield _instant_finding(
                instant, "timeline.corrupt_commit", f"{what} cannot be read", path(instant.file_name)
            )
    for instant in timeline.completed:
        if instant.action in (Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT):
            content = _file_content(facts, path(instant.file_name))
            if content and not _is_record(content):
                what = f"the completed {instant.action.value} {instant.time} cannot be read"
                yield _instant_finding(instant, "timeline.corrupt_commit", what, path(instant.file_name))
    yield from _check_ends(facts)
    if facts.archive[1]:
        yield Finding("timeline.archive_unreadable", f"the archived timeline cannot be read: {facts.archive[1]}")


def _check_ends(facts: Facts) -> Iterator[Finding]:
    timeline = facts.active
    ends = Counter((i.time, i.action.comparable) for i in timeline.files if i.completed)
    for (time, action), count in sorted(ends.items()):
        if count < 2:
            continue
        files = [i for i in timeline.files if i.completed and (i.time, i.action.comparable) == (time, action)]
        paths = tuple(timeline.layout.path(i.file_name) for i in files)
        contents = [_file_content(facts, path) for path in paths]
        same = all(_says_the_same(content, contents[0], files[0]) for content in contents[1:])
        yield Finding(
            "timeline.twice_completed" if same else "timeline.completed_differently",
            f"the {action.value} {time} has {count} completed files{'' if same else ', which differ'}: "
            + ", ".join(i.file_name for i in files),
            instant=time,
            paths=paths,
        )


def _says_the_same(one: bytes | None, other: bytes | None, instant: Instant) -> bool:
    # Avro and JSON do not keep the order of maps
    commit = decoded_commit(one, instant) if instant.action.comparable in WRITE_ACTIONS else None
    return one == other or (commit is not None and commit == decoded_commit(other, instant))


def check_pending(facts: Facts) -> Iterator[Finding]:
    """Yields findings about pending instants: who holds them, and since when."""
    timeline = facts.active
    expiry_ms = TransactionSettings.of(facts.options).heartbeat_expiry_ms
    for instant in timeline.pending:
        states = {item.state for item in timeline.states_of(instant)}
        if State.REQUESTED not in states and instant.action is not Action.SAVEPOINT and timeline.layout.version > 0:
            yield _instant_finding(
                instant,
                "timeline.no_request",
                f"the pending {instant.action.value} {instant.time} has no requested file",
                timeline.layout.path(instant.file_name),
            )
        try:
            clustering = facts.plans.is_clustering(instant)
            facts.plans.file_groups(instant)
            if instant.action is Action.ROLLBACK:
                facts.plans.rollback(instant)
            if instant.action is Action.RESTORE:
                facts.plans.restore(instant)
            if instant.action is Action.CLEAN:
                facts.plans.clean(instant)
        except StorageError:  # not a sign of damage
            raise
        except (HudiError, FileNotFoundError) as error:
            clean = instant.action is Action.CLEAN
            yield Finding(
                "timeline.clean_unreadable" if clean else "timeline.plan_unreadable",
                f"the plan of the pending {instant.action.value} {instant.time} cannot be read: {first_line(error)}",
                instant=instant.time,
                paths=tuple(timeline.layout.path(state_file.file_name) for state_file in timeline.states_of(instant))
                if clean
                else (),
            )
            continue
        yield _pending_finding(facts, instant, clustering or instant.action in _SERVICES, expiry_ms)


def _pending_finding(facts: Facts, instant: Instant, service: bool, expiry_ms: int) -> Finding:
    try:
        write = _examine_pending(facts, instant)
    except CorruptFileError:  # its inflight file is damaged, so its holder is unknown
        write = PendingWrite(instant, None, None)
    recovery = instant.action in (Action.ROLLBACK, Action.RESTORE)
    holder_ = str(write.writer) if write.writer is not None else "another engine"
    age = "never" if write.active_ms is None else f"{max(facts.now_ms - write.active_ms, 0) / 1000:,.0f} s ago"
    foreign = write.writer is None and service
    dead = write.dead(max(expiry_ms, _SERVICE_PATIENCE_MS) if foreign else expiry_ms)
    if recovery:
        code = "timeline.dead_recovery" if dead else "timeline.running"
    elif service:
        requested = instant.state is State.REQUESTED
        code = "timeline.planned" if requested else ("timeline.dead_service" if dead else "timeline.running")
    else:
        code = "timeline.dead_write" if dead else "timeline.running"
    ended = write.writer is not None and write.writer.provably_dead
    return Finding(
        code,
        f"the {instant.action.value} {instant.time} is {instant.state.name.lower()}, begun by {holder_}"
        + (", whose process has ended" if ended else "")
        + f"; last sign of life {age}",
        instant=instant.time,
        details={
            "action": instant.action.value,
            "state": instant.state.name,
            "holder": holder_,
            "process_ended": ended,
            "last_active": None if write.active_ms is None else _utc_text(write.active_ms),
        },
    )


def _examine_pending(facts: Facts, instant: Instant) -> PendingWrite:
    """Examines an instant as `failed_writes.examine` does, for every action: its writer, and the newest of its
    heartbeat, files and markers."""
    storage, timeline = facts.raw, facts.active
    writer: WriterIdentity | None = holder(storage, timeline.layout, instant.time, instant.action)
    beat = last_beat_ms(storage, instant.time)
    if beat is None and (writer is None or instant.action not in (Action.COMMIT, Action.DELTA_COMMIT)):
        files = (storage.stat(timeline.layout.path(item.file_name)) for item in timeline.states_of(instant))
        times = [info.modified_ms for info in files if info is not None]
        times += [info.modified_ms for info in storage.walk(marker_folder(instant.time))]
        beat = max(times, default=None)
    return PendingWrite(instant, writer, beat)


def check_clock(facts: Facts) -> Iterator[Finding]:
    """Yields findings about times that contradict the clock, one another, or the zone."""
    config, timeline = facts.table, facts.active
    clock = InstantClock(config, waits=False)
    newest = max((time for time in timeline.latest_times() if time), default="")
    try:
        clock.next_instant(timeline)
    except ConfigError as error:
        yield Finding("timeline.ahead", first_line(error), instant=newest or None)
    if not timeline.layout.has_completion_times:
        return
    zone = table_zone(config)
    shifts: Counter[int] = Counter()
    modified = {info.name: info.modified_ms for info in facts.storage.list(timeline.layout.folder)}
    for instant in timeline.completed:
        if instant.completion_time is None or instant.legacy or instant.time.startswith(INITIAL):
            continue
        if instant.completion_time < instant.time:
            yield Finding(
                "timeline.order",
                f"the {instant.action.value} requested at {instant.time} was completed at {instant.completion_time}",
                instant=instant.time,
            )
            continue
        try:
            shift = modified[instant.file_name] - epoch_ms(instant.completion_time, zone)
        except (ConfigError, KeyError):
            continue
        quarters = round(shift / _QUARTER_MS)
        near = abs(shift - quarters * _QUARTER_MS) <= _ZONE_TOLERANCE_MS
        if near and abs(quarters) >= 2 and abs(shift) <= _MAX_ZONE_MS:
            shifts[quarters] += 1
    for quarters, count in shifts.most_common(1):
        if count > 1 and config.timezone != "UTC":
            yield Finding(
                "timeline.zone",
                f"{count} completed instants were written {quarters / 4:+.2f} hours after the time in their names, "
                f"read in the zone {zone}: their writer was in another zone",
                details={"hours": quarters / 4, "instants": count},
            )


def check_length(facts: Facts) -> Iterator[Finding]:
    """Yields findings about archiving that does not run."""
    limit = _LONG * facts.options.get(ARCHIVE_MAX_COMMITS)
    count = len(facts.active.write_completed)
    if count > limit:
        yield Finding(
            "timeline.long",
            f"{count} completed commits are active, from {facts.active.write_completed[0].time} on; archiving begins "
            f"at {limit // _LONG}",
            details={"commits": count},
        )


def _instant_finding(instant: Instant, code: str, what: str, path: str) -> Finding:
    return Finding(code, what, instant=instant.time, paths=(path,))


def _file_content(facts: Facts, path: str) -> bytes | None:
    try:
        return facts.storage.read(path)
    except FileNotFoundError:
        return None


def _is_record(content: bytes) -> bool:
    try:
        decode_record(content, "")
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, ValueError):
        return False
    return True


def _utc_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="seconds")


def check_locks(facts: Facts) -> Iterator[Finding]:
    """Yields findings about the table lock."""
    try:
        holders = lock_holders(facts.raw, facts.given, facts.storage_options)
    except (HudiError, OSError) as error:
        facts.skipped.append(f"table lock: {first_line(error)}")
        return
    for owner in holders:
        yield _lock_finding(facts, owner)


def _lock_finding(facts: Facts, holder: LockHolder) -> Finding:
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
    """Yields findings about files of instants that are not pending, and about repairs."""
    pending = set() if facts.timeline is None else {instant.time for instant in facts.timeline.pending}
    if facts.timeline is not None:
        for folder, code, what in (
            (MARKERS, "leftovers.markers", "marker folder"),
            (STAGING, "leftovers.staging", "write folder"),
            (HEARTBEATS, "leftovers.heartbeats", "heartbeat"),
        ):
            left = [info for info in facts.storage.list(folder) if info.name not in pending and _is_instant(info)]
            if left:
                names = ", ".join(info.name for info in left[:_NAMED])
                yield Finding(
                    code,
                    f"{counted(len(left), what)} of finished or vanished instants in {folder}: {names}",
                    paths=tuple(info.path for info in left),
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
