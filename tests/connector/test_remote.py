"""`remote` and `remote_tasks`: calls of core functions by an application, and the option that carries them behind Spark
Connect."""

from __future__ import annotations

import base64
import io
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import (
    ConfigError,
    ConflictError,
    HudiError,
    StorageDeniedError,
    TableExistsError,
    TableNotFoundError,
)
from hudi_py.interop.iceberg.target import MetadataFiles
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.local import LocalStorage, _LocalFile
from hudi_py.transaction.publication import Publication
from hudi_py.wiring import IndexChange
from hudi_py.write.distributed import TaskId, run_task
from pyspark_hudi import calls, run_service
from pyspark_hudi.failure import carried, raised_here
from pyspark_hudi.remote import CALL, CallReader, _ask_server, _Call, _in_task, _pack_value, _unpack_value, call_in
from pyspark_hudi.source import DefaultSource
from pyspark_hudi.tasks import PYTHON, _say_python, server_pythons

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def make(path: str, writes: int = 1) -> list[str]:
    """A table, and the instants of its writes."""
    rows = [{"id": n, "p": "abc"[n % 3], "ts": 1} for n in range(6)]
    keyed: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
    return [str(hudi_py.write(path, rows, "upsert", QUIET, **keyed).instant) for _ in range(writes)]


def option(value: object) -> dict[str, str]:
    return {CALL: base64.b64encode(zlib.compress(pickle.dumps(value))).decode()}


def answers(number: int | None, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """As the server of Spark Connect answers, without a JVM."""
    source = DefaultSource(option((function, arguments, number)))
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    assert isinstance(reader, CallReader)
    rows = [batch for each in reader.partitions() for batch in reader.read(each)]
    return [pickle.loads(zlib.decompress(batch.column(0)[0].as_py())) for batch in rows]


def request(path: str, name: str = "archive") -> calls.ServiceRequest:
    return calls.ServiceRequest(path, QUIET, name, ())


def test_errors_of_a_call_keep_their_fields(spark: SparkSession, path: str) -> None:
    first, last = make(path, writes=2)
    with pytest.raises(ConflictError, match=f"in this order: {last}") as told:
        run_service(spark, path, "rollback", instant=first)
    assert told.value.fields == _raised(lambda: hudi_py.open_table(path).rollback(first)).fields
    assert told.value.instant == last


def _raised(call: Callable[[], object]) -> HudiError:
    with pytest.raises(HudiError) as found:
        call()
    return found.value


def test_an_answer_is_a_value_or_an_error_with_its_fields(path: str) -> None:
    first, last = make(path, writes=2)
    ((_, error, _),) = answers(None, calls.run_single_step, request(path, "rollback"), first)
    assert type(error) is ConflictError
    assert error.instant == last
    ((report, error, _),) = answers(None, calls.run_single_step, request(path), None)
    assert error is None
    assert report["service"] == "archive"


def test_the_driver_makes_a_call_once_and_tasks_bring_its_answer(path: str) -> None:
    """Whatever becomes of the task that reads it."""
    make(path)
    source = DefaultSource(option((calls.run_single_step, (request(path, "savepoint"), None), None)))
    reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
    (partition,) = reader.partitions()
    first, again = (list(reader.read(partition)) for _ in range(2))
    assert first == again
    assert hudi_py.open_table(path).savepoints.list().num_rows == 1


def test_tasks_divide_their_numbers(path: str) -> None:
    make(path, writes=2)
    planned = str(hudi_py.open_table(path).compaction.schedule())
    call, begun = calls.begin_plan(request(path, "compaction"), planned, False)
    assert begun.work is not None
    tasks = list(range(begun.work.num_tasks))
    found = [each for value, *_ in answers(len(tasks), calls.execute_plan, call, begun.work, tasks) for each in value]
    assert sorted(each.task for each in found) == [0, 1, 2]
    assert calls.commit_plan(call, begun.work, found)["instant"] == planned


class Made:
    """Pickles as a call with arguments of the attacker's choice."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


def test_an_option_calls_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL can set options as well."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"data")
    made = [
        Made(_LocalFile, str(precious), None),  # truncates it
        Made(io.FileIO, str(precious), "wb"),
        Made(LocalStorage, str(tmp_path)),
        Made(open_storage, str(tmp_path)),
        Made(MetadataFiles, LocalStorage(str(tmp_path)), "x"),
        Made(Publication, None, None),
        (os.system, ("true",), None),
        (hudi_py.open_table, ("/tmp",), None),
        (vars(calls)["checked_path"], ("/tmp", "read"), None),
        (vars(calls)["drop_table"], ("/tmp",), None),
        "text",
        {"a": 1},
    ]
    for value in made:
        with pytest.raises(ConfigError, match=r"^Cannot use the option hoodie\.py\.secret\.call: it is not a call"):
            DefaultSource(option(value)).schema()
    assert precious.read_bytes() == b"data"
    for text in ("", "AAAA", "no base64", base64.b64encode(b"cos\nsystem\n(S'true'\ntR.").decode()):
        with pytest.raises(ConfigError, match=r"^Cannot use the option"):
            call_in({CALL: text})
    monkeypatch.setenv("HUDI_PY_MAX_UNPACKED_BYTES", "1000")
    with pytest.raises(ConfigError, match=r"^Cannot use the option"):
        call_in({CALL: base64.b64encode(zlib.compress(b"\0" * (1 << 20))).decode()})


def test_plans_of_all_types_travel(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    kinds = [pa.int32(), pa.float32(), pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.decimal128(10, 2)]
    kinds += [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ms"), pa.binary(5)]
    kinds += [pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.list_(pa.float64()))])]
    schema = pa.schema([("id", pa.int64()), *((f"c{number}", kind) for number, kind in enumerate(kinds))])
    given = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "storage.password": "hush"}
    plan, error = answers(None, calls.plan_write, path, given, "upsert", schema)[0][:2]
    assert error is None
    assert _unpack_value(_pack_value(plan)) == plan
    assert "hush" not in repr(plan)
    rows = pa.Table.from_pylist([{"id": 1}], schema).to_batches()
    result = run_task(replace(plan.write, arrival="one"), TaskId(), rows)
    done, error = answers(None, calls.commit_write, replace(plan.write, arrival="one"), [result])[0][:2]
    assert (error, done.num_inserted) == (None, 1)


def test_fields_pass_through_the_text_of_a_task(path: str) -> None:
    def fails(tasks: Sequence[int]) -> Sequence[int]:
        raise StorageDeniedError("Cannot read it", path="a/b", expected=1)

    with pytest.raises(StorageDeniedError) as told:
        list(_in_task(fails, (), iter([pa.record_batch({"task": [0]})])))
    text = f"Job aborted\nTraceback:\nhudi_py.errors.StorageDeniedError: {told.value}\n\n\tat org.apache.spark"
    with pytest.raises(StorageDeniedError, match="^Cannot read it$") as found, raised_here():
        raise PySparkException(text)
    assert found.value.fields == {"path": "a/b", "expected": 1}
    with pytest.raises(TableNotFoundError, match="^plain$"), carried():
        raise TableNotFoundError("plain")


@pytest.mark.slow
def test_a_call_behind_connect_runs_in_the_driver_once(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of classic Spark, too: what the option does is the same there."""
    monkeypatch.setattr(type(spark), "session_id", "of the test", raising=False)
    make(path)
    (report,) = _ask_server(spark, _Call(calls.run_single_step, (request(path, "savepoint"), None)))
    assert report["service"] == "savepoint"
    assert hudi_py.open_table(path).savepoints.list().num_rows == 1
    told = _raised(lambda: _ask_server(spark, _Call(calls.run_single_step, (request(path + "no"), None))))
    assert isinstance(told, TableNotFoundError)


def test_a_table_is_created_and_dropped(tmp_path: Path) -> None:
    place, columns = str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("v", pa.float64())])
    key = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
    calls.create_table(place, key, columns)
    assert hudi_py.open_table(place).schema.names[-2:] == columns.names
    with pytest.raises(TableExistsError):
        calls.create_table(place, key, columns)
    calls.drop_files(place, {})
    assert not (tmp_path / "t").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("not a table")
    calls.drop_files(str(tmp_path / "other"), {})
    assert (tmp_path / "other" / "file").exists()


def test_changes_of_indexes_are_announced(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `Table.create_index` does."""
    make(path)
    told: list[str] = []

    @contextmanager
    def announced(storage: Storage, *_: object) -> Iterator[None]:
        yield
        told.append(storage.uri)

    monkeypatch.setattr("hudi_py.wiring.announced", announced)
    hudi_py.open_table(path).index("record_index", "id", using="record_index")
    by_table = list(told)
    calls.change_index(path, {}, IndexChange("drop", "record_index"))
    assert told == by_table * 2 != []


class Frame:
    """As far as `mapInArrow` of Spark Connect keeps the client's Python."""

    def __init__(self, session: str) -> None:
        self.sparkSession = SimpleNamespace(session_id=session)
        self.function = SimpleNamespace(_python_ver=PYTHON)
        self._plan = SimpleNamespace(_function=SimpleNamespace(_function=self.function))


def test_the_version_of_another_python_is_named_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(server_pythons, "one", "3.99")
    monkeypatch.setitem(server_pythons, "same", PYTHON)
    named = {}
    for session in ("one", "same", "never asked"):
        frame: Any = Frame(session)
        _say_python(frame)
        named[session] = frame.function._python_ver
    assert named == {"one": "3.99", "same": PYTHON, "never asked": PYTHON}
    other: Any = SimpleNamespace(sparkSession=SimpleNamespace(session_id="one"))
    _say_python(other)  # a PySpark that keeps it elsewhere
