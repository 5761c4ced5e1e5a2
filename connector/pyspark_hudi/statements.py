"""`update`, `delete_from` and `merge_into`: statements of the core, run in Spark's processes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError
from hudi_py.write.dml.distributed import (
    MergeBuilder,
    MergePlan,
    WriteResult,
    delete_text,
    merge_text,
    update_text,
)
from pyspark_hudi.failure import raised_here
from pyspark_hudi.services import stored_report
from pyspark_hudi.session import activate
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    source: DataFrame,
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
        source: its columns, other than Hudi's meta columns, have types that a table can have.
        on: a condition such as `t.id = s.id`, or columns that both have. It compares every record key column with an
            expression of the source.
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
    source: DataFrame | None = None,
) -> WriteResult:
    """Run a statement, given as text of `hudi_py.write.dml.distributed`, and return its report."""
    given = {str(key): value for key, value in (options or {}).items()}
    given[spark_config.SERVICE_TOKEN.key] = uuid.uuid4().hex
    issue(spark, path, text, given, source)
    return WriteResult.from_dict(stored_report(spark, path, given, f"the statement on {path} did: it completed"))


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
