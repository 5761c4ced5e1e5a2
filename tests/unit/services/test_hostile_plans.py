"""Plans, markers and statistics of commits that name what is no data file of the table, or lies outside of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, CorruptFileError, HudiError, UnsupportedTableError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.timeline.clean_records import CleanPlan, encode_clean_plan
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    InstantInfo,
    RestorePlan,
    RollbackPlan,
    RollbackRequest,
    encode_compaction_plan,
    encode_restore_plan,
    encode_rollback_plan,
)
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.owner.claim import claim_proof
from hudi_py.transaction.owner.identity import WriterIdentity, new_writer_id, process_identity
from hudi_py.transaction.publication import remove_unreported
from tests.support.hand_writes import begin, commit, new_table, write_base
from tests.support.sessions import recover, roll_back, session_of

LATER = InstantTime("20240102030405999")
DATA = "f1-0_0-1-2_20240102030405006.parquet"


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table with the partition `a`, and the link `out` to a folder with a data file of somebody else."""
    rows = pa.table({"id": ["1", "2"], "p": ["a", "a"]})
    path = tmp_path / "t"
    hudi_py.write(str(path), rows, record_key="id", partition_by="p", table_version=request.param)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / DATA).write_bytes(b"precious")
    (path / "out").symlink_to(theirs)
    return path


def files(table: Path) -> dict[str, bytes]:
    """Everything but the timeline."""
    found = {}
    for folder in (table, table.parent / "theirs"):
        for path in folder.rglob("*"):
            if path.is_file() and path.parent.name not in (".hoodie", "timeline"):
                found[str(path)] = path.read_bytes()
    return found | {"properties": (table / ".hoodie" / "hoodie.properties").read_bytes()}


def pending(table: Path, action: Action, content: bytes) -> None:
    storage = LocalStorage(str(table))
    InstantFiles(storage, layout_for(load_table_config(storage)), LATER, action).request(content)


BAD = [
    (".hoodie", "hoodie.properties"),
    (".hoodie/metadata/files", "files-0000-0_0-0-0_00000000000000010.hfile"),
    ("a", ".hoodie_partition_metadata"),
    ("a", "notes.txt"),
    ("../theirs", DATA),
    ("a/../../theirs", DATA),
    ("out", DATA),
]


@pytest.mark.parametrize(("partition", "name"), BAD)
def test_a_clean_or_rollback_deletes_data_files_of_the_table_only(table: Path, partition: str, name: str) -> None:
    before = files(table)
    paths = (f"{table}/{partition}/{name}",)
    pending(table, Action.CLEAN, encode_clean_plan(CleanPlan("KEEP_LATEST_COMMITS", files={partition: paths})))
    with pytest.raises(HudiError, match="Cannot run the clean 20240102030405999 ") as caught:
        hudi_py.open_table(str(table)).clean()
    assert isinstance(caught.value, UnsupportedTableError if partition == "out" else CorruptFileError)
    assert files(table) == before
    plan = RollbackPlan("20240102030405006", "commit", (RollbackRequest(partition, files_to_delete=paths),))
    pending(table, Action.ROLLBACK, encode_rollback_plan(plan))
    with pytest.raises(HudiError, match="Cannot run the rollback 20240102030405999 "):
        recover(LocalStorage(str(table)))
    assert files(table) == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("partition", [".hoodie/metadata", ".hoodie", "..", "out", "b"])
def test_partitions_are_removed_only_where_they_are_empty(table: Path, partition: str) -> None:
    rows = pa.table({"id": ["3"], "p": ["b/c"]})
    hudi_py.write(str(table), rows)  # `b` has no files, but a partition below it
    before = files(table)
    pending(table, Action.CLEAN, encode_clean_plan(CleanPlan("X", partitions_to_delete=(partition,))))
    if partition == "b":
        assert hudi_py.open_table(str(table)).clean().deleted_partitions == ()
    else:
        with pytest.raises(HudiError, match="Cannot run the clean"):
            hudi_py.open_table(str(table)).clean()
    after = files(table)
    assert {path: after.get(path) for path in before if "metadata/" not in path} == {
        path: content for path, content in before.items() if "metadata/" not in path
    }
    assert hudi_py.open_table(str(table)).scan().count() == 3


@pytest.mark.parametrize(("time", "action"), [("", "commit"), ("../../..", "commit"), ("2024", "tidy"), ("a/b", "")])
def test_rollbacks_and_restores_name_instants(table: Path, time: str, action: str) -> None:
    """Folders of running writes are named by the instant: an empty one would name those of all writes."""
    (table / ".hoodie" / ".temp" / "20240102030405007").mkdir(parents=True)
    pending(table, Action.ROLLBACK, encode_rollback_plan(RollbackPlan(time, action)))
    with pytest.raises(CorruptFileError, match="expected an instant"):
        recover(LocalStorage(str(table)))
    claim_proof(LocalStorage(str(table)), LATER, WriterIdentity(new_writer_id(), process_identity()))
    pending(table, Action.RESTORE, encode_restore_plan(RestorePlan("2024", (InstantInfo(time, action),))))
    with pytest.raises(CorruptFileError, match="Cannot run the restore .* expected an instant"):
        recover(LocalStorage(str(table)))
    assert (table / ".hoodie" / ".temp" / "20240102030405007").is_dir()


@pytest.mark.parametrize(
    ("partition", "file_id", "name"),
    [(".hoodie/metadata/files", "f1-0", DATA), ("a/../b", "f1-0", DATA), ("a", "x/f1-0", DATA), ("a", "f1-0", "x")],
)
def test_a_compaction_writes_file_groups_of_the_table_only(
    tmp_path: Path, partition: str, file_id: str, name: str
) -> None:
    table = tmp_path / "t"
    rows = pa.table({"id": ["1", "2"], "p": ["a", "a"]})
    hudi_py.write(str(table), rows, record_key="id", partition_by="p", table_type="MERGE_ON_READ")
    operation = CompactionOperation(partition, file_id, "20240102030405006", name, ())
    pending(table, Action.COMPACTION, encode_compaction_plan(CompactionPlan((operation,))))
    with pytest.raises(CorruptFileError, match="Cannot compact"):
        hudi_py.open_table(str(table)).compact()


def test_statistics_of_a_commit_and_markers_name_data_files() -> None:
    storage = MemoryStorage("hostile")
    config = new_table(storage, 9)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        storage.put("a/.f_1.log.1_0-1-0.cdc", b"1")
        commit(tx, [replace(stat, cdc_stats={"a/.f_1.log.1_0-1-0.cdc": 1})])
    properties = storage.read(".hoodie/hoodie.properties")
    storage.put("a/notes.txt", b"mine")
    for path in (".hoodie/hoodie.properties", "a/notes.txt"):
        marker = f".hoodie/.temp/20240102030405006/{path}.marker.CREATE"
        storage.put(marker, b"")
        with pytest.raises(CorruptFileError, match=f"by the marker of '{path}'"):
            remove_unreported(storage, InstantTime("20240102030405006"), set())
        storage.delete(marker)
    assert storage.read("a/notes.txt") == b"mine"
    session = session_of(storage)
    (written,) = session.timeline().completed
    path = session.layout.path(written.file_name)
    content = storage.read(path).replace(b"a/.f_1.log.1_0-1-0.cdc", b"./.hoodie/x.properties")
    storage.put(path, content)
    with pytest.raises(CorruptFileError, match="its plan names 'x.properties'"):
        roll_back(session, written)
    assert storage.read(".hoodie/hoodie.properties") == properties
    assert not any(i.action is Action.ROLLBACK for i in session.timeline().instants)


def test_nothing_is_written_through_a_link_that_leads_out_of_the_table(table: Path) -> None:
    theirs = table.parent / "theirs"
    before = set(os.listdir(theirs))
    with pytest.raises(UnsupportedTableError, match="Cannot write in .*/out: symbolic links lead from there to"):
        hudi_py.write(str(table), pa.table({"id": ["3"], "p": ["out"]}))
    assert set(os.listdir(theirs)) == before
    storage = LocalStorage(str(table))
    for delete in (storage.delete, storage.delete_tree, lambda path: storage.rename(path, "a/x")):
        with pytest.raises(UnsupportedTableError, match="outside of the table's folder"):
            delete(f"out/{DATA}")
    storage.delete_tree("out")  # the link itself
    assert set(os.listdir(theirs)) == before
    linked = table.parent / "linked"
    linked.symlink_to(table)  # a table may be reached by a link
    hudi_py.write(str(linked), pa.table({"id": ["3"], "p": ["a"]}))
    hudi_py.open_table(str(linked)).clean()
    with pytest.raises(ConfigError):
        storage.delete("../theirs/x")
