"""Spark reads every golden table as Apache Hudi does."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.connector.conftest import CONNECT
from tests.connector.tables import read
from tests.golden.compare import assert_rows_equal
from tests.golden.expectations import TIME_TRAVEL, asked, refusal
from tests.golden.tables import Expected, Extracted

pytestmark = pytest.mark.spark

# What does not depend on the kind of session is asked once, of the classic one.
SAMPLE = ("v6_mor_ops", "v8_cow_event_time", "v9_cow_all_types", "v9_mor_event_time")


def queries() -> list[Expected]:
    """Every snapshot and read-optimized query, and one time travel of each table: the core's tests ask for all."""
    first = {query.table: query.id for query in reversed(asked()) if query.kind == TIME_TRAVEL and not query.error}
    chosen = [query for query in asked() if query.kind != TIME_TRAVEL or query.error or first[query.table] == query.id]
    return [query for query in chosen if not CONNECT or query.table in SAMPLE]


def options(query: Expected) -> dict[str, str]:
    return {"as.of.instant": query.as_of} if query.as_of else {"hoodie.datasource.query.type": query.kind}


@pytest.mark.parametrize("query", [pytest.param(query, id=query.id) for query in queries()])
def test_rows_are_those_of_apache_hudi(spark: SparkSession, golden: Extracted, query: Expected) -> None:
    path = str(golden(query.table))
    refused = "UnsupportedTableError" if refusal(query) else "HistoryCleanedError" if query.error else None
    if refused:
        with pytest.raises(PySparkException, match=refused):
            read(spark, path, **options(query)).collect()
        return
    expected = query.rows()
    actual = read(spark, path, **options(query)).toArrow()
    assert_rows_equal(actual, expected)
    assert actual.column_names == expected.column_names
