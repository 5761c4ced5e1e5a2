"""`update`, `delete_from` and `merge_into`: statements that the core runs in one process or in Spark's tasks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.write.dml.distributed import (
    PARCELS,
    WORK,
    Delete,
    MergeBuilder,
    MergeCall,
    MergePlan,
    SpreadPlan,
    SpreadResult,
    SpreadStatement,
    SpreadSteps,
    StagedSource,
    Update,
    WriteResult,
    redo_on_conflict,
    run_spread_task,
    stage_source,
)
from pyspark_hudi import calls
from pyspark_hudi.failure import carried
from pyspark_hudi.remote import collected, given_options, remote, undone
from pyspark_hudi.seen import evaluated, saying_seen
from pyspark_hudi.table_writer import shuffle_partitions
from pyspark_hudi.tasks import in_tasks
from pyspark_hudi.types import arrow_schema, spark_schema
from pyspark_hudi.writer import task_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = Callable[[SpreadSteps, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def update(
    spark: SparkSession,
    path: str | os.PathLike[str],
    set: Mapping[str, object],
    filter: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> WriteResult:
    """Sets columns of rows, as `hudi_py.Table.update` does.

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
    path = os.fspath(path)
    if filter is not None:
        _check_text("update", path, filter)
    return run(spark, path, Update(dict(set), filter), options)


def delete_from(
    spark: SparkSession, path: str | os.PathLike[str], filter: str, *, options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Deletes the rows for which a condition is true, as `hudi_py.Table.delete_where` does; see `update`.

    Raises:
        HudiError: as `Table.delete_where`; nothing was written.
        pyspark.errors.PySparkException: Spark failed.
    """
    path = os.fspath(path)
    _check_text("delete from", path, filter)
    return run(spark, path, Delete(filter), options)


def merge_into(
    spark: SparkSession,
    path: str | os.PathLike[str],
    source: DataFrame | Callable[[], DataFrame],
    on: str | Iterable[str],
    *,
    source_alias: str = "s",
    target_alias: str = "t",
    options: Mapping[str, Any] | None = None,
) -> MergeBuilder:
    """Merges a DataFrame into a table, as `hudi_py.Table.merge` does: add clauses to the result, then call `execute()`.

        merge_into(spark, path, changes, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

    Spark's tasks stage the rows of the source. Up to `hoodie.py.local.max.bytes` one process merges them, otherwise
    tasks do.

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
    path = os.fspath(path)
    named = (on,) if isinstance(on, str) else tuple(on)
    plan = MergePlan(named, (), source_alias, target_alias)
    return MergeBuilder(plan, lambda made: run(spark, path, made, options, source))


def run(
    spark: SparkSession,
    path: str,
    change: Update | Delete | MergePlan,
    options: Mapping[str, Any] | None = None,
    source: DataFrame | Callable[[], DataFrame] | None = None,
) -> WriteResult:
    """Runs a statement and returns its report. If another write has changed the table since its source rows were read,
    that is a conflict, after which a source given as a function is evaluated again."""
    given = options or {}
    if source is None:
        return _run(spark, path, change, given, None)
    if not callable(source):
        return _run(spark, path, change, saying_seen(source, path, given), source)
    result, again = evaluated(source, path, given, lambda rows, said: _run(spark, path, change, said, rows))
    return replace(result, retries=result.retries + again)


def _run(
    spark: SparkSession,
    path: str,
    change: Update | Delete | MergePlan,
    options: Mapping[str, Any],
    source: DataFrame | None,
) -> WriteResult:
    given = given_options(options)
    first = _planned(spark, path, change, given, source)
    if isinstance(first, WriteResult):
        return first  # in one process the statement has already been repeated
    attempts: Iterator[WriteResult | SpreadPlan] = chain(
        [first], iter(lambda: _planned(spark, path, change, given, source), None)
    )

    def attempt() -> WriteResult:
        plan = next(attempts)
        return plan if isinstance(plan, WriteResult) else _spread(spark, plan)

    result, retries = redo_on_conflict(attempt, first.statement.write.handle.settings.conflict_retries)
    return replace(result, retries=result.retries + retries)


def _planned(
    spark: SparkSession,
    path: str,
    change: Update | Delete | MergePlan,
    given: Mapping[str, Any],
    source: DataFrame | None,
) -> WriteResult | SpreadPlan:
    """Returns the result of a statement that one process has run, or its plan for tasks."""
    if source is None:
        assert not isinstance(change, MergePlan)
        return remote(spark, calls.run_change, path, given, change)
    assert isinstance(change, MergePlan)
    call = remote(spark, calls.plan_merge, path, given, change, arrow_schema(source.schema))
    with undone(spark, calls.abort_merge, call):
        staged = collected(source, functools.partial(_stage, call))
    return remote(spark, calls.commit_merge, call, staged)


def _stage(call: MergeCall, batches: Iterator[pa.RecordBatch]) -> StagedSource | None:
    return stage_source(call, task_id(), batches)


def _spread(spark: SparkSession, plan: SpreadPlan) -> WriteResult:
    """Runs a planned statement in tasks and publishes what they have written."""
    statement, most = plan.statement, shuffle_partitions(spark)
    number = len(plan.work)
    frame = in_tasks(
        spark.range(0, number, 1, max(number, 1)), functools.partial(_own_work, plan.work), spark_schema(WORK)
    )
    with undone(spark, calls.abort_spread, statement):
        if plan.shuffles:
            # Spark's adaptive execution keeps explicit numbers
            frame = _step(frame, statement, SpreadSteps.read).repartition(min(statement.parts, most), "to")
            frame = _step(frame, statement, SpreadSteps.merge).repartition(min(plan.writers, most), "to")
        results = collected(frame, functools.partial(_write, statement))
        return remote(spark, calls.commit_spread, statement, results)


def _own_work(work: Sequence[bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays(
            [pa.array([work[number] for number in batch.column(0).to_pylist()])], schema=WORK
        )


def _step(frame: DataFrame, plan: SpreadStatement, step: Step) -> DataFrame:
    return in_tasks(frame, functools.partial(_run_step, plan, step), spark_schema(PARCELS))


def _run_step(plan: SpreadStatement, step: Step, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with carried():
        yield from step(SpreadSteps(plan, task_id()), batches)


def _write(plan: SpreadStatement, batches: Iterator[pa.RecordBatch]) -> SpreadResult:
    return run_spread_task(plan, task_id(), batches)


def _check_text(what: str, path: str, filter: object) -> None:
    if not isinstance(filter, str) or not filter.strip():
        raise ConfigError(
            f"Cannot {what} {path} with the filter {filter!r}; supported: a condition as text, like 'fare > 10'"
        )
