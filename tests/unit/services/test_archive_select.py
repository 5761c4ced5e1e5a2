"""Which instants may be archived: one limit at a time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.config import Options
from hudi_py.config import services as services_config
from hudi_py.config.services import check_archive
from hudi_py.errors import ConfigError
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime
from hudi_py.services.archive.select import (
    ArchiveConstraints,
    earliest_commit_to_retain,
    select_instants,
)
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.timeline import Timeline, timeline_of
from tests.support.archiving import archiving

SETTINGS = archiving(min_commits=2, max_commits=4, cleaner_commits=1, compaction_commits=None)


def at(number: int) -> str:
    return f"20240101{number:02}0000000"


def done(number: int) -> str:
    return f"20240101{number:02}3000000"


def timeline(version: int, *actions: str) -> Timeline:
    """One instant an action, numbered from 1; `commit`, `commit.inflight`, `commit.requested`."""
    layout = Layout(version, ".hoodie/timeline")
    files = []
    for number, action in enumerate(actions, 1):
        name = f"{at(number)}.{action}"
        if "." not in action and version >= 2:
            name = f"{at(number)}_{done(number)}.{action}"
        instant = layout.parse(name)
        assert instant is not None, name
        if instant.completed and version < 2:
            instant = replace(instant, completion_time=CompletionTime(done(number)))
        files.append(instant)
    return timeline_of(layout, files)


def chosen(found: Timeline, settings: Options = SETTINGS, facts: ArchiveConstraints | None = None) -> list[int]:
    selection = select_instants(found, settings, facts or ArchiveConstraints())
    assert bool(selection.instants) is not bool(selection.reason)
    return [int(instant.time[8:10]) for instant in selection.instants]


@pytest.mark.parametrize("version", [1, 2])
def test_the_newest_stay(version: int) -> None:
    assert chosen(timeline(version, *["commit"] * 4)) == []
    assert chosen(timeline(version, *["commit"] * 5)) == [1, 2, 3]
    assert chosen(timeline(version, *["commit"] * 9)) == [1, 2, 3, 4, 5, 6, 7]


def test_why_nothing_is_archived() -> None:
    selection = select_instants(timeline(2, "commit"), SETTINGS, ArchiveConstraints())
    assert selection.reason == "the active timeline has 1 commit and may have up to 4"


@pytest.mark.parametrize(
    ("first", "facts", "settings", "why"),
    [
        ("commit.inflight", ArchiveConstraints(), {}, f"the commit {at(1)} is pending"),
        ("indexing.requested", ArchiveConstraints(), {}, f"the indexing {at(1)} is pending"),
        ("commit", ArchiveConstraints(replaced=at(1)), {}, "files that it replaced have not been cleaned yet"),
        ("commit", ArchiveConstraints(rolled_back=(at(1),)), {}, "a pending rollback or restore needs it"),
        (
            "deltacommit",
            ArchiveConstraints(merge_on_read=True),
            {"compaction_commits": 9},
            "the next compaction counts from it (hoodie.compact.inline.max.delta.commits)",
        ),
        (
            "commit",
            ArchiveConstraints(has_metadata_table=True, metadata_compaction=at(1)),
            {},
            "the metadata table has not been compacted since",
        ),
        (
            "commit",
            ArchiveConstraints(earliest_retained=at(1)),
            {"block_on_clean": True},
            "the last clean retained it (hoodie.archive.block.on.latest.clean.ectr)",
        ),
        (
            "commit",
            ArchiveConstraints(data_timeline=timeline(2, "commit")),
            {},
            "it is still on the active timeline of the table",
        ),
    ],
)
def test_what_holds_archiving_up_is_told(
    first: str, facts: ArchiveConstraints, settings: dict[str, object], why: str
) -> None:
    held = timeline(2, first, *["commit" if first != "deltacommit" else first] * 8)
    found = select_instants(held, archiving(SETTINGS, **settings), facts)
    assert found.instants == ()
    assert found.reason == f"everything before {at(1)} is archived, and what follows has to stay: {why}"


def test_a_savepoint_that_holds_archiving_up_is_told() -> None:
    layout = Layout(2, ".hoodie/timeline")
    saved = layout.parse(f"{at(1)}_{done(9)}.savepoint")
    assert saved is not None
    held = timeline_of(layout, [*timeline(2, *["commit"] * 9).files, saved])
    assert select_instants(held, SETTINGS, ArchiveConstraints()).reason.endswith("has to stay: it has a savepoint")


def test_the_cleaner_needs_more() -> None:
    commits = timeline(2, *["commit"] * 12)
    assert chosen(commits, archiving(SETTINGS, cleaner_commits=6)) == [1, 2, 3, 4, 5]
    # Then the greatest number grows, too: 7 + 4 - 2 commits may stay
    assert chosen(timeline(2, *["commit"] * 9), archiving(SETTINGS, cleaner_commits=6)) == []
    assert chosen(commits, archiving(SETTINGS, cleaner_commits=12)) == list(range(1, 11))  # it cleans nothing yet
    hours = archiving(SETTINGS, cleaner_policy="KEEP_LATEST_BY_HOURS", cleaner_hours=5)
    assert chosen(commits, hours) == [1, 2, 3, 4, 5]
    versions = archiving(SETTINGS, cleaner_policy="KEEP_LATEST_FILE_VERSIONS")
    assert chosen(commits, versions) == list(range(1, 11))


def test_what_the_cleaner_keeps_ends_before_a_pending_commit() -> None:
    commits = timeline(2, "commit", "commit", "commit.inflight", *["commit"] * 9)
    earliest = earliest_commit_to_retain(commits, archiving(SETTINGS, cleaner_commits=3))
    assert earliest is not None
    assert earliest.time == at(2)
    # A pending compaction does not end it: nothing from there on is archived in any case
    commits = timeline(2, *["commit"] * 3, "compaction.requested", *["commit"] * 12)
    earliest = earliest_commit_to_retain(commits, archiving(SETTINGS, cleaner_commits=3))
    assert earliest is not None
    assert earliest.time == at(14)
    init = timeline_of(Layout(2, ""), [i for i in (Layout(2, "").parse("00000000000000_00000000000001.commit"),) if i])
    hours = archiving(SETTINGS, cleaner_policy="KEEP_LATEST_BY_HOURS")
    assert earliest_commit_to_retain(init, hours) is None


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "pending", ["commit.requested", "deltacommit.inflight", "compaction.requested", "replacecommit.inflight"]
)
def test_a_pending_write_and_the_commit_before_it_stay(version: int, pending: str) -> None:
    commits = ["commit"] * 4
    versions = archiving(SETTINGS, cleaner_policy="KEEP_LATEST_FILE_VERSIONS")
    assert chosen(timeline(version, *commits, pending, *commits), versions) == [1, 2, 3]
    assert chosen(timeline(version, pending, *commits, *commits), versions) == []


def test_a_pending_clean_holds_nothing_and_a_pending_index_does() -> None:
    commits = ["commit"] * 4
    assert chosen(timeline(2, *commits, "clean.inflight", *commits)) == [1, 2, 3, 4, 6, 7]
    assert chosen(timeline(2, *commits, "indexing.requested", *commits)) == [1, 2, 3, 4]
    assert chosen(timeline(2, *commits, "restore.inflight", *commits)) == [1, 2, 3, 4]


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_being_rolled_back_stays(version: int) -> None:
    commits = timeline(version, *["commit"] * 9)
    assert chosen(commits, facts=ArchiveConstraints(rolled_back=(at(4),))) == [1, 2, 3]


@pytest.mark.parametrize("version", [1, 2])
def test_savepoints(version: int) -> None:
    layout = Layout(version, ".hoodie/timeline")
    name = f"{at(3)}.savepoint" if version < 2 else f"{at(3)}_{done(9)}.savepoint"
    saved = layout.parse(name)
    assert saved is not None
    commits = timeline_of(layout, [*timeline(version, *["commit"] * 9).files, saved])
    assert chosen(commits) == [1, 2]
    assert chosen(commits, archiving(SETTINGS, beyond_savepoint=True)) == [1, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_without_savepoint_stays(version: int) -> None:
    layout = Layout(version, ".hoodie/timeline")
    names = [f"{at(n)}.savepoint" if version < 2 else f"{at(n)}_{done(9)}.savepoint" for n in (1, 2)]
    saved = [instant for name in names if (instant := layout.parse(name)) is not None]
    commits = timeline_of(layout, [*timeline(version, *["commit"] * 5).files, *saved])
    assert chosen(commits, archiving(SETTINGS, beyond_savepoint=True)) == [3, 4]


@pytest.mark.parametrize("version", [1, 2])
def test_compactions_are_scheduled_by_delta_commits(version: int) -> None:
    mor = ArchiveConstraints(merge_on_read=True)
    counting = archiving(SETTINGS, compaction_commits=3)
    assert chosen(timeline(version, *["deltacommit"] * 9), counting, mor) == [1, 2, 3, 4, 5, 6]
    assert chosen(timeline(version, *["deltacommit"] * 9), counting) == list(range(1, 8))
    assert chosen(timeline(version, *["deltacommit"] * 9), archiving(SETTINGS, compaction_commits=20), mor) == []
    after = timeline(version, *["deltacommit"] * 5, "commit", *["deltacommit"] * 2)
    assert chosen(after, counting, mor) == [1, 2, 3, 4, 5]
    assert chosen(after, archiving(SETTINGS, compaction_commits=1), mor) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("version", [1, 2])
def test_replaced_files_are_cleaned_first(version: int) -> None:
    commits = timeline(version, "commit", "commit", "replacecommit", *["commit"] * 6)
    assert chosen(commits) == [1, 2, 3, 4, 5, 6, 7]
    assert chosen(commits, facts=ArchiveConstraints(replaced=at(3))) == [1, 2]


@pytest.mark.parametrize("version", [1, 2])
def test_the_metadata_table_is_compacted_first(version: int) -> None:
    commits = timeline(version, *["commit"] * 9)
    held = select_instants(commits, SETTINGS, ArchiveConstraints(has_metadata_table=True))
    assert held.instants == ()
    assert held.reason == ("the metadata table has not been compacted yet (hoodie.metadata.compact.max.delta.commits)")
    # Layout 1 compares requested times, layout 2 completion times: the first commit after stays
    for compacted, expected in ((at(4), [1, 2, 3]), (done(4), [1, 2, 3, 4])):
        facts = ArchiveConstraints(has_metadata_table=True, metadata_compaction=compacted)
        assert chosen(commits, facts=facts) == expected


def test_a_metadata_table_keeps_what_its_table_shows() -> None:
    commits = timeline(2, *["deltacommit"] * 9)
    data = timeline(2, "rollback", "clean", "clean", "commit", "commit")
    assert chosen(commits, facts=ArchiveConstraints(data_timeline=data)) == [1, 2, 3]
    data = timeline(2, "rollback", "clean.inflight", "clean", "commit", "commit")
    assert chosen(commits, facts=ArchiveConstraints(data_timeline=data)) == [1]
    assert chosen(timeline(1, *["deltacommit"] * 9), facts=ArchiveConstraints(data_timeline=data)) == [1]
    assert chosen(commits, facts=ArchiveConstraints(data_timeline=timeline(2))) == list(range(1, 8))


def test_blocked_by_the_last_clean() -> None:
    commits = timeline(2, *["commit"] * 9)
    facts = ArchiveConstraints(earliest_retained=at(5))
    assert chosen(commits, facts=facts) == [1, 2, 3, 4, 5, 6, 7]
    assert chosen(commits, archiving(SETTINGS, block_on_clean=True), facts) == [1, 2, 3, 4]


def test_cleans_and_rollbacks_of_layout_2_go_with_the_commits() -> None:
    found = timeline(
        2, "clean", "commit", "rollback", "clean", "commit", "commit", "clean", "commit", "commit", "clean"
    )
    assert chosen(found) == [1, 2, 3, 4, 5, 6]
    assert chosen(timeline(2, *["clean"] * 20, "commit")) == []


def test_cleans_and_rollbacks_of_layout_1_go_by_their_number() -> None:
    assert chosen(timeline(1, *["clean"] * 4, *["rollback"] * 5, "commit")) == [5, 6, 7]
    assert chosen(
        timeline(1, *["clean"] * 9), facts=ArchiveConstraints(has_metadata_table=True, metadata_compaction=at(3))
    ) == [
        1,
        2,
    ]
    assert chosen(timeline(1, *["clean"] * 9), facts=ArchiveConstraints(rolled_back=(at(2),))) == [1]


def test_indexes_restores_and_savepoints_are_not_archived() -> None:
    found = timeline(2, "indexing", "restore", *["commit"] * 9)
    assert chosen(found) == [3, 4, 5, 6, 7, 8, 9]


def test_more_may_stay_than_have_to() -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.keep\.max\.commits = 20 .* must be greater"):
        check_archive(Options.resolve({"hoodie.keep.max.commits": "20"}))
    check_archive(Options.resolve({"archive.min_commits": 40, "archive.max_commits": "50"}))


ACTIONS = ["commit", "deltacommit", "replacecommit", "clean", "rollback", "commit.inflight", "clean.inflight"]


@given(st.lists(st.sampled_from(ACTIONS), max_size=40), st.sampled_from([1, 2]), st.integers(0, 1000))
def test_archived_writes_are_a_run_of_completed_ones(actions: list[str], version: int, seed: int) -> None:
    found = timeline(version, *actions)
    facts = ArchiveConstraints(
        merge_on_read=bool(seed % 2),
        replaced=at(1 + seed % 30) if seed % 3 else None,
        rolled_back=(at(1 + random.Random(seed).randrange(40)),) if seed % 5 == 0 else (),
    )
    selection = select_instants(found, archiving(SETTINGS, compaction_commits=3), facts)
    assert all(instant.completed for instant in selection.instants)
    writes = [i for i in selection.instants if i.action.comparable in WRITE_ACTIONS]
    assert list(found.write_completed[: len(writes)]) == writes
    assert len(found.write_completed) - len(writes) >= min(
        SETTINGS.get(services_config.ARCHIVE_MIN_COMMITS), len(found.write_completed)
    )
    pending = [i.time for i in found.pending if i.action.comparable in WRITE_ACTIONS]
    assert all(instant.time < pending[0] for instant in writes if pending)
    if version == 2 and not writes:
        assert selection.instants == ()
    assert all(i.action in (Action.CLEAN, Action.ROLLBACK) for i in selection.instants if i not in writes)
