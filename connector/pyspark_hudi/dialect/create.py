"""CREATE TABLE."""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from hudi_py.config import read as read_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, TableExistsError, TableNotFoundError
from hudi_py.schema import META_FIELDS, backticked
from pyspark_hudi import calls, catalog
from pyspark_hudi.dialect.columns import columns_of
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.insert import query_operation
from pyspark_hudi.dialect.queries import or_reading, run_query
from pyspark_hudi.dialect.tables import NEEDLESS, PREFIXES, StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor, properties
from pyspark_hudi.failure import raised_here
from pyspark_hudi.paths import checked_path
from pyspark_hudi.remote import remote
from pyspark_hudi.table import FORMAT
from pyspark_hudi.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = {
    "primarykey": table_config.RECORD_KEY.key,
    "type": table_config.TABLE_TYPE.key,
    "precombinefield": table_config.ORDERING.key,
    "orderingfields": table_config.ORDERING.key,
    "payloadclass": table_config.PAYLOAD_CLASS.key,
    "recordmergemode": table_config.MERGE_MODE.key,
    "recordmergestrategyid": table_config.MERGE_STRATEGY_ID.key,
}
"""Table properties of Apache Hudi's SQL (`HoodieOptionConfig`, 1.2.0)."""
_SHOWN_KEYS = {
    key.lower(): key
    for key in (
        *("primaryKey", "type", "preCombineField", "orderingFields"),
        *("payloadClass", "recordMergeMode", "recordMergeStrategyId"),
    )
}
"""Their usual spelling."""
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
OF_CREATION = frozenset(name for option in table_config.OPTIONS for name in (option.key, *option.aliases))
"""Options of `CREATE TABLE` that define a table."""
_OF_ONE_TABLE = (table_config.TABLE_NAME, table_config.DATABASE_NAME, table_config.TABLE_VERSION)
"""Options that tables do not share."""
_UNHEEDED = frozenset({"hoodie.table.name", "hoodie.database.name", write_config.OPERATION.key})
_READ_OPTIMIZED = "hoodie.query.as.ro.table"
"""The property that makes Apache Hudi read a table without its logs."""
_RESERVED = frozenset({"provider", "location", "owner", "external", catalog.MANAGED})
"""Properties that Spark's catalog, or ours, reserves."""
_DEFAULTS = {table_config.HIVE_STYLE.key: "true", table_config.URL_ENCODE.key: "false"}
"""Properties of tables that SQL creates (`HoodieCatalogTable`, 1.2.0)."""


@dataclass(slots=True)
class Definition:
    """A parsed CREATE TABLE."""

    names: tuple[str, ...]
    if_not_exists: bool = False
    like: tuple[str, ...] = ()
    """The table whose definition this one copies."""
    columns: str | None = None
    schema: StructType | None = None
    """The columns, if they are not given as text."""
    partitions: list[str] = field(default_factory=list)
    partition_columns: list[str] = field(default_factory=list)
    """Definitions of partition columns that are not among the columns."""
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    rows: Callable[[], DataFrame] | None = None
    """Returns the first rows, such as those of a query."""


def create(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs CREATE TABLE ... USING hudi-py or hudi, also LIKE another table. Returns None for another provider."""
    cursor.need("CREATE")
    replace = cursor.take("OR", "REPLACE")
    if not cursor.take("TABLE"):
        return None
    definition = Definition((), cursor.take("IF", "NOT", "EXISTS"))
    definition.names = cursor.names()
    if cursor.take("LIKE"):
        definition.like = cursor.names()
    elif cursor.sees("("):
        definition.columns = cursor.group().source
    if not _is_ours(definition, cursor):
        return None
    if replace:
        raise cursor.refused("OR REPLACE is not supported; use DROP TABLE first, or INSERT OVERWRITE")
    if definition.names[0].lower() in PREFIXES and len(definition.names) == 2:
        raise cursor.refused("give the table a name, and the path as LOCATION")
    _clauses(tables, definition, cursor)
    create_table(tables, definition)
    return tables.nothing()


def _is_ours(definition: Definition, cursor: Cursor) -> bool:
    """Returns whether the provider is hudi-py or hudi. It comes first, except with LIKE, whose clauses may be in any
    order."""
    start = cursor.at
    if definition.like:
        cursor.until("USING")
    if not cursor.take("USING") or cursor.name().lower() not in PREFIXES:
        return False
    if definition.like:
        cursor.at = start
    return True


def _clauses(tables: Tables, definition: Definition, cursor: Cursor) -> None:
    while (token := cursor.token) is not None:
        if cursor.take("OPTIONS") or cursor.take("TBLPROPERTIES"):
            definition.properties.update(properties(cursor.group()))
        elif cursor.take("PARTITIONED", "BY"):
            for part in cursor.group().parts():
                whole = part.source
                definition.partitions.append(part.name())
                if part.token is not None:
                    definition.partition_columns.append(whole)
        elif cursor.take("LOCATION"):
            definition.location = cursor.constant()
        elif definition.like and cursor.take("USING"):
            cursor.name()
        elif cursor.take("COMMENT"):
            cursor.constant()  # Spark's catalog would show it
        elif not definition.like and (cursor.take("AS") or token.is_word("SELECT", "WITH", "(")):
            definition.rows = functools.partial(run_query, tables, cursor.rest())
        else:
            raise cursor.refused(
                "supported: OPTIONS, TBLPROPERTIES, PARTITIONED BY (columns), LOCATION, COMMENT and AS"
            )


def create_table(tables: Tables, definition: Definition) -> None:
    """Creates a table, with its first rows if there are any, and registers its name in the catalog.

    Raises:
        TableExistsError: there is a table with this name, or at the location of the new rows.
        HudiError: as the write that makes the table.
    """
    spark, name = tables.spark, ".".join(definition.names)
    if tables.find(definition.names) is not None or spark.catalog.tableExists(name):
        if definition.if_not_exists:
            return
        raise TableExistsError(f"Cannot create the table {name}: it already exists; choose another name, or drop it")
    _drop_unheeded(definition)
    location = definition.location
    path = default_path(tables, definition.names) if location is None else checked_path(location, "write")
    target = StatementTarget(tables, definition.names, path)
    schema = _like(tables, definition) if definition.like else _columns_of(spark, definition)
    read = _read_options(target, definition)
    options = _options(tables, definition)
    if definition.rows is not None:
        _write_first(target, definition, definition.rows, options)
    elif schema is None and definition.partitions:
        raise ConfigError(
            f"Cannot create the table {name} PARTITIONED BY without columns: like these, partitions are those of the "
            f"table at {path}; leave the clause out, or give columns"
        )
    elif target.exists():
        _check_same(target, schema, options)
    elif schema is None:
        raise TableNotFoundError(
            f"Cannot create the table {name} without columns: there is no table at {path}; give columns, or the "
            "location of a table"
        )
    else:
        columns = _with_last(schema, definition.partitions)
        remote(spark, calls.create_table, path, options, arrow_schema(columns))
    catalog.register_sql(spark, name, path, options=read)
    catalog.set_properties(spark, name, _kept(definition))
    if location is None:
        catalog.set_managed(spark, name)


def _write_first(
    target: StatementTarget, definition: Definition, rows: Callable[[], DataFrame], options: Mapping[str, str]
) -> None:
    """Creates a table with its first rows. Raises TableExistsError if its location has one."""
    if target.exists():
        raise TableExistsError(
            f"Cannot create the table {target.shown} AS a query: there is a table at {target.path} already; insert the "
            "rows into it, or choose another LOCATION"
        )
    frame = rows()
    last = definition.partitions
    others = {*META_FIELDS, *(column.lower() for column in last)}
    first = [column for column in frame.columns if column.lower() not in others]
    frame = frame.select(*(backticked(column) for column in [*first, *last]))
    operation = query_operation(target.tables.configured)
    with raised_here():
        writer = frame.write.format(FORMAT).option(write_config.OPERATION.key, operation).options(**options)
        writer.mode("append").save(target.path)


def _with_last(schema: StructType, partitions: Sequence[str]) -> StructType:
    """Returns the columns of a new table, with partition columns last."""
    last = [partition.lower() for partition in partitions]
    first = [field for field in schema if field.name.lower() not in last]
    return StructType([*first, *(field for name in last for field in schema if field.name.lower() == name)])


def _drop_unheeded(definition: Definition) -> None:
    """Removes what CREATE TABLE of Apache Hudi ignores (`HoodieCatalogTable.needFilterProps`, 1.2.0)."""
    for key in _UNHEEDED & definition.properties.keys():
        warnings.warn(
            f"The property {key} = '{definition.properties.pop(key)}' of the table {'.'.join(definition.names)} has no "
            "effect, as in Apache Hudi: CREATE TABLE names the table, and each statement its operation",
            stacklevel=2,
        )


def _read_options(target: StatementTarget, definition: Definition) -> dict[str, str]:
    """Returns the read options of an entry that is one of two for a merge-on-read table (`CreateHoodieTableCommand`,
    1.2.0)."""
    given = definition.properties.pop(_READ_OPTIMIZED, None)
    if given is None:
        return {}
    if definition.rows is not None or not target.exists() or not target.config.is_mor:
        raise ConfigError(
            f"Cannot create the table {target.shown} with {_READ_OPTIMIZED}: it is for a second name of a "
            f"merge-on-read table; there must be one at {target.path}, and the statement must have no AS"
        )
    return {read_config.QUERY_TYPE.key: "read_optimized" if given.lower() == "true" else "snapshot"}


def _columns_of(spark: SparkSession, definition: Definition) -> StructType | None:
    if definition.columns is None:
        return definition.schema
    return columns_of(spark, ", ".join([definition.columns, *definition.partition_columns]))


def _like(tables: Tables, definition: Definition) -> StructType:
    """Returns the columns of the LIKE table. Properties from a Hudi table's creation, and its write options in the
    catalog, become properties of the definition unless it sets them (`CreateHoodieTableLikeCommand`, 1.2.0)."""
    source = tables.find(definition.like)
    if source is None:
        name = ".".join(map(backticked, definition.like))
        with raised_here():
            columns = tables.spark.catalog.listColumns(name)
            schema = tables.spark.table(name).schema
        definition.partitions = [column.name for column in columns if column.isPartition]
        return StructType([field for field in schema if field.name not in META_FIELDS])
    given = _given_at_creation(source)
    named = {_KEYS.get(key.lower(), key) for key in definition.properties}
    kept = {} if source.is_path or source.of_catalog else catalog.properties_of(tables.spark, source.name)
    kept = {key: value for key, value in kept.items() if key.startswith("hoodie.")}
    inherited = {key: value for key, value in {**kept, **given}.items() if key not in named}
    definition.properties = {**inherited, **definition.properties}
    definition.partitions = list(source.config.partition_fields)
    return source.schema


def _given_at_creation(source: StatementTarget) -> dict[str, str]:
    """Returns the options that create a table like this one."""
    config = source.config
    given: dict[str, str] = {}
    for option in table_config.OPTIONS:
        stored = next((config.properties[key] for key in option.keys if config.properties.get(key)), None)
        if stored is not None and option not in _OF_ONE_TABLE:
            given[option.key] = stored
    keygen = config.keygen_type or config.keygen_class.rpartition(".")[2].upper()
    if not keygen.startswith(("TIMESTAMP", "CUSTOM")):  # the columns decide, and may differ
        for option in (table_config.KEYGEN_CLASS, table_config.KEYGEN_TYPE, table_config.PARTITION_PATH):
            given.pop(option.key, None)
    return given


def _options(tables: Tables, definition: Definition) -> dict[str, str]:
    """Returns the options of the write that creates the table."""
    given = {**_DEFAULTS, **tables.options()}
    for key, value in definition.properties.items():
        if key == NEEDLESS:
            continue
        known = _KEYS.get(key.lower())
        if known is None and not key.startswith("hoodie."):
            _check_plain(definition, key)
            continue
        given[known or key] = TYPES.get(value.lower(), value) if key.lower() == "type" else value
    if given.get(table_config.SLASHED_DATES.key, "").lower() == "true":
        hive_style = table_config.HIVE_STYLE.key
        if hive_style not in definition.properties and hive_style not in tables.options():
            del given[hive_style]  # the two exclude each other
    if definition.partitions and not (definition.like and table_config.PARTITION_PATH.key in given):
        given[table_config.PARTITION_PATH.key] = ",".join(definition.partitions)
    *database, name = definition.names
    given.setdefault(table_config.TABLE_NAME.key, name)
    schema = database[-1] if database else tables.spark.catalog.currentDatabase()
    given.setdefault(table_config.DATABASE_NAME.key, schema)
    return given


def _check_plain(definition: Definition, key: str) -> None:
    """Checks a property that is no option: the catalog keeps it, and it has no effect."""
    name = ".".join(definition.names)
    if key.lower() in _RESERVED:
        raise ConfigError(
            f"Cannot create the table {name} with the property '{key}': the catalog keeps it for itself; leave it out"
        )
    near = difflib.get_close_matches(key.lower(), _KEYS, 1, 0.7)
    if near:
        warnings.warn(
            f"The property '{key}' of the table {name} has no effect, the catalog only keeps it; did you mean "
            f"{_SHOWN_KEYS[near[0]]}?",
            stacklevel=2,
        )


def _kept(definition: Definition) -> dict[str, str]:
    """Returns the properties that are options of later writes, and not fixed at creation."""
    return {key: value for key, value in definition.properties.items() if not is_of_creation(key)}


def is_of_creation(key: str) -> bool:
    """Returns whether a property or option defines a table, rather than how it is written."""
    return key in OF_CREATION or key.lower() in _KEYS


def _check_same(target: StatementTarget, schema: StructType | None, options: Mapping[str, str]) -> None:
    """Refuses columns or keys that an existing table does not have."""
    config = target.config
    if schema is not None:
        given = {field.name.lower() for field in schema}
        own = {field.name.lower() for field in target.schema}
        if given != own:
            raise ConfigError(
                f"Cannot create the table {target.shown} over the one at {target.path}: it has the columns "
                f"{', '.join(sorted(own))}, not {', '.join(sorted(given))}; leave the columns out"
            )
    asked = {
        table_config.RECORD_KEY.key: config.record_key_fields,
        table_config.PARTITION_PATH.key: config.partition_fields,
    }
    for key, names in asked.items():
        if key in options and [part.strip() for part in options[key].split(",")] != list(names):
            raise ConfigError(
                f"Cannot create the table {target.shown} over the one at {target.path}: {key} is '{options[key]}', but "
                f"that table has '{','.join(names)}'; leave it out"
            )


def default_path(tables: Tables, names: tuple[str, ...]) -> str:
    """Returns where Spark would put a table of its own."""
    *database, name = names
    spark = tables.spark
    owner = spark.catalog.getDatabase(database[-1] if database else spark.catalog.currentDatabase())
    return f"{str(owner.locationUri).rstrip('/')}/{name.lower()}"


STATEMENTS = (
    SqlStatement(
        ("CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE EXTERNAL TABLE"),
        or_reading(create),
        "`CREATE TABLE ... USING hudi-py` or `hudi`",
        (
            "`TBLPROPERTIES` or `OPTIONS`: `primaryKey` (without it, keys are generated), `orderingFields` or "
            "`preCombineField`, `type`, `payloadClass`, `recordMergeMode` and the keys of options, which later writes "
            "by statements heed too; other properties are kept and change nothing; `AS` a query; `LIKE` another table, "
            "of whichever format; without columns for the table at `LOCATION`. Without `LOCATION` the files lie in "
            "Spark's warehouse. Columns may be [`VECTOR(n)`, `VARIANT` and `BLOB`](schema.md#vector-variant-and-blob)"
        ),
    ),
)
