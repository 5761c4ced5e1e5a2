"""A table as a stream: offsets, batches, restarts. No Spark."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
import hudi_py.read.streams.backlog as backlog_module
import hudi_py.timeline.commits as commits_module
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.read.streams.backlog import Axis, BatchLimits, Start, StreamOffset, Weight
from hudi_py.timeline.metadata import read_commit_metadata
from tests.golden.tables import Extracted
from tests.unit.read.streams import (
    KEYED,
    ONE,
    START_OFFSET,
    Made,
    batches,
    made_rows,
    rows,
    rows_of,
    stream_of,
    upsert,
)
from tests.unit.read.tables import completion, instant, row

EACH = [(6, "COPY_ON_WRITE"), (6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")]
FOUR = [
    {"a": 1, "b": 1},
    {"b": 2, "c": 2},
    {"a": 3},
    {"d": 4, "b": 4},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of every kind with the four commits."""
    folder = tmp_path_factory.mktemp("four")
    for version, kind in EACH:
        for values in FOUR:
            upsert(str(folder / f"{version}{kind}"), values, version, kind)
    return folder


@pytest.fixture(params=EACH, ids=lambda each: f"v{each[0]}-{each[1]}")
def four(request: pytest.FixtureRequest, made: Path, path: str) -> str:
    """A table of four commits, of every kind."""
    version, kind = request.param
    shutil.copytree(made / f"{version}{kind}", path)  # with modification times, which say when commits completed
    return path


# ---- offsets and limits


def test_offsets_are_small_flat_and_the_same_each_time() -> None:
    each = [
        StreamOffset("", Axis.COMPLETION, Start.SNAPSHOT),
        StreamOffset("000", Axis.REQUESTED, Start.EARLIEST),
        StreamOffset(instant(3), Axis.COMPLETION, since=instant(1)),
    ]
    for offset in each:
        text = json.dumps(offset.to_json())
        assert StreamOffset.from_json(json.loads(text)) == offset
        assert json.dumps(StreamOffset.from_json(json.loads(text)).to_json()) == text
        assert len(text) < 120


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"commitTime": "1"},
        {"time": "1", "axis": "moon"},
        {"time": 1, "axis": "completion"},
        {"time": "1", "axis": "completion", "more": "x"},
    ],
)
def test_offsets_of_others_are_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Cannot continue from the offset"):
        StreamOffset.from_json(value)


def test_limits_always_admit_one_commit() -> None:
    weights = [Weight(10, 1), Weight(10, 2), Weight(30, 3)]
    assert BatchLimits().admit(weights) == 3
    assert [BatchLimits(commits=n).admit(weights) for n in (1, 2, 9)] == [1, 2, 3]
    assert [BatchLimits(bytes=n).admit(weights) for n in (1, 10, 20, 49, 50)] == [1, 1, 2, 2, 3]
    assert [BatchLimits(rows=n).admit(weights) for n in (1, 3, 6)] == [1, 2, 3]
    assert BatchLimits(commits=2, bytes=15).admit(weights) == 1
    assert BatchLimits().admit([]) == 0


# ---- batches


def test_a_snapshot_first_then_what_is_committed(four: str) -> None:
    stream = stream_of(four)
    (first,) = batches(stream)
    assert first[0] == StreamOffset("", first[0].axis, Start.SNAPSHOT)
    assert first[2] == [("a", 3), ("b", 4), ("c", 2), ("d", 4)]
    assert stream.latest_offset(first[1]) == first[1]
    upsert(four, {"e": 5})
    upsert(four, {"e": 6, "a": 6})
    assert rows(batches(stream, first[1], ONE)) == [[("e", 5)], [("a", 6), ("e", 6)]]
    assert rows(batches(stream_of(four), first[1])) == [[("a", 6), ("e", 6)]]


def test_each_commit_once_in_batches_of_one(four: str) -> None:
    found = rows(batches(stream_of(four, **{START_OFFSET: "earliest"}), limits=ONE))
    assert found == [sorted(values.items()) for values in FOUR]


def test_the_last_version_of_a_key_in_larger_batches(four: str) -> None:
    found = rows(batches(stream_of(four, **{START_OFFSET: "earliest"}), limits=BatchLimits(commits=3)))
    assert found == [[("a", 3), ("b", 2), ("c", 2)], [("b", 4), ("d", 4)]]


@pytest.mark.parametrize("start", ["earliest", "snapshot", "000"])
@pytest.mark.sampled(6)
def test_exact_restart_at_every_point(four: str, start: str) -> None:
    options = {} if start == "snapshot" else {START_OFFSET: start}
    whole = list(batches(stream_of(four, **options), limits=ONE))
    upsert(four, {"z": 9})
    for _, end, _ in whole:
        after = [batch for batch in whole if batch[0].time >= end.time and batch[0].start is None]
        assert rows(batches(stream_of(four, **options), end, ONE)) == [*rows(iter(after)), [("z", 9)]]
    for begin, end, found in whole:
        again = stream_of(four, **options)
        if begin.start is not None:
            begin = again.initial_offset()  # an engine does not keep the first one
        assert rows_of(again, begin, end) == found


def test_a_batch_is_the_same_whatever_was_committed_since(four: str) -> None:
    stream = stream_of(four, **{START_OFFSET: "earliest"})
    end = stream.latest_offset(stream.initial_offset(), BatchLimits(commits=2))
    found = rows_of(stream, stream.initial_offset(), end)
    upsert(four, {"a": 7, "b": 7, "c": 7})
    assert rows_of(stream, stream.initial_offset(), end) == found == [("a", 1), ("b", 2), ("c", 2)]
    start = StreamOffset("", end.axis, Start.SNAPSHOT)
    assert rows_of(stream_of(four), start, StreamOffset(end.time, end.axis)) == [("a", 1), ("b", 2), ("c", 2)]


def test_nothing_is_planned_between_equal_offsets(four: str) -> None:
    stream = stream_of(four)
    end = stream.latest_offset(stream.initial_offset())
    assert stream.plan_batch(end, end) is None


def test_limits_come_from_the_options(four: str) -> None:
    assert stream_of(four, **{"read.commits.limit": "2"}).limits() == BatchLimits(commits=2)
    stream = stream_of(four, **{"hoodie.py.read.streaming.max.bytes": "1", START_OFFSET: "earliest"})
    assert stream.limits() == BatchLimits(bytes=1)
    assert len(list(batches(stream, limits=stream.limits()))) == 4
    assert stream_of(four).limits() == BatchLimits()


def test_an_available_now_run_ends_where_the_table_was(four: str) -> None:
    stream = stream_of(four, **{START_OFFSET: "earliest"})
    until = stream.newest_offset()
    upsert(four, {"z": 9})
    start, found = stream.initial_offset(), []
    while (end := stream.latest_offset(start, ONE, until)) != start:
        found.append(rows_of(stream, start, end))
        start = end
    assert found == [sorted(values.items()) for values in FOUR]
    assert rows(batches(stream, start)) == [[("z", 9)]]


def test_a_long_backlog_is_read_in_parts(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Made(path, 9)
    for at in range(1, 24):
        table.write(at, row(f"k{at:02}", at))
    read: list[str] = []
    original = read_commit_metadata

    def counted(storage: Any, layout: Any, instant: Any) -> Any:
        read.append(instant.time)
        return original(storage, layout, instant)

    monkeypatch.setattr(commits_module, "read_commit_metadata", counted)
    monkeypatch.setattr(backlog_module, "_FIRST_REACH", 2)
    stream = stream_of(path, **{START_OFFSET: "000"})
    start = stream.initial_offset()
    end = stream.latest_offset(start, ONE)
    assert (end.time, len(read)) == (completion(1), 3)
    end = stream.latest_offset(end, ONE)
    assert (end.time, len(read)) == (completion(2), 3)
    table.write(24, row("k24", 24))
    end = stream.latest_offset(end, ONE)
    assert (end.time, len(read)) == (completion(3), 6)
    assert made_rows(stream, end) == [[(f"k{at:02}", at)] for at in range(4, 25)]
    whole = stream_of(path, **{START_OFFSET: "000"})
    assert rows(batches(whole, None, None, "id ts")) == [[(f"k{at:02}", at) for at in range(1, 25)]]


def test_tables_without_meta_fields_are_refused(golden: Extracted) -> None:
    with pytest.raises(UnsupportedTableError, match="populate.meta.fields=false"):
        stream_of(str(golden("v9_cow_no_meta_fields"))).initial_offset()


# ---- where a stream begins


def test_latest_takes_what_is_committed_after_the_start(four: str) -> None:
    stream = stream_of(four, **{START_OFFSET: "latest"})
    start = stream.initial_offset()
    assert stream.latest_offset(start) == start
    upsert(four, {"z": 9})
    end = stream.latest_offset(start)
    assert rows_of(stream, start, end) == [("z", 9)]
    # An engine that stopped before the first batch was done asks for the beginning anew
    upsert(four, {"y": 10})
    again = stream_of(four, **{START_OFFSET: "latest"})
    assert again.initial_offset().time > start.time
    assert rows_of(again, again.initial_offset(), end) == [("z", 9)]
    assert rows(batches(again, end)) == [[("y", 10)]]


def test_an_instant_is_exclusive(four: str) -> None:
    offsets = [end.time for _, end, _ in batches(stream_of(four, **{START_OFFSET: "earliest"}), limits=ONE)]
    for key in (START_OFFSET, "hoodie.datasource.read.begin.instanttime", "read.start-commit"):
        found = rows(batches(stream_of(four, **{key: offsets[1]}), limits=ONE))
        assert found == [[("a", 3)], [("b", 4), ("d", 4)]]
    found = rows(batches(stream_of(four, **{START_OFFSET: offsets[0], "read.end-commit": offsets[2]}), limits=ONE))
    assert found == [[("b", 2), ("c", 2)], [("a", 3)]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({START_OFFSET: "earliest", "read.start-commit": "latest"}, "give one of them"),
        ({"hoodie.datasource.query.type": "read_optimized"}, "read_optimized.*supported: snapshot"),
        ({"as.of.instant": "20240101000000000"}, "as.of.instant.*startOffset"),
    ],
)
def test_what_a_stream_cannot_follow_is_refused(path: str, options: dict[str, str], message: str) -> None:
    upsert(path, {"a": 1})
    with pytest.raises(ConfigError, match=message):
        stream_of(path, **options)


def test_a_start_that_is_no_time(path: str) -> None:
    upsert(path, {"a": 1})
    with pytest.raises(ConfigError, match="Cannot take 'soon' as the time"):
        stream_of(path, **{START_OFFSET: "soon"}).initial_offset()


def test_a_table_without_commits(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.create_table(path, pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())]), **KEYED)
    stream = stream_of(path)
    start = stream.initial_offset()
    nothing = stream.newest_offset()
    assert nothing.time == ""
    assert stream.seen_offset() is None
    assert stream.latest_offset(start) == start
    upsert(path, {"a": 1})
    assert stream.latest_offset(start, until=nothing) == start
    assert rows(batches(stream, start)) == [[("a", 1)]]
    latest = stream_of(path, **{START_OFFSET: "latest"})
    assert rows(batches(latest)) == []


# ---- columns


def test_the_schema_is_that_of_the_start(path: str) -> None:
    upsert(path, {"a": 1})
    stream = stream_of(path)
    (first,) = batches(stream)
    hudi_py.write(path, [{"id": "b", "ts": 2, "v": 2, "more": "x"}])
    start, end, found = next(batches(stream, first[1]))
    assert found == [("b", 2)]
    plan = stream.plan_batch(start, end)
    assert plan is not None
    assert "more" not in plan.spec.output_schema.names
    # a query that starts now has the column, and null where there was none
    schema = pa.schema([("id", pa.string()), ("more", pa.string())])
    later = stream_of(path, schema, **{START_OFFSET: "earliest"})
    assert rows(batches(later, None, ONE, "id more")) == [[("a", None)], [("b", "x")]]


def test_a_schema_that_no_longer_fits_is_refused(path: str) -> None:
    upsert(path, {"a": 1})
    start = StreamOffset("000", Axis.COMPLETION)
    narrow = stream_of(path, pa.schema([("id", pa.string()), ("v", pa.int32())]))
    with pytest.raises(SchemaMismatchError, match="Cannot continue.*column 'v' as int32, and the column is int64 now"):
        list(batches(narrow, start))
    gone = stream_of(path, pa.schema([("id", pa.string()), ("x", pa.int32())]))
    with pytest.raises(SchemaMismatchError, match="Cannot continue.*a column with which it started was removed.*'x'"):
        list(batches(gone, start))


def test_filter_and_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        data = [{"id": f"{p}{number}", "p": p, "ts": 1, "v": number} for p in "ab"]
        hudi_py.write(path, data, record_key="id", ordering_by="ts", partition_by="p")
    schema = pa.schema([("v", pa.int64()), ("id", pa.string())])
    stream = stream_of(path, schema, filter="p = 'a' and v <> 1", **{START_OFFSET: "earliest"})
    start = stream.initial_offset()
    end = stream.latest_offset(start)
    plan = stream.plan_batch(start, end)
    assert plan is not None
    assert {split.partition for split in plan.splits} == {"a"}
    assert plan.spec.output_schema == schema
    assert rows(batches(stream, limits=ONE)) == [[("a0", 0)], [], [("a2", 2)]]


def test_no_credentials_in_what_is_kept_or_sent(path: str) -> None:
    upsert(path, {"a": 1})
    stream = stream_of(path, **{"storage.secret": "hunter2"})
    start = stream.initial_offset()
    end = stream.latest_offset(start)
    plan = stream.plan_batch(start, end)
    assert b"hunter2" not in pickle.dumps((start.to_json(), end.to_json(), plan))
