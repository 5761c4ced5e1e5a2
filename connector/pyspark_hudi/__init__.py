"""Apache Hudi tables for PySpark, without a JAR.

```python
spark.read.format("hudi-py").load("/data/trips")
read_table(spark, "/data/trips", columns=["id"], filter="city = 'oslo'")
df.write.format("hudi-py").options(**hudi_options).mode("append").save("/data/trips")
```

Spark finds `DefaultSource` without registration where this package is installed in the Python environment that
PYSPARK_PYTHON names. Where it was shipped with a job instead (`--py-files`, artifacts), call `register(spark)` first.
That also checks the environment, makes the table functions known to Spark SQL as `register_sql(spark)` does, and lets
the calling thread write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_py.write.dml.distributed import MergeBuilder, WriteResult

__all__ = [
    "delete_from",
    "disable",
    "enable",
    "merge_into",
    "read_table",
    "register",
    "register_sql",
    "run_service",
    "sql",
    "update",
    "write_table",
]

_failure: Exception | None = None
# Spark imports every package named `pyspark_*` when it looks for data sources. If one import fails, Spark finds no data
# source at all, so this one must not fail, not even with an older Spark or none.
try:
    from pyspark_hudi.source import DefaultSource
except Exception as error:  # from errors of the imported modules, see `_check`
    _failure = error
else:
    __all__ += ["DefaultSource"]


def register(spark: SparkSession, name: str = "hudi-py") -> None:
    """Registers the format `hudi-py`, optionally under a second name, and the table functions with a session: see
    `pyspark_hudi.session.register`.

    Raises:
        ImportError: this Python environment, or that of Spark's workers, lacks what the data source needs.
    """
    _check()
    from pyspark_hudi import session

    session.register(spark, name)


def register_sql(
    spark: SparkSession,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    temporary: bool = False,
) -> None:
    """Registers the table functions with a session and, with a name and a path, a table with Spark SQL: see
    `pyspark_hudi.catalog.register_sql`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import catalog

    catalog.register_sql(spark, name, None if path is None else os.fspath(path), options=options, temporary=temporary)


def enable(spark: SparkSession, name: str = "hudi-py") -> None:
    """Makes `spark.read.format("hudi-py")` of a session read as `read_table` does, optionally under a second name: see
    `pyspark_hudi.hooks.enable`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import hooks

    hooks.enable(spark, name)


def disable(spark: SparkSession) -> None:
    """Undoes `enable(spark)`: see `pyspark_hudi.hooks.disable`."""
    _check()
    from pyspark_hudi import hooks

    hooks.disable(spark)


def read_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads a table in the fastest way: see `pyspark_hudi.table.read_table`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import table

    return table.read_table(spark, os.fspath(path), columns=columns, filter=filter, options=options)


def write_table(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    operation: str = "upsert",
    options: Mapping[str, Any] | None = None,
) -> WriteResult:
    """Writes a DataFrame with Spark's tasks, at any size: see `pyspark_hudi.table_writer.write_table`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import table_writer

    return table_writer.write_table(df, os.fspath(path), operation=operation, options=options)


def update(
    spark: SparkSession,
    path: str | os.PathLike[str],
    set: Mapping[str, object],
    filter: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> WriteResult:
    """Sets columns of the rows for which a condition is true: see `pyspark_hudi.statements.update`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import statements

    return statements.update(spark, os.fspath(path), set, filter, options=options)


def delete_from(
    spark: SparkSession, path: str | os.PathLike[str], filter: str, *, options: Mapping[str, Any] | None = None
) -> WriteResult:
    """Deletes the rows for which a condition is true: see `pyspark_hudi.statements.delete_from`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import statements

    return statements.delete_from(spark, os.fspath(path), filter, options=options)


def merge_into(
    spark: SparkSession,
    path: str | os.PathLike[str],
    source: DataFrame,
    on: str | Iterable[str],
    *,
    source_alias: str = "s",
    target_alias: str = "t",
    options: Mapping[str, Any] | None = None,
) -> MergeBuilder:
    """Merges a DataFrame into a table: see `pyspark_hudi.statements.merge_into`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import statements

    return statements.merge_into(
        spark,
        os.fspath(path),
        source,
        on,
        source_alias=source_alias,
        target_alias=target_alias,
        options=options,
    )


def sql(spark: SparkSession, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
    """Runs a statement of Spark SQL that may concern Hudi tables: see `pyspark_hudi.dialect.run.sql`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi.dialect import run

    return run.sql(spark, text, args)


def run_service(
    spark: SparkSession,
    path: str | os.PathLike[str],
    name: str,
    *,
    phase: str | None = None,
    instant: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Runs a table service by name on Spark's tasks and returns its report. For names, arguments, report and errors see
    `pyspark_hudi.services.run_service`.

    Raises:
        ImportError: as `register`.
    """
    _check()
    from pyspark_hudi import services

    path = os.fspath(path)
    return services.run_service(spark, path, name, phase=phase, instant=instant, options=options, **arguments)


def _check() -> None:
    if _failure is not None:
        raise ImportError(f"The data source hudi-py cannot be used in this environment: {_failure}") from _failure
