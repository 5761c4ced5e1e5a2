"""Indexes that are built while writers commit between the steps."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, ConflictError, RolledBackError, TableNotFoundError
from hudi_py.metadata.locations import read_scope
from hudi_py.metadata_write.maintenance.indexes import create_index, drop_index
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.partitions.named import IndexRequest
from hudi_py.metadata_write.table import beside, create
from hudi_py.metadata_write.table.beside import BesideWriters
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action, InstantTime, State
from hudi_py.model.names import BaseFileName
from hudi_py.services.context import ServiceContext
from hudi_py.services.indexing import Indexing, IndexingWork
from hudi_py.services.planned.service import execute_all, run, run_all
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.plans import IndexPartition, IndexPlan, decode_index_plan, encode_index_plan
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.records import decode_record
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.session import TableSession, WriteTarget
from tests.unit.metadata_write import memory_tables
from tests.unit.metadata_write.test_concurrent_writers import pending, roll_back

NONE = {"hoodie.metadata.index.async": "true"}
LAYOUTS = [(9, "mor"), (8, "cow"), (6, "cow"), (6, "mor")]
OWN = "record_index,column_stats,bloom_filters"


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"indexing-{uuid.uuid4().hex}")


def write(storage: MemoryStorage, ids: range, ts: int, operation: str = "upsert", **given: object) -> str:
    with suppress(TableNotFoundError):
        config = load_table_config(storage)
        given = {"version": config.version, "kind": "mor" if config.is_mor else "cow", **given}
    given = {"options": NONE, **given}
    return memory_tables.write(storage, memory_tables.rows(ids, ts), operation, **given).instant  # type: ignore[arg-type]


def made(storage: MemoryStorage, version: int, kind: str) -> None:
    write(storage, range(8), 1, "insert", version=version, kind=kind)
    write(storage, range(4, 12), 2, version=version, kind=kind)


def context(storage: MemoryStorage, options: Mapping[str, str] | None = None) -> ServiceContext:
    given = {**memory_tables.QUICK, "hoodie.metadata.index.check.timeout.seconds": "0", **(options or {})}
    resolved = Options.resolve(given, defaults={})
    return ServiceContext.of(
        WriteTarget(storage, resolved, memory_tables.writer(options), clock=memory_tables.clock(storage))
    )


def there(storage: MemoryStorage) -> set[str]:
    config = load_table_config(storage)
    assert not config.metadata_partitions_inflight
    return {*config.metadata_partitions}


def check(storage: MemoryStorage, expected: Mapping[int, int], *names: str) -> None:
    """Rows are as expected, and each index is what a rebuild would make."""
    assert {*names} <= there(storage)
    assert memory_tables.read(storage) == memory_tables.read(storage, {"hoodie.metadata.enable": "false"}) == expected
    memory_tables.check_listing(storage)
    report = verify(context(storage))
    assert report.ok, report
    assert {each.partition for each in report.partitions} == there(storage)
    assert not [each for each in memory_tables.timeline(storage).pending if each.action is Action.INDEXING]


@contextmanager
def between(*steps: Callable[[], object]) -> Iterator[list[str]]:
    """Calls one after the other between the steps of a build that are taken without the lock: before a partition is
    filled, before and after each of its base files, and at the end. Yields the names of the partitions filled."""
    left, filled = list(steps), list[str]()
    fill, stepping = BesideWriters.fill, threading.Lock()

    def step() -> None:
        with stepping:  # base files are written in several threads
            if left:
                left.pop(0)()

    def slow(self: BesideWriters, opened: create.OpenedPartitions, check: Callable[[], None]) -> None:
        filled.extend(opened.names)
        step()

        def stepped() -> None:
            step()
            check()

        fill(self, opened, stepped)
        step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BesideWriters, "fill", slow)
        yield filled
    assert not left, "not every step was reached"


@pytest.mark.parametrize(("version", "kind"), LAYOUTS[:3])
@pytest.mark.parametrize("shift", range(3))
@pytest.mark.sampled(4)
def test_writers_commit_between_all_steps(storage: MemoryStorage, version: int, kind: str, shift: int) -> None:
    made(storage, version, kind)
    changes: list[Callable[[], object]] = [
        lambda: write(storage, range(10, 16), 3),
        lambda: write(storage, range(2), 3, "delete"),
        lambda: write(storage, range(2, 6), 4),
        lambda: write(storage, range(16, 18), 4, "insert"),
    ]
    changes = [*changes[shift:], *changes[:shift]]
    if version != 6:
        create_index(context(storage, {"hoodie.metadata.global.record.level.index.enable": "true"}), by_name())
    names = f"{OWN},partition_stats" if version != 6 else OWN
    with between(*changes):
        report = run_all(Indexing(names), context(storage))
    assert report.instant is not None
    expected = {**dict.fromkeys(range(2, 8), 1), **dict.fromkeys(range(4, 12), 2), **dict.fromkeys(range(10, 16), 3)}
    expected |= {**dict.fromkeys(range(2, 6), 4), 16: 4, 17: 4}
    check(storage, expected, *names.split(","))
    write(storage, range(20), 9)
    check(storage, dict.fromkeys(range(20), 9), *names.split(","))


def by_name() -> IndexRequest:
    return IndexRequest("by_name", "name")


@pytest.mark.parametrize(("version", "kind"), LAYOUTS[:2])
def test_named_indexes_are_built_beside_writers(storage: MemoryStorage, version: int, kind: str) -> None:
    made(storage, version, kind)
    wanted = {"hoodie.metadata.global.record.level.index.enable": "true"}
    with between(
        lambda: write(storage, range(10, 16), 3),
        lambda: write(storage, range(2), 3, "delete"),
    ) as filled:
        assert create_index(context(storage, wanted), by_name())
    assert filled == ["record_index", "secondary_index_by_name"]
    day = IndexRequest("day", "ts", "column_stats", {"expr": "from_unixtime", "format": "yyyy-MM-dd"})
    with between(lambda: write(storage, range(3, 5), 4)):
        assert create_index(context(storage), day)
    expected = {**dict.fromkeys(range(2, 8), 1), **dict.fromkeys(range(4, 12), 2), **dict.fromkeys(range(10, 16), 3)}
    check(storage, {**expected, 3: 4, 4: 4}, "record_index", "secondary_index_by_name", "expr_index_day")
    assert not create_index(context(storage), day, if_not_exists=True)
    assert drop_index(context(storage), "day")


@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow")])
@pytest.mark.parametrize("before", [True, False])
def test_a_writer_that_does_not_know_is_noticed(
    storage: MemoryStorage, version: int, kind: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some of Apache Hudi."""
    made(storage, version, kind)
    writing = pending(storage, [20, 22], 5, NONE)
    if before:
        writing.__enter__()

    def commit() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("hudi_py.metadata_write.writer.fed", lambda *_: ())
            if not before:
                writing.__enter__()
            writing.__exit__(None, None, None)

    with between(commit) as filled:
        run_all(Indexing("record_index"), context(storage))
    assert filled == ["record_index", "record_index"]
    expected = {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2), 20: 5, 22: 5}
    check(storage, expected, "record_index")


def test_a_writer_that_began_before_and_knows_is_not_waited_for(storage: MemoryStorage) -> None:
    made(storage, 9, "mor")
    with pending(storage, [20, 22], 5, NONE):
        with between() as filled:
            run_all(Indexing("record_index,column_stats"), context(storage))
        assert filled == ["column_stats", "record_index"]
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2), 20: 5, 22: 5}, "record_index")


def test_in_version_6_failed_writes_are_rolled_back_first(storage: MemoryStorage) -> None:
    made(storage, 6, "mor")
    writing = pending(storage, [20, 22], 5, NONE)
    transaction = writing.__enter__()
    with pytest.raises(ConflictError, match="under way"):
        run_all(Indexing("record_index"), context(storage))
    transaction.rest()
    end_work(transaction.handle.writer.id)
    run_all(Indexing("record_index"), context(storage))
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, "record_index")


@pytest.mark.parametrize(("version", "kind"), LAYOUTS[:3])
def test_a_commit_that_is_undone_meanwhile_is_not_in_the_index(storage: MemoryStorage, version: int, kind: str) -> None:
    made(storage, version, kind)
    gone = write(storage, range(30, 34), 5)
    with between(lambda: write(storage, range(20, 22), 6)):
        run_all(Indexing("bloom_filters"), context(storage))
    newest = write(storage, range(20, 22), 7)

    def undo_and_write() -> None:
        roll_back(storage, newest)
        write(storage, range(22, 24), 8)

    with between(undo_and_write):
        run_all(Indexing(OWN), context(storage))
    expected = {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2), **dict.fromkeys(range(30, 34), 5)}
    check(storage, {**expected, 20: 6, 21: 6, 22: 8, 23: 8}, *OWN.split(","))
    assert gone


def test_one_that_is_written_and_undone_meanwhile(storage: MemoryStorage) -> None:
    made(storage, 9, "mor")
    with between(lambda: roll_back(storage, write(storage, range(20, 24), 6))) as filled:
        run_all(Indexing(OWN), context(storage))
    assert len(filled) == 3
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, *OWN.split(","))


@pytest.mark.parametrize(("version", "kind"), LAYOUTS[:3])
def test_one_of_the_index_that_is_undone_afterwards(storage: MemoryStorage, version: int, kind: str) -> None:
    made(storage, version, kind)
    newest = write(storage, range(20, 24), 6)
    run_all(Indexing(OWN), context(storage))
    roll_back(storage, newest)
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, *OWN.split(","))


def test_files_that_are_cleaned_meanwhile(storage: MemoryStorage) -> None:
    made(storage, 9, "cow")
    cleaned = {**NONE, "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}

    def clean() -> None:
        write(storage, range(12), 5)
        hudi_py.open_table(storage.uri, cleaned).clean()

    with between(clean) as filled:
        run_all(Indexing("record_index"), context(storage))
    assert filled == ["record_index", "record_index"]
    check(storage, dict.fromkeys(range(12), 5), "record_index")


def test_after_many_changes_it_is_built_under_the_lock(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    made(storage, 9, "mor")
    monkeypatch.setattr(beside, "_why_unrecorded", lambda *_: "a made-up writer" if len(filled) < 3 else "")
    with between() as filled:
        run_all(Indexing("record_index"), context(storage))
    assert filled == ["record_index"] * 3
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, "record_index")


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.parametrize("filled", [False, True])
def test_one_that_died_is_undone_and_its_plan_resumed_or_dropped(
    storage: MemoryStorage, version: int, kind: str, filled: bool
) -> None:
    made(storage, version, kind)
    service, builder = Indexing(OWN), BesideWriters(Options.resolve({}, defaults={}))

    def begun() -> IndexingWork:
        work = service.schedule_and_begin(context(storage))
        assert isinstance(work, IndexingWork)
        with context(storage).locked("open") as table:
            opened = builder.open(table.session, table.timeline, work.stages[0], work.instant)
        if filled:
            builder.fill(opened, lambda: None)
        return work

    def left() -> list[str]:
        return [name for name in OWN.split(",") if storage.list(f".hoodie/metadata/{name}")]

    first = begun()
    with pytest.raises(ConflictError, match="is running it"):
        run(service, context(storage), first.instant)
    write(storage, range(10, 12), 3)
    assert {*load_table_config(storage).metadata_partitions_inflight} == {*left()} == {*OWN.split(",")}
    end_work(first.attempt.owner.id)
    write(storage, range(12, 14), 3)
    assert (there(storage), left()) == ({"files"}, [])
    assert [each.state for each in memory_tables.timeline(storage).pending] == [State.REQUESTED]
    assert not memory_tables.own_timeline(storage).pending
    assert run_all(service, context(storage)).instant == first.instant
    expected = {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 10), 2), **dict.fromkeys(range(10, 14), 3)}
    check(storage, expected, *OWN.split(","))


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
def test_one_that_died_is_dropped_or_resumed_before_a_write(storage: MemoryStorage, version: int, kind: str) -> None:
    made(storage, version, kind)
    service, builder = Indexing(OWN), BesideWriters(Options.resolve({}, defaults={}))

    def died() -> InstantTime:
        work = service.schedule_and_begin(context(storage))
        assert isinstance(work, IndexingWork)
        with context(storage).locked("open") as table:
            builder.open(table.session, table.timeline, work.stages[0], work.instant)
        write(storage, range(10, 14), 3)
        end_work(work.attempt.owner.id)
        return work.instant

    assert unschedule(context(storage), died()).plan == "indexing"
    expected = {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 10), 2), **dict.fromkeys(range(10, 14), 3)}
    check(storage, expected, "files")
    assert there(storage) == {"files"}
    assert not [name for name in OWN.split(",") if storage.list(f".hoodie/metadata/{name}")]
    assert not hudi_py.open_table(storage.uri).indexes.list().num_rows
    second = died()
    assert run_all(service, context(storage)).instant == second
    check(storage, expected, *OWN.split(","))


def test_one_that_wakes_up_while_it_writes_a_file_leaves_none(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(storage, 9, "mor")
    service, write_file = Indexing("bloom_filters"), create._write_base_file
    work = service.schedule_and_begin(context(storage))
    assert isinstance(work, IndexingWork)
    late: list[str] = []

    def slept(own: TableSession, partition: str, name: BaseFileName, rows: pa.Table) -> WriteStat:
        with sleeping:
            if not late:
                late.append(str(name))
                end_work(work.attempt.owner.id)
                monkeypatch.setattr(create, "_write_base_file", write_file)
                run(Indexing(), context(storage), work.instant)
        return write_file(own, partition, name, rows)

    sleeping = threading.Lock()
    monkeypatch.setattr(create, "_write_base_file", slept)
    with pytest.raises(RolledBackError, match="given up"):
        execute_all(service, context(storage), work)
    names = [info.name for info in storage.list(".hoodie/metadata/bloom_filters") if info.name.endswith("hfile")]
    assert late
    assert len(names) == len({name.partition("_")[0] for name in names})
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, "bloom_filters")


def test_keys_that_repeat_refuse_a_record_index(storage: MemoryStorage) -> None:
    made(storage, 9, "cow")
    write(storage, range(2), 3, "bulk_insert")
    with pytest.raises(ConfigError, match="is in several file groups"):
        create_index(context(storage), IndexRequest("record_index", "", "record_index"))
    assert there(storage) == {"files"}
    assert not hudi_py.open_table(storage.uri).services.pending().num_rows
    assert not hudi_py.open_table(storage.uri).indexes.list().num_rows


def test_keys_that_repeat_meanwhile_refuse_it_too(storage: MemoryStorage) -> None:
    made(storage, 9, "cow")
    index = IndexRequest("record_index", "", "record_index")
    with between(lambda: write(storage, range(2), 3, "bulk_insert")), pytest.raises(ConfigError, match="several file"):
        create_index(context(storage), index)
    assert there(storage) == {"files"}
    write(storage, range(2), 3, "delete")
    with between(lambda: write(storage, range(2), 4), lambda: write(storage, range(20, 22), 4, "bulk_insert")):
        create_index(context(storage), index)
    state = hudi_py.open_table(storage.uri)._state()
    scope = read_scope(storage)
    assert scope is not None
    assert scope.is_unique(state.config, state.timeline)


def test_plans(storage: MemoryStorage) -> None:
    service = Indexing("record_index")
    write(storage, range(8), 1, "insert")
    assert [row["partition"] for row in service.preview(context(storage)).rows] == [".hoodie/metadata/record_index"]
    instant = service.schedule(context(storage)).instant
    assert service.schedule(context(storage)).reason == f"record_index is in the pending plan {instant}"
    found = hudi_py.open_table(storage.uri).services.pending().to_pylist()
    assert [(row["service"], row["instant"], row["state"], row["partition"]) for row in found] == [
        ("indexing", instant, "REQUESTED", ".hoodie/metadata/record_index")
    ]
    assert create_index(context(storage), IndexRequest("record_index", "", "record_index"))
    assert service.schedule(context(storage)).reason == "the table has every index that is asked for"
    assert run(service, context(storage)).reason == "no plan is pending"
    with pytest.raises(ConfigError, match="hudi-py does not maintain it"):
        Indexing("vectors").schedule(context(storage))
    with pytest.raises(ConfigError, match="make it with Table.index"):
        Indexing("secondary_index_none").schedule(context(storage))
    with pytest.raises(ConfigError, match="it needs column_stats"):
        Indexing("partition_stats").schedule(context(storage))
    with pytest.raises(ConfigError, match=r"hoodie\.metadata\.enable is false"):
        Indexing("bloom_filters").schedule(context(storage, {"hoodie.metadata.enable": "false"}))


def test_a_plan_whose_index_exists_is_removed(storage: MemoryStorage) -> None:
    write(storage, range(8), 1, "insert")
    instant = Indexing("record_index").schedule(context(storage)).instant
    hudi_py.open_table(storage.uri, memory_tables.QUICK).metadata.rebuild("record_index")
    report = run(Indexing(), context(storage), instant)
    assert report.reason == f"the indexing {instant} was removed: the table has all of its partitions"
    check(storage, dict.fromkeys(range(8), 1), "record_index")


def test_writes_leave_indexes_to_the_service(storage: MemoryStorage) -> None:
    options = {"hoodie.metadata.index.async": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
    write(storage, range(4), 1, "insert", options=options)
    write(storage, range(2, 6), 2, options=options)
    assert there(storage) == {"files"}
    due = {each.service: each for each in hudi_py.open_table(storage.uri, options).services.due()}
    assert due["indexing"].reason == "column_stats, record_index, partition_stats to build"
    report = hudi_py.open_table(storage.uri, {**memory_tables.QUICK, **options}).indexing.schedule_and_run()
    assert report.partitions == ("column_stats", "record_index", "partition_stats")
    write(storage, range(4, 8), 3, options=options)
    expected = {0: 1, 1: 1, 2: 2, 3: 2, **dict.fromkeys(range(4, 8), 3)}
    check(storage, expected, "column_stats", "record_index", "partition_stats")


@pytest.mark.parametrize("version", [8, 9])
def test_what_a_dead_indexer_of_apache_hudi_left_is_built_again(
    storage: MemoryStorage, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets readers use a partition before it has caught up."""
    made(storage, version, "mor")
    time = "20200101000000000"
    plan = IndexPlan((IndexPartition("bloom_filters", "1"),))
    folder = ".hoodie/timeline"
    storage.put(f"{folder}/{time}.indexing.requested", encode_index_plan(plan))
    storage.put(f"{folder}/{time}.indexing.inflight", b"")
    update_table_config(storage, {"hoodie.table.metadata.partitions": "bloom_filters,files"})
    storage.put(".hoodie/metadata/bloom_filters/.hoodie_partition_metadata", b"")
    with pytest.raises(ConflictError, match="another engine is running it"):
        run(Indexing(), context(storage))
    with monkeypatch.context() as patch:
        for module in ("services.indexing", "transaction.recovery.failed_writes"):
            patch.setattr(f"hudi_py.{module}.now_ms", lambda: now_ms() + 3_600_000)
        work = Indexing().begin(context(storage), InstantTime(time))
    assert execute_all(Indexing(), context(storage), work).partitions == ("bloom_filters",)
    check(storage, {**dict.fromkeys(range(4), 1), **dict.fromkeys(range(4, 12), 2)}, "bloom_filters")


def test_a_writer_waits_for_the_file_groups_of_another_engine(storage: MemoryStorage) -> None:
    made(storage, 9, "mor")
    time = "20200101000000000"
    plan = IndexPlan((IndexPartition("bloom_filters", "1"),))
    storage.put(f".hoodie/timeline/{time}.indexing.requested", encode_index_plan(plan))
    storage.put(f".hoodie/timeline/{time}.indexing.inflight", b"")
    update_table_config(storage, {"hoodie.table.metadata.partitions.inflight": "bloom_filters"})
    with pytest.raises(ConflictError, match="about to create the partition bloom_filters"):
        write(storage, range(2), 5)


def test_plans_are_those_of_apache_hudi() -> None:
    plan = IndexPlan((IndexPartition("bloom_filters", "20261126131954917"),))
    data = encode_index_plan(plan)
    assert decode_index_plan(data) == plan
    assert decode_record(data, "a plan") == {
        "version": 1,
        "indexPartitionInfos": [
            {
                "version": 1,
                "metadataPartitionPath": "bloom_filters",
                "indexUptoInstant": "20261126131954917",
                "extraMetadata": {},
            }
        ],
    }
