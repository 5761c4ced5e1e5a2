"""Columns altered by hudi-py and Apache Hudi in turn: each reads, and writes to, what the other has altered."""

from __future__ import annotations

import uuid
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn

# Apache Hudi drops and renames columns only with the second option, and reads nested changes only with the third.
ON_READ = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "spark.sql.parquet.enableVectorizedReader": "false",
    # those of Apache Hudi go by name, and its compaction fails where a name was used again for another type
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
OURS = {"hoodie.schema.on.read.enable": "true"}
NULLS = {"hoodie.write.set.null.for.missing.columns": "true"}
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "name": ["a", "b", "c"],
        "n": pa.array([1, 2, 3], pa.int32()),
        "d": pa.array([1.5, 2.5, 0.1], pa.float32()),
        "s": pa.array([{"x": 1, "y": "q"}, None, {"x": 3, "y": None}], STRUCT),
        "ts": [1, 1, 1],
        "city": ["oslo", "oslo", "lima"],
    }
)

pytestmark = pytest.mark.slow


def rows(table: pa.Table) -> list[dict[str, Any]]:
    own = table.select([name for name in table.column_names if not name.startswith("_hoodie")])
    return sorted(own.to_pylist(), key=lambda row: row["id"])


def agree(oracle: Oracle, path: Path, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows, which Apache Hudi reads alike, in the same order of columns."""
    table = hudi_py.open_table(path).scan().to_table()
    theirs = oracle.read(path, options=options)
    assert [name for name in theirs.column_names if name in table.column_names] == table.column_names
    assert rows(table) == rows(theirs)
    return rows(table)


@in_turn("what writers keep up", 1, 4, chosen=None)
@pytest.mark.parametrize(("kind", "version"), cases(list(product(("cow", "mor"), (6, 8, 9))), "altered by turns", 1))
def test_columns_are_altered_by_turns(oracle: Oracle, tmp_path: Path, kind: str, version: int) -> None:
    path, name = tmp_path / "t", f"altered_{uuid.uuid4().hex}"
    keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
    hudi_py.write(path, ROWS, options={"hoodie.table.name": name}, table_type=kind, table_version=version, **keys)
    table = hudi_py.open_table(path, {"hoodie.clean.automatic": "false", **NULLS})

    # matched by name
    table.alter(add={"tip": pa.float64()}, type={"n": pa.int64()}, move={"tip": "after id"})
    table.upsert(pa.table({"id": [2], "tip": [0.5], "n": [1 << 40], "ts": [2], "city": ["oslo"]}))
    agree(oracle, path, {})

    # by id: names that are used again, and a type that only ids allow for
    table.alter(
        rename={"name": "label"},
        drop=["tip"],
        add={"name": pa.string(), "tip": pa.string(), "dec": pa.decimal128(12, 3)},
        type={"d": pa.string()},
        comment={"label": "what it is"},
        options=OURS,
    )
    agree(oracle, path, ON_READ)
    changed = {"id": [2, 4], "label": ["B", "D"], "ts": [3, 3], "city": ["oslo", "lima"], "tip": ["t", None]}
    table.upsert(pa.table(changed))
    agree(oracle, path, ON_READ)
    assert oracle.check(path)["problems"] == []

    # Apache Hudi writes, and alters
    given = hudi_py.open_table(path).scan(columns=table.schema.names[5:], filter="id = 1").to_table()
    theirs = given.set_column(given.schema.get_field_index("label"), "label", pa.array(["theirs"]))
    oracle.write(path, theirs, options=ON_READ)
    assert [row["label"] for row in agree(oracle, path, ON_READ)] == ["theirs", "B", "c", "D"]
    oracle.sql(
        f"create table {name} using hudi location '{path}';\nalter table {name} rename column label to lbl;\n"
        f"alter table {name} add columns (late int after ts);\nalter table {name} drop column tip",
        options=ON_READ,
    )
    table.update({"lbl": "'ours'", "late": "7"}, "id = 3")
    table.alter(rename={"late": "later"}, add={"tip": pa.int32()})
    if kind == "mor":
        oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", options=ON_READ)
        agree(oracle, path, ON_READ)
        table.update({"tip": "1"}, "id = 4")
        table.compact()
    found = agree(oracle, path, ON_READ)
    assert [(row["lbl"], row["name"], row["later"]) for row in found] == [
        ("theirs", None, None),
        ("B", None, None),
        ("ours", None, 7),
        ("D", None, None),
    ]
    oracle.sql(f"drop table if exists {name}")


@pytest.mark.long
def test_members_are_altered(oracle: Oracle, tmp_path: Path) -> None:
    """Apache Hudi cannot read members with other names in merge-on-read tables."""
    path = tmp_path / "t"
    hudi_py.write(path, ROWS, record_key="id")
    table = hudi_py.open_table(path, OURS)
    table.alter(rename={"s.x": "z"}, add={"s.x": pa.string()}, type={"s.z": pa.int64()}, move={"s.y": "first"})
    table.update({"name": "'new'"}, "id = 1")
    row = {**ROWS.to_pylist()[0], "id": 9, "s": {"y": "a", "z": 5, "x": "b"}}
    schema = pa.schema([field for field in table.schema if not field.name.startswith("_hoodie")])
    table.insert(pa.Table.from_pylist([row], schema))
    assert agree(oracle, path, ON_READ)[3]["s"] == {"y": "a", "z": 5, "x": "b"}
