"""Upserts and deletes that find keys by the record index, and in the base files of all partitions."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.file_stats import keys
from hudi_py.metadata import MetadataTable
from hudi_py.metadata.locations import Places, places_of
from hudi_py.model.names import PartitionPath
from hudi_py.storage import open_storage
from hudi_py.timeline.state import load_state
from hudi_py.transaction.metadata_drop import drop_metadata_table
from hudi_py.view import load_view
from hudi_py.write.index import IndexSettings, KeyLookup, base_files, open_index, record_index
from hudi_py.write.index.record_index import GlobalRecordIndex, PartitionRecordIndex
from hudi_py.write.rows import LocatedRows, TaggedRows
from tests.support.choice import cases
from tests.support.record_index import indexed, stored

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.metadata.index.column.stats.enable": "false"}
GLOBAL = {**QUICK, "hoodie.index.type": "record_index", "hoodie.metadata.record.index.enable": "true"}
MOVES = {**GLOBAL, "hoodie.record.index.update.partition.path": "true"}
SIMPLE_MOVES, BLOOM_MOVES = ({**GLOBAL, "hoodie.index.type": f"GLOBAL_{kind}"} for kind in ("SIMPLE", "BLOOM"))
SIMPLE_STAYS = {**SIMPLE_MOVES, "hoodie.simple.index.update.partition.path": "false"}
BLOOM_STAYS = {**BLOOM_MOVES, "hoodie.bloom.index.update.partition.path": "false"}
BY_PARTITION = {
    **QUICK,
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
}
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
TABLES = [(6, "mor"), (9, "cow"), (9, "mor")]


def rows(places: list[tuple[int, str]], ts: list[int], deleted: list[bool] | None = None) -> pa.Table:
    columns = {
        "k": pa.array([key for key, _ in places], pa.int64()),
        "p": pa.array([partition for _, partition in places], pa.string()),
        "ts": pa.array(ts, pa.int64()),
        "_hoodie_is_deleted": pa.array(deleted or [False] * len(ts), pa.bool_()),
    }
    return pa.table(columns)


def snapshot(path: str) -> list[tuple[int, str, str, int]]:
    found = hudi_py.open_table(path).scan(["k", "p", "_hoodie_partition_path", "ts"]).to_table().to_pylist()
    return sorted((row["k"], row["_hoodie_partition_path"], row["p"], row["ts"]) for row in found)


def make(path: Path, options: dict[str, str], kind: str = "cow", version: int = 9) -> str:
    data = rows([(key, f"p{key % 2}") for key in range(6)], [10] * 6)
    table: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}
    hudi_py.write(str(path), data, "upsert", options, table_type=kind, table_version=version, **table)
    return str(path)


@pytest.mark.parametrize("options", [GLOBAL, MOVES])
def test_all_batches_of_an_input_are_looked_up_at_once(
    tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t", options, "mor")
    asked: list[int] = []

    def noted(table: MetadataTable, keys: pa.StringArray, prefix: str | None) -> Places:
        asked.append(len(keys))
        return places_of(table, keys, prefix)

    monkeypatch.setattr(record_index, "places_of", noted)
    batches = [rows([(key, f"p{key // 2 % 2}")], [20 + key]) for key in (0, 1, 2, 7)]
    result = hudi_py.write(path, pa.concat_tables(batches), "upsert", options)
    assert (result.num_inserted, result.num_updated) == ((3, 1) if options is MOVES else (1, 3))
    assert asked == [4]
    moved = options is MOVES
    assert [(row[0], row[1]) for row in snapshot(path) if row[3] >= 20] == [
        (0, "p0"),
        (1, "p0" if moved else "p1"),
        (2, "p1" if moved else "p0"),
        (7, "p1"),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("options", [GLOBAL, SIMPLE_STAYS, BLOOM_STAYS], ids=lambda each: each["hoodie.index.type"])
def test_a_global_index_finds_keys_in_other_partitions(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    path = make(tmp_path / "t", options, kind)
    # key 1 stays in p1 with its new values; of the two rows for key 9 the one with the greater time counts
    data = rows([(1, "p0"), (0, "p0"), (9, "p0"), (9, "p1")], [11, 12, 14, 13])
    result = hudi_py.write(path, data, "upsert", {**options, **NEW_FILES})
    assert (result.num_inserted, result.num_updated) == (1, 2)
    expected = [(0, "p0", "p0", 12), (1, "p1", "p1", 11), (2, "p0", "p0", 10), (3, "p1", "p1", 10), (4, "p0", "p0", 10)]
    assert snapshot(path) == [*expected, (5, "p1", "p1", 10), (9, "p0", "p0", 14)]
    # a delete finds its row whatever partition it names
    hudi_py.write(path, rows([(2, "p1"), (5, "nowhere"), (77, "p0")], [0, 0, 0]), "delete", options)
    assert [row[0] for row in snapshot(path)] == [0, 1, 3, 4, 9]
    assert indexed(path) == stored(path)


@pytest.mark.parametrize(
    ("version", "kind", "ordered", "options"),
    cases(
        [
            (*table, ordered, options)
            for table in TABLES
            for ordered in (True, False)
            for options in (MOVES, SIMPLE_MOVES, BLOOM_MOVES)
        ],
        "rows move",
        3,
    ),
)
def test_rows_move_to_their_own_partition(
    tmp_path: Path, version: int, kind: str, ordered: bool, options: dict[str, str]
) -> None:
    chance = random.Random(f"{version} {kind} {ordered}")
    path = str(tmp_path / "t")
    table: dict[str, Any] = {"record_key": "k", "partition_by": "p", "table_type": kind, "table_version": version}
    if ordered:
        table["ordering_by"] = "ts"
    there: dict[int, tuple[str, int]] = {}
    for turn in range(6):
        # with times, a key may be twice in a write, in any partitions: the greatest time wins
        keys = [chance.randrange(10) for _ in range(6)] if ordered else chance.sample(range(10), 6)
        places = [(key, f"p{chance.randrange(3)}") for key in keys]
        stamps = chance.sample(range(20), 6) if ordered else [turn] * 6
        marks = [chance.random() < 0.25 for _ in keys]
        data = rows(places, stamps, marks)
        hudi_py.write(
            path, data, "upsert", {**options, **(NEW_FILES if turn % 2 else {})}, **(table if not turn else {})
        )
        versions = sorted(zip(keys, stamps, (partition for _, partition in places), marks, strict=True))
        winners = {key: (ts, partition, gone) for key, ts, partition, gone in versions}
        for key, (ts, partition, gone) in winners.items():
            if key in there and ordered and ts < there[key][1]:
                continue
            if gone:
                there.pop(key, None)
            else:
                there[key] = (partition, ts)
        assert snapshot(path) == sorted((key, at, at, ts) for key, (at, ts) in there.items()), turn
        assert indexed(path) == stored(path), turn


def test_a_key_in_two_partitions_has_no_place_in_an_index_over_all_of_them(tmp_path: Path) -> None:
    path = make(tmp_path / "t", QUICK)
    hudi_py.write(path, rows([(1, "p0")], [10]), "upsert", QUICK)
    options = {**QUICK, "hoodie.index.type": "GLOBAL_SIMPLE"}
    with pytest.raises(ConfigError, match="the record key '1' is in the file groups .* and this index needs keys"):
        hudi_py.write(path, rows([(1, "p0")], [11]), "upsert", options)
    hudi_py.write(path, rows([(2, "p1")], [11]), "upsert", options)
    assert [row[:2] for row in snapshot(path) if row[0] == 2] == [(2, "p1")]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_index_by_partition_finds_keys_within_it(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "t", BY_PARTITION, kind)
    result = hudi_py.write(path, rows([(1, "p0"), (0, "p0"), (9, "new")], [11, 12, 13]), "upsert", BY_PARTITION)
    assert (result.num_inserted, result.num_updated) == (2, 1)
    assert [row[:2] for row in snapshot(path) if row[0] in (0, 1, 9)] == [(0, "p0"), (1, "p0"), (1, "p1"), (9, "new")]
    hudi_py.write(path, rows([(1, "p1"), (9, "p0")], [0, 0]), "delete", BY_PARTITION)
    assert [row[:2] for row in snapshot(path) if row[0] in (1, 9)] == [(1, "p0"), (9, "new")]
    assert indexed(path, by_partition=True) == stored(path)


@pytest.mark.parametrize(
    ("version", "kind", "options", "everywhere"),
    cases(
        [
            (*table, options, options is not BY_PARTITION)
            for table in TABLES
            for options in (GLOBAL, MOVES, BY_PARTITION)
        ],
        "the index stays exact",
        4,
    ),
)
def test_the_index_stays_exact(
    tmp_path: Path, version: int, kind: str, options: dict[str, str], everywhere: bool
) -> None:
    chance = random.Random(f"{version} {kind} {everywhere}")
    options = {**options, "hoodie.metadata.compact.max.delta.commits": "3"}
    path = make(tmp_path / "t", options, kind, version)
    for turn in range(6):
        places = [(key, f"p{(key + (chance.random() < 0.3)) % 3}") for key in chance.sample(range(12), 5)]
        operation = chance.choice(["upsert", "upsert", "upsert", "delete", "insert_overwrite_table"])
        marks = [operation == "upsert" and chance.random() < 0.3 for _ in places]
        data = rows(places, [chance.randrange(5, 16) for _ in places], marks)
        hudi_py.write(path, data, operation, {**options, **(NEW_FILES if turn % 2 else {})})
        assert indexed(path, by_partition=not everywhere) == stored(path), (turn, operation)
        seen = [row[:1] if everywhere else row[:2] for row in snapshot(path)]
        assert len(set(seen)) == len(seen), (turn, operation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["SIMPLE", "RECORD_INDEX"])
@pytest.mark.parametrize("version", [6, 9])
def test_rows_of_a_pending_compaction_are_there(tmp_path: Path, version: int, kind: str) -> None:
    path = make(tmp_path / "t", GLOBAL, "mor", version)
    options = {**GLOBAL, **NEW_FILES, "hoodie.index.type": kind}
    hudi_py.write(path, rows([(2, "p0")], [0]), "delete", options)
    table = hudi_py.open_table(path)
    assert table.compaction.schedule() is not None
    gone = rows([(0, "p0"), (1, "p1"), (3, "p1")], [11, 9, 12], [True, True, True])
    hudi_py.write(path, gone, "upsert", options)
    hudi_py.write(path, rows([(5, "p1")], [0]), "delete", options)
    hudi_py.write(path, rows([(2, "p0"), (4, "p0")], [13, 14]), "upsert", options)
    assert [row[0] for row in snapshot(path)] == [1, 2, 4]
    assert indexed(path) == stored(path)
    table.compaction.run()
    assert [row[0] for row in snapshot(path)] == [1, 2, 4]
    assert indexed(path) == stored(path)


def test_base_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "t", GLOBAL, "mor")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a base file was read")

    monkeypatch.setattr(base_files, "open_base_file", fail)
    monkeypatch.setattr(keys, "iter_base_batches", fail)
    data = rows([(1, "p1"), (2, "p0")], [20, 21])
    assert hudi_py.write(path, data, "upsert", {**GLOBAL, **NEW_FILES}).num_updated == 2
    hudi_py.write(path, rows([(1, "p1")], [0]), "delete", GLOBAL)
    assert [row[0] for row in snapshot(path)] == [0, 2, 3, 4, 5]


def test_what_does_not_go_with_the_table_is_refused(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", {**QUICK, "hoodie.metadata.enable": "false"})
    row = rows([(1, "p1")], [20])
    none = {**QUICK, "hoodie.metadata.enable": "false"}
    with pytest.raises(ConfigError, match=r"no record index; set hoodie.metadata.global.record.level"):
        hudi_py.write(plain, row, "upsert", {**none, "hoodie.index.type": "RECORD_INDEX"})
    # within a partition base files tell as well
    result = hudi_py.write(plain, row, "upsert", {**none, "hoodie.index.type": "RECORD_LEVEL_INDEX"})
    assert result.num_updated == 1
    by_partition = make(tmp_path / "by_partition", BY_PARTITION)
    with pytest.raises(ConfigError, match="by partition; write with hoodie.index.type=RECORD_LEVEL_INDEX"):
        hudi_py.write(by_partition, row, "upsert", {**QUICK, "hoodie.index.type": "RECORD_INDEX"})


def tagged(slices: list[Any], file_ids: list[str | None]) -> TaggedRows:
    keys = pa.table({"_hoodie_record_key": [str(number) for number in range(len(file_ids))]})
    return LocatedRows(keys, pa.array(file_ids, pa.string())).tagged(slices)


def test_places_in_file_groups_that_are_gone_are_none(tmp_path: Path) -> None:
    path = make(tmp_path / "t", GLOBAL)
    storage = open_storage(path)
    state = load_state(storage)
    view = load_view(state)
    settings = IndexSettings("GLOBAL_RECORD_LEVEL_INDEX", is_global=True, by_record_index=True)
    index = open_index(KeyLookup(state, view, settings))
    assert isinstance(index, GlobalRecordIndex)
    there = index.locate(pa.array(["1", "2", "77", "1"]))
    assert there[0].to_pylist() == ["p1", "p0", None, "p1"]
    slices = {partition: view.latest_slices(PartitionPath(partition)) for partition in ("p0", "p1")}
    found = tagged(slices["p1"], [there[1][0].as_py(), None])
    assert [numbers.tolist() for _, numbers in found.found] == [[0]]
    assert found.new.tolist() == [1]

    both = [*slices["p0"], *slices["p1"]]
    ids = [str(slice_.file_id) for slice_ in both]
    mixed = tagged(both, [ids[1], None, ids[0], ids[1], None, ids[0]])
    assert {str(slice_.file_id): numbers.tolist() for slice_, numbers in mixed.found} == {
        ids[1]: [0, 3],
        ids[0]: [2, 5],
    }
    assert mixed.new.tolist() == [1, 4]

    class _Shrunk:
        def latest_slices(self, partition: str) -> list[Any]:
            return [] if partition == "p1" else slices[partition]

    shrunk = GlobalRecordIndex(index._metadata, _Shrunk())  # type: ignore[arg-type]
    partitions, file_ids = shrunk.locate(pa.array(["1", "2", "77"]))
    assert partitions.to_pylist() == [None, "p0", None]
    assert [file_id is None for file_id in file_ids.to_pylist()] == [True, False, True]


OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("late", [False, True], ids=["before the look-up", "after it"])
@pytest.mark.parametrize("options", [GLOBAL, BY_PARTITION], ids=["global", "by-partition"])
def test_an_index_that_another_writer_drops_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], late: bool
) -> None:
    """A second attempt makes a new one. Before the look-up, its files are gone; after it, the keys may be outdated."""
    path = make(tmp_path / "t", options, "mor")
    left = [1]
    find = record_index._RecordIndex._locate_keys

    def dropping(self: Any, *arguments: Any) -> Any:
        found = find(self, *arguments) if late else None
        if left:
            left.pop()
            drop_metadata_table(open_storage(path), drop_indexes=True)
        return found or find(self, *arguments)

    monkeypatch.setattr(record_index._RecordIndex, "_locate_keys", dropping)
    update = rows([(1, "p1"), (2, "p0")], [20, 20])
    with pytest.raises(ConflictError, match="has dropped the metadata partition record_index"):
        hudi_py.write(path, update, "upsert", {**options, **OPTIMISTIC})
    left.append(1)
    retried = {**options, **OPTIMISTIC, "hoodie.write.num.retries.on.conflict.failures": "2"}
    assert hudi_py.write(path, update, "upsert", retried).retries == 1
    assert [ts for _, _, _, ts in snapshot(path)] == [10, 20, 20, 10, 10, 10]
    assert len(stored(path)) == 6


def test_without_a_record_index_by_partition_base_files_are_searched(tmp_path: Path) -> None:
    """Which do not know what logs have deleted."""
    settings = IndexSettings("RECORD_LEVEL_INDEX", by_record_index=True)
    for options, used in ((QUICK, False), (BY_PARTITION, True)):
        state = load_state(open_storage(make(tmp_path / str(used), options, "mor")))
        assert settings.uses_record_index(state.config) == used
        index = open_index(KeyLookup(state, load_view(state), settings))
        assert isinstance(index, PartitionRecordIndex) == used


@pytest.mark.parametrize("options", [GLOBAL, BY_PARTITION], ids=["global", "by-partition"])
def test_the_file_groups_tell_where_the_definition_is_that_of_a_former_index(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """Apache Hudi keeps the definition when it drops an index and makes one of the other kind."""
    path, by_partition = make(tmp_path / "t", options), options is BY_PARTITION
    place = tmp_path / "t" / ".hoodie" / ".index_defs" / "index.json"
    right = json.loads(place.read_text())
    former = copy.deepcopy(right)
    former["indexDefinitions"]["record_index"]["indexOptions"] = {"isPartitioned": str(not by_partition).lower()}
    place.write_text(json.dumps(former))
    hudi_py.write(path, rows([(1, "p1"), (9, "p1")], [20, 20]), "upsert", options)
    assert indexed(path, by_partition=by_partition) == stored(path)
    assert hudi_py.open_table(path).metadata.verify("record_index").ok
    assert json.loads(place.read_text()) == right
