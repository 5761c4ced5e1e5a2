"""The procedures that copy rows, empty a table, register it with a catalog, or compare two tables
(`CopyToTableProcedure`, `CopyToTempViewProcedure`, `TruncateTableProcedure`, `HiveSyncProcedure`,
`ValidateHoodieSyncProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hudi_py.config import incremental as incremental_config
from hudi_py.config import interop as config
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.schema import backticked
from pyspark_hudi import calls
from pyspark_hudi.dialect.descriptors import Given, Procedure, Rows, named_target, needed
from pyspark_hudi.dialect.insert import delete_partition_at
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


_HIVE: Final = "hoodie.datasource.hive_sync."
_OPTIONS: Final[Mapping[str, str]] = {
    "metastore_uri": config.METASTORE.key,
    "username": f"{_HIVE}username",
    "password": f"{_HIVE}password",
    "use_jdbc": f"{_HIVE}use_jdbc",
    "mode": config.MODE.key,
    "partition_fields": config.PARTITION_FIELDS.key,
    "partition_extractor_class": config.EXTRACTOR.key,
    "strategy": config.STRATEGY.key,
    "sync_incremental": config.INCREMENTAL.key,
}
"""Parameters that are options."""
_SYNC_MODES: Final = ("complete", "latestPartitions")
_DATE: Final = "datestr"
"""The partition column that the mode latestPartitions compares."""


def _hive_sync(target: StatementTarget, given: Given) -> Rows:
    chosen = {key: str(given[name]) for name, key in _OPTIONS.items() if given[name]}
    target.call(calls.register_with, chosen)
    yield ("hive sync success.",)


def _sync_validate(target: StatementTarget, given: Given) -> Rows:
    """Compares the number of rows of two tables, and what the one ahead has inserted since the newest commit of the
    other. Counts by reading the tables, where Apache Hudi asks a Hive server."""
    mode = needed(given, "mode")
    if mode not in _SYNC_MODES:
        raise ConfigError(f"Cannot call sync_validate with mode => {mode!r}; supported: {', '.join(_SYNC_MODES)}")
    other = named_target(target.tables, "sync_validate", needed(given, "dst_table"))
    days = None if mode == _SYNC_MODES[0] else int(given["partition_cnt"])
    newest = {table.path: _newest_commit(table) for table in (target, other)}
    ahead, behind = (other, target) if newest[other.path] > newest[target.path] else (target, other)
    difference = _num_rows(ahead, days) - _num_rows(behind, days)
    text = f"Count difference now is count({ahead.config.name}) - count({behind.config.name}) == {difference}"
    later = [row for row in ahead.view("written") if row["commit_time"] > newest[behind.path]]
    if later:
        inserted = sum((row["num_writes"] or 0) - (row["num_update_writes"] or 0) for row in later)
        text += f". Catach up count is {inserted}"  # Apache Hudi's spelling, which programs may look for
    yield (text,)


def _newest_commit(target: StatementTarget) -> str:
    return max((str(row["commit_time"]) for row in target.view("written")), default="0")


def _num_rows(target: StatementTarget, days: int | None) -> int:
    """Counts the rows of a table, or those of partitions of the last days."""
    if days is None:
        return int(read_table(target.spark, target.path, options=target.tables.options()).count())
    target.field(_DATE)  # refuses tables without this column
    today = datetime.date.today()
    rows = read_table(target.spark, target.path, options=target.tables.options())
    since = today - datetime.timedelta(days=days)
    return int(rows.where(f"{_DATE} > '{since}' AND {_DATE} <= '{today}'").count())


SYNC_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "hive_sync": Procedure({"table": None, **dict.fromkeys(_OPTIONS, "")}, "result STRING", _hive_sync),
    "sync_validate": Procedure(
        dict[str, Any](
            {
                **dict.fromkeys(("src_table", "dst_table", "mode", "hive_server_url", "hive_pass")),
                "src_db": "rawdata",
                "target_db": "dwh_hoodie",
                "partition_cnt": 5,
                "hive_user": "",
            }
        ),
        "result STRING",
        _sync_validate,
        named="src_table",
    ),
}
