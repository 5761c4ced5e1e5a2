"""`update`, `delete_from` and `merge_into`: statements of the core, run in Spark's processes."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from hudi_py.config import Options, Scope
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError
from hudi_py.write.dml.distributed import (
    PARCELS,
    WORK,
    MergeBuilder,
    MergePlan,
    SpreadSteps,
    WriteResult,
    decode_spread,
    delete_text,
    forget_text,
    merge_text,
    redo_on_conflict,
    update_text,
)
from pyspark_hudi.failure import raised_here
from pyspark_hudi.seen import evaluated, saying_seen
from pyspark_hudi.services import of_storage, stored_report
from pyspark_hudi.session import activate
from pyspark_hudi.table import FORMAT
from pyspark_hudi.table_writer import shuffle_partitions
from pyspark_hudi.tasks import in_tasks
from pyspark_hudi.types import spark_schema
from pyspark_hudi.writer import task_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = Callable[[SpreadSteps, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def update(
    spark: SparkSession,
    path: str,
    set: Mapping[str, object],
    filter: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> WriteResult:
    """Set columns of rows, as `hudi_py.Table.update`, in one of Spark's processes.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        set: a value for each column, in terms of the old row: text is an expression in a subset of Spark SQL, anything
            else a constant.
        filter: only rows for which this condition is true; None: all.
        options: write options, by Apache Hudi's keys.

    Raises:
        HudiError: as `Table.update`; nothing was written.
        pyspark.errors.PySparkException: Spark failed.
    """
    if filter is not None:
        _check_text("update", path, filter)
    return run(spark, path, update_text(set, filter), options)


def delete_from(
    spark: SparkSession, path: str, filter: str, *, options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Delete the rows for which a condition is true, as `hudi_py.Table.delete_where`; see `update`.

    Raises:
        HudiError: as `Table.delete_where`; nothing was written.
        pyspark.errors.PySparkException: Spark failed.
    """
    _check_text("delete from", path, filter)
    return run(spark, path, delete_text(filter), options)


def merge_into(
    spark: SparkSession,
    path: str,
    source: DataFrame | Callable[[], DataFrame],
    on: str | Iterable[str],
    *,
    source_alias: str = "s",
    target_alias: str = "t",
    options: Mapping[str, Any] | None = None,
) -> MergeBuilder:
    """Merge a DataFrame into a table, as `hudi_py.Table.merge`: add clauses to the result, then call `execute()`.

        merge_into(spark, path, changes, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

    Spark's tasks stage the rows of the source, up to `hoodie.py.staging.max.bytes`, and one of Spark's processes merges
    them.

    Args:
        source: its columns, other than Hudi's meta columns, have types that a table can have. A function is called for
            each attempt.
        on: a condition such as `t.id = s.id`, or columns that both have. It compares every record key column with an
            expression of the source; where keys are generated, it is any condition.
        source_alias, target_alias: the names of source and table in expressions.

    Raises:
        HudiError: by `execute()`, as a merge by `Table.merge`; nothing was written.
        pyspark.errors.PySparkException: Spark failed.
    """
    named = (on,) if isinstance(on, str) else tuple(on)
    plan = MergePlan(named, (), source_alias, target_alias)
    return MergeBuilder(plan, lambda made: run(spark, path, merge_text(made), options, source))


def run(
    spark: SparkSession,
    path: str,
    text: str,
    options: Mapping[str, Any] | None = None,
    source: DataFrame | Callable[[], DataFrame] | None = None,
) -> WriteResult:
    """Run a statement, given as text of `hudi_py.write.dml.text`, and return its report. What the rows of its source
    have read of its table is part of what it has seen: another write that has changed it since is a conflict, after
    which a source that is a function is evaluated again."""
    given = options or {}
    if source is None:
        return _run(spark, path, text, given, None)
    if not callable(source):
        return _run(spark, path, text, saying_seen(source, path, given), source)
    result, again = evaluated(source, path, given, lambda rows, said: _run(spark, path, text, said, rows))
    return replace(result, retries=result.retries + again)


def _run(
    spark: SparkSession, path: str, text: str, options: Mapping[str, Any], source: DataFrame | None
) -> WriteResult:
    first = _StatementRun(spark, path, text, options, source)
    attempts = chain([first], iter(lambda: _StatementRun(spark, path, text, options, source), None))
    # in one process a statement has been repeated already
    result, retries = redo_on_conflict(
        lambda: next(attempts).finish(), first.report.get("retries", 0) if "plan" in first.report else 0
    )
    return replace(result, retries=result.retries + retries)


class _StatementRun:
    """A statement that one process has run, or planned for tasks."""

    def __init__(
        self, spark: SparkSession, path: str, text: str, options: Mapping[str, Any], source: DataFrame | None
    ) -> None:
        self._spark = spark
        self._path = path
        self._what = f"the statement on {path} did: it completed"
        token = {spark_config.SERVICE_TOKEN.key: uuid.uuid4().hex}
        self._options = {**of_storage(options), **token}
        issue(spark, path, text, {**options, **token}, source)
        self.report = stored_report(spark, path, self._options, self._what)

    def finish(self) -> WriteResult:
        if "plan" not in self.report:
            return WriteResult.from_dict(self.report)
        frame = self._work()
        if self.report["shuffles"]:
            # Spark's adaptive execution keeps explicit numbers
            frame = self._step(frame, SpreadSteps.read, PARCELS).repartition(self._tasks("parts"), "to")
            frame = self._step(frame, SpreadSteps.merge, PARCELS).repartition(self._tasks("writers"), "to")
        options = {
            **self._options,
            spark_config.WRITE_PLAN.key: self.report["plan"],
            spark_config.STATEMENT.key: "{}",
        }
        with raised_here():
            try:
                frame.write.format(FORMAT).options(**options).mode("append").save(self._path)
            except PySparkException:
                if self.report["shuffles"]:
                    # the writer does not learn of a failure before a shuffle
                    issue(self._spark, self._path, forget_text(), self._options)
                raise
        return WriteResult.from_dict(stored_report(self._spark, self._path, self._options, self._what))

    def _work(self) -> DataFrame:
        """The work of the first tasks, one row for each."""
        work = [base64.b64decode(each) for each in self.report["work"]]

        def own(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(
                    [pa.array([work[at] for at in batch.column(0).to_pylist()])], schema=WORK
                )

        number = len(work)
        return in_tasks(self._spark.range(0, number, 1, max(number, 1)), own, spark_schema(WORK))

    def _step(self, frame: DataFrame, step: Step, schema: pa.Schema) -> DataFrame:
        plan = base64.b64decode(self.report["plan"])
        storage = Options.resolve(of_storage(self._options), Scope.WRITE, defaults={}).storage

        def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return step(SpreadSteps(decode_spread(plan, storage), task_id()), batches)

        return in_tasks(frame, apply, spark_schema(schema))

    def _tasks(self, member: str) -> int:
        return min(int(self.report[member]), shuffle_partitions(self._spark))


def issue(
    spark: SparkSession, path: str, text: str, options: Mapping[str, Any], source: DataFrame | None = None
) -> None:
    """Run a statement as one write; `source` has the rows of a merge, or the columns of a new table."""
    activate(spark)
    rows = spark.range(0, 0, 1, 1) if source is None else source
    with raised_here():
        rows.write.format(FORMAT).options(**options).option(spark_config.STATEMENT.key, text).mode("append").save(path)


def _check_text(what: str, path: str, filter: object) -> None:
    if not isinstance(filter, str) or not filter.strip():
        raise ConfigError(
            f"Cannot {what} {path} with the filter {filter!r}; supported is a condition as text, like 'fare > 10'"
        )
