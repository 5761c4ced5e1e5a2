"""Tables whose files lack the meta columns or the partition columns, which both write by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.slow

VIRTUAL = {"hoodie.populate.meta.fields": "false"}
DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
METAFILES = {"hoodie.partition.metafile.use.base.format": "true"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.parquet.small.file.limit": "0"}
LATE = {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
ONE_KEY = {"hoodie.write.complex.keygen.validation.enable": "false"}
"""Apache Hudi 1.2.0 writes no table of version 8 whose key generator is complex and has one field without it."""
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
FORMS: dict[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    "virtual": (VIRTUAL, {"key": "id", "partition": "p"}),
    "virtual of two": (VIRTUAL, {"key": "id,k", "partition": "p"}),
    "virtual without partitions": (VIRTUAL, {"key": "k", "partition": ""}),
    "virtual of a struct": (VIRTUAL, {"key": "s.id", "partition": "p"}),
    "virtual in buckets": ({**VIRTUAL, **BUCKETS}, {"key": "id", "partition": "p"}),
    "virtual and global": ({**VIRTUAL, "hoodie.index.type": "GLOBAL_SIMPLE"}, {"key": "id", "partition": "p"}),
    "metafiles in Parquet": (METAFILES, {"key": "id", "partition": "p"}),
    "dropped": (DROPPED, {"key": "id", "partition": "p"}),
    "dropped numbers": ({**DROPPED, **HIVE}, {"key": "id", "partition": "n"}),
    "dropped of two": ({**DROPPED, **ONE_KEY}, {"key": "id", "partition": "p,n"}),
    "dropped and a key": (DROPPED, {"key": "id,p", "partition": "p"}),
}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("k", pa.int64()),
        ("p", pa.string()),
        ("n", pa.int32()),
        ("s", pa.struct([("id", pa.string())])),
        ("o", pa.int64()),
        ("v", pa.int64()),
    ]
)


def rows(*numbers: int, turn: int) -> pa.Table:
    listed = [
        {"id": f"r{n}", "k": n, "p": f"part {n % 2}", "n": n % 2, "s": {"id": f"s{n}"}, "o": turn, "v": 100 * turn + n}
        for n in numbers
    ]
    return pa.Table.from_pylist(listed, SCHEMA)


class Turns:
    """One table, two writers, and what it must hold."""

    def __init__(self, oracle: Oracle, path: Path, form: str, version: int, kind: str) -> None:
        self.oracle = oracle
        self.path = str(path)
        self.options, self.names = FORMS[form]
        self.version, self.kind = version, kind
        self.held: dict[int, int] = {}
        self.turn = 0

    def write(self, ours: bool, operation: str, *numbers: int) -> None:
        self.turn += 1
        data = rows(*numbers, turn=self.turn)
        if ours:
            table = {
                "record_key": self.names["key"],
                "ordering_by": "o",
                "table_type": self.kind,
                "table_version": self.version,
                **({"partition_by": self.names["partition"]} if self.names["partition"] else {}),
            }
            hudi_py.write(self.path, data, operation, {**self.options, **QUICK}, **table)
        else:
            self.oracle.write(
                self.path,
                data,
                operation,
                ordering="o",
                type=self.kind,
                table_version=self.version,
                options={**self.options, **LATE},
                **self.names,
            )
        if operation == "insert_overwrite":  # of both partitions, or of the table
            self.held = {}
        for row in data.to_pylist():
            if operation == "delete":
                self.held.pop(row["k"], None)
            else:
                self.held[row["k"]] = row["v"]
        self.check()

    def check(self) -> None:
        ours = hudi_py.open_table(self.path).scan().to_table()
        found = dict(zip(ours["k"].to_pylist(), ours["v"].to_pylist(), strict=True))
        assert (ours.num_rows, found) == (len(self.held), self.held), self.turn
        assert_rows_equal(ours, self.oracle.read(self.path))

    def compact(self, ours: bool) -> None:
        if self.kind != "mor":
            return
        if ours:
            assert hudi_py.open_table(self.path, QUICK).compact().instant is not None
        else:
            self.oracle.call(self.path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", self.options)
        self.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize(("version", "kind"), [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_by_turns(oracle: Oracle, tmp_path: Path, form: str, version: int, kind: str, first: str) -> None:
    table = Turns(oracle, tmp_path / "t", form, version, kind)
    mine = first == "ours"
    table.write(mine, "insert", *range(8))
    table.write(not mine, "upsert", 1, 2, 8)
    table.write(mine, "upsert", 2, 3, 8, 9)
    table.write(not mine, "delete", 0, 3)
    table.write(mine, "delete", 1)
    table.compact(not mine)
    table.write(not mine, "upsert", 4, 9)
    table.write(mine, "upsert", 0, 4)
    table.compact(mine)
    table.write(mine, "insert_overwrite", 5, 10, 11, 12)
    extension = ".parquet" if form.startswith("metafiles") else ""
    found = {file.name for file in Path(table.path).rglob(".hoodie_partition_metadata*") if ".hoodie" not in file.parts}
    assert found == {f".hoodie_partition_metadata{extension}"}
    assert oracle.check(table.path, deep=True)["problems"] == []
    assert hudi_py.open_table(table.path).metadata.verify().ok


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", cases(("v6_mor_no_meta_fields", "v9_cow_no_meta_fields", "v9_cow_drop_partition_columns"), "continued", 1)
)
def test_tables_of_apache_hudi_are_continued(oracle: Oracle, golden_copy: Callable[[str], Path], name: str) -> None:
    path = str(golden_copy(name))
    old = hudi_py.open_table(path).scan(meta=False).to_table()
    properties = hudi_py.open_table(path).properties
    key = properties["hoodie.table.recordkey.fields"]
    ordering = properties.get("hoodie.table.ordering.fields") or properties["hoodie.table.precombine.field"]
    at = old.schema.get_field_index(ordering)
    newest = pc.max(old[ordering]).as_py()
    changed = old.slice(0, 5).set_column(at, old.schema.field(at), pa.array([newest] * 5, old.schema.field(at).type))
    hudi_py.write(path, changed, "upsert", QUICK)
    hudi_py.write(path, old.slice(3, 4), "delete", QUICK)
    hudi_py.open_table(path).delete_where(f"{key} = '{old[key][8].as_py()}'", options=QUICK)
    gone = set(old[key][3:7].to_pylist()) | {old[key][8].as_py()}
    found = hudi_py.open_table(path).scan().to_table()
    assert set(found[key].to_pylist()) == set(old[key].to_pylist()) - gone
    assert_rows_equal(found, oracle.read(path))
    if "mor" in name:
        hudi_py.open_table(path, QUICK).compact()
        assert_rows_equal(hudi_py.open_table(path).scan().to_table(), found)
        assert_rows_equal(found, oracle.read(path))
    assert oracle.check(path)["problems"] == []
