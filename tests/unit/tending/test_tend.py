"""What is done on tables of many kinds, and what is left."""

from __future__ import annotations

import dataclasses
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError, LockError, TableNotFoundError
from hudi_py.interop.metrics import reported
from hudi_py.services.context import own_settings, with_own_settings
from hudi_py.storage import LocalStorage, open_storage
from hudi_py.tending import Budget, TendedTable, TendReport, survey
from hudi_py.tending.places import Place
from hudi_py.tending.run import TendRun
from hudi_py.tending.survey import TENDED, Surroundings
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.settings import LockSettings
from tests.unit.tending.conftest import OPTIONS, make, rows_of

TABLES = ["hr/many", "hr/many/below", "sales/rides", "sales/trips", "sales/young"]


def states(report: TendReport) -> dict[str, dict[str, str]]:
    """States of services by the last part of the path and the name."""
    return {
        table.uri.rpartition("/")[2]: {each.service: each.state for each in table.services} for table in report.tables
    }


def own(path: Path, **properties: str) -> None:
    """Puts properties into a table, with dots for two underscores."""
    update_table_config(LocalStorage(str(path)), {key.replace("__", "."): text for key, text in properties.items()})


def instants(path: Path) -> list[tuple[str, str]]:
    table = hudi_py.open_table(path).instants()
    return list(zip(table["instant"].to_pylist(), table["action"].to_pylist(), strict=True))


def test_what_is_due_is_done_and_nothing_else(lake: Path) -> None:
    before = {name: rows_of(lake / name) for name in TABLES}
    seen: list[TendedTable] = []
    report = hudi_py.tend(lake, OPTIONS, watch=seen.append)
    assert states(report) == {
        "trips": {"compaction": "done"},
        "rides": {"compaction": "done"},
        "many": {"clean": "done"},
        "below": {},
        "young": {},
    }
    assert seen == list(report.tables)
    assert report.errors == ()
    assert {name: rows_of(lake / name) for name in TABLES} == before
    for name in ("trips", "rides"):
        files = hudi_py.open_table(lake / "sales" / name).files()
        assert sum(map(len, files["log_files"].to_pylist())) == 0
    assert {hudi_py.open_table(lake / name).version for name in TABLES} == {6, 8, 9}
    (done,) = report.tables[0].of("done")
    assert done.used.requests > 0
    assert done.used.bytes_written > 0
    assert report.used.requests >= sum(table.used.requests for table in report.tables)
    assert states(hudi_py.tend(str(lake), OPTIONS))["trips"] == {}
    assert "3 done" in str(report)


def test_a_dry_run_changes_nothing(lake: Path) -> None:
    before = {name: instants(lake / name) for name in TABLES}
    report = hudi_py.tend([lake / "sales", lake / "hr"], OPTIONS, dry_run=True)
    assert report.dry_run
    assert {name: found for name, found in states(report).items() if found} == {
        "trips": {"compaction": "due"},
        "rides": {"compaction": "due"},
        "many": {"clean": "due"},
    }
    gains = [sum(each.files for each in table.services) for table in report.tables if table.services]
    assert gains == sorted(gains, reverse=True)
    assert {name: instants(lake / name) for name in TABLES} == before


def test_what_is_due_is_what_the_table_says(lake: Path) -> None:
    report = hudi_py.tend(lake, OPTIONS, dry_run=True)
    for table in report.tables:
        inline = {"hoodie.compact.inline": "true"} if table.table_type == "MERGE_ON_READ" else {}
        due = hudi_py.open_table(table.uri).services.due(options={**OPTIONS, **inline})
        assert {each.service: each.reason for each in due if each.due} == {
            each.service: each.reason for each in table.services
        }


def test_the_tables_own_settings_are_followed(lake: Path) -> None:
    own(lake / "hr" / "many", hoodie__clean__automatic="false")
    own(lake / "hr" / "many" / "below", hoodie__clustering__inline="true", hoodie__clustering__inline__max__commits="1")
    logs = {"hoodie__log__compaction__inline": "true", "hoodie__log__compaction__blocks__threshold": "2"}
    own(lake / "sales" / "trips", hoodie__compact__inline__max__delta__commits="100", **logs)
    own(lake / "sales" / "rides", hoodie__table__services__enabled="false")
    report = hudi_py.tend(lake, OPTIONS, dry_run=True)
    assert {name: found for name, found in states(report).items() if found} == {
        "below": {"clustering": "due"},
        "trips": {"log_compaction": "due"},
    }
    # what the call says prevails
    given = {**OPTIONS, "hoodie.compact.inline.max.delta.commits": "5"}
    assert states(hudi_py.tend(lake, given, dry_run=True))["trips"] == {"compaction": "due", "log_compaction": "due"}
    named = hudi_py.tend(lake, OPTIONS, services=["clean", "compaction"], dry_run=True)
    assert states(named)["many"] == {"clean": "due"}
    assert states(named)["rides"] == {"compaction": "due"}
    assert states(named)["trips"] == {}


def test_writes_follow_the_tables_own_settings(tmp_path: Path) -> None:
    make(tmp_path / "t", "mor")
    own(tmp_path / "t", hoodie__compact__inline="true", hoodie__compact__inline__max__delta__commits="1")
    options = Options.resolve({})
    found = with_own_settings(options, load_table_config(LocalStorage(str(tmp_path / "t"))))
    assert len(found.values) == len(options.values) + 2
    written = hudi_py.open_table(tmp_path / "t").upsert([{"id": "0", "ts": 9}], partial=True, options=OPTIONS)
    assert written.services == ("compaction",)


def test_properties_that_are_not_valid_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    assert own_settings({"hoodie.clean.automatic": "perhaps", "hoodie.table.name": "t"}) == {}
    assert "a property of the table is ignored: Option hoodie.clean.automatic = 'perhaps' is not valid" in caplog.text
    assert own_settings({"hoodie.write.auto.upgrade": "true"}) == {}


def test_partitions_expire_by_the_tables_own_properties_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "t", "cow", part="city")
    old = make(tmp_path / "old", "cow", part="city")
    days = {"hoodie__partition__ttl__strategy__days__retain": "1"}
    own(path, **days)
    assert states(hudi_py.tend(tmp_path, OPTIONS, services="ttl")) == {"old": {}, "t": {}}
    with pytest.raises(ConfigError, match=r"partitions expire by each table's own properties"):
        hudi_py.tend(tmp_path, {"hoodie.partition.ttl.strategy.days.retain": "1"})
    own(path, hoodie__partition__ttl__inline="true")
    later = wall_clock_ms() + 3 * 24 * 3600 * 1000
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hudi_py.services.ttl.wall_clock_ms", lambda: later)
        assert states(hudi_py.tend(tmp_path, OPTIONS)) == {"old": {}, "t": {"ttl": "done"}}
    assert rows_of(path) == []
    assert len(rows_of(old)) == 12


def test_pending_plans_are_carried_out(table: Callable[[str], Path]) -> None:
    path = table("sales/young")
    opened = hudi_py.open_table(path, OPTIONS)
    planned = opened.compaction.schedule()
    assert planned is not None
    (due,) = [each for each in opened.services.due() if each.service == "compaction"]
    assert due.due
    assert due.pending == (planned,)
    assert due.reason == f"1 plan ({planned}) pending"
    assert due.files == 1
    (found,) = hudi_py.tend(path, OPTIONS).tables
    assert [(each.service, each.state) for each in found.services] == [("compaction", "done")]
    assert opened.compaction.pending() == []


def test_a_plan_that_nobody_asked_for_is_left_and_shown(table: Callable[[str], Path]) -> None:
    path = table("hr/many/below")
    opened = hudi_py.open_table(path, OPTIONS)
    assert opened.clustering.schedule() is not None
    (found,) = hudi_py.tend(path, OPTIONS).tables
    assert [(each.service, each.state, each.reason) for each in found.services] == [
        ("clustering", "left", "1 plan pending; --services clustering runs it")
    ]
    (found,) = hudi_py.tend(path, OPTIONS, services="clustering").tables
    assert [each.state for each in found.services] == ["done"]
    assert opened.clustering.pending() == []


def test_tables_that_cannot_be_looked_at(lake: Path, golden: Callable[[str], Path]) -> None:
    (lake / "sales" / "trips" / ".hoodie" / "hoodie.properties").write_text("garbage")
    (lake / "sales" / "rides" / ".hoodie" / "hoodie.properties").unlink()
    own(lake / "sales" / "young", hoodie__table__keygenerator__type="GLOBAL_DELETE")
    report = hudi_py.tend(lake, OPTIONS)
    by_name = {table.uri.rpartition("/")[2]: table for table in report.tables}
    assert {name: type(found.error).__name__ for name, found in by_name.items() if found.error} == {
        "trips": "CorruptFileError",
        "rides": "TableNotFoundError",
    }
    assert by_name["young"].skipped.startswith("it can only be read: ")
    assert [each.state for each in by_name["many"].services] == ["done"]
    assert {type(error).__name__ for error in report.errors} == {"CorruptFileError", "TableNotFoundError"}


def test_paths_without_tables(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="There is no table at or below"):
        hudi_py.tend(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no path is given"):
        hudi_py.tend([])
    report = hudi_py.tend([tmp_path / "nowhere", lake / "hr"], OPTIONS, dry_run=True)
    assert [type(table.error).__name__ for table in report.tables if table.error] == ["TableNotFoundError"]
    assert len(report.tables) == 3
    with pytest.raises(ConfigError, match=r"by the service 'upgrade'; services are rollback_failed, metadata, clean"):
        hudi_py.tend(lake, services=["upgrade"])
    with pytest.raises(ConfigError, match="jobs = 0"):
        hudi_py.tend(lake, jobs=0)
    assert "upgrade" not in TENDED


def test_a_metadata_table_is_left_to_its_table(made: Path) -> None:
    (found,) = hudi_py.tend(made / "hr" / "many" / ".hoodie" / "metadata").tables
    assert found.skipped == "it is the metadata table of another, which takes care of it"


def test_no_metadata_table_is_made(tmp_path: Path) -> None:
    path = make(tmp_path / "t", "cow", 9, 13, options={"hoodie.metadata.enable": "false"})
    assert states(hudi_py.tend(path, OPTIONS)) == {"t": {"clean": "done"}}
    assert not (path / ".hoodie" / "metadata").exists()


def test_what_is_locked_is_tried_again_and_left(lake: Path) -> None:
    quick = {**OPTIONS, "hoodie.write.lock.wait_time_ms": "1", "hoodie.write.lock.client.num_retries": "0"}
    lock = FileLock(open_storage(lake / "sales" / "trips"), LockSettings(), purpose="a test")
    order: list[str] = []
    with lock:
        report = hudi_py.tend(lake, quick, watch=lambda table: order.append(table.uri.rpartition("/")[2]))
    assert states(report)["trips"] == {"compaction": "busy"}
    assert states(report)["rides"] == {"compaction": "done"}
    assert order[2] == "trips"  # after the others that were due
    (error,) = report.errors
    assert isinstance(error, LockError)
    assert states(hudi_py.tend(lake, quick))["trips"] == {"compaction": "done"}


def test_the_budget_in_requests(lake: Path) -> None:
    report = hudi_py.tend(lake, OPTIONS, budget=Budget(requests=100_000))
    assert report.count("done") == 3
    report = hudi_py.tend(lake / "hr", OPTIONS, budget=Budget(requests=1))
    assert report.tables == ()
    assert len(report.not_searched) == 2


def test_what_does_not_fit_is_left(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_COMMIT_REQUESTS", 10_000)
    report = hudi_py.tend(lake, OPTIONS, budget=Budget(requests=25_000), dry_run=True)
    assert (report.count("due"), report.count("left")) == (2, 1)
    report = hudi_py.tend(lake, OPTIONS, budget=Budget(requests=9_000))
    assert (report.count("done"), report.count("left")) == (0, 3)
    for table in report.tables:
        assert all(
            "; it takes about 10,0" in each.reason and " requests, and 8," in each.reason for each in table.services
        )
    assert report.errors == ()


def test_time_is_told_by_a_clock(lake: Path) -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()

    def pass_time(table: TendedTable) -> None:
        clock.now += 400

    around = Surroundings(Options.resolve(OPTIONS), None, None, clock)
    places = [Place(str(lake / name)) for name in TABLES]
    report = TendRun(around, Budget(seconds=700), watch=pass_time).carry_out(places)
    assert report.count("done") == 2
    (left,) = [each for table in report.tables for each in table.of("left")]
    assert "of the time are left" in left.reason


@pytest.mark.slow
def test_a_compaction_is_made_smaller(tmp_path: Path) -> None:
    """Its plan has what fits into the budget, and the next run takes the rest."""
    path = tmp_path / "t"
    wide = "x" * 400_000
    for ts in range(6):
        rows = [{"id": f"{n}", "ts": ts, "p": f"{n}", "text": f"{n}{ts}{wide}"} for n in range(6)]
        options = {
            **OPTIONS,
            "hoodie.table.services.enabled": "false",
            "hoodie.parquet.compression.codec": "uncompressed",
        }
        options |= {"hoodie.logfile.data.block.format": "avro"}
        hudi_py.write(
            path, rows, options=options, table_type="mor", record_key="id", ordering_by="ts", partition_by="p"
        )
    (plan,) = hudi_py.tend(path, OPTIONS, dry_run=True).tables[0].services
    assert plan.num_bytes > 20_000_000
    budget = Budget(num_bytes=plan.num_bytes // 2)
    (found,) = hudi_py.tend(path, OPTIONS, budget=budget, dry_run=True).tables[0].services
    assert found.reason.endswith("made smaller, to fit into the budget")
    (done,) = hudi_py.tend(path, OPTIONS, budget=budget).tables[0].services
    assert done.state == "done"
    assert 0 < done.report.num_file_groups < 6
    left = hudi_py.open_table(path).files()["log_files"].to_pylist()
    assert 0 < sum(map(bool, left)) < 6


def test_several_side_by_side(lake: Path) -> None:
    threads: set[int] = set()
    report = hudi_py.tend(lake, OPTIONS, jobs=3, watch=lambda _: threads.add(threading.get_ident()))
    assert report.count("done") == 3
    assert report.errors == ()
    assert len(threads) > 1


def test_two_at_once(lake: Path) -> None:
    """Neither fails, and all is done, by one or the other."""
    before = {name: rows_of(lake / name) for name in TABLES}
    found: list[TendReport] = []
    runs = [threading.Thread(target=lambda: found.append(hudi_py.tend(lake, OPTIONS))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    one, two = found
    assert one.count("failed") == two.count("failed") == 0
    assert one.count("done") + two.count("done") >= 3
    assert hudi_py.tend(lake, OPTIONS).count("done", "failed", "busy") == 0
    assert {name: rows_of(lake / name) for name in TABLES} == before


def test_beside_a_writer(table: Callable[[str], Path]) -> None:
    path = table("sales/trips")
    stop, failures = threading.Event(), list[BaseException]()

    def write() -> None:
        ts = 100
        while not stop.is_set():
            ts += 1
            try:
                hudi_py.open_table(path).upsert(
                    [{"id": "0", "ts": ts, "city": "oslo", "fare": 1.0}], options={**OPTIONS}
                )
            except BaseException as error:
                failures.append(error)
                return

    writer = threading.Thread(target=write)
    writer.start()
    reports = [hudi_py.tend(path, OPTIONS, services=["compaction", "clean", "archive"]) for _ in range(3)]
    stop.set()
    writer.join()
    assert failures == []
    assert all(report.count("failed") == 0 for report in reports)
    assert len(rows_of(path)) == 12


def test_metrics(table: Callable[[str], Path]) -> None:
    path = table("hr/many/below")
    own(path, hoodie__clustering__inline="true", hoodie__clustering__inline__max__commits="1")
    given = {**OPTIONS, "hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "INMEMORY"}
    report = hudi_py.tend(path, given)
    measures = reported(report.tables[0].uri)
    assert measures["below.tend.done"] == 1
    assert measures["below.tend.requests"] == report.tables[0].used.requests
    assert measures["below.tend.bytesWritten"] > 0
    assert "below.replacecommit.duration" in measures or "below.clustering.duration" in measures


def test_values_are_frozen_and_plain(lake: Path) -> None:
    report = hudi_py.tend(lake / "hr", OPTIONS, dry_run=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.dry_run = False  # type: ignore[misc]
    told = json.loads(json.dumps(report.to_dict()))
    assert told["num_tables"] == 2
    assert told["num_due"] == 1
    assert told["tables"][0]["services"][0]["service"] == "clean"
    assert pickle.loads(pickle.dumps(report)) == report
