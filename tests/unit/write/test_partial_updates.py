"""Updates of some columns: compared with a dict, what the logs hold, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks
from hudi_py.storage import open_storage
from hudi_py.wiring import service_target
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task
from tests.support.choice import cases
from tests.support.engine import write_routed

QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.py.write.durable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.spark.sql.merge.into.partial.updates": "true",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
RECORDS = {"hoodie.metadata.global.record.level.index.enable": "true", "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("v", pa.string()), ("n", pa.float64()), ("p", pa.string())]
)
Row = dict[str, Any]


def make(path: Path, options: dict[str, str] | None = None, schema: pa.Schema = SCHEMA, **more: Any) -> hudi_py.Table:
    given = {**QUICK, **(options or {})}
    keywords = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": "mor", **more}
    rows = [{"id": key, "ts": 10, "v": f"v{key}", "n": float(key), "p": "xy"[key % 2]} for key in range(1, 7)]
    hudi_py.write(path, pa.Table.from_pylist(rows, schema), "upsert", given, **keywords)
    return hudi_py.open_table(path, given)


def rows_of(table: hudi_py.Table) -> dict[int, Row]:
    return {row["id"]: row for row in table.scan(columns=SCHEMA.names).to_table().to_pylist()}


def data_blocks(path: Path) -> Iterator[LogBlock]:
    storage = open_storage(str(path))
    for log in sorted(path.glob("*/.*.log.*")):
        blocks = read_blocks(storage, str(log.relative_to(path)), log.stat().st_size)
        yield from (block for block in blocks if block.type.is_data)


def columns(block: LogBlock) -> list[str]:
    names = [field["name"] for field in json.loads(block.header[HeaderKey.SCHEMA])["fields"]]
    return [name for name in names if not name.startswith("_hoodie")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "ordering", "index"),
    cases(
        [
            case
            for case in product((6, 8, 9), ("cow", "mor"), ("ts", None), ({}, BUCKETS, RECORDS))
            if case[:2] != (6, "mor") and not (case[0] == 6 and case[3] is RECORDS)
        ],
        "partial updates",
        1,
    ),
)
def test_rounds_of_updates_give_the_rows_of_a_dict(
    tmp_path: Path, version: int, kind: str, ordering: str | None, index: dict[str, str]
) -> None:
    rnd = random.Random(f"{version} {kind} {ordering} {index}")
    codec = {"hoodie.logfile.data.block.format": rnd.choice(["avro", "parquet"])}
    table = make(tmp_path / "t", {**index, **codec}, table_type=kind, table_version=version, ordering_by=ordering)
    model = rows_of(table)
    for number in range(7):
        # in logs, a late update sets the columns that no other update in them sets
        ts = rnd.randint(8, 14) if kind == "cow" else 10 + number
        names = [name for name in ("v", "n") if rnd.random() < 0.6]
        keys = rnd.sample(range(1, 10), 4)
        values: dict[str, Any] = {"v": f"w{number}", "n": rnd.choice([None, number / 2])}
        given = [{"id": key, "ts": ts, "p": "xy"[key % 2], **{name: values[name] for name in names}} for key in keys]
        if number == 5:
            table.delete([{"id": key, "p": "xy"[key % 2]} for key in keys])
            model = {key: row for key, row in model.items() if key not in keys}
            continue
        schema = pa.schema([field for field in SCHEMA if field.name in given[0]])
        table.upsert(pa.Table.from_pylist(given, schema), partial=True)
        for row in given:
            old = model.get(row["id"], dict.fromkeys(SCHEMA.names) | {"ts": 0})
            if ordering is None or row["ts"] >= old["ts"]:
                model[row["id"]] = {**old, **row}
        if number == 3 and kind == "mor":
            table.compact()
        if number == 6 and kind == "mor":
            table.log_compact(options={"hoodie.log.compaction.blocks.threshold": "2"})
        assert rows_of(table) == model
    assert table.metadata.verify().ok


def test_logs_have_only_the_columns_that_are_set_in_the_order_of_the_table(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    merging = table.merge([{"key": 1, "w": "a"}, {"key": 2, "w": "b"}, {"key": 9, "w": "c"}], "t.id = s.key")
    merging = merging.when_matched_update({"n": "t.n + 1", "v": "s.w"}, "s.w = 'a'").when_matched_update({"v": "'z'"})
    merged = merging.when_not_matched_insert({"id": "s.key", "ts": 5, "p": "'x'"}).execute()
    assert (merged.num_updated, merged.num_inserted) == (2, 1)
    blocks = list(data_blocks(tmp_path / "t"))
    assert [(block.is_partial, columns(block)) for block in blocks] == [(True, ["ts", "v", "n"])] * 2
    assert [rows_of(table)[key]["v"] for key in (1, 2, 9)] == ["a", "z", None]
    assert [rows_of(table)[key]["n"] for key in (1, 2, 9)] == [2.0, 2.0, None]


def test_new_rows_and_rows_of_deleted_keys_are_complete(tmp_path: Path) -> None:
    table = make(tmp_path / "t", BUCKETS)
    table.delete([{"id": 1, "p": "y"}])
    table.upsert([{"id": key, "ts": 11, "v": "new", "p": "xy"[key % 2]} for key in (1, 3, 9)], partial=True)
    partial = [block.is_partial for block in data_blocks(tmp_path / "t")]
    assert set(partial) == {True, False}
    assert [rows_of(table)[key]["n"] for key in (1, 3, 9)] == [None, 3.0, None]
    simple = make(tmp_path / "simple")  # the index finds the key in the base file
    simple.delete([{"id": 1, "p": "y"}])
    simple.upsert([{"id": 1, "ts": 11, "v": "new", "p": "y"}], partial=True)
    assert rows_of(simple)[1]["n"] is None


@pytest.mark.parametrize(
    ("options", "version", "set_"),
    [
        ({"hoodie.spark.sql.merge.into.partial.updates": "false"}, 9, {"v": "'z'"}),
        ({}, 6, {"v": "'z'"}),
        (RECORDS, 9, {"v": "'z'"}),
        ({}, 8, {name: f"t.{name}" for name in SCHEMA.names}),
    ],
)
def test_merges_that_log_whole_rows(
    tmp_path: Path, options: dict[str, str], version: int, set_: dict[str, object]
) -> None:
    table = make(tmp_path / "t", options, table_version=version)
    table.merge([{"id": 1}], "id").when_matched_update(set_).execute()
    assert [(block.is_partial, columns(block)) for block in data_blocks(tmp_path / "t")] == [(False, SCHEMA.names)]


def test_a_merge_does_not_read_the_columns_that_it_does_not_need(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    file = next((tmp_path / "t" / "y").glob("*.parquet"))
    table.merge([{"id": 1}], "id").when_matched_update({"v": "'z'"}).execute()
    assert rows_of(table)[1] == {"id": 1, "ts": 10, "v": "z", "n": 1.0, "p": "y"}
    assert file.exists()


def test_a_filter_finds_rows_whose_values_are_in_several_files(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert([{"id": 1, "ts": 11, "v": "zz", "p": "y"}], partial=True)
    table.upsert([{"id": 1, "ts": 9, "n": 77.0, "p": "y"}], partial=True)  # late, but only it sets the column in a log
    found = table.scan(filter="v = 'zz' AND n = 77 AND ts = 11").to_table()
    assert found["id"].to_pylist() == [1]
    assert table.scan(filter="v = 'v1'").to_table().num_rows == 0


def test_what_is_refused(tmp_path: Path) -> None:
    row = [{"id": 1, "ts": 11, "v": "z", "p": "y"}]
    old = make(tmp_path / "old", table_version=6)
    with pytest.raises(UnsupportedTableError, match=r"^Cannot update only the columns id, ts, v, p of the table.*6"):
        old.upsert(row, partial=True)
    folding = make(tmp_path / "folding", {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    with pytest.raises(UnsupportedTableError, match=r"partial.update.mode=IGNORE_DEFAULTS already decides"):
        folding.upsert(row, partial=True)
    table = make(tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match="the data lacks the ordering column 'ts'"):
        table.upsert([{"id": 1, "v": "z", "p": "y"}], partial=True)
    with pytest.raises(SchemaMismatchError, match="'p' of the table is missing"):
        table.upsert([{"id": 1, "ts": 11, "v": "z"}], partial=True)
    moves = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    with pytest.raises(ConfigError, match="update.partition.path=true"):
        table.upsert(row, partial=True, options=moves)
    needed = make(tmp_path / "needed", schema=SCHEMA.set(3, pa.field("n", pa.float64(), nullable=False)))
    with pytest.raises(SchemaMismatchError, match="'n' of the table is missing in the data; it may not be null"):
        needed.upsert(row, partial=True)
    assert all(rows_of(each)[1]["v"] == "v1" for each in (old, folding, table, needed))


def test_parquet_blocks(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"hoodie.logfile.data.block.format": "parquet"})
    table.update({"v": "'z'"}, "id < 3")
    table.upsert([{"id": 5, "ts": 12, "n": 0.5, "p": "y"}], partial=True)
    blocks = list(data_blocks(tmp_path / "t"))
    assert {block.type for block in blocks} == {BlockType.PARQUET}
    assert sorted((block.is_partial, len(columns(block))) for block in blocks) == [(False, 5), (False, 5), (True, 4)]
    before = rows_of(table)
    assert [before[key]["v"] for key in (1, 2, 5)] == ["z", "z", "v5"]
    assert before[5]["n"] == 0.5
    assert table.log_compact(options={"hoodie.log.compaction.blocks.threshold": "2"}).num_file_groups == 1
    assert list(data_blocks(tmp_path / "t"))[-1].type is BlockType.PARQUET
    assert rows_of(table) == before
    table.compact()
    assert rows_of(table) == before
    with pytest.raises(ConfigError, match="ordering column 'v' is text"):
        make(tmp_path / "text", {"hoodie.logfile.data.block.format": "parquet"}, ordering_by="v").upsert([])


@pytest.mark.parametrize(("kind", "index"), cases(product(("cow", "mor"), ({}, BUCKETS)), "routed partial updates", 1))
def test_rows_that_an_engine_spreads(tmp_path: Path, kind: str, index: dict[str, str]) -> None:
    tables = {name: make(tmp_path / name, index, table_type=kind) for name in ("alone", "routed", "staged")}
    given = [{"id": key, "ts": 11, "v": f"w{key}", "p": "xy"[key % 2]} for key in (1, 2, 3, 3, 8, 9)]
    data = pa.Table.from_pylist(given, pa.schema([field for field in SCHEMA if field.name != "n"]))
    options = {**QUICK, **index, "hoodie.py.write.partial.updates": "true"}
    tables["alone"].upsert(data, partial=True)
    write_routed(str(tmp_path / "routed"), data, "upsert", options)
    resolved = Options.resolve(options, Scope.WRITE)
    planned = plan_write(service_target(str(tmp_path / "staged"), resolved), data.schema)
    results = [run_task(planned, TaskId(at), data.slice(at * 3, 3).to_batches()) for at in range(2)]
    commit_write(planned, results)
    expected = rows_of(tables["alone"])
    assert (expected[1]["n"], expected[9]["n"]) == (1.0, None)
    assert rows_of(tables["routed"]) == rows_of(tables["staged"]) == expected
