"""Archiving whole tables, and keeping the archive in order."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import CorruptFileError
from hudi_py.formats.log import BlockType, read_blocks
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.services.archive import ArchiveReport, archive, lsm, v1
from hudi_py.services.archive.lsm import HistoryEntry
from hudi_py.services.context import ServiceContext
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.archived import ArchivedInstant, archive_files, archive_folder, archived_instants
from hudi_py.timeline.clean_records import (
    CleanMetadata,
    CleanPlan,
    RetainedInstant,
    encode_clean_metadata,
    encode_clean_plan,
)
from hudi_py.timeline.history import ArchiveQuery, HistoryFile, Manifest, newest_manifest, read_history, read_manifest
from hudi_py.timeline.metadata import RollbackMetadata, RollbackPlan, encode_rollback_metadata, encode_rollback_plan
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.records import decode_record, encode_record
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.tables import rows, write
from tests.support.archiving import archiving

FEW = archiving(min_commits=2, max_commits=3, cleaner_commits=1, compaction_commits=1)
FOLDER = "history"


def memory() -> MemoryStorage:
    return MemoryStorage(uuid.uuid4().hex)


def run(storage: Storage, settings: Options = FEW) -> ArchiveReport:
    return archive(ServiceContext.of(WriteTarget(storage, settings, NoMetadata())))


def archived(storage: Storage) -> list[ArchivedInstant]:
    return archived_instants(storage, load_table_config(storage), ArchiveQuery(metadata=True, plans=True))


def table(root: Path, version: int, kind: str, commits: int) -> LocalStorage:
    storage = LocalStorage(str(root))
    for number in range(commits):
        write(storage, rows(range(4), number), "upsert" if number else "insert", version, kind)
    return storage


def rebuild(storage: Storage, version: int, names: dict[str, bytes]) -> None:
    """A table which is a timeline and nothing else."""
    layout = 1 if version < 8 else 2
    lines = [
        "hoodie.table.name=t",
        "hoodie.table.type=COPY_ON_WRITE",
        f"hoodie.table.version={version}",
        f"hoodie.timeline.layout.version={layout}",
        "hoodie.table.timeline.timezone=UTC",
    ]
    storage.put(".hoodie/hoodie.properties", "\n".join(lines).encode())
    for name, content in names.items():
        storage.put(f".hoodie/{'' if layout < 2 else 'timeline/'}{name}", content)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.sampled(3)
def test_archived_instants_stay_reachable(tmp_path: Path, version: int, kind: str) -> None:
    storage = table(tmp_path, version, kind, 5)
    before = hudi_py.open_table(str(tmp_path))
    history = before.history(archived=True)
    commits = before.timeline.write_completed
    begin = commits[0].time if version == 6 else commits[0].completion_time
    changed = before.scan(query_type="incremental", begin=begin).to_table()
    report = run(storage)
    assert (report.num_instants, report.instant, report.oldest) == (3, commits[2].time, commits[0].time)
    assert report.num_files_deleted == 9
    assert report.reason == ""
    assert report.to_dict()["files_written"] == report.files_written
    after = hudi_py.open_table(str(tmp_path))
    assert [instant.time for instant in after.timeline.completed] == [commits[3].time, commits[4].time]
    assert after.history(archived=True).equals(history)
    options = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
    again = after.scan(query_type="incremental", begin=begin, options=options).to_table()
    assert again.sort_by("id").equals(changed.sort_by("id"))
    nothing = run(storage)
    assert nothing.instant is None
    assert nothing.reason == "the active timeline has 2 commits and may have up to 3"


@pytest.mark.parametrize("version", [6, 9])
def test_plans_and_results_are_archived(version: int) -> None:
    storage = memory()
    times = [f"2024010100000{number}000" for number in range(10)]
    commit = b'{"operationType": "UPSERT", "extraMetadata": {"a": "b"}}'
    plan = encode_clean_plan(CleanPlan("KEEP_LATEST_COMMITS", RetainedInstant(times[9], "commit")))
    clean = encode_clean_metadata(CleanMetadata(times[1], 5, times[9], times[0]))
    rollback = encode_rollback_metadata(RollbackMetadata(times[2], 1, "20230101000000000", "commit"))
    names: dict[str, bytes] = {}

    def add(number: int, action: str, requested: bytes, inflight: bytes, content: bytes, pending: str = "") -> None:
        time = times[number]
        done = time if version < 8 else f"{time}_{time[:-1]}5"
        names[f"{time}.{pending or action}.requested"] = requested
        names[f"{time}.inflight" if action == "commit" and not pending else f"{time}.{pending or action}.inflight"] = (
            inflight
        )
        names[f"{done}.{action}"] = content

    add(0, "commit", b"", commit, commit)
    add(1, "clean", plan, b"", clean)
    add(2, "rollback", encode_rollback_plan(RollbackPlan("20230101000000000", "commit")), b"", rollback)
    add(3, "replacecommit", b"", commit, commit)
    for number in (4, 5, 6, 7):
        add(number, "commit", b"", b"", b"" if number == 4 else commit)
    rebuild(storage, version, names)
    storage.put(".hoodie/.temp/" + times[0] + "/p/f.parquet.marker.CREATE", b"")
    run(storage, archiving(min_commits=2, max_commits=3, cleaner_commits=1))
    found = {instant.time: instant for instant in archived(storage)}
    # On layout 1, cleans and rollbacks stay until there are many of them
    along = () if version < 8 else (times[1], times[2])
    assert list(found) == sorted((times[0], *along, *times[3:6]))
    assert json.loads(found[times[0]].metadata or b"")["extraMetadata"] == {"a": "b"}
    assert found[times[4]].metadata is None
    if version >= 8:
        assert found[times[1]].plan == plan
        assert found[times[2]].metadata == rollback
        assert found[times[2]].plan is None
        assert found[times[3]].plan == commit  # what the inflight file holds
    assert storage.list(".hoodie/.temp") == []


def test_both_states_of_a_clean_hold_its_plan() -> None:
    storage = memory()
    plan = encode_clean_plan(CleanPlan("KEEP_LATEST_COMMITS"))
    clean = encode_clean_metadata(CleanMetadata("20240101000000000", 5))
    names = {}
    for number in range(6):
        time = f"2024010100000{number}000"
        names |= {f"{time}.clean.requested": plan, f"{time}.clean.inflight": b"", f"{time}.clean": clean}
    rebuild(storage, 6, names)
    assert run(storage).num_instants == 4
    (file,) = archive_files(storage, ".hoodie/archived")
    (found,) = list(read_blocks(storage, file[1].path, file[1].size))[:1]
    assert found.type is BlockType.AVRO
    first = archived(storage)[0]
    assert first.plan is not None
    assert decode_record(first.plan, "")["policy"] == "KEEP_LATEST_COMMITS"


@pytest.mark.parametrize("version", [6, 9])
def test_an_instant_that_cannot_be_read_stops_the_archive(version: int) -> None:
    storage = memory()
    names = {}
    for number in range(6):
        time = f"2024010100000{number}000"
        name = f"{time}.commit" if version < 8 else f"{time}_{time[:-1]}5.commit"
        names |= {f"{time}.commit.requested": b"", f"{time}.inflight": b"", name: b"{"}
    rebuild(storage, version, names)
    if version < 8:
        with pytest.raises(CorruptFileError, match=r"Cannot archive .*20240101000000000\.commit"):
            run(storage)
        assert len(storage.list(".hoodie")) == 19
    else:
        assert run(storage).num_instants == 4  # taken as it is
    for broken in (b'{"partitionToWriteStats": 3}', b"[]", b'{"compacted": "yes"}', b'{"extraMetadata": {"a": 1}}'):
        names = {name: broken if name.endswith(".commit") else content for name, content in names.items()}
        other = memory()
        rebuild(other, 6, {name.replace("_", "."): content for name, content in names.items()} if version < 8 else {})
        if version < 8:
            with pytest.raises(CorruptFileError, match="expected a"):
                run(other)


@pytest.mark.parametrize("version", [6, 9])
def test_limits_that_other_files_tell(version: int) -> None:
    """Pending rollbacks, the metadata table."""
    times = [f"202401010000{number:02}000" for number in range(12)]
    names: dict[str, bytes] = {}
    for time in times[:8]:
        name = f"{time}.commit" if version < 8 else f"{time}_{time[:-1]}5.commit"
        names |= {f"{time}.commit.requested": b"", f"{time}.inflight": b"", name: b'{"operationType": "UPSERT"}'}
    plain = memory()
    rebuild(plain, version, names)
    assert run(plain).num_instants == 6

    undoing = memory()
    plan = encode_rollback_plan(RollbackPlan(times[3], "commit"))
    rebuild(undoing, version, names | {f"{times[9]}.rollback.requested": plan})
    assert run(undoing).instant == times[2]
    untold = memory()
    rebuild(untold, version, names | {f"{times[9]}.rollback.inflight": b""})
    assert run(untold).instant == times[5]

    mirrored = memory()
    rebuild(mirrored, version, names)
    with_metadata = mirrored.read(".hoodie/hoodie.properties") + b"\nhoodie.table.metadata.partitions=files"
    mirrored.put(".hoodie/hoodie.properties", with_metadata)
    assert run(mirrored).reason.startswith("the metadata table has not been compacted yet (")
    own = memory()
    rebuild(own, version, {f"{times[4]}.commit" if version < 8 else f"{times[4]}_{times[4][:-1]}5.commit": b""})
    for info in own.walk():
        mirrored.put(f".hoodie/metadata/{info.path}", own.read(info.path))
    assert run(mirrored).instant == times[3]


def entries(first: int, last: int) -> list[HistoryEntry]:
    return [
        HistoryEntry(f"2024010100{n:04}000", f"2024010100{n:04}500", "commit", b"m%d" % n, b"p" if n % 2 else None)
        for n in range(first, last)
    ]


def test_runs_of_the_history() -> None:
    storage = memory()
    added = lsm.append_run(storage, FOLDER, entries(0, 3))
    assert added.name == "20240101000000000_20240101000002000_0.parquet"
    assert storage.read("history/_version_") == b"1"
    assert newest_manifest(storage, FOLDER) == Manifest(1, (added,))
    with storage.open_input(f"history/{added.name}") as source:
        file = pq.ParquetFile(source)
        assert [column.name for column in file.schema] == [
            "instantTime",
            "completionTime",
            "action",
            "metadata",
            "plan",
            "version",
        ]
        assert json.loads(file.metadata.metadata[b"parquet.avro.schema"])["name"] == "HoodieLSMTimelineInstant"
        assert file.read().column("version").to_pylist() == [1, 1, 1]
        assert file.metadata.row_group(0).column(0).compression == "GZIP"
    found = read_history(storage, FOLDER, ArchiveQuery(metadata=True, plans=True))
    assert [(i.metadata, i.plan, i.action) for i in found] == [
        (b"m0", None, Action.COMMIT),
        (b"m1", b"p", Action.COMMIT),
        (b"m2", None, Action.COMMIT),
    ]


def test_levels_of_the_history() -> None:
    storage = memory()
    compacted = 0
    for number in range(27):
        lsm.append_run(storage, FOLDER, entries(number, number + 1))
        compacted += lsm.compact_levels(storage, FOLDER, batch=3, target_bytes=1 << 30)
        assert len(read_history(storage, FOLDER)) == number + 1
    (run_,) = newest_manifest(storage, FOLDER).runs
    assert run_.name == "20240101000000000_20240101000026000_3.parquet"
    stat = storage.stat(f"history/{run_.name}")
    assert stat is not None
    assert run_.size == stat.size
    assert compacted == 9 + 3 + 1
    assert lsm.clean_versions(storage, FOLDER, retained=3) > 30
    assert sorted(info.name for info in storage.list(FOLDER) if info.name.startswith("m")) == [
        "manifest_38",
        "manifest_39",
        "manifest_40",
    ]
    named = {run.name for version in (38, 39, 40) for run in read_manifest(storage, FOLDER, version).runs}
    assert {info.name for info in storage.list(FOLDER) if info.name.endswith("t")} == named
    assert lsm.clean_versions(storage, FOLDER, retained=3) == 0
    assert len(read_history(storage, FOLDER, ArchiveQuery(metadata=True))) == 27


def test_large_runs_are_not_compacted() -> None:
    storage = memory()
    runs = [lsm.append_run(storage, FOLDER, entries(number, number + 1)) for number in range(4)]
    # Two exceed it together: they are merged, and the others stay
    assert lsm.compact_levels(storage, FOLDER, batch=3, target_bytes=runs[0].size) == 1
    assert [run.level for run in newest_manifest(storage, FOLDER).runs] == [0, 0, 1]
    storage = memory()
    runs = [lsm.append_run(storage, FOLDER, entries(number, number + 1)) for number in range(4)]
    assert lsm.compact_levels(storage, FOLDER, batch=3, target_bytes=1) == 0
    assert newest_manifest(storage, FOLDER).runs == tuple(runs)


def test_the_manifest_is_as_apache_hudi_writes_it() -> None:
    assert Manifest(0, ()).encode() == b'{\n  "files" : [ ]\n}'
    text = Manifest(2, (HistoryFile("1_2_0.parquet", 5), HistoryFile("3_4_1.parquet", 6))).encode()
    assert text == (
        b'{\n  "files" : [ {\n    "fileName" : "1_2_0.parquet",\n    "fileLen" : 5\n  }, {\n'
        b'    "fileName" : "3_4_1.parquet",\n    "fileLen" : 6\n  } ]\n}'
    )


def test_a_version_that_was_never_published_is_written_again() -> None:
    storage = memory()
    first = lsm.append_run(storage, FOLDER, entries(0, 1))
    storage.put("history/manifest_2", b"torn")
    second = lsm.append_run(storage, FOLDER, entries(1, 2))
    assert newest_manifest(storage, FOLDER) == Manifest(2, (first, second))
    storage.delete("history/_version_")
    assert newest_manifest(storage, FOLDER).version == 2
    storage.delete("history/manifest_2")
    storage.put("history/_version_", b"2")
    with pytest.raises(CorruptFileError, match="names manifest_2, which is missing"):
        newest_manifest(storage, FOLDER)


def six_commits(storage: Storage) -> tuple[str, list[str]]:
    """Makes a table of version 9 whose timeline has six commits; the folder of its archive, and their times."""
    times = [f"2024010100000{number}000" for number in range(6)]
    names = {}
    for time in times:
        names |= {f"{time}.commit.requested": b"", f"{time}.inflight": b"", f"{time}_{time[:-1]}5.commit": b"{}"}
    rebuild(storage, 9, names)
    folder = archive_folder(load_table_config(storage))
    return folder, times


def test_a_version_file_that_went_back_stops_it() -> None:
    storage = memory()
    folder, times = six_commits(storage)
    for number in (1, 2):
        before = f"2023010100000{number}000"
        lsm.append_run(storage, folder, [HistoryEntry(before, before, "commit", b"{}", None)])
    manifest = storage.read(f"{folder}/manifest_2")
    storage.put(f"{folder}/_version_", b"1")
    with pytest.raises(CorruptFileError, match="names manifest_1, but manifest_2 lists"):
        run(storage)
    assert storage.read(f"{folder}/manifest_2") == manifest
    assert len([info for info in storage.list(".hoodie/timeline") if info.name.endswith(".commit")]) == len(times)


def test_a_run_of_the_same_name_is_not_replaced() -> None:
    storage = memory()
    folder, times = six_commits(storage)
    lsm.append_run(
        storage,
        folder,
        [
            HistoryEntry(times[0], times[0], "rollback", None, None),
            HistoryEntry(times[3], times[3], "rollback", None, None),
        ],
    )
    assert run(storage).num_instants == 3
    assert [instant.time for instant in archived(storage)] == [times[0], times[0], times[1], times[2], times[3]]


@pytest.mark.parametrize("version", [6, 9])
def test_what_was_archived_is_not_archived_twice(version: int) -> None:
    storage = memory()
    times = [f"2024010100000{number}000" for number in range(8)]
    names: dict[str, bytes] = {}
    for time in times:
        name = f"{time}.commit" if version < 8 else f"{time}_{time[:-1]}5.commit"
        names |= {f"{time}.commit.requested": b"", f"{time}.inflight": b"", name: b'{"operationType": "UPSERT"}'}
    rebuild(storage, version, names)
    assert run(storage).num_instants == 6
    # A process died before it deleted anything
    rebuild(storage, version, names)
    again = run(storage)
    assert (again.num_instants, again.files_written) == (6, ())
    # Another had deleted the pending files, and some completed ones: fewer commits than may stay are left
    rebuild(storage, version, {name: data for name, data in names.items() if name[:17] > times[5]})
    left = [name for name in names if times[3] < name[:17] <= times[5] and name.endswith(".commit")]
    rebuild(storage, version, {name: names[name] for name in left})
    assert len(load_timeline(storage, load_table_config(storage)).completed) == 4
    finished = run(storage)
    assert (finished.num_files_deleted, finished.files_written, finished.instant) == (2, (), None)
    assert len(archived(storage)) == 6


def small_files(storage: Storage, number: int) -> None:
    for at in range(number):
        names: dict[str, bytes] = {}
        for second in range(5):
            time = f"202401010{at:02}0{second}000"
            names |= {f"{time}.clean.requested": b"", f"{time}.clean.inflight": b"", f"{time}.clean": b""}
        rebuild(storage, 6, names)
        run(storage)


def test_small_archive_files_are_merged() -> None:
    storage = memory()
    small_files(storage, 4)
    files = archive_files(storage, ".hoodie/archived")
    assert [number for number, _ in files] == [1, 2, 3, 4]
    before = archived(storage)
    limit = files[0][1].size - 1
    assert v1.merge_small_files(storage, ".hoodie/archived", limit_bytes=limit, batch=2) == 0
    assert v1.merge_small_files(storage, ".hoodie/archived", limit_bytes=1 << 20, batch=5) == 0
    assert v1.merge_small_files(storage, ".hoodie/archived", limit_bytes=1 << 20, batch=4) == 4
    ((number, _),) = archive_files(storage, ".hoodie/archived")
    assert number == 5
    assert archived(storage) == before
    assert storage.stat(".hoodie/archived/mergeArchivePlan") is None


def test_merging_is_an_option() -> None:
    storage = memory()
    small_files(storage, 2)
    assert len(archive_files(storage, ".hoodie/archived")) == 2
    settings = archiving(min_commits=2, max_commits=3, merge=True, merge_batch=2)
    assert run(storage, settings).num_files_merged == 2


@pytest.mark.parametrize(
    ("there", "plan", "left"),
    [
        ("1234", "12>4", [1, 2, 3]),  # the merged file may be torn
        ("234", "12>4", [3, 4]),
        ("34", "12>4", [3, 4]),
        ("123", "12>4", [1, 2, 3]),
        ("23", "12>4", [2, 3]),  # no merged file: nothing to trust, nothing to delete
        ("12", "torn", [1, 2]),
    ],
)
def test_an_unfinished_merge_is_finished(there: str, plan: str, left: list[int]) -> None:
    storage = memory()
    folder = ".hoodie/archived"
    for number in there:
        storage.put(f"{folder}/.commits_.archive.{number}_1-0-1", b"")
    if plan == "torn":
        storage.put(f"{folder}/{v1.MERGE_PLAN}", b"Obj\x01")
    else:
        old, _, new = plan.partition(">")
        record = {
            "version": 1,
            "candidate": [f"file:/a/.commits_.archive.{number}_1-0-1" for number in old],
            "mergedArchiveFileName": f".commits_.archive.{new}_1-0-1",
        }
        storage.put(f"{folder}/{v1.MERGE_PLAN}", encode_record("HoodieMergeArchiveFilePlan", record))
    v1.finish_merge(storage, folder)
    assert [number for number, _ in archive_files(storage, folder)] == left
    assert storage.stat(f"{folder}/{v1.MERGE_PLAN}") is None


def test_what_another_engine_archived_after_an_unfinished_merge_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Hudi 1.2.0 leaves the plan alone and takes the next number, which the merged file was to have."""
    storage, folder = memory(), ".hoodie/archived"
    small_files(storage, 3)

    def killed(path: str) -> None:
        raise OSError(f"killed before {path} was begun")

    monkeypatch.setattr(MemoryStorage, "open_output", lambda self, path: killed(path))
    with pytest.raises(OSError, match="killed"):
        v1.merge_small_files(storage, folder, limit_bytes=1 << 20, batch=2)
    theirs = f"{folder}/.commits_.archive.4_1-0-1"
    storage.put(theirs, b"")
    v1.finish_merge(storage, folder)
    assert storage.stat(theirs) is not None


def test_archives_of_long_timelines_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_py.services.archive.service._INSTANTS_AT_ONCE", 3)
    for version in (6, 9):
        storage = memory()
        names: dict[str, bytes] = {}
        for number in range(10):
            time = f"2024010100000{number}000"
            name = f"{time}.commit" if version < 8 else f"{time}_{time[:-1]}5.commit"
            names |= {f"{time}.commit.requested": b"", f"{time}.inflight": b"", name: b'{"operationType": "UPSERT"}'}
        rebuild(storage, version, names)
        report = run(storage)
        assert (report.num_instants, len(report.files_written), report.num_files_deleted) == (8, 3, 24)
        assert len(archived(storage)) == 8


def test_the_folder_of_the_property_is_used() -> None:
    config = TableConfig({"hoodie.table.version": "6", "hoodie.archivelog.folder": "history"})
    assert archive_folder(config) == ".hoodie/history"
