"""Runs DuckDB queries over scans, reading only the columns that a query names, and the files that its conditions
need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, missing_library
from hudi_py.interop.conditions import SWAPPED, Conditions, every
from hudi_py.read import Scan

if TYPE_CHECKING:
    import duckdb
    from sqlglot import exp

_COMPARISONS: Final = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


def query(
    sql: str, tables: Mapping[str, Scan], *, connection: duckdb.DuckDBPyConnection | None = None
) -> duckdb.DuckDBPyRelation:
    """Runs a query over scans by the names that it uses for them; needs duckdb.

    The rows that it needs are read into memory, and stay registered under their names.

    Args:
        connection: where it runs; None: DuckDB's default connection.

    Raises:
        ConfigError: the query is not valid.
        ModuleNotFoundError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise missing_library(error, "run a query", "duckdb") from None
    target = connection or duckdb.default_connection()
    for name, scan in narrowed(sql, tables, target).items():
        target.register(name, scan.to_table())
    try:
        return target.sql(sql)
    except duckdb.Error as error:
        raise ConfigError(f"Cannot run the query: {error}") from error


def narrowed(sql: str, tables: Mapping[str, Scan], connection: duckdb.DuckDBPyConnection) -> dict[str, Scan]:
    """Narrows scans to the columns and rows that a query needs. Reads everything unless its text and the connection
    (macros, views, a collation) make that certain."""
    import sqlglot

    try:
        statements = [item for item in sqlglot.parse(sql, read="duckdb") if item is not None]
    except sqlglot.errors.SqlglotError:  # DuckDB will report the error, or knows more than the parser
        return dict(tables)
    words = _query_words(statements, tables) if _is_plain(statements, tables, connection) else None
    if words is None:
        return dict(tables)
    [(collation,)] = connection.execute("SELECT current_setting('default_collation')").fetchall()
    compares = len(statements) == 1 and not collation  # a collation has its own rules for equal text
    result = {}
    for name, scan in tables.items():
        names = scan.schema.names
        columns = [column for column in names if column.lower() in words] or names[:1]
        condition = _needed_condition(statements[0], name, scan.schema, alone=len(tables) == 1) if compares else None
        result[name] = scan.narrow(columns, condition)
    return result


def _is_plain(statements: Iterable[exp.Expr], tables: Iterable[str], connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether a query has only syntax that names all of its columns, and the connection adds no others."""
    from sqlglot import exp

    known = (
        *(exp.Select, exp.SetOperation, exp.Subquery, exp.With, exp.CTE, exp.From, exp.Join, exp.Table, exp.TableAlias),
        *(
            exp.Where,
            exp.Group,
            exp.GroupingSets,
            exp.Cube,
            exp.Rollup,
            exp.Having,
            exp.Qualify,
            exp.Order,
            exp.Ordered,
        ),
        *(exp.Limit, exp.Offset, exp.Distinct, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Null),
        *(exp.Boolean, exp.Binary, exp.Unary, exp.Between, exp.In, exp.Exists, exp.If, exp.Func, exp.DataType),
        *(exp.DataTypeParam, exp.Interval, exp.Var, exp.Tuple, exp.Window, exp.WindowSpec, exp.Filter, exp.Lambda),
        *(exp.Bracket, exp.Slice, exp.Placeholder),
    )
    functions: set[str] = set()
    for node in (node for statement in statements for node in statement.walk()):
        if not isinstance(node, known) or isinstance(node, (exp.Columns, exp.Pivot)):
            return False
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):  # a function
            return False
        if isinstance(node, exp.TableAlias) and node.args.get("columns"):
            return False
        if isinstance(node, exp.Join) and str(node.args.get("method", "")).upper() == "NATURAL":
            return False
        if isinstance(node, exp.SetOperation) and node.args.get("by_name"):
            return False
        if isinstance(node, exp.Anonymous):
            functions.add(node.name.lower())
    return _names_nothing(connection, tables) and functions <= _plain_functions(connection)


def _names_nothing(connection: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> bool:
    """Returns whether a connection has no macro, and no view over one of the tables: a query's text hides what they
    read."""
    macros = "SELECT 1 FROM duckdb_functions() WHERE NOT internal AND function_type LIKE '%macro%' LIMIT 1"
    if connection.execute(macros).fetchall():
        return False
    views = connection.execute("SELECT lower(sql) FROM duckdb_views() WHERE NOT internal").fetchall()
    # A scan that an earlier query registered is also a view, so only the text after its name counts
    bodies = " ".join(text.partition(" as ")[2] for (text,) in views)
    return not any(re.search(rf"\b{re.escape(name.lower())}\b", bodies) for name in tables)


def _plain_functions(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Returns names of DuckDB's own functions that only see their arguments, in lower case."""
    own = "SELECT function_name FROM duckdb_functions() WHERE internal AND function_type IN ('scalar', 'aggregate')"
    return {name.lower() for (name,) in connection.execute(own).fetchall()}


def _query_words(statements: Iterable[exp.Expr], tables: Iterable[str]) -> frozenset[str] | None:
    """Returns identifiers in a query, in lower case; None if it may need all columns of one of the tables."""
    from sqlglot import exp

    result: set[str] = set()
    for statement in statements:
        if any(not isinstance(star.parent, exp.Count) for star in statement.find_all(exp.Star)):
            return None
        # A table's name or alias used as a column means its whole row
        rows = {name.lower() for name in tables} | {alias.name.lower() for alias in statement.find_all(exp.TableAlias)}
        if any(column.name.lower() in rows for column in statement.find_all(exp.Column)):
            return None
        result.update(identifier.name.lower() for identifier in statement.find_all(exp.Identifier))
    return frozenset(result)


def _needed_condition(statement: exp.Expr, table: str, schema: pa.Schema, *, alone: bool) -> str | None:
    """Returns conditions that rows of a table must fulfil to matter in a query. Found for a SELECT that names the table
    once, in FROM or an inner join, from its comparisons with constants.

    Args:
        alone: whether columns without a table can only be those of this one.
    """
    from sqlglot import exp

    if not isinstance(statement, exp.Select) or statement.args.get("with_") or statement.args.get("with"):
        return None
    used = [item for item in statement.find_all(exp.Table) if item.name.lower() == table.lower()]
    joins = statement.args.get("joins") or []
    inner = all(not (join.side or join.method) and join.kind in ("", "INNER", "CROSS") for join in joins)
    where = statement.args.get("where")
    if len(used) != 1 or used[0].find_ancestor(exp.Select) is not statement or not inner or where is None:
        return None
    alias = used[0].alias_or_name.lower()
    if alias in map(str.lower, schema.names):  # `alias.name` may be a member of a struct
        return None
    single = alone and not joins and len(list(statement.find_all(exp.Table))) == 1
    conditions = Conditions(schema, ignore_case=True)
    parts = (_column_condition(part, alias, conditions, single) for part in _conjuncts_of(where.this))
    return every(parts)


def _conjuncts_of(node: exp.Expr) -> Iterator[exp.Expr]:
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts_of(node.left)
        yield from _conjuncts_of(node.right)
    else:
        yield node


def _column_name(node: exp.Expr | None, alias: str, single: bool) -> str | None:
    """Returns the name of a column of the relation `alias`; None for anything else."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return None
    return node.name if node.table.lower() == alias or (single and not node.table) else None


def _column_condition(node: exp.Expr, alias: str, conditions: Conditions, single: bool) -> str | None:
    from sqlglot import exp

    name = _column_name(node.this, alias, single)
    if isinstance(node, exp.Is) and name and isinstance(node.expression, exp.Null):
        return conditions.is_null(name)
    if isinstance(node, exp.In) and name and node.args.get("expressions") and not node.args.get("query"):
        return conditions.one_of(name, [_constant_value(expression) for expression in node.expressions])
    if isinstance(node, exp.Between) and name and not node.args.get("symmetric"):
        low, high = _constant_value(node.args["low"]), _constant_value(node.args["high"])
        return every([conditions.compared(name, ">=", low), conditions.compared(name, "<=", high)])
    comparison = _COMPARISONS.get(type(node).__name__)
    if comparison is None or not isinstance(node, exp.Binary):
        return None
    if name:
        return conditions.compared(name, comparison, _constant_value(node.expression))
    other = _column_name(node.expression, alias, single)
    return conditions.compared(other, SWAPPED[comparison], _constant_value(node.this)) if other else None


def _constant_value(node: exp.Expr) -> object:
    """Returns the value of a constant; None if it is unknown."""
    from sqlglot import exp

    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.is_int:
        return -int(node.this.this)
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else int(node.this) if node.is_int else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and node.is_type("DATE") and node.this.is_string:
        try:
            return date.fromisoformat(node.this.this)
        except ValueError:
            return None
    return None
