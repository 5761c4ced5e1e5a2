"""Apache Hudi reads what we write, and we read what it writes, on the same table, by turns."""

from __future__ import annotations

import datetime
import decimal
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import hudi as hudi_rs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn

TABLES = [(version, kind) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")]
IDS = [f"v{version}-{'mor' if kind == 'MERGE_ON_READ' else 'cow'}" for version, kind in TABLES]
UTC = datetime.timezone.utc

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("big", pa.decimal128(30, 5)),
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("ratio", pa.float32()),
        pa.field("score", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("attrs", pa.map_(pa.string(), pa.int64())),
        pa.field("nested", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))])),
    ]
)


def rows(ids: range, ts: int, cities: tuple[str, ...] = ("oslo", "lima", "pune")) -> pa.Table:
    """Rows of every column type; every seventh row is null in all but key, ordering and partition."""
    out: list[dict[str, Any]] = []
    for n in ids:
        row: dict[str, Any] = {"id": f"k{n}", "ts": ts, "city": cities[n % len(cities)]}
        if n % 7:
            row |= {
                "amount": decimal.Decimal(n * ts) / 100,
                "big": decimal.Decimal(f"{-n}{'9' * 15}.12345"),
                "flag": n % 2 == 0,
                "small": -n,
                "ratio": n / 4,
                "score": n * ts / 3,
                "day": datetime.date(1969, 12, 25) + datetime.timedelta(days=n),
                "at": datetime.datetime(1969, 12, 31, 23, 59, 59, n, tzinfo=UTC) + datetime.timedelta(seconds=n * ts),
                "raw": bytes([n % 256, 0, 255]),
                "tags": [f"t{n}", None, "ü"],
                "attrs": [(f"a{n}", n), ("b", None)],
                "nested": {"x": n, "y": [{"z": f"z{n}"}, {"z": None}]},
            }
        out.append(row)
    return pa.Table.from_pylist(out, schema=SCHEMA)


def settings(version: int, kind: str, name: str = "t") -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }


def newest(*tables: pa.Table) -> dict[str, int]:
    """Key to the greatest ordering value over the tables, ties to the later."""
    out: dict[str, int] = {}
    for table in tables:
        for key, ts in zip(table["id"].to_pylist(), table["ts"].to_pylist(), strict=True):
            if ts >= out.get(key, ts):
                out[key] = ts
    return out


def agree(oracle: Oracle, path: Path, expected: dict[str, int]) -> pa.Table:
    """Both sides read the same rows, and these are the expected ones."""
    ours = hudi_py.open_table(str(path)).scan().to_table()
    assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == expected
    assert ours.num_rows == len(expected)
    assert_rows_equal(ours, oracle.read(str(path)))
    return ours


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(TABLES, "every operation", 1), ids=IDS)
def test_apache_hudi_reads_every_operation(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    options = settings(version, kind)
    first, more = rows(range(0, 40), 100), rows(range(40, 50), 100)
    hudi_py.write(str(path), first, "bulk_insert", options)
    state = newest(first)
    agree(oracle, path, state)

    hudi_py.write(str(path), more, "insert", options)
    state |= newest(more)
    agree(oracle, path, state)

    update, late = rows(range(10, 20), 200), rows(range(0, 10), 50)
    result = hudi_py.write(str(path), pa.concat_tables([update, late, rows(range(50, 55), 200)]), "upsert", options)
    assert result.num_inserted == 5
    state |= newest(update, rows(range(50, 55), 200))
    agree(oracle, path, state)

    marked = rows(range(5, 8), 300).append_column("_hoodie_is_deleted", pa.array([True] * 3))
    hudi_py.write(str(path), marked, "upsert", options)
    state = {key: ts for key, ts in state.items() if key not in {"k5", "k6", "k7"}}
    agree(oracle, path, state)

    gone = rows(range(15, 30), 1)
    hudi_py.write(str(path), gone, "delete", options)
    state = {key: ts for key, ts in state.items() if key not in set(gone["id"].to_pylist())}
    agree(oracle, path, state)

    unmarked = pa.nulls(6, pa.bool_())
    replacing = rows(range(200, 206), 5, ("oslo",)).append_column("_hoodie_is_deleted", unmarked)
    hudi_py.write(str(path), replacing, "insert_overwrite", options)
    state = {key: ts for key, ts in state.items() if int(key[1:]) % 3} | newest(replacing)
    agree(oracle, path, state)

    hudi_py.write(str(path), rows(range(1), 0, ("lima",)), "delete_partition", options)
    state = {key: ts for key, ts in state.items() if int(key[1:]) % 3 != 1 or int(key[1:]) >= 200}
    agree(oracle, path, state)
    assert oracle.check(str(path), keys=1)["problems"] == []  # with the metadata table and without it, among others

    again = rows(range(2, 8), 400).append_column("_hoodie_is_deleted", unmarked)
    oracle.write(str(path), again, operation="upsert")
    state |= newest(again)
    agree(oracle, path, state)

    fresh = rows(range(100, 110), 5).append_column("_hoodie_is_deleted", pa.nulls(10, pa.bool_()))
    hudi_py.write(str(path), fresh, "insert_overwrite_table", options)
    agree(oracle, path, newest(fresh))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(TABLES, "by turns", 1), ids=IDS)
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    options = settings(version, kind)
    first = rows(range(0, 30), 100)
    hudi_py.write(str(path), first, "insert", options)
    state = newest(first)
    agree(oracle, path, state)

    theirs = rows(range(20, 40), 200)
    oracle.write(str(path), theirs, operation="upsert")
    state |= newest(theirs)
    agree(oracle, path, state)

    ours = rows(range(35, 45), 300)
    hudi_py.write(str(path), ours, "upsert", options)
    state |= newest(ours)
    agree(oracle, path, state)

    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    theirs = pa.concat_tables([rows(range(0, 5), 400), rows(range(35, 38), 250)])
    oracle.write(str(path), theirs, operation="upsert", options=inline if kind == "MERGE_ON_READ" else None)
    state |= newest(rows(range(0, 5), 400))
    agree(oracle, path, state)
    if kind == "MERGE_ON_READ":
        assert "commit" in hudi_py.open_table(str(path)).instants()["action"].to_pylist()

    ours = rows(range(2, 8), 500)
    result = hudi_py.write(str(path), ours, "upsert", options)
    assert (result.num_inserted, result.num_updated) == (0, 6)
    state |= newest(ours)
    agree(oracle, path, state)

    oracle.write(str(path), rows(range(0, 3), 1), operation="delete")
    state = {key: ts for key, ts in state.items() if key not in {"k0", "k1", "k2"}}
    agree(oracle, path, state)
    assert oracle.check(str(path), keys=1)["problems"] == []


@pytest.mark.nightly
@in_turn("odd columns", 1, 2)
@pytest.mark.parametrize(
    ("version", "kind"), cases([(9, "MERGE_ON_READ"), (6, "COPY_ON_WRITE")], "columns left out", 1)
)
def test_columns_left_out_become_null(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    hudi_py.write(str(ours), rows(range(0, 20), 100), "insert", settings(version, kind))
    shutil.copytree(ours, theirs)
    less = rows(range(10, 30), 200).drop_columns(["amount", "attrs", "nested"])
    less = less.append_column("nested", pa.array([{"x": n} for n in range(20)], pa.struct([("x", pa.int32())])))
    option = {"hoodie.write.set.null.for.missing.columns": "true"}
    hudi_py.write(str(ours), less, "upsert", option)
    oracle.write(str(theirs), less, options=option)
    found = oracle.read(str(ours))
    assert found["amount"].null_count == 20 + 2  # of those before, k0 and k7 have none
    assert_rows_equal(found.select(SCHEMA.names), oracle.read(str(theirs)).select(SCHEMA.names))


def test_deletes_ordered_by_date(oracle: Oracle, tmp_path: Path) -> None:
    """Rows marked deleted, newer and older than what is stored, where a date column decides."""
    path = tmp_path / "t"
    options = settings(9, "MERGE_ON_READ") | {"hoodie.datasource.write.precombine.field": "day"}
    data = rows(range(1, 7), 100).append_column("_hoodie_is_deleted", pa.array([False] * 6))
    hudi_py.write(str(path), data, "insert", options)
    position = data.schema.get_field_index("day")
    days = [datetime.date(2024, 1, 1) if n % 2 else datetime.date(1960, 1, 1) for n in range(6)]
    marked = data.set_column(position, "day", pa.array(days)).drop_columns("_hoodie_is_deleted")
    hudi_py.write(str(path), marked.append_column("_hoodie_is_deleted", pa.array([True] * 6)), "upsert", options)
    ours = hudi_py.open_table(str(path)).scan().to_table()
    assert sorted(ours["id"].to_pylist()) == ["k1", "k3", "k5"]
    assert_rows_equal(ours, oracle.read(str(path)))


@pytest.mark.parametrize(
    ("version", "kind"),
    cases([(6, "MERGE_ON_READ"), (9, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")], "time travel", 1),
)
def test_time_travel_agrees(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    options = settings(version, kind)
    results = [
        hudi_py.write(str(path), rows(range(0, 10), 100), "insert", options),
        hudi_py.write(str(path), rows(range(5, 15), 200), "upsert", options),
        hudi_py.write(str(path), rows(range(0, 3), 300), "delete", options),
    ]
    table = hudi_py.open_table(str(path))
    counts = []
    for result in results:
        ours = table.scan(as_of=result.instant).to_table()
        assert_rows_equal(ours, oracle.read(str(path), as_of=result.instant))
        counts.append(ours.num_rows)
    assert counts == [10, 15, 12]
    if kind == "MERGE_ON_READ":
        assert_rows_equal(
            table.scan(query_type="read_optimized").to_table(), oracle.read(str(path), query_type="read_optimized")
        )


@pytest.mark.parametrize(
    ("version", "fields"), cases(product((6, 8, 9), ("city", "city,small", "")), "key encodings", 2)
)
def test_key_and_partition_encodings(oracle: Oracle, tmp_path: Path, version: int, fields: str) -> None:
    """Apache Hudi upserts rows we wrote: equal encodings, or the keys would occur twice."""
    path = tmp_path / "t"
    options = settings(version, "COPY_ON_WRITE") | {
        "hoodie.datasource.write.recordkey.field": "id,small" if fields == "city,small" else "id",
        "hoodie.datasource.write.partitionpath.field": fields,
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    data = rows(range(1, 7), 100, cities=("a/b c", "å:=%", "x"))
    hudi_py.write(str(path), data, "insert", options)
    oracle.write(str(path), rows(range(1, 7), 200, cities=("a/b c", "å:=%", "x")), operation="upsert", options=options)
    ours = hudi_py.open_table(str(path)).scan().to_table()
    assert set(ours["ts"].to_pylist()) == {200}
    assert ours.num_rows == 6
    assert_rows_equal(ours, oracle.read(str(path)))


@in_turn("odd columns", 0, 2)
@pytest.mark.parametrize("name", cases(["my-table", "2024"], "names", 1))
def test_table_names_that_avro_does_not_admit(oracle: Oracle, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    hudi_py.write(
        str(path), rows(range(0, 6), 100), "insert", {**settings(9, "MERGE_ON_READ"), "hoodie.table.name": name}
    )
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(str(path)))
    oracle.write(str(path), rows(range(3, 9), 200))
    hudi_py.write(str(path), rows(range(5, 12), 300))
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(str(path)))


@pytest.mark.parametrize(("version", "kind"), TABLES, ids=IDS)
def test_hudi_rs_reads_our_tables(tmp_path: Path, version: int, kind: str) -> None:
    """A second, independent reader. Nested columns are left to Apache Hudi's own comparison."""
    path = tmp_path / "t"
    options = settings(version, kind)
    simple = ["id", "ts", "city", "amount", "flag", "small", "score", "day"]
    hudi_py.write(str(path), rows(range(0, 20), 100).select(simple), "insert", options)
    hudi_py.write(str(path), rows(range(10, 25), 200).select(simple), "upsert", options)
    hudi_py.write(str(path), rows(range(0, 3), 300).select(simple), "delete", options)
    ours = hudi_py.open_table(str(path)).scan(columns=simple).to_table()
    theirs = pa.Table.from_batches(hudi_rs.HudiTableBuilder.from_base_uri(str(path)).build().read()).select(simple)
    assert ours.num_rows == theirs.num_rows == 22
    order = [("id", "ascending")]
    assert ours.sort_by(order).to_pylist() == theirs.sort_by(order).to_pylist()
    assert pc.sum(ours["ts"]).as_py() == pc.sum(theirs["ts"]).as_py()
