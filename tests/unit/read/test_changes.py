"""Change data capture queries, on tables of Apache Hudi and on tables made by hand."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.merge import LogRecords
from hudi_py.merge.spill import SpilledLog
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action
from hudi_py.read.changes.plan import plan_changes
from hudi_py.read.request import ScanRequest
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.snapshot import open_snapshot
from hudi_py.read.split import CHANGE_SCHEMA, ChangeSplit
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.commits import InstantRange, read_commits
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from tests.support import archives
from tests.support.choice import cases
from tests.support.renamed import renamed
from tests.unit.read.tables import FILE_ID, MadeTable, completion, deletes, instant

DATA = Path(__file__).with_name("changes_data")
SAMPLES = ("cow_data_before", "mor_data_before_after", "mor_services")
OF_CDC = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}

Unpack = Callable[[str], Path]


@pytest.fixture
def sample(tmp_path: Path) -> Unpack:
    """Unpacks a table of `changes_data`; its path."""

    def unpack(name: str) -> Path:
        archives.extract(DATA / f"{name}.tar.xz", tmp_path)
        return tmp_path / name

    return unpack


def changes(path: Path | str, begin: str | None = "000", end: str | None = None, **arguments: Any) -> hudi_py.Scan:
    return hudi_py.open_table(str(path)).scan(query_type="cdc", begin=begin, end=end, **arguments)


def commit_times(path: Path) -> list[str]:
    return [str(each.time) for each in hudi_py.open_table(str(path)).timeline.write_completed]


def told(table: pa.Table) -> list[tuple[str, str | None, str | None]]:
    """Operation, and `id:v` before and after."""

    def short(text: str | None) -> str | None:
        row = json.loads(text) if text else None
        return row and f"{row['id']}:{row.get('v', row.get('ts'))}"

    return [(row["op"], short(row["before"]), short(row["after"])) for row in table.to_pylist()]


@pytest.mark.parametrize("name", SAMPLES)
def test_changes_are_those_of_apache_hudi(sample: Unpack, name: str) -> None:
    expected = pq.read_table(DATA / f"{name}.parquet")
    scan = changes(sample(name))
    assert scan.schema.equals(CHANGE_SCHEMA)
    assert_rows_equal(scan.to_table(), expected)
    assert scan.count() == expected.num_rows


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_a_range_is_one_of_requested_times(sample: Unpack, name: str) -> None:
    path = sample(name)
    whole = changes(path).to_table()
    times = commit_times(path)
    for begin, end in list(zip(["000", *times], times, strict=False))[::3]:
        found = changes(path, begin, end).to_table()
        assert_rows_equal(found, whole.filter(pc.equal(whole["ts_ms"], end)))
        assert_rows_equal(changes(path, end).to_table(), whole.filter(pc.greater(whole["ts_ms"], end)))


def test_logs_of_version_6(sample: Unpack) -> None:
    """Apache Hudi 1.2.0 cannot read these; its answer for the same writes in version 9 is the measure."""
    newer = pq.read_table(DATA / "mor_data_before_after.parquet")
    assert sorted(told(changes(sample("mor_version_6")).to_table()), key=str) == sorted(told(newer), key=str)


def test_rows_come_in_one_order_and_can_be_skipped(sample: Unpack) -> None:
    path = sample("mor_services")
    scan = changes(path)
    storage = scan.snapshot.storage
    for split in scan.splits():
        assert isinstance(split, ChangeSplit)
        again = pickle.loads(pickle.dumps(split))
        rows = [row for batch in read_split_on(storage, split) for row in batch.to_pylist()]
        assert [row for batch in read_split_on(storage, again) for row in batch.to_pylist()] == rows
        for skipped in {1, len(rows) // 2, len(rows)}:
            rest = [row for batch in read_split_on(storage, again, skip_rows=skipped) for row in batch.to_pylist()]
            assert rest == rows[skipped:]
        assert len(pickle.dumps(split)) < 20_000
        assert split.size > 0


def test_columns_filter_and_limit_are_of_the_changes(sample: Unpack) -> None:
    path = sample("mor_services")
    whole = changes(path).to_table()
    deletes = changes(path, columns=["before", "op"], filter="op = 'd'").to_table()
    assert deletes.column_names == ["before", "op"]
    assert_rows_equal(deletes, whole.filter(pc.equal(whole["op"], "d")).select(["before", "op"]))
    assert changes(path, columns=["ts_ms", "op"]).to_table().equals(whole.select(["ts_ms", "op"]))
    assert changes(path, limit=7).to_table().equals(whole.slice(0, 7))
    by_image = changes(path, columns=["op"], filter='after LIKE \'%"id":"k2"%\'')
    assert by_image.to_table().num_rows == by_image.count() == 3


def test_partitions_are_chosen_by_path(sample: Unpack) -> None:
    path = sample("mor_services")
    one, other = (changes(path, partitions=[name]).to_table() for name in ("a", "b"))
    assert one.num_rows
    assert other.num_rows
    assert_rows_equal(pa.concat_tables([one, other]), changes(path).to_table())
    assert changes(path, partitions=[]).to_table().num_rows == 0


def test_the_options_of_apache_hudi_ask_for_changes(sample: Unpack) -> None:
    path = sample("cow_data_before")
    table = hudi_py.open_table(
        str(path),
        {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": commit_times(path)[2],
        },
    )
    assert told(table.scan().to_table()) == [("u", "k0:2", "k0:4"), ("i", None, "k1:4")]


def test_a_table_without_change_data_capture_is_refused(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path))
    with pytest.raises(hudi_py.ConfigError, match="it does not log changes"):
        changes(table.uri)


def test_a_begin_is_needed(sample: Unpack) -> None:
    path = sample("cow_data_before")
    with pytest.raises(hudi_py.ConfigError, match="needs a begin"):
        changes(path, None)
    with pytest.raises(hudi_py.ConfigError, match="keys=.*cdc"):
        changes(path, keys=["k1"])


def test_an_unknown_logging_mode_is_refused(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path), properties={**OF_CDC, "hoodie.table.cdc.supplemental.logging.mode": "all"})
    with pytest.raises(hudi_py.UnsupportedTableError, match="supported: op_key_only, data_before"):
        changes(table.uri)


def test_cleaned_files_are_missed_and_passed_over_when_the_begin_is_the_earliest(sample: Unpack) -> None:
    path = sample("mor_services")
    times = commit_times(path)
    whole = changes(path).to_table()
    # the first commits of the first file slices: what a cleaner would have taken
    for file in path.rglob(f"*{times[0]}.parquet"):
        file.unlink()
    with pytest.raises(hudi_py.HistoryCleanedError, match=f"instant {times[4]}"):
        changes(path)
    assert changes(path, times[4]).to_table().num_rows > 0
    reachable = changes(path, "earliest").to_table()
    # the log files of commit 4 have their base file under the first one
    assert_rows_equal(reachable, whole.filter(pc.greater(whole["ts_ms"], times[4])))


def test_a_file_that_is_gone_when_it_is_read(sample: Unpack) -> None:
    path = sample("cow_data_before")
    scan = changes(path)
    for file in path.glob(".*.cdc"):
        file.unlink()
    with pytest.raises(hudi_py.HistoryCleanedError, match="a file it needs is missing"):
        scan.to_table()


def test_a_damaged_change_log(sample: Unpack) -> None:
    path = sample("mor_data_before_after")
    (log,) = path.glob(".*.cdc")
    data = bytearray(log.read_bytes())
    at = data.rindex(b"plain")
    data[at - 40 : at] = b"\xff" * 40
    log.write_bytes(data)
    with pytest.raises(hudi_py.CorruptFileError):
        changes(path).to_table()


@pytest.mark.parametrize("mode", ["op_key_only", "data_before", "data_before_after"])
def test_a_turned_bit_of_what_a_change_log_says_twice(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    hudi_py.write(path, [{"id": f"key{n}", "v": 1} for n in range(3)], record_key="id", options=options)
    table = hudi_py.open_table(path)
    table.upsert([{"id": "key1", "v": 2}, {"id": "key7", "v": 2}])
    table.delete([{"id": "key2"}])
    expected = changes(path).to_table()
    assert sorted(expected["op"].to_pylist()) == ["d", *"iiii", "u"]
    tried = 0
    for log in path.glob(".*.cdc"):
        data = log.read_bytes()
        names = data.rindex(b"#HUDI#")
        start = data.index(b"\x00\x00\x00\x03\x00\x00\x00", names + 40)  # the content: version and number of records
        places = [at + 1 for op in (b"\x02i", b"\x02u", b"\x02d") for at in findall(data, op, start)]
        keys = [at + 3 for at in findall(data, b"key", start)]
        for at in [*places, *(keys if mode != "op_key_only" else [])]:
            for bit in (1, 2, 16):
                wrong = bytearray(data)
                wrong[at] ^= bit
                log.write_bytes(wrong)
                once = (b"key7",) if mode == "data_before" else (b"key7", b"key2")
                if at in keys and data[at - 3 : at + 1] in once:
                    continue  # its change has one image
                with pytest.raises(hudi_py.CorruptFileError):
                    changes(path).to_table()
                tried += 1
        log.write_bytes(data)
    assert tried >= 9
    assert changes(path).to_table() == expected


def findall(data: bytes, part: bytes, start: int) -> list[int]:
    return [at for at in range(start, len(data)) if data.startswith(part, at)]


def test_a_key_of_a_change_log_which_the_base_file_lacks(sample: Unpack) -> None:
    path = sample("cow_data_before")
    _, second, third, _ = commit_times(path)
    (newer,) = path.glob(f"*_{third}.parquet")
    (older,) = path.glob(f"*_{second}.parquet")
    older.write_bytes(renamed(newer.read_bytes(), older.name))  # without the keys which the third commit deleted
    with pytest.raises(hudi_py.CorruptFileError, match=r"record key 'k[13]' .* is not in the base file"):
        changes(path).to_table()


# ---- tables made by hand


def commit(
    table: MadeTable, at: int, stats: list[WriteStat], operation: str, *, action: Action = Action.DELTA_COMMIT
) -> None:
    """Completes the number-th write with what it wrote."""
    metadata = CommitMetadata(operation=operation, stats=tuple(stats), extra={"schema": json.dumps(table.avro())})
    content = encode_commit_metadata(metadata, table.layout, action=action, completed=True)
    name = table.layout.completed_name(instant(at), action, completion(at))
    table.storage.put(table.layout.path(name), content)


def row(key: int, ts: int, name: str = "x") -> dict[str, Any]:
    return {"id": f"k{key}", "ts": ts, "name": name, "price": 1.0}


def log_stat(table: MadeTable, path: str, at: int) -> WriteStat:
    size = table.storage.stat(path).size  # type: ignore[union-attr]
    return WriteStat(FILE_ID, path, "", num_writes=1, file_size=size, log_version=1)


def made(tmp_path: Path, version: int = 9, **properties: str) -> MadeTable:
    """A table whose first write inserted k1 to k3 at time 10."""
    table = MadeTable(str(tmp_path), version=version, properties={**OF_CDC, **properties})
    path = table.base(1, [row(1, 10), row(2, 10), row(3, 10)])
    commit(table, 1, [WriteStat(FILE_ID, path, "", num_writes=3, num_inserts=3)], "INSERT")
    return table


@pytest.mark.parametrize("version", [6, 9])
def test_a_bulk_insert_of_a_merge_on_read_table_may_be_a_commit(tmp_path: Path, version: int) -> None:
    """As releases up to 1.2.0 write it when it makes the table: no compaction, though no other `commit` brings rows."""
    table = MadeTable(str(tmp_path), version=version, properties=OF_CDC)
    path = table.base(1, [row(1, 10), row(2, 10)])
    stats = [WriteStat(FILE_ID, path, "", num_writes=2, num_inserts=2)]
    commit(table, 1, stats, "BULK_INSERT", action=Action.COMMIT)
    timeline = load_timeline(table.storage, table.config)
    (found,) = read_commits(TableState(table.storage, table.config, timeline), InstantRange())
    assert not found.is_compaction
    assert told(changes(table.uri).to_table()) == [("i", None, "k1:10"), ("i", None, "k2:10")]


def test_late_rows_change_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.log(2, [row(1, 9), row(2, 10, "same time"), row(4, 1)])
    commit(table, 2, [log_stat(table, path, 2)], "UPSERT")
    assert told(changes(table.uri, instant(1)).to_table()) == [("u", "k2:10", "k2:10"), ("i", None, "k4:1")]


def test_deletes_count_whatever_their_ordering_value(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.log(2, deletes("k1", "k9"), deletes("k2", ts=3))
    commit(table, 2, [log_stat(table, path, 2)], "DELETE")
    assert told(changes(table.uri, instant(1)).to_table()) == [("d", "k1:10", None), ("d", "k2:10", None)]


def test_several_log_files_of_a_commit_tell_each_change_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.log(2, [row(1, 11), row(4, 11)])
    second = table.log(2, [row(1, 12)], number=2)
    commit(table, 2, [log_stat(table, path, 2) for path in (first, second)], "UPSERT")
    assert told(changes(table.uri, instant(1)).to_table()) == [("u", "k1:10", "k1:12"), ("i", None, "k4:11")]


def test_logs_larger_than_the_memory_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    path = table.log(2, [row(key, 11, "x" * 200) for key in range(2, 4000)], deletes("k1"))
    commit(table, 2, [log_stat(table, path, 2)], "UPSERT")
    whole = changes(table.uri, instant(1)).to_table()
    assert whole.num_rows == 3999
    parts: list[LogRecords] = []
    read = SpilledLog.parts

    def noted(log: SpilledLog) -> Iterator[LogRecords]:
        for part in read(log):
            parts.append(part)
            yield part

    monkeypatch.setattr(SpilledLog, "parts", noted)
    few = {"hoodie.memory.merge.max.size": str(1 << 20)}
    assert_rows_equal(changes(table.uri, instant(1), options=few).to_table(), whole)
    assert len(parts) > 1


def test_a_group_of_logs_alone(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path), properties=OF_CDC)
    path = table.log(1, [row(1, 1), row(2, 1)])
    commit(table, 1, [log_stat(table, path, 1)], "UPSERT")
    path = table.log(2, [row(2, 2)])
    commit(table, 2, [log_stat(table, path, 2)], "UPSERT")
    assert told(changes(table.uri).to_table()) == [("i", None, "k1:1"), ("i", None, "k2:1"), ("u", "k2:1", "k2:2")]


def test_operations_which_change_no_row_are_left_out(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.base(2, [row(1, 10), row(2, 10), row(3, 10)])
    commit(table, 2, [WriteStat(FILE_ID, path, "", num_writes=3, num_updates=3)], "COMPACT", action=Action.COMMIT)
    path = table.log(3, [row(1, 10)])
    commit(table, 3, [log_stat(table, path, 3)], "LOG_COMPACT")
    commit(table, 4, [], "ALTER_SCHEMA", action=Action.COMMIT)
    assert changes(table.uri, instant(1)).to_table().num_rows == 0
    assert changes(table.uri).to_table().num_rows == 3


def test_a_rewrite_without_a_change_log_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = table.base(2, [row(1, 11), row(2, 10), row(3, 10)])
    commit(table, 2, [WriteStat(FILE_ID, path, "", instant(1), num_writes=3, num_updates=1)], "UPSERT")
    with pytest.raises(hudi_py.UnsupportedTableError, match=f"instant {instant(2)}.*without a change log"):
        changes(table.uri)
    assert changes(table.uri, instant(2)).to_table().num_rows == 0


@pytest.mark.parametrize("version", [6, 9])
def test_every_row_of_a_file_deleted(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    path = table.base(2, [])
    commit(table, 2, [WriteStat(FILE_ID, path, "", instant(1), num_deletes=3)], "DELETE")
    found = told(changes(table.uri, instant(1)).to_table())
    assert found == [("d", "k1:10", None), ("d", "k2:10", None), ("d", "k3:10", None)]
    table.storage.delete(next(info.path for info in table.storage.list("") if instant(1) in info.path))
    with pytest.raises(hudi_py.HistoryCleanedError, match=f"base file of {instant(1)}"):
        changes(table.uri, instant(1))


def test_logs_of_several_instants_in_one_file_of_version_6(tmp_path: Path) -> None:
    table = made(tmp_path, 6)
    path = table.log(2, [row(1, 11)], base_at=1)
    more = table.log(3, [row(1, 12), row(4, 12)], base_at=1, number=2)
    data = table.storage.read(path) + table.storage.read(more)
    table.storage.delete(more)
    table.storage.delete(path)
    table.storage.put(path, data)
    commit(table, 2, [log_stat(table, path, 2)], "UPSERT")
    commit(table, 3, [log_stat(table, path, 3)], "UPSERT")
    assert told(changes(table.uri, instant(1)).to_table()) == [
        ("u", "k1:10", "k1:11"),
        ("u", "k1:11", "k1:12"),
        ("i", None, "k4:12"),
    ]


def test_batches_of_a_stream_tell_each_change_once(sample: Unpack) -> None:
    """A stream plans (begin, end] by completion times; whatever the borders, together they are the whole."""
    path = sample("mor_services")
    table = hudi_py.open_table(str(path))
    whole = changes(path).to_table()
    snapshot = open_snapshot(changes(path).snapshot.at(table.timeline))
    request = ScanRequest.of(Options.resolve({}, Scope.READ))
    ends = [str(each.completion_time) for each in table.timeline.write_completed]
    for size in (1, 5):
        borders = ["", *ends[size - 1 :: size], "9"]
        batches = []
        for begin, end in itertools.pairwise(borders):
            commits = read_commits(
                snapshot,
                InstantRange(begin, end),
                skip_compaction=False,
                skip_clustering=False,
            )
            plan = plan_changes(snapshot, commits, request)
            batches += [batch for split in plan.splits for batch in read_split_on(snapshot.storage, split)]
        assert_rows_equal(pa.Table.from_batches(batches, CHANGE_SCHEMA), whole)


@pytest.mark.parametrize(
    ("version", "kind", "operation"), [(6, "cow", "delete_partition"), (8, "mor", "overwrite"), (9, "cow", "overwrite")]
)
def test_a_savepoint_left_an_older_slice_of_a_replaced_file_group(
    version: int, kind: str, operation: str, tmp_path: Path
) -> None:
    """Its rows are not those that were replaced; with the savepoint's own slice as the newest one, they are."""
    path = tmp_path / "t"

    def write(ts: int, operation: str = "upsert") -> hudi_py.WriteResult:
        rows = pa.table({"id": ["1"], "part": ["a"], "ts": [ts]})
        return hudi_py.write(
            path, rows, operation, {**OF_CDC, "hoodie.clean.automatic": "false"}, record_key="id", ordering_by="ts",
            partition_by="part", table_type=kind, table_version=version,
        )  # fmt: skip

    def replace() -> hudi_py.WriteResult:
        if operation == "overwrite":
            return write(9, "insert_overwrite")
        return hudi_py.open_table(path).delete_partition("a")

    def clean() -> None:
        by_versions = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
        assert hudi_py.open_table(path).clean(options=by_versions).instant

    def removed(since: hudi_py.WriteResult, until: hudi_py.WriteResult) -> list[int]:
        rows = hudi_py.open_table(path).scan(query_type="cdc", begin=since, end=until).to_table().to_pylist()
        return [json.loads(row["before"])["ts"] for row in rows if row["op"] == "d"]

    first = write(1)
    hudi_py.open_table(path).savepoint(first.instant)
    second = write(2)
    if kind == "mor":  # the slice of the savepoint and its log hold the newest rows, too
        hudi_py.open_table(path).compact(options={"hoodie.compact.inline.max.delta.commits": "1"})
    last = replace()
    assert removed(second, last) == [2]
    clean()
    hudi_py.open_table(path).delete_savepoint(first.instant)
    if kind == "mor":
        assert removed(second, last) == [2]
    else:
        with pytest.raises(hudi_py.HistoryCleanedError, match="file group .* which it replaced, has been cleaned"):
            removed(second, last)
        with pytest.raises(hudi_py.HistoryCleanedError, match="file group .* which it replaced, has been cleaned"):
            removed(first, last)

    third = write(20)
    hudi_py.open_table(path).savepoint(third.instant)
    last = replace()
    clean()
    assert removed(third, last) == [20]


def applied(rows: list[dict[str, Any]]) -> dict[str, int]:
    """What a consumer that applies changes as they come has in the end."""
    found: dict[str, int] = {}
    for row in rows:
        if row["op"] == "d":
            found.pop(json.loads(row["before"])["id"], None)
        else:
            after = json.loads(row["after"])
            found[after["id"]] = after["v"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(itertools.product((6, 8, 9), ("cow", "mor")), "overwrites", 3))
def test_changes_of_overwrites_come_in_an_order_in_which_they_apply(tmp_path: Path, version: int, kind: str) -> None:
    """A key that an overwrite deletes in one file group and inserts in another one has two changes of one time, as in
    Apache Hudi. Of rows that move, the order is that of time and operation."""
    path = str(tmp_path / "t")
    options = {**OF_CDC, "hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    how: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "v", "table_type": kind}
    begins = ["000"]
    for at in range(5):
        rows = [{"id": key, "p": "x", "v": at} for key in "abcdef"[at:]]
        hudi_py.write(path, rows, "insert_overwrite" if at else "upsert", options, table_version=version, **how)
        begins.append(commit_times(Path(path))[-1])
    rows = [{"id": "f", "p": "x", "v": 4}, {"id": "e", "p": "x", "v": 4}]
    for begin in begins[:-1]:
        changed = changes(path, begin).to_table().to_pylist()
        assert applied(changed) == {row["id"]: row["v"] for row in rows}, begin
    assert [row["op"] for row in changes(path, begins[4]).to_table().to_pylist()] == ["d", "d", "d", "i", "i"]
    for at in range(5, 8):
        moved = [{"id": "f", "p": "xy"[at % 2], "v": at}, {"id": "e", "p": "yx"[at % 2], "v": at}]
        hudi_py.write(path, moved, "upsert", options)
    table = changes(path, begins[0]).to_table().sort_by([("ts_ms", "ascending"), ("op", "ascending")])
    assert applied(table.to_pylist()) == {"e": 7, "f": 7}


@pytest.mark.parametrize("version", [6, 9])
def test_logs_over_a_base_file_that_is_gone(tmp_path: Path, version: int) -> None:
    """An older slice would give images of an older time, and rows of the lost file as inserted."""
    path = tmp_path / "t"

    def write(ids: list[str], value: int) -> None:
        rows = pa.table({"id": ids, "ts": [value] * len(ids)})
        hudi_py.write(
            str(path),
            rows,
            record_key="id",
            ordering_by="ts",
            table_type="MERGE_ON_READ",
            table_version=version,
            options=OF_CDC | {"hoodie.metadata.enable": "false"},
        )

    write(["k1"], 0)
    write(["k1", "k2"], 1)  # fills the small base file
    write(["k1", "k2"], 2)
    since = commit_times(path)[1]
    assert [op for op, *_ in told(changes(path, since).to_table())] == ["u", "u"]
    next(path.glob(f"*_{since}.parquet")).unlink()
    with pytest.raises(hudi_py.HistoryCleanedError, match=rf"base file .*_{since}\.parquet has been cleaned"):
        changes(path, since)
