"""Log compaction from plan to commit, on small tables in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConflictError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.log import BlockType, HeaderKey, read_blocks
from hudi_py.merge import LogMemory
from hudi_py.model.instant import Action
from hudi_py.model.names import parse_log_file_name
from hudi_py.services.compaction import Compaction, CompactionReport
from hudi_py.services.compaction.plan import LOG_COMPACTION_PLANS
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.service import pending_instants, run, run_all
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.transaction.metadata_drop import drop_metadata_table
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.tables import rows, write
from tests.golden import tables

ALWAYS = LogCompaction(always=True)
_ACTION = Action.LOG_COMPACTION


@pytest.fixture
def storage(request) -> MemoryStorage:
    return MemoryStorage(re.sub(r"\W+", "-", request.node.nodeid))


def make(storage: Storage, version: int = 9) -> None:
    """ids 0 to 9 in two partitions, then three log files each: updates, deletes, one of them put in again."""
    write(storage, rows(range(10), 1), "insert", version, "mor")
    write(storage, rows(range(6), 5), "upsert", version, "mor")
    write(storage, rows(range(2, 6), 9), "delete", version, "mor")
    write(storage, rows(range(4, 8), 3), "upsert", version, "mor")


def context(storage: Storage, options: Mapping[str, object] | None = None) -> ServiceContext:
    given = {"hoodie.log.compaction.blocks.threshold": 3, **(options or {})}
    found = ServiceContext.of(WriteTarget(storage, Options.resolve(given), NoMetadata()))
    clock = InstantClock(found.config(), skew_ms=0)
    return replace(found, session=replace(found.session, clock=clock))


def read(storage: Storage, **query: object) -> pa.Table:
    table = hudi_py.open_table(storage.uri, {"hoodie.metadata.enable": "false"}).scan(**query).to_table()  # type: ignore[arg-type]
    return table.sort_by("_hoodie_record_key")


def data_files(storage: Storage) -> set[str]:
    return {info.path for info in storage.walk() if not info.path.startswith(".hoodie/")}


def test_many_logs_become_one(storage: MemoryStorage) -> None:
    make(storage)
    before = read(storage)
    files = {info.path for info in storage.walk()}
    own = context(storage)
    scheduled = ALWAYS.schedule(own)
    assert pending_instants(ALWAYS, own) == [scheduled.instant]
    report = run(ALWAYS, own)
    assert (report.service, report.instant) == ("log_compaction", scheduled.instant)
    assert report.completion_time is not None
    assert read(storage).equals(before)
    added = [storage.stat(i.path) for i in storage.walk() if i.path not in files and not i.path.startswith(".hoodie/")]
    assert len(added) == 2
    for info in added:
        assert info is not None
        name = parse_log_file_name(info.name)
        assert name is not None
        assert (name.instant, name.version) == (scheduled.instant, 1)
        blocks = list(read_blocks(storage, info.path, info.size))
        assert [block.type for block in blocks] == [BlockType.AVRO, BlockType.DELETE]
        times = blocks[0].header[HeaderKey.COMPACTED_BLOCK_TIMES].split(",")
        assert len(times) == 3
        assert blocks[1].header[HeaderKey.COMPACTED_BLOCK_TIMES] == ",".join(times)
    # the originals are not needed any more
    for path in files:
        name = parse_log_file_name(path.rpartition("/")[2])
        if name is not None:
            storage.delete(path)
    with pytest.raises(CorruptFileError, match="is missing"):  # their instants mark the place of the new one
        read(storage)
    metadata = read_commit_metadata(storage, own.timeline().layout, own.timeline().write_completed[-1])
    assert (metadata.operation, metadata.compacted) == ("LOG_COMPACT", True)
    assert own.timeline().write_completed[-1].action is Action.DELTA_COMMIT


def test_later_writes_come_after_what_was_compacted(storage: MemoryStorage) -> None:
    make(storage)
    own = context(storage)
    assert ALWAYS.schedule(own).instant is not None
    write(storage, rows(range(1, 4), 7), "upsert", 9, "mor")
    before = read(storage)
    run(ALWAYS, own)
    assert read(storage).equals(before)
    write(storage, rows(range(0, 3), 4), "upsert", 9, "mor")  # too old, but where a delete took the key
    write(storage, rows(range(8, 10), 8), "delete", 9, "mor")
    before = read(storage)
    assert dict(zip(before["id"].to_pylist(), before["ts"].to_pylist(), strict=True)) == {
        0: 5, 1: 7, 2: 7, 3: 7, 4: 3, 5: 3, 6: 3, 7: 3,
    }  # fmt: skip
    # what was compacted is compacted again, and then taken into base files
    assert run(ALWAYS, own, ALWAYS.schedule(own).instant).instant is not None
    assert read(storage).equals(before)
    compaction = Compaction(always=True)
    run(compaction, own, compaction.schedule(own).instant)
    assert read(storage).drop_columns("_hoodie_file_name").equals(before.drop_columns("_hoodie_file_name"))
    assert read(storage, query_type="read_optimized").num_rows == before.num_rows


def test_a_log_larger_than_its_memory_is_written_in_parts(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(storage)
    before = read(storage)
    monkeypatch.setattr(LogMemory, "held", property(lambda _: 1))
    own = context(storage, {"hoodie.logfile.data.block.max.size": 1})
    report = run(ALWAYS, own, ALWAYS.schedule(own).instant)
    assert report.instant is not None
    assert read(storage).equals(before)


def test_when_nothing_is_due_the_reason_is_told(storage: MemoryStorage) -> None:
    make(storage)
    due = LogCompaction()
    assert (
        "4 delta commits since" in due.schedule(context(storage, {"hoodie.log.compaction.blocks.threshold": 5})).reason
    )
    none = due.schedule(context(storage, {"hoodie.log.compaction.blocks.threshold": 4}))
    assert "no file group has 4 log files or blocks" in none.reason
    own = context(storage)
    assert run(due, own, due.schedule(own).instant).instant is not None
    assert "1 delta commit since" in due.schedule(own).reason
    assert "no file group" in ALWAYS.schedule(own).reason


def test_groups_of_pending_plans_are_left_alone(storage: MemoryStorage) -> None:
    make(storage)
    own = context(storage)
    assert ALWAYS.schedule(own).instant is not None
    assert "apart from those in pending plans" in ALWAYS.schedule(own).reason
    ahead = Compaction(always=True)
    assert ahead.schedule(own).instant is not None  # as in Apache Hudi, a compaction does not wait


@pytest.mark.parametrize("completed", [False, True])
def test_a_plan_that_a_compaction_has_overtaken_is_removed(storage: MemoryStorage, completed: bool) -> None:
    """Its log files would belong to the slice that the compaction has opened, where readers pass them over. Apache Hudi
    1.2.0 refuses to carry it out."""
    make(storage)
    own = context(storage)
    planned = ALWAYS.schedule(own).instant
    ahead = Compaction(always=True)
    scheduled = ahead.schedule(own).instant
    if completed:
        run(ahead, own)
    before, files = read(storage), data_files(storage)
    report = run(ALWAYS, own, planned)
    assert (report.service, report.instant) == ("log_compaction", None)
    assert f"the logcompaction {planned} was removed: later compactions cover the logs" in report.reason
    assert [i.time for i in own.timeline().pending] == ([] if completed else [scheduled])
    assert data_files(storage) == files
    assert not [info for info in storage.walk() if planned in info.name and not info.name.endswith(".parquet")]
    if not completed:
        run(ahead, own)
    assert read(storage).drop_columns("_hoodie_file_name").equals(before.drop_columns("_hoodie_file_name"))


def test_of_a_plan_that_is_overtaken_in_part_the_rest_is_carried_out(storage: MemoryStorage) -> None:
    make(storage)
    own = context(storage)
    planned = ALWAYS.schedule(own).instant
    assert planned is not None
    groups = {
        each.partition_path for each in LOG_COMPACTION_PLANS.existing(storage, own.timeline(), planned).operations
    }
    assert len(groups) == 2
    one = sorted(groups)[0]
    strategy = {
        "hoodie.compaction.strategy": "PartitionRegexBasedCompactionStrategy",
        "hoodie.compaction.partition.path.regex": one,
    }
    ahead, compaction = context(storage, strategy), Compaction(always=True)
    assert run(compaction, ahead, compaction.schedule(ahead).instant).instant is not None
    before = read(storage)
    report = run(ALWAYS, own, planned)
    assert (report.instant, report.num_file_groups) == (planned, 1)
    (left,) = LOG_COMPACTION_PLANS.existing(storage, own.timeline(), planned).operations
    assert left.partition_path != one
    assert read(storage).equals(before)
    assert "no file group" in run_all(ALWAYS, own).reason


def test_one_that_is_under_way_is_not_removed(storage: MemoryStorage) -> None:
    make(storage)
    own = context(storage)
    planned = ALWAYS.schedule(own).instant
    assert planned is not None
    work = ALWAYS.begin(own, planned)
    ahead = Compaction(always=True)
    run(ahead, own, ahead.schedule(own).instant)
    before = read(storage)
    with pytest.raises(ConflictError, match="is running it"):
        run(ALWAYS, own, planned)
    assert ALWAYS.commit(own, work, ALWAYS.execute(own, work, range(work.num_tasks))).instant == planned
    assert read(storage).equals(before)


def test_what_would_be_lost_is_refused_by_name(storage: MemoryStorage) -> None:
    make(storage, 6)
    with pytest.raises(UnsupportedTableError, match="its version is 6"):
        ALWAYS.schedule(context(storage))


@pytest.mark.parametrize(
    "name", ["v8_mor_many_logs", "v9_mor_logcompaction", "v9_mor_multi_ordering", "v9_mor_is_deleted"]
)
def test_tables_of_apache_hudi(name: str, tmp_path) -> None:
    path = tables.load()[name].extract(tmp_path)
    own_storage = LocalStorage(str(path))
    before = read(own_storage)
    own = context(own_storage, {"hoodie.log.compaction.blocks.threshold": 2})
    assert run(ALWAYS, own, ALWAYS.schedule(own).instant).instant is not None
    assert read(own_storage).equals(before)


def test_partial_updates(tmp_path) -> None:
    path = tables.load()["v9_mor_merge_into_partial"].extract(tmp_path)
    last = max(file.name for file in path.glob(".hoodie/timeline/*.commit"))[:17]  # the compaction of the table
    for file in [
        *path.glob(f".hoodie/timeline/{last}*"),
        *path.glob(f"*_{last}.parquet"),
        *path.glob(f".*_{last}.log*"),
    ]:
        file.unlink()
    own_storage = LocalStorage(str(path))
    drop_metadata_table(own_storage, drop_indexes=True)
    before = read(own_storage).drop_columns("_hoodie_file_name")
    own = context(own_storage, {"hoodie.log.compaction.blocks.threshold": 1})
    assert run(ALWAYS, own, ALWAYS.schedule(own).instant).instant is not None
    assert read(own_storage).drop_columns("_hoodie_file_name").equals(before)
    compaction = Compaction(always=True)
    report = run(compaction, own, compaction.schedule(own).instant)
    assert isinstance(report, CompactionReport)
    assert (report.num_log_files, report.num_file_groups) == (5, 1)
    assert read(own_storage).drop_columns("_hoodie_file_name").equals(before)
    assert read(own_storage, query_type="read_optimized").drop_columns("_hoodie_file_name").equals(before)


def test_we_carry_out_a_plan_of_apache_hudi(tmp_path) -> None:
    """As the table was before Apache Hudi carried its plan out, which gives the rows new commit times."""
    stamped = ["_hoodie_commit_time", "_hoodie_commit_seqno"]
    path = tables.load()["v9_mor_logcompaction"].extract(tmp_path)
    storage = LocalStorage(str(path))
    folder = path / ".hoodie" / "timeline"
    (plan,) = folder.glob("*.logcompaction.requested")
    instant = plan.name.partition(".")[0]
    theirs = read_commit_metadata(
        storage,
        context(storage).timeline().layout,
        context(storage).timeline().find(instant, Action.LOG_COMPACTION),  # type: ignore[arg-type]
    )
    before = read(storage)
    for file in [*folder.glob(f"{instant}_*"), *folder.glob(f"{instant}.*inflight"), *path.glob(f".*_{instant}.log*")]:
        file.unlink()
    assert read(storage).drop_columns(stamped).equals(before.drop_columns(stamped))
    before = read(storage)
    own = context(storage)
    assert pending_instants(ALWAYS, own) == [instant]
    run(ALWAYS, own)
    assert read(storage).equals(before)
    timeline = own.timeline()
    ours = read_commit_metadata(storage, timeline.layout, timeline.find(instant, Action.LOG_COMPACTION))  # type: ignore[arg-type]
    for own_stat, their_stat in zip(ours.stats, theirs.stats, strict=True):
        assert own_stat.compacted is not None
        assert their_stat.compacted is not None
        assert replace(own_stat.compacted, read_ms=0) == replace(their_stat.compacted, read_ms=0)
        for name in ("file_id", "prev_commit", "num_writes", "num_updates", "num_inserts", "num_deletes", "base_file"):
            assert getattr(own_stat, name) == getattr(their_stat, name), name
