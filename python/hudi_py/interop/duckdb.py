"""SQL of DuckDB over scans: only the columns that a query names are read, and files that its conditions need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError
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
    """
    import duckdb

    found = connection or duckdb.default_connection()
    for name, scan in narrowed(sql, tables).items():
        found.register(name, scan.to_table())
    try:
        return found.sql(sql)
    except duckdb.Error as error:
        raise ConfigError(f"Cannot run the query: {error}") from error


def narrowed(sql: str, tables: Mapping[str, Scan]) -> dict[str, Scan]:
    """The scans with the columns and rows that a query needs, as far as that is plain from its text."""
    import sqlglot

    try:
        statements = [each for each in sqlglot.parse(sql, read="duckdb") if each is not None]
    except sqlglot.errors.SqlglotError:  # DuckDB will say what is wrong, or knows more than the parser
        return dict(tables)
    words = _words(statements, tables)
    result = {}
    for name, scan in tables.items():
        names = scan.schema.names
        columns = None if words is None else [column for column in names if column.lower() in words] or names[:1]
        condition = _needed(statements[0], name, scan.schema, alone=len(tables) == 1) if len(statements) == 1 else None
        result[name] = scan.narrow(columns, condition)
    return result


def _words(statements: Iterable[exp.Expr], tables: Iterable[str]) -> frozenset[str] | None:
    """Identifiers in a query, in lower case; None if it may ask for all columns of one of the tables."""
    from sqlglot import exp

    names = {name.lower() for name in tables}
    found: set[str] = set()
    for statement in statements:
        if any(not isinstance(star.parent, exp.Count) for star in statement.find_all(exp.Star)):
            return None
        columns = {each.name.lower() for each in statement.find_all(exp.Column)}
        if columns & names or any(_takes_whole_rows(node) for node in statement.walk()):
            return None
        found.update(each.name.lower() for each in statement.find_all(exp.Identifier))
    return frozenset(found)


def _takes_whole_rows(node: Any) -> bool:
    """Whether a node names columns in a way that is not seen: NATURAL JOIN, COLUMNS(...), DESCRIBE, `FROM t`."""
    from sqlglot import exp

    if isinstance(node, exp.Join):
        return str(node.args.get("method", "")).upper() == "NATURAL"
    return isinstance(node, (exp.Describe, exp.Command, exp.Columns, exp.Summarize))


def _needed(statement: exp.Expr, table: str, schema: pa.Schema, *, alone: bool) -> str | None:
    """The conditions that the rows of a table must fulfil to count in a query. Known for a SELECT that names the table
    once, in FROM or an inner join, and for its comparisons with constants.

    Args:
        alone: whether columns without a table can only be those of this one.
    """
    from sqlglot import exp

    if not isinstance(statement, exp.Select) or statement.args.get("with_") or statement.args.get("with"):
        return None
    used = [each for each in statement.find_all(exp.Table) if each.name.lower() == table.lower()]
    joins = statement.args.get("joins") or []
    inner = all(not (join.side or join.method) and join.kind in ("", "INNER", "CROSS") for join in joins)
    where = statement.args.get("where")
    if len(used) != 1 or used[0].find_ancestor(exp.Select) is not statement or not inner or where is None:
        return None
    if any(isinstance(node, (exp.TableSample, exp.Pivot, exp.Lateral)) for node in statement.walk()):
        return None
    single = alone and not joins and len(list(statement.find_all(exp.Table))) == 1
    conditions = Conditions(schema, ignore_case=True)
    parts = (_condition(part, used[0].alias_or_name.lower(), conditions, single) for part in _conjuncts(where.this))
    return every(parts)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _condition(node: exp.Expr, alias: str, conditions: Conditions, single: bool) -> str | None:
    from sqlglot import exp

    def column(found: exp.Expr | None) -> str | None:
        if not isinstance(found, exp.Column) or len(found.parts) > 2:
            return None
        return found.name if found.table.lower() == alias or (single and not found.table) else None

    name = column(node.this)
    if isinstance(node, exp.Is) and name and isinstance(node.expression, exp.Null):
        return conditions.is_null(name)
    if isinstance(node, exp.In) and name and node.args.get("expressions") and not node.args.get("query"):
        return conditions.one_of(name, [_value(each) for each in node.expressions])
    if isinstance(node, exp.Between) and name and not node.args.get("symmetric"):
        low, high = _value(node.args["low"]), _value(node.args["high"])
        return every([conditions.compared(name, ">=", low), conditions.compared(name, "<=", high)])
    comparison = _COMPARISONS.get(type(node).__name__)
    if comparison is None or not isinstance(node, exp.Binary):
        return None
    if name:
        return conditions.compared(name, comparison, _value(node.expression))
    other = column(node.expression)
    return conditions.compared(other, SWAPPED[comparison], _value(node.this)) if other else None


def _value(node: exp.Expr) -> object:
    """The value of a constant; None: unknown."""
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
