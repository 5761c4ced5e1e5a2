"""Plans dropped: what goes with them, what stays, and what is refused."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, HistoryCleanedError
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.instant import Action, Instant, State
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.service import pending_instants, run, run_all
from hudi_py.services.planned.unschedule import UnscheduleReport, unschedule
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.registry import check_call
from hudi_py.storage import LocalStorage
from hudi_py.timeline.records import encode_record
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.owner.claim import claim_proof
from hudi_py.transaction.owner.identity import WriterIdentity, begin_work, end_work, new_writer_id, process_identity
from tests.faults.tables import data_files, leftovers, make_table, read, rows, write
from tests.unit.metadata_write import memory_tables
from tests.unit.services.recovering import context, of_action

VERSIONS = [6, 8, 9]
ALWAYS = Compaction(always=True)
LOGS = LogCompaction(always=True)
TWO = {"hoodie.log.compaction.blocks.threshold": "2"}
IMPATIENT = {"hoodie.client.heartbeat.interval_in_ms": "1", "hoodie.client.heartbeat.tolerable.misses": "1"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_is_dropped_and_made_anew(tmp_path, version):
    make_table(tmp_path, version, "mor")
    before, files = read(tmp_path), data_files(tmp_path)
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    assert unschedule(own, planned) == UnscheduleReport("unschedule", planned, plan="compaction")
    timeline = own.timeline()
    assert timeline.pending == ()
    assert of_action(timeline, Action.ROLLBACK) == []
    assert (read(tmp_path), data_files(tmp_path), leftovers(tmp_path)) == (before, files, set())
    with pytest.raises(ConfigError, match=f"^Cannot unschedule {planned} of .*: there is no such plan; pending: none$"):
        unschedule(own, planned)
    assert run_all(ALWAYS, own).num_file_groups == 2
    assert read(tmp_path) == before


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_the_plan_of_a_clustering_is_in_the_way_until_it_is_dropped(tmp_path, version, kind, begun):
    """Only Apache Hudi can run it."""
    make_table(tmp_path, version, kind)
    before, files = read(tmp_path), data_files(tmp_path)
    own = context(tmp_path, options=IMPATIENT)
    planned = own.session.clock.next_instant(own.timeline())
    layout = own.timeline().layout
    file_id = next(
        name.rpartition("/")[2].partition("_")[0] for name in files if name.endswith(".parquet") and name[:2] == "a/"
    )
    piece = {"fileId": file_id, "partitionPath": "a"}
    requested = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [piece]}]}}
    plan = encode_record("HoodieRequestedReplaceMetadata", requested)
    own.storage.put(layout.path(layout.requested_name(planned, Action.CLUSTERING)), plan)
    if begun:
        own.storage.put(layout.path(layout.inflight_name(planned, Action.CLUSTERING)), b"")
        written = f"a/{uuid.uuid4()}-0_0-1-0_{planned}.parquet"
        own.storage.put(written, b"x")
        own.storage.put(f".hoodie/.temp/{planned}/{written}.marker.CREATE", b"")
        time.sleep(0.01)
    told = f"in partition 'a': the pending clustering {planned} is about to replace it; run it"
    for operation in ("upsert", "delete", "insert_overwrite_table"):
        with pytest.raises(ConflictError, match=told):
            write(own.storage, rows(range(4), 3), operation, version, kind)
    report = unschedule(own, planned)
    assert (report.plan, report.rollback is not None) == ("clustering", begun)
    assert own.timeline().pending == ()
    assert (read(tmp_path), data_files(tmp_path), leftovers(tmp_path)) == (before, files, set())
    write(own.storage, rows(range(4), 3), "upsert", version, kind)
    assert read(tmp_path) != before


@pytest.mark.parametrize("version", [8, 9])
def test_rows_written_behind_it_stay_in_sight(tmp_path, version):
    make_table(tmp_path, version, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    write(own.storage, rows(range(3), 3), "upsert", version, "mor")
    after = read(tmp_path)
    unschedule(own, planned)
    assert read(tmp_path) == after
    assert run_all(ALWAYS, own).num_log_files == 4
    assert read(tmp_path) == after


def test_rows_that_would_be_lost_to_sight_refuse_it(tmp_path):
    """In table version 6 logs are named by the base instant of their slice, which a pending compaction opens."""
    make_table(tmp_path, 6, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    write(own.storage, rows(range(3), 3), "upsert", 6, "mor")
    after = read(tmp_path)
    with pytest.raises(
        ConflictError, match=r"2 log files written since, .*_" + planned + r"\.log.* no longer be found; run"
    ):
        unschedule(own, planned)
    assert pending_instants(ALWAYS, own) == [planned]
    assert read(tmp_path) == after
    # the reason for it: nothing else tells that these logs count
    own.storage.delete(f".hoodie/{planned}.compaction.requested")
    assert read(tmp_path) != after


def test_in_version_6_a_write_under_way_refuses_it(tmp_path):
    """It may be about to write to logs that the plan names."""
    make_table(tmp_path, 6, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    writing = own.session.clock.next_instant(own.timeline())
    writer = WriterIdentity(new_writer_id(), process_identity())
    begin_work(writer.id)
    claim_proof(own.storage, writing, writer)
    own.storage.put(f".hoodie/.heartbeat/{writing}", b"")
    own.storage.put(f".hoodie/{writing}.deltacommit.requested", b"")
    own.storage.put(f".hoodie/{writing}.deltacommit.inflight", b"")
    with pytest.raises(ConflictError, match=f"the deltacommit {writing} of writer {writer.id} .* is under way"):
        unschedule(own, planned)
    assert pending_instants(ALWAYS, own) == [planned]
    end_work(writer.id)
    unschedule(own, planned)
    assert own.timeline().pending == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_one_whose_files_are_gone(tmp_path, version):
    make_table(tmp_path, version, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    log = next(path for path in sorted(data_files(tmp_path)) if ".log." in path)
    own.storage.delete(log)
    with pytest.raises(HistoryCleanedError, match="unschedule it, or restore"):
        run(ALWAYS, own, planned)
    unschedule(own, planned)
    with pytest.raises(CorruptFileError, match="is missing"):
        run_all(ALWAYS, own)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_begun_is_rolled_back_first(tmp_path, version):
    make_table(tmp_path, version, "mor")
    before, files = read(tmp_path), data_files(tmp_path)
    service = Compaction(always=True, local=False)
    own = context(tmp_path)
    planned = service.schedule(own).instant
    work = service.begin(own, planned)
    service.execute(own, work, range(work.num_tasks))
    assert len(data_files(tmp_path) - files) == 2
    with pytest.raises(
        ConflictError, match=rf"^Cannot unschedule the compaction {planned} of .* is running it, its last sign of life"
    ):
        unschedule(own, planned)
    assert own.timeline().pending[0].state is State.INFLIGHT
    report = unschedule(context(tmp_path, options=IMPATIENT), planned)
    (done,) = of_action(own.timeline(), Action.ROLLBACK)
    assert report.rollback == done.time
    assert own.timeline().pending == ()
    assert (read(tmp_path), data_files(tmp_path), leftovers(tmp_path)) == (before, files, set())


def test_what_the_metadata_table_has_of_an_attempt_goes(tmp_path):
    """An attempt that died between the metadata table and its completed file, and was then taken back to the plan:
    once nothing on the timeline tells that it did not count, its files would be listed."""
    storage = LocalStorage(str(tmp_path))
    memory_tables.write(storage, memory_tables.rows(range(6), 1), "insert")
    memory_tables.write(storage, memory_tables.rows(range(3), 2))
    own = context(tmp_path, metadata=memory_tables.writer())
    planned = ALWAYS.schedule(own).instant
    work = ALWAYS.begin(own, planned)
    outcomes = ALWAYS.execute(own, work, range(work.num_tasks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InstantFiles, "complete", _fails)
        with pytest.raises(OSError, match="full"):
            ALWAYS.commit(own, work, outcomes)
    ALWAYS.give_up(own, work)
    assert own.timeline().pending[0].state is State.REQUESTED
    assert memory_tables.own_timeline(storage).find(planned) is not None
    assert unschedule(own, planned).rollback is not None
    assert memory_tables.own_timeline(storage).find(planned) is None
    memory_tables.check_listing(storage)
    assert verify(own).ok
    assert memory_tables.read(storage) == {0: 2, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}


_COMPLETE = InstantFiles.complete


def _fails(files: InstantFiles, *given: Any, **more: Any) -> Instant:
    if files.action is Action.DELTA_COMMIT:  # of the metadata table
        return _COMPLETE(files, *given, **more)
    raise OSError("the disk is full")


def test_a_log_compaction(tmp_path):
    make_table(tmp_path, 9, "mor")
    write(LocalStorage(str(tmp_path)), rows(range(4), 3), "upsert", 9, "mor")
    before, own = read(tmp_path), context(tmp_path, options=TWO)
    planned = LOGS.schedule(own).instant
    assert unschedule(own, planned).plan == "log_compaction"
    assert pending_instants(LOGS, own) == []
    assert run_all(LOGS, own).instant is not None
    assert read(tmp_path) == before


def test_a_clean_until_it_begins(tmp_path):
    make_table(tmp_path, 9, "cow")
    before = read(tmp_path)
    own = context(tmp_path, options={"hoodie.clean.commits.retained": "1"})
    for ts in (3, 4):
        write(own.storage, rows(range(4), ts), "upsert", 9, "cow")
    files = data_files(tmp_path)
    planned = Cleaning().schedule(own).instant
    assert unschedule(own, planned).plan == "clean"
    assert own.timeline().pending == ()
    planned = Cleaning().schedule(own).instant
    Cleaning().begin(own, planned)
    with pytest.raises(
        ConflictError, match="it has begun to delete files, which cannot be undone; run it to completion"
    ):
        unschedule(own, planned)
    assert data_files(tmp_path) == files
    assert run(Cleaning(), own, planned).num_files > 0
    assert len(read(tmp_path)) == len(before)


def test_what_is_no_plan_is_told(tmp_path):
    make_table(tmp_path, 9, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    done = own.timeline().write_completed[-1].time
    with pytest.raises(ConfigError, match=f"{done} of .* it is a completed deltacommit; only .*; pending: {planned}$"):
        unschedule(own, done)
    with pytest.raises(ConfigError, match="run the service unschedule without an instant"):
        check_call("unschedule", None, None)


def test_of_a_table(tmp_path):
    quiet = {"hoodie.clean.automatic": "false"}
    for ts in (1, 2):
        hudi_py.write(str(tmp_path), rows(range(4), ts), "upsert", quiet, record_key="id", table_type="mor")
    table = hudi_py.open_table(str(tmp_path))
    planned = table.compaction.schedule()
    text = f"<UnscheduleReport: unschedule {planned}: the compaction plan dropped>"
    assert repr(table.services.unschedule(planned)) == text
    assert table.services.pending().num_rows == 0
    assert table.metadata.verify().ok


def test_a_rollback_leaves_a_plan_to_be_dropped(tmp_path):
    """`rollback` of a service keeps its plan; the two together are its end."""
    make_table(tmp_path, 8, "mor")
    own = context(tmp_path)
    planned = ALWAYS.schedule(own).instant
    service = Compaction(local=False)
    work = service.begin(own, planned)
    service.execute(own, work, range(work.num_tasks))
    impatient = context(tmp_path, options=IMPATIENT)
    assert rollback(impatient, planned).plan_kept
    assert unschedule(impatient, planned).rollback is None
    assert own.timeline().pending == ()
