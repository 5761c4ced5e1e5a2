"""Archives across engines: both archive alike, and each reads and goes on with what the other wrote."""

from __future__ import annotations

import io
import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.formats.log import HeaderKey, read_blocks, read_content
from hudi_py.services.archive import ArchiveReport, archive
from hudi_py.services.context import ServiceContext
from hudi_py.storage import LocalStorage
from hudi_py.timeline.archived import archive_files, archive_folder, archived_instants
from hudi_py.timeline.history import newest_manifest
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.tables import KINDS, rows, write
from tests.oracle.client import Oracle
from tests.support.archiving import archiving
from tests.support.choice import cases, in_turn

KEEP: Mapping[str, str] = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "2",
}
FEW = archiving(min_commits=2, max_commits=3, cleaner_commits=1, compaction_commits=2)
# What Java's class of write stats does not keep of an archived delta commit on layout 1
LOG_FIELDS = ("baseFile", "logFiles", "logOffset", "logVersion")


def archived_by_us(root: Path, settings: Options = FEW) -> ArchiveReport:
    return archive(ServiceContext.of(WriteTarget(LocalStorage(str(root)), settings, NoMetadata())))


def entries(root: Path) -> list[dict[str, Any]]:
    """The archive of a table as it is stored, in its order."""
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    folder = archive_folder(config)
    if config.layout >= 2:
        runs = newest_manifest(storage, folder).runs
        return [row for run in runs for row in pq.read_table(root / folder / run.name).to_pylist()]
    found: list[dict[str, Any]] = []
    for _, info in archive_files(storage, folder):
        for block in read_blocks(storage, info.path, info.size):
            schema = fastavro.parse_schema(json.loads(block.header[HeaderKey.SCHEMA]))
            stream = io.BytesIO(read_content(storage, block))
            _, number = struct.unpack(">ii", stream.read(8))
            for _ in range(number):
                stream.read(4)
                entry = fastavro.schemaless_reader(stream, schema)
                assert isinstance(entry, dict)
                found.append(without_log_fields(entry))
    return found


def without_log_fields(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["actionType"] == "deltacommit" and entry["hoodieCommitMetadata"]:
        for stats in entry["hoodieCommitMetadata"]["partitionToWriteStats"].values():
            for stat in stats:
                for name in LOG_FIELDS:
                    stat[name] = None
    return entry


def active(root: Path) -> set[str]:
    storage = LocalStorage(str(root))
    return {info.name for info in storage.list(load_table_config(storage).timeline_folder) if not info.is_dir}


def instants(oracle: Oracle, root: Path) -> dict[tuple[str, str], bool]:
    """Completed instants as Apache Hudi sees them, and whether they are archived. Pending names are left out."""
    return {
        (instant["requested"], instant["action"]): instant["archived"]
        for instant in oracle.timeline(root)
        if instant["action"] not in ("compaction", "logcompaction", "clustering")
    }


def ours(root: Path) -> dict[tuple[str, str], bool]:
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    found = {(i.time, i.action.value): True for i in archived_instants(storage, config)}
    timeline = hudi_py.open_table(str(root)).timeline
    return found | {(i.time, i.action.value): False for i in timeline.completed}


@in_turn("archiving", 0, 2)
@pytest.mark.parametrize(
    ("version", "kind"), cases([(6, "cow"), (6, "mor"), (8, "cow"), (9, "mor")], "both archive", 1)
)
def test_both_archive_alike(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Delta commits, compactions, an overwrite, cleans, and since table version 8 a rollback."""
    root = tmp_path / "t"
    options = {
        "hoodie.archive.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": str(kind == "mor").lower(),
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    for at in range(7):
        oracle.write(
            root,
            rows(range(0, 6, 2) if at == 2 else range(6), at),
            "insert_overwrite" if at == 2 else "upsert",
            key="id",
            ordering="ts",
            partition="p",
            type=kind,
            table_version=version,
            options=options,
        )
        if at == 1 and version >= 8:
            last = oracle.timeline(root)[-1]["requested"]
            oracle.call(root, f"rollback_to_instant(table => '{{table}}', instant_time => '{last}')")
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for copy in (theirs, mine):
        shutil.copytree(root, copy)
    oracle.call(
        theirs,
        "archive_commits(table => '{table}', min_commits => 2, max_commits => 3, retain_commits => 1, "
        "enable_metadata => false)",
    )
    report = archived_by_us(mine)
    assert report.num_instants > 4
    assert active(mine) == active(theirs)
    assert entries(mine) == entries(theirs)
    assert instants(oracle, mine) == instants(oracle, theirs)


@in_turn("services by turns", 2, 3)
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "each reads the archive", 1))
def test_each_reads_and_goes_on_with_the_archive_of_the_other(
    oracle: Oracle, tmp_path: Path, version: int, kind: str
) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    for at in range(6):
        write(storage, rows(range(at, at + 4), at), "upsert" if at else "insert", version, kind)
    all_before = instants(oracle, root)
    writes = hudi_py.open_table(str(root)).timeline.write_completed
    ends = [writes[at].time if version == 6 else str(writes[at].completion_time) for at in (0, 2)]
    before = oracle.read(root, begin=ends[0], end=ends[1])
    report = archived_by_us(root)
    assert report.num_instants == 4
    found = instants(oracle, root)
    assert found.keys() == all_before.keys()
    assert found == ours(root)
    assert sum(found.values()) == 4
    read = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
    if version >= 8:  # before, Apache Hudi looks at the active timeline alone
        after = oracle.read(root, begin=ends[0], end=ends[1], options=read)
        assert after.equals(before)
    mine = hudi_py.open_table(str(root)).scan(query_type="incremental", begin=ends[0], end=ends[1], options=read)
    assert ids(mine.to_table()) == ids(before)

    oracle.write(root, rows(range(2), 10), "upsert", options=KEEP)
    oracle.write(root, rows(range(2), 11), "upsert", options=KEEP)
    theirs = instants(oracle, root)
    assert len(theirs) == 8
    assert theirs.keys() > found.keys()
    assert sum(theirs.values()) > 4
    assert ours(root) == theirs

    for at in (20, 21):
        write(storage, rows(range(3), at), "upsert", version, kind)
    assert archived_by_us(root).num_instants >= 2
    last = instants(oracle, root)
    assert len(last) == 10
    assert ours(root) == last
    assert sum(last.values()) == 8
    times = "start_ts => '20000101000000000', end_ts => '29990101000000000'"
    shown = oracle.call(root, f"show_archived_commits(table => '{{table}}', limit => 20, {times})")
    assert {row["commit_time"] for row in shown} == {time for (time, _), archived in last.items() if archived}
    assert ids(oracle.read(root)) == ids(hudi_py.open_table(str(root)).scan().to_table())


@pytest.mark.nightly
def test_small_files_that_we_merge_are_read_and_gone_on_after(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    merging = archiving(min_commits=2, max_commits=3, cleaner_commits=1, merge=True, merge_batch=2)
    merged = 0
    for at in range(7):
        write(storage, rows(range(at, at + 4), at), "upsert" if at else "insert", 6, "cow")
        merged += archived_by_us(root, merging).num_files_merged
    assert merged == 2
    folder = archive_folder(load_table_config(storage))
    before = [number for number, _ in archive_files(storage, folder)]
    assert instants(oracle, root) == ours(root)
    for at in (10, 11):
        oracle.write(root, rows(range(2), at), "upsert", options=KEEP)
    assert [number for number, _ in archive_files(storage, folder)] > before
    assert instants(oracle, root) == ours(root)
    assert len(ours(root)) == 9


def ids(table: pa.Table) -> list[tuple[int, str, int]]:
    chosen = table.select(["id", "name", "ts"]).to_pylist()
    return sorted((row["id"], row["name"], row["ts"]) for row in chosen)


@pytest.mark.nightly
def test_levels_are_compacted_by_turns(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    settings = archiving(min_commits=1, max_commits=2, cleaner_policy="KEEP_LATEST_FILE_VERSIONS", compaction_batch=2)
    options = KEEP | {
        "hoodie.keep.min.commits": "1",
        "hoodie.keep.max.commits": "2",
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.timeline.compaction.batch.size": "2",
    }
    compacted = 0
    for at in range(8):
        if at % 4 < 2:
            write(storage, rows(range(3), at), "upsert" if at else "insert", 9, "cow")
            compacted += archived_by_us(root, settings).num_levels_compacted
        else:
            oracle.write(root, rows(range(3), at), "upsert", options=options)
    found = instants(oracle, root)
    assert len(found) == 8
    assert found == ours(root)
    assert compacted > 0
    levels = {run.level for run in newest_manifest(storage, archive_folder(load_table_config(storage))).runs}
    assert max(levels) >= 1


@in_turn("archiving", 1, 2)
@pytest.mark.parametrize(("version", "kind"), cases([(6, "cow"), (6, "mor"), (9, "mor")], "archive by turns", 1))
def test_tables_with_a_metadata_table_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Archiving after each commit: up to the last compaction of the metadata table, which is archived itself."""
    root = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    if kind == "mor":
        options |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    ours_alone = {
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    }
    for at in range(12):
        if at in (6, 7, 8):
            oracle.write(root, rows(range(6), at), "upsert", options=options)
        else:
            hudi_py.write(
                str(root),
                rows(range(6), at),
                "upsert",
                options | ours_alone,
                record_key="id",
                partition_by="p",
                ordering_by="ts",
                table_type=kind,
                table_version=version,
            )
    found = instants(oracle, root)
    assert found == ours(root)
    assert sum(found.values()) > 12
    assert sum(not archived for archived in found.values()) < 12
    metadata = instants(oracle, root / ".hoodie/metadata")
    assert sum(metadata.values()) > 12
    assert sum(not archived for archived in metadata.values()) < 25
    assert oracle.check(root)["problems"] == []
