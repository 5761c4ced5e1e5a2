"""Writes to tables that PySpark names, after `enable`: `saveAsTable`, `insertInto`, `toTable` and `writeTo`.

Tables are created, and rows written, as by CREATE TABLE and INSERT (`CreateHoodieTableAsSelectCommand` and
`InsertIntoHoodieTableCommand`, Apache Hudi 1.2.0).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError, TableExistsError
from hudi_py.schema import META_FIELDS
from pyspark_hudi import catalog
from pyspark_hudi.dialect.create import Definition, create_table, is_of_creation
from pyspark_hudi.dialect.insert import INSERT_OPERATION, aligned, insert_operation, insert_overwrite
from pyspark_hudi.dialect.tables import PREFIXES, StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor, tokens_of
from pyspark_hudi.table import of_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CREATING = frozenset({"", "default", "error", "errorifexists", "ignore"})
"""Modes that only create tables."""
PARTITIONS = tuple(key.lower() for key in table_config.PARTITION_PATH.keys)
"""Options that name partition columns."""
_OF_NAME = frozenset(table_config.TABLE_NAME.keys)


def target_of(spark: SparkSession, name: object) -> StatementTarget | None:
    """Returns the Hudi table of a name; None if it means something else, or nothing."""
    if not isinstance(name, str):
        return None
    tokens = tokens_of(name)
    if not tokens:
        return None
    cursor = Cursor(name, tokens)
    try:
        names = cursor.names()
        cursor.finish()
    except ConfigError:  # Spark will report the error
        return None
    tables = Tables(spark)
    target = tables.find(names)
    if target is None and names[-1].lower().endswith(catalog.SUFFIX):  # the part to insert into
        return tables.find((*names[:-1], names[-1][: -len(catalog.SUFFIX)]))
    return target


def save_as_table(
    frame: DataFrame, name: str, mode: str, options: Mapping[str, str], partitions: Sequence[str] = ()
) -> None:
    """Creates a table of the catalog from rows, as CREATE TABLE ... AS does; or appends to it by name, or replaces all
    of its rows, as one commit.

    Args:
        mode: that of `df.write`, in lower case.
        options: those of `df.write`, by keys in lower case: what Apache Hudi takes, `path` for an external table, and
            the properties of its SQL, such as `primaryKey`.
        partitions: the columns of `partitionBy`; the option weighs more.

    Raises:
        TableExistsError: a table of this name exists, and the mode only creates tables, or it is not a Hudi table.
        ConfigError: the table is elsewhere, or has other partition columns.
        SchemaMismatchError: rows to append have other columns than the table.
        HudiError: as the write.
    """
    spark = frame.sparkSession
    target = target_of(spark, name)
    if target is not None and target.is_path:
        raise ConfigError(f"Cannot save as the table {name}: it names a path; use save('{target.path}')")
    given = _named_otherwise(options, name)
    columns = _partition_columns(given, partitions)
    if target is None and not spark.catalog.tableExists(name):
        made = _create_table_as(frame, name, given, columns, replaces=mode not in CREATING)
        if made is None:
            return
        target = made
    elif mode == "ignore":
        return
    elif target is None or mode in CREATING:
        kind = "no Hudi table; choose another name, or drop it"
        hint = "append to it by mode('append'), or replace its rows by mode('overwrite')"
        raise TableExistsError(
            f"Cannot create the table {name}: there is one already, {kind if target is None else hint}"
        )
    _check_same(target, given, columns)
    own = {**{key: value for key, value in given.items() if key.startswith("hoodie.")}, **of_storage(given)}
    operation = own.pop(write_config.OPERATION.key, None)
    target = replace(target, given=own)
    if mode == "overwrite":
        target.write(frame.drop(*META_FIELDS), "insert_overwrite_table")
        if not target.of_catalog:
            catalog.refresh(spark, target.name, target.path)
        return
    target.write(_by_name(target, frame), operation or insert_operation(target))


def insert_into(frame: DataFrame, name: str, options: Mapping[str, str], *, overwrites: bool) -> bool:
    """Inserts rows as INSERT INTO or INSERT OVERWRITE does: by position, or by name if all columns have the table's
    names. Returns False, without doing anything, if the name is of no Hudi table.

    Raises:
        HudiError: as the statement.
    """
    target = target_of(frame.sparkSession, name)
    if target is None:
        return False
    asked = options.get(write_config.OPERATION.key)
    if asked is not None:
        warnings.warn(
            f"The option {write_config.OPERATION.key} = '{asked}' has no effect on insertInto('{name}'), as in Apache "
            f"Hudi; SET {INSERT_OPERATION} = '{asked}', or use save(path)",
            stacklevel=3,
        )
    target = replace(target, given=of_storage(options))
    rows = aligned(target, frame, {})
    if overwrites:
        insert_overwrite(target, rows, {})
    else:
        target.write(rows, insert_operation(target))
    return True


def stream_target(
    frame: DataFrame, name: str, options: Mapping[str, str], partitions: Sequence[str], *, is_ours: bool
) -> tuple[str, dict[str, str]] | None:
    """Returns the path of the table that a stream names, and options to add to the stream's: the table's name, and what
    the catalog keeps for writes. A missing table is created first, with the columns of the stream. Returns None if the
    table is Spark's.

    Args:
        is_ours: whether the stream names our format: another table than Hudi's is Spark's otherwise.

    Raises:
        ConfigError: the table is elsewhere, or has other partition columns.
        HudiError: as CREATE TABLE.
    """
    spark = frame.sparkSession
    target = target_of(spark, name)
    if target is None and (not is_ours or spark.catalog.tableExists(name)):
        return None
    if not is_ours:
        raise _without_format("stream into", name)
    given = _named_otherwise(options, name)
    columns = _partition_columns(given, partitions)
    if target is None:
        own = {key: value for key, value in given.items() if key == "path" or is_of_creation(key)}
        target = _define_table(spark, name, own, columns, StructType(frame.schema.fields))
    _check_same(target, given, columns)
    kept = {key: value for key, value in target.options.items() if key not in options}
    return target.path, {**kept, **dict.fromkeys(_OF_NAME & options.keys(), target.config.name)}


def check_format(spark: SparkSession, name: str) -> None:
    """Raises ConfigError if a table to save as, without our format, is a Hudi table."""
    if target_of(spark, name) is not None:
        raise _without_format("save as", name)


def _without_format(what: str, name: str) -> ConfigError:
    return ConfigError(
        f"Cannot {what} the table {name}, which is a Hudi table, as another format; add .format('hudi-py')"
    )


def _create_table_as(
    frame: DataFrame, name: str, options: Mapping[str, str], partitions: Sequence[str], *, replaces: bool
) -> StatementTarget | None:
    """Creates a table with its first rows. If its location already has a table, writes nothing and returns it, for an
    append or overwrite."""
    spark = frame.sparkSession
    path = options.get("path")
    if replaces and path is not None and StatementTarget(Tables(spark), (PREFIXES[0], path), path).exists():
        return _define_table(spark, name, {"path": path}, (), None)
    definition = _table_definition(spark, name, options, partitions)
    rows = frame.drop(*META_FIELDS)
    definition.rows = lambda: rows
    create_table(Tables(spark), definition)
    return None


def _define_table(
    spark: SparkSession, name: str, options: Mapping[str, str], partitions: Sequence[str], schema: StructType | None
) -> StatementTarget:
    """Creates a table without rows, or names the one at a path."""
    definition = _table_definition(spark, name, options, partitions)
    definition.schema = schema
    create_table(Tables(spark), definition)
    target = target_of(spark, name)
    assert target is not None
    return target


def _table_definition(
    spark: SparkSession, name: str, options: Mapping[str, str], partitions: Sequence[str]
) -> Definition:
    cursor = Cursor(name, tokens_of(name) or [])
    properties = {key: value for key, value in options.items() if key != "path"}
    hidden = sorted(of_storage(properties))
    if hidden:
        raise ConfigError(
            f"Cannot create the table {name} with the option {hidden[0]}: the catalog would show it to everyone; set "
            "the storage's credentials in the workers' environment"
        )
    return Definition(cursor.names(), properties=properties, partitions=list(partitions), location=options.get("path"))


def _named_otherwise(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Removes the table's name from the options; the catalog's replaces it."""
    return {key: value for key, value in options.items() if key not in _OF_NAME}


def _partition_columns(options: Mapping[str, str], partitions: Sequence[str]) -> list[str]:
    """Returns the partition columns, which are last in the table: those of the option, without key generators, or of
    `partitionBy`."""
    given = next((options[key] for key in PARTITIONS if options.get(key)), None)
    if given is None:
        return list(partitions)
    return [part.strip().partition(":")[0] for part in given.split(",")]


def _check_same(target: StatementTarget, options: Mapping[str, str], partitions: Sequence[str]) -> None:
    """Refuses a location or partition columns that differ from the table's."""
    path = options.get("path")
    if path is not None and _plain_path(path) != _plain_path(target.path):
        raise ConfigError(
            f"Cannot write to the table {target.shown} with the path {path}: it is at {target.path}; leave the path "
            "out, or choose another name"
        )
    own = target.config.partition_fields
    if partitions and [partition.lower() for partition in partitions] != [item.lower() for item in own]:
        raise ConfigError(
            f"Cannot write to the table {target.shown} partitioned by {', '.join(partitions)}: its partition columns "
            f"are {', '.join(own) or 'none'}; leave them out"
        )


def _plain_path(path: str) -> str:
    plain = path.rstrip("/")
    return f"/{plain.removeprefix('file:').lstrip('/')}" if plain.startswith("file:") else plain


def _by_name(target: StatementTarget, frame: DataFrame) -> DataFrame:
    """Selects the table's columns by name, in its order and types.

    Raises:
        SchemaMismatchError: the rows have other columns.
    """
    given = [column for column in frame.columns if column not in META_FIELDS]
    own = target.schema.names
    if sorted(map(str.lower, given)) != sorted(map(str.lower, own)):
        raise SchemaMismatchError(
            f"Cannot append to the table {target.shown}: the rows have the columns {', '.join(given)}, and the table "
            f"{', '.join(own)}; give all of them, or change the table by ALTER TABLE"
        )
    return aligned(target, frame, {}, by_name=True)
