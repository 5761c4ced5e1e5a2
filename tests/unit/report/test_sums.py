"""Sums and bins: what the report says about a timeline, writes and files."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.report.activity import MAX_BINS, MAX_ENTRIES, scale_of
from hudi_py.report.sizes import MAX_PARTITIONS, MAX_SLICES
from tests.support.made_up import at, file, instant, report_of, written

MB = 1_000_000


def test_actions_their_durations_and_overlaps() -> None:
    instants = [instant(0, "commit", 10), instant(5, "deltacommit", 10), instant(20, "clean", 2)]
    instants += [instant(30, "deltacommit", None), instant(30, "commit", 3)]
    history = [written(0, "commit", "UPSERT", (1, 0, 0), 1), written(30, "commit", "COMPACT", (9, 9, 9), 9)]
    found = report_of(instants, history).activity
    assert (found.count, found.pending, found.overlapping, found.most_at_once) == (5, 1, 2, 2)
    assert [(lane.kind, lane.role, lane.count, lane.pending) for lane in found.lanes] == [
        ("commit", "write", 1, 0),
        ("deltacommit", "write", 2, 1),
        ("compaction", "service", 1, 0),
        ("clean", "service", 1, 0),
    ]
    assert found.lanes[0].durations == (10_000, 10_000, 10_000)
    assert all(sum(lane.bins) == lane.count for lane in found.lanes)
    assert [(each.instant, each.overlaps) for each in found.entries][-2:] == [(at(5), 1), (at(0), 1)]
    assert [each.changed for each in found.entries if each.kind in ("commit", "compaction")] == [None, (1, 0, 0)]


def test_actions_that_follow_each_other_do_not_overlap() -> None:
    found = report_of([instant(0, "commit", 5), instant(5, "commit", 5), instant(10, "commit", 5)]).activity
    assert (found.overlapping, found.most_at_once) == (0, 1)


def test_a_savepoint_has_no_duration() -> None:
    found = report_of([instant(0, "commit", 5), instant(0, "savepoint", 900)]).activity
    assert (found.overlapping, [lane.durations for lane in found.lanes]) == (0, [(5_000,) * 3, None])


def test_times_of_copied_files_are_no_durations() -> None:
    instants = [{**instant(n, "commit"), "completion_time": at(90_000 + n)} for n in range(5)]
    old = {"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
    assert report_of(instants, properties=old).activity.copied
    assert not report_of(instants).activity.copied


def test_instants_that_are_no_times() -> None:
    odd = [{**instant(0, "commit"), "instant": "00000000000001"}, {**instant(1, "commit"), "instant": "2026x"}]
    found = report_of([*odd, instant(2, "commit")]).activity
    assert (found.count, len(found.entries), sum(found.lanes[0].bins)) == (3, 3, 1)
    assert report_of(odd[:1]).activity.lanes[0].count == 1


def test_many_instants_are_bins_and_the_newest_ones() -> None:
    pending = instant(17, "deltacommit", None)
    found = report_of([*(instant(n, "commit") for n in range(10_000)), pending]).activity
    assert (len(found.edges), len(found.entries)) == (MAX_BINS + 1, MAX_ENTRIES)
    assert sum(found.lanes[0].bins) == 10_000
    assert found.entries[0].instant == at(9_999)
    assert found.entries[-1].instant == pending["instant"], "what is pending is shown, however old"


spans = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1, max_size=30)


@given(spans)
@settings(max_examples=50, deadline=None)
def test_the_scale_keeps_order_and_shortens_only_idle_times(found: list[tuple[int, int]]) -> None:
    given_spans = [(start, start + took) for start, took in found]
    scale = scale_of(given_spans)
    times = sorted(time for span in given_spans for time in span)
    places = [scale.place(time) for time in times]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 1
    rates = {
        round((scale.place(end) - scale.place(start)) / (end - start), 9) for start, end in given_spans if end > start
    }
    assert max(rates, default=0) - min(rates, default=0) <= 1e-6


def test_amplification_counts_services_as_rewriting() -> None:
    history = [written(0, "deltacommit", "UPSERT", (5, 5, 0), 10), written(1, "commit", "COMPACT", (0, 10, 0), 30)]
    found = report_of(history=history).writes
    assert (found.rows_changed, found.rows_written, found.amplification) == (10, 40, 4.0)
    assert (found.bytes, found.service_bytes) == (4_000, 3_000)
    assert [(each.name, each.service, each.updates) for each in found.operations] == [
        ("COMPACT", True, 0),
        ("UPSERT", False, 5),
    ]
    assert [(each.write_bytes, each.service_bytes, each.rows_changed) for each in found.bins] == [
        (1_000, 0, 10),
        (0, 3_000, 0),
    ]


def test_bins_of_writes_lose_none() -> None:
    history = [written(n, "commit", "INSERT", (n % 7, 0, 0), n) for n in range(1_003)]
    found = report_of(history=history).writes
    assert sum(each.commits for each in found.bins) == 1_003
    assert sum(each.write_bytes for each in found.bins) == found.bytes == sum(range(1_003)) * 100
    assert (found.bins[0].first, found.bins[-1].last) == (at(0), at(1_002))
    assert report_of().writes.amplification is None


def test_sizes_of_partitions_and_logs() -> None:
    files = [file(1, "a", 200 * MB, 3, 9), file(2, "a", 5 * MB), file(3, "b", 0, 25, 70), file(4, "", 1 * MB)]
    found = report_of(files=files).files
    assert [(each.name, each.groups, each.base_files, each.bytes, each.small_files) for each in found.partitions] == [
        ("a", 2, 2, 205 * MB + 9, 1),
        ("", 1, 1, 1 * MB, 1),
        ("b", 1, 0, 70, 0),
    ]
    assert (found.total.groups, found.total.log_files, found.others) == (4, 28, None)
    assert (found.small_limit, found.small_bytes, found.waiting) == (100 * 1024 * 1024, 6 * MB, 2)
    assert sum(each.files for each in found.sizes) == 3
    assert [(each.low, each.high, each.slices) for each in found.logs if each.slices] == [
        (0, 0, 2),
        (2, 4, 1),
        (20, None, 1),
    ]
    assert [(each.file_id, each.log_files) for each in found.slices] == [("00000003", 25), ("00000001", 3)]


def test_what_is_not_listed_is_summed() -> None:
    found = report_of(files=(file(n, f"p{n % 100}", MB + n, n % 2, n % 2) for n in range(1_000))).files
    assert (len(found.partitions), len(found.slices), found.num_partitions) == (MAX_PARTITIONS, MAX_SLICES, 100)
    assert found.others is not None
    for name in ("groups", "base_files", "base_bytes", "log_files", "log_bytes", "small_files"):
        listed = sum(getattr(each, name) for each in found.partitions)
        assert listed + getattr(found.others, name) == getattr(found.total, name)
