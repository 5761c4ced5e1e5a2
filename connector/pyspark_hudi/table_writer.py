"""`write_table`: Spark shuffles rows by file group, so that tasks merge and write them, instead of one process.

The keys of rows are looked up in tasks, after a shuffle by partition unless they are few. Another shuffle brings the
rows of a file group to one task, which writes it whole. Both have an explicit number of partitions, which Spark's
adaptive execution keeps. Small writes are left to one process, which takes less time than the steps between tasks.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql.types import StructType

from hudi_py.config import SECRET_KEYS, Options, Scope
from hudi_py.config import spark as spark_config
from hudi_py.errors import first_line
from hudi_py.schema import backticked
from hudi_py.write.distributed import WriteResult, redo_on_conflict
from hudi_py.write.routed import (
    COUNTED,
    GROUP,
    KEY,
    MEASURED,
    ORDER,
    PART,
    PATH,
    STATE,
    RoutedWrite,
    Sizes,
    decode_plan,
)
from pyspark_hudi.failure import raised_here
from pyspark_hudi.seen import saying_seen
from pyspark_hudi.services import of_storage, stored_report
from pyspark_hudi.session import activate
from pyspark_hudi.table import FORMAT
from pyspark_hudi.tasks import in_tasks
from pyspark_hudi.types import spark_schema
from pyspark_hudi.writer import ABANDONED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

Step = Callable[[RoutedWrite, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ESTIMATE = re.compile(r"sizeInBytes=(?P<number>[\d.]+(?:E\+?\d+)?) (?P<unit>[KMGTPE]i)?B\b")
_UNITS = (None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TASK_BYTES = 64 * 1024 * 1024
"""What a task reads and writes at least, where there is more than one."""
_INFLATION = 4
"""Bytes of rows for each byte that Catalyst estimates: of files, it takes the compressed size."""
_ROWS_OF_A_PARTITION = 1 << 33
"""More than a partition of Spark's has, as for `monotonically_increasing_id`."""


def write_table(
    df: DataFrame, path: str, *, operation: str = "upsert", options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Write a DataFrame to a table as one commit, with work and memory spread over Spark's tasks.

    Equal to `hudi_py.write` of the same rows. The table is created if there is none. Only Spark's processes access it;
    the caller's does not. The rows may be evaluated several times: persist a DataFrame that is expensive. Where its
    evaluations differ, the rows of one of them are written.

    One task merges and writes each file group, and holds the rows of one at a time. Rows with new keys fill up small
    files. Bulk inserts and overwrites write files of their own, in the order that `hoodie.bulkinsert.sort.mode` asks
    for. `spark.sql.shuffle.partitions` limits the number of tasks. Up to `hoodie.py.local.max.bytes` one process merges
    the rows, as it does for the plain format.

    The session becomes the active one of the calling thread.

    Args:
        df: the rows; for a delete, those with the keys to delete. Columns of Hudi's own (`_hoodie_*`) are left out.
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`.
        options: write options, by Apache Hudi's keys.

    Raises:
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was written.
        TableNotFoundError: a delete without a table.
        ConflictError: another write is pending, or completed meanwhile. With optimistic concurrency control the write
            is repeated first, as often as `hoodie.write.num.retries.on.conflict.failures` says. Or `read_table` has
            read rows of this table for `df`, and another write has changed their file groups since: read it again.
        pyspark.errors.PySparkException: Spark failed.
    """
    activate(df.sparkSession)
    given = saying_seen(df, path, {str(key): value for key, value in (options or {}).items()})

    def prepared() -> _Write:
        plan = _plan(df, path, operation, given)
        with _given_up(df.sparkSession, path, plan, of_storage(given)), raised_here():
            return _Write(df, path, plan, given)

    first = prepared()
    writes = itertools.chain([first], iter(prepared, None))
    result, retries = redo_on_conflict(lambda: next(writes).run(), first.retries)
    return replace(result, retries=result.retries + retries)


@contextlib.contextmanager
def _given_up(spark: SparkSession, path: str, plan: Row, storage: Mapping[str, Any]) -> Iterator[None]:
    """Gives up a write that has made its table, if it fails: Spark aborts only those whose rows reach its writer."""
    try:
        yield
    except BaseException:  # also after an interrupt
        if plan["made"]:
            with contextlib.suppress(PySparkException):  # the next first write makes the table anew
                _request(spark, path, {ABANDONED: _text(plan)}, storage)
        raise


def _plan(df: DataFrame, path: str, operation: str, options: Mapping[str, Any]) -> Row:
    storage = of_storage(options)
    own = {key: value for key, value in options.items() if key not in storage and key.lower() not in SECRET_KEYS}
    request = {"operation": operation, "options": own, "schema": df.schema.jsonValue()}
    with raised_here():
        return _request(df.sparkSession, path, request, storage)[0]


def _request(spark: SparkSession, path: str, request: Mapping[str, Any], storage: Mapping[str, Any]) -> list[Row]:
    """What the planning process of Spark answers."""
    reader = spark.read.format(FORMAT).options(**storage).option(spark_config.VIEW.key, "write")
    return reader.option(spark_config.WRITE_REQUEST.key, json.dumps(request, default=str)).load(path).collect()


def _text(plan: Row) -> str:
    return base64.b64encode(plan["plan"]).decode()


class _Write:
    """One attempt, planned, with its rows counted where that decides who writes them."""

    def __init__(self, df: DataFrame, path: str, plan: Row, options: Mapping[str, Any]) -> None:
        self._df = df.select(*map(backticked, plan["columns"]))
        self._path = path
        self._plan = plan
        self._storage = of_storage(options)
        self._most = shuffle_partitions(df.sparkSession)
        self._frame = self._df if plan["committed"] is not None else self._shuffled()
        self.retries: int = 0 if self._frame is None else plan["retries"]
        """After conflicts; one process tries its staged rows again itself."""

    def run(self) -> WriteResult:
        if self._plan["committed"] is not None:
            _log.warning("skipping a write to %s: %s", self._path, self._plan["committed"])
            return WriteResult(None, None, self._plan["operation"], 0, 0, 0, 0, 0)
        given = {
            **self._storage,
            spark_config.WRITE_PLAN.key: _text(self._plan),
            spark_config.WRITE_STAGES.key: str(self._frame is None),
            spark_config.SERVICE_TOKEN.key: uuid.uuid4().hex,
        }
        frame = self._df if self._frame is None else self._frame
        with _given_up(self._df.sparkSession, self._path, self._plan, self._storage), raised_here():
            frame.write.format(FORMAT).options(**given).mode("append").save(self._path)
            what = f"the write to {self._path} did: it was committed"
            return WriteResult.from_dict(stored_report(self._df.sparkSession, self._path, given, what))

    def _shuffled(self) -> DataFrame | None:
        """The rows as the tasks that write expect them; None if one process is to merge the rows as they come."""
        arrival = self._plan["arrival"]
        if arrival == "any":
            return self._df
        if arrival == "groups" and self._seems_small():
            return None
        counts = self._counts()
        if arrival == "groups":
            work = sum(row["work"] for row in counts)
            return None if work <= self._plan["local_bytes"] else self._by_group(counts, work)
        size = sum(row["rows"] * row["record_size"] for row in counts)
        number = self._tasks(size, self._plan["max_file_size"])
        keyed = self._step(self._df, lambda write, batches: write.key(batches), PATH, KEY)
        if arrival == "ranges":
            keyed = keyed.repartitionByRange(number, PATH.name, KEY.name)
        else:
            keyed = keyed.repartition(min(number, max(len(counts), 1)), PATH.name)
        return keyed.drop(PATH.name, KEY.name)

    def _seems_small(self) -> bool:
        """Whether Catalyst's estimate of the rows, which costs no job, is enough to leave them to one process."""
        rewritten, most = self._plan["rewritten_bytes"], self._plan["local_bytes"]
        if rewritten is None or rewritten > most:
            return False
        estimate = estimated_bytes(self._df)
        return estimate is not None and rewritten + estimate * _INFLATION <= most

    def _by_group(self, counts: list[Row], work: int) -> DataFrame:
        sizes = Sizes.of(counts)
        parts = min(sum(row["parts"] for row in counts), self._most)
        shuffles = self._plan["gathers_keys"] and parts > 0

        def number(write: RoutedWrite, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            first = (0 if context is None else context.partitionId()) * _ROWS_OF_A_PARTITION
            numbered = write.number(sizes, first, batches, parts=shuffles)
            return numbered if shuffles else write.route(sizes, numbered)

        def route(write: RoutedWrite, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return write.route(sizes, batches)

        if shuffles:
            frame = self._step(self._df, number, ORDER, PART).repartition(parts, PART.name)
            frame = self._step(frame, route, ORDER, GROUP, STATE)
        else:
            frame = self._step(self._df, number, ORDER, GROUP, STATE)
        return frame.repartition(self._tasks(work, _TASK_BYTES), GROUP.name)

    def _counts(self) -> list[Row]:
        """The rows of the input by partition path: `MEASURED`."""
        columns = self._df.select(*map(backticked, self._plan["counted"]))
        counted = self._apply(columns, lambda write, batches: write.count(batches), spark_schema(COUNTED))
        total = counted.groupBy("path").sum("rows", "tasks").toDF(*COUNTED.names).coalesce(1)
        return self._apply(total, lambda write, batches: write.measure(batches), spark_schema(MEASURED)).collect()

    def _tasks(self, size: int, each: int) -> int:
        return min(max(-(-size // each), 1), self._most)

    def _step(self, frame: DataFrame, step: Step, *added: pa.Field) -> DataFrame:
        """The frame with the columns that a step adds to those of the input."""
        more = spark_schema(pa.schema(added))
        return self._apply(frame, step, StructType([*self._df.schema, *more]))

    def _apply(self, frame: DataFrame, step: Step, schema: StructType) -> DataFrame:
        plan, storage = self._plan["plan"], Options.resolve(self._storage, Scope.WRITE, defaults={}).storage

        def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return step(RoutedWrite(decode_plan(plan, storage)), batches)

        return in_tasks(frame, apply, schema)


def estimated_bytes(df: DataFrame) -> int | None:
    """Catalyst's estimate of a DataFrame; None if there is none."""
    try:
        row = df.sparkSession.sql("EXPLAIN COST SELECT * FROM {rows}", rows=df).first()
    except PySparkException as error:
        _log.debug("no estimate of the rows: %s", first_line(error))
        return None
    found = _ESTIMATE.search("" if row is None else str(row[0]))
    return None if found is None else int(float(found["number"]) * 1024 ** _UNITS.index(found["unit"]))


def shuffle_partitions(spark: SparkSession) -> int:
    """How many tasks a shuffle may have."""
    # classic Spark checks a default given here against the type of the configuration
    most = spark.conf.get("spark.sql.shuffle.partitions") or ""
    return int(most) if most.isdigit() else 200  # some platforms choose it themselves
