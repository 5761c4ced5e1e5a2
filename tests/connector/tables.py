"""What the tests of the data source share: options, rows, and a table read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

FORMAT = "hudi-py"
KEYED = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
PARTITIONED = {**KEYED, "hoodie.datasource.write.partitionpath.field": "p", "hoodie.table.ordering.fields": "ts"}


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format(FORMAT).options(**options).load(path)


def save(
    frame: DataFrame, path: str, options: Mapping[str, str], operation: str | None = None, mode: str = "append"
) -> None:
    more = {} if operation is None else {"hoodie.datasource.write.operation": operation}
    frame.write.format(FORMAT).options(**options, **more).mode(mode).save(path)


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as tuples, sorted; all columns but the meta columns where none are named."""
    names = columns or tuple(name for name in frame.columns if not name.startswith("_hoodie_"))
    return sorted((tuple(row) for row in frame.select(*names).collect()), key=repr)
