"""What a replacecommit has replaced stays replaced: it is archived once the files are gone, and then at last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_py.config import Options
from hudi_py.model.instant import Action
from hudi_py.services.archive import ArchiveReport, archive
from hudi_py.timeline.clean_records import CleanPlan, encode_clean_plan
from hudi_py.timeline.state import TableState
from hudi_py.view import load_view
from tests.support.archiving import archiving
from tests.support.clean_tables import HandMadeTable

FEW = archiving(min_commits=2, max_commits=3, cleaner_commits=1, compaction_commits=None)
BY_HOURS = archiving(FEW, cleaner_policy="KEEP_LATEST_BY_HOURS", cleaner_hours=1)
BY_VERSIONS = archiving(FEW, cleaner_policy="KEEP_LATEST_FILE_VERSIONS")
BEYOND = archiving(FEW, beyond_savepoint=True)
A1, B2, A3, B4 = ("a", "f1"), ("b", "f2"), ("a", "f3"), ("b", "f4")


def shown(table: HandMadeTable) -> list[tuple[str, str]]:
    view = load_view(TableState(table.storage, table.config, table.timeline))
    return sorted((str(p), str(piece.file_id)) for p in view.partitions() for piece in view.latest_slices(p))


def run(table: HandMadeTable, settings: Options = FEW) -> ArchiveReport:
    """Archives, and what the table shows stays as it is."""
    before = shown(table)
    report = archive(replace(table.context(), options=settings))
    assert shown(table) == before
    return report


def update(table: HandMadeTable, group: tuple[str, str], times: int = 4) -> None:
    for _ in range(times):
        table.update(group)


@pytest.mark.parametrize("version", [6, 9])
def test_a_clean_of_chosen_partitions_leaves_the_others(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(A1, B2)
    replacing = table.replace([A1, B2], [A3, B4])
    update(table, A3)
    assert table.clean(commits=1, incremental=False, selected="a").num_files
    update(table, A3)
    assert run(table).num_instants == 1
    assert table.clean(commits=1).num_files
    assert run(table).instant > replacing


@pytest.mark.parametrize("version", [6, 9])
def test_a_replacement_that_was_pending_while_hours_went_by(version: int) -> None:
    table = HandMadeTable(version)
    table.insert(A1, B2)
    table.update(A1)
    replacing = table.request(Action.REPLACE_COMMIT)
    stats = [table.base(replacing, *B4)]
    table.tick(120)
    update(table, A1)
    assert table.clean(hours=1).num_files
    table.finish(replacing, Action.REPLACE_COMMIT, stats, operation="INSERT_OVERWRITE", replaced={"b": ("f2",)})
    update(table, A1)
    assert run(table, BY_HOURS).num_instants == 2
    table.tick(120)
    update(table, A1)
    assert table.clean(hours=1).num_files
    assert run(table, BY_HOURS).instant > replacing


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("settings", [FEW, BY_VERSIONS])
def test_savepointed_files_are_replaced_still(version: int, settings: Options) -> None:
    counted = {"versions": 1} if settings is BY_VERSIONS else {"commits": 1}
    for partitioned in (False, True):
        table = HandMadeTable(version, partitioned=partitioned)
        f1, f2, f4 = (A1, B2, B4) if partitioned else (("", "f1"), ("", "f2"), ("", "f4"))
        saved = table.insert(f1, f2)
        table.savepoint(saved)
        replacing = table.replace([f2], [f4])
        update(table, f1)
        assert table.clean(**counted).num_files
        update(table, f1)
        assert run(table, archiving(settings, beyond_savepoint=True)).num_instants == 0
        table.delete_savepoint(saved)
        assert run(table, settings).instant == saved
        assert table.clean(**counted).num_files
        assert run(table, settings).instant > replacing


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_that_could_not_be_deleted(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(A1, B2)
    replacing = table.replace([B2], [B4])
    update(table, A1)
    table.storage.stuck = {f"f2_0-1-0_{first}.parquet"}
    assert table.clean(commits=1).failed
    update(table, A1)
    assert run(table).instant == first
    table.storage.stuck = set()
    table.clean(commits=1)
    assert run(table).instant > replacing


@pytest.mark.parametrize("version", [6, 9])
def test_while_a_clean_is_pending_replacements_stay(version: int) -> None:
    table = HandMadeTable(version)
    first = table.insert(A1)
    table.replace([], [B4])
    update(table, A1)
    table.request(Action.CLEAN, encode_clean_plan(CleanPlan("KEEP_LATEST_COMMITS")))
    assert run(table).instant == first


@pytest.mark.parametrize("version", [6, 9])
def test_what_replaced_nothing_holds_nothing(version: int) -> None:
    """Nothing is ever superfluous here, so there is no clean that would let go of it."""
    table = HandMadeTable(version)
    table.replace([], [A1])
    for number in range(4):
        table.insert(("a", f"g{number}"))
    assert table.clean(commits=1).instant is None
    assert run(table).num_instants == 3
