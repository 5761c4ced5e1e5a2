"""`sql`: which statements hudi-py runs, and which are Spark's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark_hudi.dialect import alter, call, change, ddl, indexes, insert
from pyspark_hudi.dialect.parameters import Args, bound, filled
from pyspark_hudi.dialect.queries import function_calls, hudi_references, run_query
from pyspark_hudi.dialect.tables import PREFIXES, Tables
from pyspark_hudi.dialect.text import Cursor, first_word, tokens_of
from pyspark_hudi.enabled import statements_are_sparks
from pyspark_hudi.functions import FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Run = Callable[[Tables, Cursor], "DataFrame | None"]
_STATEMENTS: Final[Mapping[str, _Run]] = {
    "INSERT": insert.insert,
    "UPDATE": change.update,
    "DELETE": change.delete,
    "MERGE": change.merge,
    "CREATE": ddl.create,
    "TRUNCATE": ddl.truncate,
    "MSCK": ddl.repair,
    "ALTER": alter.alter,
    "CALL": call.call,
    "SCHEDULE": call.compaction,
    "RUN": call.compaction,
}
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "")
"""The empty word: a parenthesis."""


_CHANGES: Final = frozenset({*_STATEMENTS, "DROP", "REFRESH", "SHOW"})
_NAMED: Final = re.compile(rf"\bhudi(-py)?\b|\bAS\s+OF\b|\bINSERT\b|\b({'|'.join(FUNCTIONS)})\b", re.IGNORECASE)
"""What queries have that Spark itself cannot run: paths of tables, times, inserts after WITH, functions of tables by
name."""


def sql(spark: SparkSession, text: str, args: Args | None = None) -> DataFrame:
    """Run a statement of Spark SQL.

    Hudi tables have the names that `register_sql` or `CREATE TABLE ... USING hudi-py` gave them, or are named by their
    path: hudi.`/data/trips`. Statements that name none of them go to `spark.sql` as they are.

    - Queries, with `TIMESTAMP AS OF '...'`, see the newest state, read by `read_table`.
    - INSERT INTO, INSERT OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, DROP TABLE, TRUNCATE TABLE,
      ALTER TABLE and SHOW PARTITIONS do what they do in Apache Hudi's SQL, and return no rows but for the last one.
    - CREATE INDEX, DROP INDEX, REFRESH INDEX and SHOW INDEXES change and list indexes of the metadata table.
    - `CALL` runs those of Apache Hudi's procedures that hudi-py has, with their columns.
    - `SET hoodie... = ...` gives the options of writes and reads, as in Apache Hudi.

    docs/sql.md has the statements.

    Args:
        args: values of the parameters `:name` (a mapping) or `?` (a sequence) in the statement.

    Raises:
        ConfigError: the statement is not supported; the error names what does the work.
        HudiError: as the functions that do the work.
        pyspark.errors.PySparkException: Spark failed.
    """
    with statements_are_sparks():
        found = _statement(spark, text, args)
        if found is not None:
            return found
        if args is None:
            return spark.sql(text)
        return spark.sql(text, dict(args) if isinstance(args, Mapping) else list(args))


def run_if_hudi(spark: SparkSession, text: str, args: Args | None, given: Mapping[str, Any]) -> DataFrame | None:
    """The result of a statement that Spark itself cannot run, because it concerns Hudi tables; None for others.

    Args:
        given: values for `{name}` in the statement; those of queries are left to Spark.

    Raises:
        as `sql`.
    """
    word = first_word(text)
    if word not in _CHANGES and (given or word not in _QUERIES or not _NAMED.search(text)):
        return None
    with statements_are_sparks():
        if not given:
            return _statement(spark, text, args)
        with filled(spark, text, given) as whole:
            return _statement(spark, whole, args)


def _statement(spark: SparkSession, text: str, args: Args | None) -> DataFrame | None:
    """None: the statement is Spark's."""
    tokens = tokens_of(text)
    if tokens is None:  # Spark knows what is wrong with it
        return None
    if args:
        text = bound(text, args)
        tokens = tokens_of(text) or []
    return _run(Tables(spark), Cursor(text, tokens), first_word(text))


def _run(tables: Tables, cursor: Cursor, word: str) -> DataFrame | None:
    if word in ("CREATE", "DROP", "REFRESH", "SHOW"):
        found = indexes.run_index(tables, cursor)
        if found is not None:
            return found
    if word == "DROP":
        if cursor.sees("DROP", "TABLE"):
            return ddl.drop(tables, cursor)
        if cursor.sees("DROP", "VIEW"):
            ddl.drop_view(tables, cursor)
        return None
    if word == "SHOW":
        if cursor.sees("SHOW", "CREATE", "TABLE"):
            return ddl.show_create_table(tables, cursor)
        if cursor.sees("SHOW", "TABLES"):
            return ddl.show_tables(tables, cursor)
        if cursor.sees("SHOW", "COMPACTION"):
            return call.compaction(tables, cursor)
        if cursor.sees("SHOW", "TABLE", "EXTENDED"):
            return ddl.show_table_extended(tables, cursor)
        return ddl.show_partitions(tables, cursor) if cursor.sees("SHOW", "PARTITIONS") else None
    if word == "WITH":
        start = cursor.at
        cursor.until("SELECT", "INSERT", "FROM", "VALUES")
        word = "INSERT" if cursor.sees("INSERT") else "WITH"
        cursor.at = start
    run = _STATEMENTS.get(word)
    if run is not None:
        start = cursor.at
        found = run(tables, cursor)
        if found is not None:
            return found
        cursor.at = start
    references = hudi_references(tables, cursor)
    if word in _QUERIES or word in ("INSERT", "CREATE"):
        if not references and not function_calls(tables, cursor):
            return None
        if word == "CREATE" and any(cursor.tokens[at].is_word("VIEW") for at in range(1, min(len(cursor.tokens), 5))):
            if not any(each.as_of is not None or each.names[0].lower() in PREFIXES for each in references):
                return None  # Spark has the view that register_sql made
            raise cursor.refused("a view cannot keep a path or a time; register the table by register_sql, and not")
        return run_query(tables, cursor)
    return None
