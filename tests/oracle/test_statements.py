"""UPDATE, DELETE and MERGE: the same statements by Apache Hudi's SQL on the same table, and what it thinks of ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
COLUMNS = ["id", "ts", "v", "n", "p"]
SOURCE = [
    {"id": 2, "ts": 20, "v": "new", "n": 0.25, "p": "x"},
    {"id": 3, "ts": 1, "v": "low", "n": 0.25, "p": "y"},
    {"id": 8, "ts": 20, "v": "b8", "n": None, "p": "x"},
    {"id": 9, "ts": 20, "v": "b9", "n": 1.5, "p": "z"},
]
Statement = tuple[str, Callable[[hudi_py.Table], Any]]


def using(condition: str = "t.id = s.id") -> str:
    numbers = [f"{row['n']}D" if row["n"] else "CAST(NULL AS DOUBLE)" for row in SOURCE]
    rows = ", ".join(
        f"({row['id']}L, {row['ts']}L, '{row['v']}', {number}, '{row['p']}')"
        for row, number in zip(SOURCE, numbers, strict=True)
    )
    return f"MERGE INTO {{table}} t USING (SELECT * FROM VALUES {rows} AS r(id, ts, v, n, p)) s ON {condition} "


def merge(table: hudi_py.Table, on: str = "t.id = s.id") -> Any:
    return table.merge(SOURCE, on)


STATEMENTS: dict[str, Statement] = {
    "update": (
        "UPDATE {table} SET v = upper(v) || CAST(id AS STRING), n = n * 2 + id / 4 WHERE id >= 2",
        lambda table: table.update({"v": "upper(v) || CAST(id AS STRING)", "n": "n * 2 + id / 4"}, "id >= 2"),
    ),
    "update case": (
        "UPDATE {table} SET n = CASE WHEN n IS NULL THEN -1 WHEN n > 2 THEN abs(n - 10) END",
        lambda table: table.update({"n": "CASE WHEN n IS NULL THEN -1 WHEN n > 2 THEN abs(n - 10) END"}),
    ),
    "update lowers": (
        "UPDATE {table} SET v = 'low', ts = ts - 1 WHERE p = 'x'",
        lambda table: table.update({"v": "'low'", "ts": "ts - 1"}, "p = 'x'"),
    ),
    "update nothing": (
        "UPDATE {table} SET v = 'n' WHERE id = 99",
        lambda table: table.update({"v": "'n'"}, "id = 99"),
    ),
    "delete": (
        "DELETE FROM {table} WHERE n IS NULL OR id = 1",
        lambda table: table.delete("n IS NULL OR id = 1"),
    ),
    "merge all": (
        using() + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda table: merge(table).when_matched_update_all().when_not_matched_insert_all().execute(),
    ),
    "merge some": (
        using("t.id = s.id AND t.p = s.p")
        + "WHEN MATCHED AND s.n < 1 THEN UPDATE SET id = s.id, v = concat(s.v, '!'), ts = s.ts "
        + "WHEN NOT MATCHED AND s.v = 'b9' THEN INSERT (id, ts, p, v) VALUES (s.id, s.ts, s.p, lower(s.v))",
        lambda table: (
            merge(table, "t.id = s.id AND t.p = s.p")
            .when_matched_update({"id": "s.id", "v": "concat(s.v, '!')", "ts": "s.ts"}, "s.n < 1")
            .when_not_matched_insert({"id": "s.id", "ts": "s.ts", "p": "s.p", "v": "lower(s.v)"}, "s.v = 'b9'")
            .execute()
        ),
    ),
}


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.select(COLUMNS).to_pylist(), key=lambda row: int(row["id"]))


# Merge on read, Apache Hudi's partial updates of the columns that a clause sets mix up their values.
CASES = [case for case in product(STATEMENTS, (6, 8, 9), ("cow", "mor")) if case[::2] != ("merge some", "mor")]


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    cases(CASES, "SQL statements", 1, quick=[("merge some", 9, "cow")]),
)
def test_the_same_statement(oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str) -> None:
    data = [
        {"id": key, "ts": 10, "v": f"{letter}{key}", "n": None if key == 4 else key / 2, "p": "yx"[key % 2 == 0]}
        for key, letter in enumerate("abcdef", 1)
    ]
    ours, theirs = tmp_path / "t", tmp_path / "other" / "t"
    hudi_py.write(
        ours,
        data,
        "upsert",
        QUICK,
        record_key="id",
        partition_by="p",
        ordering_by="ts",
        table_type=kind,
        table_version=version,
    )
    shutil.copytree(ours, theirs)
    text, run = STATEMENTS[name]
    oracle.sql(text, theirs, {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"})
    table = hudi_py.open_table(ours, QUICK)
    run(table)
    expected = rows_of(oracle.read(theirs))
    assert rows_of(table.scan().to_table()) == expected
    assert rows_of(oracle.read(ours)) == expected
    assert oracle.check(ours)["problems"] == []
    operations = [hudi_py.open_table(path).history()["operation"].to_pylist()[-1] for path in (ours, theirs)]
    assert operations[0] == operations[1]


@dataclass(frozen=True)
class Rule:
    """A merge whose ON, source or index asks for more than rows of the same key."""

    on: str = "t.id = s.id"
    source: tuple[tuple[int, int, str, float, str], ...] = (
        (2, 20, "new", 0.25, "x"),
        (3, 1, "low", 0.25, "y"),
        (8, 20, "b8", 2.5, "x"),
        (9, 20, "b9", 1.5, "z"),
    )
    deletes: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("cow", "mor")

    @property
    def text(self) -> str:
        rows = ", ".join(f"({id}L, {ts}L, '{v}', {n}D, '{p}')" for id, ts, v, n, p in self.source)
        clauses = "THEN DELETE" if self.deletes else "THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        # Where a column cannot be null, Apache Hudi stores other values for a row that moves to another partition.
        nothing = dict(zip(COLUMNS, ("-1L", "-1L", "'-'", "-1D", "'-'"), strict=True))
        columns = ", ".join(f"nullif({name}, {nothing[name]}) AS {name}" for name in COLUMNS)
        return (
            f"MERGE INTO {{table}} t USING (SELECT {columns} FROM VALUES {rows} AS r({', '.join(COLUMNS)})) s "
            f"ON {self.on} WHEN MATCHED {clauses}"
        )

    def run(self, table: hudi_py.Table) -> None:
        merging = table.merge([dict(zip(COLUMNS, row, strict=True)) for row in self.source], self.on)
        if self.deletes:
            merging.when_matched_delete().execute()
        else:
            merging.when_matched_update_all().when_not_matched_insert_all().execute()


GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
MOVING = ((2, 20, "moved", 0.25, "y"), (3, 1, "low", 0.25, "x"), (9, 20, "b9", 1.5, "z"))
RULES = {
    "a column that is no key": Rule("t.v = s.v"),
    "the key and another column": Rule("t.id = s.id AND t.v = s.v"),
    "casts of both sides": Rule("CAST(t.id AS STRING) = CAST(s.id AS STRING)"),
    "several rows for a key": Rule(
        source=(
            *((2, 30, "newest", 0.5, "x"), (2, 20, "newer", 0.25, "x"), (3, 1, "low", 0.25, "y")),
            *((3, 12, "high", 0.75, "y"), (9, 25, "c9", 1.5, "z"), (9, 20, "b9", 2.5, "z")),
        )
    ),
    "a row moves": Rule(source=MOVING, options=GLOBAL),
    # Merge on read, Apache Hudi loses such updates.
    "a row stays": Rule(
        source=MOVING, options={**GLOBAL, "hoodie.simple.index.update.partition.path": "false"}, kinds=("cow",)
    ),
    "late deletes": Rule(source=((2, 5, "", 0.0, "x"), (3, 20, "", 0.0, "y"), (9, 20, "", 0.0, "z")), deletes=True),
}


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "rules of MERGE", 2))
def test_rules_of_merges(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    data = [{"id": key, "ts": 10, "v": f"v{key}", "n": key / 2, "p": "yx"[key % 2 == 0]} for key in range(1, 7)]
    keywords: Any = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    for name, rule in RULES.items():
        if kind not in rule.kinds:
            continue
        folder = tmp_path / name.replace(" ", "_")
        ours, theirs = folder / "t", folder / "other" / "t"
        hudi_py.write(ours, data, "upsert", QUICK, **keywords, table_version=version)
        shutil.copytree(ours, theirs)
        settings = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
        oracle.sql(rule.text, theirs, {**settings, **rule.options})
        table = hudi_py.open_table(ours, {**QUICK, **rule.options})
        rule.run(table)
        expected = rows_of(oracle.read(theirs))
        assert rows_of(table.scan().to_table()) == expected, name
        assert rows_of(oracle.read(ours)) == expected, name
        assert oracle.check(ours)["problems"] == [], name


@pytest.mark.long
@pytest.mark.parametrize(("version", "kind"), list(product((6, 9), ("cow", "mor"))))
def test_deletes_where_a_base_file_has_a_key_twice(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Of the rows that inserts have brought into one file, the first is deleted and the others stay, as in merges."""
    options = {**QUICK, "hoodie.write.table.version": str(version)}
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    first = [{"id": "a", "ts": 1}, {"id": "b", "ts": 1}]
    hudi_py.write(ours, first, "insert", options, record_key="id", ordering_by="ts", table_type=kind)
    hudi_py.write(ours, [{"id": key, "ts": ts} for key, ts in (("a", 9), ("d", 1), ("d", 2))], "insert", options)
    shutil.copytree(ours, theirs)
    for key in ("a", "d"):
        hudi_py.open_table(ours).delete_where(f"id = '{key}'", options=options)
        oracle.sql(f"DELETE FROM {{table}} WHERE id = '{key}'", path=theirs)
    for path in (ours, theirs):
        left = hudi_py.open_table(path).scan(["id", "ts"]).to_table()
        assert sorted(zip(*left.to_pydict().values(), strict=True)) == [("a", 9), ("b", 1), ("d", 2)]
