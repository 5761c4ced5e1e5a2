"""CREATE INDEX, DROP INDEX, REFRESH INDEX and SHOW INDEXES, with the grammar and the columns of Apache Hudi 1.2.0
(`HoodieSqlCommon.g4`, `ShowIndexesCommand`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.wiring import IndexChange
from pyspark_hudi import calls
from pyspark_hudi.dialect.ddl import properties
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = "record_index"


def run_index(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs a statement about indexes. None: it is none, or not of a Hudi table."""
    for words, run in (
        (("CREATE", "INDEX"), _create),
        (("DROP", "INDEX"), _drop),
        (("REFRESH", "INDEX"), _refresh),
        (("SHOW", "INDEXES"), _show),
    ):
        start = cursor.at
        if cursor.take(*words):
            found = run(tables, cursor)
            if found is None:
                cursor.at = start
            return found
    return None


def _create(tables: Tables, cursor: Cursor) -> DataFrame | None:
    quiet = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name()
    target = _target(tables, cursor)
    if target is None:
        return None
    kind = cursor.name().lower() if cursor.take("USING") else _RECORD if name == _RECORD else "secondary_index"
    columns = [".".join(part.names()) for part in cursor.group().parts()]
    given = properties(cursor.group()) if cursor.take("OPTIONS") else {}
    cursor.finish()
    if kind == _RECORD or name == _RECORD:
        column = ",".join(columns)
    elif len(columns) == 1:
        column = ".".join([target.field(columns[0].partition(".")[0]).name, *columns[0].split(".")[1:]])
    else:
        raise cursor.refused(f"an index has one column, not {len(columns)}")
    return _issued(target, IndexChange("create", name, column, kind, given, quiet))


def _drop(tables: Tables, cursor: Cursor) -> DataFrame | None:
    quiet = cursor.take("IF", "EXISTS")
    name = cursor.name()
    target = _target(tables, cursor)
    if target is None:
        return None
    cursor.finish()
    return _issued(target, IndexChange("drop", name, quiet=quiet))


def _refresh(tables: Tables, cursor: Cursor) -> DataFrame | None:
    name = cursor.name()
    target = _target(tables, cursor)
    if target is None:
        return None
    cursor.finish()
    return _issued(target, IndexChange("refresh", name))


def _show(tables: Tables, cursor: Cursor) -> DataFrame | None:
    if not cursor.take("FROM"):
        cursor.need("IN")
    cursor.take("TABLE")
    target = tables.find(cursor.names())
    if target is None:
        return None
    cursor.finish()
    rows = []
    for row in target.view("indexes"):
        has_name = row["name"] != row["kind"]  # Apache Hudi shows the columns of secondary and expression indexes alone
        rows.append((row["name"], row["kind"], ",".join(row["columns"]) if has_name else ""))
    return tables.spark.createDataFrame(rows, "index_name STRING, index_type STRING, col_name STRING")


def _target(tables: Tables, cursor: Cursor) -> StatementTarget | None:
    cursor.need("ON")
    cursor.take("TABLE")
    return tables.find(cursor.names())


def _issued(target: StatementTarget, change: IndexChange) -> DataFrame:
    target.call(calls.change_index, change)
    return target.tables.nothing()
