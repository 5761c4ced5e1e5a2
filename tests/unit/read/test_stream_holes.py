"""A stream and instants that are pending, come late, or rewrite what is there."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action
from hudi_py.read.streams.backlog import Axis, StreamOffset
from hudi_py.timeline.records import encode_record
from tests.unit.read.streams import (
    ONE,
    START_OFFSET,
    Made,
    batches,
    made_rows,
    stream_of,
)
from tests.unit.read.tables import completion, instant, row


def test_before_version_8_a_stream_waits_for_a_pending_write(path: str) -> None:
    table = Made(path, 6)
    table.write(1, row("a", 1))
    table.pending(2)
    table.write(3, row("c", 3))
    stream = stream_of(path, **{START_OFFSET: "earliest"})
    (first,) = batches(stream, None, None, "id ts")
    assert (first[1].time, first[2]) == (instant(1), [("a", 1)])
    assert stream.newest_offset() == StreamOffset(instant(1), Axis.REQUESTED)
    snapshot = stream_of(path)
    assert made_rows(snapshot) == [[("a", 1)]]
    table.write(2, row("b", 2))
    assert made_rows(stream, first[1]) == [[("b", 2)], [("c", 3)]]


def test_what_a_hole_does_can_be_chosen(path: str) -> None:
    table = Made(path, 6)
    table.write(1, row("a", 1))
    table.pending(2)
    table.write(3, row("c", 3))
    key = "hoodie.read.timeline.holes.resolution.policy"
    with pytest.raises(ConfigError, match="deltacommit 20240101020000000 is pending"):
        list(batches(stream_of(path, **{START_OFFSET: "earliest", key: "FAIL"})))
    late = stream_of(path, **{START_OFFSET: "earliest", key: "USE_TRANSITION_TIME"})
    found = list(batches(late, None, None, "id ts"))
    assert [each[2] for each in found] == [[("a", 1), ("c", 3)]]
    assert found[0][1].axis is Axis.COMPLETION
    time.sleep(0.01)
    table.write(2, row("b", 2))
    assert made_rows(late, found[0][1]) == [[("b", 2)]]


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOG_COMPACTION])
def test_a_pending_rewrite_is_no_hole(path: str, action: Action) -> None:
    table = Made(path, 6)
    table.write(1, row("a", 1))
    table.pending(2, action)
    table.write(3, row("c", 3))
    assert made_rows(stream_of(path, **{START_OFFSET: "earliest"})) == [[("a", 1)], [("c", 3)]]


@pytest.mark.parametrize(("plan", "waits"), [({"inputGroups": [], "version": 1}, False), (None, True)])
def test_a_pending_clustering_is_no_hole(path: str, plan: dict[str, Any] | None, waits: bool) -> None:
    table = Made(path, 6)
    table.write(1, row("a", 1))
    content = encode_record("HoodieRequestedReplaceMetadata", {"clusteringPlan": plan, "version": 1})
    table.pending(2, Action.REPLACE_COMMIT, content)
    table.write(3, row("c", 3))
    found = made_rows(stream_of(path, **{START_OFFSET: "earliest"}))
    assert found == ([[("a", 1)]] if waits else [[("a", 1)], [("c", 3)]])


def test_since_version_8_a_late_write_comes_when_it_completes(path: str) -> None:
    table = Made(path, 9)
    table.write(1, row("a", 1))
    table.pending(2)
    table.write(3, row("c", 3))
    stream = stream_of(path, **{START_OFFSET: "earliest"})
    found = list(batches(stream, None, ONE, "id ts"))
    assert [each[2] for each in found] == [[("a", 1)], [("c", 3)]]
    assert found[-1][1] == StreamOffset(completion(3), Axis.COMPLETION)
    table.write(2, row("b", 2), completed=4)
    assert made_rows(stream, found[-1][1]) == [[("b", 2)]]


@pytest.mark.parametrize("version", [6, 9])
def test_compactions_bring_nothing_and_do_not_move_the_offset(path: str, version: int) -> None:
    table = Made(path, version)
    table.write(1, row("a", 1))
    table.write(2, row("a", 2), row("b", 2))
    stream = stream_of(path, **{START_OFFSET: "earliest"})
    offsets = [end for _, end, _ in batches(stream, None, ONE, "id ts")]
    compacted = table.base(3, [row("a", 2), row("b", 2)])
    table.done(3, compacted, action=Action.COMMIT, compacted=True)
    assert stream.latest_offset(offsets[-1]) == offsets[-1]
    table.base_at = 3
    table.write(4, row("b", 4))
    again = stream_of(path, **{START_OFFSET: "earliest"})
    assert made_rows(again) == [[("a", 1)], [("a", 2), ("b", 2)], [("b", 4)]]
    told = stream_of(path, **{START_OFFSET: "earliest", "read.streaming.skip_compaction": "false"})
    assert len(list(batches(told, None, ONE, "id ts"))) == 4


@pytest.mark.parametrize("version", [6, 9])
def test_a_late_row_is_what_its_commit_wrote(path: str, version: int) -> None:
    """Of a range only what its commits wrote is merged, whether a compaction lies in it or not."""
    table = Made(path, version)
    table.write(1, row("a", 5), row("b", 5))
    table.write(2, row("a", 1))
    table.done(3, table.base(3, [row("a", 5), row("b", 5)]), action=Action.COMMIT, compacted=True)
    table.base_at = 3
    table.write(4, row("b", 1))
    found = made_rows(stream_of(path, **{START_OFFSET: "earliest"}))
    assert found == [[("a", 5), ("b", 5)], [("a", 1)], [("b", 1)]]
