"""The procedures that register a table with a catalog, and that compare two tables (`HiveSyncProcedure`,
`ValidateHoodieSyncProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from hudi_py.config import interop as config
from hudi_py.errors import ConfigError
from pyspark_hudi import calls
from pyspark_hudi.dialect.procedure import Given, Procedure, Rows, named_target, needed
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.table import read_table

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
_MODES: Final = ("complete", "latestPartitions")
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
    if mode not in _MODES:
        raise ConfigError(f"Cannot call sync_validate with mode => {mode!r}; supported: {', '.join(_MODES)}")
    other = named_target(target.tables, "sync_validate", needed(given, "dst_table"))
    days = None if mode == _MODES[0] else int(given["partition_cnt"])
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
