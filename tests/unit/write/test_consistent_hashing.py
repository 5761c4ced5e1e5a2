"""Tables with consistent hashing: the buckets of each partition are stored with it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.formats.keys.buckets import hash_values
from hudi_py.formats.keys.hash_ring import HashRing, decode_changes, encode_changes
from hudi_py.formats.keys.hashing import xx_hash32
from hudi_py.model.layout import HASHING_METADATA
from hudi_py.services.bucket_resize.plan import BucketGroup, BucketLimits, Resizing, planned
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringSlice
from tests.support.choice import cases
from tests.support.record_index import indexed, stored
from tests.unit.write.test_bucket_index import QUICK, TABLE, Model, rows, run, snapshot

CONSISTENT = {
    **QUICK,
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}


def metadata(path: str, partition: str) -> Path:
    return Path(path, HASHING_METADATA, partition, "00000000000000.hashing_meta")


def check_keys(path: str) -> None:
    """Each row is in the file group of its bucket."""
    names = ["_hoodie_record_key", "_hoodie_file_name", "_hoodie_partition_path"]
    read = hudi_py.open_table(path).scan(names).to_table()
    assert read.num_rows
    for partition in set(read["_hoodie_partition_path"].to_pylist()):
        newest = max(file for file in metadata(path, partition).parent.glob("*.hashing_meta") if file.name < "2999")
        ring = HashRing.decode(newest.read_bytes(), partition)
        some = read.filter(pa.compute.equal(read["_hoodie_partition_path"], partition))
        numbers = ring.numbers(some["_hoodie_record_key"].combine_chunks(), ("k",), ("k",))
        wanted = [ring.file_id(number) for number in numbers.tolist()]
        assert [re.split("_", name)[0] for name in some["_hoodie_file_name"].to_pylist()] == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "tasks", "index"),
    cases([(v, t, i) for v in (6, 8, 9) for t in (0, 2) for i in (False, True)], "hash buckets", 2),
)
def test_random_operations(tmp_path: Path, version: int, tasks: int, index: bool) -> None:
    """Upserts, inserts and deletes, also as tasks, with compaction and with a record index, which stays exact."""
    chance = random.Random(f"{version} {tasks}")
    path, model = str(tmp_path / "t"), Model()
    options = {**CONSISTENT, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    if index:
        options |= {"hoodie.metadata.record.index.enable": "true"}
    for turn, operation in enumerate(["upsert", "insert", "delete", "upsert", "bulk_insert", "upsert"], 1):
        adds = "insert" in operation
        keys = [20 + 10 * turn + key for key in range(5)] if adds else chance.sample(range(14), 6)
        data = rows(keys, turn, chance.sample(keys, 2) if operation == "upsert" else [])
        table = {**TABLE, "table_type": "mor", "table_version": version} if turn == 1 else {}
        run(path, data, operation, options, 0 if turn == 1 else tasks, **table)
        model.apply(operation, data)
        assert snapshot(path) == model.expected(), (turn, operation)
        check_keys(path)
        assert hudi_py.open_table(path).metadata.verify().ok, (turn, operation)
        if index:
            assert indexed(path) == stored(path), (turn, operation)


def test_statements_place_new_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 1, 2], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    table = hudi_py.open_table(path, CONSISTENT)
    merge = table.merge(rows([2, 3, 4, 5], 2), on="k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert snapshot(path) == [("k0", 1), ("k1", 1), ("k2", 2), ("k3", 2), ("k4", 2), ("k5", 2)]
    check_keys(path)


def test_the_buckets_of_the_newest_clustering_count(tmp_path: Path) -> None:
    """Those of a clustering that is pending or was undone do not."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 2, 4], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    other = HashRing.first("a", 2).encode()
    metadata(path, "a").with_name("29990101000000000.hashing_meta").write_bytes(other)
    hudi_py.write(path, rows([0, 6], 2), "upsert", CONSISTENT)
    check_keys(path)
    metadata(path, "a").with_name("29990101000000000.commit").touch()
    with pytest.raises(ConfigError, match="none of the 2 hash buckets of the partition"):
        hudi_py.write(path, rows([0, 6], 3), "upsert", CONSISTENT)


def test_a_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 2], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    hudi_py.write(path, rows([0, 1, 3], 2), "upsert", {**CONSISTENT, "hoodie.bucket.index.num.buckets": "7"})
    found = [HashRing.decode(metadata(path, each).read_bytes(), each).num_buckets for each in "ab"]
    assert found == [4, 7]
    check_keys(path)


def test_what_hash_buckets_cannot_do(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(ConfigError, match="needs a merge-on-read table"):
        hudi_py.write(path, rows([0], 1), "upsert", CONSISTENT, table_type="cow", **TABLE)
    assert not Path(path).exists()
    hudi_py.write(path, rows([0, 1], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    simple = {**CONSISTENT, "hoodie.index.bucket.engine": "SIMPLE"}
    with pytest.raises(ConfigError, match="set hoodie.index.bucket.engine=CONSISTENT_HASHING"):
        hudi_py.write(path, rows([0], 2), "upsert", simple)
    modes = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    with pytest.raises(ConfigError, match="NON_BLOCKING_CONCURRENCY_CONTROL', which needs SIMPLE"):
        hudi_py.write(path, rows([0], 2), "upsert", {**CONSISTENT, **modes})
    other = metadata(path, "c")
    other.parent.mkdir()
    other.write_bytes(b"{}")
    with pytest.raises(CorruptFileError, match="no metadata of hash buckets"):
        hudi_py.write(path, rows([0], 2).set_column(1, "p", pa.array(["c"])), "upsert", CONSISTENT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "tasks", "index"),
    cases([(v, t, i) for v in (6, 8, 9) for t in (0, 2) for i in (False, True)], "hash overwrites", 1),
)
def test_overwrites(tmp_path: Path, version: int, tasks: int, index: bool) -> None:
    """They give the buckets new file groups, which writes go on to use; undoing one brings the old ones back."""
    path, model = str(tmp_path / "t"), Model()
    options = {**CONSISTENT, "hoodie.metadata.record.index.enable": "true"} if index else CONSISTENT
    steps = [
        "upsert",
        "insert_overwrite_table",
        "upsert",
        "insert_overwrite",
        "delete",
        "insert_overwrite_table",
        "upsert",
    ]
    for turn, operation in enumerate(steps, 1):
        data = rows(list(range(turn, turn + 8)), turn)
        table = {**TABLE, "table_type": "mor", "table_version": version} if turn == 1 else {}
        run(path, data, operation, options, 0 if turn == 1 else tasks, **table)
        model.apply("insert_overwrite_table" if operation == "insert_overwrite" else operation, data)
        assert snapshot(path) == model.expected(), (turn, operation)
        check_keys(path) if model.rows else None
        assert hudi_py.open_table(path).metadata.verify().ok, (turn, operation)
        if index:
            assert indexed(path) == stored(path), (turn, operation)
    before = snapshot(path)
    deleted = hudi_py.open_table(path, options).delete_partition("a")
    assert snapshot(path) == [(key, ts) for key, ts in before if int(key[1:]) % 2]
    hudi_py.write(path, rows([2], 9), "upsert", options)
    assert snapshot(path) == sorted([("k2", 9), *((key, ts) for key, ts in before if int(key[1:]) % 2)])
    check_keys(path)
    markers = {file.name for file in metadata(path, "a").parent.iterdir()}
    assert {f"{deleted.instant}.hashing_meta", f"{deleted.instant}.commit"} <= markers
    hudi_py.open_table(path, options).rollback(deleted, with_newer=True)
    assert snapshot(path) == before
    assert not any(
        name.startswith(str(deleted.instant)) for name in {f.name for f in metadata(path, "a").parent.iterdir()}
    )
    hudi_py.write(path, rows([2], 9), "upsert", options)
    assert snapshot(path) == sorted({**dict(before), "k2": 9}.items())
    check_keys(path)


def test_two_writers_make_the_buckets_of_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second with another number of buckets fails before it commits."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    first = HashRing.first

    def slow(partition: str, count: int) -> HashRing:
        metadata(path, partition).parent.mkdir()
        metadata(path, partition).write_bytes(first(partition, 9).encode())
        return first(partition, count)

    monkeypatch.setattr(HashRing, "first", slow)
    with pytest.raises(ConflictError, match="another write has created 9 hash buckets"):
        hudi_py.write(path, rows([1], 2), "upsert", CONSISTENT)
    monkeypatch.undo()
    hudi_py.write(path, rows([1], 2), "upsert", CONSISTENT)
    assert snapshot(path) == [("k0", 1), ("k1", 2)]


def test_hashes() -> None:
    """The values that xxHash's specification and its implementations give."""
    texts = ["", "a", "abc", "Nobody inspects the spammish repetition", "é😀" * 9]
    wanted = [0x02CC5D05, 0x550D7456, 0x32D153FF, 0xE2293B2F, _xx_hash32(("é😀" * 9).encode())]
    assert xx_hash32(pa.array(texts)).tolist() == wanted
    chance = random.Random(5)
    more = ["".join(chance.choices("az09é€😀", k=chance.randrange(70))) for _ in range(300)]
    assert xx_hash32(pa.array(more, pa.large_string())[7:]).tolist() == [_xx_hash32(t.encode()) for t in more[7:]]


def test_keys_of_several_columns_are_hashed_by_their_values() -> None:
    ring = HashRing.first("p", 1000)
    keys = ["a:1,b:2", "a:x,y,b:2", "a:__null__,b:__empty__", "a:1", "plain", "a:é,b:😀"]
    for hashed in (("a", "b"), ("b",)):
        texts = ["".join("null" if v is None else v for v in hash_values(key, hashed)) for key in keys]
        hashes = [_xx_hash32(text.encode()) & 0x7FFFFFFF for text in texts]
        wanted = [next(at for at, end in enumerate(ring.ends) if end >= found) for found in hashes]
        assert ring.numbers(pa.array(keys), hashed, ("a", "b")).tolist() == wanted


def test_a_bucket_ends_with_its_greatest_hash() -> None:
    low, high = sorted(("a", "b"), key=lambda key: _xx_hash32(key.encode()) & 0x7FFFFFFF)
    ends = tuple(_xx_hash32(key.encode()) & 0x7FFFFFFF for key in (low, high))
    assert HashRing("p", ends, ("x", "y"), 2).numbers(pa.array([low, high]), ("id",), ("id",)).tolist() == [0, 1]
    assert HashRing("p", (ends[0] - 1, ends[0]), ("x", "y"), 2).numbers(
        pa.array([low, high]), ("id",), ("id",)
    ).tolist() == [1, 0]


def _xx_hash32(data: bytes) -> int:
    """The specification, step by step."""
    mask, one, two, three, four, five = 2**32 - 1, 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def turned(value: int, bits: int) -> int:
        return ((value << bits) | ((value & mask) >> (32 - bits))) & mask

    at, found = 0, five
    if len(data) >= 16:
        lanes = [(one + two) & mask, two, 0, -one & mask]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at + 4 * lane : at + 4 * lane + 4], "little")
                lanes[lane] = turned((lanes[lane] + word * two) & mask, 13) * one & mask
            at += 16
        found = sum(turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    found = (found + len(data)) & mask
    while at + 4 <= len(data):
        found = turned((found + int.from_bytes(data[at : at + 4], "little") * three) & mask, 17) * four & mask
        at += 4
    for byte in data[at:]:
        found = turned((found + byte * five) & mask, 11) * one & mask
    for bits, prime in ((15, two), (13, three)):
        found = (found ^ (found >> bits)) * prime & mask
    return found ^ (found >> 16)


def test_an_overwrite_gives_the_buckets_new_file_groups(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 1, 2], 1), "upsert", CONSISTENT, table_type="mor", **TABLE)
    hudi_py.write(path, rows([0, 4], 2), "insert_overwrite", CONSISTENT)
    assert snapshot(path) == [("k0", 2), ("k1", 1), ("k4", 2)]
    hudi_py.write(path, rows([0, 1, 2], 3), "upsert", CONSISTENT)
    assert snapshot(path) == [("k0", 3), ("k1", 3), ("k2", 3), ("k4", 2)]
    check_keys(path)


def test_which_buckets_are_split_and_merged() -> None:
    ring = HashRing.first("p", 6)
    sizes = {0: 900, 1: 5, 2: 5, 3: 50, 4: 700, 5: 5}

    def plan(most: int, least: int, **changed: int) -> Resizing | None:
        return planned(
            ring, {**sizes, **{int(key[1:]): size for key, size in changed.items()}}, BucketLimits(most, least, 500, 20)
        )

    assert plan(8, 6) == Resizing((0, 4), ((1, 2),))
    assert plan(7, 6) == Resizing((0,), ((1, 2),))
    assert plan(6, 6) is None
    assert plan(6, 5) == Resizing((), ((1, 2),))
    assert plan(6, 1, b0=5) == Resizing((), ((5, 0, 1, 2),))
    assert plan(6, 4, b0=5) == Resizing((), ((5, 0, 1),))
    assert plan(6, 1, b0=5, b1=16) == Resizing((), ((5, 0, 1),)), "the whole is no larger than the limit when one joins"
    changes = (*ring.split("1", 4), *ring.merged("1", (5, 0, 1)))
    assert decode_changes(encode_changes(changes), "x") == changes
    after = ring.changed("1", changes)
    assert after.ends == (ring.ends[1], ring.ends[2], ring.ends[3], (ring.ends[3] + ring.ends[4]) // 2, ring.ends[4])
    assert (after.prefixes[1:3], after.sequence, after.instant) == (ring.prefixes[2:4], 1, "1")
    keys = pa.array([f"k{key}" for key in range(300)])
    old, new = ring.numbers(keys, ("k",), ("k",)), after.numbers(keys, ("k",), ("k",))
    assert {(a, b) for a, b in zip(old.tolist(), new.tolist(), strict=True)} == {
        *((0, 0), (1, 0), (5, 0), (2, 1), (3, 2), (4, 3), (4, 4))
    }
    assert HashRing.decode(after.encode(), "x") == after
    with pytest.raises(ValueError, match="bucket 0 has one hash"):
        HashRing("p", (0, 2**31 - 1), ("a", "b"), 2).split("1", 0)


RESIZED = {
    "hoodie.parquet.max.file.size": "100",
    "hoodie.bucket.index.max.num.buckets": "9",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.merge.threshold": "0",
}
MERGED = {**RESIZED, "hoodie.bucket.index.split.threshold": "900", "hoodie.bucket.index.merge.threshold": "900"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "index"), cases([(v, i) for v in (6, 8, 9) for i in (False, True)], "resized hash buckets", 1)
)
def test_buckets_are_split_and_merged(tmp_path: Path, version: int, index: bool) -> None:
    """Rows keep their meta columns but for the file; writes and undoing go on from either state."""
    path, model = str(tmp_path / "t"), Model()
    options = {**CONSISTENT, "hoodie.metadata.record.index.enable": "true"} if index else CONSISTENT
    kept = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "k", "ts"]

    def rings() -> dict[str, int]:
        newest = {each: max(metadata(path, each).parent.glob("*.hashing_meta")) for each in "ab"}
        return {each: len(HashRing.decode(file.read_bytes(), each).ends) for each, file in newest.items()}

    def same() -> None:
        assert snapshot(path) == model.expected()
        check_keys(path)
        assert hudi_py.open_table(path).metadata.verify().ok
        if index:
            assert indexed(path) == stored(path)

    def run_on(keys: list[int], turn: int) -> None:
        data = rows(keys, turn, keys[:1])
        hudi_py.write(path, data, "upsert", options)
        model.apply("upsert", data)
        same()

    first = rows(list(range(40)), 1)
    hudi_py.write(path, first, "upsert", options, table_type="mor", table_version=version, **TABLE)
    model.apply("upsert", first)
    run_on(list(range(0, 60, 3)), 2)
    table = hudi_py.open_table(path, options)
    assert table.resize_buckets(options=RESIZED).num_split == 8
    assert rings() == {"a": 8, "b": 8}
    same()
    run_on(list(range(0, 70, 5)), 3)
    before = sorted(map(str, table.scan(kept).to_table().to_pylist()))
    report = table.resize_buckets(options=RESIZED)
    assert (report.num_split, rings()) == (2, {"a": 9, "b": 9})
    assert sorted(map(str, table.scan(kept).to_table().to_pylist())) == before
    run_on(list(range(0, 70, 7)), 4)
    table.compact()
    report = table.resize_buckets(options=MERGED)
    assert report.num_merged >= 2
    assert max(rings().values()) < 9
    same()
    run_on(list(range(30)), 5)
    state = snapshot(path)
    after = table.resize_buckets(options=RESIZED)
    if after.instant is not None:
        table.rollback(str(after.instant))
    assert snapshot(path) == state
    run_on(list(range(20, 40)), 6)
    assert table.resize_buckets(options={**RESIZED, "hoodie.bucket.index.max.num.buckets": "1"}).instant is None


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '[{"value": -1, "fileIdPrefix": "a", "tag": "REPLACE"}]',
        '[{"value": 1, "fileIdPrefix": "../a", "tag": "REPLACE"}]',
        '[{"value": 1, "fileIdPrefix": "", "tag": "REPLACE"}]',
    ],
)
def test_changes_that_are_none(text: str) -> None:
    with pytest.raises(CorruptFileError, match="Cannot read the plan: no changes of hash buckets"):
        decode_changes(text, "the plan")


def test_the_buckets_of_a_plan_are_those_of_its_partition() -> None:
    changes = encode_changes(HashRing.first("p", 2).split("1", 0))
    extra = {"clustering.group.partition": "p", "clustering.group.child.node": changes}
    found = BucketGroup.of(ClusteringGroup((ClusteringSlice("p", "a-0"),), extra=extra))
    assert found is not None
    assert len(found.new.ends) == 2
    assert BucketGroup.of(ClusteringGroup((ClusteringSlice("p", "a-0"),))) is None
    with pytest.raises(CorruptFileError, match="it has other partitions"):
        BucketGroup.of(ClusteringGroup((ClusteringSlice("q", "a-0"),), extra=extra))
