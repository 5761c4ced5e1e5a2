"""Value expressions: results, types and refusals."""

from __future__ import annotations

import datetime
import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.assigned import parse_condition, parse_expression

ROWS = pa.record_batch(
    {
        "i": pa.array([7, -7, None], pa.int32()),
        "l": pa.array([2, 3, 4], pa.int64()),
        "f": pa.array([0.5, None, -1.5], pa.float64()),
        "d": pa.array([Decimal("1.25"), Decimal("-0.05"), None], pa.decimal128(5, 2)),
        "s": ["ab", None, " Ünï "],
        "n": ["12", "+3", " -4 "],
        "b": [True, False, None],
        "day": pa.array([datetime.date(2026, 1, 2), None, datetime.date(1969, 12, 31)]),
        "at": pa.array(
            [datetime.datetime(2026, 1, 2, 3), None, datetime.datetime(1969, 12, 31, 23)], pa.timestamp("us")
        ),
    }
)
Y2K = datetime.datetime(2000, 1, 1)


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("i + 1", [8, -6, None], pa.int32()),
        ("i % 4", [3, -3, None], pa.int32()),
        ("i DIV l", [3, -2, None], pa.int64()),
        ("i / l", [3.5, -7 / 3, None], pa.float64()),
        ("-i * l", [-14, 21, None], pa.int64()),
        ("d + 1", [Decimal("2.25"), Decimal("0.95"), None], pa.decimal128(6, 2)),
        ("d * l", [Decimal("2.50"), Decimal("-0.15"), None], pa.decimal128(26, 2)),
        ("f * 1.1", [0.5 * 1.1, None, -1.5 * 1.1], pa.float64()),
        ("coalesce(f, i, 0)", [0.5, -7.0, -1.5], pa.float64()),
        ("nvl(s, 'none')", ["ab", "none", " Ünï "], pa.string()),
        ("nullif(l, 3)", [2, None, 4], pa.int64()),
        ("greatest(i, l)", [7, 3, 4], pa.int64()),
        ("least(i, l)", [2, -7, 4], pa.int64()),
        ("upper(trim(s)) || '-'", ["AB-", None, "ÜNÏ-"], pa.string()),
        ("concat(lower(s), CAST(l AS STRING))", ["ab2", None, " ünï 4"], pa.string()),
        ("length(s)", [2, None, 5], pa.int32()),
        ("abs(i)", [7, 7, None], pa.int32()),
        ("CASE WHEN l <> 2 THEN 10 / (l - 2) ELSE -1 END", [-1.0, 10.0, 5.0], pa.float64()),
        ("CASE l WHEN 2 THEN 'two' WHEN 3 THEN 'three' END", ["two", "three", None], pa.string()),
        ("if(b, i, l)", [7, 3, 4], pa.int64()),
        ("CAST(n AS INT)", [12, 3, -4], pa.int32()),
        ("CAST(f AS INT)", [0, None, -1], pa.int32()),
        ("CAST(f AS STRING)", ["0.5", None, "-1.5"], pa.string()),
        ("CAST(b AS INT)", [1, 0, None], pa.int32()),
        ("CAST(d AS DECIMAL(4,1))", [Decimal("1.3"), Decimal("-0.1"), None], pa.decimal128(4, 1)),
        ("CAST(l AS DECIMAL(4,1))", [Decimal("2.0"), Decimal("3.0"), Decimal("4.0")], pa.decimal128(4, 1)),
        ("CAST(at AS DATE)", [datetime.date(2026, 1, 2), None, datetime.date(1969, 12, 31)], pa.date32()),
        ("i > 0 AND s IS NOT NULL", [True, False, None], pa.bool_()),
        # what fails for a row is no error where something before it decides
        ("l <> 2 AND 1 / (l - 2) > 0.6", [False, True, False], pa.bool_()),
        ("l = 2 OR 1 / (l - 2) > 0.6 OR 1 / (l - 2) < 0", [True, True, False], pa.bool_()),
        ("coalesce(f, 1 / (l - 2))", [0.5, 1.0, -1.5], pa.float64()),
        ("greatest(b, l = 4)", [True, False, True], pa.bool_()),
        ("least(at, TIMESTAMP_NTZ '2000-01-01')", [Y2K, Y2K, datetime.datetime(1969, 12, 31, 23)], pa.timestamp("us")),
        ("CAST('-in' || if(l = 2, 'f', 'finity') AS FLOAT)", [-math.inf] * 3, pa.float32()),
        ("CAST(NULL AS INT) + 1.5", [None] * 3, pa.decimal128(12, 1)),
        ("4Y * 1.5", [Decimal("6.0")] * 3, pa.decimal128(6, 1)),
        ("NULL", [None, None, None], pa.null()),
    ],
)
def test_values(text: str, expected: list[Any], kind: pa.DataType) -> None:
    expression = pickle.loads(pickle.dumps(parse_expression(text, ROWS.schema)))
    found = expression.evaluate(ROWS)
    assert found.to_pylist() == expected
    assert found.type == expression.kind == kind
    assert len(expression.evaluate(ROWS.slice(0, 0))) == 0


@pytest.mark.parametrize(
    "text",
    [
        "i + s",
        "s || i",
        "d / 2",
        "f % 2",
        "coalesce(s, 1)",
        "greatest(f, 1.0)",
        "CAST(at AS STRING)",
        "CAST(s AS BOOLEAN)",
        "TRY_CAST(s AS INT)",
        "current_timestamp()",
        "trim(LEADING 'x' FROM s)",
        "substring(s, 1)",
        "CASE WHEN i THEN 1 END",
        "d * d * d * d * d * d * d",
        "1 +",
        "i; l",
        "(SELECT 1)",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="supported:"):
        parse_expression(text, ROWS.schema)


@pytest.mark.parametrize(
    "text",
    [
        "i / (l - 2)",
        "l <> 3 AND 1 / (l - 2) > 0",
        "coalesce(f, 1 / (l - 3))",
        "i % (l - 3)",
        "CAST(s AS INT)",
        "CAST(3000000000 + l AS INT)",
        "2147483647 + i",
    ],
)
def test_errors_of_values(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        parse_expression(text, ROWS.schema).evaluate(ROWS)


@pytest.mark.parametrize(
    ("text", "depends"),
    [
        ("at > DATE '2026-01-01' OR day = '2026-01-02' OR i = '5' OR f < 2", set()),
        ("CAST(at AS DATE) = day AND at < TIMESTAMP_NTZ '2026-01-01 00:00:00'", set()),
        ("z > TIMESTAMP '2026-01-01 00:00:00+00:00' AND z = '2026-01-01 00:00:00Z' AND z IS NOT NULL", set()),
        ("z > TIMESTAMP '2026-01-01 00:00:00'", {"zone"}),
        ("z > '2026-01-01'", {"zone"}),
        ("z IN (DATE '2026-01-01')", {"zone"}),
        ("z = at", {"zone"}),
        ("CAST(z AS DATE) = day", {"zone"}),
        ("coalesce(z, day) IS NULL", {"zone"}),
        ("r = i", {"ansi"}),
        ("r + 1 > 2e0", {"ansi"}),
        ("r IN ('1', 2e0)", {"ansi"}),
        ("i IN ('1')", {"ansi"}),
        ("i = '3000000000'", {"ansi"}),
        ("if(b, r, l) > 0", {"ansi"}),
    ],
)
def test_what_the_meaning_depends_on(text: str, depends: set[str]) -> None:
    more = [("z", pa.timestamp("us", "UTC")), ("r", pa.float32())]
    assert parse_condition(text, pa.schema([*ROWS.schema, *more])).depends == depends


def test_constants() -> None:
    for value in (None, True, 5, 2**40, 1.5, Decimal("1.5"), b"x", datetime.date(2026, 1, 2), pa.scalar("it's")):
        found = parse_expression(value, ROWS.schema).evaluate(ROWS)
        assert found.to_pylist() == [value.as_py() if isinstance(value, pa.Scalar) else value] * 3
    with pytest.raises(ConfigError, match="text is an expression"):
        parse_expression([1], ROWS.schema)


def test_names() -> None:
    table = pa.struct([("id", pa.int64()), ("v", pa.string()), ("own", pa.struct([("x", pa.int64())]))])
    schema = pa.schema([("t", table), ("s", pa.struct([("id", pa.int64()), ("w", pa.string())]))])
    assert parse_expression("t.id + s.id", schema, aliases=("t", "s")).columns() == {("t", "id"), ("s", "id")}
    assert parse_expression("V || w", schema, aliases=("t", "s")).columns() == {("t", "v"), ("s", "w")}
    assert parse_expression("own.x", schema, aliases=("t", "s")).columns() == {("t", "own", "x")}
    with pytest.raises(SchemaMismatchError, match=r"may be t\.id or s\.id"):
        parse_expression("id", schema, aliases=("t", "s"))
    with pytest.raises(SchemaMismatchError, match="does not exist"):
        parse_expression("s.v", schema, aliases=("t", "s"))
    with pytest.raises(ConfigError, match="not a condition"):
        parse_condition("t.id", schema, aliases=("t", "s"))


def test_deep_expressions() -> None:
    with pytest.raises(ConfigError, match=r"nests deeper|cannot be parsed"):
        parse_expression(" + ".join(["i"] * 1000), ROWS.schema)
