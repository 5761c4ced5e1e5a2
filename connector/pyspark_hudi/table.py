"""`read_table`: reads slices without logs by Spark's own Parquet reader, and the others by the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from hudi_py.config import read as read_config
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError
from pyspark_hudi.failure import raised_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FORMAT = "hudi-py"

_EXACTLY = {
    # folder names are not partition columns, and every file must exist
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Options of Spark's Parquet reader that override the session's."""


def read_table(
    spark: SparkSession,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the rows of `spark.read.format("hudi-py").load(path)` in the fastest way.

    Spark's own Parquet reader reads slices without logs if their files hold the rows exactly as the table shows them;
    the view `splits` shows which, and the reason for others. The data source reads the rest. Both see the table as it
    is now, and the DataFrame keeps that state, on Spark Connect too. Rows are in no particular order.

    The table is planned through the data source, so that this process needs no access to it.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        columns: columns to read, in the order of the result; None: all.
        filter: a condition in the data source's subset of Spark SQL; rows for which it is true are returned. Times
            without a zone are in UTC, not in the session's zone.
        options: options of `spark.read`, by the keys of Apache Hudi.

    Raises:
        ConfigError: `columns` or `filter` contradict `options`, or the filter is empty or not text.
        HudiError: the errors of planning a scan with `hudi_py.Table`.
        pyspark.errors.PySparkException: Spark failed.
    """
    given = {str(key).lower(): value for key, value in (options or {}).items()}
    if spark_config.VIEW.key in given:
        raise ConfigError(
            "Cannot read a view of a table by read_table; use spark.read.format('hudi-py').option('view')"
        )
    if columns is not None:
        _put(given, read_config.COLUMNS.key, ", ".join(_quoted(name) for name in columns), "columns")
    if filter is not None:
        if not isinstance(filter, str) or not filter.strip():
            raise ConfigError(
                f"Cannot read {path} with the filter {filter!r}; supported is a condition as text, like 'fare > 10'. "
                "Spark's own conditions go to where() on the result"
            )
        _put(given, read_config.FILTER.key, filter, "filter")
    reader = spark.read.format(FORMAT).options(**given)
    with raised_here():
        plan = reader.option(spark_config.VIEW.key, "plan").load(path).collect()[0]
    native = None if not plan["native_files"] else _native(spark, plan)
    if native is not None and not plan["other_splits"]:
        return native
    pinned = {**given, spark_config.PIN.key: plan["other_pin"]}
    source = spark.read.format(FORMAT).options(**pinned).load(path)
    return source if native is None else native.union(source)


def _native(spark: SparkSession, plan: Row) -> DataFrame:
    """The rows that Spark's own reader reads."""
    schema = StructType.fromJson(json.loads(plan["native_schema"]))
    frame = spark.read.schema(schema).options(**_EXACTLY).parquet(*plan["native_files"])
    if plan["native_condition"] is not None:
        frame = frame.where(plan["native_condition"])
    return frame.select(*(_quoted(name) for name in plan["columns"]))


def _put(given: dict[str, str], key: str, value: str, name: str) -> None:
    if key in given and given[key] != value:
        raise ConfigError(f"{name}={value!r} contradicts the option {key}={given[key]!r}; give one of them")
    given[key] = value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
