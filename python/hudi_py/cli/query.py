"""`hudi-py sql`: queries of DuckDB over scans."""

from __future__ import annotations

from collections.abc import Iterable

import click
import pyarrow as pa

import hudi_py
from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.export import Form, show_table, write_rows
from hudi_py.errors import ConfigError, missing_library
from hudi_py.interop.duckdb import query as run_query

_ONLY = "t"
"""Name of a table that was given none."""


def sql(target: CommandTarget, query: str, tables: Iterable[str], as_of: str | None, form: Form) -> None:
    """`hudi-py sql`."""
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(str(missing_library(error, "run a query", "duckdb"))) from None
    shape = form.resolved(target.as_json)
    scans = {
        name: hudi_py.open_table(path, target.options, storage_options=target.storage_options).scan(as_of=as_of)
        for name, path in _named(tables).items()
    }
    connection = duckdb.connect()
    try:
        found: pa.Table = run_query(query, scans, connection=connection).to_arrow_table()
    except duckdb.Error as error:
        raise ConfigError(f"Cannot run the query: {error}") from error
    finally:
        connection.close()
    if shape == "table" and form.output is None:
        show_table(found)
    else:
        write_rows(found.to_batches(), found.schema, form, shape)


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
