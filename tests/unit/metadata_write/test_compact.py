"""Slices of the metadata table compacted: what Apache Hudi makes of the same files, and what a dict says."""

from __future__ import annotations

import io
import json
import random
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import decode_values, encode_log_content, encode_values
from hudi_py.formats.hfile import read_hfile, write_hfile
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes
from hudi_py.merge import CommittedInstants, scan_log
from hudi_py.metadata_write.encoding.records import ARROW_SCHEMA, SCHEMA_JSON, combine_stats, covers
from hudi_py.metadata_write.encoding.values import AVRO_SCHEMA, is_current, with_file_name
from hudi_py.metadata_write.maintenance.compact import RecordCounts, compact_base_file, compact_logs, merge_slice
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.metadata import decode_compaction_plan, read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.golden import tables
from tests.support.choice import cases

EVERYTHING = CommittedInstants("99999999999999999", frozenset())
NAME = "g-0000-0_0-1-1_00000000000000002.hfile"


def base_file(partition: PartitionPath, name: str, size: int) -> BaseFile:
    parsed = parse_base_file_name(name)
    assert parsed is not None
    return BaseFile(partition, parsed, size)


def log_file(partition: PartitionPath, name: str, size: int) -> LogFile:
    parsed = parse_log_file_name(name)
    assert parsed is not None
    return LogFile(partition, parsed, size)


def decoded(data: bytes) -> dict[bytes, dict[str, Any]]:
    """Records by key, without fields that are null; files of a partition as a dict."""
    file = read_hfile(data)
    entries = file.scan()
    rows = [row for batch in decode_values(entries.values, json.loads(file.schema or "")) for row in batch.to_pylist()]
    found = {}
    for key, row in zip(entries.keys.to_pylist(), rows, strict=True):
        if row["filesystemMetadata"] is not None:
            row["filesystemMetadata"] = dict(row["filesystemMetadata"])
        found[key] = plain(row)
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if part is not None}
    return value


@pytest.mark.parametrize("name", ["v9_mor_mdt_compaction", "v6_cow_mdt_compaction"])
def test_apache_hudi_makes_the_same_of_the_same_files(name: str, tmp_path: Path) -> None:
    root = tables.load()[name].extract(tmp_path)
    storage = LocalStorage(f"{root}/.hoodie/metadata")
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    compared = 0
    for instant in timeline.completed:
        if instant.action is not Action.COMMIT:
            continue
        (plan_path,) = timeline.layout.plan_paths(instant.time, Action.COMPACTION)[:1]
        plan = decode_compaction_plan(storage.read(plan_path))
        commit = read_commit_metadata(storage, timeline.layout, instant)
        stats = {stat.file_id: stat for stat in commit.stats}
        for operation in plan.operations:
            partition = PartitionPath(operation.partition_path)
            sizes = {info.name: info.size for info in storage.list(partition)}
            stat = stats[FileId(operation.file_id)]
            base = None
            if operation.base_file:
                base = base_file(partition, operation.base_file, sizes[operation.base_file])
            logs = [log_file(partition, log, sizes[log]) for log in operation.log_files]
            logs.sort(key=lambda log: log.name.sort_key)
            piece = FileSlice(partition, FileId(operation.file_id), operation.base_instant, base, tuple(logs))
            sink = io.BytesIO()
            counts = compact_base_file(
                storage, piece, sink, file_name=stat.path.rpartition("/")[2], committed=EVERYTHING
            )
            assert decoded(sink.getvalue()) == ours(decoded(storage.read(stat.path)))
            assert counts.bytes == len(sink.getvalue())
            logs_read = stat.compacted
            assert logs_read is not None
            assert (counts.written, counts.deleted) == (stat.num_writes, stat.num_deletes)
            assert (counts.log_blocks, counts.log_records, counts.log_keys) == (
                logs_read.blocks,
                logs_read.records,
                logs_read.updated,
            )
            if name.startswith("v9"):  # Apache Hudi 0.15 counts whole files
                assert counts.log_bytes == logs_read.size
            compared += 1
    assert compared >= 7


def ours(records: dict[bytes, dict[str, Any]]) -> dict[bytes, dict[str, Any]]:
    """Apache Hudi 0.15 does not know whether bounds are tight."""
    for record in records.values():
        if "ColumnStatsMetadata" in record:
            record["ColumnStatsMetadata"].setdefault("isTightBound", False)
    return records


class Slice:
    """A slice of a file group of one partition, file by file."""

    def __init__(self, partition: str) -> None:
        self.storage = MemoryStorage(f"memory://{uuid.uuid4()}")
        self.partition = PartitionPath(partition)
        self.base: BaseFile | None = None
        self.logs: list[LogFile] = []

    def add_base(self, records: Mapping[str, bytes], block_bytes: int = 1 << 20) -> None:
        name = "g-0000-0_0-0-0_00000000000000000.hfile"
        data = hfile(records, block_bytes)
        self.storage.put(f"{self.partition}/{name}", data)
        self.base = base_file(self.partition, name, len(data))

    def add_log(self, *blocks: bytes) -> None:
        name = f".g-0000-0_{len(self.logs) + 1:017}.log.1_0-0-0"
        self.storage.put(f"{self.partition}/{name}", b"".join(blocks))
        self.logs.append(log_file(self.partition, name, sum(map(len, blocks))))

    def header(self, schema: str = SCHEMA_JSON) -> dict[HeaderKey, str]:
        return {HeaderKey.INSTANT_TIME: f"{len(self.logs) + 1:017}", HeaderKey.SCHEMA: schema}

    def block(self, records: Mapping[str, bytes], block_bytes: int = 1 << 20) -> bytes:
        return encode_block(BlockType.HFILE, self.header(), hfile(records, block_bytes))

    def deletes(self, keys: list[str]) -> bytes:
        content = encode_deletes(pa.array(keys, pa.string()), pa.array([""] * len(keys), pa.string()), None)
        return encode_block(BlockType.DELETE, self.header(), content)

    def with_logs_compacted(self) -> Slice:
        """The same with one log file in the place of all."""
        other = Slice(str(self.partition))
        other.storage, other.base = self.storage, self.base
        if self.logs:
            whole = FileSlice(self.partition, FileId("g-0000-0"), "0", self.base, tuple(self.logs))
            done = compact_logs(self.storage, whole, f"{len(self.logs) + 1:017}", committed=EVERYTHING)
            other.logs = list(self.logs)
            # what is replaced may still be there
            other.add_log(done.data)
        return other

    def compact(self, committed: CommittedInstants = EVERYTHING) -> tuple[dict[bytes, dict[str, Any]], RecordCounts]:
        sink = io.BytesIO()
        piece = FileSlice(self.partition, FileId("g-0000-0"), "0", self.base, tuple(self.logs))
        storage: Storage = self.storage
        counts = compact_base_file(storage, piece, sink, file_name=NAME, committed=committed)
        found = decoded(sink.getvalue())
        assert {row.pop("_hoodie_file_name") for row in found.values()} <= {NAME}
        return found, counts


def hfile(records: Mapping[str, bytes], block_bytes: int = 1 << 20) -> bytes:
    ordered = sorted((key.encode(), value) for key, value in records.items())
    keys = pa.array([key for key, _ in ordered], pa.binary())
    values = pa.array([value for _, value in ordered], pa.binary())
    return write_hfile(keys, values, schema_json=SCHEMA_JSON, block_bytes=block_bytes)


def encoded(type_: int, **fields: Any) -> bytes:
    columns = {name: pa.array([value], ARROW_SCHEMA.field(name).type) for name, value in fields.items()}
    batch = pa.RecordBatch.from_pydict({"key": [""], "type": pa.array([type_], pa.int32()), **columns})
    value: bytes = encode_values(batch, AVRO_SCHEMA)[0].as_py()
    return value


def files(**names: int) -> bytes:
    """Sizes by name; of a removal -1."""
    return encoded(2, filesystemMetadata=[(n, {"size": max(s, 0), "isDeleted": s < 0}) for n, s in names.items()])


def there(row: dict[str, Any]) -> dict[str, int]:
    """Names that are not removed."""
    return {name: info["size"] for name, info in row["filesystemMetadata"].items() if not info["isDeleted"]}


def location(place: str) -> bytes:
    return encoded(5, recordIndexMetadata={"partitionName": place, "fileIdEncoding": 0})


def stats(low: int | None, high: int | None, count: int, *, tight: bool = False, deleted: bool = False) -> bytes:
    def bound(value: int | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {f"member{n}": {"value": value} if n == 2 else None for n in range(13)}

    record = {
        "fileName": "p",
        "columnName": "c",
        "minValue": bound(low),
        "maxValue": bound(high),
        "valueCount": count,
        "nullCount": 1,
        "totalSize": 2,
        "totalUncompressedSize": 3,
        "isDeleted": deleted,
        "isTightBound": tight,
    }
    return encoded(6, ColumnStatsMetadata=record)


@pytest.mark.slow
@pytest.mark.parametrize("seed", cases(range(12), "any slice", 3))
def test_any_slice_holds_what_a_dict_does(seed: int) -> None:
    rng = random.Random(seed)
    piece = Slice("record_index")
    keys = [f"k{n:03}" for n in range(rng.choice([5, 60, 200]))]

    def some() -> dict[str, bytes]:
        return {key: location(f"{key}-{rng.random()}") for key in rng.sample(keys, rng.randrange(len(keys)))}

    expected: dict[str, bytes] = {}
    if seed % 4:
        expected = some()
        piece.add_base(expected, rng.choice([100, 1000, 1 << 20]))
    base = set(expected)
    touched: set[str] = set()
    for _ in range(rng.randrange(5)):
        blocks = []
        for _ in range(rng.randrange(1, 3)):
            if rng.random() < 0.4:
                gone = rng.sample(keys, rng.randrange(len(keys)))
                blocks.append(piece.deletes(gone))
                expected = {key: value for key, value in expected.items() if key not in gone}
                touched |= set(gone)
            else:
                added = some()
                blocks.append(piece.block(added, rng.choice([100, 1 << 20])))
                expected = {**expected, **added}
                touched |= set(added)
        piece.add_log(*blocks)
    found, counts = piece.compact()
    assert {key.decode(): row["recordIndexMetadata"]["partitionName"] for key, row in found.items()} == {
        key: decoded(hfile({key: value}))[key.encode()]["recordIndexMetadata"]["partitionName"]
        for key, value in expected.items()
    }
    assert piece.with_logs_compacted().compact()[0] == found
    assert counts.written == len(expected)
    assert counts.deleted == len(base - set(expected))
    assert counts.inserted == len(set(expected) - base)
    assert counts.updated == len(base & set(expected) & touched)
    assert counts.log_keys == len(touched)


def test_files_are_united_and_removals_count_against_what_is_older() -> None:
    piece = Slice("files")
    piece.add_base({"p": files(a=5, b=3, d=4), "q": files(a=1)})
    piece.add_log(piece.block({"p": files(a=-1, c=7, e=-1), "r": files(z=-1)}))
    piece.add_log(piece.block({"p": files(b=2, c=9, d=-1, f=1)}))
    piece.add_log(piece.block({"p": files(d=-1, f=-1, a=6)}))
    found, counts = piece.compact()
    again, _ = piece.with_logs_compacted().compact()
    assert {key: there(row) for key, row in again.items()} == {key: there(row) for key, row in found.items()}
    listed = {key: row["filesystemMetadata"] for key, row in found.items()}
    assert listed == {
        b"p": {
            "a": {"size": 6, "isDeleted": False},
            "b": {"size": 3, "isDeleted": False},
            "c": {"size": 9, "isDeleted": False},
            "d": {"size": 0, "isDeleted": True},
            "e": {"size": 0, "isDeleted": True},
        },
        b"q": {"a": {"size": 1, "isDeleted": False}},
        b"r": {"z": {"size": 0, "isDeleted": True}},
    }
    assert (counts.written, counts.updated, counts.inserted, counts.log_records, counts.log_keys) == (3, 1, 1, 4, 2)


def test_a_partition_without_files_keeps_its_record() -> None:
    piece = Slice("files")
    piece.add_base({"p": files(a=5)})
    piece.add_log(piece.block({"p": files(a=-1)}))
    assert piece.compact()[0] == {b"p": {"key": "", "type": 2, "filesystemMetadata": {}}}


def test_statistics_are_united_until_tight_bounds_come() -> None:
    piece = Slice("partition_stats")
    piece.add_base({"a": stats(5, 9, 10), "b": stats(1, 2, 10), "c": stats(None, None, 1), "d": stats(1, 9, 4)})
    piece.add_log(
        piece.block({"a": stats(3, 7, 10), "b": stats(8, 9, 1, tight=True), "d": stats(None, None, 0, deleted=True)})
    )
    piece.add_log(piece.block({"a": stats(4, 20, 1), "b": stats(0, 1, 2), "c": stats(7, 7, 1), "d": stats(2, 3, 1)}))
    found, _ = piece.compact()
    assert set(piece.with_logs_compacted().compact()[0]) == set(found)
    seen = {}
    for key, row in found.items():
        record = row["ColumnStatsMetadata"]
        low, high = (record.get(name, {}).get("member2", {}).get("value") for name in ("minValue", "maxValue"))
        seen[key] = (low, high, record["valueCount"], record["nullCount"], record["isTightBound"])
    assert seen == {
        b"a": (3, 20, 21, 3, False),
        b"b": (0, 9, 3, 2, False),
        b"c": (7, 7, 2, 2, False),
        b"d": (2, 3, 1, 1, False),
    }


def test_decimals_of_two_scales_are_united() -> None:
    def of(low: str, high: str, detail: str) -> bytes:
        scale = int(detail.partition(",")[2])
        numbers = {"minValue": low, "maxValue": high}
        bounds = {
            name: {"member5": {"value": int(Decimal(text).scaleb(scale)).to_bytes(4, "big", signed=True)}}
            for name, text in numbers.items()
        }
        kind = {"typeOrdinal": 10, "additionalInfo": detail}
        counts = {"valueCount": 1, "nullCount": 0, "totalSize": 1, "totalUncompressedSize": 1}
        record = {**bounds, **counts, "valueType": kind, "isDeleted": False, "isTightBound": False}
        return encoded(6, ColumnStatsMetadata=record)

    for records in (
        [("-3.00", "7.00", "10,2"), ("1.1005", "1.1005", "12,4")],
        [("1.1005", "7", "12,4"), ("-3", "2", "10,2")],
    ):
        (value,) = combine_stats(pa.array([of(*each) for each in records]), np.array([0]))
        united = decoded(hfile({"k": value.as_py()}))[b"k"]["ColumnStatsMetadata"]
        assert united["valueType"]["additionalInfo"] == "12,4"
        digits = [united[name]["member5"]["value"] for name in ("minValue", "maxValue")]
        assert digits == [(-30_000).to_bytes(2, "big", signed=True), (70_000).to_bytes(3, "big", signed=True)]
        assert all(
            covers(united, decoded(hfile({"k": of(*each)}))[b"k"]["ColumnStatsMetadata"], "maxValue")
            for each in records
        )


def test_texts_are_united_by_their_bytes() -> None:
    """As readers compare them; by UTF-16, as in Java, the first of these is the greater one."""
    counts = {"valueCount": 1, "nullCount": 0, "totalSize": 1, "totalUncompressedSize": 1}
    records = []
    for text in ("\uffff", "\U00010000"):
        bounds = {name: {"member6": {"value": text}} for name in ("minValue", "maxValue")}
        records.append(encoded(6, ColumnStatsMetadata={**bounds, **counts, "isDeleted": False, "isTightBound": False}))
    (value,) = combine_stats(pa.array(records), np.array([0]))
    united = decoded(hfile({"k": value.as_py()}))[b"k"]["ColumnStatsMetadata"]
    assert [united[name]["member6"]["value"] for name in ("minValue", "maxValue")] == ["\uffff", "\U00010000"]


def test_statistics_of_two_types_are_refused() -> None:
    other = encoded(3, ColumnStatsMetadata={
        "minValue": {"member6": {"value": "x"}}, "maxValue": {"member6": {"value": "x"}},
        "isDeleted": False, "isTightBound": False,
    })  # fmt: skip
    with pytest.raises(UnsupportedTableError, match="several types"):
        combine_stats(pa.array([stats(1, 1, 1), other]), np.array([0]))


def test_secondary_index_entries_that_are_removed_vanish() -> None:
    piece = Slice("secondary_index_x")
    here, gone = (encoded(7, SecondaryIndexMetadata={"isDeleted": flag}) for flag in (False, True))
    piece.add_base({"a$1": here, "b$2": here})
    piece.add_log(piece.block({"a$1": gone, "c$3": gone, "d$4": here}))
    found, counts = piece.compact()
    assert piece.with_logs_compacted().compact()[0] == found
    assert set(found) == {b"b$2", b"d$4"}
    assert counts.deleted == 1


def test_only_blocks_of_committed_instants_count() -> None:
    piece = Slice("record_index")
    piece.add_log(piece.block({"a": location("1")}))
    piece.add_log(piece.block({"a": location("2"), "b": location("2")}))
    committed = CommittedInstants("", frozenset([f"{1:017}"]))
    found, counts = piece.compact(committed)
    assert {key: row["recordIndexMetadata"]["partitionName"] for key, row in found.items()} == {b"a": "1"}
    assert counts.log_blocks == 1


def test_a_slice_without_records_makes_a_file_without_records() -> None:
    piece = Slice("record_index")
    piece.add_log(piece.deletes([]))
    found, counts = piece.compact()
    assert found == {}
    assert counts == RecordCounts(log_blocks=1, bytes=counts.bytes)


def test_avro_blocks_carry_their_keys() -> None:
    piece = Slice("record_index")
    piece.add_base({"a": location("old"), "b": location("old")})
    rows = [
        {"key": key, "type": 5, "recordIndexMetadata": {"partitionName": place, "fileIdEncoding": 0}}
        for key, place in [("c", "new"), ("a", "first"), ("a", "second")]
    ]
    batch = pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)
    content = encode_log_content(batch, AVRO_SCHEMA)
    piece.add_log(encode_block(BlockType.AVRO, piece.header(), content))
    found, _ = piece.compact()
    assert {key: row["recordIndexMetadata"]["partitionName"] for key, row in found.items()} == {
        b"a": "second",
        b"b": "old",
        b"c": "new",
    }
    assert {row["key"] for row in found.values()} == {""}


def test_what_is_no_metadata_record_is_refused() -> None:
    unknown = json.loads(SCHEMA_JSON)
    unknown["fields"].append({"name": "novel", "type": ["null", "int"], "default": None})
    piece = Slice("record_index")
    batch = pa.RecordBatch.from_pylist([{"key": "", "type": 5}], ARROW_SCHEMA)
    values = encode_values(batch, unknown)
    content = write_hfile(pa.array(["a"]), values, schema_json=json.dumps(unknown))
    piece.add_log(encode_block(BlockType.HFILE, piece.header(json.dumps(unknown)), content))
    with pytest.raises(UnsupportedTableError, match="novel"):
        piece.compact()
    assert not is_current(json.dumps(unknown))
    parquet = Slice("record_index")
    parquet.add_log(encode_block(BlockType.PARQUET, parquet.header(), b"x"))
    with pytest.raises(UnsupportedTableError, match="PARQUET"):
        parquet.compact()
    for value in (b"", b"\0\0\0\0", b"\0\0\0\0\2", b"\0\0\0\0\2\x81", b"\4\0\0\0\0\0", b"\0\0\0\0\2\x06ab"):
        with pytest.raises(CorruptFileError, match="meta columns"):
            with_file_name(pa.array([value]), "f")


def test_meta_columns_of_any_length_are_replaced() -> None:
    row = {name: "x" * n for name, n in zip(ARROW_SCHEMA.names[:5], (0, 1, 63, 64, 8000), strict=True)}
    full = encode_values(pa.RecordBatch.from_pylist([{**row, "key": "", "type": 5}], ARROW_SCHEMA), AVRO_SCHEMA)
    plain_value = encode_values(pa.RecordBatch.from_pylist([{"key": "", "type": 5}], ARROW_SCHEMA), AVRO_SCHEMA)
    both = pa.concat_arrays([pa.array([b"zz"]), full, plain_value])[1:]
    renamed = with_file_name(both, "n" * 70)
    assert renamed[0] == renamed[1]
    (batch,) = decode_values(renamed, AVRO_SCHEMA)
    assert batch.column("_hoodie_file_name").to_pylist() == ["n" * 70] * 2
    assert batch.column("_hoodie_commit_time").null_count == 2


def test_small_blocks_are_merged_at_once() -> None:
    piece = Slice("record_index")
    piece.add_base({"c": location("p0")})
    for key in ("a", "e", "b", "d"):
        piece.add_log(piece.block({key: location("p1")}))
    whole = FileSlice(piece.partition, FileId("g-0000-0"), "0", piece.base, tuple(piece.logs))
    (merged,) = merge_slice(piece.storage, whole, scan_log(piece.storage, whole.log_files, committed=EVERYTHING))
    assert merged.keys.to_pylist() == [b"a", b"b", b"c", b"d", b"e"]
