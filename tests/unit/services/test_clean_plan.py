"""What each policy lets go, and what is never let go."""

from __future__ import annotations

from datetime import timezone

import pytest

from hudi_py.config import Options
from hudi_py.config.services import cleaning_policy
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.model.instant import Action
from hudi_py.services.clean import earliest_to_retain
from hudi_py.timeline.times import epoch_ms
from hudi_py.transaction.instants import requested_path
from tests.support.clean_tables import HandMadeTable, clean_options

F1 = ("a", "f1")
F2 = ("b", "f2")
VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
HOURS = "KEEP_LATEST_BY_HOURS"

every_version = pytest.mark.parametrize("version", [6, 8, 9])


def base(group: tuple[str, str], time: str) -> str:
    return f"{group[0]}/{group[1]}_0-1-0_{time}.parquet"


def resolved(**options: object) -> Options:
    return Options.resolve(clean_options(options), defaults={})


# ---- policies


def test_the_policy_is_that_of_the_only_number_given() -> None:
    assert cleaning_policy(resolved()) == "KEEP_LATEST_COMMITS"
    assert cleaning_policy(resolved(commits=3)) == "KEEP_LATEST_COMMITS"
    assert cleaning_policy(resolved(hours=3)) == HOURS
    assert cleaning_policy(resolved(versions=3)) == VERSIONS
    assert cleaning_policy(resolved(versions=3, commits=2)) == "KEEP_LATEST_COMMITS"
    assert cleaning_policy(resolved(versions=3, policy=HOURS)) == HOURS


@every_version
def test_by_commits_the_version_before_the_earliest_retained_stays(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    times = [table.update(F1) for _ in range(5)]
    # retained: the last three; the one before the earliest of them serves queries as of just before it
    assert table.planned_files(commits=3) == {base(F1, first), base(F1, times[0])}
    plan = table.plan(commits=3).plan
    assert plan is not None
    assert plan.earliest is not None
    assert (plan.earliest.time, plan.earliest.action) == (times[2], "commit")
    assert plan.last_completed == times[-1]
    assert plan.policy == "KEEP_LATEST_COMMITS"
    assert plan.partitions_to_delete == ()


def test_too_few_commits_say_so() -> None:
    table = HandMadeTable()
    table.insert(F1)
    table.update(F1)
    planned = table.plan(commits=2)
    assert planned.plan is None
    assert planned.reason == "the active timeline has 2 commits, and 2 are kept (hoodie.clean.commits.retained)"


@every_version
@pytest.mark.parametrize("action", ["commit", "compaction", "clustering", "log compaction"])
def test_the_earliest_retained_is_not_after_the_oldest_pending(version: int, action: str) -> None:
    table = HandMadeTable(version, mor=True)
    table.insert(F1, F2)
    times = [table.update(F2) for _ in range(2)]
    if action == "commit":
        table.begin()
    elif action == "clustering":
        table.schedule_clustering(F1)
    else:
        table.schedule_compaction(F1, log=action == "log compaction")
    later = [table.update(F2) for _ in range(4)]
    found = earliest_to_retain(table.timeline, resolved(commits=2), now_ms=0, zone=timezone.utc)
    assert found is not None
    # a pending log compaction holds nothing back: it only rewrites logs
    assert found.time == (later[-2] if action == "log compaction" else times[-1])


def test_a_pending_commit_before_all_others_leaves_nothing_to_clean() -> None:
    table = HandMadeTable()
    pending = table.begin()
    table.insert(F1)
    for _ in range(4):
        table.update(F1)
    planned = table.plan(commits=2)
    assert planned.plan is None
    assert planned.reason == f"the commit {pending} is pending, and there is no commit before it"


@every_version
def test_by_hours(version: int) -> None:
    table = HandMadeTable(version)
    times = [table.insert(F1)]
    for _ in range(5):
        table.tick(60)
        times.append(table.update(F1))
    # commits are 62 minutes apart: those of the last three hours are three
    assert table.planned_files(hours=3) == {base(F1, time) for time in times[:2]}
    plan = table.plan(hours=3).plan
    assert plan is not None
    assert plan.policy == HOURS
    assert plan.earliest is not None
    assert plan.earliest.time == times[3]
    assert table.planned_files(hours=300) == set()
    table.tick(600)
    planned = table.plan(hours=3)
    assert planned.plan is None
    assert "no commit in the last 3 hours" in planned.reason


def test_hours_are_counted_in_the_zone_of_the_table() -> None:
    table = HandMadeTable()
    times = [table.insert(F1)]
    for _ in range(3):
        table.tick(60)
        times.append(table.update(F1))
    now_ms = epoch_ms(times[-1], timezone.utc) + 1000
    found = earliest_to_retain(table.timeline, resolved(hours=2), now_ms=now_ms, zone=timezone.utc)
    assert found is not None
    assert found.time == times[2]


@every_version
def test_by_versions_every_group_keeps_its_newest(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(F1, F2)
    times = [table.update(F1) for _ in range(3)]
    newest = table.update(F2)
    plan = table.plan(versions=2).plan
    assert plan is not None
    assert plan.earliest is None
    assert table.planned_files(versions=2) == {base(F1, time) for time in (table_first(table), times[0])}
    assert table.planned_files(versions=1) >= {base(F1, times[1]), base(F2, table_first(table))}
    assert base(F2, newest) not in table.planned_files(versions=1)
    assert table.planned_files(versions=5) == set()


def table_first(table: HandMadeTable) -> str:
    return table.timeline.write_completed[0].time


def test_one_clean_goes_forward_by_at_most_so_many_commits() -> None:
    table = HandMadeTable()
    table.insert(F1)
    for _ in range(4):
        table.update(F1)
    assert table.clean(commits=2).earliest_retained == table.timeline.write_completed[-2].time
    for _ in range(6):
        table.update(F1)
    commits = table.timeline.write_completed
    # from the last clean's earliest retained, the fourth commit, go two commits forward
    assert table.clean(commits=2, at_most=2).earliest_retained == commits[5].time
    assert table.plan(commits=2, at_most=2, trigger=0).plan.earliest.time == commits[7].time  # type: ignore[union-attr]


def test_a_clean_is_due_after_so_many_commits() -> None:
    table = HandMadeTable()
    table.insert(F1)
    for _ in range(4):
        table.update(F1)
    assert table.clean(commits=2).num_files == 2
    table.update(F1)
    planned = table.plan(commits=2, trigger=2)
    assert planned.plan is None
    assert planned.reason.startswith("1 commit since the last clean, ")
    table.update(F1)
    assert len(table.planned_files(commits=2, trigger=2)) == 2


# ---- partitions


def test_chosen_partitions() -> None:
    table = HandMadeTable()
    table.insert(F1, F2)
    for _ in range(3):
        table.update(F1, F2)
    full = {"commits": 1, "incremental": False}
    assert {path[0] for path in table.planned_files(**full)} == {"a", "b"}
    assert {path[0] for path in table.planned_files(**full, selected="b,c")} == {"b"}
    assert {path[0] for path in table.planned_files(**full, regex="[a]")} == {"a"}
    assert {path[0] for path in table.planned_files(**full, regex="[a]", selected="b")} == {"b"}
    with pytest.raises(ConfigError, match=r"partition\.filter\.regex cannot be used with incremental cleaning"):
        table.plan(commits=1, regex="a")
    with pytest.raises(ConfigError, match=r"partition\.filter\.regex = '\(' is not valid: .*a regular expression"):
        table.plan(**full, regex="(")


def test_after_chosen_partitions_all_are_looked_at() -> None:
    table = HandMadeTable()
    table.insert(F1, F2)
    for _ in range(4):
        table.update(F1, F2)
    assert table.clean(commits=2, incremental=False, selected="b").num_partitions == 1
    table.update(F2)
    assert {path[0] for path in table.planned_files(commits=2)} == {"a", "b"}


@every_version
def test_a_partition_whose_groups_are_all_replaced_goes(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(F1, F2)
    table.replace([F1], [])
    for _ in range(3):
        table.update(F2)
    plan = table.plan(commits=2).plan
    assert plan is not None
    assert plan.partitions_to_delete == ("a",)
    report = table.clean(commits=2)
    assert report.deleted_partitions == ("a",)
    assert table.storage.stat("a") is None
    # nothing is left to do there
    table.update(F2)
    assert table.clean(commits=2).deleted_partitions == ()


def test_a_partition_is_emptied_by_a_plan_that_names_it() -> None:
    """Apache Hudi reports only partitions that have an entry, be it an empty one."""
    table = HandMadeTable()
    table.insert(F2)
    table.storage.put("empty/.hoodie_partition_metadata", b"")
    for _ in range(3):
        table.update(F2)
    plan = table.plan(versions=3, commits=9, policy=VERSIONS).plan
    assert plan is not None
    assert plan.files["empty"] == ()
    assert plan.partitions_to_delete == ("empty",)
    assert table.clean(versions=3).deleted_partitions == ("empty",)


def test_a_partition_with_a_file_of_a_pending_write_stays() -> None:
    table = HandMadeTable()
    table.insert(F1, F2)
    table.replace([F1], [])
    for _ in range(3):
        table.update(F2)
    pending = table.begin()
    table.base(pending, "a", "f9")
    plan = table.plan(versions=1).plan
    assert plan is not None
    assert "a" in plan.files
    assert plan.partitions_to_delete == ()


def test_an_unpartitioned_table_is_never_emptied() -> None:
    table = HandMadeTable(partitioned=False)
    table.insert(("", "f1"))
    table.replace([("", "f1")], [])
    plan = table.plan(versions=1).plan
    assert plan is not None
    assert plan.partitions_to_delete == ()
    assert table.clean(versions=1).num_files == 1


# ---- a guard for each kind of file that must never go


@every_version
@pytest.mark.parametrize("mor", [False, True])
@pytest.mark.parametrize("options", [{"commits": 1}, {"versions": 1}, {"hours": 1, "policy": HOURS}])
def test_savepointed_files_stay(version: int, mor: bool, options: dict[str, object]) -> None:
    table = HandMadeTable(version, mor=mor)
    first = table.insert(F1, F2)
    saved = table.update(F1, F2)
    table.savepoint(saved)
    kept = {path for path in table.files() if saved in path or (mor and first in path)}
    assert len(kept) == (4 if mor else 2)
    for _ in range(3):
        if mor:
            time = table.schedule_compaction(F1, F2)
            table.finish_compaction(time, F1, F2)
        table.tick(100)
        table.update(F1, F2)
    planned = table.planned_files(**options)
    assert planned
    assert not planned & kept
    table.clean(**options)
    assert kept <= table.files()
    table.delete_savepoint(saved)
    table.update(F1, F2)
    assert table.planned_files(**options) >= (kept if mor else {base(F1, saved), base(F2, saved)})


def test_savepointed_files_of_replaced_groups_stay_and_their_partition() -> None:
    table = HandMadeTable()
    saved = table.insert(F1, F2)
    table.savepoint(saved)
    table.replace([F1], [])
    for _ in range(3):
        table.update(F2)
    plan = table.plan(versions=1).plan
    assert plan is not None
    assert plan.partitions_to_delete == ()
    assert base(F1, saved) not in table.planned_files(versions=1)
    table.clean(versions=1)
    assert {base(F1, saved), base(F2, saved)} <= table.files()


def test_a_savepointed_version_does_not_use_one_up() -> None:
    table = HandMadeTable()
    times = [table.insert(F1)] + [table.update(F1) for _ in range(4)]
    table.savepoint(times[-1])
    # the newest is savepointed: two more are kept
    assert table.planned_files(versions=2) == {base(F1, time) for time in times[:2]}


@pytest.mark.parametrize(("version", "log"), [(6, False), (8, False), (8, True), (9, False), (9, True)])
@pytest.mark.parametrize("options", [{"versions": 1}, {"hours": 1}])
def test_slices_that_a_pending_compaction_reads_stay(version: int, log: bool, options: dict[str, object]) -> None:
    table = HandMadeTable(version, mor=True)
    first = table.insert(F1)
    table.finish_compaction(table.schedule_compaction(F1), F1)
    newest = table.update(F1)
    table.schedule_compaction(F1, log=log)
    needed = {path for path in table.files() if first not in path or newest in path}
    table.tick(600)
    table.update(F1)
    assert table.planned_files(**options) == {path for path in table.files() if first in path} - needed


def test_the_version_of_a_pending_compaction_counts() -> None:
    table = HandMadeTable(mor=True)
    table.insert(F1)
    times = [table.schedule_compaction(F1)]
    table.finish_compaction(times[0], F1)
    for _ in range(3):
        times.append(table.schedule_compaction(F1))
        table.finish_compaction(times[-1], F1)
    before = table.planned_files(versions=3)
    table.schedule_compaction(F1)
    # the slice that the compaction reads stays, and of the others two, as the pending one is the third
    after = table.planned_files(versions=3)
    assert len(before) == 2
    assert len(after) == 2
    table_one = table.planned_files(versions=1)
    assert base(F1, times[-1]) not in table_one
    assert len(table_one) == 4


@every_version
@pytest.mark.parametrize("options", [{"versions": 1}, {"hours": 1}, {"commits": 1}])
def test_files_that_a_pending_clustering_reads_stay(version: int, options: dict[str, object]) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    table.schedule_clustering(F1)
    # an update strategy of Apache Hudi lets writes go on there
    for _ in range(3):
        table.tick(600)
        table.update(F1, F2)
    planned = table.planned_files(**options)
    assert base(F1, first) not in planned
    assert (base(F2, first) in planned) is ("commits" not in options)


@every_version
def test_files_of_a_pending_compaction_stay_when_their_group_is_replaced(version: int) -> None:
    table = HandMadeTable(version, mor=True)
    first = table.insert(F1)
    table.update(F1)
    table.schedule_compaction(F1)
    table.replace([F1], [("a", "f3")])
    assert not any("f1" in path for path in table.planned_files(versions=1))
    assert base(F1, first) in table.files()


@every_version
@pytest.mark.parametrize("mor", [False, True])
def test_the_last_version_stays_however_old(version: int, mor: bool) -> None:
    table = HandMadeTable(version, mor=mor)
    table.insert(F1, F2)
    for _ in range(8):
        table.update(F2)
    table.tick(6000)
    table.update(F2)
    for options in ({"commits": 1}, {"hours": 1}, {"versions": 1}):
        planned = table.planned_files(**options)
        assert not any("f1" in path for path in planned)
        if not mor:
            assert planned


@every_version
def test_files_of_writes_under_way_and_of_failed_ones_stay(version: int) -> None:
    """Failed writes are rolled back, never cleaned; one that is under way may be read by nobody but lives."""
    table = HandMadeTable(version, mor=True)
    table.insert(F1)
    pending = table.begin()
    table.base(pending, "a", "f7")
    table.log(pending, "a", "f1", table_first(table))
    for _ in range(3):
        table.finish_compaction(table.schedule_compaction(F1), F1)
    for options in ({"commits": 1}, {"hours": 1}, {"versions": 1}):
        planned = table.planned_files(**options)
        assert not any("f7" in path for path in planned)
        if version >= 8:
            assert not any(pending in path for path in planned)


@every_version
def test_replaced_groups_stay_as_long_as_a_retained_commit_shows_them(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    replaced = table.replace([F1], [("a", "f3")])
    table.update(F2)
    table.update(F2)
    assert base(F1, first) not in table.planned_files(commits=3)
    assert table.timeline.write_completed[-3].time == replaced
    assert base(F1, first) in table.planned_files(commits=2)
    # versions are counted in groups that are there
    assert base(F1, first) in table.planned_files(versions=9)


# ---- what goes with a slice


@pytest.mark.parametrize("version", [6, 8, 9])
def test_logs_go_with_their_slice(version: int) -> None:
    table = HandMadeTable(version, mor=True)
    first = table.insert(F1)
    for _ in range(2):
        table.update(F1)
    whole_slice = table.files()
    for _ in range(3):
        table.finish_compaction(table.schedule_compaction(F1), F1)
    assert len(whole_slice) == 3
    assert base(F1, first) in whole_slice
    assert table.planned_files(versions=3) == whole_slice
    compacted = [instant.time for instant in table.timeline.write_completed[-3:]]
    assert table.planned_files(commits=2) == whole_slice
    assert table.planned_files(commits=1) == whole_slice | {base(F1, compacted[0])}


@every_version
def test_change_data_files_go_with_their_slice(version: int) -> None:
    table = HandMadeTable(version, cdc=True)
    table.insert(F1)
    times = [table.update(F1) for _ in range(4)]
    planned = table.planned_files(commits=2)
    assert f"a/.f1_{times[0]}.log.1_0-1-0.cdc" in planned
    assert f"a/.f1_{times[1]}.log.1_0-1-0.cdc" not in planned
    assert base(F1, times[0]) in planned


def test_other_files_are_none_of_its_business() -> None:
    table = HandMadeTable()
    table.insert(F1)
    for _ in range(4):
        table.update(F1)
    before = table.planned_files(versions=1)
    for name in ("_SUCCESS", "notes_1_2.txt", ".f1_1.log", "f1_0-1-0_20000101000000000.parquet.tmp", "f1.parquet"):
        table.storage.put(f"a/{name}", b"")
    assert table.planned_files(versions=1) == before


# ---- doubt


@pytest.mark.parametrize("what", ["savepoint", "compaction", "clean"])
def test_what_cannot_be_read_stops_the_clean(what: str) -> None:
    table = HandMadeTable(mor=True)
    saved = table.insert(F1, F2)
    for _ in range(4):
        table.finish_compaction(table.schedule_compaction(F1), F1)
    if what == "savepoint":
        table.savepoint(saved)
        action = Action.SAVEPOINT
    elif what == "compaction":
        time = table.schedule_compaction(F1)
        table.storage.put(requested_path(table.layout, time, Action.COMPACTION), b"torn")
        action = None
    else:
        table.clean(commits=1)
        action = Action.CLEAN
    for instant in table.timeline.completed:
        if instant.action is action:
            table.storage.put(table.layout.path(instant.file_name), b"torn")
    with pytest.raises(CorruptFileError, match="torn|container"):
        table.plan(versions=1, trigger=0)
