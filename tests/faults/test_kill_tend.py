"""A run over tables killed, and interrupted, at calls of the storage: rows stay as they are, and the next run finishes
or undoes what was begun."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.storage import LocalStorage
from hudi_py.storage.metered import StoppedError
from hudi_py.tending import Budget
from hudi_py.tending.places import Place
from hudi_py.tending.report import TendedTable, TendReport
from hudi_py.tending.run import TendRun
from hudi_py.tending.survey import Surroundings
from tests.faults.killing import Killed, KillingStorage
from tests.support.choice import every
from tests.support.ill_tables import BY_NAME, build
from tests.unit.tending.conftest import OPTIONS

pytestmark = pytest.mark.nightly

GIVEN = {
    **OPTIONS,
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.py.write.threads": "1",
    "hoodie.write.lock.wait_time_ms": "2000",
    "hoodie.write.lock.client.num_retries": "0",
}
SERVICES = ("rollback_failed", "compaction", "clean")


class Interrupting(KillingStorage):
    """Is interrupted at one call, of whatever kind, and works on."""

    def __init__(self, root: str, at: int | None) -> None:
        super().__init__(root)
        self._at = at
        self.number = 0

    def _live(self) -> LocalStorage:
        self.number += 1
        if self.number - 1 == self._at:
            raise KeyboardInterrupt
        return super()._live()


def run(root: Path, storage: KillingStorage | None = None, seen: list[TendedTable] | None = None) -> TendReport:
    """Runs what is due on one table."""
    opens: Any = (lambda uri, options: storage) if storage is not None else (lambda uri, options: LocalStorage(uri))
    around = Surroundings(Options.resolve(GIVEN), SERVICES, None, opens=opens)
    watch = None if seen is None else seen.append
    return TendRun(around, Budget(), watch=watch).carry_out([Place(str(root))])


def rows_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hudi_py.open_table(path).scan(meta=False).to_table().sort_by("id").to_pylist()
    return found


def check_done(root: Path, before: list[dict[str, Any]]) -> None:
    table = hudi_py.open_table(root)
    assert rows_of(root) == before
    assert set(table.instants()["state"].to_pylist()) == {"COMPLETED"}
    assert not any(table.files()["log_files"].to_pylist())
    assert table.metadata.verify().ok
    assert hudi_py.doctor(root, OPTIONS).healthy


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a failed write, logs to compact, and then old files to clean."""
    root = tmp_path_factory.mktemp("tend") / "table"
    build(root, 9, "mor")
    BY_NAME["dead write with markers"].plant(root)
    return root


@pytest.mark.parametrize(("torn", "step"), [(False, 1), (True, 2)])
def test_killed_at_any_call(ill: Path, tmp_path: Path, torn: bool, step: int) -> None:
    before = rows_of(ill)
    whole = tmp_path / "whole"
    shutil.copytree(ill, whole)
    counting = KillingStorage(str(whole))
    report = run(whole, counting)
    assert [step.service for step in report.tables[0].of("done")] == ["rollback_failed", "compaction"]
    assert run(whole).count("failed", "busy") == 0
    check_done(whole, before)
    assert len(counting.calls) > 40
    for call in every(12 * step, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(ill, root)
        with pytest.raises(Killed):
            run(root, KillingStorage(str(root), call, torn=torn))
        assert rows_of(root) == before
        reports = [run(root), run(root)]
        assert [report.count("failed", "busy") for report in reports] == [0, 0], (call, reports)
        check_done(root, before)
        shutil.rmtree(root)


def test_interrupted_at_any_call(ill: Path, tmp_path: Path) -> None:
    before = rows_of(ill)
    whole = tmp_path / "whole"
    shutil.copytree(ill, whole)
    counting = Interrupting(str(whole), None)
    run(whole, counting)
    for call in every(12, counting.number):
        root, seen = tmp_path / f"{call}", list[TendedTable]()
        shutil.copytree(ill, root)
        with pytest.raises(KeyboardInterrupt):
            run(root, Interrupting(str(root), call), seen)
        assert all(table.of("interrupted") for table in seen)
        assert rows_of(root) == before
        reports = [run(root), run(root)]
        assert [report.count("failed", "busy") for report in reports] == [0, 0], (call, reports)
        check_done(root, before)
        shutil.rmtree(root)


def test_side_by_side_an_interruption_stops_the_others(ill: Path, tmp_path: Path) -> None:
    """Those at work in other threads stop at their next look at the storage, and take back what they had begun."""
    roots = [tmp_path / f"{number}" for number in range(4)]
    for root in roots:
        shutil.copytree(ill, root)
    before = rows_of(ill)
    begun = threading.Event()

    class Slow(KillingStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("compaction.requested"):
                begun.set()
            return super().put_if_absent(path, data)

    storages = {str(root): Slow(str(root)) for root in roots}
    around = Surroundings(Options.resolve(GIVEN), SERVICES, None, opens=lambda uri, options: storages[str(uri)])
    tending = TendRun(around, Budget(), jobs=3)

    def interrupt() -> None:
        begun.wait(60)
        tending.stop()

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(StoppedError):
        tending.carry_out([Place(str(root)) for root in roots])
    watcher.join()
    for root in roots:
        assert rows_of(root) == before
        reports = [run(root), run(root)]
        assert [report.count("failed", "busy") for report in reports] == [0, 0], reports
        check_done(root, before)
