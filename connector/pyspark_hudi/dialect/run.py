"""`sql`: which statements hudi-py runs, and which are Spark's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark_hudi.dialect import alter, call, change, create, drop, indexes, insert, queries, show
from pyspark_hudi.dialect.parameters import Args, bound, filled
from pyspark_hudi.dialect.tables import Tables
from pyspark_hudi.dialect.text import Cursor, first_word, tokens_of
from pyspark_hudi.enabled import statements_are_sparks
from pyspark_hudi.functions import FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATEMENTS: Final = (
    *insert.STATEMENTS,
    *change.STATEMENTS,
    *create.STATEMENTS,
    *drop.STATEMENTS,
    *indexes.STATEMENTS,
    *show.STATEMENTS,
    *alter.STATEMENTS,
    *call.STATEMENTS,
    *queries.STATEMENTS,
)
"""Every kind of statement that hudi-py runs. The first that fits decides."""
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
    word = first_word(text)  # empty before a parenthesis
    if not any(each.may_begin_with(word) for each in STATEMENTS if each is not queries.QUERIES):
        is_query = not word or queries.QUERIES.may_begin_with(word)
        if given or not is_query or not _NAMED.search(text):
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
    return run_statement(Tables(spark), Cursor(text, tokens))


def run_statement(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Run a statement if it concerns Hudi tables. Return None for others."""
    verb = Cursor(cursor.text, cursor.tokens)
    if verb.take("WITH"):
        verb.until("SELECT", "INSERT", "FROM", "VALUES")
        verb = verb if verb.sees("INSERT") else cursor
    statement = next((each for each in STATEMENTS if each.sees(verb)), None)
    return None if statement is None else statement.run(tables, cursor)
