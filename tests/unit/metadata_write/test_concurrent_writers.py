"""The metadata table while writes of several writers are pending on its table."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConflictError
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.instant import Action
from hudi_py.model.operation import Operation
from hudi_py.services.context import ServiceContext
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.conflicts import ConflictPolicy, SingleWriter
from hudi_py.transaction.recovery.rollback import rollback_instant
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.api import TableArguments, write_options
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import run_operation
from hudi_py.write.settings import write_settings
from tests.unit.metadata_write import memory_tables

KEEPS = {"hoodie.metadata.enable": "false", "hoodie.metadata.auto.delete.partitions": "false"}
"""Keeps a metadata table up to date, but makes none."""
LAYOUTS = [(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow"), (9, "mor")]


@dataclass(frozen=True, slots=True)
class Several:
    """Lets writes go on side by side, whatever they write to."""

    one_at_a_time: bool = False

    def check_begin(self, table: object, scope: object) -> None: ...

    def check_plan(self, table: object, scope: object) -> None: ...

    def check_commit(self, table: object, scope: object) -> None: ...


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"concurrent-{uuid.uuid4().hex}")


def session_of(storage: MemoryStorage, options: Mapping[str, str], conflicts: ConflictPolicy) -> TableSession:
    config = load_table_config(storage)
    session = TableSession.open(
        storage,
        memory_tables.writer(options),
        config=config,
        settings=TransactionSettings.of(Options.resolve(dict(options), defaults={})),
        clock=memory_tables.clock(storage),
    )
    return replace(session, conflicts=conflicts)


@contextmanager
def pending(
    storage: MemoryStorage, ids: Iterable[int], ts: int, options: Mapping[str, str] | None = None
) -> Iterator[WriteTransaction]:
    """An upsert whose files are written; it commits at the end of the block, unless it was rolled back."""
    given = {**memory_tables.QUICK, **(options or {})}
    session = session_of(storage, options or {}, cast(ConflictPolicy, Several()))
    resolved = write_options(given, TableArguments(record_key="id", partition_by="p", ordering_by="ts"))
    data = memory_tables.rows(ids, ts)
    action = Operation.UPSERT.action(session.config)
    transaction = WriteTransaction.begin(session, action=action, operation="UPSERT")
    settings = write_settings(transaction.view, data.schema, Operation.UPSERT, resolved)
    result = run_operation(WriteContext(transaction, settings), iter(data.to_batches()), Operation.UPSERT)
    yield transaction
    transaction.commit(OperationResult(result.stats), schema_json=settings.schema.avro_json)


def roll_back(storage: MemoryStorage, instant: str) -> None:
    with session_of(storage, {}, cast(ConflictPolicy, Several())).locked("roll back") as table:
        (found,) = [each for each in table.timeline.instants if each.time == instant]
        rollback_instant(table, found)


def check(storage: MemoryStorage, expected: Mapping[int, int]) -> None:
    assert memory_tables.read(storage) == memory_tables.read(storage, {"hoodie.metadata.enable": "false"}) == expected
    memory_tables.check_listing(storage)
    report = verify(context(storage))
    assert report.ok, report


def context(storage: MemoryStorage, conflicts: ConflictPolicy | None = None) -> ServiceContext:
    session = session_of(storage, {}, conflicts or SingleWriter())
    return ServiceContext(session, Options.resolve({}, defaults={}))


def partitions(storage: MemoryStorage) -> tuple[str, ...]:
    return tuple(load_table_config(storage).metadata_partitions)


def deltas(storage: MemoryStorage) -> set[str]:
    own = memory_tables.own_timeline(storage).completed
    return {instant.time for instant in own if instant.action is Action.DELTA_COMMIT}


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.sampled(3)
def test_two_pending_writes_are_recorded_in_the_order_of_their_commits(
    storage: MemoryStorage, version: int, kind: str
) -> None:
    index = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version, kind=kind, options=index)
    before = partitions(storage)
    with pending(storage, [0, 2, 4], 2) as first:
        with pending(storage, [1, 3], 3) as second:
            assert partitions(storage) == before
        assert second.instant in deltas(storage)
        assert first.instant not in deltas(storage)
        assert memory_tables.read(storage) == {0: 1, 1: 3, 3: 3}
    assert {first.instant, second.instant} <= deltas(storage)
    assert partitions(storage) == before
    check(storage, {0: 2, 1: 3, 2: 2, 3: 3, 4: 2})
    memory_tables.write(storage, memory_tables.rows(range(5), 9), version=version, kind=kind)
    check(storage, dict.fromkeys(range(5), 9))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
def test_a_metadata_table_is_made_beside_a_pending_write_where_its_files_can_be_told(
    storage: MemoryStorage, version: int, kind: str
) -> None:
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version, kind=kind, options=KEEPS)
    assert not partitions(storage)
    with pending(storage, [0, 2], 2, KEEPS):
        with pending(storage, [1, 3], 3):
            assert ("files" in partitions(storage)) is (version >= 8)
        assert memory_tables.read(storage) == {0: 1, 1: 3, 3: 3}
    assert ("files" in partitions(storage)) is (version >= 8)
    assert memory_tables.read(storage) == {0: 2, 1: 3, 2: 2, 3: 3}
    memory_tables.write(storage, memory_tables.rows([5], 5), version=version, kind=kind)
    check(storage, {0: 2, 1: 3, 2: 2, 3: 3, 5: 5})


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.sampled(3)
def test_a_damaged_metadata_table_is_made_anew_beside_a_pending_write_where_its_files_can_be_told(
    storage: MemoryStorage, version: int, kind: str
) -> None:
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version, kind=kind)
    with pending(storage, [0, 2], 2):
        storage.delete_tree(".hoodie/metadata/column_stats")
        with pytest.warns(UserWarning, match="is rebuilt"), pending(storage, [1, 3], 3):
            assert ("files" in partitions(storage)) is (version >= 8)
    memory_tables.write(storage, memory_tables.rows([5], 5), version=version, kind=kind)
    assert {"files", "column_stats"} <= set(partitions(storage))
    check(storage, {0: 2, 1: 3, 2: 2, 3: 3, 5: 5})


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.sampled(3)
def test_rolling_back_a_dead_write_leaves_a_pending_one_alone(storage: MemoryStorage, version: int, kind: str) -> None:
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version, kind=kind, options=KEEPS)
    dead = pending(storage, [0, 2], 2, KEEPS).__enter__()
    with pending(storage, [1, 3], 3):
        roll_back(storage, dead.instant)
    memory_tables.write(storage, memory_tables.rows([5], 5), version=version, kind=kind)
    check(storage, {0: 1, 1: 3, 3: 3, 5: 5})


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.sampled(3)
def test_a_rollback_that_needs_a_new_metadata_table_beside_a_pending_write(
    storage: MemoryStorage, version: int, kind: str
) -> None:
    """The metadata table was made with the files of what is rolled back."""
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version, kind=kind, options=KEEPS)
    undone = memory_tables.write(storage, memory_tables.rows([0, 2], 2), version=version, kind=kind, options=KEEPS)
    rebuild(context(storage), names=("files",))
    with pending(storage, [1, 3], 3):
        assert undone.instant is not None
        roll_back(storage, undone.instant)
        assert ("files" in partitions(storage)) is (version >= 8)
        assert memory_tables.read(storage) == {0: 1, 1: 1}
    memory_tables.write(storage, memory_tables.rows([7], 7), version=version, kind=kind)
    check(storage, {0: 1, 1: 3, 3: 3, 7: 7})


@pytest.mark.parametrize(("version", "names"), [(6, None), (9, None), (9, ("record_index",))])
def test_rebuilding_beside_a_pending_write(storage: MemoryStorage, version: int, names: tuple[str, ...] | None) -> None:
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=version)
    several = context(storage, cast(ConflictPolicy, Several()))
    with pending(storage, [0, 2], 2) as write:
        if version == 6:
            with pytest.raises(ConflictError, match=f"the writes {write.instant} are under way"):
                rebuild(several, names=names)
        else:
            assert {*(names or ("files",))} <= {*rebuild(several, names=names)}
    check(storage, {0: 2, 1: 1, 2: 2})


def test_rebuilding_waits_for_the_only_writer(storage: MemoryStorage) -> None:
    memory_tables.write(storage, memory_tables.rows([0, 1], 1), version=9)
    with pending(storage, [0, 2], 2) as write, pytest.raises(ConflictError, match=f"{write.instant} .* is under way"):
        rebuild(context(storage))


BESIDE = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
"""Options of writers beside each other, with statistics of columns."""


@pytest.mark.slow
@pytest.mark.parametrize("version", [8, 9])
def test_bounds_of_a_partition_where_the_earlier_request_completes_last(tmp_path: Path, version: int) -> None:
    """The metadata table keeps records in the order of requests, so those of the later one must not hide its rows."""
    path = tmp_path / "t"
    options = BESIDE

    def data(first: int) -> pa.Table:
        return pa.table({"id": [f"{first}-{n}" for n in range(3)], "p": ["a"] * 3, "x": [first, first + 1, first + 2]})

    hudi_py.write(path, data(0), "bulk_insert", options, record_key="id", partition_by="p", table_version=version)
    late = data(1000)

    def slow() -> Iterator[pa.RecordBatch]:
        assert hudi_py.write(path, data(500), "bulk_insert", options).instant
        yield from late.to_batches()

    done = hudi_py.write(path, pa.RecordBatchReader.from_batches(late.schema, slow()), "bulk_insert", options)
    table = hudi_py.open_table(path, {"hoodie.metadata.enable": "true"})
    assert done.instant < table.timeline.completed[-1].time
    assert [table.scan(filter=f"x = {value}").count() for value in (1, 501, 1001)] == [1, 1, 1]
    assert "partition stats" in table.scan(filter="x = 5000").explain()
    assert table.metadata.verify().ok
    hudi_py.write(path, data(2000), "bulk_insert", options)
    assert table.metadata.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.long)])
def test_bounds_that_are_united_hold_every_value(tmp_path: Path, version: int) -> None:
    """While a write is pending, bounds of others only widen those before them. Of the bytes of decimals, 3.00, 7.00 and
    1.10 ascend if they are taken for signed ones, as in Java, which orders texts by UTF-16."""
    path = tmp_path / "t"
    options = {
        **BESIDE,
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.metadata.record.level.index.enable": "false",
    }
    kinds = {"id": pa.int64(), "p": pa.string(), "d": pa.decimal128(10, 2), "b": pa.binary(), "s": pa.string()}
    values = [
        (decimal.Decimal("3.00"), b"\x01", "a"),
        (decimal.Decimal("7.00"), b"\x7f", "\uffff"),
        (decimal.Decimal("1.10"), b"\x80", "\U00010000"),
        (decimal.Decimal("5.00"), b"\x02", "b"),
    ]

    def data(at: int) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(kinds, (at, "a", *values[at]), strict=True))], pa.schema(kinds.items()))

    hudi_py.write(path, data(0), "bulk_insert", options, record_key="id", partition_by="p", table_version=version)

    def slow() -> Iterator[pa.RecordBatch]:
        for at in (1, 2):
            hudi_py.write(path, data(at), "bulk_insert", options)
        yield from data(3).to_batches()

    hudi_py.write(path, pa.RecordBatchReader.from_batches(pa.schema(kinds.items()), slow()), "bulk_insert", options)
    table = hudi_py.open_table(path)
    for _ in range(2):
        for at, (number, data_, text) in enumerate(values):
            for condition in (f"d = {number}", f"b = X'{data_.hex()}'", f"s = '{text}'"):
                assert table.scan(filter=condition).to_table()["id"].to_pylist() == [at], condition
        assert table.metadata.verify().ok, str(table.metadata.verify())
        # what an overwrite replaces stays within the bounds; the next commits merge the log files of the metadata table
        for at in (0, 1, 2, 3):
            hudi_py.write(path, data(at), "bulk_insert" if at else "insert_overwrite", options)
    assert any(info.name.endswith(".hfile") for info in (path / ".hoodie/metadata/partition_stats").iterdir())
