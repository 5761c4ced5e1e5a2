"""Slices which are not merged, and merges without meta columns or partition columns, as Apache Hudi reads them."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.unit.read.tables import MadeTable, deletes, row

pytestmark = pytest.mark.slow

LATE = {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}


@pytest.mark.nightly
@pytest.mark.parametrize("version", cases([6, 9], "skip merge", 1))
def test_skip_merge(oracle: Oracle, tmp_path: Path, version: int) -> None:
    properties = {"hoodie.table.precombine.field": "ts"} if version == 6 else {}
    schema = pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("_hoodie_is_deleted", pa.bool_())]
    )
    table = MadeTable(str(tmp_path / "t"), version=version, schema=schema, properties=properties)

    def one(key: str, ts: int, gone: bool = False) -> dict[str, Any]:
        return {"id": key, "ts": ts, "name": f"{key}{ts}", "_hoodie_is_deleted": gone}

    table.base(1, [one("a", 1), one("b", 5), one("c", 1)])
    table.commit(1)
    table.log(2, [one("a", 2), one("b", 2)], deletes("c"), base_at=1, number=1)
    table.commit(2)
    table.log(3, [one("a", 3), one("n", 1), one("b", 9, True)], base_at=1, number=2)
    table.commit(3)
    options = {"hoodie.datasource.merge.type": "skip_merge"}
    ours = hudi_py.open_table(table.uri).scan(options=options).to_table()
    assert ours.num_rows == 8
    assert_rows_equal(ours, oracle.read(table.uri, options=options))


KEYS: dict[str, pa.Table] = {
    "k_text": pa.table({"k": pa.array(["a", "", "é", "long" * 9])}),
    "k_long": pa.table({"k": pa.array([1, -2, 3, 2**40], pa.int64())}),
    "k_date": pa.table({"k": pa.array([datetime.date(2024, 1, day) for day in range(1, 5)], pa.date32())}),
    "k_time": pa.table(
        {
            "k": pa.array(
                [datetime.datetime(2024, 1, day, 1, 2, 3, 456) for day in range(1, 5)], pa.timestamp("us", "UTC")
            )
        }
    ),
    "k_decimal": pa.table({"k": pa.array([decimal.Decimal(f"{n}.50") for n in range(4)], pa.decimal128(8, 2))}),
    "k_several": pa.table({"k": pa.array(["a", "b", "c", "d"]), "l": pa.array([1, 2, 3, 4], pa.int32())}),
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "version"), cases([(name, version) for name in KEYS for version in (6, 9)], "no meta columns", 1)
)
def test_keys_without_meta_columns(oracle: Oracle, tmp_path: Path, name: str, version: int) -> None:
    path = str(tmp_path / "t")
    keys = KEYS[name]
    options = {**LATE, "hoodie.populate.meta.fields": "false"}
    options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen." + (
        "ComplexKeyGenerator" if len(keys.column_names) > 1 else "SimpleKeyGenerator"
    )

    def rows(at: int, chosen: list[int]) -> pa.Table:
        table = keys.take(pa.array(chosen)).append_column("ts", pa.array([at] * len(chosen), pa.int64()))
        table = table.append_column("part", pa.array(["x"] * len(chosen)))
        return table.append_column("name", pa.array([f"write {at}"] * len(chosen)))

    if len(keys.column_names) == 1:
        chosen = [0, 2, 3] if name == "k_text" else [0, 1, 2, 3]
    else:
        chosen = [0, 1, 2, 3]
    first = {"key": ",".join(keys.column_names), "ordering": "ts", "partition": "part", "type": "mor"}
    oracle.write(path, rows(1, chosen), "insert", table_version=version, options=options, **first)
    oracle.write(path, rows(2, chosen[:2]), "upsert", options=options)
    oracle.write(path, rows(3, chosen[1:2]), "upsert", options=options)
    if version == 9 or name not in ("k_date", "k_time"):  # with record positions it finds what dates name otherwise
        oracle.write(path, rows(4, chosen[2:3]), "delete", options=options)
    expected = oracle.read(path)
    ours = hudi_py.open_table(path).scan()
    assert any(split.log_files for split in ours.splits())
    assert_rows_equal(ours.to_table(), expected)


@pytest.mark.nightly
@in_turn("odd slices", 1, 2)
@pytest.mark.parametrize("version", cases([6, 9], "dropped partition columns", 1))
def test_dropped_partition_columns_with_logs(oracle: Oracle, tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "t")
    options = {**LATE, "hoodie.datasource.write.drop.partition.columns": "true"}
    options["hoodie.datasource.write.hive_style_partitioning"] = "true"

    def rows(at: int, ids: list[int]) -> pa.Table:
        return pa.table(
            {
                "id": pa.array([f"k{number}" for number in ids]),
                "ts": pa.array([at] * len(ids), pa.int64()),
                "city": pa.array(["rome" if number % 2 else "oslo" for number in ids]),
                "name": pa.array([f"write {at}"] * len(ids)),
            }
        )

    first = {"key": "id", "ordering": "ts", "partition": "city", "type": "mor"}
    oracle.write(path, rows(1, list(range(10))), "insert", table_version=version, options=options, **first)
    oracle.write(path, rows(2, [1, 2, 3]), "upsert", options=options)
    oracle.write(path, rows(3, [4]), "delete", options=options)
    ours = hudi_py.open_table(path).scan()
    assert any(split.log_files for split in ours.splits())
    assert_rows_equal(ours.to_table(), oracle.read(path))
    where = hudi_py.open_table(path).scan(filter="city = 'rome' and ts > 1").to_table()
    assert sorted(where["id"].to_pylist()) == ["k1", "k3"]


@in_turn("odd slices", 0, 2)
def test_log_names_without_write_token(oracle: Oracle, tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"), version=6, properties={"hoodie.table.precombine.field": "ts"})
    table.base(1, [row("a", 1), row("b", 1)])
    table.commit(1)
    path = table.log(2, [row("a", 2, "second")], base_at=1, number=1)
    table.storage.put(path.rpartition("_")[0], table.storage.read(path))
    table.storage.delete(path)
    table.commit(2)
    ours = hudi_py.open_table(table.uri).scan().to_table()
    assert sorted(ours["name"].to_pylist()) == ["n", "second"]
    assert_rows_equal(ours, oracle.read(table.uri))
