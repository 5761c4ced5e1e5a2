"""A write's tasks and commit called by hand: retries, attempts that come too late, limits. No JVM."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, ConflictError, RolledBackError, SchemaMismatchError
from hudi_py.write import staging
from hudi_py.write.distributed import DistributedWrite, TaskId, abort_write, commit_write, run_task
from pyspark_hudi.writer import HudiWriter, TaskMessage

SCHEMA = StructType(
    [
        StructField("_hoodie_commit_time", StringType()),
        StructField("id", LongType()),
        StructField("p", StringType()),
        StructField("v", LongType()),
    ]
)
BASE = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "p"}


def plan(path: str, operation: str = "upsert", *, overwrite: bool = False, **more: str) -> DistributedWrite:
    given = {
        **BASE,
        "hoodie.datasource.write.operation": operation,
        **{k.replace("__", "."): v for k, v in more.items()},
    }
    write = HudiWriter.of(path, Options.resolve(given, Scope.WRITE, defaults={}), SCHEMA, overwrite=overwrite).plan
    loaded: DistributedWrite = pickle.loads(pickle.dumps(write))  # as each process gets it
    return loaded


def by_spark(path: str, data: pa.RecordBatch, options: dict[str, str]) -> None:
    schema = from_arrow_schema(data.schema, prefer_timestamp_ntz=True)
    write = HudiWriter.of(path, Options.resolve(options, Scope.WRITE, defaults={}), schema, overwrite=False).plan
    commit_write(write, [run_task(write, TaskId(0), [data])])


def batch(ids: range, value: int = 0) -> pa.RecordBatch:
    columns = [["old"] * len(ids), list(ids), ["ab"[n % 2] for n in ids], [n + value for n in ids]]
    return pa.RecordBatch.from_pydict(dict(zip(SCHEMA.names, columns, strict=True)))


def read(path: str) -> list[tuple[Any, ...]]:
    table = hudi_py.open_table(path).scan(columns=["id", "v"]).to_table()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("id", "v")), strict=True))


def leftovers(path: str) -> list[Path]:
    return [file for folder in (".hudi_py", ".temp", ".heartbeat") for file in Path(path, ".hoodie", folder).rglob("*")]


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write = plan(path, "bulk_insert")
    commit_write(write, [run_task(write, TaskId(0), [batch(range(4))])])
    return path


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_attempts_that_did_not_report_leave_nothing(
    table: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL_BYTES", 1)
    before = set(Path(table).glob("*/*.parquet"))
    write = plan(table, operation)
    lost = run_task(write, TaskId(0, attempt=1), [batch(range(10, 14), 100)])
    kept = run_task(write, TaskId(0, attempt=2), [batch(range(10, 14), 100)])
    other = run_task(write, TaskId(1, attempt=3), [batch(range(20, 22), 100)])
    assert {stat.path for stat in lost.stats}.isdisjoint(stat.path for stat in kept.stats)
    commit_write(write, [kept, other])
    assert read(table) == [(n, n) for n in range(4)] + [(n, n + 100) for n in (*range(10, 14), *range(20, 22))]
    written = set(hudi_py.open_table(table).scan(columns=["_hoodie_file_name"]).to_table().column(0).to_pylist())
    assert {file.name for file in set(Path(table).glob("*/*.parquet")) - before} <= written
    assert leftovers(table) == []


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_attempt_that_comes_too_late_publishes_nothing(
    table: str, operation: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL_BYTES", 1)
    write = plan(table, operation)
    result = run_task(write, TaskId(0, attempt=1), [batch(range(10, 12))])
    if end == "commit":
        commit_write(write, [result])
    else:
        abort_write(write)
    expected, files = read(table), set(Path(table).glob("*/*"))
    with pytest.raises((RolledBackError, ConflictError)):
        run_task(write, TaskId(0, attempt=2), [batch(range(50, 60))])
    assert read(table) == expected
    assert set(Path(table).glob("*/*")) == files


def test_an_attempt_overtaken_in_the_middle_publishes_nothing(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "SMALL_BYTES", 1)
    write = plan(table, "bulk_insert")
    done = run_task(write, TaskId(0, attempt=1), [batch(range(10, 12))])

    def slow() -> Any:
        yield batch(range(50, 52))
        commit_write(write, [done])

    with pytest.raises((RolledBackError, ConflictError)):
        run_task(write, TaskId(0, attempt=2), slow())
    assert [row[0] for row in read(table)] == [0, 1, 2, 3, 10, 11]
    # a marker may stay, which says nothing about an instant that is complete
    assert [file for file in leftovers(table) if file.is_file() and "marker" not in file.name] == []


def test_abort_does_not_undo_a_commit(table: str) -> None:
    write = plan(table)
    results = [run_task(write, TaskId(0), [batch(range(2), 100)])]
    commit_write(write, results)
    abort_write(write)
    assert read(table) == [(0, 100), (1, 101), (2, 2), (3, 3)]


def test_abort_before_any_task_and_twice(table: str) -> None:
    write = plan(table)
    abort_write(write)
    abort_write(write)
    assert read(table) == [(n, n) for n in range(4)]
    again = plan(table)
    commit_write(again, [run_task(again, TaskId(0), [batch(range(1), 7)])])
    assert read(table)[0] == (0, 7)


def test_a_delete_stages_keys_only(table: str) -> None:
    write = plan(table, "delete")
    result = run_task(write, TaskId(0), [batch(range(2))])
    assert result.staged is not None
    with pa.ipc.open_stream(Path(table, result.staged.path).read_bytes()) as reader:
        assert reader.schema.names == ["id", "p"]
    commit_write(write, [result])
    assert read(table) == [(2, 2), (3, 3)]


def test_small_pieces_of_many_tasks_become_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write = plan(path, "bulk_insert")
    results = [run_task(write, TaskId(n), [batch(range(10 * n, 10 * n + 10))]) for n in range(20)]
    assert all(not result.stats for result in results)
    commit_write(write, results)
    assert len(list(Path(path).glob("*/*.parquet"))) == 2
    assert [row[0] for row in read(path)] == list(range(200))


def test_rows_beyond_the_memory_for_pieces_are_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "HELD_BYTES", 100)
    monkeypatch.setattr(staging, "SMALL_BYTES", 10_000)
    path = str(tmp_path / "t")
    write = plan(path, "insert")
    result = run_task(write, TaskId(0), [batch(range(n, n + 10)) for n in range(0, 1000, 10)])
    assert result.staged is not None
    commit_write(write, [result])
    assert [row[0] for row in read(path)] == list(range(1000))


@pytest.mark.parametrize(("operation", "count"), [("upsert", 2), ("insert", 4)])
def test_overwrite_is_one_replacecommit(table: str, operation: str, count: int) -> None:
    write = plan(table, operation, overwrite=True)
    results = [run_task(write, TaskId(n), [batch(range(2), 100)]) for n in range(2)]
    assert read(table) == [(n, n) for n in range(4)]
    commit_write(write, results)
    assert read(table) == sorted([(0, 100), (1, 101)] * (count // 2))
    assert hudi_py.open_table(table).history().column("action").to_pylist()[-1] == "replacecommit"


def test_an_overwrite_cannot_delete(table: str) -> None:
    with pytest.raises(ConfigError, match="mode overwrite.*'delete'"):
        plan(table, "delete", overwrite=True)


def test_an_empty_write(table: str) -> None:
    write = plan(table, "upsert", hoodie__allow__empty__commit="false")
    assert commit_write(write, [run_task(write, TaskId(0), [])]).instant is None
    assert hudi_py.open_table(table).history().num_rows == 1
    write = plan(table, "insert")
    commit_write(write, [])
    assert hudi_py.open_table(table).history().num_rows == 2


def test_a_writer_of_spark_without_spark(table: str) -> None:
    writer: HudiWriter = pickle.loads(pickle.dumps(HudiWriter(plan(table))))
    messages = [writer.write(iter([batch(range(n, n + 1), 9)])) for n in range(3)]
    assert all(len(pickle.dumps(message)) < 2000 for message in messages)
    assert isinstance(messages[0], TaskMessage)
    assert messages[0].result.staged is not None
    paths = {message.result.staged.path for message in messages if message.result.staged}
    assert len(paths) == 3
    writer.commit([*messages, None])
    writer.abort([None])
    assert read(table) == [(0, 9), (1, 10), (2, 11), (3, 3)]


def test_storage_options_are_not_shown(table: str) -> None:
    write = replace(plan(table), storage_options=(("secret", "hunter2"),))
    assert "hunter2" not in repr(write)
    assert "hunter2" not in repr(write.handle)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the zone of this process, which is the former one again after the test."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_planning_process_sets_the_zone(tmp_path: Path, zone: Callable[[str], None], version: str) -> None:
    path = str(tmp_path / "t")
    instants = []
    for planned, run in (("America/New_York", "Asia/Tokyo"), ("America/New_York", "UTC")):
        zone(planned)
        expected = datetime.now()
        write = plan(path, hoodie__write__table__version=version)
        zone(run)
        result = commit_write(write, [run_task(write, TaskId(0), [batch(range(2))])])
        assert result.instant is not None
        instants.append(result.instant)
        for told in (result.instant, result.completion_time or result.instant):
            moment = datetime.strptime(told[:14], "%Y%m%d%H%M%S")
            assert abs((moment - expected).total_seconds()) < 120
    assert instants == sorted(instants)
    assert len(read(path)) == 2


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
WRITTEN = {
    "id": pa.array([1, 2], pa.int64()),
    "v": pa.array([1.5, 2.5]),
    "s": pa.array([{"a": 1, "b": "x"}, None], STRUCT),
    "name": pa.array(["x", "y"]),
}
CHANGES: dict[str, dict[str, pa.Array | None]] = {
    "reordered": {"name": None, "id": None, "s": None, "v": None},
    "a missing column": {"id": None, "v": None},
    "no key": {"v": None, "s": None, "name": None},
    "another case": {"ID": WRITTEN["id"], "v": None, "s": None, "name": None},
    "another case of a value": {"id": None, "V": WRITTEN["v"], "s": None, "name": None},
    "a new column": {"id": None, "v": None, "s": None, "name": None, "more": pa.array([1, None], pa.int32())},
    "the same name twice": {"id": None, "v": None, "s": None, "name": None, "NAME": WRITTEN["name"]},
    "a narrower type": {
        "id": pa.array([1, 3], pa.int32()),
        "v": pa.array([1, None], pa.int32()),
        "s": None,
        "name": None,
    },
    "another type": {"id": None, "v": pa.array(["1", "two"]), "s": None, "name": None},
    "nulls alone": {"id": None, "v": pa.nulls(2), "s": None, "name": None},
    "a struct reordered": {
        "id": None,
        "v": None,
        "s": pa.array([{"b": "z", "a": 9}] * 2, pa.struct([("b", pa.string()), ("a", pa.int64())])),
        "name": None,
    },
    "a struct without a field": {"id": None, "v": None, "s": pa.array([{"b": "z"}] * 2), "name": None},
    "a null key": {"id": pa.array([None, 1], pa.int64()), "v": None, "s": None, "name": None},
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table by the operation that wrote to it first."""
    made = {}
    for operation in ("upsert", "bulk_insert"):
        made[operation] = tmp_path_factory.mktemp(operation) / "t"
        options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.operation": operation}
        hudi_py.write(str(made[operation]), pa.RecordBatch.from_pydict(WRITTEN), options=options)
    return made


@pytest.mark.parametrize(("operation", "nullable"), [("upsert", True), ("bulk_insert", False)])
@pytest.mark.parametrize("change", CHANGES)
def test_columns_are_taken_as_by_the_core(
    first: dict[str, Path], tmp_path: Path, change: str, operation: str, nullable: bool
) -> None:
    columns = {name: WRITTEN[name] if column is None else column for name, column in CHANGES[change].items()}
    fields = [
        pa.field(name, column.type, nullable or name in ("v", "s") or column.null_count > 0)
        for name, column in columns.items()
    ]
    data = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.operation": operation}

    def written(path: Path, write: Callable[[str, pa.RecordBatch], object]) -> object:
        shutil.copytree(first[operation], path)
        try:
            write(str(path), data)
        except hudi_py.HudiError as error:
            return type(error), str(error)
        table = hudi_py.open_table(str(path))
        names = [name for name in table.schema.names if not name.startswith("_hoodie_")]
        return table.schema, sorted(map(repr, table.scan(columns=names).to_table().to_pylist()))

    core = written(tmp_path / "a" / "t", lambda path, given: hudi_py.write(path, given, options=options))
    assert written(tmp_path / "b" / "t", lambda path, given: by_spark(path, given, options)) == core


def test_columns_change_as_in_the_core(table: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Numbers do not become text unless that is asked for; whole numbers are taken for integers; changes are logged."""
    before = SCHEMA.fields[:-1]

    def put(value: Any, kind: DataType, **more: str) -> None:
        fields = [*before, StructField("v", kind), StructField("w", LongType())]
        monkeypatch.setattr("tests.connector.test_distributed.SCHEMA", StructType(fields))
        write = plan(table, **more)
        rows = pa.RecordBatch.from_pydict({"_hoodie_commit_time": [""], "id": [0], "p": ["a"], "v": [value], "w": [1]})
        commit_write(write, [run_task(write, TaskId(0), [rows])])

    with pytest.raises(SchemaMismatchError, match="'v' is int64 in the table and string in the data"):
        put("x", StringType())
    assert not caplog.records
    put(7.0, DoubleType())
    assert "changed columns of the table t: w: new -> int64" in caplog.text
    assert read(table)[0] == (0, 7)
    put("x", StringType(), hoodie__py__write__widen__columns="true")
    assert "changed columns of the table t: v: int64 -> string" in caplog.text


def test_a_bulk_insert_sorts_within_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "SMALL_BYTES", 1)
    write = plan(str(tmp_path / "t"), "bulk_insert", hoodie__bulkinsert__sort__mode="GLOBAL_SORT")
    commit_write(write, [run_task(write, TaskId(0), [batch(range(8, 4, -1)), batch(range(2, 7))])])
    for file in Path(tmp_path, "t").glob("*/*.parquet"):
        keys = pq.read_table(file)["_hoodie_record_key"].to_pylist()
        assert keys == sorted(keys)
        assert len(keys) > 1
