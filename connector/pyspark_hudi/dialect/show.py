"""SHOW PARTITIONS, SHOW TABLES, SHOW CREATE TABLE and SHOW TABLE EXTENDED."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from hudi_py.errors import ConfigError
from hudi_py.expressions import literal
from hudi_py.schema import backticked
from pyspark_hudi import catalog
from pyspark_hudi.dialect.columns import column_type
from pyspark_hudi.dialect.create import TYPES
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.insert import partition_spec
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor
from pyspark_hudi.failure import raised_here
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def show_partitions(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs SHOW PARTITIONS t [PARTITION (...)]: the paths in the column `partition`, slash-separated dates as values.
    Partitions without rows are listed before the first commit (`ShowHoodieTablePartitionsCommand`, 1.2.0). Returns None
    if it is not a Hudi table."""
    cursor.need("SHOW", "PARTITIONS")
    target = tables.find(cursor.names())
    if target is None:
        return None
    spec = partition_spec(cursor) if cursor.sees("PARTITION") else {}
    cursor.finish()
    listed = [row for row in target.view("partitions") if row["partition"]]
    empty = any(row["num_slices"] == 0 for row in listed) and not target.view("commits")
    partitions = sorted(row["partition"] for row in listed if empty or row["num_slices"] > 0)
    if target.config.slashed_dates:
        (column,) = target.config.partition_fields
        partitions = [f"{column}={item.replace('/', '-')}" for item in partitions]
    if spec:
        prefix_of = {target.field(name).name: value for name, value in spec.items()}
        partitions = [item for item in partitions if _has_values(target, item, prefix_of)]
    schema = StructType([StructField("partition", StringType(), nullable=False)])
    return tables.spark.createDataFrame([(item,) for item in partitions], schema)


def show_tables(tables: Tables, cursor: Cursor) -> DataFrame:
    """Runs SHOW TABLES [IN schema] [LIKE pattern] as Spark does, listing each table of `register_sql` once."""
    with raised_here():
        listed = tables.spark.sql(cursor.text)
    behind = catalog.tables_behind(tables.spark, [(row[0], row[1]) for row in listed.collect() if not row[2]])
    for schema, table in behind:
        schema_column, table_column, temporary = map(backticked, listed.columns)
        is_it = f"{schema_column} = {literal(schema)} AND {table_column} = {literal(table)} AND NOT {temporary}"
        listed = listed.where(f"NOT ({is_it})")
    return listed


def show_create_table(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs SHOW CREATE TABLE t: returns the statement that registers the table, or creates one like it. Returns None
    for other tables, and for those of the session's catalog, which Spark knows."""
    cursor.need("SHOW", "CREATE", "TABLE")
    target = tables.find(cursor.names())
    if target is None or target.of_catalog:
        return None
    cursor.take("AS", "SERDE")
    cursor.finish()
    config = target.config
    columns = [
        f"  {backticked(item.name)} {column_type(item)}{'' if item.nullable else ' NOT NULL'}" for item in target.schema
    ]
    given = {
        "type": {long: short for short, long in TYPES.items()}[config.table_type],
        "primaryKey": ",".join(config.record_key_fields),
        "orderingFields": ",".join(config.ordering_fields),
        **({} if target.is_path else catalog.properties_of(tables.spark, target.name)),
    }
    listed = [
        f"  {literal(key)} = {literal(value)}" for key, value in given.items() if value and key != catalog.MANAGED
    ]
    name = config.name if target.is_path else target.name
    partitions = ", ".join(map(backticked, config.partition_fields))
    text = "\n".join(
        [
            f"CREATE TABLE {'.'.join(map(backticked, name.split('.')))} (",
            ",\n".join(columns) + ")",
            f"USING {backticked(FORMAT)}",
            *([f"PARTITIONED BY ({partitions})"] if partitions else []),
            f"LOCATION {literal(target.path)}",
            "TBLPROPERTIES (",
            ",\n".join(listed) + ")",
        ]
    )
    return tables.spark.createDataFrame([(text,)], StructType([StructField("createtab_stmt", StringType(), False)]))


def show_table_extended(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs SHOW TABLE EXTENDED [IN schema] LIKE pattern as Spark does, listing each table of `register_sql` once, as a
    table rather than as its view. Returns None with PARTITION, which Spark runs."""
    if any(token.is_word("PARTITION") for token in cursor.tokens):
        return None
    spark = tables.spark
    with raised_here():
        listed = spark.sql(cursor.text)

    def is_registered(schema: str, name: str) -> bool:
        return catalog.path_of_view(spark, f"{schema}.{name}") is not None

    shown = []
    for schema, name, temporary, information in listed.collect():
        table, plain = f"{name}{catalog.SUFFIX}", name.removesuffix(catalog.SUFFIX)
        if not temporary and name != plain and is_registered(schema, plain):
            continue
        if not temporary and "Type: VIEW" in information and is_registered(schema, name):
            behind = spark.sql(f"SHOW TABLE EXTENDED IN {backticked(schema)} LIKE {literal(table)}").collect()
            details = (row["information"] for row in behind if row["tableName"] == table)
            information = next(details, information).replace(f"Table: {table}\n", f"Table: {name}\n", 1)
        shown.append((schema, name, temporary, information))
    return spark.createDataFrame(shown, listed.schema)


def _has_values(target: StatementTarget, path: str, values: Mapping[str, str | None]) -> bool:
    """Returns whether the first partition columns of a partition have these values."""
    fields = target.config.partition_fields
    segments = path.split("/")
    for name, value in values.items():
        index = fields.index(name) if name in fields else -1
        if index < 0 or index >= len(segments) or len(segments) != len(fields):
            raise ConfigError(
                f"Cannot select partitions of {target.shown} by '{name}': its partition columns are "
                f"{', '.join(fields) or 'none'}, and the path is {path}; select from SHOW PARTITIONS {target.shown}"
            )
        bare = (value or "").strip("'\"")
        if segments[index] not in (bare, f"{name}={bare}"):
            return False
    return True


STATEMENTS = (
    SqlStatement(
        ("SHOW PARTITIONS",),
        show_partitions,
        "`SHOW PARTITIONS`",
        "also with `PARTITION (...)`",
    ),
    SqlStatement(
        ("SHOW CREATE TABLE",),
        show_create_table,
        "`SHOW CREATE TABLE`",
        "the statement that registers the table, or makes one like it",
    ),
    SqlStatement(
        ("SHOW TABLES",),
        show_tables,
        "`SHOW TABLES`",
        "each Hudi table once, without the part `<name>_table` behind it",
    ),
    SqlStatement(
        ("SHOW TABLE EXTENDED",),
        show_table_extended,
        "`SHOW TABLE EXTENDED`",
        "as `SHOW TABLES`; with `PARTITION` it is Spark's",
    ),
)
