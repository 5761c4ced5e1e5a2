"""A stream that goes through archived instants, replaced files and changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConfigError, HistoryCleanedError
from hudi_py.model.instant import Action
from hudi_py.read.streams.backlog import Axis, BatchLimits, StreamOffset
from tests.golden.tables import Extracted
from tests.unit.read.streams import (
    ONE,
    START_OFFSET,
    Made,
    batches,
    rows,
    rows_of,
    stream_of,
    upsert,
)
from tests.unit.read.tables import deletes, instant, row


@pytest.mark.parametrize("name", ["v6_cow_archived", "v9_mor_archived"])
def test_a_stream_catches_up_through_archived_instants(golden: Extracted, name: str) -> None:
    path = str(golden(name))
    active = hudi_py.open_table(path).timeline
    stream = stream_of(path, **{START_OFFSET: "earliest"})
    names = "_hoodie_record_key _hoodie_commit_time"
    found = list(batches(stream, None, ONE, names))
    times = [{time for _, time in each} for _, _, each in found]
    assert all(len(each) <= 1 for each in times)
    delivered = [time for each in times for time in each]
    assert delivered == sorted(set(delivered))
    assert active.start is not None
    newest = {key: time for _, _, each in found for key, time in each}
    table = hudi_py.open_table(path).scan(columns=["_hoodie_record_key", "_hoodie_commit_time"]).to_table()
    state = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert {key: time for key, time in newest.items() if key in state}.items() <= state.items()
    since = StreamOffset("000", found[0][1].axis)
    with pytest.raises(HistoryCleanedError, match="cleaned"):
        list(batches(stream_of(path), since, ONE, names))
    lenient = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    for options in ({}, lenient):
        (whole,) = batches(stream_of(path, **options), since, None, names)
        assert dict(whole[2]) == state
        assert min(state.values()) < active.start
    assert {pair for _, _, each in batches(stream_of(path, **lenient), since, ONE, names) for pair in each} >= set(
        state.items()
    )


def test_the_first_batch_is_not_repeated_from_what_the_cleaner_left(golden: Extracted) -> None:
    path = str(golden("v8_cow_cleaning"))
    times = sorted(i.completion_time or "" for i in hudi_py.open_table(path).timeline.write_completed)
    stream = stream_of(path)
    start = stream.initial_offset()
    with pytest.raises(HistoryCleanedError, match="Cannot repeat the first batch.*start the query with a new"):
        stream.plan_batch(start, StreamOffset(times[0], Axis.COMPLETION))
    assert stream.plan_batch(start, StreamOffset(times[-1], Axis.COMPLETION)) is not None


def test_overwritten_rows_are_replaced(path: str) -> None:
    upsert(path, {"a": 1, "b": 1})
    stream = stream_of(path)
    (first,) = batches(stream)
    hudi_py.write(path, [{"id": "c", "ts": 2, "v": 2}], "insert_overwrite_table")
    upsert(path, {"d": 3})
    assert rows(batches(stream, first[1], ONE)) == [[("c", 2)], [("d", 3)]]
    assert rows(batches(stream_of(path, **{START_OFFSET: "earliest"}))) == [[("c", 2), ("d", 3)]]


def test_an_upgraded_table_goes_on_from_a_requested_time(path: str) -> None:
    first = upsert(path, {"a": 1})
    upsert(path, {"b": 2})
    upsert(path, {"c": 3})
    stream = stream_of(path)
    found = list(batches(stream, StreamOffset(first, Axis.REQUESTED), ONE))
    assert [each[2] for each in found] == [[("b", 2)], [("c", 3)]]
    assert found[0][1].axis is Axis.COMPLETION
    old = str(Path(path).with_name("old"))
    upsert(old, {"a": 1}, 6)
    with pytest.raises(ConfigError, match="at completion time 1: the table has version 6"):
        stream_of(old).latest_offset(StreamOffset("1", Axis.COMPLETION))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("limits", [ONE, None])
def test_a_changelog_has_every_version_and_delete(path: str, version: int, limits: BatchLimits | None) -> None:
    table = Made(path, version)
    table.write(1, row("a", 1), row("b", 1))
    table.write(2, row("a", 2))
    table.done(3, table.log(3, deletes("b", ts=3), base_at=1, number=3))
    table.done(4, table.base(4, [row("a", 2)]), action=Action.COMMIT, compacted=True)
    table.base_at = 4
    table.write(5, row("b", 5))
    stream = stream_of(path, **{START_OFFSET: "earliest", "changelog.enabled": "true"})
    found = rows(batches(stream, None, limits, "_hoodie_commit_time _hoodie_record_key _hoodie_operation"))
    assert [each for batch in found for each in batch] == [
        (instant(1), "a", "I"),
        (instant(1), "b", "I"),
        (instant(2), "a", "I"),
        (instant(3), "b", "D"),
        (instant(5), "b", "I"),
    ]
    assert len(found) == (1 if limits is None else 4)


@pytest.mark.parametrize("name", ["v6_cow_cdc_before", "v9_mor_cdc_op_key"])
def test_each_change_comes_once(golden: Extracted, name: str) -> None:
    path = str(golden(name))
    names = "op ts_ms before after"
    whole = hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table()
    for query in (
        {"hoodie.datasource.query.type": "cdc"},
        {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.query.incremental.format": "cdc"},
    ):
        for limits in (ONE, None):
            found = list(batches(stream_of(path, **query), None, limits, names))
            changes = [change for _, _, batch in found for change in batch]
            assert sorted(changes) == sorted(tuple(each.values()) for each in whole.to_pylist())
            assert {"i", "u", "d"} >= {change[0] for change in changes}
            assert (len(found) > 1) == (limits is ONE)
    start, end, batch = found[-1]
    assert rows_of(stream_of(path, **query), start, end, names) == batch
    with pytest.raises(ConfigError, match="cdc"):
        list(batches(stream_of(str(golden("v9_mor_ops")), **query)))
