"""`write_table`: Spark shuffles rows by file group, so that tasks merge and write them, instead of one process.

Tasks look up the keys of rows, after a shuffle by partition unless they are few. Another shuffle brings the rows of a
file group to one task, which writes it whole. Both have an explicit number of partitions, which Spark's adaptive
execution keeps. One process does small writes, which takes less time than the steps between tasks: tasks stage the rows
first, and stop if there are too many.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.types import StructType

from hudi_py.schema import backticked
from hudi_py.write.distributed import (
    DistributedWrite,
    TaskResult,
    WriteResult,
    nothing_written,
    redo_on_conflict,
    run_task,
    stage_small,
)
from hudi_py.write.routed import (
    COUNTED,
    KEY,
    MEASURED,
    PATH,
    RoutedPlan,
    RoutedSteps,
    Sizes,
    Step,
    by_share,
    steps_of,
)
from pyspark_hudi import calls
from pyspark_hudi.failure import carried, raised_here
from pyspark_hudi.remote import collected, given_options, remote, undone
from pyspark_hudi.seen import saying_seen
from pyspark_hudi.tasks import in_tasks
from pyspark_hudi.types import arrow_schema, spark_schema
from pyspark_hudi.writer import task_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_TASK_BYTES = 64 * 1024 * 1024
"""Minimum size of a task's input, if there are several tasks."""


def write_table(
    df: DataFrame, path: str | os.PathLike[str], *, operation: str = "upsert", options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Writes a DataFrame to a table as one commit, with work and memory spread over Spark's tasks.

    Equal to `hudi_py.write` of the same rows. The table is created if there is none. The rows may be evaluated several
    times: persist a DataFrame that is expensive. Where its evaluations differ, the rows of one of them are written.

    One task merges and writes each file group, and holds the rows of one at a time. Rows with new keys fill up small
    files. Bulk inserts and overwrites write files of their own, in the order that `hoodie.bulkinsert.sort.mode` asks
    for. `spark.sql.shuffle.partitions` limits the number of tasks. Up to `hoodie.py.local.max.bytes` one process merges
    the rows, as it does for the plain format.

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
    path = os.fspath(path)
    spark, columns = df.sparkSession, arrow_schema(df.schema)
    given = saying_seen(df, path, given_options(options))

    def planned() -> RoutedPlan:
        return remote(spark, calls.plan_write, path, given, operation, columns)

    def shuffled() -> _Attempt:
        plan = planned()
        with undone(spark, calls.abort_write, plan.write):
            return _Attempt.of(df, plan)

    plan = planned()
    with undone(spark, calls.abort_write, plan.write):
        written = _in_one_process(df, plan)
        if written is not None:
            return written
        first = _Attempt.of(df, plan)
    attempts = itertools.chain([first], iter(shuffled, None))
    result, retries = redo_on_conflict(lambda: next(attempts).run(), first.retries)
    return replace(result, retries=result.retries + retries)


def _in_one_process(df: DataFrame, plan: RoutedPlan) -> WriteResult | None:
    """Stages the rows for one process to merge; returns None if there are too many for one process."""
    spark, left = df.sparkSession, plan.local_bytes - (plan.rewritten_bytes or 0)
    if plan.write.arrival != "groups" or plan.committed is not None or plan.rewritten_bytes is None or left <= 0:
        return None
    write = replace(plan.write, arrival="one")
    with undone(spark, calls.forget_staged, write):
        rows = collected(_columns(df, plan), functools.partial(_stage, write, left))
    results = [row for (row,) in rows if row is not None]
    staged = sum(result.staged.num_bytes for result in results if result.staged is not None)
    if len(results) == len(rows) and staged <= left:
        return remote(spark, calls.commit_staged, write, results)
    remote(spark, calls.forget_staged, write)
    return None


def _columns(df: DataFrame, plan: RoutedPlan) -> DataFrame:
    return df.select(*map(backticked, plan.write.incoming.names))


@dataclass(frozen=True)
class _Attempt:
    """A planned write, and its rows as the writing tasks expect them."""

    plan: RoutedPlan
    rows: DataFrame
    retries: int
    """Retries after conflicts; if one process writes staged rows, it repeats the write itself."""

    @classmethod
    def of(cls, df: DataFrame, plan: RoutedPlan) -> _Attempt:
        rows = _columns(df, plan)
        frame = rows if plan.committed is not None else _Shuffle(rows, plan).frame()
        if frame is None:
            return cls(replace(plan, write=replace(plan.write, arrival="one")), rows, 0)
        return cls(plan, frame, plan.write.handle.settings.conflict_retries)

    def run(self) -> WriteResult:
        spark, write = self.rows.sparkSession, self.plan.write
        if self.plan.committed is not None:
            _log.warning("skipping a write to %s: %s", write.handle.table_uri, self.plan.committed)
            return nothing_written(write)
        with undone(spark, calls.abort_write, write):
            results = collected(self.rows, functools.partial(_write, write))
            return remote(spark, calls.commit_write, write, results)


def _stage(write: DistributedWrite, max_bytes: int, batches: Iterator[pa.RecordBatch]) -> tuple[TaskResult | None]:
    return (stage_small(write, task_id(), batches, max_bytes),)


def _write(write: DistributedWrite, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    return run_task(write, task_id(), batches)


class _Shuffle:
    """Brings the rows of a planned write to the tasks that write them: Spark's `Exchange`."""

    def __init__(self, rows: DataFrame, plan: RoutedPlan) -> None:
        self._rows = rows
        self._plan = plan
        self._most = shuffle_partitions(rows.sparkSession)

    def frame(self) -> DataFrame | None:
        """Returns the rows as the tasks expect them; None if one process should merge the rows as they come."""
        arrival = self._plan.write.arrival
        if arrival == "any":
            return self._rows
        counts = self._counts()
        if arrival == "groups":
            work = sum(row["work"] for row in counts)
            return None if work <= self._plan.local_bytes else self._by_share(counts, work)
        size = sum(row["rows"] * row["record_size"] for row in counts)
        number = self._tasks(size, self._plan.write.settings.packing.max_file_size)
        keyed = self.each(self._rows, RoutedSteps.key, PATH, KEY)
        if arrival == "ranges":
            keyed = keyed.repartitionByRange(number, PATH.name, KEY.name)
        else:
            keyed = keyed.repartition(min(number, max(len(counts), 1)), PATH.name)
        return keyed.drop(PATH.name, KEY.name)

    def each(self, rows: DataFrame, step: Step, *added: pa.Field) -> DataFrame:
        """See `Exchange`. `added` are columns added to the input."""
        return self._apply(rows, step, StructType([*self._rows.schema, *spark_schema(pa.schema(added))]))

    def together(self, rows: DataFrame, by: pa.Field, tasks: int) -> DataFrame:
        """See `Exchange`."""
        return rows.repartition(tasks, by.name)

    def _by_share(self, counts: list[Row], work: int) -> DataFrame:
        parts = min(sum(row["parts"] for row in counts), self._most) if self._plan.gathers_keys else 0
        return by_share(self, self._rows, Sizes.of(counts), parts=parts, tasks=self._tasks(work, _TASK_BYTES))

    def _counts(self) -> list[Row]:
        """Counts the rows of the input by partition path: `MEASURED`."""
        columns = self._rows.select(*map(backticked, self._plan.counted))
        counted = self._apply(columns, RoutedSteps.count, spark_schema(COUNTED))
        total = counted.groupBy("path").sum("rows", "tasks").toDF(*COUNTED.names).coalesce(1)
        with raised_here():
            return self._apply(total, RoutedSteps.measure, spark_schema(MEASURED)).collect()

    def _tasks(self, size: int, size_of_one: int) -> int:
        return min(max(-(-size // size_of_one), 1), self._most)

    def _apply(self, frame: DataFrame, step: Step, schema: StructType) -> DataFrame:
        return in_tasks(frame, functools.partial(_run_step, self._plan.write, step), schema)


def _run_step(write: DistributedWrite, step: Step, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    with carried():
        yield from step(steps_of(write, 0 if context is None else context.partitionId()), batches)


def shuffle_partitions(spark: SparkSession) -> int:
    """Returns how many tasks a shuffle may have."""
    # classic Spark checks a default given here against the type of the setting
    most = spark.conf.get("spark.sql.shuffle.partitions") or ""
    return int(most) if most.isdigit() else 200  # some platforms choose it themselves
