"""DROP TABLE, DROP VIEW, TRUNCATE TABLE and MSCK REPAIR TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_hudi import calls, catalog
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.insert import delete_partition, partition_spec
from pyspark_hudi.dialect.tables import Tables
from pyspark_hudi.dialect.text import Cursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs DROP TABLE; deletes the files with PURGE, or if CREATE TABLE chose the location (`DropHoodieTableCommand`,
    1.2.0)."""
    cursor.need("DROP", "TABLE")
    cursor.take("IF", "EXISTS")
    target = tables.find(cursor.names())
    if target is None or target.of_catalog:
        return None
    purge = cursor.take("PURGE")
    cursor.finish()
    if target.is_path:
        raise cursor.refused(
            "a table named by its path is not in the catalog; drop it by its name, or delete its files"
        )
    if purge or catalog.is_managed(tables.spark, target.name):
        target.call(calls.drop_files)
    catalog.unregister(tables.spark, target.name)
    return tables.nothing()


def drop_view(tables: Tables, cursor: Cursor) -> None:
    """Forgets a table whose view is dropped."""
    cursor.need("DROP", "VIEW")
    cursor.take("IF", "EXISTS")
    catalog.forget(tables.spark, ".".join(cursor.names()))


def repair(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs MSCK REPAIR TABLE t [...], which has nothing to do: the table knows its partitions. Returns None if it is
    not a Hudi table."""
    cursor.need("MSCK")
    cursor.need("REPAIR", "TABLE")
    return None if tables.find(cursor.names()) is None else tables.nothing()


def truncate(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs TRUNCATE TABLE t [PARTITION (...)]. Returns None if it is not a Hudi table."""
    cursor.need("TRUNCATE", "TABLE")
    target = tables.find(cursor.names())
    if target is None:
        return None
    spec = partition_spec(cursor) if cursor.sees("PARTITION") else None
    cursor.finish()
    if spec is None:
        target.write(tables.spark.createDataFrame([], target.schema), "insert_overwrite_table")
    else:
        delete_partition(target, spec)
    return tables.nothing()


STATEMENTS = (
    SqlStatement(
        ("DROP TABLE",),
        drop,
        "`DROP TABLE`",
        "deletes the files of a table without `LOCATION`, and of others with `PURGE`; refused during a write",
    ),
    SqlStatement(
        ("DROP VIEW",),
        drop_view,
    ),
    SqlStatement(
        ("TRUNCATE TABLE",),
        truncate,
        "`TRUNCATE TABLE`",
        "also with `PARTITION (...)`; old rows stay readable by time travel",
    ),
    SqlStatement(
        ("MSCK REPAIR TABLE",),
        repair,
        "`MSCK REPAIR TABLE`",
        "has nothing to do: a table knows its partitions",
    ),
)
