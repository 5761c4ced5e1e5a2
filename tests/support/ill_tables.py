"""Faults to plant in tables, each with the code by which the doctor must name it."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import hudi_py
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import format_properties, parse_properties
from hudi_py.storage import open_storage
from hudi_py.table import Table
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.times import epoch_ms, format_instant, table_zone
from hudi_py.transaction.owner.identity import ProcessIdentity, WriterIdentity, process_identity
from tests.support.renamed import renamed

OPTIONS: Final = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.py.write.threads": "1",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
KEYS: Final[Mapping[str, str]] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.table.ordering.fields": "ts",
}
_DAY_S: Final = 86_400


def build(path: Path, version: int, kind: str) -> None:
    """A table with two commits in two partitions, and a metadata table with a record index."""
    for ts, count in ((1, 12), (2, 6)):
        rows = [{"id": f"k{n:02}", "p": "ab"[n % 2], "ts": ts, "v": n * 1.5 + ts} for n in range(count)]
        hudi_py.write(
            path,
            rows,
            options=OPTIONS,
            record_key="id",
            partition_by="p",
            ordering_by="ts",
            table_type=kind,
            table_version=version,
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `kinds` and `versions`: of the tables that can have it."""

    name: str
    code: str
    plant: Callable[[Path], object]
    mended: bool = False
    kinds: tuple[str, ...] = ("cow", "mor")
    versions: tuple[int, ...] = (6, 8, 9)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the examination and the repair."""
    full: bool = False
    lost: int | None = None
    """Rows that a repair gives up; None: it gives up none."""


def table(path: Path) -> Table:
    return hudi_py.open_table(path, OPTIONS)


def set_property(path: Path, **changes: str | None) -> None:
    """Changes properties, whose dots are written as two underscores, and the checksum with them."""
    file = path / ".hoodie/hoodie.properties"
    properties = parse_properties(file.read_text())
    for key, value in changes.items():
        properties.pop(key.replace("__", "."), None)
        if value is not None:
            properties[key.replace("__", ".")] = value
    file.write_text(format_properties(properties, "changed by a test"))


def edit_properties(path: Path, before: str, after: str) -> None:
    file = path / ".hoodie/hoodie.properties"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def timeline_folder(path: Path) -> Path:
    return path / load_table_config(open_storage(path)).timeline_folder


def state_file(path: Path, at: int = -1) -> Path:
    """The completed file of one of the writes."""
    timeline = table(path).timeline
    return path / timeline.layout.path(timeline.write_completed[at].file_name)


def newest_file(path: Path, *, log: bool = False) -> Path:
    """A base file, or log, of the newest commit that wrote one to partition `a`."""
    parse: Callable[[str], Any] = parse_log_file_name if log else parse_base_file_name
    files = [each for each in (path / "a").iterdir() if parse(each.name) is not None]
    return max(files, key=lambda each: (parse(each.name).instant, each.name))


def add(path: Path, name: str, content: bytes | str = b"", *, age_s: float = 0) -> Path:
    """Writes a file, last changed some time ago."""
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    then = time.time() - age_s
    os.utime(file, (then, then))
    return file


def state(path: Path, name: str, content: bytes = b"", *, age_s: float = 0) -> Path:
    """A state file of the timeline."""
    return add(path, str((timeline_folder(path) / name).relative_to(path)), content, age_s=age_s)


def now(path: Path, *, ahead_ms: int = 0) -> str:
    """The time of a new instant."""
    return format_instant(int(time.time() * 1000) + ahead_ms, table_zone(load_table_config(open_storage(path))))


def _turn(file: Path, at: int, count: int = 1) -> None:
    data = bytearray(file.read_bytes())
    for place in range(at, at + count):
        data[place] ^= 0xFF
    file.write_bytes(bytes(data))


def _turn_footer(path: Path) -> None:
    file = newest_file(path)
    _turn(file, file.stat().st_size - 40, 20)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def _backup(path: Path) -> Path:
    return Path(shutil.copy(path / ".hoodie/hoodie.properties", path / ".hoodie/hoodie.properties.backup"))


def _from_backup(path: Path, content: bytes | None) -> None:
    _backup(path)
    file = path / ".hoodie/hoodie.properties"
    file.unlink()
    if content is not None:
        file.write_bytes(content)


def _lacks_one_letter(path: Path) -> None:
    edit_properties(path, "hoodie.table.recordkey.fields", "hoodie.table.recordkey.fieldz")


def _other_timeline(path: Path) -> None:
    layout = load_table_config(open_storage(path)).layout
    add(
        path,
        ".hoodie/20200101000000000.commit"
        if layout == 2
        else ".hoodie/timeline/20200101000000000_20200101000000001.commit",
    )


def _twice(path: Path, of: int) -> None:
    """Completes the newest commit again, with the content of commit number `of`."""
    file = state_file(path)
    time_, _, rest = file.name.partition("_")
    completion, _, word = rest.partition(".")
    commits = sorted(other for other in file.parent.glob(f"*.{word}") if "_" in other.name)
    shutil.copy(commits[of], file.with_name(f"{time_}_{int(completion) + 1}.{word}"))


def _future(path: Path) -> None:
    state(path, f"{now(path, ahead_ms=3_600_000)}.commit.requested")


def _before_request(path: Path) -> None:
    later = now(path)
    state(path, f"{later}_{int(later) - 1}.clean")


def _zone(path: Path) -> None:
    zone = table_zone(load_table_config(open_storage(path)))
    timeline = table(path).timeline
    for instant in timeline.completed:
        then = epoch_ms(instant.completion_time or "", zone) / 1000 + 7200
        os.utime(path / timeline.layout.path(instant.file_name), (then, then))


def _archive(path: Path) -> None:
    if load_table_config(open_storage(path)).layout == 2:
        add(path, ".hoodie/timeline/history/_version_", "5")
    else:
        add(path, ".hoodie/archived/.commits_.archive.1_1-0-1", b"no log")


def _dead_write(path: Path, *, marked: bool) -> None:
    """Another engine's write, whose process gave no sign of life for a day; it wrote one file."""
    instant = now(path)
    action = "deltacommit" if load_table_config(open_storage(path)).is_mor else "commit"
    inflight = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
    state(path, f"{instant}.{action}.requested", age_s=_DAY_S)
    state(path, inflight, age_s=_DAY_S)
    name = f"{uuid.uuid4()}-0_0-1-0_{instant}.parquet"
    add(path, f"a/{name}", next((path / "a").glob("*.parquet")).read_bytes(), age_s=_DAY_S)
    if marked:
        add(path, f".hoodie/.temp/{instant}/a/{name}.marker.CREATE", age_s=_DAY_S)


def _killed_write(path: Path) -> None:
    """A write of this host, a moment ago, whose process has ended."""
    _dead_write(path, marked=True)
    instant = table(path).timeline.pending[0].time
    add(path, f".hoodie/.hudi_py/{instant}/open", ended_writer().to_json())
    add(path, f".hoodie/.heartbeat/{instant}")


def _dead_compaction(path: Path) -> None:
    instant = table(path).compaction.schedule()
    state(path, f"{instant}.compaction.inflight", age_s=_DAY_S)
    for file in timeline_folder(path).glob(f"{instant}*"):
        os.utime(file, (time.time() - _DAY_S,) * 2)


def _dead_rollback(path: Path) -> None:
    state(path, f"{now(path)}.rollback.requested", age_s=_DAY_S)


def _intruder(path: Path, *, log: bool = False) -> None:
    file = newest_file(path)
    name = parse_base_file_name(file.name)
    assert name is not None
    other = f"{uuid.uuid4()}-0_{name.write_token}_{name.instant}.parquet"
    file.with_name(other).write_bytes(renamed(file.read_bytes(), other))


def _stranger(path: Path, *, log: bool = False) -> None:
    instant = now(path)
    if log:
        add(path, f"a/.{uuid.uuid4()}-0_{instant}.log.1_0-1-0", newest_file(path, log=True).read_bytes())
    else:
        add(path, f"a/{uuid.uuid4()}-0_0-1-0_{instant}.parquet", newest_file(path).read_bytes())


def _again(path: Path, partition: str) -> None:
    """Key k00, of partition `a`, and k02 once more."""
    rows = [{"id": key, "p": partition, "ts": 9, "v": 9.0} for key in ("k00", "k02")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the record index has one place for a key
        table(path).bulk_insert(rows)


def _cleaned_away(path: Path) -> None:
    """A version of a file that no reader needs any more is gone, and the metadata table still lists it."""
    files = sorted((each for each in (path / "a").glob("*.parquet")), key=lambda each: each.name.rpartition("_")[2])
    if len(files) == 1:
        table(path).compact()
        files = sorted((path / "a").glob("*.parquet"), key=lambda each: each.name.rpartition("_")[2])
    files[0].unlink()


def _lacks_commit(path: Path) -> None:
    newest = table(path).timeline.write_completed[-1].time
    for file in (path / ".hoodie/metadata/.hoodie").rglob(f"{newest}*"):
        file.unlink()


def _damaged_metadata(path: Path) -> None:
    file = max((path / ".hoodie/metadata/files").glob(".files-*"), key=lambda each: each.stat().st_size)
    _cut(file)


def ended_writer() -> WriterIdentity:
    """A writer whose process has provably ended."""
    here = process_identity()
    assert here is not None
    return WriterIdentity(uuid.uuid4().hex, ProcessIdentity(here.host, here.boot, 2**22 + 1, "1"))


def _dead_lock(path: Path) -> None:
    add(path, ".hoodie/lock", ended_writer().to_json())


FAULTS: Final = (
    Fault(
        "no properties", "properties.missing", lambda p: (p / ".hoodie/hoodie.properties").unlink(), True, options=KEYS
    ),
    Fault(
        "properties emptied", "properties.damaged", lambda p: add(p, ".hoodie/hoodie.properties"), True, options=KEYS
    ),
    Fault("only a backup", "properties.from_backup", lambda p: _from_backup(p, None), True),
    Fault("garbage and a backup", "properties.from_backup", lambda p: _from_backup(p, b"\\u12\x00"), True),
    Fault(
        "another name",
        "properties.damaged",
        lambda p: edit_properties(p, "hoodie.table.name=t", "hoodie.table.name=u"),
        True,
    ),
    Fault(
        "another checksum",
        "properties.damaged",
        lambda p: edit_properties(p, "table.checksum=", "table.checksum=7"),
        True,
    ),
    Fault("backup left", "properties.leftover", _backup, True),
    Fault("upgrade killed", "properties.leftover", lambda p: add(p, ".hoodie/hoodie.properties.updated", "a=b"), True),
    Fault("wrong letter in a key", "properties.key", _lacks_one_letter, True),
    Fault(
        "unknown table type", "properties.value", lambda p: set_property(p, hoodie__table__type="COPY"), versions=(9,)
    ),
    Fault("unknown version", "properties.version", lambda p: set_property(p, hoodie__table__version="7")),
    Fault(
        "layout of another version",
        "properties.version",
        lambda p: set_property(p, hoodie__timeline__layout__version="1"),
        versions=(8, 9),
    ),
    Fault(
        "logs in copy on write",
        "properties.foreign",
        lambda p: set_property(p, hoodie__table__type="COPY_ON_WRITE"),
        kinds=("mor",),
    ),
    Fault("two timelines", "properties.foreign", _other_timeline),
    Fault(
        "timeline elsewhere",
        "timeline.unreadable",
        lambda p: (p / ".hoodie/timeline").rename(p / ".hoodie/other") and add(p, ".hoodie/20200101000000000.commit"),
        versions=(8, 9),
    ),
    Fault("garbage in a commit", "timeline.corrupt_commit", lambda p: state_file(p).write_bytes(b"garbage")),
    Fault("garbage in a clean", "timeline.corrupt_commit", lambda p: _garbage_clean(p)),
    Fault("empty commit", "timeline.empty_commit", lambda p: state_file(p, 0).write_bytes(b"")),
    Fault("newest commit empty", "timeline.empty_newest", lambda p: state_file(p).write_bytes(b"")),
    Fault("completed twice", "timeline.twice_completed", lambda p: _twice(p, 1), versions=(8, 9)),
    Fault("completed differently", "timeline.completed_differently", lambda p: _twice(p, 0), versions=(8, 9)),
    Fault(
        "garbage in a plan",
        "timeline.plan_unreadable",
        lambda p: state(p, f"{now(p)}.compaction.requested", b"garbage"),
        kinds=("mor",),
    ),
    Fault(
        "garbage in the plan of a clean",
        "timeline.clean_unreadable",
        lambda p: state(p, f"{now(p)}.clean.requested", b"garbage"),
        True,
    ),
    Fault(
        "inflight without request",
        "timeline.no_request",
        lambda p: state(p, f"{now(p)}.deltacommit.inflight"),
        kinds=("mor",),
    ),
    Fault("archive damaged", "timeline.archive_unreadable", _archive),
    Fault("dead write with markers", "timeline.dead_write", lambda p: _dead_write(p, marked=True), True),
    Fault("dead write without markers", "timeline.dead_write", lambda p: _dead_write(p, marked=False), True),
    Fault("killed write", "timeline.dead_write", _killed_write, True),
    Fault("dead rollback", "timeline.dead_recovery", _dead_rollback, True),
    Fault("dead compaction", "timeline.dead_service", _dead_compaction, True, kinds=("mor",)),
    Fault("running write", "timeline.running", lambda p: state(p, f"{now(p)}.commit.requested"), kinds=("cow",)),
    Fault("planned compaction", "timeline.planned", lambda p: table(p).compaction.schedule(), kinds=("mor",)),
    Fault("an hour ahead", "timeline.ahead", _future),
    Fault("completed before requested", "timeline.order", _before_request, versions=(8, 9)),
    Fault("two hours east", "timeline.zone", _zone, versions=(8, 9)),
    Fault(
        "never archived",
        "timeline.long",
        lambda p: [table(p).insert([{"id": f"n{n}", "p": "a", "ts": 1, "v": 1.0}]) for n in range(5)],
        versions=(9,),
        kinds=("cow",),
        options={"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"},
    ),
    Fault("base file gone", "files.missing", lambda p: newest_file(p).unlink(), True, kinds=("cow",), lost=6),
    Fault("log gone", "files.missing", lambda p: newest_file(p, log=True).unlink(), True, kinds=("mor",), lost=3),
    Fault("base file cut", "files.short", lambda p: _cut(newest_file(p)), True, kinds=("cow",), lost=6),
    Fault("log cut", "files.short", lambda p: _cut(newest_file(p, log=True)), True, kinds=("mor",), lost=3),
    Fault(
        "base file longer",
        "files.replaced",
        lambda p: newest_file(p).write_bytes(newest_file(p).read_bytes() + b"12345678"),
        True,
        kinds=("cow",),
        lost=6,
    ),
    Fault("footer damaged", "files.corrupt", _turn_footer, True, ("cow",), lost=6),
    Fault("footer damaged under logs", "files.corrupt", _turn_footer, True, ("mor",), lost=3),
    Fault(
        "magic of a log damaged", "files.corrupt", lambda p: _turn(newest_file(p, log=True), 1), True, ("mor",), lost=3
    ),
    Fault("page damaged", "files.corrupt", lambda p: _turn(newest_file(p), 200, 30), True, ("cow",), full=True, lost=6),
    Fault("a file of no commit", "files.intruder", _intruder, True),
    Fault("a file of no instant", "files.stranger", _stranger, True),
    Fault("a log of no instant", "files.stranger", lambda p: _stranger(p, log=True), True, ("mor",)),
    Fault("no metafile", "files.no_metafile", lambda p: (p / "a/.hoodie_partition_metadata").unlink(), True),
    Fault("notes in a partition", "files.unknown", lambda p: add(p, "a/notes.txt", "mine")),
    Fault(
        "logs wait",
        "files.logs_waiting",
        lambda p: None,
        kinds=("mor",),
        options={"hoodie.compact.inline.max.delta.commits": "1"},
    ),
    Fault("keys twice", "keys.duplicate", lambda p: _again(p, "a"), True),
    Fault("keys in two partitions", "keys.across", lambda p: _again(p, "b"), True),
    Fault("metadata table gone", "metadata.unusable", lambda p: shutil.rmtree(p / ".hoodie/metadata"), True),
    Fault("metadata table cut", "metadata.unusable", _damaged_metadata, True),
    Fault("metadata table lacks a commit", "metadata.unusable", _lacks_commit, True),
    Fault("old version gone", "metadata.files", _cleaned_away, True),
    Fault(
        "index begun",
        "metadata.unfinished",
        lambda p: set_property(p, hoodie__table__metadata__partitions__inflight="bloom_filters"),
    ),
    Fault(
        "index dropped by half", "metadata.leftover", lambda p: add(p, ".hoodie/metadata/bloom_filters/x", "x"), True
    ),
    Fault("lock of a dead process", "lock.dead", _dead_lock, True),
    Fault("old lock", "lock.old", lambda p: add(p, ".hoodie/lock", "thread 1", age_s=7200)),
    Fault("lock held", "lock.held", lambda p: add(p, ".hoodie/lock", "thread 1")),
    Fault("broken lock", "leftovers.locks", lambda p: add(p, ".hoodie/lock.broken.1", "x"), True),
    Fault(
        "markers left", "leftovers.markers", lambda p: add(p, ".hoodie/.temp/20200101000000000/a/x.marker.CREATE"), True
    ),
    Fault("staging left", "leftovers.staging", lambda p: add(p, ".hoodie/.hudi_py/20200101000000000/files/a/x"), True),
    Fault("heartbeat left", "leftovers.heartbeats", lambda p: add(p, ".hoodie/.heartbeat/20200101000000000"), True),
    Fault(
        "repair killed",
        "repair.unfinished",
        lambda p: add(p, ".hoodie/.hudi_py_repair/20200101000000-abcdef/kept/a/x", "x"),
    ),
    Fault(
        "repair kept",
        "repair.kept",
        lambda p: add(
            p,
            ".hoodie/.hudi_py_repair/20200101000000-abcdef/repair.json",
            json.dumps({"state": "done", "steps": [], "timeline": []}),
        ),
    ),
    Fault(
        "keys of a generator that is not written with",
        "release.read_only",
        lambda p: set_property(p, hoodie__table__keygenerator__type="GLOBAL_DELETE"),
    ),
)
BY_NAME: Final = {fault.name: fault for fault in FAULTS}
MENDED: Final = [
    (fault.name, version, kind)
    for fault in FAULTS
    if fault.mended
    for version in fault.versions
    for kind in fault.kinds
]
"""Name of a fault that a repair mends, version and kind of the table."""


def _garbage_clean(path: Path) -> None:
    instant = now(path)
    layout = layout_for(load_table_config(open_storage(path)))
    state(path, f"{instant}_{int(instant) + 1}.clean" if layout.version == 2 else f"{instant}.clean", b"garbage")
