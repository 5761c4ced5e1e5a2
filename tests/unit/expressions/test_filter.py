from __future__ import annotations

import datetime
import decimal
import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.filter import all_of, parse_filter

UTC = datetime.timezone.utc
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "small": pa.array([1, 2, -3, None], pa.int32()),
        "name": pa.array(["a", "B%x", "line\nbreak", None]),
        "digits": pa.array(["1", " 2 ", "x", None]),
        "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.00"), None, None], pa.decimal128(12, 2)),
        "ratio": pa.array([0.5, float("nan"), float("inf"), None], pa.float64()),
        "single": pa.array([0.1, 0.5, 1.0, None], pa.float32()),
        "day": pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 3, 1), None, None]),
        "at": pa.array([datetime.datetime(2024, 1, 1, 12, tzinfo=UTC), None, None, None], pa.timestamp("us", "UTC")),
        "flag": pa.array([True, False, None, None]),
        "raw": pa.array([b"\x1f", b"", None, None]),
        "st": pa.array([{"x": 1, "in": {"y": "p"}}, None, {"x": None, "in": None}, {"x": 4, "in": {"y": None}}]),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", [True, False, False, None]),
        ("id == 1", [True, False, False, None]),
        ("ID <> 1", [False, True, True, None]),
        ("id != 1 AND id < 3", [False, True, False, None]),
        ("id > 1.5", [False, True, True, None]),
        ("2 <= id", [False, True, True, None]),
        ("id > -1", [True, True, True, None]),
        ("small = id", [True, True, False, None]),
        ("id = 1 OR flag", [True, False, None, None]),
        ("NOT (id = 1)", [False, True, True, None]),
        ("id = NULL", [None, None, None, None]),
        ("id <=> NULL", [False, False, False, True]),
        ("id <=> 1", [True, False, False, False]),
        ("id IS NULL", [False, False, False, True]),
        ("id IS NOT NULL", [True, True, True, False]),
        ("flag IS TRUE", [True, False, False, False]),
        ("flag IS NOT TRUE", [False, True, True, True]),
        ("flag = 'true'", [True, False, None, None]),
        ("id IN (1, 3)", [True, False, True, None]),
        ("id IN (1, NULL)", [True, None, None, None]),
        ("id NOT IN (1, NULL)", [False, None, None, None]),
        ("id IN (NULL)", [None, None, None, None]),
        ("name IN ('a', 'zz')", [True, False, False, None]),
        ("day IN ('2024-01-01')", [True, False, None, None]),
        ("id BETWEEN 2 AND 3", [False, True, True, None]),
        ("id NOT BETWEEN 2 AND 3", [True, False, False, None]),
        ("name LIKE 'a'", [True, False, False, None]),
        ("name LIKE 'line%'", [False, False, True, None]),
        (r"name LIKE 'B\\%_'", [False, True, False, None]),
        ("name ILIKE 'b%'", [False, True, False, None]),
        ("name NOT LIKE '%'", [False, False, False, None]),
        ("name = 'it''s'", [False, False, False, None]),
        ("digits = '1'", [True, False, False, None]),
        ("price = 1.5", [True, False, None, None]),
        ("price > 1", [True, True, None, None]),
        ("price = 1.5e0", [True, False, None, None]),
        ("price = '1.5'", [True, False, None, None]),
        ("ratio > 1", [False, True, True, None]),
        ("ratio <= 1.0", [True, False, False, None]),
        ("ratio = ratio", [True, True, True, None]),
        ("single = 0.1", [False, False, False, None]),
        ("single IN (0.5, 1)", [False, True, True, None]),
        ("single = 0.1F", [True, False, False, None]),
        ("single = CAST(0.1 AS FLOAT)", [True, False, False, None]),
        ("single = CAST('0.1' AS FLOAT)", [True, False, False, None]),
        ("single = -0.1F", [False, False, False, None]),
        ("single <= 0.1F", [True, False, False, None]),
        ("single <=> 0.1F", [True, False, False, False]),
        ("single IN (0.1F, 1F)", [True, False, True, None]),
        # all in DOUBLE, as one item is
        ("single IN (0.1F, 0.1)", [True, False, False, None]),
        ("single IN (0.0)", [False, False, False, None]),
        ("-single = -0.5", [False, True, False, None]),
        ("single BETWEEN 0.1F AND 0.1F", [True, False, False, None]),
        ("id = 16777217F", [False, False, False, None]),
        ("16777217F = 16777216", [True, True, True, True]),
        ("ratio IN (CAST('NaN' AS DOUBLE), -0.5)", [False, True, False, None]),
        ("price = CAST(1.5 AS DECIMAL)", [False, True, None, None]),
        ("price = CAST(1.495 AS DECIMAL(3,2))", [True, False, None, None]),
        ("price = CAST('1.5' AS DECIMAL(12,2))", [True, False, None, None]),
        ("price > -12345678901234567890123456789.5", [True, True, None, None]),
        ("day = '2024-01-01 10:00:00'", [True, False, None, None]),
        ("(id = 1) = flag", [True, True, None, None]),
        ("day > '2024-01-31'", [False, True, None, None]),
        ("day = DATE '2024-01-01'", [True, False, None, None]),
        ("day < TIMESTAMP '2024-01-01 00:00:01'", [True, False, None, None]),
        ("at = '2024-01-01T12:00:00Z'", [True, None, None, None]),
        ("at >= '2024-01-01 12:00:00'", [True, None, None, None]),
        ("at > TIMESTAMP '2024-01-01 13:00:00+02:00'", [True, None, None, None]),
        ("at > DATE '2024-01-01'", [True, None, None, None]),
        ("raw = X'1F'", [True, False, None, None]),
        ("st.x = 1", [True, None, None, False]),
        ("st.`in`.y = 'p'", [True, None, None, None]),
        ("st IS NULL", [False, True, False, False]),
        ("id + 1 > 2", [False, True, True, None]),
        ("id * 2 - 1 = 3", [False, True, False, None]),
        ("TRUE", [True, True, True, True]),
        ("NULL OR id = 1", [True, None, None, None]),
        ("(((id = 1)))", [True, False, False, None]),
        ("id = 10L OR id = 2", [False, True, False, None]),
    ],
)
def test_three_valued_results(text: str, expected: list[bool | None]) -> None:
    parsed = parse_filter(text, ROWS.schema)
    assert parsed is not None
    assert parsed.evaluate(ROWS).to_pylist() == expected
    travelled = pickle.loads(pickle.dumps(parsed))
    batch = ROWS.combine_chunks().to_batches()[0]
    assert travelled.evaluate(batch).to_pylist() == expected
    assert travelled.apply(batch).num_rows == expected.count(True)
    assert travelled.evaluate(batch.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    "text",
    [
        "id =",
        "SELECT 1",
        "id = 1; DROP TABLE x",
        "soundex(name) = 'A'",
        "id IN (SELECT 1)",
        "name RLIKE 'x'",
        "name LIKE 'x' ESCAPE '!'",
        "id",
        "id = 'x'",
        "day = 'tomorrow'",
        "id % 2 = 0",
        "name + 1 = 2",
        "st = 1",
        "day > current_date()",
        "name LIKE id",
        "id IS 5",
        "day = id",
        "id = (SELECT max(id) FROM t)",
        "digits > 1",
        "digits = 1 OR id = 1",
        "digits IN ('1', 2)",
        "digits = day",
        "digits BETWEEN 1 AND 2",
        "digits = flag",
        "digits = id",
        "flag = 1",
        "flag = 'maybe'",
        "id = '1.5'",
        "id = 1e400",
        "id = 123456789012345678901234567890123456789",
        "id = CAST(300 AS TINYINT)",
        "id = CAST('x' AS INT)",
        "price = CAST(99 AS DECIMAL(2,1))",
        "price = CAST(1 AS DECIMAL(50,2))",
        "price = CAST(1e0 AS DECIMAL(3,1))",
        "id < 9223372036854775808",
        "price = 0.12345678901234567890123456789012345",
        "CAST(id AS STRING) = '1'",
        "at = '2024-01-01T12:00:00+19:00'",
        "at = '0001-01-01T00:00:00+02:00'",
        "at = TIMESTAMP '10000-01-01 00:00:00'",
        "day = '20240101'",
        "day = '2024-W01-1'",
        "raw = X'1'",
        "flag = id < 2",
        "flag = NOT flag",
        r"name LIKE 'a\\b'",
        r"name LIKE 'a\\'",
    ],
)
def test_the_rest_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="supported: comparisons"):
        parse_filter(text, ROWS.schema)


def test_a_text_without_quotes_is_noticed() -> None:
    with pytest.raises(SchemaMismatchError, match="'oslo', which does not exist; .*put it in quotes: 'oslo'"):
        parse_filter("name = oslo", ROWS.schema)


def test_unknown_columns_get_the_nearest_match() -> None:
    with pytest.raises(SchemaMismatchError, match="did you mean 'price'"):
        parse_filter("prise > 1", ROWS.schema)
    with pytest.raises(SchemaMismatchError, match=r"st\.z"):
        parse_filter("st.z > 1", ROWS.schema)


def test_deep_filters_are_refused_and_long_ones_taken() -> None:
    long = " OR ".join(f"id = {number}" for number in range(500))
    parsed = parse_filter(long, ROWS.schema)
    assert parsed is not None
    assert parsed.evaluate(ROWS).to_pylist() == [True, True, True, None]
    with pytest.raises(ConfigError):
        parse_filter("NOT " * 2000 + "flag", ROWS.schema)


def test_columns_and_conjuncts() -> None:
    parsed = parse_filter("id = 1 AND (name = 'a' OR st.x = 2) AND day IS NULL", ROWS.schema)
    assert parsed is not None
    assert parsed.columns == {"id", "name", "st", "day"}
    assert len(list(parsed.conjuncts())) == 3


def test_partition_values_prune_only_where_certain() -> None:
    parsed = parse_filter("day >= '2024-02-01' AND (name = 'a' OR day = '2024-01-01')", ROWS.schema)
    assert parsed is not None
    known = [
        {"day": pa.scalar(datetime.date(2024, 1, 1))},
        {"day": pa.scalar(datetime.date(2024, 2, 2))},
        {"id": pa.scalar(5)},
        {"day": pa.scalar(None, pa.date32())},
        {},
    ]
    assert parsed.may_match(known) == [False, True, True, False, True]
    assert parsed.may_match([]) == []


def test_an_overflow_prunes_nothing() -> None:
    parsed = parse_filter("id + 9223372036854775807 > 0 AND day = '2024-01-01'", ROWS.schema)
    assert parsed is not None
    days = [pa.scalar(datetime.date(2024, month, 1)) for month in (1, 2)]
    assert parsed.may_match([{"id": pa.scalar(5), "day": day} for day in days]) == [True, False]


def test_pyarrow_expressions() -> None:
    parsed = parse_filter((pc.field("id") > 1) & pc.field("name").is_valid(), ROWS.schema)
    assert parsed is not None
    assert {"id", "name"} <= parsed.columns
    travelled = pickle.loads(pickle.dumps(parsed))
    assert travelled.evaluate(ROWS).to_pylist() == [False, True, True, False]
    assert travelled.may_match([{"id": pa.scalar(0)}]) == [True]
    with pytest.raises(ConfigError):
        parse_filter(pc.field("nope") > 1, ROWS.schema)
    with pytest.raises(ConfigError, match="is a int64, not a condition"):
        parse_filter(pc.field("id") + 1, ROWS.schema)
    with pytest.raises(ConfigError, match="does not fit the table: Function 'equal' has no kernel"):
        parse_filter(pc.field("id") == pa.scalar("1"), ROWS.schema)


def test_no_filter_and_what_is_none() -> None:
    assert parse_filter(None, ROWS.schema) is None
    for empty in ("", "  \n"):
        with pytest.raises(ConfigError, match="is empty; leave it out"):
            parse_filter(empty, ROWS.schema)
    for wrong in (5, True, b"id = 1", ["id = 1"], {"id": 1}, [("id", "=", 1)]):
        with pytest.raises(ConfigError, match=f"text or a pyarrow expression, not {type(wrong).__name__}"):
            parse_filter(wrong, ROWS.schema)  # type: ignore[arg-type]


def test_what_overflows_is_an_error_of_ours() -> None:
    rows = pa.table({"i": pa.array([2**31 - 1], pa.int32()), "l": pa.array([-(2**63)], pa.int64())})
    for text in ("i + 1 > 0", "l - 1 < 0", "-l > 0", "l * 2 = 0", "i * i > 0"):
        parsed = parse_filter(text, rows.schema)
        assert parsed is not None
        with pytest.raises(ConfigError, match=r"cannot be evaluated \(overflow\)"):
            parsed.evaluate(rows)
    days = pa.table({"c": pa.array([2**31 - 1], pa.int32()).cast(pa.date32())})
    parsed = parse_filter("c > TIMESTAMP '2024-01-01 00:00:00'", days.schema)
    assert parsed is not None
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        parsed.evaluate(days)
    assert parse_filter("c > '2024-01-01'", days.schema).evaluate(days).to_pylist() == [True]  # type: ignore[union-attr]
    parsed = parse_filter(pc.field("i").cast(pa.int8()) > 0, rows.schema)
    assert parsed is not None
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        parsed.evaluate(rows)


def test_filters_in_one_text() -> None:
    assert all_of([]) is None
    assert all_of([None, "id = 1"]) == "id = 1"
    joined = all_of(["id = 1 -- the first", "small = 1 OR small = 2"])
    parsed = parse_filter(joined, ROWS.schema)
    assert parsed is not None
    assert parsed.evaluate(ROWS).to_pylist() == [True, False, False, None]
