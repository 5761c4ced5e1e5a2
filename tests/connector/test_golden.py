"""Spark reads every golden table as Apache Hudi does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_py.testing.rows import assert_rows_equal
from tests.connector.conftest import CONNECT
from tests.connector.tables import read
from tests.golden.expectations import INCREMENTAL, TIME_TRAVEL, asked, corrected, options_of, refusal
from tests.golden.tables import Expected, Extracted
from tests.support.choice import covering

pytestmark = pytest.mark.spark

# What does not depend on the kind of session is asked once, of the classic one.
MARKS = {True: pytest.mark.slow, False: pytest.mark.long}
SAMPLE = ("v6_mor_ops", "v8_cow_event_time", "v9_cow_all_types", "v9_mor_event_time")


def queries() -> list[Expected]:
    """Every snapshot and read-optimized query, one time travel and one range of each table: the core asks all."""
    several = (TIME_TRAVEL, INCREMENTAL)
    first = {(query.table, query.kind): query.id for query in reversed(asked()) if not query.error}
    chosen = [
        query
        for query in asked()
        if query.kind not in several or query.error or first[query.table, query.kind] == query.id
    ]
    return [query for query in chosen if not CONNECT or query.table in SAMPLE]


def parameters() -> list[Any]:
    """`make test` asks something of some tables, CI of more, the long run all: the core asks all always."""
    found = queries()
    if CONNECT:
        return [pytest.param(query, id=query.id) for query in found]
    rows = [(query.table, query.kind) for query in found]
    quick = set(covering(rows, "golden tables through Spark", 24))
    quick |= {at for at, query in enumerate(found) if query.table in SAMPLE}
    others = [at for at in range(len(found)) if at not in quick]
    slow = {others[at] for at in covering([rows[at] for at in others], "more of them", 8)}
    return [
        pytest.param(query, id=query.id, marks=() if at in quick else MARKS[at in slow])
        for at, query in enumerate(found)
    ]


def options(query: Expected) -> dict[str, str]:
    if query.as_of:
        return {"as.of.instant": query.as_of, **options_of(query)}
    bounds = {"begin": query.begin, "end": query.end}
    ranges = {f"hoodie.datasource.read.{name}.instanttime": time for name, time in bounds.items() if time is not None}
    return {"hoodie.datasource.query.type": query.kind, **ranges, **options_of(query)}


@pytest.mark.parametrize("query", parameters())
def test_rows_are_those_of_apache_hudi(spark: SparkSession, golden: Extracted, query: Expected) -> None:
    path = str(golden(query.table))
    error = ("HistoryCleanedError" if query.as_of else "UnsupportedTableError") if query.error else None
    refused = "UnsupportedTableError" if refusal(query) else error
    if refused:
        with pytest.raises(PySparkException, match=refused):
            read(spark, path, **options(query)).collect()
        return
    expected = corrected(query)
    actual = read(spark, path, **options(query)).toArrow()
    assert_rows_equal(actual, expected)
    assert actual.column_names == expected.column_names
