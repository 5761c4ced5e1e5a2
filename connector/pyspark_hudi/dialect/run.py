"""Runs SQL: decides which statements hudi-py runs and which Spark, and replaces parameters by constants: `:name` and
`?` from `args`, `{name}` from keyword arguments."""

from __future__ import annotations

import datetime
import re
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from hudi_py.errors import ConfigError, HudiError
from hudi_py.expressions import literal
from pyspark_hudi.dialect import alter, call, change, create, drop, indexes, insert, queries, show
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
"""Every kind of statement that hudi-py runs. The first match decides."""
_NAMED: Final = re.compile(rf"\bhudi(-py)?\b|\bAS\s+OF\b|\bINSERT\b|\b({'|'.join(FUNCTIONS)})\b", re.IGNORECASE)
"""Signs of queries that Spark itself cannot run: paths of tables, times, inserts after WITH, table functions called by
name."""


def sql(spark: SparkSession, text: str, args: Args | None = None) -> DataFrame:
    """Runs a statement of Spark SQL.

    Hudi tables have the names that `register_sql` or `CREATE TABLE ... USING hudi-py` gave them, or are named by their
    path: hudi.`/data/trips`. Statements that name none of them go to `spark.sql` as they are.

    - Queries, with `TIMESTAMP AS OF '...'`, see the newest state, read by `read_table`.
    - INSERT INTO, INSERT OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, DROP TABLE, TRUNCATE TABLE,
      ALTER TABLE and SHOW PARTITIONS do what they do in Apache Hudi's SQL, and only the last one returns rows.
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
    with statements_are_sparks(), _in_terms_of_sql():
        result = _parse_statement(spark, text, args)
        if result is not None:
            return result
        if args is None:
            return spark.sql(text)
        return spark.sql(text, dict(args) if isinstance(args, Mapping) else list(args))


def run_if_hudi(spark: SparkSession, text: str, args: Args | None, given: Mapping[str, Any]) -> DataFrame | None:
    """Runs a statement that Spark itself cannot run, because it concerns Hudi tables; returns None for others.

    Args:
        given: values for `{name}` in the statement; those of queries are left to Spark.

    Raises:
        as `sql`.
    """
    word = first_word(text)  # empty before a parenthesis
    if not any(item.may_begin_with(word) for item in STATEMENTS if item is not queries.QUERIES):
        is_query = not word or queries.QUERIES.may_begin_with(word)
        if given or not is_query or not _NAMED.search(text):
            return None
    with statements_are_sparks(), _in_terms_of_sql():
        if not given:
            return _parse_statement(spark, text, args)
        with filled(spark, text, given) as whole:
            return _parse_statement(spark, whole, args)


@contextmanager
def _in_terms_of_sql() -> Iterator[None]:
    """Puts the remedies of errors within the context into terms of SQL."""
    try:
        yield
    except HudiError as error:
        error.args = (error.worded("sql"), *error.args[1:])
        raise


def _parse_statement(spark: SparkSession, text: str, args: Args | None) -> DataFrame | None:
    """Parses a statement; None if it is Spark's."""
    tokens = tokens_of(text)
    if tokens is None:  # Spark will report the error
        return None
    if args:
        text = bound(text, args)
        tokens = tokens_of(text) or []
    return run_statement(Tables(spark), Cursor(text, tokens))


def run_statement(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs a statement if it concerns Hudi tables. Returns None for others."""
    verb = Cursor(cursor.text, cursor.tokens)
    if verb.take("WITH"):
        verb.until("SELECT", "INSERT", "FROM", "VALUES")
        verb = verb if verb.sees("INSERT") else cursor
    statement = next((item for item in STATEMENTS if item.sees(verb)), None)
    return None if statement is None else statement.run(tables, cursor)


Args = Mapping[str, Any] | Sequence[Any]


def bound(text: str, args: Args) -> str:
    """Replaces markers of a statement by constants, like `spark.sql(text, args)`.

    Raises:
        ConfigError: a marker has no value, or the value has no constant in SQL.
    """
    tokens = tokens_of(text) or []
    names, values = (args, iter(())) if isinstance(args, Mapping) else ({}, iter(args))
    pieces: list[str] = []
    done = 0
    for index, token in enumerate(tokens):
        if token.is_word("?") and not isinstance(args, Mapping):
            value, end = next(values, _missing), token.end
        elif token.is_word(":") and isinstance(args, Mapping) and index + 1 < len(tokens):
            name, before = tokens[index + 1], tokens[index - 1] if index else None
            is_field = (
                before is not None and before.end == token.start and (before.is_name or before.text in ("]", ")"))
            )
            if not name.is_name or name.start != token.end or is_field:
                continue  # such as a field of a VARIANT: `v:a`
            value, end = names.get(name.text, _missing), name.end
        else:
            continue
        if value is _missing:
            raise ConfigError(
                f"Cannot run {text[:200]!r}: it has the parameter {text[token.start : end]} without a value; give the "
                "value in args"
            )
        pieces += [text[done : token.start], _placed_constant(value)]
        done = end
    return "".join([*pieces, text[done:]])


_missing: Any = object()


@contextmanager
def filled(spark: SparkSession, text: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Replaces `{name}` in a statement as `spark.sql(text, **given)` does: by constants, and by names of DataFrames,
    which exist within the context."""
    views = _Views()
    try:
        yield views.vformat(text, (), given)
    finally:
        for name in views.names:
            spark.catalog.dropTempView(name)


class _Views(string.Formatter):
    def __init__(self) -> None:
        self.names: list[str] = []

    def format_field(self, value: Any, format_spec: str) -> str:
        if not hasattr(value, "createOrReplaceTempView"):
            return _placed_constant(value)
        name = f"hudi_py_{uuid.uuid4().hex}"
        value.createOrReplaceTempView(name)
        self.names.append(name)
        return name


def _placed_constant(value: Any) -> str:
    """Formats a constant within a statement: two minus signs would begin a comment."""
    text = constant(value)
    return f" {text}" if text.startswith("-") else text


def constant(value: Any) -> str:
    """Formats a Python value as a Spark SQL constant, in the type that `lit` gives it.

    Raises:
        ConfigError: it is of another type.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(int(value))  # enumerations and NumPy's numbers have other forms
    if isinstance(value, float):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}BD"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        # like PySpark, which takes times without a zone for times of this process
        return f"TIMESTAMP '{value.astimezone(datetime.timezone.utc).isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    raise ConfigError(
        f"Cannot pass a value of type {type(value).__name__} to a statement on a Hudi table; supported: None, bool, "
        "int, float, str, bytes, Decimal, date and datetime: write others into the statement"
    )
