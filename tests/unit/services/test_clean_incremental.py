"""An incremental clean finds what a full one finds, though it looks at few partitions."""

from __future__ import annotations

import pytest

from hudi_py.model.instant import Action
from hudi_py.timeline.plans import RollbackMetadata, encode_rollback_metadata
from tests.support.clean_tables import HandMadeTable

F1 = ("a", "f1")
F2 = ("b", "f2")

every_version = pytest.mark.parametrize("version", [6, 8, 9])


def base(group: tuple[str, str], time: str) -> str:
    return f"{group[0]}/{group[1]}_0-1-0_{time}.parquet"


def planned(table: HandMadeTable, **options: object) -> set[str]:
    """What an incremental clean would delete, which is what a full one would."""
    found = table.planned_files(**options)
    assert found == table.planned_files(**options, incremental=False)
    return found


def looked_at(table: HandMadeTable, **options: object) -> str:
    plan = table.plan(**options)
    assert plan.plan is None
    return plan.reason


@every_version
def test_only_partitions_changed_since_the_last_clean_are_looked_at(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(F1, F2)
    for _ in range(4):
        table.update(F1, F2)
    table.clean(commits=2)
    table.insert(("c", "f3"))
    # between the earliest retained of then and of now lies an update of both
    assert {path[0] for path in planned(table, commits=2)} == {"a", "b"}
    table.clean(commits=2)
    for number in range(3):
        table.insert(("c", f"f{number + 4}"))
    # inserts into new file groups of a copy-on-write table supersede nothing
    table.clean(commits=1)
    table.insert(("c", "f7"))
    table.insert(("c", "f8"))
    assert "in the 0 partitions considered" in looked_at(table, commits=1)
    assert "in the 3 partitions considered" in looked_at(table, commits=1, incremental=False)


@every_version
def test_a_write_that_completes_long_after_it_began(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    late = table.begin()
    stats = table.update_stats(late, F1)
    for _ in range(3):
        table.tick(600)
        table.update(F2)
    assert table.clean(hours=5).earliest_retained > late
    table.finish(late, table.write_action, stats)
    assert planned(table, hours=5, trigger=0) == {base(F1, first)}


@every_version
def test_a_savepoint_is_deleted(version: int) -> None:
    table = HandMadeTable(version)
    saved = table.insert(F1, F2)
    table.savepoint(saved)
    for _ in range(4):
        table.update(F1)
    assert table.clean(commits=1).num_files == 2
    for _ in range(3):
        table.update(F2)
    assert base(F2, saved) not in planned(table, commits=1)
    table.clean(commits=1)
    table.update(F2)
    table.delete_savepoint(saved)
    assert planned(table, commits=1) >= {base(F1, saved), base(F2, saved)}


@every_version
def test_a_clustering_is_taken_back(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    clustering = table.schedule_clustering(F1)
    for _ in range(3):
        table.tick(600)
        table.update(F1, F2)
    assert table.clean(hours=1).num_files == 3
    table.take_back(clustering, Action.CLUSTERING)
    rollback = table.request(Action.ROLLBACK)
    table.complete(
        rollback,
        Action.ROLLBACK,
        encode_rollback_metadata(RollbackMetadata(rollback, 1, clustering, Action.CLUSTERING.value)),
    )
    table.update(F2)
    assert base(F1, first) in planned(table, hours=1)


@every_version
def test_replaced_groups_in_partitions_that_nothing_was_written_to(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(F1, F2)
    for _ in range(4):
        table.update(F2)
    table.clean(commits=2)
    table.replace([F1], [("b", "f3")])
    for _ in range(3):
        table.update(F2)
    assert base(F1, first) in planned(table, commits=2)


@every_version
def test_the_policy_changes(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(F1, F2)
    for _ in range(6):
        table.update(F1, F2)
    assert table.clean(versions=5).num_files == 4
    table.update(F2)
    assert len(planned(table, commits=2)) == 6
    table.clean(commits=2)
    table.update(F2)
    table.update(F2)
    # fewer commits are kept, then more
    assert {path[0] for path in planned(table, commits=1)} == {"a", "b"}
    assert planned(table, commits=9) == set()


@pytest.mark.parametrize("gone", ["before the timeline", "never"])
def test_everything_is_looked_at_where_the_last_clean_is_too_long_ago(gone: str) -> None:
    table = HandMadeTable()
    table.insert(F1, F2)
    for _ in range(4):
        table.update(F1, F2)
    table.clean(commits=2)
    for _ in range(4):
        table.update(F1)
    if gone == "never":
        for file in table.timeline.files:
            if file.action is Action.CLEAN:
                table.storage.delete(table.layout.path(file.file_name))
    else:
        archived = {instant.time for instant in table.timeline.write_completed[:6]}
        for file in table.timeline.files:
            if file.time in archived:
                table.storage.delete(table.layout.path(file.file_name))
    # in the partition b, too, something is superfluous once one commit alone is kept
    assert {path[0] for path in planned(table, commits=1)} == {"a", "b"}


def test_an_empty_file_of_a_clean_is_passed_over() -> None:
    table = HandMadeTable()
    table.insert(F1, F2)
    for _ in range(4):
        table.update(F1, F2)
    table.clean(commits=2)
    (clean,) = (instant for instant in table.timeline.completed if instant.action is Action.CLEAN)
    table.storage.put(table.layout.path(clean.file_name), b"")
    assert len(planned(table, commits=1)) == 2
