"""UPDATE, DELETE and MERGE INTO.

The core runs them and supports a subset of Spark's expressions. Spark evaluates other expressions first, if they need
only the table (UPDATE, DELETE) or only the source (MERGE), and the core merges the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions import parse_condition, parse_expression, parse_filter
from hudi_py.schema import PARTITION_PATH, RECORD_KEY, backticked
from pyspark_hudi import statements
from pyspark_hudi.catalog import sql_type
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.meaning import Meaning, Parse
from pyspark_hudi.dialect.queries import run_query
from pyspark_hudi.dialect.store import same
from pyspark_hudi.dialect.tables import StatementTarget, Tables, shortened
from pyspark_hudi.dialect.text import Cursor, tokens_of, value_of
from pyspark_hudi.types import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudi_py.write.dml.distributed import MergeBuilder

_TARGET, _SOURCE = "_hudi_target", "_hudi_source"
_COMPUTED = "_hudi_value_"
_PLACE = {RECORD_KEY: "_hudi_key", PARTITION_PATH: "_hudi_path"}
"""Meta columns that identify a row, with their names in source rows."""


def update(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs UPDATE t [AS a] SET ... [WHERE ...]. Returns None if it is not a Hudi table."""
    cursor.need("UPDATE")
    target = tables.find(cursor.names())
    if target is None:
        return None
    alias = _table_alias(cursor, "SET") or target.names[-1]
    cursor = shortened(cursor, target)
    cursor.need("SET")
    values = _parse_assignments(cursor.until("WHERE"), alias)
    condition = cursor.rest().source if cursor.take("WHERE") else None
    cursor.finish()
    inputs, meaning = arrow_schema(target.schema), Meaning(tables.spark)
    given = {
        target.field(name).name: (
            text,
            _cast_text(meaning.in_moments(_without_alias(text, alias)), target.field(name).dataType, inputs),
        )
        for name, text in values.items()
    }
    where = None if condition is None else meaning.in_moments(_without_alias(condition, alias))
    known = all(meaning.shared(text, partial(parse_expression, schema=inputs)) for _, text in given.values())
    if known and meaning.shared(where, partial(parse_filter, schema=inputs)):
        assigned = {name: text for name, (_, text) in given.items()}
        statements.update(tables.spark, target.path, assigned, where, options=target.options)
        return tables.nothing()
    casts = {name: _cast_text(text, target.field(name).dataType) for name, (text, _) in given.items()}
    merge = _merging_by_key(target, lambda: _evaluated_rows(target, alias, casts, condition))
    merge.when_matched_update({name: f"s.{_COMPUTED}{index}" for index, name in enumerate(casts)}).execute()
    return tables.nothing()


def delete(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs DELETE FROM t [AS a] [WHERE ...]. Returns None if it is not a Hudi table."""
    cursor.need("DELETE")
    cursor.take("FROM")
    target = tables.find(cursor.names())
    if target is None:
        return None
    alias = _table_alias(cursor, "WHERE") or target.names[-1]
    cursor = shortened(cursor, target)
    condition = cursor.rest().source if cursor.take("WHERE") else "true"
    cursor.finish()
    meaning = Meaning(tables.spark)
    where = meaning.in_moments(_without_alias(condition, alias))
    if meaning.shared(where, partial(parse_filter, schema=arrow_schema(target.schema))):
        statements.delete_from(tables.spark, target.path, where, options=target.options)
    else:
        rows = partial(_evaluated_rows, target, alias, {}, condition)
        _merging_by_key(target, rows).when_matched_delete().execute()
    return tables.nothing()


def merge(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs MERGE INTO. Returns None if it is not a Hudi table."""
    if not cursor.take("MERGE", "INTO"):
        return None
    target = tables.find(cursor.names())
    if target is None:
        return None
    target_alias = _table_alias(cursor, "USING") or (_TARGET if target.is_path else target.names[-1])
    cursor = shortened(cursor, target)
    cursor.need("USING")
    relation = cursor.until("ON")
    source_alias = _relation_alias(relation)
    text = f"SELECT * FROM {relation.source}"
    evaluate = partial(run_query, tables, Cursor(text, tokens_of(text) or []))
    cursor.need("ON")
    on = cursor.until("WHEN").source
    clauses = []
    while cursor.token is not None:
        clauses.append(_merge_clause(cursor, target_alias))
    merging = _Merging(target, target_alias, evaluate, source_alias)
    for clause in clauses:
        merging.add(clause)
    merging.execute(on)
    return tables.nothing()


@dataclass(frozen=True, slots=True)
class _MergeClause:
    when: str
    action: str
    condition: str | None
    values: Mapping[str, str] | None
    """None means all columns, or none for a delete."""


def _merge_clause(cursor: Cursor, alias: str) -> _MergeClause:
    cursor.need("WHEN")
    when = "not matched" if cursor.take("NOT") else "matched"
    cursor.need("MATCHED")
    if cursor.take("BY", "SOURCE"):
        when = "not matched by source"
    else:
        cursor.take("BY", "TARGET")
    condition = cursor.until("THEN").source if cursor.take("AND") else None
    cursor.need("THEN")
    if cursor.take("DELETE"):
        return _MergeClause(when, "delete", condition, None)
    if cursor.take("UPDATE"):
        cursor.need("SET")
        part = cursor.until("WHEN")
        return _MergeClause(when, "update", condition, None if _is_star(part) else _parse_assignments(part, alias))
    cursor.need("INSERT")
    if cursor.take("*"):
        return _MergeClause(when, "insert", condition, None)
    names = [_assigned_column(part.names(), alias) for part in cursor.group().parts()]
    cursor.need("VALUES")
    values = [value_of(part) for part in cursor.group().parts()]
    if len(names) != len(values):
        raise cursor.refused(
            f"INSERT has {len(names)} columns and {len(values)} values; expected a value for each column"
        )
    return _MergeClause(when, "insert", condition, dict(zip(names, values, strict=True)))


class _Merging:
    """A merge under construction: conditions and values that only Spark can evaluate become columns of the source."""

    def __init__(
        self, target: StatementTarget, target_alias: str, evaluate: Callable[[], DataFrame], source_alias: str
    ) -> None:
        """Stores the parts. `evaluate` returns the source, from the newest states of the tables that it reads."""
        self.target = target
        self.aliases = target_alias, source_alias
        self.evaluate = evaluate
        self.sources = [evaluate()]
        """Names that are not used yet."""
        source = self.sources[0]
        self.own = source.columns
        self.computed: list[str] = []
        self.meaning = Meaning(target.spark)
        self.clauses: list[_MergeClause] = []
        ours = StructType(list(target.schema))
        both = [(target_alias, ours), (source_alias, source.schema)]
        self.inputs = {
            "matched": _table_structs(both),
            "not matched": _table_structs(both[1:]),
            "not matched by source": _table_structs(both[:1]),
        }

    def add(self, clause: _MergeClause) -> None:
        inputs, meaning = self.inputs[clause.when], self.meaning
        parse, parse_test = (
            partial(item, schema=inputs, aliases=inputs.names) for item in (parse_expression, parse_condition)
        )
        condition = None if clause.condition is None else meaning.in_moments(clause.condition)
        if not meaning.shared(condition, parse_test):
            condition = self.compute(str(condition), clause.when, None, parse_test)
        values = clause.values
        if values is None and clause.action != "delete":
            values = self.all_columns(clause)
        made = None
        if values is not None:
            made = {}
            for name, text in values.items():
                field = self.target.field(name)
                cast = _cast_text(meaning.in_moments(text), field.dataType, inputs, inputs.names)
                if not meaning.shared(cast, parse):
                    cast = self.compute(cast, clause.when, clause.condition, parse)
                made[field.name] = cast
        self.clauses.append(_MergeClause(clause.when, clause.action, condition, made))

    def all_columns(self, clause: _MergeClause) -> dict[str, str]:
        known = {name.lower(): name for name in self.own}
        lacking = [field.name for field in self.target.schema if field.name.lower() not in known]
        if lacking:
            raise SchemaMismatchError(
                f"Cannot merge into the table {self.target.shown}: {clause.action.upper()} * needs the column "
                f"'{lacking[0]}', which the source lacks; it has {', '.join(self.own)}: name the columns to set"
            )
        alias = backticked(self.aliases[1])
        return {field.name: f"{alias}.{backticked(known[field.name.lower()])}" for field in self.target.schema}

    def compute(self, text: str, when: str, condition: str | None, parse: Parse) -> str:
        """Adds a source column with the values of an expression as Spark evaluates it, for the rows where `condition`
        holds.

        Raises:
            ConfigError, SchemaMismatchError: of the core, if the expression needs the table.
        """
        whole = text if condition is None else f"CASE WHEN {condition} THEN {text} END"
        if when == "not matched by source" or not self.of_source(whole, when):
            whole = text
        if when == "not matched by source" or not self.of_source(whole, when):
            parse(text)
            raise _undecided_error(text, self.meaning.differs(text, parse))
        self.computed.append(whole)
        return f"{backticked(self.aliases[1])}.{_COMPUTED}{len(self.computed) - 1}"

    def of_source(self, text: str, when: str) -> bool:
        """Returns whether an expression refers only to columns of the source."""
        tokens = tokens_of(text) or []
        ours, theirs = ({name.lower() for name in names} for names in (self.target.schema.names, self.own))
        for index, token in enumerate(tokens):
            if not token.is_name or (index and tokens[index - 1].text == "."):
                continue
            name, is_path = token.text.lower(), index + 1 < len(tokens) and tokens[index + 1].text == "."
            if is_path and name == self.aliases[0].lower() != self.aliases[1].lower():
                return False
            if not is_path and when == "matched" and name in ours and name not in theirs:
                return False
        return True

    def evaluated(self) -> DataFrame:
        """Returns the source with the columns that Spark computes from it."""
        source = self.sources.pop() if self.sources else self.evaluate()
        if not self.computed:
            return source
        columns = [f"{text} AS {_COMPUTED}{number}" for number, text in enumerate(self.computed)]
        return source.alias(self.aliases[1]).selectExpr("*", *columns)

    def execute(self, on: str) -> None:
        on, inputs = self.meaning.in_moments(on), self.inputs["matched"]
        setting = self.meaning.differs(on, partial(parse_condition, schema=inputs, aliases=inputs.names))
        if setting:
            raise _undecided_error(on, setting)
        merge = statements.merge_into(
            self.target.spark,
            self.target.path,
            self.evaluated,
            (on,),
            source_alias=self.aliases[1],
            target_alias=self.aliases[0],
            options=self.target.options,
        )
        for clause in self.clauses:
            merge = _with_clause(merge, clause)
        merge.execute()


def _with_clause(merge: MergeBuilder, clause: _MergeClause) -> MergeBuilder:
    if clause.action == "delete":
        if clause.when == "matched":
            return merge.when_matched_delete(clause.condition)
        return merge.when_not_matched_by_source_delete(clause.condition)
    assert clause.values is not None
    if clause.action == "insert":
        return merge.when_not_matched_insert(clause.values, clause.condition)
    if clause.when == "matched":
        return merge.when_matched_update(clause.values, clause.condition)
    return merge.when_not_matched_by_source_update(clause.values, clause.condition)


def _evaluated_rows(target: StatementTarget, alias: str, values: Mapping[str, str], condition: str | None) -> DataFrame:
    """Returns the rows that a statement changes, by record key and partition, with new values as Spark evaluates
    them."""
    columns = [f"{backticked(alias)}.{meta} AS {name}" for meta, name in _PLACE.items()]
    columns += [f"{text} AS {_COMPUTED}{index}" for index, text in enumerate(values.values())]
    where = "" if condition is None else f" WHERE {condition}"
    table = f"`hudi-py`.{backticked(target.path)} AS {backticked(alias)}"
    text = f"SELECT {', '.join(columns)} FROM {table}{where}"
    return run_query(target.tables, Cursor(text, tokens_of(text) or []))


def _merging_by_key(target: StatementTarget, rows: Callable[[], DataFrame]) -> MergeBuilder:
    on = " AND ".join(f"t.{meta} = s.{name}" for meta, name in _PLACE.items())
    return statements.merge_into(target.spark, target.path, rows, on, options=target.options)


def _table_structs(tables: Sequence[tuple[str, StructType]]) -> pa.Schema:
    return pa.schema([pa.field(alias, pa.struct(list(arrow_schema(schema)))) for alias, schema in tables])


def _undecided_error(text: str, setting: str | None) -> ConfigError:
    """Returns the error for an expression that means something else in this session than to the core."""
    return ConfigError(
        f"Expression {text!r} cannot be evaluated for rows of the table: its meaning depends on {setting}; "
        "compute it in the source, write types and time zones into it, or unset that setting"
    )


def _cast_text(text: str, kind: DataType, inputs: pa.Schema | None = None, aliases: Sequence[str] = ()) -> str:
    """Casts an expression to a column's type, unless it has it. `inputs` are the columns that the core evaluates it
    with."""
    result = None
    if inputs is not None:
        with suppress(ConfigError, SchemaMismatchError):
            result = parse_expression(text, inputs, aliases=aliases).kind
    if result is not None and (
        pa.types.is_null(result) or same(spark_schema(pa.schema([("value", result)]))[0].dataType, kind)
    ):
        return text
    return f"CAST(({text}) AS {sql_type(kind)})"


def _table_alias(cursor: Cursor, end: str) -> str | None:
    """Reads the alias of a table, before the word `end`."""
    if cursor.take("AS") or (cursor.token is not None and not cursor.sees(end)):
        return cursor.name()
    return None


def _relation_alias(relation: Cursor) -> str:
    """Returns the name of the source in expressions."""
    last = Cursor(relation.text, relation.tokens, relation.at, relation.end)
    if last.sees("("):
        last.group()
        last.take("AS")
        return _SOURCE if last.token is None else last.name()
    names = last.names()
    if last.sees("("):
        last.group()
    if last.token is None:
        return names[-1]
    for word in ("TIMESTAMP", "FOR"):
        if last.sees(word):
            raise last.refused("give the source of the merge an alias: (SELECT * FROM ...) AS s")
    last.take("AS")
    return last.name()


def _parse_assignments(cursor: Cursor, alias: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for part in cursor.parts():
        name = _assigned_column(part.names(), alias)
        part.need("=")
        if name.lower() in {item.lower() for item in result}:
            raise ConfigError(f"Column '{name}' is set twice; give one of the values")
        result[name] = value_of(part.rest())
    return result


def _assigned_column(names: Sequence[str], alias: str) -> str:
    """Returns the table column that a statement sets."""
    if len(names) > 1 and names[-2].lower() == alias.lower():
        return names[-1]
    if len(names) > 1:
        raise ConfigError(
            f"Cannot set '{'.'.join(names)}', a member of a struct: only whole columns can be set; set the "
            "column to a new struct"
        )
    return names[0]


def _is_star(cursor: Cursor) -> bool:
    return cursor.source == "*"


def _without_alias(text: str, alias: str) -> str:
    """Returns an expression whose columns lack the table's alias."""
    tokens = tokens_of(text) or []
    pieces, done = [], 0
    for index, token in enumerate(tokens[:-1]):
        alone = index == 0 or tokens[index - 1].text != "."
        if token.is_name and token.text.lower() == alias.lower() and tokens[index + 1].text == "." and alone:
            pieces.append(text[done : token.start])
            done = tokens[index + 1].end
    return "".join([*pieces, text[done:]])


STATEMENTS = (
    SqlStatement(
        ("UPDATE",),
        update,
        "`UPDATE`",
        "all clauses; expressions below",
    ),
    SqlStatement(
        ("DELETE",),
        delete,
        "`DELETE FROM`",
        "all clauses; expressions below",
    ),
    SqlStatement(
        ("MERGE INTO",),
        merge,
        "`MERGE INTO`",
        "all clauses; expressions below",
    ),
)
