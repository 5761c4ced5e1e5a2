"""Finds Hudi tables in the session's catalog, and registers them and the table functions with Spark SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pyspark.errors import PySparkException
from pyspark.sql.functions import udtf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.sql.udtf import UserDefinedTableFunction

from hudi_py.config import STORAGE_PREFIX
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError
from hudi_py.expressions import literal
from hudi_py.schema import backticked
from pyspark_hudi.enabled import (
    SqlTable,
    forget_table,
    is_enabled,
    note_table,
    noted_tables,
    statements_are_sparks,
)
from pyspark_hudi.functions import FUNCTIONS
from pyspark_hudi.paths import checked_path
from pyspark_hudi.table import FORMAT, read_or, read_plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROVIDERS = ("hudi", FORMAT)
_READ_OPTIMIZED = re.compile(r"hoodie\.query\.as\.ro\.table=true\b", re.IGNORECASE)
"""How Apache Hudi's registrations, and ours, mark a table to be read without its logs."""
_FACT = re.compile(r"^(Provider|Location|Storage Properties): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CatalogEntry:
    """A Hudi table of the catalog."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict)


def entry_of(spark: SparkSession, name: str) -> CatalogEntry | None:
    """Returns the entry of a Hudi table, by name; None for other tables and views, and unknown names."""
    parts = [part.strip("`") for part in name.split(".")]
    if not 1 <= len(parts) <= 3 or not all(parts) or (len(parts) == 3 and parts[0].lower() != "spark_catalog"):
        return None
    facts = _catalog_facts(spark, parts[-2] if len(parts) > 1 else None, parts[-1])
    path = facts.get("Location", "")
    if facts.get("Provider", "").lower() not in PROVIDERS or not path:
        return None
    only_base = _READ_OPTIMIZED.search(facts.get("Storage Properties", ""))
    return CatalogEntry(path, {read_config.QUERY_TYPE.key: "read_optimized"} if only_base else {})


def _catalog_facts(spark: SparkSession, schema: str | None, table: str) -> dict[str, str]:
    """Returns what the catalog records about a table; nothing for a temporary view or an unknown name.

    Uses SHOW TABLE EXTENDED: DESCRIBE and `spark.catalog` look for the provider, fail if it is not installed, and show
    neither provider nor location of a Python source (Spark 4.3).
    """
    where = "" if schema is None else f" IN {backticked(schema)}"
    try:
        with statements_are_sparks():
            rows = spark.sql(f"SHOW TABLE EXTENDED{where} LIKE {literal(table)}").collect()
    except PySparkException:  # there is no such schema
        return {}
    tables = [row for row in rows if str(row["tableName"]).lower() == table.lower()]
    if len(tables) != 1 or tables[0]["isTemporary"]:  # a temporary view hides a table
        return {}
    return dict(_FACT.findall(str(tables[0]["information"])))


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SUFFIX = "_table"
"""Suffix of the catalog table behind a view."""
MANAGED = "hudi-py.managed"
"""View property that says that dropping the view deletes the files. Spark does not keep properties of the table behind
it."""
_SPARKS_OWN = frozenset({"transient_lastDdlTime"})
_PATH = re.compile(r"WITH \(`path` = '((?:[^'\\]|\\.)*)'")


def register_sql(
    spark: SparkSession,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    temporary: bool = False,
) -> None:
    """Registers the table functions with the session and, with a name and path, a table with the catalog.

    Always: `hudi_query`, `hudi_table_changes`, `hudi_query_timeline`, `hudi_filesystem_view` and `hudi_metadata` become
    temporary functions of this session.

    With `name` and `path`: the catalog gets the view `name`, to select from, and the table `<name>_table` behind it, to
    insert into with ``INSERT INTO <name>_table WITH (path = '...', ...)``. Both remain for later sessions and show the
    table's state at the start of each query. Spark stores their columns, so call this function again when the table's
    columns have changed; it then re-creates both, as it does if the path or options differ. Creating and dropping them
    does not change the table's files.

    With `temporary`: the session gets the temporary view `name` instead, from which you can select and into which you
    can insert. It shows the state of the table at its first use until it is re-created. In a session for which `enable`
    was called it shows the state at this call, and is for selecting only.

    Args:
        name: one name, or `schema.name`.
        path: the table's base path, absolute or a URI.
        options: options for reading, and for writing through a temporary view.

    Raises:
        ConfigError: only one of `name` and `path` is given, the name is in use, or options contain credentials, which
            everyone could read in the catalog.
    """
    path = None if path is None else os.fspath(path)
    for function, handler in FUNCTIONS.items():
        if not spark.catalog.functionExists(function):
            spark.udtf.register(function, cast(UserDefinedTableFunction, udtf(handler, useArrow=False)))
    if name is None and path is None:
        return
    if name is None or path is None:
        raise ConfigError(f"Cannot register a table with name={name!r} and path={path!r}: give both, or neither")
    given = {"path": checked_path(path, "read"), **(options or {})}
    if temporary and is_enabled(spark):
        _view_name(name)  # check it before Spark does
        where, asked = given["path"], options or {}
        read_or(spark, where, asked, lambda: read_plain(spark, where, asked)).createOrReplaceTempView(name)
        return
    if temporary:
        listed = ", ".join(f"{backticked(key)} {literal(str(value))}" for key, value in given.items())
        _sql(spark, f"CREATE OR REPLACE TEMPORARY VIEW {_view_name(name)} USING `{FORMAT}` OPTIONS ({listed})")
        return
    secrets = [key for key in given if key.lower().startswith(STORAGE_PREFIX)]
    if secrets:
        raise ConfigError(
            f"Cannot register {name} with the option {secrets[0]}: the catalog would show it to everyone; use a "
            "temporary view, or set the storage's credentials in the workers' environment"
        )
    text = _make_pair(spark, name, given)
    note_table(spark, qualified(spark, name), SqlTable(text, given["path"], options or {}))


def qualified(spark: SparkSession, name: str) -> str:
    """Returns the name of a table with its schema, in lower case."""
    plain = name.lower().removeprefix("spark_catalog.")
    return plain if "." in plain else f"{spark.catalog.currentDatabase()}.{plain}".lower()


def registered(spark: SparkSession) -> Mapping[str, str]:
    """Returns the paths of the tables that this session has registered, by qualified name."""
    return {name: table.path for name, table in noted_tables(spark).items()}


def noted(spark: SparkSession, name: str) -> SqlTable | None:
    """Returns the table that this session has registered under a name."""
    return noted_tables(spark).get(qualified(spark, name))


def path_of_view(spark: SparkSession, name: str) -> str | None:
    """Returns the path of a table that any session has registered; None if the name means something else, or
    nothing."""
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        return None
    behind = rf"FROM (?:`\w+`\.)?`{name.rpartition('.')[2]}{SUFFIX}` WITH \("
    text = _text_of(spark, name)
    match = None if text is None or not re.search(behind, text, re.IGNORECASE) else _PATH.search(text)
    return None if match is None else re.sub(r"\\(.)", r"\1", match.group(1))


def tables_behind(spark: SparkSession, listed: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns the tables, given as schema and name, that only serve a view that `register_sql` made."""
    names = set()
    for schema, table in listed:
        name = table[: -len(SUFFIX)]
        if table.lower().endswith(SUFFIX) and path_of_view(spark, f"{schema}.{name}" if schema else name) is not None:
            names.add((schema, table))
    return names


def is_managed(spark: SparkSession, name: str) -> bool:
    """Returns whether dropping a registered table deletes its files, too."""
    rows = _sql(spark, f"SHOW TBLPROPERTIES {_view_name(name)}").collect()
    return any(row["key"] == MANAGED for row in rows)


def set_managed(spark: SparkSession, name: str) -> None:
    """Marks a registered table so that its files are deleted with it."""
    set_properties(spark, name, {MANAGED: "true"})


def set_properties(spark: SparkSession, name: str, properties: Mapping[str, str]) -> None:
    """Sets properties that the catalog keeps with a registered table."""
    if properties:
        listed = ", ".join(f"{literal(key)} = {literal(str(value))}" for key, value in properties.items())
        _sql(spark, f"ALTER VIEW {_view_name(name)} SET TBLPROPERTIES ({listed})")


def unset_properties(spark: SparkSession, name: str, keys: Iterable[str]) -> None:
    """Removes properties; missing ones are ignored."""
    listed = ", ".join(map(literal, keys))
    _sql(spark, f"ALTER VIEW {_view_name(name)} UNSET TBLPROPERTIES IF EXISTS ({listed})")


def refresh(spark: SparkSession, name: str, path: str) -> None:
    """Registers a table again after its columns have changed; its properties stay."""
    _register_with(spark, name, path, properties_of(spark, name))


def check_new(spark: SparkSession, name: str, new: str) -> None:
    """Raises ConfigError if the name `new` for a registered table is in use."""
    if any(spark.catalog.tableExists(name) for name in (new, new + SUFFIX)):
        raise ConfigError(f"Cannot rename the table {name} to {new}: there is a table or view with this name")


def rename(spark: SparkSession, name: str, new: str, path: str) -> None:
    """Renames a registered table to a name that `check_new` has checked. `path` is the new path of its files."""
    _register_with(spark, new, path, properties_of(spark, name))
    unregister(spark, name)


def _register_with(spark: SparkSession, name: str, path: str, properties: Mapping[str, str]) -> None:
    known = noted(spark, name)
    register_sql(spark, name, path, options=None if known is None else known.options)
    set_properties(spark, name, properties)


def properties_of(spark: SparkSession, name: str) -> dict[str, str]:
    """Returns the properties that the catalog keeps with a registered table."""
    rows = _sql(spark, f"SHOW TBLPROPERTIES {_view_name(name)}").collect()
    properties = {row["key"]: row["value"] for row in rows}
    return {key: value for key, value in properties.items() if not key.startswith("view.") and key not in _SPARKS_OWN}


def forget(spark: SparkSession, name: str) -> None:
    """Forgets a table that is no longer in the catalog."""
    forget_table(spark, qualified(spark, name))


def unregister(spark: SparkSession, name: str) -> None:
    """Removes a table from the catalog. Its files stay."""
    _sql(spark, f"DROP VIEW IF EXISTS {_view_name(name)}")
    _sql(spark, f"DROP TABLE IF EXISTS {_view_name(name + SUFFIX)}")
    forget(spark, name)


def is_from(spark: SparkSession, name: str, table: SqlTable) -> bool:
    """Returns whether the name still refers to the view that `register_sql` made."""
    return _text_of(spark, name) == table.text


def _make_pair(spark: SparkSession, name: str, given: Mapping[str, str]) -> str:
    """Creates view and table, and returns the text of the view."""
    view, table = _view_name(name), _view_name(name + SUFFIX)
    listed = ", ".join(f"{backticked(key)} = {literal(str(value))}" for key, value in given.items())
    query = f"SELECT * FROM {table} WITH ({listed})"
    schema = spark.read.format(FORMAT).options(**{**given, read_config.NATIVE.key: "never"}).load().schema
    text = _text_of(spark, name)
    has_table = spark.catalog.tableExists(name + SUFFIX)
    ours = text is not None and f"FROM {table} WITH (" in text
    if text is not None and not ours:
        raise ConfigError(f"Cannot register {name}: a table or view with this name exists; choose another name")
    if has_table and not ours:
        raise ConfigError(
            f"Cannot register {name}: a table {name}{SUFFIX} exists, without a view {name} over it; drop it, or choose "
            "another name"
        )
    if has_table and text == query and spark.table(name + SUFFIX).schema == schema:
        return query
    if ours:
        _sql(spark, f"DROP VIEW {view}")
    if has_table:
        _sql(spark, f"DROP TABLE {table}")
    columns = ", ".join(f"{backticked(field.name)} {sql_type(field.dataType)}" for field in schema)
    # a table with a path is external, so dropping it deletes no files
    _sql(spark, f"CREATE TABLE {table} ({columns}) USING `{FORMAT}` LOCATION {literal(given['path'])}")
    _sql(spark, f"CREATE VIEW {view} AS {query}")
    return query


def _text_of(spark: SparkSession, name: str) -> str | None:
    """Returns the query of a persistent view, empty for anything else with this name; None if nothing has it."""
    if not spark.catalog.tableExists(name):
        return None
    rows = _sql(spark, f"DESCRIBE TABLE EXTENDED {_view_name(name)}").collect()
    return next((str(row["data_type"]) for row in rows if row["col_name"] == "View Text"), "")


def _sql(spark: SparkSession, text: str) -> DataFrame:
    """Runs a statement about a part of a registered table."""
    with statements_are_sparks():
        return spark.sql(text)


def _view_name(name: str) -> str:
    parts = name.split(".")
    if not all(_NAME.fullmatch(part) for part in parts):
        raise ConfigError(
            f"'{name}' is not a valid table name: expected letters, digits and underscores, or schema.name"
        )
    return ".".join(f"`{part}`" for part in parts)


def sql_type(kind: DataType) -> str:
    """Formats a type in SQL's notation."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{backticked(field.name)}: {sql_type(field.dataType)}' for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return str(kind.simpleString())
