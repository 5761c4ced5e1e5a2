from __future__ import annotations

import gc
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import (
    ConfigError,
    HistoryCleanedError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_py.formats.log import HeaderKey
from hudi_py.interop.duckdb import query
from hudi_py.interop.polars import scan_hudi
from hudi_py.model.instant import Action
from hudi_py.read.slices.task import count_split, ordered
from hudi_py.storage import open_storage
from tests.unit.read.tables import FILE_ID, SCHEMA, MadeTable, completion, deletes, instant, plain, row


def made(path: Path, **how: object) -> MadeTable:
    return MadeTable(str(path / "t"), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_logs_are_merged_over_the_base(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version=version)
    table.base(1, [row("a", 10), row("b", 10), row("c", 10), row("d", 10)])
    table.commit(1)
    table.log(2, [row("a", 11, "new"), row("b", 9, "late"), row("e", 1, "insert")], deletes("c", ts=10), base_at=1)
    table.commit(2)
    table.log(3, deletes("d"), base_at=1, number=2)
    table.commit(3)
    scan = hudi_py.open_table(table.uri).scan()
    assert plain(scan.to_table()) == [("a", 11, "new", 1.0), ("b", 10, "n", 1.0), ("e", 1, "insert", 1.0)]
    assert scan.count() == 3
    optimized = hudi_py.open_table(table.uri).scan(query_type="read_optimized")
    assert [key for key, *_ in plain(optimized.to_table())] == ["a", "b", "c", "d"]
    assert optimized.count() == 4


@pytest.mark.parametrize("version", [6, 9])
def test_a_filter_never_brings_back_a_stale_row(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version=version)
    table.base(1, [row("a", 10, "newer base"), row("b", 10, "older base")])
    table.commit(1)
    table.log(2, [row("a", 5, "stale log"), row("b", 12, "newer log")], base_at=1)
    table.commit(2)
    opened = hudi_py.open_table(table.uri)
    for condition in ("name = 'stale log'", "name = 'older base'", "ts < 10", "ts = 5"):
        assert opened.scan(filter=condition).to_table().num_rows == 0, condition
        assert opened.scan(filter=condition).count() == 0
    kept = opened.scan(columns=["id"], filter="name LIKE 'newer%'").to_table()
    assert kept.to_pydict() == {"id": ["a", "b"]}
    assert opened.scan(columns=["id"], filter=pc.field("ts") == 12).to_table().to_pydict() == {"id": ["b"]}


@pytest.mark.parametrize("version", [6, 9])
def test_uncommitted_writes_are_hidden(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version=version)
    table.base(1, [row("a", 10)])
    table.commit(1)
    table.log(2, [row("a", 11, "unseen")], base_at=1)
    table.pending(2)
    table.base(3, [row("z", 1)], file_id="99999999-2222-3333-4444-555555555555-0")
    table.pending(3, Action.COMMIT)
    assert plain(hudi_py.open_table(table.uri).scan().to_table()) == [("a", 10, "n", 1.0)]


def test_rolled_back_blocks_do_not_count(tmp_path: Path) -> None:
    table = made(tmp_path, version=6)
    table.base(1, [row("a", 10)])
    table.commit(1)
    table.log(2, [row("a", 11, "rolled back")], base_at=1)
    table.put_log(table.rollback_block(4, 2), 2, base_at=1, number=2)
    table.log(3, [row("b", 1, "kept")], base_at=1, number=3)
    table.commit(3)
    table.commit(2)
    assert plain(hudi_py.open_table(table.uri).scan().to_table()) == [("a", 10, "n", 1.0), ("b", 1, "kept", 1.0)]


@pytest.mark.parametrize("version", [6, 9])
def test_a_torn_block_is_skipped(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version=version)
    table.base(1, [row("a", 10)])
    table.commit(1)
    whole = table.log(2, [row("a", 11, "whole")], base_at=1)
    data = table.storage.read(whole)
    table.put_log(data[:-20], 3, base_at=1, number=2)
    table.commit(2)
    table.commit(3)
    assert plain(hudi_py.open_table(table.uri).scan().to_table()) == [("a", 11, "whole", 1.0)]


def test_log_compacted_blocks_take_the_place_of_what_they_replace(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    table.base(1, [row("a", 1)])
    table.commit(1)
    table.log(2, [row("a", 2, "two")])
    table.log(3, [row("b", 3, "three")])
    table.log(4, [row("a", 4, "four")])
    both = {HeaderKey.COMPACTED_BLOCK_TIMES: f"{instant(2)},{instant(3)}"}
    table.log(5, [row("a", 2, "compacted"), row("b", 3, "compacted")], header=both)
    for number in (2, 3, 4, 5):
        table.commit(number)
    rows = plain(hudi_py.open_table(table.uri).scan().to_table())
    assert rows == [("a", 4, "four", 1.0), ("b", 3, "compacted", 1.0)]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_time_travel(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version=version)
    table.base(1, [row("a", 1, "one")])
    table.commit(1)
    table.log(2, [row("a", 2, "two")], base_at=1)
    table.commit(2)
    table.base(3, [row("a", 3, "three")])
    table.commit(3, action=Action.COMMIT)
    opened = hudi_py.open_table(table.uri)
    for number, name in ((1, "one"), (2, "two"), (3, "three"), (9, "three")):
        assert opened.scan(as_of=instant(number)).to_table()["name"].to_pylist() == [name]
    assert opened.scan(as_of="2024-01-01 02:30:00").to_table()["name"].to_pylist() == ["two"]
    assert opened.scan(options={"as.of.instant": instant(2)}).to_table()["name"].to_pylist() == ["two"]
    before = opened.scan(as_of="2023-12-31")
    assert before.to_table().num_rows == before.count() == 0
    assert before.schema.names == opened.schema.names
    with pytest.raises(ConfigError, match="as the time of an instant"):
        opened.scan(as_of="yesterday")


def test_a_scan_is_pinned_when_it_is_made(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1)])
    table.commit(1)
    opened = hudi_py.open_table(table.uri)
    scan = opened.scan()
    table.log(2, [row("a", 2, "later")])
    table.commit(2)
    assert scan.to_table()["ts"].to_pylist() == [1]
    assert opened.scan().to_table()["ts"].to_pylist() == [2]


def test_columns_are_added_and_promoted(tmp_path: Path) -> None:
    old = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("price", pa.float32())])
    table = made(tmp_path)
    table.base(1, [{"id": "a", "ts": 1, "price": 0.1}, {"id": "b", "ts": 7, "price": None}], schema=old)
    table.commit(1, schema=old)
    table.log(2, [{"id": "b", "ts": 6, "price": 1.5}, {"id": "c", "ts": 1, "price": 0.2}], schema=old)
    table.commit(2, schema=old)
    table.log(3, [row("a", 2**40, "wide", 0.3)])
    table.commit(3)
    scan = hudi_py.open_table(table.uri).scan()
    assert scan.schema.field("ts").type == pa.int64()
    assert plain(scan.to_table()) == [("a", 2**40, "wide", 0.3), ("b", 7, None, None), ("c", 1, None, 0.2)]


def test_columns_and_names(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1)])
    table.commit(1)
    opened = hudi_py.open_table(table.uri)
    assert opened.schema.names[5:] == SCHEMA.names
    assert opened.scan(columns=["price", "ID"]).to_table().to_pydict() == {"price": [1.0], "id": ["a"]}
    assert opened.scan(options={"columns": "`price`, _hoodie_record_key"}).schema.names == [
        "price",
        "_hoodie_record_key",
    ]
    assert opened.scan(columns=[]).to_table().num_rows == 1
    with pytest.raises(SchemaMismatchError, match="did you mean 'price'"):
        opened.scan(columns=["prize"])
    with pytest.raises(SchemaMismatchError, match="twice"):
        opened.scan(columns=["id", "ID"])
    with pytest.raises(ConfigError, match="contradicts option"):
        opened.scan(filter="ts = 1", options={"filter": "ts = 2"})
    with pytest.raises(ConfigError, match="limit"):
        opened.scan(limit=-1)


def test_limit(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row(f"{number:03}", number) for number in range(100)])
    table.commit(1)
    table.log(2, [row("000", 500, "changed")])
    table.commit(2)
    opened = hudi_py.open_table(table.uri)
    for limit, count in ((0, 0), (7, 7), (1000, 100)):
        scan = opened.scan(limit=limit)
        assert scan.to_table().num_rows == scan.count() == count
    assert opened.scan(limit=5, filter="ts >= 98").to_table().num_rows == 3


def partitioned(tmp_path: Path) -> MadeTable:
    schema = pa.schema([*SCHEMA, ("day", pa.date32()), ("city", pa.string())])
    table = made(
        tmp_path,
        schema=schema,
        properties={
            "hoodie.table.partition.fields": "day,city",
            "hoodie.table.keygenerator.type": "COMPLEX",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
    )
    import datetime

    for number, (day, city) in enumerate([("2024-01-01", "rome"), ("2024-01-01", "oslo"), ("2024-01-02", "rome")]):
        path = f"day={day}/city={city}"
        table.partition(path)
        values = {**row(str(number), number), "day": datetime.date.fromisoformat(day), "city": city}
        table.base(1, [values], partition=path)
    table.commit(1)
    return table


@pytest.mark.parametrize(
    ("condition", "partitions", "rows"),
    [
        ("city = 'rome'", 2, 2),
        ("day = '2024-01-01' AND city = 'rome'", 1, 1),
        ("day > DATE '2024-01-01'", 1, 1),
        ("city = 'rome' OR ts = 1", 3, 3),
        ("_hoodie_partition_path = 'day=2024-01-01/city=oslo'", 1, 1),
        ("city IN ('oslo', 'bonn')", 1, 1),
        ("city IS NULL", 0, 0),
        ("ts = 1", 3, 1),
    ],
)
def test_partitions_are_pruned(tmp_path: Path, condition: str, partitions: int, rows: int) -> None:
    table = partitioned(tmp_path)
    scan = hudi_py.open_table(table.uri).scan(filter=condition)
    assert scan.plan().partitions_after == partitions
    assert scan.to_table().num_rows == rows
    assert f"partitions  {partitions} of 3" in scan.explain()


def test_chosen_partitions(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    opened = hudi_py.open_table(table.uri)
    chosen = opened.scan(partitions=["day=2024-01-01/city=rome"])
    assert chosen.to_table()["city"].to_pylist() == ["rome"]
    assert opened.partitions()["partition"].to_pylist()[0] == "day=2024-01-01/city=oslo"
    assert opened.files().num_rows == 3
    assert opened.history()["operation"].to_pylist() == ["UPSERT"]
    assert opened.instants()["completion_time"].to_pylist() == [completion(1)]


def test_row_groups_are_pruned_without_logs_only(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.base(1, [row(f"{number:03}", number) for number in range(100)], row_group_rows=10)
    table.commit(1)
    opened = hudi_py.open_table(table.uri)
    (split,) = opened.scan(filter="ts BETWEEN 35 AND 36 AND id >= '03'").splits()
    from hudi_py.formats.base.parquet import open_parquet
    from hudi_py.read.pruning.bounds import row_groups_to_read

    assert split.spec.filter is not None
    with open_parquet(table.storage, path) as file:
        assert row_groups_to_read(file, range(10), split.spec.filter) == [3]
    for condition, count in (
        ("ts < 10", 10),
        ("ts >= 95", 5),
        ("NOT ts < 95", 5),
        ("ts = 4 OR ts = 77", 2),
        ("ts IN (4, 77, 1000)", 2),
        ("name IS NULL", 0),
        ("id > '0975'", 2),
        ("price > 5", 0),
        ("ts = 5.0", 1),
        ("ts = 5.5", 0),
    ):
        scan = opened.scan(filter=condition)
        assert scan.to_table().num_rows == scan.count() == count, condition
    # a newer version of row 35 in a log: the base row must be met by it, in whichever row group it is
    table.log(2, [row("035", 1000, "moved")])
    table.commit(2)
    assert opened.scan(filter="ts = 35").count() == 0
    assert opened.scan(filter="ts = 1000").to_table()["id"].to_pylist() == ["035"]


def test_splits_travel_divide_and_resume(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row(f"{number:03}", number) for number in range(100)], row_group_rows=10)
    other = "22222222-2222-3333-4444-555555555555-0"
    table.base(1, [row("z1", 1), row("z2", 1)], file_id=other)
    table.commit(1)
    table.log(2, [row("z1", 2, "log")], deletes("z2"), file_id=other)
    table.commit(2)
    scan = hudi_py.open_table(table.uri).scan(columns=["id", "name"], filter="ts > 1")
    whole = scan.to_table()
    assert whole.num_rows == 99
    pieces = scan.splits(target_bytes=1)
    assert len(pieces) == 11
    assert [piece.merged for piece in pieces].count(True) == 1
    read: list[pa.RecordBatch] = []
    for piece in pieces:
        data = pickle.dumps(piece)
        assert len(data) < 4000
        batches = list(hudi_py.read_split(pickle.loads(data)))
        assert all(batch.num_rows and batch.schema == scan.schema for batch in batches)
        read += batches
        rows = pa.Table.from_batches(batches, scan.schema)
        for skip in (0, 1, rows.num_rows, rows.num_rows + 5):
            rest = pa.Table.from_batches(list(hudi_py.read_split(piece, skip_rows=skip)), scan.schema)
            assert rest.equals(rows.slice(skip))
    assert pa.Table.from_batches(read, scan.schema).equals(whole)


def test_parts_of_a_file_are_counted_by_themselves(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row(f"{number:03}", number) for number in range(25)], row_group_rows=10)
    table.commit(1)
    parts = hudi_py.open_table(table.uri).scan().splits(target_bytes=1)
    assert [count_split(open_storage(table.uri), part) for part in parts] == [10, 10, 5]


def test_a_cleaned_file_is_told(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.base(1, [row("a", 1)])
    table.commit(1)
    scan = hudi_py.open_table(table.uri).scan()
    (split,) = scan.splits()
    table.storage.delete(path)
    with pytest.raises(HistoryCleanedError, match="re-create the DataFrame"):
        list(hudi_py.read_split(split))
    with pytest.raises(HistoryCleanedError):
        scan.count()
    with pytest.raises(HistoryCleanedError):
        scan.to_table()


def test_other_libraries_take_a_scan(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1), row("b", 2)])
    table.commit(1)
    scan = hudi_py.open_table(table.uri).scan(columns=["id", "ts"])
    assert pa.table(scan).to_pydict() == {"id": ["a", "b"], "ts": [1, 2]}
    assert list(scan.to_pandas()["ts"]) == [1, 2]
    pytest.importorskip("polars")
    assert scan.to_polars()["ts"].to_list() == [1, 2]
    pytest.importorskip("duckdb")
    assert scan.to_duckdb().aggregate("sum(ts)").fetchall() == [(3,)]


def test_pandas_types_that_keep_nulls(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rows = pa.table({"id": [1, 2], "n": [1, None], "ok": [None, True], "s": ["x", None]})
    hudi_py.write(tmp_path / "t", rows, record_key="id")
    scan = hudi_py.open_table(tmp_path / "t").scan(meta=False)
    for backend, kinds in {
        None: ["int64", "float64", "object", "object"],
        "numpy_nullable": ["Int64", "Int64", "boolean", "string"],
        "pyarrow": ["int64[pyarrow]", "int64[pyarrow]", "bool[pyarrow]", "string[pyarrow]"],
    }.items():
        frame = scan.to_pandas(dtype_backend=backend)
        assert [str(kind) for kind in frame.dtypes] == kinds
        assert frame.isna().to_numpy().tolist() == [[False, False, True, False], [False, True, False, True]]
    with pytest.raises(hudi_py.ConfigError, match="dtype_backend='numpy' is not known; supported:"):
        scan.to_pandas(dtype_backend="numpy")


SCHEMA_OF_PART = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string())])


def test_an_empty_table(tmp_path: Path) -> None:
    import json

    from hudi_py.formats.avro import avro_schema

    create = json.dumps(avro_schema(SCHEMA, "made_record", "hoodie.made"))
    table = made(tmp_path, properties={"hoodie.table.create.schema": create})
    scan = hudi_py.open_table(table.uri).scan(filter="ts > 1")
    assert scan.to_table().num_rows == scan.count() == 0
    assert scan.schema.names[5:] == SCHEMA.names
    bare = MadeTable(str(tmp_path / "bare"))
    assert hudi_py.open_table(bare.uri).scan().to_table().num_rows == 0
    with pytest.raises(TableNotFoundError):
        hudi_py.open_table(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"hoodie.table.base.file.format": "HFILE"}, "HFILE"),
        ({"hoodie.record.merge.mode": "CUSTOM"}, "CUSTOM"),
        ({"hoodie.table.partial.update.mode": "GUESS"}, "GUESS"),
    ],
)
def test_what_would_be_read_wrong_is_refused_when_planned(
    tmp_path: Path, properties: dict[str, str], found: str
) -> None:
    table = made(tmp_path, properties=properties)
    table.base(1, [row("a", 1)])
    table.log(2, [row("a", 2)])
    table.commit(1)
    table.commit(2)
    with pytest.raises(UnsupportedTableError, match=found):
        hudi_py.open_table(table.uri).scan().splits()


def test_merge_settings_do_not_matter_without_logs(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"hoodie.record.merge.mode": "CUSTOM"})
    table.base(1, [row("a", 1)])
    table.commit(1)
    assert hudi_py.open_table(table.uri).scan().count() == 1
    table.log(2, [row("a", 2)])
    table.commit(2)
    assert hudi_py.open_table(table.uri).scan(query_type="read_optimized").count() == 1


def test_partial_updates(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1, "first", 1.5), row("b", 9, "late wins", 2.5)])
    table.commit(1)
    table.log(
        2,
        [{"id": "a", "ts": 2, "name": "second"}, {"id": "b", "ts": 3, "name": "lost"}],
        schema=SCHEMA_OF_PART,
        header={HeaderKey.IS_PARTIAL: "true"},
    )
    table.commit(2)
    assert plain(hudi_py.open_table(table.uri).scan().to_table()) == [
        ("a", 2, "second", 1.5),
        ("b", 9, "late wins", 2.5),
    ]


def test_slices_without_base_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.log(1, [row("a", 1), row("b", 1)])
    table.commit(1)
    table.log(2, [row("b", 2, "again")], deletes("a"))
    table.commit(2)
    opened = hudi_py.open_table(table.uri)
    assert plain(opened.scan().to_table()) == [("b", 2, "again", 1.0)]
    assert opened.scan(query_type="read_optimized").count() == 0


def test_several_slices_are_read_in_order_by_threads(tmp_path: Path) -> None:
    table = made(tmp_path)
    for number in range(12):
        table.base(
            1, [row(f"{number}-{at}", at) for at in range(50)], file_id=f"{number:08}-2222-3333-4444-555555555555-0"
        )
    table.commit(1)
    scan = hudi_py.open_table(table.uri).scan()
    alone = pa.Table.from_batches(list(scan.to_batches(threads=1)), scan.schema)
    assert pa.Table.from_batches(list(scan.to_batches(threads=4)), scan.schema).equals(alone)
    before = threading.active_count()
    batches = scan.to_batches(threads=4)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    gc.collect()
    assert threading.active_count() <= before


def test_errors_of_a_thread_reach_the_reader() -> None:
    def read(item: int) -> object:
        yield item
        if item == 2:
            raise ValueError("two")

    results = ordered(list(range(6)), read, 3)  # type: ignore[arg-type]
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="two"):
        next(results)


def test_no_credentials_in_splits(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1)])
    table.commit(1)
    opened = hudi_py.open_table(table.uri, {"storage.secret": "hush-hush"})
    scan = opened.scan()
    assert b"hush" not in pickle.dumps(scan.splits())
    assert "hush" not in scan.explain()
    assert FILE_ID in scan.explain()


def test_missing_libraries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    table.base(1, [row("a", 1)])
    table.commit(1)
    scan = hudi_py.open_table(table.uri).scan()
    acts: list[tuple[str, Callable[[], object]]] = [
        ("pandas", scan.to_pandas),
        ("polars", scan.to_polars),
        ("polars", lambda: scan_hudi(scan)),
        ("duckdb", scan.to_duckdb),
        ("duckdb", lambda: query("SELECT 1", {})),
    ]
    for name, act in acts:
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=rf"^Cannot .*: .*{name}.*; pip install 'hudi-py\[{name}\]'$"):
            act()
