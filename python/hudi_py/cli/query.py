"""`hudi-py sql`: queries of DuckDB over scans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import pyarrow as pa

import hudi_py
from hudi_py.cli.declare import Target
from hudi_py.cli.export import Form, show_table, write_rows
from hudi_py.errors import ConfigError
from hudi_py.table import Table

_ONLY = "t"
"""Name of a table that was given none."""


def sql(target: Target, query: str, tables: Iterable[str], as_of: str | None, form: Form) -> None:
    """`hudi-py sql`."""
    import duckdb

    shape = form.resolved(target.as_json)
    named = _named(tables)
    words = words_of(query, named.keys())
    connection = duckdb.connect()
    try:
        for name, path in named.items():
            table = hudi_py.open_table(path, target.options, storage_options=target.storage_options)
            rows = table.scan(needed_columns(table, words), as_of=as_of).to_table()
            connection.register(name, rows)
        found: pa.Table = connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise ConfigError(f"Cannot run the query: {error}") from error
    finally:
        connection.close()
    if shape == "table" and form.output is None:
        show_table(found)
    else:
        write_rows(found.to_batches(), found.schema, form, shape)


def needed_columns(table: Table, words: frozenset[str] | None) -> list[str] | None:
    """Columns of the table whose names are among the words; None: all."""
    if words is None:
        return None
    schema: pa.Schema = table.schema
    found = [name for name in schema.names if name.lower() in words]
    return found or schema.names[:1]


def words_of(query: str, tables: Iterable[str]) -> frozenset[str] | None:
    """Identifiers in a query, in lower case; None if it may ask for all columns of one of the tables."""
    import sqlglot
    from sqlglot import exp

    try:
        statements = [each for each in sqlglot.parse(query, read="duckdb") if each is not None]
    except sqlglot.errors.SqlglotError:  # DuckDB will say what is wrong, or knows more than the parser
        return None
    found: set[str] = set()
    for statement in statements:
        for star in statement.find_all(exp.Star):
            if not isinstance(star.parent, exp.Count):
                return None
        columns = {each.name.lower() for each in statement.find_all(exp.Column)}
        if columns & {name.lower() for name in tables} or any(_takes_whole_rows(node) for node in statement.walk()):
            return None
        found.update(each.name.lower() for each in statement.find_all(exp.Identifier))
    return frozenset(found)


def _takes_whole_rows(node: Any) -> bool:
    """Whether a node names columns in a way that is not seen: NATURAL JOIN, COLUMNS(...), DESCRIBE, `FROM t`."""
    from sqlglot import exp

    if isinstance(node, exp.Join):
        return str(node.args.get("method", "")).upper() == "NATURAL"
    return isinstance(node, (exp.Describe, exp.Command, exp.Columns, exp.Summarize))


def _named(tables: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for given in tables:
        name, separator, path = given.partition("=")
        if not separator or not name.isidentifier():
            name, path = _ONLY, given
        if name in found:
            raise click.UsageError(f"Two tables have the name {name}: give each as NAME=PATH.")
        found[name] = path
    return found
