"""Loads in an enabled session on golden tables: the schema of a plain load, rows as Apache Hudi shows them, and
generated queries that Catalyst pushes down."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hudi_py.testing.rows import assert_rows_equal
from pyspark_hudi import disable, enable
from tests.connector.conftest import CONNECT
from tests.connector.tables import read
from tests.connector.test_golden import options, queries
from tests.golden.expectations import corrected, refusal
from tests.golden.tables import Expected, Extracted
from tests.support.choice import SEED, covering

pytestmark = pytest.mark.spark

ALWAYS = {"hoodie.py.read.native": "always"}
"""Else Python alone reads small slices with logs."""
GENERATED = 3
"""Queries generated for each of the golden set."""
_SWITCHES = ("spark.sql.adaptive.enabled", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


def parameters() -> list[Any]:
    found = [query for query in queries() if not query.error and not refusal(query)]
    kinds = [(query.table.partition("_")[2], query.kind, query.table[:2]) for query in found]
    chosen = set(covering(kinds, "native plans", 2 if CONNECT else 5))
    return [
        pytest.param(query, id=query.id, marks=() if at in chosen else pytest.mark.long)
        for at, query in enumerate(found)
    ]


@contextmanager
def switched(spark: SparkSession, chance: random.Random) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in _SWITCHES}
    for key in _SWITCHES:
        spark.conf.set(key, chance.choice(("true", "false")))
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"DOUBLE('{value!r}')"
    if isinstance(value, str) and "'" not in value and "\\" not in value:
        return f"'{value}'"
    return None


def condition(chance: random.Random, rows: pa.Table) -> str:
    """A condition on one or two columns, with values that occur in them."""
    parts = []
    for name in chance.sample(rows.column_names, min(2, rows.num_columns)):
        found = [literal(value) for value in rows[name].slice(0, 50).to_pylist()]
        values = [value for value in found if value is not None]
        tests = [f"{quoted(name)} IS NOT NULL", f"{quoted(name)} IS NULL"]
        if values:
            value = chance.choice(values)
            tests = [f"{quoted(name)} {operator} {value}" for operator in ("=", "<>", "<", ">=", "<=>")]
            tests.append(f"{quoted(name)} IN ({', '.join(chance.sample(values, min(3, len(values))))})")
            tests.append(f"coalesce(CAST({quoted(name)} AS STRING), '') > 'a'")  # is not pushed down
        parts.append(chance.choice(tests))
    return chance.choice((" AND ", " OR ")).join(parts)


@pytest.mark.filterwarnings("ignore:Rows are missing or old")  # the driver counts
@pytest.mark.parametrize("query", parameters())
def test_rows_of_queries(
    spark: SparkSession, golden: Extracted, query: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    path = str(golden(query.table))
    chance = random.Random(f"{SEED} {query.id}")
    plain = read(spark, path, **options(query))
    enable(spark)
    try:
        frame = read(spark, path, **options(query), **ALWAYS)
    finally:
        disable(spark)
    assert frame.schema == plain.schema
    expected = corrected(query)
    assert_rows_equal(frame.toArrow(), expected)
    assert frame.count() == expected.num_rows
    plain = plain.cache()
    try:
        for _ in range(GENERATED):
            asked, names = condition(chance, expected), chance.sample(frame.columns, chance.randint(1, 3))
            chosen = [quoted(name) for name in names]
            with switched(spark, chance):
                found = frame.where(asked).select(*chosen).toArrow()
                wanted = plain.where(asked).select(*chosen).toArrow()
                counted = frame.where(asked).count()
            assert_rows_equal(found, wanted)
            assert counted == wanted.num_rows, asked
    finally:
        plain.unpersist()
