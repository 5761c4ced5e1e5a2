"""Calls functions of the core from a Spark application: `remote` and `remote_tasks`.

On classic Spark, the driver's own Python process runs a call, and the workers that Spark keeps run tasks. Behind Spark
Connect the caller may have no access to the table, and another Python than the server. There a call is passed in an
option of the data source, and Spark's driver runs it while it plans the read: once, whatever happens to the tasks that
return its result. docs/architecture.md gives the evidence.
"""

from __future__ import annotations

import base64
import binascii
import functools
import io
import itertools
import logging
import os
import pickle
import socket
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from hudi_py.errors import ConfigError, HudiError, TableNotFoundError, first_line
from pyspark_hudi.calls import HELD_BY_VALUES, max_call_bytes
from pyspark_hudi.failure import carried, raised_here
from pyspark_hudi.table import FORMAT
from pyspark_hudi.tasks import PYTHON, in_tasks, is_classic, server_pythons

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Outcome = TypeVar("Outcome")

CALL: Final = "hoodie.py.secret.call"
"""The option with a call. Spark hides values of keys that contain `secret`, and the call may hold credentials. It is
not declared among the options of reads."""
ANSWER: Final = StructType([StructField("answer", BinaryType())])
"""Columns of the result."""
CALLABLE: Final = "pyspark_hudi.calls"
"""The module whose functions can be called through the option."""
_MAX_TASKS: Final = 10_000


def remote(spark: SparkSession, function: Callable[..., Result], *arguments: Any) -> Result:
    """Returns the result of a function of `pyspark_hudi.calls`, run where the table can be reached.

    Raises:
        HudiError: the function has raised it; its fields are set.
        pyspark.errors.PySparkException: Spark failed, or the function has raised something else behind Spark Connect.
    """
    if is_classic(spark):
        return function(*arguments)
    (answer,) = _ask_server(spark, _Call(function, arguments))
    return answer  # type: ignore[no-any-return]  # what the function has returned


def remote_tasks(
    spark: SparkSession, function: Callable[..., Sequence[Outcome]], *arguments: Any, number: int
) -> list[Outcome]:
    """Runs a function in Spark's tasks for the numbers from 0 on, and returns its results.

    Args:
        function: a function of `pyspark_hudi.calls`. Its last argument is a list of numbers, and it may be called for
            the same ones again, as Spark repeats tasks.

    Raises:
        HudiError: the function has raised it as often as Spark repeats a task; its fields are set.
        pyspark.errors.PySparkException: Spark failed.
    """
    if is_classic(spark):
        numbers = spark.range(0, number, 1, min(max(number, 1), _MAX_TASKS))
        with raised_here():
            rows = in_tasks(numbers, functools.partial(_in_task, function, arguments), ANSWER).collect()
        outcomes = [pickle.loads(row[0]) for row in rows]
    else:
        outcomes = _ask_server(spark, _Call(function, arguments, number))
    return list(itertools.chain.from_iterable(outcomes))


def _in_task(
    function: Callable[..., Any], arguments: Sequence[Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    if numbers:
        yield _answer_row(pickle.dumps(_task_value(function, arguments, numbers)))


def _task_value(function: Callable[..., Any], arguments: Sequence[Any], numbers: Sequence[int]) -> Any:
    with carried():
        try:
            return function(*arguments, numbers)
        except TableNotFoundError as error:  # the driver has found it
            raise TableNotFoundError(
                f"{error}; Spark's driver can see the table, but its executor on {socket.gethostname()} cannot: give a "
                "path that all of them can reach",
                **error.fields,
            ) from error


def collected(frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Outcome | None]) -> list[Outcome]:
    """Applies a function to the batches of each Spark task, and returns its results except None.

    Args:
        function: a function of a module, or a partial of one: Spark Connect may have another Python. Spark repeats
            tasks, and the value of one attempt counts.

    Raises:
        HudiError: the function has raised it as often as Spark repeats a task; its fields are set.
        pyspark.errors.PySparkException: Spark failed.
    """
    with raised_here():
        rows = in_tasks(frame, functools.partial(_in_rows, function), ANSWER).collect()
    return [pickle.loads(row[0]) for row in rows]


def _in_rows(function: Callable[..., Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with carried():
        value = function(batches)
    if value is not None:
        yield _answer_row(pickle.dumps(value))


def given_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Converts options of a call to the form that `pyspark_hudi.calls` takes."""
    given = options or {}
    return {str(key): os.fspath(item) if isinstance(item, os.PathLike) else item for key, item in given.items()}


@contextmanager
def undone(spark: SparkSession, undo: Callable[..., object], *arguments: Any) -> Iterator[None]:
    """Calls a function of `pyspark_hudi.calls` after a failure within the context. Its own failure is a warning."""
    try:
        yield
    except BaseException:  # an interrupt, too
        try:
            remote(spark, undo, *arguments)
        except (HudiError, OSError, PySparkException) as failure:  # the first error is the one to raise
            _log.warning("%s failed, and the next write does it: %s", undo.__name__, first_line(failure))
        raise


# -- behind Spark Connect ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    number: int | None = None
    """How many numbers to spread over tasks; None if the driver runs the call."""

    def answer(self) -> bytes:
        """Returns the encoded result, or the error that the core raised."""
        try:
            return _pack_value((self.function(*self.arguments), None, PYTHON))
        except HudiError as error:
            return _pack_value((None, error, PYTHON))


def _ask_server(spark: SparkSession, call: _Call) -> list[Any]:
    packed = _pack_value((call.function, call.arguments, call.number))
    try:
        _unpack_value(packed)
    except pickle.UnpicklingError as unknown:
        raise ConfigError(
            f"Cannot send {call.function.__name__} to Spark: a value {unknown}; supported: None, bool, int, float, "
            "Decimal, bytes, date, datetime and Arrow scalars"
        ) from None
    text = base64.b64encode(packed).decode()
    with raised_here():
        rows = spark.read.format(FORMAT).option(CALL, text).load().collect()
    session: Any = spark
    result = []
    for row in rows:
        value, error, server_pythons[session.session_id] = _unpack_value(bytes(row[0]))
        if error is not None:
            raise error
        result.append(value)
    return result


def call_in(options: Mapping[str, str]) -> _Call | None:
    """Returns the call in the options of a read; None if there is none.

    Raises:
        ConfigError: the option has something else.
    """
    text = options.get(CALL)
    if text is None:
        return None
    try:
        function, arguments, number = _unpack_value(base64.b64decode(text, validate=True))
    except (*_DAMAGE, binascii.Error) as error:
        raise ConfigError(
            f"Cannot use the option {CALL}: it is not a call that pyspark_hudi of the same release has made; leave it "
            "out"
        ) from error
    return _Call(function, arguments, number)


class CallReader(DataSourceReader):
    """Returns the result of a call, or runs a call in tasks."""

    def __init__(self, call: _Call, answer: bytes | None) -> None:
        self._call = call
        self._answer = answer

    def partitions(self) -> list[InputPartition]:
        number = self._call.number
        if number is None:
            return [InputPartition(self._answer)]
        return [InputPartition(range(index, number, _MAX_TASKS)) for index in range(min(number, _MAX_TASKS))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        given = None if partition is None else partition.value  # Spark runs a task even without partitions
        if isinstance(given, bytes):
            yield _answer_row(given)
        elif given is not None:
            value = _task_value(self._call.function, self._call.arguments, list(given))
            yield _answer_row(_pack_value((value, None, PYTHON)))


def _answer_row(answer: bytes) -> pa.RecordBatch:
    return pa.record_batch({"answer": pa.array([answer])})


def _pack_value(value: object) -> bytes:
    return zlib.compress(pickle.dumps(value))


def _unpack_value(data: bytes) -> Any:
    unpacker = zlib.decompressobj()
    result = unpacker.decompress(data, max_call_bytes())
    if not unpacker.eof:
        raise ValueError("not a whole value")
    return _CallUnpickler(io.BytesIO(result)).load()


_DAMAGE: Final = (
    *(ValueError, TypeError, AttributeError, ImportError, EOFError, IndexError, KeyError),
    *(zlib.error, pickle.UnpicklingError),
)


_OTHERS = frozenset(
    {
        ("builtins", "frozenset"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("decimal", "Decimal"),
        ("zoneinfo", "ZoneInfo"),
    }
)
_ARROW = frozenset(
    ("schema", "field", "type_for_alias", "decimal128", "timestamp", "binary", "list_", "map_", "struct", "scalar")
)


class _CallUnpickler(pickle.Unpickler):
    """Unpickles only values of the core, its errors, and functions of `pyspark_hudi.calls`: SQL can set options as
    well."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):  # time zones
            return _zone_maker
        known = (module, name) in _OTHERS or (module == "pyarrow.lib" and name in _ARROW)
        if "." in name or not (known or module == CALLABLE or module.startswith("hudi_py.")):
            raise pickle.UnpicklingError(f"is of type {name}")
        member = super().find_class(module, name)
        if known or _is_value(member) or member in HELD_BY_VALUES:
            return member
        if module != CALLABLE or getattr(member, "__module__", None) != CALLABLE:
            raise pickle.UnpicklingError(f"is of type {name}")
        return member


def _is_value(value: object) -> bool:
    """Returns whether creating an instance has no side effects. Other classes may open files: one in `storage.local`
    truncates the file of its first argument."""
    return isinstance(value, type) and (is_dataclass(value) or issubclass(value, (Enum, tuple, HudiError)))


def _zone_maker(owner: object, name: str) -> Any:
    if owner is not ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError(f"is of type {name}")
    return getattr(ZoneInfo, name)
