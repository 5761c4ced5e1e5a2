"""Queries in which Hudi tables are named by path, by a registered name, or as of an earlier time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.expressions import literal
from hudi_py.schema import backticked
from pyspark_hudi import catalog
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.tables import PREFIXES, Tables
from pyspark_hudi.dialect.text import Cursor, SqlToken, tokens_of
from pyspark_hudi.functions import FUNCTIONS, QUERY, query_kind
from pyspark_hudi.table import read_table, session_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = ("TIMESTAMP", "SYSTEM_TIME", "VERSION", "SYSTEM_VERSION")
_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


@dataclass(frozen=True, slots=True)
class Reference:
    """A table in a query."""

    names: tuple[str, ...]
    as_of: str | None
    """A constant; None for the newest state."""
    start: int
    end: int
    """Offset after the text, including the time."""
    has_alias: bool


def run_reading(tables: Tables, query: Cursor) -> DataFrame | None:
    """Runs a query that names Hudi tables. Returns None for another one."""
    if not hudi_references(tables, query) and not function_calls(tables, query):
        return None
    return run_query(tables, query)


def or_reading(
    run: Callable[[Tables, Cursor], DataFrame | None],
) -> Callable[[Tables, Cursor], DataFrame | None]:
    """Returns a function that runs a statement; if it changes a table of another format, its query may still read Hudi
    tables."""

    def either(tables: Tables, cursor: Cursor) -> DataFrame | None:
        start = cursor.at
        frame = run(tables, cursor)
        if frame is not None:
            return frame
        cursor.at = start
        return run_reading(tables, cursor)

    return either


def create_view(tables: Tables, cursor: Cursor) -> None:
    """Leaves CREATE VIEW to Spark, which knows the views that `register_sql` made, and refuses views of paths and
    times.

    Raises:
        ConfigError: the view would keep a path or a time.
    """
    for reference in hudi_references(tables, cursor):
        if reference.as_of is not None or reference.names[0].lower() in PREFIXES:
            raise cursor.refused("a view cannot keep a path or a time; register the table with register_sql")


def run_query(tables: Tables, query: Cursor) -> DataFrame:
    """Returns the query's DataFrame from `spark.sql`, with the current state of its Hudi tables, read by `read_table`.
    Table functions get paths instead of names.

    Raises:
        ConfigError: a time that is not a constant.
        HudiError: a table cannot be read.
    """
    functions = function_calls(tables, query)
    if functions:
        catalog.register_sql(tables.spark)
    frames: dict[str, Any] = {}
    known: dict[tuple[str | None, ...], str] = {}
    changes: list[tuple[int, int, str]] = []
    for place, named in functions.items():
        kind = _kind_of_query(query, place)
        if kind is None:
            changes.append((query.tokens[place].start, query.tokens[place].end, literal(named)))
            continue
        options = {**tables.options(), read_config.QUERY_TYPE.key: kind}
        frames[f"hudi_query_{place}"] = read_table(tables.spark, named, options=options)
        following = query.tokens[place + 4] if place + 4 < query.end else None
        has_alias = following is not None and (following.is_word("AS") or _is_alias(following))
        text = f"{{hudi_query_{place}}}{'' if has_alias else f' AS {QUERY}'}"
        changes.append((query.tokens[place - 2].start, query.tokens[place + 3].end, text))
    references = hudi_references(tables, query)
    for reference in references:
        path = tables.path_of(reference.names)
        assert path is not None
        registered = tables.read_options(reference.names)
        name = known.setdefault((path, reference.as_of, *registered.values()), f"hudi_{len(known)}")
        if name not in frames:
            given = {**registered, **({} if reference.as_of is None else {"as.of.instant": reference.as_of})}
            frames[name] = read_table(tables.spark, path, options={**session_options(tables.spark), **given})
        alias = "" if reference.has_alias else f" AS {backticked(reference.names[-1])}"
        changes.append((reference.start, reference.end, f"{{{name}}}{alias}"))
    pieces: list[str] = []
    done = query.tokens[query.at].start if query.at < query.end else 0
    end = done + len(query.source)
    for start, after, text in sorted(changes):
        own = query.text[done:start]
        pieces += [_escaped_braces(own) if frames else own, text]
        done = after
    rest = query.text[done:end]
    if not frames:
        return tables.spark.sql("".join([*pieces, rest]))
    return tables.spark.sql("".join([*pieces, _escaped_braces(rest)]), **frames)


def function_calls(tables: Tables, query: Cursor) -> dict[int, str]:
    """Returns the paths of the tables in calls of Apache Hudi's table functions, by the index of the token that names
    them: a path, or the name of a Hudi table.

    Raises:
        ConfigError: it is neither.
    """
    tokens, result = query.tokens, {}
    for index in range(query.at, query.end - 2):
        name, opening, given = tokens[index : index + 3]
        if not name.is_name or name.text.lower() not in FUNCTIONS or opening.text != "(" or given.kind != "text":
            continue
        target = None
        if not any(item in given.text for item in "/:~"):
            target = tables.find(Cursor(given.text, tokens_of(given.text) or []).names())
            if target is None:
                raise ConfigError(
                    f"Cannot call {name.text} for the table '{given.text}': no Hudi table is registered by this name; "
                    "give its path, or register it by register_sql"
                )
        result[index + 2] = given.text if target is None else target.path
    return result


def _kind_of_query(query: Cursor, index: int) -> str | None:
    """Returns the query type of `hudi_query`, whose first argument is the token at `index`; None for other functions,
    and for calls with options. Spark's tasks, not just one, then read its rows."""
    tokens = query.tokens[index - 2 : min(index + 4, query.end)]
    if tokens[0].text.lower() != QUERY or len(tokens) < 6 or tokens[3].text != "," or tokens[5].text != ")":
        return None
    return query_kind(tokens[4].text) if tokens[4].kind == "text" else None


def hudi_references(tables: Tables, query: Cursor) -> list[Reference]:
    """Returns the Hudi tables in a query, from left to right."""
    return [reference for reference in references(query) if tables.path_of(reference.names) is not None]


def references(query: Cursor) -> list[Reference]:
    """Returns the tables that a query names, from left to right, except those that it defines itself."""
    own = _defined_names(query)
    return [
        reference
        for reference in _references(query)
        if len(reference.names) > 1 or reference.names[0].lower() not in own
    ]


def _references(query: Cursor) -> Iterator[Reference]:
    """Yields every table that a query names: after FROM, JOIN, or a comma between relations."""
    tokens = query.tokens
    clauses = [_Parentheses()]
    for index in range(query.at, query.end):
        token = tokens[index]
        before = tokens[index - 1] if index > query.at else None
        clause = clauses[-1]
        if token.is_word("("):
            opens_query = index + 1 < query.end and tokens[index + 1].is_word(*_QUERY, "(")
            clauses.append(clause.opened(before, opens_query=opens_query))
        elif token.is_word(")"):
            if len(clauses) > 1:
                clauses.pop()
        elif not clause.heeds(token, before) and clause.expects_relation:
            clause.expects_relation = False
            if token.is_name:
                reference = _reference(Cursor(query.text, tokens, index, query.end))
                if reference is not None:
                    yield reference


@dataclass(slots=True)
class _Parentheses:
    """State within a pair of parentheses."""

    relations: bool = False
    """Whether commas separate relations."""
    expects_relation: bool = False
    is_call: bool = False

    def opened(self, before: SqlToken | None, *, opens_query: bool) -> _Parentheses:
        """Returns the parentheses that open within these, after the token `before`."""
        relation, self.expects_relation = self.expects_relation, False
        is_call = not opens_query and not relation and before is not None and before.is_name
        return _Parentheses(relation and not opens_query, relation, is_call)

    def heeds(self, token: SqlToken, before: SqlToken | None) -> bool:
        """Takes the next word if it introduces relations. Returns whether it did."""
        if token.is_word("FROM"):
            # EXTRACT(YEAR FROM x), IS DISTINCT FROM x
            is_distinct = before is not None and before.is_word("DISTINCT")
            self.expects_relation = self.relations = not self.is_call and not is_distinct
        elif token.is_word("JOIN"):
            self.expects_relation = self.relations = True
        elif token.is_word(","):
            self.expects_relation = self.relations
        elif token.is_word("TABLE") and (before is None or before.is_word("(", "ALL", "UNION", "EXCEPT", "INTERSECT")):
            self.expects_relation = True
        elif token.is_word("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "WINDOW", "SELECT"):
            self.expects_relation = self.relations = False
        else:
            return token.is_word("LATERAL")
        return True


def _reference(cursor: Cursor) -> Reference | None:
    """Parses the table that a relation begins with; None if it is a function."""
    start = cursor.tokens[cursor.at].start
    names = cursor.names()
    if cursor.sees("("):
        return None
    end = cursor.tokens[cursor.at - 1].end
    as_of, position = None, cursor.at
    cursor.take("FOR")
    kind = next((word for word in _TIMES if cursor.take(word, "AS", "OF")), None)
    if kind is None:
        cursor.at = position
    else:
        if "VERSION" in kind:
            raise cursor.refused(f"Apache Hudi does not support {kind} AS OF; use TIMESTAMP AS OF")
        cursor.take("TIMESTAMP")
        cursor.take("DATE")
        try:
            as_of = cursor.constant()
        except ValueError as error:
            raise cursor.refused("expected a timestamp literal such as '2026-01-31'") from error
        end = cursor.tokens[cursor.at - 1].end
    token = cursor.token
    has_alias = token is not None and (token.is_word("AS") or _is_alias(token))
    return Reference(names, as_of, start, end, has_alias)


def _is_alias(token: SqlToken) -> bool:
    return token.is_name and not token.is_word(*_AFTER_RELATION)


_AFTER_RELATION = (
    *("ANTI", "CLUSTER", "CROSS", "DISTRIBUTE", "EXCEPT", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN"),
    *("LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "OFFSET", "ON", "ORDER", "PIVOT", "RIGHT", "SELECT", "SEMI"),
    *("SORT", "TABLESAMPLE", "UNION", "UNPIVOT", "USING", "WHEN", "WHERE", "WINDOW", "WITH"),
)


def _defined_names(query: Cursor) -> set[str]:
    """Returns the names that WITH defines, in lower case."""
    result = set()
    tokens = query.tokens
    for index in range(query.at + 1, query.end - 2):
        if tokens[index].is_name and tokens[index - 1].is_word("WITH", ","):
            after = index + 1
            if tokens[after].is_word("("):  # names of columns
                inner = Cursor(query.text, tokens, after, query.end)
                inner.group()
                after = inner.at
            if after + 1 < query.end and tokens[after].is_word("AS") and tokens[after + 1].is_word("("):
                result.add(tokens[index].text.lower())
    return result


def _escaped_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


QUERIES = SqlStatement(
    ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "("),
    run_reading,
    "queries",
    "the newest state, read by `read_table`; `TIMESTAMP AS OF '2026-01-31'` with a constant; table functions such as "
    "`hudi_table_changes('trips', 'cdc', 'earliest')` and `hudi_query('trips', 'read_optimized')`. Also the query of "
    "`INSERT` or `CREATE TABLE ... AS` into other tables",
)
STATEMENTS = (
    SqlStatement(
        tuple(
            f"CREATE {replaces}{kind}VIEW"
            for replaces in ("", "OR REPLACE ")
            for kind in ("", "TEMPORARY ", "TEMP ", "GLOBAL TEMPORARY ", "GLOBAL TEMP ")
        ),
        create_view,
    ),
    QUERIES,
)
