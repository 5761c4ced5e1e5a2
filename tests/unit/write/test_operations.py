"""What the operations write: files, log blocks and statistics, as Apache Hudi 1.2.0 does for the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError, TableExistsError, TableNotFoundError, UnsupportedTableError
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, decode_deletes, read_blocks, read_content
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.names import PartitionPath
from hudi_py.storage import open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.write.operations import bulk_insert

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
NEW_FILES = {**QUICK, "hoodie.parquet.small.file.limit": "0"}
EVERY = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]


def rows(keys: list[int], ts: list[int], v: list[int] | None = None, *, deleted: bool | None = None) -> pa.Table:
    columns: dict[str, Any] = {"k": keys, "p": ["z"] * len(keys), "ts": ts, "v": v or keys}
    table = pa.table(
        {name: pa.array(values) if values else pa.array([], pa.int64()) for name, values in columns.items()}
    )
    if not keys:
        table = table.set_column(1, "p", pa.array([], pa.string()))
    if deleted is not None:
        table = table.append_column("_hoodie_is_deleted", pa.array([deleted] * len(keys), pa.bool_()))
    return table


def make(path: Path, version: int = 9, kind: str = "cow", data: pa.Table | None = None, **more: Any) -> str:
    arguments: dict[str, Any] = {
        "record_key": "k",
        "partition_by": "p",
        "ordering_by": "ts",
        "table_type": kind,
        "table_version": version,
        **more,
    }
    hudi_py.write(str(path), rows([1, 2, 3, 4], [10] * 4) if data is None else data, "upsert", QUICK, **arguments)
    return str(path)


def commits(path: str) -> list[CommitMetadata]:
    storage = open_storage(path)
    timeline = load_timeline(storage, load_table_config(storage))
    return [read_commit_metadata(storage, timeline.layout, instant) for instant in timeline.write_completed]


def last_stats(path: str) -> list[WriteStat]:
    return list(commits(path)[-1].stats)


def snapshot(path: str) -> dict[int, int]:
    found = hudi_py.open_table(path).scan(["k", "v"]).to_table().to_pylist()
    result = {row["k"]: row["v"] for row in found}
    assert len(result) == len(found), "a key twice"
    return result


@pytest.mark.parametrize(("version", "kind"), EVERY)
def test_first_write(tmp_path: Path, version: int, kind: str) -> None:
    path = make(tmp_path / "t", version, kind)
    (stat,) = last_stats(path)
    assert (stat.prev_commit, stat.num_writes, stat.num_inserts, stat.num_updates) == ("null", 4, 4, 0)
    assert stat.file_size == stat.total_write_bytes == (tmp_path / "t" / stat.path).stat().st_size
    table = hudi_py.open_table(path).scan().to_table()
    (instant,) = hudi_py.open_table(path).timeline.write_completed
    assert set(table["_hoodie_commit_time"].to_pylist()) == {instant.time}
    assert len(set(table["_hoodie_commit_seqno"].to_pylist())) == 4
    assert table["_hoodie_record_key"].to_pylist() == ["1", "2", "3", "4"]
    assert set(table["_hoodie_partition_path"].to_pylist()) == {"z"}
    assert set(table["_hoodie_file_name"].to_pylist()) == {stat.path.partition("/")[2]}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_copy_on_write_upsert_keeps_newer_rows(tmp_path: Path, version: int) -> None:
    path = make(tmp_path / "t", version)
    before = {row["k"]: row for row in hudi_py.open_table(path).scan().to_table().to_pylist()}
    result = hudi_py.write(path, rows([1, 2, 3, 7], [9, 10, 11, 1], [100, 200, 300, 700]), "upsert", NEW_FILES)
    assert (result.num_inserted, result.num_updated, result.num_deleted, result.num_files) == (1, 2, 0, 2)
    assert snapshot(path) == {1: 1, 2: 200, 3: 300, 4: 4, 7: 700}
    merged = next(stat for stat in last_stats(path) if stat.prev_base_file)
    assert merged.prev_commit == before[1]["_hoodie_commit_time"]
    assert merged.prev_base_file == before[1]["_hoodie_file_name"]
    assert (merged.num_writes, merged.num_updates, merged.num_inserts) == (4, 2, 0)
    after = {row["k"]: row for row in hudi_py.open_table(path).scan().to_table().to_pylist()}
    for key in (1, 4):  # untouched or newer than what came: their meta columns stay, but for the file's name
        name = merged.path.partition("/")[2]
        assert after[key] == {**before[key], "_hoodie_file_name": name}
    assert after[2]["_hoodie_commit_time"] == result.instant


def test_copy_on_write_deletes_by_marker_and_by_operation(tmp_path: Path) -> None:
    path = make(tmp_path / "t", data=rows([1, 2, 3, 4], [10] * 4, deleted=False))
    # key 1: older than the stored row, so it stays; key 8 is not there
    result = hudi_py.write(path, rows([1, 2, 8], [9, 10, 11], deleted=True), "upsert", NEW_FILES)
    assert (result.num_deleted, result.num_inserted, result.num_files) == (1, 0, 1)
    assert snapshot(path) == {1: 1, 3: 3, 4: 4}
    # the operation deletes whatever the ordering value, and needs no other columns
    result = hudi_py.write(path, pa.table({"k": [3, 4, 99], "p": ["z"] * 3}), "delete", QUICK)
    assert (result.num_deleted, result.num_files) == (2, 1)
    assert snapshot(path) == {1: 1}
    result = hudi_py.open_table(path).delete([{"k": 1, "p": "z"}], options=QUICK)
    assert result.num_deleted == 1
    assert snapshot(path) == {}
    assert last_stats(path)[0].num_writes == 0


def log_blocks(path: str, stat: WriteStat) -> list[tuple[BlockType, Any]]:
    storage = open_storage(path)
    found: list[tuple[BlockType, Any]] = []
    for block in read_blocks(storage, stat.path, stat.file_size):
        content = read_content(storage, block)
        if block.type is BlockType.AVRO:
            schema = json.loads(block.header[HeaderKey.SCHEMA])
            found.append((block.type, decode_log_content([content], schema).to_pylist()))
        else:
            found.append((block.type, decode_deletes(content, context="test")))
    return found


@pytest.mark.parametrize("version", [6, 8, 9])
def test_merge_on_read_appends_one_log_with_data_before_deletes(tmp_path: Path, version: int) -> None:
    path = make(tmp_path / "t", version, "mor", data=rows([1, 2, 3, 4], [10] * 4, deleted=False))
    (base,) = last_stats(path)
    data = pa.concat_tables([rows([2], [11], deleted=True), rows([1, 3], [9, 12], [100, 300], deleted=False)])
    result = hudi_py.write(path, data, "upsert", NEW_FILES)
    assert (result.num_inserted, result.num_updated, result.num_deleted, result.num_files) == (0, 2, 1, 1)
    (stat,) = last_stats(path)
    base_name = base.path.partition("/")[2]
    base_instant = base_name.rpartition("_")[2].partition(".")[0]
    name = stat.path.partition("/")[2]
    assert (stat.log_version, stat.log_offset) == (1, 0)
    if version == 6:
        assert name.startswith(f".{base.file_id}_{base_instant}.log.1_")
        assert (stat.prev_commit, stat.base_file) == (base_instant, base_name)
    else:
        assert name.startswith(f".{base.file_id}_{result.instant}.log.1_")
        assert (stat.prev_commit, stat.base_file) == (result.instant, "")
    assert stat.log_files == (name,)
    (first, records), (second, deletes) = log_blocks(path, stat)
    assert (first, second) == (BlockType.AVRO, BlockType.DELETE)
    assert [(row["k"], row["v"], row["_hoodie_file_name"]) for row in records] == [
        (1, 100, base.file_id),
        (3, 300, base.file_id),
    ]
    assert (deletes.keys.to_pylist(), deletes.partitions.to_pylist()) == (["2"], ["z"])
    assert deletes.ordering.to_pylist() == [11]
    assert snapshot(path) == {1: 1, 3: 300, 4: 4}


def test_logs_of_version_6_count_up_and_list_the_earlier_ones(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 6, "mor")
    for number in (1, 2, 3):
        hudi_py.write(path, rows([1], [10 + number], [number]), "upsert", NEW_FILES)
        (stat,) = last_stats(path)
        assert stat.log_version == number
        assert stat.log_files is not None
        assert len(stat.log_files) == number
    assert snapshot(path)[1] == 3


def test_logs_of_version_6_have_a_token_that_no_other_write_has(tmp_path: Path) -> None:
    """Apache Hudi takes over the token of the newest log it knows of: the name of its next one must be free."""
    path = make(tmp_path / "t", 6, "mor")
    tokens = []
    for ts in (20, 30):
        hudi_py.write(path, rows([1], [ts]), "upsert", QUICK)
        (stat,) = last_stats(path)
        tokens.append(stat.path.rpartition("_")[2])
    assert len(set(tokens)) == 2
    assert all(0 <= int(number) < 2**31 for token in tokens for number in token.split("-"))


def test_a_log_version_left_by_a_failed_write_is_not_used_again(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 6, "mor")
    (stat,) = last_stats(path)
    instant = stat.path.rpartition("_")[2].partition(".")[0]
    (tmp_path / "t" / "z" / f".{stat.file_id}_{instant}.log.4_1-0-1").write_bytes(b"")
    hudi_py.write(path, rows([1], [11]), "upsert", NEW_FILES)
    assert last_stats(path)[0].log_version == 5


def test_delete_operation_on_merge_on_read_is_unconditional(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 9, "mor")
    result = hudi_py.write(path, pa.table({"p": ["z", "z"], "k": [2, 77]}), "delete", QUICK)
    assert (result.num_deleted, result.num_files) == (1, 1)
    ((kind, deletes),) = log_blocks(path, last_stats(path)[0])
    assert kind is BlockType.DELETE
    assert deletes.keys.to_pylist() == ["2"]
    assert deletes.is_default.all()
    assert snapshot(path) == {1: 1, 3: 3, 4: 4}


def test_a_small_file_of_merge_on_read_is_rewritten_with_its_updates(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 9, "mor")
    result = hudi_py.write(path, rows([2, 5], [11, 1], [20, 50]), "upsert", QUICK)
    (stat,) = last_stats(path)
    assert stat.log_files is None
    assert (stat.num_inserts, stat.num_updates, stat.num_writes) == (1, 1, 5)
    assert commits(path)[-1].operation == "UPSERT"
    assert result.num_files == 1
    # a slice with logs is not: new rows make a new group
    hudi_py.write(path, rows([2], [12], [21]), "upsert", QUICK)
    hudi_py.write(path, rows([6], [1], [60]), "upsert", QUICK)
    assert last_stats(path)[0].prev_commit == "null"
    assert snapshot(path) == {1: 1, 2: 21, 3: 3, 4: 4, 5: 50, 6: 60}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_insert_keeps_duplicates_and_fills_small_files(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "t", 9, kind)
    data = pa.concat_tables([rows([1, 9, 9], [5, 5, 6], deleted=False), rows([8], [5], deleted=True)])
    result = hudi_py.write(path, data, "insert", QUICK)
    assert (result.num_inserted, result.num_updated, result.num_deleted) == (3, 0, 0)
    (stat,) = last_stats(path)
    assert (stat.num_writes, stat.num_inserts) == (7, 3)
    keys = hudi_py.open_table(path).scan(["k"]).to_table()["k"].to_pylist()
    assert sorted(keys) == [1, 1, 2, 3, 4, 9, 9]


def test_insert_without_duplicates_updates_the_small_file(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    result = hudi_py.write(
        path,
        rows([1, 10, 10], [10, 5, 6], [100, 1, 2]),
        "insert",
        {**QUICK, "hoodie.merge.allow.duplicate.on.inserts": "false"},
    )
    assert (result.num_inserted, result.num_updated) == (1, 1)
    assert snapshot(path) == {1: 100, 2: 2, 3: 3, 4: 4, 10: 2}


def test_filters_are_as_large_as_their_keys_need(tmp_path: Path) -> None:
    hudi_py.write(tmp_path / "t", rows([1, 2], [1, 1]), "insert", QUICK, record_key="k", partition_by="p")
    (file,) = (tmp_path / "t" / "z").glob("*.parquet")
    assert file.stat().st_size < 10_000
    more = {**QUICK, "hoodie.index.bloom.num_entries": "60000"}
    hudi_py.write(tmp_path / "u", rows([1, 2], [1, 1]), "insert", more, record_key="k", partition_by="p")
    (file,) = (tmp_path / "u" / "z").glob("*.parquet")
    assert file.stat().st_size > 400_000
    for table in ("t", "u"):
        hudi_py.write(tmp_path / table, rows([2, 3], [2, 2]), options={**QUICK, "hoodie.index.type": "BLOOM"})
        assert hudi_py.open_table(tmp_path / table).scan().count() == 3


def test_insert_combined_first(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, rows([9, 9], [6, 5], [1, 2]), "insert", {**NEW_FILES, "hoodie.combine.before.insert": "true"})
    assert snapshot(path)[9] == 1


@pytest.mark.parametrize("operation", ["bulk_insert", "insert_overwrite_table"])
def test_other_inserts_combined_first(tmp_path: Path, operation: str) -> None:
    path = make(tmp_path / "t")
    options = {**QUICK, "hoodie.combine.before.insert": "true"}
    result = hudi_py.write(path, rows([9, 9], [6, 5], [1, 2]), operation, options)
    assert (result.num_inserted, result.num_files) == (1, 1)
    assert last_stats(path)[0].prev_commit == "null"
    kept = {} if operation == "insert_overwrite_table" else {1: 1, 2: 2, 3: 3, 4: 4}
    assert snapshot(path) == {**kept, 9: 1}


def test_upsert_of_a_key_that_is_there_twice_updates_the_first_of_a_file(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, rows([1], [10], [11]), "insert", QUICK)
    hudi_py.write(path, rows([1], [10], [12]), "upsert", QUICK)
    values = hudi_py.open_table(path).scan(["v"], filter="k = 1").to_table()["v"].to_pylist()
    assert sorted(values) == [11, 12]


def test_rows_of_one_key_are_combined_before_an_upsert(tmp_path: Path) -> None:
    path = make(tmp_path / "t", data=rows([1, 1, 1], [2, 3, 3], [1, 2, 3]))
    assert snapshot(path) == {1: 3}
    hudi_py.write(path, rows([1, 1], [9, 8], [90, 80]), "upsert", QUICK)
    assert snapshot(path) == {1: 90}


def test_without_combining_every_row_of_a_new_key_is_kept(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    data = rows([9, 9], [1, 2])
    hudi_py.write(path, data, "upsert", {**NEW_FILES, "hoodie.combine.before.upsert": "false"})
    assert hudi_py.open_table(path).scan(filter="k = 9").count() == 2


@pytest.mark.parametrize(("version", "kind"), EVERY)
@pytest.mark.sampled(3)
def test_overwrite_is_one_replacecommit(tmp_path: Path, version: int, kind: str) -> None:
    path = make(tmp_path / "t", version, kind)
    hudi_py.write(path, rows([2], [20], [22]), "upsert", QUICK)
    groups = hudi_py.open_table(path).files()["file_id"].to_pylist()
    before = hudi_py.open_table(path)
    # from itself, while nothing of it is deleted
    result = before.insert_overwrite_table(before.scan(["k", "p", "ts", "v"], filter="k < 3"), options=QUICK)
    assert snapshot(path) == {1: 1, 2: 22}
    last = commits(path)[-1]
    assert last.operation == "INSERT_OVERWRITE_TABLE"
    assert last.replaced == {"z": tuple(sorted(groups))}
    assert result.num_inserted == 2
    assert all(stat.prev_commit == "null" for stat in last.stats)


def test_overwrite_with_nothing_empties_the_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, rows([], []), "insert_overwrite_table", QUICK)
    assert snapshot(path) == {}


def test_bulk_insert_streams_to_files_of_a_full_size(tmp_path: Path) -> None:
    total = 60_000
    schema = pa.schema([("k", pa.int64()), ("p", pa.string()), ("text", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, total, 10_000):
            keys = range(start, start + 10_000)
            yield pa.record_batch(
                [
                    pa.array(keys),
                    pa.array([f"p{k % 3}" for k in keys]),
                    pa.array([f"{k * 7919 % 1_000_003:x}" for k in keys]),
                ],
                schema=schema,
            )

    path = str(tmp_path / "t")
    result = hudi_py.write(
        path,
        pa.RecordBatchReader.from_batches(schema, batches()),
        "bulk_insert",
        {
            **QUICK,
            "hoodie.parquet.max.file.size": "100000",
            "hoodie.parquet.block.size": "100000",
            "hoodie.parquet.bloom.filter.enabled": "false",
        },
        record_key="k",
        partition_by="p",
    )
    assert result.num_inserted == total
    assert result.num_files == 6
    assert max(stat.file_size for stat in last_stats(path)) < 400_000
    table = hudi_py.open_table(path).scan(["k", "_hoodie_commit_seqno", "p"]).to_table()
    assert sorted(table["k"].to_pylist()) == list(range(total))
    assert len(set(table["_hoodie_commit_seqno"].to_pylist())) == total


@pytest.mark.parametrize("dictionary", ["true", "false"])
def test_pages_and_dictionaries_of_base_files(tmp_path: Path, dictionary: str) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"k": [f"k{number:06d}" for number in range(20_000)], "few": ["a", "b"] * 10_000})
    given = {**QUICK, "hoodie.parquet.page.size": "4096", "hoodie.parquet.dictionary.enabled": dictionary}
    hudi_py.write(path, data, "bulk_insert", given, record_key="k")
    (file,) = (each for each in Path(path).rglob("*.parquet") if ".hoodie" not in each.parts)
    group = pq.read_metadata(file).row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert columns["few"].has_dictionary_page is (dictionary == "true")
    assert columns["few"].statistics.max == "b"
    whole = {**QUICK, "hoodie.parquet.dictionary.enabled": dictionary}
    hudi_py.write(str(tmp_path / "whole"), data, "bulk_insert", whole, record_key="k")
    (other,) = (each for each in (tmp_path / "whole").rglob("*.parquet") if ".hoodie" not in each.parts)
    pages = [pq.read_metadata(each).row_group(0).column(5).total_uncompressed_size for each in (file, other)]
    assert pages[0] != pages[1]  # each page has a header, and of small dictionaries no values are left
    table = hudi_py.open_table(path)
    assert table.scan(filter="k = 'k012345'", meta=False).to_table().to_pylist() == [{"k": "k012345", "few": "b"}]
    assert table.scan(meta=False).to_table().sort_by("k") == data


def test_an_empty_write_commits_unless_told_otherwise(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    result = hudi_py.write(path, rows([], []), "upsert", QUICK)
    assert result.instant
    assert result.num_files == 0
    assert len(commits(path)) == 2
    result = hudi_py.write(path, rows([], []), "upsert", {**QUICK, "hoodie.allow.empty.commit": "false"})
    assert result.instant is None
    assert len(commits(path)) == 2


def test_schema_in_the_commit(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    first = commits(path)[0].extra["schema"]
    hudi_py.write(path, rows([1], [11]), "upsert", QUICK)
    assert commits(path)[1].extra["schema"] == first
    hudi_py.write(path, rows([1], [12]).append_column("new", pa.array(["x"])), "upsert", QUICK)
    names = [field["name"] for field in json.loads(commits(path)[2].extra["schema"])["fields"]]
    assert names == ["k", "p", "ts", "v", "new"]
    found = hudi_py.open_table(path).scan(["k", "new"]).to_table().to_pylist()
    assert {row["k"]: row["new"] for row in found} == {1: "x", 2: None, 3: None, 4: None}


def test_extra_metadata_from_options(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, rows([1], [11]), "upsert", {**QUICK, "_batch": "7"})
    assert commits(path)[-1].extra["_batch"] == "7"


def test_a_bad_row_leaves_nothing_behind(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    before = {file.name for file in (tmp_path / "t" / "z").iterdir()}
    with pytest.raises(SchemaMismatchError, match="null or empty"):
        hudi_py.write(path, pa.table({"k": pa.array([5, None]), "p": ["z"] * 2, "ts": [1] * 2, "v": [1] * 2}), "upsert")
    assert {file.name for file in (tmp_path / "t" / "z").iterdir()} == before
    assert snapshot(path) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert len(commits(path)) == 1


def test_an_error_of_the_source_rolls_back(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    good = rows([5], [1])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from good.to_batches()
        raise OSError("source went away")

    with pytest.raises(OSError, match="source went away"):
        hudi_py.write(path, pa.RecordBatchReader.from_batches(good.schema, batches()), "bulk_insert", QUICK)
    assert snapshot(path) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert len(list((tmp_path / "t" / "z").glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("sign", "text"),
    [("bucket ids", "bucket numbers"), ("folder", r"\.bucket_index"), ("log only", "no base file")],
)
def test_tables_of_another_index_are_refused_for_upsert(tmp_path: Path, sign: str, text: str) -> None:
    path = make(tmp_path / "t", 9, "mor")
    (stat,) = last_stats(path)
    folder = tmp_path / "t" / "z"
    if sign == "bucket ids":
        old = folder / stat.path.partition("/")[2]
        old.rename(folder / ("00000003" + old.name[8:]))
        for file in (tmp_path / "t" / ".hoodie" / "timeline").glob("*.deltacommit"):
            file.write_bytes(file.read_bytes().replace(old.name[:36].encode(), b"00000003" + old.name[8:36].encode()))
    elif sign == "folder":
        (tmp_path / "t" / ".hoodie" / ".bucket_index" / "x").mkdir(parents=True)
    else:
        name = stat.path.partition("/")[2]
        instant = name.rpartition("_")[2].partition(".")[0]
        (folder / f".aaaaaaaa-0000-0000-0000-000000000000-0_{instant}.log.1_0-0-0").write_bytes(b"")
    if sign != "log only":  # of a bucket index new groups would not be part, nor would new partitions
        before = sorted((tmp_path / "t").rglob("*"))
        elsewhere = pa.table({"k": [9], "p": ["new"], "ts": [1], "v": [9]})
        for operation in ("insert", "bulk_insert", "upsert", "delete"):
            with pytest.raises(ConfigError, match=text):
                hudi_py.write(path, elsewhere, operation, {**QUICK, "hoodie.metadata.enable": "true"})
        assert sorted((tmp_path / "t").rglob("*")) == before, "there must be no instant yet, nor a metadata table"
    listed = {"hoodie.metadata.enable": str(sign != "log only").lower()}  # the metadata table lacks a log laid there
    for operation in ("upsert", "delete"):
        with pytest.raises(ConfigError, match=text):
            hudi_py.write(path, rows([1], [11]), operation, {**QUICK, **listed})


def test_codecs_that_are_not_written_are_refused_first(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with pytest.raises(ConfigError, match="brotli"):
        hudi_py.write(path, rows([1], [11]), "upsert", {**QUICK, "hoodie.parquet.compression.codec": "brotli"})
    assert len(hudi_py.open_table(path).instants()) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.keygenerator.type", "GLOBAL_DELETE"),
        ("hoodie.table.base.file.format", "HFILE"),
    ],
)
def test_features_that_cannot_be_written_are_refused(tmp_path: Path, key: str, value: str) -> None:
    path = make(tmp_path / "t")
    update_table_config(open_storage(path), {key: value})
    with pytest.raises(UnsupportedTableError, match=value):
        hudi_py.write(path, rows([1], [11]), "upsert", QUICK)
    assert len(commits(path)) == 1


def test_options_that_contradict_the_table_or_each_other(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with pytest.raises(ConfigError, match=r"recordkey\.field"):
        hudi_py.write(path, rows([1], [1]), "upsert", QUICK, record_key="v")
    with pytest.raises(ConfigError, match="record_key='k' contradicts"):
        hudi_py.write(path, rows([1], [1]), "upsert", {"hoodie.datasource.write.recordkey.field": "v"}, record_key="k")
    with pytest.raises(ConfigError, match="operation='insert' contradicts"):
        hudi_py.write(path, rows([1], [1]), "insert", {"hoodie.datasource.write.operation": "upsert"})


def test_create_table_then_write(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int32())])
    table = hudi_py.create_table(path, schema, record_key="k", partition_by="p", table_type="mor")
    assert [field.name for field in table.schema][5:] == ["k", "p", "v"]
    assert table.scan().count() == 0
    assert table.upsert([{"k": 1, "p": "a", "v": 2}], options=QUICK).num_inserted == 1
    assert table.scan(["k", "v"]).to_table().to_pylist() == [{"k": 1, "v": 2}]
    with pytest.raises(TableExistsError, match="there is one already"):
        hudi_py.create_table(path, schema, record_key="k")


def test_delete_needs_a_table_and_its_keys(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="there is no table; check the path"):
        hudi_py.write(str(tmp_path / "none"), rows([1], [1]), "delete", record_key="k")
    path = make(tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match="'p' is missing"):
        hudi_py.write(path, pa.table({"k": [1]}), "delete", QUICK)


def test_the_first_write_refuses_before_it_makes_a_table(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="all null"):
        hudi_py.write(str(tmp_path / "t"), [{"k": 1, "x": None}], record_key="k")
    assert not (tmp_path / "t" / ".hoodie").exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"record_key": "kee"}, "'kee', which is needed as a record key"),
        ({"record_key": "raw"}, "cannot be a record key"),
        ({"partition_by": "q"}, "'q', which is needed as a partition value"),
        ({"ordering_by": "when"}, "Ordering column 'when'"),
        ({"ordering_by": "ts,tags"}, "Ordering column 'tags' .* has the type list"),
        ({"ordering_by": "raw", "table_type": "mor"}, "Ordering column 'raw' .* has the type binary"),
        ({"partition_by": "p:hash"}, "Partition field p:hash .* has the type .hash.; supported:"),
        ({"partition_by": "p,p"}, "partition fields p,p: one of them occurs twice"),
        ({"options": {"hoodie.parquet.compression.codec": "brotli"}}, "'brotli' is not supported"),
    ],
)
def test_columns_that_do_not_fit_the_options_leave_no_table(tmp_path: Path, asked: dict[str, Any], told: str) -> None:
    """The next write, with the mistake mended, would contradict it."""
    data = rows([1], [1]).append_column("raw", pa.array([b"x"])).append_column("tags", pa.array([["x"]]))
    wanted: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}
    path = str(tmp_path / "t")
    with pytest.raises((SchemaMismatchError, ConfigError, UnsupportedTableError), match=told):
        hudi_py.write(path, data, **{**wanted, **asked})
    with pytest.raises((SchemaMismatchError, ConfigError, UnsupportedTableError), match=told):
        hudi_py.create_table(path, data.schema, **{**wanted, **asked})
    assert not (tmp_path / "t" / ".hoodie").exists()
    assert hudi_py.write(path, data, options=QUICK, **wanted).num_inserted == 1


@pytest.mark.parametrize(("kind", "stored"), [(pa.int64(), "int64"), (pa.string(), "string"), (pa.int32(), None)])
def test_updates_without_ordering_value_that_apache_hudi_could_not_read_are_refused(
    tmp_path: Path, kind: pa.DataType, stored: str | None
) -> None:
    """Its reader takes a null for the integer 0, and fails to compare that with other types than int and date."""

    def some(*ts: int | None, deleted: bool = False) -> pa.Table:
        data = rows([*range(1, len(ts) + 1)], [0] * len(ts), deleted=deleted)
        return data.set_column(2, "ts", pa.array(ts, pa.int64()).cast(kind))

    path = make(tmp_path / "t", kind="mor", data=some(5, 5))
    if stored is not None:
        with pytest.raises(SchemaMismatchError, match=f"'ts' is null in 1 of 2 rows .* values of type {stored}"):
            hudi_py.write(path, some(6, None), options=QUICK)
    else:
        hudi_py.write(path, some(6, None), options=QUICK)
    hudi_py.write(path, some(None, None, deleted=True), options=QUICK)  # deletes count whatever came before
    assert hudi_py.open_table(path).scan().count() == 0
    cow = make(tmp_path / "cow", data=some(5, None))
    hudi_py.write(cow, some(None, 6), options=QUICK)
    assert sorted(hudi_py.open_table(cow).scan(columns=["ts"]).to_table()["ts"].cast(pa.string()).to_pylist()) == [
        "5",
        "6",
    ]


@pytest.mark.parametrize(("asked", "keys"), [("false", ["k:1", "k:2"]), ("true", ["1", "2"])])
def test_single_complex_key_takes_the_form_of_existing_rows(tmp_path: Path, asked: str, keys: list[str]) -> None:
    path = str(tmp_path / "t")
    options = {
        **QUICK,
        "hoodie.datasource.write.keygenerator.type": "COMPLEX",
        "hoodie.write.complex.keygen.new.encoding": asked,
    }
    data = [{"k": 1, "p": "z"}, {"k": 2, "p": "z"}]
    hudi_py.write(path, data, "upsert", options, record_key="k", partition_by="p", table_version=8)
    result = hudi_py.write(path, data, "upsert", QUICK)  # whatever the options of this write say
    assert result.num_updated == 2
    found = hudi_py.open_table(path).scan().to_table()["_hoodie_record_key"].to_pylist()
    assert sorted(found) == keys


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_both_indexes_find_every_key(tmp_path: Path, index: str) -> None:
    path = str(tmp_path / "t")
    keys = [f"{'é' * (k % 3)}{k * 7919 % 1009}" for k in range(500)]
    data = pa.table({"k": keys, "v": list(range(500))})
    options = {**NEW_FILES, "hoodie.index.type": index}
    hudi_py.write(path, data.slice(0, 200), "upsert", options, record_key="k")
    hudi_py.write(path, data.slice(200, 200), "upsert", options)
    result = hudi_py.write(path, data.slice(100), "upsert", options)
    assert (result.num_updated, result.num_inserted) == (300, 100)
    assert hudi_py.open_table(path).scan().count() == 500


@pytest.mark.parametrize(
    ("operation", "mode", "combined", "is_sorted"),
    [
        ("bulk_insert", "GLOBAL_SORT", "false", True),
        ("bulk_insert", "partition_sort", "true", True),
        ("bulk_insert", "PARTITION_PATH_REPARTITION_AND_SORT", "false", False),
        ("insert_overwrite_table", "GLOBAL_SORT", "false", True),
        ("insert", "GLOBAL_SORT", "false", False),
    ],
)
@pytest.mark.sampled(3)
def test_sort_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, mode: str, combined: str, is_sorted: bool
) -> None:
    """Rows of a partition go to its files in order of their keys, so that no two files overlap."""
    monkeypatch.setattr(
        bulk_insert, "steps", lambda batch: (batch.slice(at, 25) for at in range(0, batch.num_rows, 25))
    )
    monkeypatch.setattr(bulk_insert, "CHUNK_BYTES", 2_000)
    options = {
        **QUICK,
        "hoodie.bulkinsert.sort.mode": mode,
        "hoodie.combine.before.insert": combined,
        "hoodie.parquet.max.file.size": "1000",
        "hoodie.parquet.block.size": "1000",
        "hoodie.copyonwrite.record.size.estimate": "10",
        "hoodie.py.write.threads": "4",
    }
    keys = [(at * 79) % 400 for at in range(400)]
    data = pa.table({"k": keys, "p": ["ab"[key % 2] for key in keys], "ts": keys, "v": keys})
    path = str(tmp_path / "t")
    hudi_py.write(path, data, operation, options, record_key="k", partition_by="p", ordering_by="ts")
    for part in "ab":
        files = [
            pq.read_table(file)["_hoodie_record_key"].to_pylist() for file in (tmp_path / "t" / part).glob("*.parquet")
        ]
        files.sort(key=min)
        assert len(files) > 1 or not is_sorted
        found = [key for file in files for key in file]
        assert sorted(found) == sorted(str(key) for key in keys if "ab"[key % 2] == part)
        assert (found == sorted(found)) == is_sorted


def test_a_bulk_insert_keeps_within_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held counts, also rows of a rare partition, whose batches have long been written otherwise."""
    budget, size = 4 << 20, 20_000
    held, arrow = [], []
    before = pa.total_allocated_bytes()
    add = bulk_insert._Spreader.add

    def adding(self: bulk_insert._Spreader, partition: PartitionPath, some: pa.RecordBatch) -> None:
        add(self, partition, some)
        held.append(self.num_bytes)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            keys = np.arange(number * size, (number + 1) * size)
            parts = np.where(keys % 200 == 0, keys % 7 + 10, keys % 3)
            texts = pa.array(np.char.add("a text of some length, then a number: ", keys.astype(str)))
            yield pa.record_batch([pa.array(keys), pa.array(parts), texts], ["k", "p", "text"])
            arrow.append(pa.total_allocated_bytes() - before)

    monkeypatch.setattr(bulk_insert._Spreader, "add", adding)
    path = str(tmp_path / "t")
    schema = pa.schema([("k", pa.int64()), ("p", pa.int64()), ("text", pa.string())])
    options = {**QUICK, "hoodie.py.write.memory.max.bytes": str(budget), "hoodie.py.write.threads": "2"}
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    result = hudi_py.write(path, reader, "bulk_insert", options, record_key="k", partition_by="p")
    assert result.num_inserted == hudi_py.open_table(path).scan().count() == 20 * size
    assert budget // 2 < max(held) <= budget
    assert max(arrow) < 4 * budget  # with incoming batches, and what is being encoded, of 40 MB in all
