"""Tables with change data capture: what writes and compactions log, where it is noted, and what becomes of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks, read_content
from hudi_py.merge import LogMemory
from hudi_py.merge.merger import MergedRows
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import update_table_config
from tests.golden import tables

MODES = ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.clean.automatic": "false"}
Told = tuple[str, str | None, str | None]


def options(mode: str = MODES[2]) -> dict[str, str]:
    return {
        **QUICK,
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }


def rows(keys: list[str], v: int, *, deleted: bool = False, text: str = "") -> pa.Table:
    count = len(keys)
    columns = {"k": keys, "v": [v] * count, "n": [text] * count, "_hoodie_is_deleted": [deleted] * count}
    return pa.table(
        columns, schema=pa.schema({"k": "string", "v": "int64", "n": "string", "_hoodie_is_deleted": "bool"})
    )


def make(path: Path, version: int = 9, kind: str = "cow", mode: str = MODES[2], keys: str = "abcd") -> str:
    hudi_py.write(
        path,
        rows(list(keys), 10),
        "insert",
        options(mode),
        record_key="k",
        ordering_by="v",
        table_type=kind,
        table_version=version,
    )
    return str(path)


def commits(path: str) -> list[tuple[str, CommitMetadata]]:
    storage, timeline = open_storage(path), hudi_py.open_table(path).timeline
    return [(each.time, read_commit_metadata(storage, timeline.layout, each)) for each in timeline.write_completed]


def blocks_of(storage: Storage, stat: WriteStat) -> Iterator[LogBlock]:
    for log, size in (stat.cdc_stats or {}).items():
        info = storage.stat(log)
        assert info is not None
        assert info.size == size
        yield from read_blocks(storage, log, size)


def logged(path: str) -> list[Told]:
    """What the change logs of the last commit hold: operation, `key:v` before and after, as far as they are logged."""
    storage = open_storage(path)
    found: list[Told] = []

    def short(row: dict[str, Any] | None) -> str | None:
        return row and f"{row['k']}:{row['v']}"

    for stat in commits(path)[-1][1].stats:
        for block in blocks_of(storage, stat):
            assert block.type is BlockType.CDC
            schema = json.loads(block.header[HeaderKey.SCHEMA])
            for row in decode_log_content([read_content(storage, block)], schema).to_pylist():
                key = {"k": row.get("record_key"), "v": ""}
                before, after = row.get("before"), row.get("after")
                found.append((row["op"], short(before or (key if "record_key" in row else None)), short(after)))
    return sorted(found, key=str)


def changes(path: str) -> list[Told]:
    def short(text: str | None) -> str | None:
        row = json.loads(text) if text else None
        return row and f"{row['k']}:{row['v']}"

    found = hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table().to_pylist()
    of_last = max(row["ts_ms"] for row in found)
    return sorted(
        ((row["op"], short(row["before"]), short(row["after"])) for row in found if row["ts_ms"] == of_last), key=str
    )


CHANGED: dict[str, tuple[str, pa.Table, list[Told]]] = {
    "known and new keys": (
        "upsert",
        rows(["a", "z"], 11),
        [("i", None, "z:11"), ("u", "a:10", "a:11")],
    ),
    "an equal row": ("upsert", rows(["b"], 10), [("u", "b:10", "b:10")]),
    "marked as deleted": ("upsert", rows(["c", "y"], 12, deleted=True), [("d", "c:10", None)]),
    "deleted": ("delete", rows(["d", "x"], 1), [("d", "d:10", None)]),
    "inserted": ("insert", rows(["a", "w"], 13), [("i", None, "a:13"), ("i", None, "w:13")]),
    "all deleted": ("delete", rows(list("abcd"), 1), [("d", f"{key}:10", None) for key in "abcd"]),
}


@pytest.mark.parametrize(("name", "mode"), [(name, MODES[number % 3]) for number, name in enumerate(CHANGED)])
def test_what_a_rewritten_file_logs(tmp_path: Path, name: str, mode: str) -> None:
    path = make(tmp_path / "t", {"OP_KEY_ONLY": 6, "DATA_BEFORE": 8}.get(mode, 9), mode=mode)
    operation, data, expected = CHANGED[name]
    hudi_py.write(path, data, operation, QUICK)
    assert changes(path) == expected
    found = logged(path)
    if mode == "DATA_BEFORE_AFTER":
        assert found == expected
    else:
        assert [op for op, _, _ in found] == [op for op, _, _ in expected]
        keys = {(before or after or "").partition(":")[0] for _, before, after in expected}
        assert {str(before).partition(":")[0] for _, before, _ in found} == keys


@pytest.mark.parametrize(("operation", "data"), [("upsert", rows(["a"], 5)), ("delete", rows([], 1))])
def test_late_rows_and_no_rows_are_not_logged(tmp_path: Path, operation: str, data: pa.Table) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, data, operation, QUICK)
    for stat in commits(path)[-1][1].stats:  # an empty block, as queries need a log for each rewritten file
        (block,) = blocks_of(open_storage(path), stat)
        assert block.content_length == 8
    assert logged(path) == []
    assert hudi_py.open_table(path).scan(query_type="cdc", begin="000").count() == 4


def test_new_files_log_nothing(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    for operation in ("bulk_insert", "insert_overwrite_table"):
        hudi_py.write(path, rows(["z"], 1), operation, QUICK)
        assert all(stat.cdc_stats is None for stat in commits(path)[-1][1].stats)
    assert changes(path) == [("d", f"{key}:10", None) for key in "abcd"] + [("d", "z:1", None), ("i", None, "z:1")]


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE_AFTER"])
def test_statements_log_what_they_change(tmp_path: Path, mode: str) -> None:
    path = make(tmp_path / "t", mode=mode)
    table = hudi_py.open_table(path, QUICK)
    table.update({"v": "v + 1"}, "k < 'c'")
    assert changes(path) == [("u", "a:10", "a:11"), ("u", "b:10", "b:11")]
    table.delete("k = 'c'")
    assert changes(path) == [("d", "c:10", None)]
    source = [{"k": "d", "v": 12, "n": "", "_hoodie_is_deleted": False}]
    source.append({"k": "q", "v": 12, "n": "", "_hoodie_is_deleted": False})
    table.merge(source, "t.k = s.k").when_matched_update_all().when_not_matched_insert_all().execute()
    assert changes(path) == [("i", None, "q:12"), ("u", "d:10", "d:12")]


@pytest.mark.parametrize(("version", "spills"), [(6, True), (8, False), (9, True)])
def test_a_compaction_logs_what_the_logs_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, spills: bool
) -> None:
    path = make(tmp_path / "t", version, "mor")
    hudi_py.write(path, rows(["a", "b"], 11), "upsert", QUICK)
    hudi_py.write(path, rows(["a"], 12), "upsert", QUICK)
    hudi_py.write(path, rows(["c"], 1), "delete", QUICK)
    hudi_py.write(path, rows(["d"], 5), "upsert", QUICK)  # late
    before = hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table()
    with monkeypatch.context() as patched:
        if spills:
            patched.setattr(LogMemory, "held", property(lambda self: 1))
        hudi_py.open_table(path, QUICK).compact()
    assert logged(path) == [("d", "c:10", None), ("u", "a:10", "a:12"), ("u", "b:10", "b:11")]
    assert commits(path)[-1][1].operation == "COMPACT"
    # the writes have told these changes already
    assert hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table().equals(before)
    hudi_py.write(path, rows(["z"], 1), "upsert", QUICK)  # fills the file that the compaction wrote
    assert changes(path) == logged(path) == [("i", None, "z:1")]


def test_logs_are_those_of_apache_hudi_byte_for_byte(tmp_path: Path) -> None:
    """The same rows, written again: the blocks differ by their instant alone."""
    name = "v9_cow_cdc_before_after"
    theirs = str(tables.load()[name].extract(tmp_path / "theirs"))
    table, storage = hudi_py.open_table(theirs), open_storage(theirs)
    ours = str(tmp_path / name)
    known: set[str] = set()
    for at, (instant, metadata) in enumerate(commits(theirs)[:4]):
        snapshot = table.scan(as_of=instant).to_table()
        written = snapshot.filter(pc.equal(snapshot["_hoodie_commit_time"], instant)).drop_columns(
            [name for name in snapshot.column_names if name.startswith("_hoodie_")]
        )
        keys = set(snapshot["uuid"].to_pylist())
        operation = metadata.operation.lower()
        if operation == "delete":
            previous = table.scan(as_of=commits(theirs)[at - 1][0]).to_table()
            written = previous.filter(pc.is_in(previous["uuid"], pa.array(sorted(known - keys))))
        hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
        hudi_py.write(
            ours, written, operation, {**options(), **hive}, record_key="uuid", ordering_by="ts", partition_by="city"
        )
        known = keys
        mine, own = commits(ours)[-1]
        assert records(storage, metadata, instant) == records(open_storage(ours), own, mine)
    assert records(storage, metadata, instant)


def records(storage: Storage, metadata: CommitMetadata, instant: str) -> list[tuple[str, str, bytes]]:
    """Schema, partition and record of each change, without the instant."""
    found: list[tuple[str, str, bytes]] = []
    for stat in metadata.stats:
        for block in blocks_of(storage, stat):
            assert block.type is BlockType.CDC
            assert set(block.header) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
            assert block.instant_time == instant
            content = bytes(read_content(storage, block))
            version, count = struct.unpack(">ii", content[:8])
            assert version == 3
            at = 8
            for _ in range(count):
                (length,) = struct.unpack(">i", content[at : at + 4])
                record = content[at + 4 : at + 4 + length].replace(instant.encode(), b"<instant>")
                found.append((block.header[HeaderKey.SCHEMA], stat.partition_path, record))
                at += 4 + length
    return sorted(found)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (
            "OP_KEY_ONLY",
            """{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},
            {"name":"record_key","type":["string","null"]}]}""",
        ),
        (
            "DATA_BEFORE",
            """{"type":"record","name":"CDC","namespace":"hoodie.t","doc":"","fields":[
            {"name":"op","type":["null","string"],"doc":"","default":null},
            {"name":"record_key","type":["null","string"],"doc":"","default":null},
            {"name":"before","type":["null",{"type":"record","name":"t_record","fields":[
            {"name":"k","type":["null","string"],"default":null},{"name":"v","type":["null","long"],"default":null},
            {"name":"n","type":["null","string"],"default":null},
            {"name":"_hoodie_is_deleted","type":["null","boolean"],"default":null}]}],"doc":"","default":null}]}""",
        ),
    ],
)
def test_schema_of_a_change(tmp_path: Path, mode: str, expected: str) -> None:
    path = make(tmp_path / "t", mode=mode)
    hudi_py.write(path, rows(["a"], 11), "upsert", QUICK)
    (block,) = blocks_of(open_storage(path), commits(path)[-1][1].stats[0])
    assert block.header[HeaderKey.SCHEMA] == "".join(line.strip() for line in expected.splitlines())


def test_changes_are_written_in_blocks(tmp_path: Path) -> None:
    path = make(tmp_path / "t", keys="ab")
    keys = [f"k{number}" for number in range(3000)]
    hudi_py.write(path, rows(keys, 1, text="x" * 100), "insert", QUICK)
    small = {**QUICK, "hoodie.logfile.data.block.max.size": "100000"}
    hudi_py.write(path, rows(keys, 2, text="y" * 100), "upsert", small)
    (stat,) = commits(path)[-1][1].stats
    assert len(stat.cdc_stats or {}) == 1
    found = list(blocks_of(open_storage(path), stat))
    assert len(found) > 5
    assert max(block.content_length for block in found) < 150_000
    assert len(logged(path)) == len(changes(path)) == 3000


def test_the_metadata_table_lists_change_logs(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    hudi_py.write(path, rows(["a"], 11), "upsert", QUICK)
    table = hudi_py.open_table(path)
    assert table.properties["hoodie.table.metadata.partitions"]
    assert table.metadata.verify().ok
    (log,) = tmp_path.glob("t/.*.cdc")
    log.unlink()
    found = table.metadata.verify()
    assert not found.ok
    assert log.name in str(found)


@pytest.mark.parametrize("version", [6, 9])
def test_undone_and_cleaned_writes_take_their_change_logs_along(tmp_path: Path, version: int) -> None:
    path = make(tmp_path / "t", version)
    saved = hudi_py.open_table(path, QUICK).savepoint().savepoint
    for number in (11, 12):
        hudi_py.write(path, rows(["a"], number), "upsert", QUICK)
    assert len(list(tmp_path.glob("t/.*.cdc"))) == 2
    hudi_py.open_table(path, QUICK).rollback(commits(path)[-1][0])
    assert len(list(tmp_path.glob("t/.*.cdc"))) == 1
    hudi_py.open_table(path, QUICK).restore(saved)
    assert not list(tmp_path.glob("t/.*.cdc"))
    hudi_py.open_table(path, QUICK).delete_savepoint(saved)
    for number in range(13, 17):
        hudi_py.write(path, rows(["a"], number), "upsert", QUICK)
    hudi_py.open_table(path, {"hoodie.clean.commits.retained": "1"}).clean()
    assert len(list(tmp_path.glob("t/.*.cdc"))) == len(list(tmp_path.glob("t/*.parquet"))) == 2
    assert hudi_py.open_table(path).metadata.verify().ok


def test_options_that_contradict_the_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t", mode="DATA_BEFORE")
    with pytest.raises(ConfigError, match=r"logging\.mode: asked for OP_KEY_ONLY, the table has DATA_BEFORE"):
        hudi_py.write(path, rows(["a"], 1), "upsert", options("OP_KEY_ONLY"))
    with pytest.raises(ConfigError, match=r"cdc\.enabled: asked for false, the table has true"):
        hudi_py.write(path, rows(["a"], 1), "upsert", {**QUICK, "hoodie.table.cdc.enabled": "false"})


def test_inserts_into_small_files_that_apache_hudi_does_not_log(tmp_path: Path) -> None:
    """As if the commit had written no log: its rows are told apart by their commit time."""
    path = make(tmp_path / "t", 6)
    hudi_py.write(path, rows(["y", "z"], 11), "insert", QUICK)
    storage, timeline = open_storage(path), hudi_py.open_table(path).timeline
    name = timeline.layout.path(timeline.write_completed[-1].file_name)
    metadata = json.loads(storage.read(name))
    (stat,) = metadata["partitionToWriteStats"][""]
    stat["cdcStats"] = None
    storage.put(name, json.dumps(metadata).encode())
    assert changes(path) == [("i", None, "y:11"), ("i", None, "z:11")]
    counted = hudi_py.open_table(path).scan(columns=["op"], query_type="cdc", begin="000")
    assert counted.to_table()["op"].to_pylist() == ["i"] * 6


class NotGone:
    """The newer row, unless its text is `gone`: that deletes."""

    required_columns = ("n",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> MergedRows:
        return MergedRows(newer, pc.equal(newer.column("n"), "gone"))


@pytest.mark.parametrize(
    ("properties", "options_", "expected"),
    [
        (
            {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
            {},
            [("d", "c:10", None), ("u", "a:10", "a:12"), ("u", "b:10", "b:12")],
        ),
        (
            {"hoodie.record.merge.mode": "CUSTOM"},
            {"hoodie.py.record.merger": f"{__name__}:NotGone"},
            [("d", "b:10", None), ("d", "c:10", None), ("u", "a:10", "a:12")],
        ),
    ],
    ids=["rows of two versions", "a merger in Python"],
)
def test_a_compaction_logs_rows_that_it_makes(
    tmp_path: Path, properties: dict[str, str], options_: dict[str, str], expected: list[Told]
) -> None:
    path = make(tmp_path / "t", 9, "mor")
    update = rows(["a", "b"], 12).set_column(2, "n", pa.array(["new", "gone"]))
    hudi_py.write(path, update, "upsert", QUICK)
    hudi_py.write(path, rows(["c"], 1), "delete", QUICK)
    update_table_config(open_storage(path), properties)
    hudi_py.open_table(path, {**QUICK, **options_}).compact()
    assert logged(path) == expected
