"""The procedures that copy rows, or empty a table (`CopyToTableProcedure`, `CopyToTempViewProcedure`,
`TruncateTableProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from hudi_py.config import incremental as incremental_config
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.schema import backticked
from pyspark_hudi.dialect.insert import delete_partition_at
from pyspark_hudi.dialect.procedure import Given, Procedure, Rows, needed
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.dialect.text import Cursor, tokens_of
from pyspark_hudi.table import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MODES: Final = ("overwrite", "append")
_QUERIES: Final = ("snapshot", "incremental", "read_optimized")


def _copied_rows(target: StatementTarget, given: Given) -> DataFrame:
    """Returns the rows of the query that the parameters describe."""
    kind = str(given["query_type"]).lower()
    begin, end, as_of = (given[name] for name in ("begin_instance_time", "end_instance_time", "as_of_instant"))
    if kind not in _QUERIES:
        raise ConfigError(
            f"Cannot copy {target.shown} by query_type => {given['query_type']!r}; supported: {', '.join(_QUERIES)}"
        )
    options = {**target.tables.options(), read_config.QUERY_TYPE.key: kind}
    if kind == "incremental":
        if not (begin and end):
            raise ConfigError(
                f"Cannot copy a range of {target.shown} without its ends; give begin_instance_time => '...' and "
                "end_instance_time => '...'"
            )
        options |= {incremental_config.BEGIN.key: str(begin), incremental_config.END.key: str(end)}
    elif kind == "snapshot" and as_of:
        options[read_config.AS_OF_INSTANT.key] = str(as_of)
    return read_table(target.spark, target.path, options=options)


def _copy_to_table(target: StatementTarget, given: Given) -> Rows:
    name, mode = needed(given, "new_table"), str(given["save_mode"]).lower()
    if mode not in _MODES:
        raise ConfigError(
            f"Cannot copy {target.shown} with save_mode => {given['save_mode']!r}; supported: {', '.join(_MODES)}"
        )
    rows, spark = _copied_rows(target, given), target.spark
    existing = target.tables.find(Cursor(name, tokens_of(name) or []).names())
    if existing is not None and existing.path == target.path:
        raise ConfigError(f"Cannot copy {target.shown} to itself; give another new_table")
    if existing is not None:
        own = rows.select(*(backticked(field.name) for field in existing.schema))
        existing.write(own, "insert" if mode == "append" else "insert_overwrite_table")
    else:
        chosen = [part.strip() for part in str(given["columns"]).split(",") if part.strip()]
        if spark.catalog.tableExists(name):
            chosen = [backticked(column) for column in spark.table(name).columns]
        (rows.selectExpr(*chosen) if chosen else rows).write.mode(mode).saveAsTable(name)
    yield (0,)


def _copy_to_temp_view(target: StatementTarget, given: Given) -> Rows:
    rows, name = _copied_rows(target, given), needed(given, "view_name")
    kind = "GlobalTempView" if given["global"] else "TempView"
    getattr(rows, f"createOrReplace{kind}" if given["replace"] else f"create{kind}")(name)
    yield (0,)


def _truncate_table(target: StatementTarget, given: Given) -> Rows:
    """Runs TRUNCATE TABLE as a commit: rows stay readable by time travel, and the history stays."""
    if given["partitions"]:
        for path in str(given["partitions"]).split(","):
            delete_partition_at(target, path.strip())
        return
    begun = time.monotonic()
    target.write(target.spark.createDataFrame([], target.schema), "insert_overwrite_table")
    yield "SUCCESS", round((time.monotonic() - begun) * 1000)


_RANGE: Final = {"begin_instance_time": "", "end_instance_time": "", "as_of_instant": ""}
COPY_PROCEDURES: Final = {
    "copy_to_table": Procedure(
        {"table": None, "query_type": "snapshot", "new_table": None, **_RANGE, "save_mode": "overwrite", "columns": ""},
        "status INT",
        _copy_to_table,
    ),
    "copy_to_temp_view": Procedure(
        {"table": None, "query_type": "snapshot", "view_name": None, **_RANGE, "replace": False, "global": False},
        "status INT",
        _copy_to_temp_view,
    ),
    "truncate_table": Procedure(
        {"table": None, "partitions": None}, "result STRING, time_cost BIGINT", _truncate_table
    ),
}
