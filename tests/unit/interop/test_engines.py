"""Scans in Polars and DuckDB: what is pushed down changes no answer, and is what the query needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.interop.conditions import Conditions
from hudi_py.interop.duckdb import narrowed, query
from hudi_py.interop.polars import pushed_condition, scan_hudi
from hudi_py.read import Scan

duckdb = pytest.importorskip("duckdb")
pl: Any = pytest.importorskip("polars")

SCHEMA = pa.schema(
    {"id": pa.int64(), "city": pa.string(), "day": pa.date32(), "fare": pa.float64(), "paid": pa.bool_()}
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hudi_py.Table:
    rows: list[dict[str, object]] = [
        {
            "id": number,
            "city": ("oslo", "lima", None, "a'b", "Oslo")[number % 5],
            "day": date(2024, 1, 1 + number % 28) if number % 7 else None,
            "fare": None if number % 6 == 0 else float("nan") if number % 11 == 0 else number / 3,
            "paid": (True, False, None)[number % 3],
        }
        for number in range(60)
    ]
    path = str(tmp_path_factory.mktemp("engines") / "t")
    data = pa.Table.from_pylist(rows, SCHEMA)
    hudi_py.write(path, data, "upsert", record_key="id", table_type="mor")
    hudi_py.write(path, data.slice(0, 20).set_column(1, "city", pa.array(["rome"] * 20)), "upsert")
    return hudi_py.open_table(path)


PREDICATES: dict[str, tuple[Callable[[], Any], str | None]] = {
    "equal": (lambda: pl.col("id") == 5, "`id` = 5"),
    "swapped": (lambda: pl.lit(5) < pl.col("id"), "`id` > 5"),
    "both": (lambda: (pl.col("city") == "oslo") & (pl.col("fare") > 2), "(`city` = 'oslo')"),
    "either": (lambda: (pl.col("id") < 3) | pl.col("city").is_null(), "(`id` < 3) OR (`city` IS NULL)"),
    "either, unknown": (lambda: (pl.col("id") < 3) | (pl.col("fare") > 2), None),
    "not null": (lambda: pl.col("day").is_not_null(), "`day` IS NOT NULL"),
    "dates": (lambda: pl.col("day") >= date(2024, 1, 20), "`day` >= DATE '2024-01-20'"),
    "in": (lambda: pl.col("id").is_in([1, 2, 99]), "`id` IN (1, 2, 99)"),
    "in, with null": (lambda: pl.col("id").is_in([1, None]), None),
    "between": (lambda: pl.col("id").is_between(3, 7, closed="right"), "(`id` > 3) AND (`id` <= 7)"),
    "not": (lambda: ~(pl.col("id") == 3), None),
    "odd text": (lambda: pl.col("city") == "a'b", None),
    "fraction": (lambda: pl.col("id") > 2.5, None),
    "not equal": (lambda: pl.col("city") != "rome", "`city` <> 'rome'"),
    "of Python": (lambda: pl.col("id").map_batches(lambda ids: ids > 3, return_dtype=pl.Boolean), None),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_polars_reads_what_it_needs(table: hudi_py.Table, name: str) -> None:
    make, condition = PREDICATES[name]
    assert pushed_condition(make(), table.schema) == condition
    scan = table.scan(meta=False)
    lazy = scan_hudi(scan).filter(make())
    expected = scan.to_polars().filter(make()).sort("id")
    assert lazy.collect().sort("id").equals(expected, null_equal=True)
    assert lazy.select("city").collect().sort("city").equals(expected.select("city").sort("city"))


STEPS: dict[str, Callable[[Any], Any]] = {
    "head": lambda frame: frame.head(25),
    "tail": lambda frame: frame.tail(30),
    "slice": lambda frame: frame.slice(5, 20),
    "filter": lambda frame: frame.filter(pl.col("id") % 3 == 1),
    "known filter": lambda frame: frame.filter(pl.col("part") > 0),
    "index": lambda frame: frame.with_row_index(),
    "only the index": lambda frame: frame.with_row_index().select("index"),
    "columns": lambda frame: frame.select("id", "part"),
    "no columns": lambda frame: frame.select(),
    "count": lambda frame: frame.select(pl.len()),
    "none": lambda frame: frame.head(0),
}


def test_polars_takes_steps_in_their_order(table: hudi_py.Table, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    parted = table.scan(meta=False).to_table().append_column("part", pa.array([number // 15 for number in range(60)]))
    hudi_py.write(path, parted, "bulk_insert", record_key="id", partition_by="part")
    scan = hudi_py.open_table(path).scan(meta=False)
    rows = scan.to_polars()
    compared = 0
    for names in [*itertools.product(STEPS), *itertools.product(STEPS, STEPS)]:

        def run(frame: Any, names: tuple[str, ...] = names) -> Any:
            for name in names:
                frame = STEPS[name](frame)
            return frame.collect()

        try:
            expected = run(rows.lazy())
        except pl.exceptions.PolarsError:  # a column that is gone, or there twice
            continue
        assert run(scan_hudi(scan)).equals(expected, null_equal=True), names
        compared += 1
    assert compared > 90


def test_polars_stays_with_the_state_of_the_scan(table: hudi_py.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str] | None, str | None]] = []
    narrow = Scan.narrow

    def noted(self: Scan, columns: Any = None, needed: str | None = None) -> Scan:
        asked.append((columns, needed))
        return narrow(self, columns, needed)

    monkeypatch.setattr(Scan, "narrow", noted)
    lazy = scan_hudi(table.scan(meta=False, as_of=table.timeline.completed[0].time))
    assert lazy.filter(pl.col("id") < 20).select("city").filter(pl.col("city") == "rome").collect().height == 0
    assert lazy.head(7).collect().height == 7
    assert lazy.select(pl.len()).collect().item() == 60
    assert scan_hudi(table.scan(filter="id < 10")).filter(pl.col("id") > 7).collect()["id"].to_list() == [8, 9]
    columns, condition = asked[0]
    assert set(columns or ()) == {"id", "city"}
    assert set(str(condition).split(" AND ")) == {"(`id` < 20)", "(`city` = 'rome')"}


WHERE = {
    "id = 5": "(`id` = 5)",
    "5 < ID AND city <> 'rome'": "(`id` > 5) AND (`city` <> 'rome')",
    "(id IN (1, 2, -3)) AND fare > 1": "(`id` IN (1, 2, -3))",
    "id BETWEEN 3 AND 7": "((`id` >= 3) AND (`id` <= 7))",
    "day >= DATE '2024-01-20' AND day IS NULL": "(`day` >= DATE '2024-01-20') AND (`day` IS NULL)",
    "t.day >= '2024-01-20'": None,
    "id > 2.5": None,
    "id = 5 OR fare > 3": None,
    "city = 'a''b'": None,
    "paid = true": "(`paid` = TRUE)",
    "id > (SELECT min(id) FROM t)": None,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("where", WHERE)
def test_duckdb_reads_what_it_needs(table: hudi_py.Table, where: str) -> None:
    text = f"SELECT id, city FROM t WHERE {where} ORDER BY id"
    scan = table.scan()
    with duckdb.connect() as empty:
        narrow = narrowed(text, {"t": scan}, empty)["t"]
    assert narrow.explain() == scan.narrow([*narrow.schema.names], WHERE[where]).explain()
    assert {"id", "city"} <= set(narrow.schema.names) < set(scan.schema.names)
    connection = duckdb.connect()
    connection.register("t", scan.to_table())
    expected = connection.sql(text).fetchall()
    with duckdb.connect() as other:
        assert query(text, {"t": scan}, connection=other).fetchall() == expected


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT a.id FROM t a JOIN u b ON a.id = b.id WHERE a.id > 3 AND b.id < 9", "(`id` > 3)"),
        ("SELECT a.id FROM t a LEFT JOIN u b ON a.id = b.id WHERE a.id > 3", None),
        ("SELECT a.id FROM t a POSITIONAL JOIN u b WHERE a.id > 3", None),
        ("SELECT id FROM t WHERE id > 3 UNION ALL SELECT id FROM t", None),
        ("WITH t AS (SELECT 1 AS id) SELECT id FROM t WHERE id > 3", None),
        ("SELECT id FROM t USING SAMPLE 3 WHERE id > 3", None),
        ("SELECT id FROM t WHERE id > 3; SELECT id FROM t", None),
    ],
)
def test_conditions_of_a_table_in_a_query(table: hudi_py.Table, text: str, condition: str | None) -> None:
    scan = table.scan()
    with duckdb.connect() as empty:
        found = narrowed(text, {"t": scan, "u": scan}, empty)["t"]
    assert found.explain() == scan.narrow(found.schema.names, condition).explain()


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT fare FROM t WHERE city = 'oslo'", ["city", "fare"]),
        ("SELECT count(*) FROM t", ["_hoodie_commit_time"]),
        ("SELECT * FROM t", None),
        ("SELECT t.* EXCLUDE (fare) FROM t", None),
        ("FROM t", None),
        ("SELECT t FROM t", None),
        ("SELECT COLUMNS('f.*') FROM t", None),
        ("SUMMARIZE t", None),
        ("SELECT 1 FROM t NATURAL JOIN u", None),
        ("SELEC x FROM", None),
    ],
)
def test_columns_of_a_query(table: hudi_py.Table, text: str, columns: list[str] | None) -> None:
    scan = table.scan()
    with duckdb.connect() as empty:
        found = narrowed(text, {"t": scan, "u": scan}, empty)["t"]
    assert found.schema.names == (columns or scan.schema.names)


# Each names columns, whole rows or rules of comparison that its text does not show
HIDDEN = [
    "SELECT p FROM t AS x(c, o, k, h, f, p, id) WHERE p = 7",
    "SELECT x FROM t x WHERE id = 5",
    "SELECT to_json(x) FROM t x WHERE id = 5",
    "SELECT row_to_json(x) FROM (SELECT x FROM t x) y(x)",
    "PIVOT t ON paid USING sum(id) GROUP BY day",
    "SELECT * FROM (SELECT id, city, paid FROM t) PIVOT (sum(id) FOR paid IN (true, false))",
    "SELECT id, name, value FROM t UNPIVOT (value FOR name IN (fare)) WHERE id < 9",
    "UNPIVOT t ON id, fare INTO NAME name VALUE value",
    "SELECT #6 FROM t",
    "SELECT id FROM t WHERE city COLLATE NOCASE = 'OSLO'",
    "SELECT count(*) FROM query('SELECT fare FROM t')",
    "SELECT count(fare) FROM query_table('t')",
    "SELECT id FROM t UNION BY NAME SELECT fare FROM t",
    "SELECT a.id FROM t a NATURAL JOIN (SELECT id FROM t) b WHERE a.id > 3",
    "SELECT list_transform([id], lambda x: x + 1) FROM t WHERE id > 30",
    "SELECT city AS id FROM t WHERE id = 5",
    "SELECT count(DISTINCT city) FILTER (id > 3) FROM t GROUP BY ROLLUP (paid) ORDER BY ALL",
    "SELECT id, row_number() OVER (PARTITION BY city ORDER BY day, id) FROM t QUALIFY id > 3",
]


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("SELECT 1", HIDDEN),
        ("SET default_collation = 'NOCASE'", [HIDDEN[0], "SELECT id FROM t WHERE city IN ('OSLO')"]),
        ("CREATE MACRO f() AS (SELECT max(fare) FROM t)", ["SELECT f() FROM t"]),
        ("CREATE VIEW v AS SELECT fare FROM t", ["SELECT count(*) FROM v, t WHERE t.id = 3"]),
    ],
)
def test_no_query_is_answered_from_too_little(table: hudi_py.Table, before: str, texts: list[str]) -> None:
    scan = table.scan()
    rows = scan.to_table()
    with duckdb.connect() as connection:
        connection.register("t", rows)
        connection.execute(before).fetchall()
        for text in texts:
            connection.register("t", rows)
            expected = sorted(map(repr, connection.sql(text).fetchall()))
            found = sorted(map(repr, query(text, {"t": scan}, connection=connection).fetchall()))
            assert found == expected, text


def test_values_of_another_kind_are_not_compared() -> None:
    conditions = Conditions(SCHEMA.append(pa.field("odd`name", pa.int64())))
    for column, value in {"id": True, "fare": 1.5, "city": 5, "day": "2024-01-01", "odd`name": 1, "gone": 1}.items():
        assert conditions.compared(column, "=", value) is None
    assert conditions.compared("id", "=", 2**63) is conditions.compared("id", "=", None) is None
    assert conditions.one_of("id", []) is conditions.one_of("id", [1, "x"]) is None
