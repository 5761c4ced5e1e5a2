"""The text of statements: tokens, tables in queries, expressions without an alias; what options make of INSERT. Without
Spark."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hudi_py.errors import ConfigError
from pyspark_hudi.dialect.change import _without_alias
from pyspark_hudi.dialect.indexes import show_indexes
from pyspark_hudi.dialect.insert import insert_operation
from pyspark_hudi.dialect.queries import hudi_references
from pyspark_hudi.dialect.run import bound
from pyspark_hudi.dialect.text import Cursor, first_word, tokens_of


class Named:
    """Tables of a session that has registered `t` and `u`."""

    def path_of(self, names: Sequence[str]) -> str | None:
        if len(names) == 2 and names[0] in ("hudi", "hudi-py"):
            return names[1]
        return f"/{names[0]}" if names[0].lower() in ("t", "u") else None


def references(text: str) -> list[str]:
    tables: Any = Named()
    tokens = tokens_of(text)
    assert tokens is not None
    return [text[each.start : each.end] for each in hudi_references(tables, Cursor(text, tokens))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM t", ["t"]),
        ("select t.id, u from T as x, u y where t in (select t from plain)", ["T", "u"]),
        ("SELECT * FROM hudi.`/a b` JOIN hudi-py.`s3://c` ON t = u", ["hudi.`/a b`", "hudi-py.`s3://c`"]),
        ("FROM t TIMESTAMP AS OF '2026' a SELECT a.*", ["t TIMESTAMP AS OF '2026'"]),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01'",
            ["t FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01'"],
        ),
        ("WITH t AS (SELECT 1), v(a, b) AS (SELECT * FROM u) SELECT * FROM t, v", ["u"]),
        ("SELECT EXTRACT(YEAR FROM t), a IS DISTINCT FROM t, (SELECT max(a) FROM u) FROM (t JOIN plain)", ["u", "t"]),
        ("SELECT 't' FROM plain -- FROM t\n WHERE a = 'FROM t' /* , t */", []),
        ("SELECT * FROM t(1), LATERAL explode(t), u LATERAL VIEW explode(x) t", ["u"]),
        ("SELECT a, t FROM plain GROUP BY a, t ORDER BY a, t UNION ALL TABLE u", ["u"]),
        ("SELECT * FROM VALUES (1, 2), (3, 4) AS t(a, b)", []),
        ("CREATE TABLE x USING parquet AS SELECT * FROM t CROSS JOIN u", ["t", "u"]),
        ("SELECT CASE WHEN a THEN b END FROM (SELECT * FROM t) s, (SELECT 1), u", ["t", "u"]),
    ],
)
def test_the_tables_of_a_query(text: str, found: list[str]) -> None:
    assert references(text) == found


def test_times_are_constants() -> None:
    with pytest.raises(ConfigError, match="does not support VERSION AS OF; use TIMESTAMP AS OF; found '3'"):
        references("SELECT * FROM t VERSION AS OF 3")
    with pytest.raises(ConfigError, match="expected a timestamp literal such as '2026-01-31'; found"):
        references("SELECT * FROM t TIMESTAMP AS OF current_timestamp()")


def test_parts_of_a_statement() -> None:
    text = " -- a\n/* b */ Update x SET a = CASE WHEN b THEN f(1, 2) ELSE 3 END, `c d` = g[1, 2] WHERE (x, y) IN (1) ;"
    assert first_word(text) == "UPDATE"
    cursor = Cursor(text, tokens_of(text) or [])
    cursor.need("UPDATE")
    assert cursor.names() == ("x",)
    cursor.need("SET")
    parts = [part.source for part in cursor.until("WHERE").parts()]
    assert parts == ["a = CASE WHEN b THEN f(1, 2) ELSE 3 END", "`c d` = g[1, 2]"]
    assert cursor.rest().source == "WHERE (x, y) IN (1)"
    with pytest.raises(ConfigError, match="on a Hudi table: expected MERGE; found 'Update x"):
        Cursor(text, tokens_of(text) or []).need("MERGE")


def test_an_alias_is_left_out_of_columns() -> None:
    assert _without_alias("T.a + b.t.c * `t`.`x y` || 't.a' || t", "t") == "a + b.t.c * `x y` || 't.a' || t"


class _Level(enum.IntEnum):
    HIGH = 5


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("SET a = a -:d WHERE id = 1", -5, "SET a = a - -5 WHERE id = 1"),
        ("SET a = a -? WHERE id = 1", Decimal("-1.5"), "SET a = a - -1.5BD WHERE id = 1"),
        ("WHERE id=:d", 5, "WHERE id=5"),
        ("WHERE id IN(:d,:d)", _Level.HIGH, "WHERE id IN(5,5)"),
        ("WHERE v:d = :d", np.float64(1.5), "WHERE v:d = CAST('1.5' AS DOUBLE)"),
        ("WHERE v[0]:d = ':d' -- :d", 1, "WHERE v[0]:d = ':d' -- :d"),
    ],
)
def test_parameters_in_the_text(text: str, value: object, expected: str) -> None:
    """A minus before a negative number would make a comment of what follows."""
    assert bound(text, [value] if "?" in text else {"d": value}) == expected


@pytest.mark.parametrize("name", ["hudi_table", "my_db.trips", "t1", "`a b`.c_d"])
def test_names_alone(name: str) -> None:
    names = Cursor(name, tokens_of(name) or []).names()
    assert ".".join(names) == name.replace("`", "")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("-- goes on \\\nDELETE FROM t", ""),
        ("-- ends\rDELETE FROM t", "DELETE"),
        ("/* a /* b */ DELETE FROM t */ UPDATE t", "UPDATE"),
        ("/* /*+ */ DELETE FROM t", "DELETE"),
        ("/* never closed DELETE FROM t", ""),
    ],
)
def test_comments_are_those_of_spark(text: str, word: str) -> None:
    assert first_word(text) == word


def test_columns_that_are_named_as_keywords() -> None:
    text = "UPDATE t SET end = CASE WHEN t.end > X'0A' THEN end END, case = case WHERE case > 1 AND end = r'\\'"
    cursor = Cursor(text, tokens_of(text) or [])
    cursor.until("SET")
    cursor.need("SET")
    assert [part.source for part in cursor.until("WHERE").parts()] == [
        "end = CASE WHEN t.end > X'0A' THEN end END",
        "case = case",
    ]
    assert cursor.rest().source == "WHERE case > 1 AND end = r'\\'"
    assert tokens_of("SELECT 'open") is None


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("upsert", {}, "insert"),
        ("upsert", {"hoodie.combine.before.insert": "true"}, "upsert"),
        ("STRICT", {"hoodie.combine.before.insert": "TRUE"}, "upsert"),
        ("non-strict", {"hoodie.combine.before.insert": "true"}, "insert"),
        (
            "upsert",
            {"hoodie.combine.before.insert": "true", "hoodie.datasource.write.insert.drop.duplicates": "true"},
            "insert",
        ),
        ("non-strict", {"hoodie.sql.bulk.insert.enable": "true"}, "bulk_insert"),
        ("upsert", {"hoodie.spark.sql.insert.into.operation": "bulk_insert"}, "bulk_insert"),
        ("upsert", {"hoodie.sql.bulk.insert.enable": "true"}, None),
    ],
)
def test_what_the_older_mode_makes_of_an_insert(mode: str, options: dict[str, str], expected: str | None) -> None:
    """As in Apache Hudi 1.2.0, see tests/oracle/statements/insert_modes.sql."""
    config = SimpleNamespace(record_key_fields=("id",))
    target: Any = SimpleNamespace(configured={"hoodie.sql.insert.mode": mode, **options}, config=config, shown="t")
    if expected is None:
        with pytest.raises(ConfigError, match="bulk inserts look up no keys"):
            insert_operation(target)
    else:
        assert insert_operation(target) == expected
    config.record_key_fields = ()
    if expected == "upsert":
        assert insert_operation(target) == "bulk_insert"


def test_show_indexes_names_the_columns_of_indexes_by_name() -> None:
    """As Apache Hudi 1.2.0, see tests/oracle/statements/indexes.sql."""
    rows = [
        {"name": "column_stats", "kind": "column_stats", "columns": ["id", "name"]},
        {"name": "expr_index_day", "kind": "column_stats", "columns": ["ts"]},
        {"name": "secondary_index_n", "kind": "secondary_index", "columns": ["name"]},
    ]
    target = SimpleNamespace(view=lambda name: rows)
    spark = SimpleNamespace(createDataFrame=lambda found, schema: found)
    tables: Any = SimpleNamespace(find=lambda names: target, spark=spark)
    text = "SHOW INDEXES FROM t"
    shown: Any = show_indexes(tables, Cursor(text, tokens_of(text) or []))
    assert [row[2] for row in shown] == ["", "ts", "name"]
