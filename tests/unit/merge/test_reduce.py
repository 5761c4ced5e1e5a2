"""Winners against a record-by-record rendering of Java's rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError
from hudi_py.merge.base import merge_with_base
from hudi_py.merge.incoming import reduce_input
from hudi_py.merge.records import LogRecords
from hudi_py.merge.reduce import Versions, delete_marks, find_winners
from hudi_py.merge.settings import COMMIT_TIME, CUSTOM, EVENT_TIME, MergeSettings, PartialUpdate, Payload

EVENT = MergeSettings(EVENT_TIME, ("ts",))
COMMIT = MergeSettings(COMMIT_TIME)


@dataclass(frozen=True)
class Version:
    key: str
    value: int | None
    """Ordering value; None: the default."""
    entry: bool
    """From a delete block."""
    delete: bool


def java_winner(existing: int | None, versions: list[Version], at: int) -> int:
    """`EventTimeRecordMerger.deltaMerge`, one step: the index which stays buffered."""
    if existing is None:
        return at
    old, new = versions[existing], versions[at]
    old_default_delete = old.delete and old.value is None
    if new.entry:
        if old_default_delete:
            return existing
        if new.value is not None and old.value is not None and old.value > new.value:
            return existing
        # a null data value is the default, an Integer: of another class than the delete's Long
        return at
    if (new.delete and new.value is None) or old_default_delete:
        return at
    rank_old = -(10**9) if old.value is None else old.value
    rank_new = -(10**9) if new.value is None else new.value
    return at if rank_new >= rank_old else existing


def as_versions(items: list[Version], position: np.ndarray) -> Versions:
    return Versions(
        keys=pa.array([item.key for item in items], pa.string()),
        position=position,
        deletes=np.array([item.delete for item in items], np.bool_),
        entries=np.array([item.entry for item in items], np.bool_),
        defaults=np.array([item.value is None for item in items], np.bool_),
        ordering=(pa.array([item.value for item in items], pa.int64()),),
    )


version = st.builds(
    lambda key, value, kind: Version(key, value, kind == "entry", kind != "row"),
    st.sampled_from(["", "a", "b", "é"]),
    st.one_of(st.none(), st.integers(-2, 2)),
    st.sampled_from(["row", "row", "marked", "entry"]),
)


@given(st.lists(version, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_event_time_winners_are_those_of_the_sequential_rule(items: list[Version], random: object) -> None:
    # data rows without ordering value never meet deletes with one in Java (it fails to compare them)
    items = [item if item.delete or item.value is not None else Version(item.key, 0, False, False) for item in items]
    expected: dict[str, int] = {}
    for at, item in enumerate(items):
        expected[item.key] = java_winner(expected.get(item.key), items, at)
    shuffled = list(range(len(items)))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    winners = find_winners(as_versions([items[at] for at in shuffled], np.array(shuffled, np.int64)), EVENT)
    for key, row, delete, always in zip(
        winners.keys.to_pylist(), winners.versions, winners.deletes, winners.always, strict=True
    ):
        winner, wanted = items[shuffled[row]], items[expected[key]]
        assert (winner.delete, winner.delete and winner.value is None) == (
            wanted.delete,
            wanted.delete and wanted.value is None,
        )
        assert delete == wanted.delete
        assert always == (wanted.delete and wanted.value is None)
        if not always:
            assert shuffled[row] == expected[key]
    assert sorted(expected) == sorted(winners.keys.to_pylist())


@given(st.lists(version, min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_commit_time_takes_the_last(items: list[Version]) -> None:
    winners = find_winners(as_versions(items, np.arange(len(items))), COMMIT)
    last = {item.key: at for at, item in enumerate(items)}
    assert dict(zip(winners.keys.to_pylist(), winners.versions.tolist(), strict=True)) == last
    assert winners.always.all()


def log_of(items: list[Version], merge: MergeSettings) -> LogRecords:
    winners = find_winners(as_versions(items, np.arange(len(items))), merge)
    live = np.flatnonzero(~winners.deletes)
    slots = np.full(len(winners.keys), -1, np.int64)
    slots[live] = np.arange(len(live))
    rows = pa.table(
        {
            "_hoodie_record_key": [item.key for item in items],
            "ts": pa.array([item.value for item in items], pa.int64()),
            "from": ["log"] * len(items),
        }
    )
    return LogRecords(winners, rows.take(pa.array(winners.versions[live])), slots)


def merged(
    base: list[tuple[str, int | None]], items: list[Version], merge: MergeSettings, size: int = 2
) -> list[object]:
    table = pa.table(
        {
            "_hoodie_record_key": [key for key, _ in base],
            "ts": pa.array([ts for _, ts in base], pa.int64()),
            "from": ["base"] * len(base),
        }
    )
    out = merge_with_base(table.to_batches(max_chunksize=size), log_of(items, merge), merge)
    return [tuple(row.values()) for batch in out for row in batch.to_pylist()]


def row(key: str, ts: int | None) -> Version:
    return Version(key, ts, False, False)


def entry(key: str, ts: int | None) -> Version:
    return Version(key, ts, True, True)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([row("a", 9)], [("a", 10, "base")]),
        ([row("a", 10)], [("a", 10, "log")]),
        ([row("a", 11)], [("a", 11, "log")]),
        ([entry("a", 9)], [("a", 10, "base")]),
        ([entry("a", 10)], []),
        ([entry("a", None)], []),
        # the re-inserted row is compared with the base row although a delete lies between
        ([entry("a", None), row("a", 5)], [("a", 10, "base")]),
        ([entry("a", None), row("a", 15)], [("a", 15, "log")]),
        ([entry("a", 10), row("a", 9)], []),
        ([row("a", 12), entry("a", None), entry("a", 20), row("a", 11)], [("a", 11, "log")]),
    ],
)
def test_event_time_against_a_base_row(versions: list[Version], expected: list[tuple]) -> None:
    assert merged([("a", 10)], versions, EVENT) == expected


@pytest.mark.parametrize(("versions", "expected"), [([row("a", 1)], [("a", 1, "log")]), ([entry("a", 1)], [])])
def test_commit_time_against_a_base_row(versions: list[Version], expected: list[tuple]) -> None:
    assert merged([("a", 10)], versions, COMMIT) == expected


def test_rows_keep_the_base_order_and_log_rows_follow() -> None:
    base = [("e", 1), ("d", 1), ("c", 9), ("b", 1), ("a", 1)]
    log = [row("z", 1), row("d", 2), row("y", 1), row("c", 2), entry("a", 5)]
    assert merged(base, log, EVENT) == [
        ("e", 1, "base"),
        ("c", 9, "base"),
        ("b", 1, "base"),
        ("z", 1, "log"),
        ("d", 2, "log"),
        ("y", 1, "log"),
    ]


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_repeated_base_key_is_merged_once(size: int) -> None:
    base = [("a", 5), ("a", 5), ("b", 1)]
    assert merged(base, [row("a", 7)], EVENT, size) == [("a", 5, "base"), ("b", 1, "base"), ("a", 7, "log")]


def test_untouched_batches_are_passed_as_they_are() -> None:
    batch = pa.record_batch({"_hoodie_record_key": ["x"], "ts": [1], "from": ["base"]})
    out = list(merge_with_base([batch], log_of([entry("a", 1)], EVENT), EVENT))
    assert len(out) == 1
    assert out[0] is batch


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", "z", "zz", "é"], pa.string()),
        ([b"\x00", b"\x7f", b"\xff"], pa.binary()),
        ([-5.5, -0.0, 0.0, 1e300, float("inf"), float("nan")], pa.float64()),
        ([False, True], pa.bool_()),
        ([-(10**17), -1, 0, 1, 10**17], pa.decimal128(18, 0)),
        ([-(10**30), -1, 0, 10**30], pa.decimal128(38, 0)),
    ],
)
def test_ordering_columns_of_every_type(values: list[object], kind: pa.DataType) -> None:
    if pa.types.is_decimal(kind):
        import decimal

        values = [decimal.Decimal(value) for value in values]  # type: ignore[arg-type]
    for low, small in enumerate(values):
        for high, great in enumerate(values):
            table = pa.table({"k": ["a", "a"], "ts": pa.array([small, great], kind), "at": [0, 1]})
            kept = reduce_input(table, EVENT, key_columns=["k"])
            assert kept["at"].to_pylist() == [1 if high >= low else 0], (small, great)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [(["0011.21", "0011.7"], 0), (["0011.7", "0011.7"], 1), (["2.9", "0010.1"], 1), (["x.21", "x.7"], 1)],
)
def test_rows_of_an_input_by_binlog_position(texts: list[str], kept: int) -> None:
    merge = MergeSettings(CUSTOM, ("_event_seq",), payload=Payload.MYSQL_DEBEZIUM)
    table = pa.table({"_hoodie_record_key": ["k", "k"], "_event_seq": texts, "row": [0, 1]})
    assert reduce_input(table, merge, key_columns=["_hoodie_record_key"]).to_pylist() == [table.to_pylist()[kept]]


def test_placeholders_in_bytes_are_filled_within_an_input() -> None:
    merge = MergeSettings(EVENT_TIME, ("ts",), partial=PartialUpdate.FILL_UNAVAILABLE, unavailable="?")
    table = pa.table({"_hoodie_record_key": ["k", "k"], "ts": [1, 2], "b": [b"x", b"?"], "t": ["?", "y"]})
    kept = reduce_input(table, merge, key_columns=["_hoodie_record_key"]).to_pylist()
    assert kept == [{"_hoodie_record_key": "k", "ts": 2, "b": b"x", "t": "y"}]


def test_an_ordering_field_of_a_struct() -> None:
    merge = MergeSettings(EVENT_TIME, ("at.x.n",))
    assert merge.columns == ("at.x.n", "at", "_hoodie_is_deleted")
    places = [{"x": {"n": 2}}, {"x": {"n": 3}}, {"x": {"n": 1}}, {"x": None}, None]
    table = pa.table({"k": ["k"] * 5, "at": places, "row": [0, 1, 2, 3, 4]})
    assert reduce_input(table, merge, key_columns=["k"])["row"].to_pylist() == [1]
    # a column of that name comes first
    named = table.append_column("at.x.n", pa.array([5, 4, 3, 2, 1]))
    assert reduce_input(named, merge, key_columns=["k"])["row"].to_pylist() == [0]
    # without the field all values are the default, and the last row stays
    lacking = MergeSettings(EVENT_TIME, ("at.y",))
    assert reduce_input(table, lacking, key_columns=["k"])["row"].to_pylist() == [4]


def test_several_ordering_fields_compare_in_turn() -> None:
    merge = MergeSettings(EVENT_TIME, ("a", "b"))
    table = pa.table({"k": ["x"] * 4, "a": [1, 2, 2, 1], "b": ["z", "a", "b", "zz"], "at": [0, 1, 2, 3]})
    assert reduce_input(table, merge, key_columns=["k"])["at"].to_pylist() == [2]


def test_input_keys_are_partition_and_record_key() -> None:
    table = pa.table(
        {
            "_hoodie_partition_path": ["p", "q", "p", "p", "q"],
            "_hoodie_record_key": ["1", "1", "2", "1", "3"],
            "ts": [5, 1, 1, 4, 1],
        }
    )
    assert reduce_input(table, EVENT).to_pydict()["ts"] == [5, 1, 1, 1]
    assert reduce_input(table, COMMIT).to_pydict()["ts"] == [1, 1, 4, 1]
    distinct = table.slice(0, 3)
    assert reduce_input(distinct, EVENT) is distinct
    assert reduce_input(table.slice(0, 0), EVENT).num_rows == 0


def test_delete_marks() -> None:
    table = pa.table(
        {
            "_hoodie_is_deleted": [True, False, None, None, None],
            "_hoodie_operation": ["I", "-U", "D", "U", None],
            "op": pa.array([1, 2, 3, 7, None], pa.int32()),
        }
    )
    assert delete_marks(table, EVENT).tolist() == [True, True, True, False, False]
    marked = MergeSettings(EVENT_TIME, ("ts",), "op", "7")
    assert delete_marks(table, marked).tolist() == [True, True, True, True, False]


def test_records_without_a_key_are_corrupt() -> None:
    versions = as_versions([row("a", 1), row("b", 2)], np.arange(2, dtype=np.int64))
    without = replace(versions, keys=pa.array(["a", None]))
    with pytest.raises(CorruptFileError, match="1 of 2 have no record key"):
        find_winners(without, MergeSettings(COMMIT_TIME))
