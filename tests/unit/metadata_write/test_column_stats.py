"""`column_stats` and `partition_stats` as they are kept up: by any history what the files themselves would tell."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pickle
import uuid
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.file_stats.columns import ALWAYS, IndexedColumn, ValueType
from hudi_py.file_stats.files import DataFile, ranges_of_file
from hudi_py.file_stats.ranges import ColumnRanges, column_ranges, merge_rows
from hudi_py.formats.avro import decode_values
from hudi_py.metadata import open_metadata
from hudi_py.metadata.keys import column_id, partition_id
from hudi_py.metadata.stats import partition_stats
from hudi_py.metadata.table import COLUMN_STATS, PARTITION_STATS, MetadataTable
from hudi_py.metadata_write.encoding.records import COLUMN_STATS_RECORD, SCHEMA_JSON, MetadataRecords
from hudi_py.metadata_write.encoding.stats_values import (
    FILE,
    _normalise_batch,
    removal_values,
    stats_values,
    stored_ranges,
)
from hudi_py.metadata_write.partitions.column_stats import ColumnStats
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.services.clean.service import Cleaning
from hudi_py.services.compaction.service import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run, run_all
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import WriteTarget
from hudi_py.view import FileSystemView, load_view
from tests.support import kept_up
from tests.support.choice import cases
from tests.support.statistics import made, plain

D = decimal.Decimal
NAN = float("nan")
COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "p", "ts", "x", "s", "d")


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"memory://{uuid.uuid4()}")


def rows(ids: list[int], ts: int, *, added: bool = False) -> pa.Table:
    columns = {
        "id": pa.array(ids, pa.int64()),
        "p": pa.array(["ab"[number % 2] for number in ids]),
        "ts": pa.array([ts] * len(ids), pa.int64()),
        "x": pa.array([[1.5 * ts, NAN, None, -0.0][(number + ts) % 4] for number in ids], pa.float64()),
        "s": pa.array([["a" * 5000, "\U0001f600", "\uffee", None][(number + ts) % 4] for number in ids]),
        "d": pa.array([D(number * ts).scaleb(-2) for number in ids], pa.decimal128(12, 2)),
    }
    if added:
        columns["more"] = pa.array([ts + number for number in ids], pa.int32())
    return pa.table(columns)


def shown(table: pa.Table) -> dict[tuple[str, str], tuple[Any, ...]]:
    """File and column to bounds and counts; floats as texts, NaN as it is stored."""

    def bound(struct: dict[str, Any] | None) -> Any:
        value = next((each for each in (struct or {}).values() if each is not None), None)
        if isinstance(value, float):
            return "inf" if value != value else str(value)
        return value

    return {
        (row[FILE], row["column"]): (
            bound(row["low"]),
            bound(row["high"]),
            row["values"],
            row["nulls"],
            row["type"],
        )
        for row in table.to_pylist()
    }


def opened(storage: Storage) -> tuple[MetadataTable, FileSystemView]:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    metadata = open_metadata(TableState(storage, config, timeline))
    assert metadata is not None
    return metadata, load_view(TableState(storage, config, timeline))


def live_files(view: FileSystemView, partition: str) -> list[DataFile]:
    return [
        DataFile.of(file)
        for piece in view.latest_slices(PartitionPath(partition))
        for file in (*((piece.base_file,) if piece.base_file is not None else ()), *piece.log_files)
    ]


def check(storage: Storage, columns: tuple[IndexedColumn, ...], *, exact: bool = True) -> None:
    """Statistics of the newest files are what the files tell, and those of partitions their union.

    Not `exact`: those of partitions count rows that were replaced since, too, as Apache Hudi's do.
    """
    metadata, view = opened(storage)
    first = load_table_config(storage).version < 9
    known = shown(stored_ranges(metadata, None, None))
    by_partition: dict[tuple[str, str], tuple[Any, ...]] = {}
    for partition in view.partitions():
        parts: list[ColumnRanges] = []
        for file in live_files(view, partition):
            asked = ranges_of_file(storage, file, columns)
            assert asked is not None
            parts.append(asked)
            table = pa.Table.from_batches([asked.rows]).add_column(0, FILE, pa.array([file.name] * len(asked)))
            for key, value in shown(table).items():
                found = known[key]
                assert _alike(found, value, first), (key, found, value)
        if parts:
            whole = merge_rows(pa.Table.from_batches([part.rows for part in parts]), columns)
            table = pa.Table.from_batches([whole.rows]).add_column(0, FILE, pa.array([str(partition)] * len(whole)))
            by_partition |= shown(table)
    if metadata.has(PARTITION_STATS):
        found_partitions = shown(stored_ranges(metadata, None, None, partition=PARTITION_STATS))
        for key, value in by_partition.items():
            found = found_partitions[key]
            if exact:
                assert _alike(found, value, first), (key, found, value)
            elif isinstance(value[0], int) or key[1] == "_hoodie_commit_time":
                assert found[0] <= value[0]
                assert found[1] >= value[1]
            assert found[2] >= value[2]


def _alike(found: tuple[Any, ...], expected: tuple[Any, ...], first: bool) -> bool:
    """Equal; statistics of version 1 do not say types, and decimals there are of 15 digits behind the point."""
    if not first:
        return found == expected
    low, high = (
        value if kind != ValueType.DECIMAL or value is None else value * 10**13
        for value, kind in ((expected[0], expected[4]), (expected[1], expected[4]))
    )
    return found[:4] == (low, high, *expected[2:4])


def columns_of(storage: Storage, names: tuple[str, ...] = COLUMNS) -> tuple[IndexedColumn, ...]:
    kinds = {"x": ValueType.DOUBLE, "id": ValueType.LONG, "ts": ValueType.LONG, "more": ValueType.INT}
    found = [IndexedColumn(name, kinds.get(name, ValueType.STRING)) for name in names]
    return tuple(IndexedColumn("d", ValueType.DECIMAL, 12, 2) if each.name == "d" else each for each in found)


def context(storage: Storage, version: int, kind: str, given: dict[str, str]) -> ServiceContext:
    chosen = kept_up.options(version, kind, given)
    return ServiceContext.of(WriteTarget(storage, chosen, MetadataTableWriter(kept_up.options(9, "mor", given))))


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "what files tell", 3))
@pytest.mark.sampled(2)
def test_statistics_are_what_files_tell(storage: MemoryStorage, version: int, kind: str) -> None:
    options = {"hoodie.clean.commits.retained": "1", "hoodie.compact.inline.max.delta.commits": "1"}

    def write(data: pa.Table, operation: str = "upsert", *, exact: bool = True) -> None:
        kept_up.write(storage, data, operation, version=version, kind=kind, given=options)
        check(storage, columns_of(storage), exact=exact)

    write(rows(list(range(8)), 1))
    write(rows([0, 1, 2, 9], 2))
    write(rows([3, 4], 3).select(["id", "p", "ts"]), "delete")
    if kind == "mor":
        service = Compaction()
        services = context(storage, version, kind, options)
        assert service.schedule(services).instant is not None
        kept_up.write(storage, rows([0, 5], 4), version=version, kind=kind, given=options)
        check(storage, columns_of(storage))
        assert run(service, services).instant is not None
        # of a compaction and a commit that was requested later the records of the commit stand
        check(storage, columns_of(storage), exact=False)
    write(rows([1, 6], 5))
    write(rows([0, 21], 6), "insert_overwrite_table", exact=False)
    write(rows([20, 21], 7))
    before = {name for name, _ in shown(stored_ranges(opened(storage)[0], None, None))}
    assert run_all(Cleaning(), context(storage, version, kind, options)).instant is not None
    check(storage, columns_of(storage))
    metadata, view = opened(storage)
    after = {name for name, _ in shown(stored_ranges(metadata, None, None))}
    there = {info.name for partition in view.partitions() for info in view.lister.files(partition)}
    assert before - after
    assert not (before - after) & there
    assert after <= there


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_that_gets_statistics_later_has_the_same(storage: MemoryStorage, version: int) -> None:
    off = {"hoodie.metadata.index.column.stats.enable": "false"}
    for turn in range(3):
        kept_up.write(storage, rows([turn, turn + 1, turn + 2], turn + 1), version=version, given=off)
    assert not opened(storage)[0].has(COLUMN_STATS)
    kept_up.write(storage, rows([1], 9), version=version)
    check(storage, columns_of(storage))


def test_names_of_no_column_are_told(storage: MemoryStorage) -> None:
    given = {"hoodie.metadata.index.column.stats.column.list": "x,_hoodie_file_name,idd"}
    with pytest.warns(UserWarning, match="No statistics are stored for 'idd', named in hoodie.metadata.index.column"):
        kept_up.write(storage, rows([0, 1], 1), given=given)
    known = shown(stored_ranges(opened(storage)[0], None, None))
    assert {column for _, column in known} == {*ALWAYS, "_hoodie_file_name", "x"}


def test_columns_indexed_since_and_columns_added(storage: MemoryStorage) -> None:
    few = {"hoodie.metadata.index.column.stats.column.list": "x"}
    kept_up.write(storage, rows([0, 1, 2, 3], 1), given=few)
    kept_up.write(storage, rows([0], 2), given=few)
    kept_up.write(storage, rows([0, 6], 3, added=True))
    metadata, view = opened(storage)
    known = shown(stored_ranges(metadata, None, None))
    files = live_files(view, "a")
    assert len(files) > 2
    assert {(file.name, "s") in known for file in files} == {True}
    added = {file.name: known[file.name, "more"][2:4] for file in files}
    assert [nulls for values, nulls in added.values() if nulls == values] == [2, 1]
    whole = shown(stored_ranges(metadata, None, None, partition=PARTITION_STATS))
    assert whole["a", "more"][:4] == (3, 9, 5, 3)
    assert whole["a", "_hoodie_record_key"][2] == 5
    assert ("b", "more") not in whole


def test_deleted_partitions_have_no_statistics(storage: MemoryStorage) -> None:
    kept_up.write(storage, rows([0, 1], 1))
    assert partition_stats(opened(storage)[0], {"id": pa.int64()}, ["a", "b"])
    records = made(_deletion(storage))
    assert {key[0] for key in records} == {PARTITION_STATS}
    assert {(record["isDeleted"], record["isTightBound"], record["valueCount"]) for record in records.values()} == {
        (True, True, -1)
    }
    assert {column_id(name) + partition_id("a") for name in COLUMNS} == {key for _, key in records}


def _deletion(storage: Storage) -> list[MetadataRecords]:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    schema = read_commit_metadata(storage, timeline.layout, timeline.completed[-1]).extra["schema"]
    source = TableSource(
        storage, config, timeline, load_view(TableState(storage, config, timeline)), schema, kept_up.options(9, "mor")
    )
    commit = CommitMetadata("DELETE_PARTITION", replaced={"a": ("f",), "b": ()})
    change = TableChange(InstantTime("20990101000000000"), Action.REPLACE_COMMIT, commit)
    return list(PartitionStats().changes(source, change))


KINDS: list[tuple[IndexedColumn, Callable[[], st.SearchStrategy[Any]], pa.DataType]] = [
    (IndexedColumn("b", ValueType.BOOLEAN), st.booleans, pa.bool_()),
    (IndexedColumn("i", ValueType.INT), lambda: st.integers(-(2**31), 2**31 - 1), pa.int32()),
    (IndexedColumn("l", ValueType.LONG), lambda: st.integers(-(2**63), 2**63 - 1), pa.int64()),
    (IndexedColumn("f", ValueType.FLOAT), lambda: st.floats(width=32), pa.float32()),
    (IndexedColumn("g", ValueType.DOUBLE), st.floats, pa.float64()),
    (IndexedColumn("s", ValueType.STRING), st.text, pa.string()),
    (IndexedColumn("r", ValueType.BYTES), st.binary, pa.binary()),
    (
        IndexedColumn("d", ValueType.DECIMAL, 15, 4),
        lambda: st.decimals(-(10**10), 10**10, places=4),
        pa.decimal128(15, 4),
    ),
    (IndexedColumn("y", ValueType.DATE), st.dates, pa.date32()),
    (
        IndexedColumn("t", ValueType.TIMESTAMP_MICROS),
        lambda: st.datetimes(timezones=st.just(dt.timezone.utc)),
        pa.timestamp("us", "UTC"),
    ),
    (IndexedColumn("n", ValueType.LOCAL_TIMESTAMP_MICROS), st.datetimes, pa.timestamp("us")),
]


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from([1, 2]))
def test_values_come_back(data: st.DataObject, version: int) -> None:
    columns = [column for column, _, _ in KINDS]
    batch = pa.RecordBatch.from_pydict(
        {
            column.name: pa.array(data.draw(st.lists(st.none() | make(), min_size=2, max_size=2)), kind)
            for column, make, kind in KINDS
        }
    )
    found = column_ranges(batch, columns)
    files = pa.array(["f"] * len(found))
    values = stats_values(COLUMN_STATS_RECORD, found.rows, files, index_version=version)
    back = _decoded(values)
    expected = shown(pa.Table.from_batches([found.rows]).add_column(0, FILE, files))
    for key, value in shown(back).items():
        known = expected[key]
        if version == 1 and key[1] == "d" and known[0] is not None:
            known = (known[0] * 10**11, known[1] * 10**11, *known[2:])
        if version == 1:
            value, known = value[:4], known[:4]
        assert value == known


def _decoded(values: pa.BinaryArray) -> pa.Table:
    avro = json.loads(SCHEMA_JSON)
    batches = [_normalise_batch(batch, avro) for batch in decode_values(values, avro, None, context="test")]
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize(("version", "kind"), [(1, None), (2, {"typeOrdinal": 1, "additionalInfo": None})])
def test_removals_are_stubs(version: int, kind: Any) -> None:
    values = removal_values(COLUMN_STATS_RECORD, pa.array(["c"]), pa.array(["f"]), index_version=version)
    record = plain(COLUMN_STATS, ["k"], decode_values(values, json.loads(SCHEMA_JSON), None, context="test"))
    assert record[COLUMN_STATS, "k"] == {
        "record": 3,
        "fileName": "f",
        "columnName": "c",
        "minValue": None,
        "maxValue": None,
        "valueCount": -1,
        "nullCount": -1,
        "totalSize": -1,
        "totalUncompressedSize": -1,
        "isDeleted": True,
        "isTightBound": False,
        "valueType": kind,
    }


def test_builders_pickle_and_have_no_state() -> None:
    assert pickle.loads(pickle.dumps(ColumnStats())) == ColumnStats()
    assert pickle.loads(pickle.dumps(PartitionStats())) == PartitionStats()
