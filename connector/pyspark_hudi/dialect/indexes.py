"""CREATE INDEX, DROP INDEX, REFRESH INDEX and SHOW INDEXES, with the grammar and the columns of Apache Hudi 1.2.0
(`HoodieSqlCommon.g4`, `ShowIndexesCommand`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.wiring import IndexChange
from pyspark_hudi import calls
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor, properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = "record_index"


def _create_index(tables: Tables, cursor: Cursor) -> DataFrame | None:
    cursor.need("CREATE", "INDEX")
    quiet = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name()
    target = _index_target(tables, cursor)
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
    return _issue_change(target, IndexChange("create", name, column, kind, given, quiet))


def _drop_index(tables: Tables, cursor: Cursor) -> DataFrame | None:
    cursor.need("DROP", "INDEX")
    quiet = cursor.take("IF", "EXISTS")
    name = cursor.name()
    target = _index_target(tables, cursor)
    if target is None:
        return None
    cursor.finish()
    return _issue_change(target, IndexChange("drop", name, quiet=quiet))


def _refresh_index(tables: Tables, cursor: Cursor) -> DataFrame | None:
    cursor.need("REFRESH", "INDEX")
    name = cursor.name()
    target = _index_target(tables, cursor)
    if target is None:
        return None
    cursor.finish()
    return _issue_change(target, IndexChange("refresh", name))


def show_indexes(tables: Tables, cursor: Cursor) -> DataFrame | None:
    cursor.need("SHOW", "INDEXES")
    if not cursor.take("FROM"):
        cursor.need("IN")
    cursor.take("TABLE")
    target = tables.find(cursor.names())
    if target is None:
        return None
    cursor.finish()
    rows = []
    for row in target.view("indexes"):
        has_name = row["name"] != row["kind"]  # Apache Hudi shows only the columns of secondary and expression indexes
        rows.append((row["name"], row["kind"], ",".join(row["columns"]) if has_name else ""))
    return tables.spark.createDataFrame(rows, "index_name STRING, index_type STRING, col_name STRING")


def _index_target(tables: Tables, cursor: Cursor) -> StatementTarget | None:
    cursor.need("ON")
    cursor.take("TABLE")
    return tables.find(cursor.names())


def _issue_change(target: StatementTarget, change: IndexChange) -> DataFrame:
    target.call(calls.change_index, change)
    return target.tables.nothing()


STATEMENTS = (
    SqlStatement(
        ("CREATE INDEX",),
        _create_index,
        "`CREATE INDEX [IF NOT EXISTS] name ON t [USING kind] (column) [OPTIONS (...)]`",
        (
            "kinds: `secondary_index` (default; needs a global record index), `record_index`, the default for the "
            "index of this name, whose columns are those of the record key, and `column_stats` and `bloom_filters`, "
            "expression indexes whose options are the function `expr` and what it takes; see "
            "[services](services.md#the-metadata-table)"
        ),
    ),
    SqlStatement(
        ("DROP INDEX",),
        _drop_index,
        "`DROP INDEX [IF EXISTS] name ON t`",
        "by the name of the index or of its partition",
    ),
    SqlStatement(
        ("REFRESH INDEX",),
        _refresh_index,
        "`REFRESH INDEX name ON t`",
        "by the name of the index or of its partition",
    ),
    SqlStatement(
        ("SHOW INDEXES",),
        show_indexes,
        "`SHOW INDEXES FROM t`",
        "the indexes of the metadata table with their kinds and columns",
    ),
)
