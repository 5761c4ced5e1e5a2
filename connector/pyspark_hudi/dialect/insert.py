"""INSERT INTO and INSERT OVERWRITE, and statements that name partitions: TRUNCATE TABLE and ALTER TABLE ... DROP
PARTITION."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.schema import META_FIELDS, backticked
from hudi_py.write.dml.distributed import partition_path
from pyspark_hudi.catalog import sql_type
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.queries import or_reading, run_query
from pyspark_hudi.dialect.store import fits_by_name, stored
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor, tokens_of, value_of
from pyspark_hudi.seen import SEEN, evaluated
from pyspark_hudi.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
_OPERATIONS = ("insert", "upsert", "bulk_insert")
_MODE, _BULK = "hoodie.sql.insert.mode", "hoodie.sql.bulk.insert.enable"
_NON_STRICT = "non-strict"
_MODES = ("upsert", "strict", _NON_STRICT)
"""Deprecated since 0.14."""


def insert(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs an INSERT. Returns None if it does not write to a Hudi table.

    Sources: `InsertIntoHoodieTableCommand`, `ProvidesHoodieConfig`, 1.2.0.
    """
    with_clause = _with(cursor)
    cursor.need("INSERT")
    overwrite = cursor.take("OVERWRITE")
    if not overwrite and not cursor.take("INTO"):
        return None  # such as INSERT OVERWRITE DIRECTORY
    if overwrite and cursor.sees("DIRECTORY"):
        return None
    cursor.take("INTO")
    cursor.take("TABLE")
    target = tables.find(cursor.names())
    if target is None:
        return None
    if cursor.sees("REPLACE") or cursor.sees("WITH", "("):
        raise cursor.refused("REPLACE WHERE and options are not supported (set options with SET hoodie... = ...)")
    spec = partition_spec(cursor) if cursor.sees("PARTITION") else {}
    if cursor.take("IF", "NOT", "EXISTS"):
        raise cursor.refused("IF NOT EXISTS is not supported")
    by_name = cursor.take("BY", "NAME")
    columns = None if by_name else _columns(cursor)
    query = _with_nulls(cursor.rest())
    named = None if columns is None else tuple(columns)

    def rows() -> DataFrame:
        return aligned(target, _query(tables, with_clause, query), spec, named, by_name=by_name)

    def write(frame: DataFrame, options: Mapping[str, str]) -> None:
        saying = replace(target, seen=options[SEEN]) if SEEN in options else target
        if overwrite:
            insert_overwrite(saying, frame, spec)
        else:
            saying.write(frame, insert_operation(target))

    evaluated(rows, target.path, target.options, write)
    return tables.nothing()


def insert_operation(target: StatementTarget) -> str:
    """Returns the operation of INSERT INTO (`ProvidesHoodieConfig.buildHoodieInsertConfig`, 1.2.0): the configured one,
    or the one for `hoodie.sql.insert.mode`."""
    given = target.configured
    operation = given.get(write_config.OPERATION.key, given.get(INSERT_OPERATION))
    if operation is None and _MODE in given:
        return _operation_of_mode(target)
    return _checked(operation or "insert")


def query_operation(configured: Mapping[str, str]) -> str:
    """Returns the operation that CREATE TABLE ... AS uses for the rows of its query."""
    return _checked(configured.get(INSERT_OPERATION, "bulk_insert"))


def _checked(operation: str) -> str:
    if operation.lower() not in _OPERATIONS:
        raise ConfigError(f"Cannot insert with {INSERT_OPERATION} = '{operation}'; supported: {', '.join(_OPERATIONS)}")
    return operation.lower()


def _operation_of_mode(target: StatementTarget) -> str:
    """Returns the operation as Apache Hudi 1.2.0 does: `upsert` and `strict` insert, and keep rows of known keys. If
    rows of one key are combined before an insert, they upsert (`ProvidesHoodieConfig.deduceOperation`)."""
    given = target.configured

    def is_set(key: str) -> bool:
        return given.get(key, "").lower() == "true"

    mode, is_bulk = given[_MODE].lower(), is_set(_BULK)
    if mode not in _MODES:
        raise ConfigError(f"Cannot insert with {_MODE} = '{mode}'; supported: {', '.join(_MODES)}")
    if is_bulk and mode != _NON_STRICT:
        raise ConfigError(
            f"Cannot insert into the table {target.shown} with {_BULK} = 'true' and {_MODE} = '{mode}': bulk inserts "
            f"look up no keys; set {_MODE} = '{_NON_STRICT}', or {INSERT_OPERATION} instead of both"
        )
    if is_bulk or not target.config.record_key_fields:
        return "bulk_insert"
    combines = is_set(write_config.COMBINE_BEFORE_INSERT.key) and not is_set(write_config.DROP_DUPLICATES.key)
    return "upsert" if combines and mode != _NON_STRICT else "insert"


def partition_spec(cursor: Cursor) -> dict[str, str | None]:
    """Parses the partition columns in PARTITION (...), with expressions of their values; None for those from the
    query."""
    cursor.need("PARTITION")
    values: dict[str, str | None] = {}
    for part in cursor.group().parts():
        name = part.name()
        if name.lower() in map(str.lower, values):
            raise part.refused(f"the partition column '{name}' is named twice")
        values[name] = None
        if part.take("="):
            values[name] = part.rest().source
        part.finish()
    return values


def aligned(
    target: StatementTarget,
    query: DataFrame,
    spec: Mapping[str, str | None],
    columns: tuple[str, ...] | None = None,
    *,
    by_name: bool = False,
) -> DataFrame:
    """Converts the rows of a query to the table's columns, order and types.

    Without a list of columns, a query that gives all of them by name is taken by name, as in Apache Hudi
    (`InsertIntoHoodieTableCommand.coerceQueryOutputColumns`, 1.2.0), and others by position. Members of structs are
    taken by name if all of them have the names of the table, too, and by position otherwise and with a list of columns.

    Args:
        spec: values of partition columns, see `partition_spec`.
        columns: those that the query gives, in order; None: all without a value in `spec`, partition columns last.

    Raises:
        SchemaMismatchError: their number, names or types do not fit.
    """
    query = query.drop(*META_FIELDS)
    fixed = _fixed(target, spec)
    listed = query.columns if by_name else columns
    if listed is None:
        named = _all_columns(target, query.schema, fixed)
    else:
        named = [target.field(name).name for name in listed]
    if len(set(named)) < len(named) or set(named) & set(fixed):
        twice = sorted({name for name in named if named.count(name) > 1} | set(named) & set(fixed))
        raise SchemaMismatchError(
            f"Cannot insert into the table {target.shown}: the column '{twice[0]}' is given twice; give it once"
        )
    if len(named) != len(query.columns):
        few = "not enough" if len(query.columns) < len(named) else "too many"
        raise SchemaMismatchError(
            f"Cannot write to the table {target.shown}, the reason is {few} data columns: the query has "
            f"{len(query.columns)} for {', '.join(named)}"
        )
    held = query.toDF(*(f"_{number}" for number in range(len(named))))
    places = {name: number for number, name in enumerate(named)}
    kinds = [field.dataType for field in query.schema]
    own = (target.field(name).dataType for name in named)
    members_by_name = columns is None and all(map(fits_by_name, kinds, own))
    made = []
    for field in target.schema:
        kind = sql_type(field.dataType)
        if field.name in fixed:  # Spark takes it for text of its type
            text = f"CAST({fixed[field.name]} AS {kind})"
        elif field.name in places:
            number = places[field.name]
            text = stored(kinds[number], field.dataType, f"_{number}", field.name, by_name=members_by_name)
        else:
            text = f"CAST(NULL AS {kind})"
        made.append(f"{text} AS {backticked(field.name)}")
    return held.selectExpr(*made)


def _fixed(target: StatementTarget, spec: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the values in PARTITION (...) by partition column, which names all of these columns or none."""
    partitions = target.config.partition_fields
    given = {target.field(name).name: value for name, value in spec.items()}
    if given and set(given) != set(partitions):
        raise ConfigError(
            f"Cannot insert into partition ({', '.join(given)}) of the table {target.shown}: its partition columns are "
            f"{', '.join(partitions) or 'none'}; name all of them, without a value where the query gives it"
        )
    return {name: value for name, value in given.items() if value is not None}


def _all_columns(target: StatementTarget, query: StructType, fixed: Mapping[str, str]) -> list[str]:
    """Returns the table's columns that a query without a column list provides, in their order."""
    partitions = target.config.partition_fields
    expected = [field for field in target.schema if field.name not in fixed]
    last = [name for name in partitions if name not in fixed]
    by_place = [field.name for field in expected if field.name not in partitions] + last
    return _named(target, query, expected) or by_place


def _named(target: StatementTarget, query: StructType, expected: Sequence[StructField]) -> list[str] | None:
    """Returns the table's columns that a query names; None if it does not name all of the expected ones.

    Raises:
        SchemaMismatchError: the query has several columns of one name.
    """
    names = [name.lower() for name in query.names]
    kinds = dict(zip(names, (field.dataType for field in query), strict=True))
    for field in expected:
        kind = kinds.get(field.name.lower())
        if kind is None or not fits_by_name(kind, field.dataType):
            return None
        if names.count(field.name.lower()) > 1:
            raise SchemaMismatchError(
                f"Cannot insert into the table {target.shown}: the query has several columns '{field.name}'; give each "
                "column of the table once, or none of them by its name"
            )
    if len(names) != len(expected):
        return None
    return [target.field(name).name for name in names]


def path_of_partition(target: StatementTarget, spec: Mapping[str, str | None]) -> str:
    """Returns the path of the partition with these values.

    Raises:
        ConfigError: the table has other partition columns, or no values are given.
    """
    fields = target.config.partition_fields
    given = {target.field(name).name: value for name, value in spec.items()}
    if set(given) != set(fields) or None in given.values():
        reason = (
            f"all partition columns need a value; they are {', '.join(fields)}" if fields else "it is not partitioned"
        )
        raise ConfigError(f"Cannot find the partition ({', '.join(spec)}) of the table {target.shown}: {reason}")
    return _path(target, given)


def _path(target: StatementTarget, given: Mapping[str, str | None]) -> str:
    """Returns the path of the partition with these values by column; a missing one is null."""
    columns = [target.field(name) for name in target.config.partition_fields]
    values = [given.get(column.name) or "NULL" for column in columns]
    exprs = [
        f"CAST({value} AS {sql_type(column.dataType)}) AS {backticked(column.name)}"
        for value, column in zip(values, columns, strict=True)
    ]
    row = target.spark.range(1).selectExpr(*exprs)
    batch = row.toArrow().cast(arrow_schema(row.schema)).combine_chunks().to_batches()[0]
    return partition_path(target.config, batch)


def delete_partition(target: StatementTarget, spec: Mapping[str, str | None]) -> None:
    """Deletes the partition with these values, as DROP PARTITION does."""
    path = path_of_partition(target, spec)
    for sign, meaning in ((",", "separates paths"), ("*", "stands for any text")):
        if sign in path:
            raise ConfigError(
                f"Cannot delete the partition '{path}' of the table {target.shown} by its values: in "
                f"{write_config.DELETED_PARTITIONS.key} '{sign}' {meaning}; use DELETE FROM {target.shown} WHERE ..."
            )
    delete_partition_at(target, path)


def delete_partition_at(target: StatementTarget, path: str) -> None:
    """Deletes the partition with a path."""
    nothing = target.spark.createDataFrame([], target.schema)
    target.write(nothing, "delete_partition", **{write_config.DELETED_PARTITIONS.key: path})


def insert_overwrite(target: StatementTarget, rows: DataFrame, spec: Mapping[str, str | None]) -> None:
    """Replaces the table, or partitions of it (`deduceOverwriteConfig`, 1.2.0): in static mode all partitions with the
    given values, so the whole table if none are given."""
    configured = target.configured
    mode = configured.get(write_config.OVERWRITE_MODE.key)
    if mode is None:
        mode = str(target.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "STATIC"))
    partitions = target.config.partition_fields
    is_static, given = mode.upper() == "STATIC", [value for value in spec.values() if value is not None]
    if not partitions or (is_static and not given):
        target.write(rows, "insert_overwrite_table")
    elif not is_static:
        target.write(rows, "insert_overwrite")
    elif len(given) == len(partitions):
        _overwrite_partitions(target, rows, [path_of_partition(target, spec)])
    else:
        _overwrite_partitions(target, rows, _partitions_with(target, spec))


def _overwrite_partitions(target: StatementTarget, rows: DataFrame, paths: Sequence[str]) -> None:
    """Replaces partitions, whether or not there are rows for them."""
    for path in paths:
        if "," in path:
            raise ConfigError(
                f"Cannot overwrite the partition '{path}' of the table {target.shown} by its values: "
                f"{write_config.OVERWRITTEN_PARTITIONS.key} separates paths by commas; INSERT OVERWRITE with "
                f"{write_config.OVERWRITE_MODE.key} = DYNAMIC replaces those that the query has rows for"
            )
    given = {write_config.OVERWRITTEN_PARTITIONS.key: ",".join(paths)} if paths else {}
    target.write(rows, "insert_overwrite", **given)


def _partitions_with(target: StatementTarget, spec: Mapping[str, str | None]) -> list[str]:
    """Returns the paths of the partitions with the given values of some partition columns.

    Raises:
        ConfigError: paths do not have one part for each partition column.
    """
    fields = target.config.partition_fields
    given = {target.field(name).name: value for name, value in spec.items() if value is not None}
    wanted = _path(target, given).split("/")
    paths = []
    for row in (row for row in target.view("partitions") if row["num_slices"] > 0):
        parts = row["partition"].split("/")
        if len(parts) != len(fields) or len(wanted) != len(fields):
            raise ConfigError(
                f"Cannot overwrite the partitions ({', '.join(given)}) of the table {target.shown}: the path "
                f"{row['partition']} does not have one part for each of {', '.join(fields)}; give all values"
            )
        if all(parts[index] == wanted[index] for index, name in enumerate(fields) if name in given):
            paths.append(row["partition"])
    return paths


def _with(cursor: Cursor) -> Cursor | None:
    """Returns the WITH before INSERT."""
    return cursor.until("INSERT") if cursor.sees("WITH") else None


def _with_nulls(query: Cursor) -> Cursor:
    """Replaces each DEFAULT that is a value on its own by NULL, the only default of Hudi tables."""
    rows = replace(query)
    items: list[Cursor] = []
    if rows.take("VALUES"):
        for row in rows.parts():
            items += row.group().parts() if row.sees("(") else [row]
    elif rows.take("SELECT"):
        items += rows.until("FROM", "WHERE", "UNION", "ORDER", "LIMIT").parts()
    text = query.text
    for item in items:
        if value_of(item) != item.source and item.token is not None:
            text = f"{text[: item.token.start]}{'NULL':<7}{text[item.token.end :]}"
    return query if text == query.text else Cursor(text, tokens_of(text) or [], query.at, query.end)


def _query(tables: Tables, with_clause: Cursor | None, query: Cursor) -> DataFrame:
    if with_clause is None:
        return run_query(tables, query)
    text = f"{with_clause.source} {query.source}"
    return run_query(tables, Cursor(text, tokens_of(text) or []))


def _columns(cursor: Cursor) -> list[str] | None:
    """Parses the names of columns before the query, in parentheses."""
    following = Cursor(cursor.text, cursor.tokens, cursor.at + 1, cursor.end).token
    if not cursor.sees("(") or (following is not None and following.is_word("(", "SELECT", "WITH", "VALUES", "FROM")):
        return None
    names = []
    for part in cursor.group().parts():
        names.append(part.name())
        part.finish()
    return names


STATEMENTS = (
    SqlStatement(
        ("INSERT INTO",),
        or_reading(insert),
        "`INSERT INTO`",
        (
            "by name, by position, or by a list of columns, see below; `PARTITION (...)` with or without values. "
            "`hoodie.spark.sql.insert.into.operation`: `insert` (default), `upsert` or `bulk_insert`. The older "
            "`hoodie.sql.insert.mode` and `hoodie.sql.bulk.insert.enable` do what they do in 1.2.0: modes `upsert` and "
            "`strict` upsert only with `hoodie.combine.before.insert=true`"
        ),
    ),
    SqlStatement(
        ("INSERT OVERWRITE",),
        or_reading(insert),
        "`INSERT OVERWRITE`",
        (
            "the table; with `PARTITION (...)`, the partitions that have the values given; in dynamic mode "
            "(`hoodie.datasource.overwrite.mode`, `spark.sql.sources.partitionOverwriteMode`), those that the query "
            "has rows for"
        ),
    ),
)
