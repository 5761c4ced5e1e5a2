"""Table services by the facade, and those that follow a commit."""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py import progress
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, HudiError, UnsupportedTableError
from hudi_py.services import after_commit
from hudi_py.services.clean import CLEAN
from hudi_py.services.descriptor import AfterCommitRule, Step

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
BY_HAND = {**QUICK, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
READ_ALL = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false"}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}


def write(path: str, ts: int, options: dict[str, str] | None = None, kind: str = "mor") -> hudi_py.WriteResult:
    rows = [{"id": n, "p": "ab"[n % 2], "ts": ts, "v": n * 1.5} for n in range(8)]
    return hudi_py.write(path, rows, "upsert", BY_HAND if options is None else options, **KEYED, table_type=kind)


def read(path: str, **query: Any) -> set[int]:
    return set(hudi_py.open_table(path).scan(["ts"], **query).to_table()["ts"].to_pylist())


def actions(path: str) -> list[str]:
    return hudi_py.open_table(path).instants()["action"].to_pylist()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for ts in range(3):
        write(path, ts)
    return path


def test_compaction_in_one_call_and_in_halves(path: str) -> None:
    table = hudi_py.open_table(path, BY_HAND)
    report = table.compact()
    assert report.to_dict()["num_file_groups"] == 2
    assert report.instant in table.instants()["instant"].to_pylist()
    assert not any(row["log_files"] for row in table.files().to_pylist())
    nothing = table.compact()
    assert nothing.instant is None
    assert "no file group has logs" in nothing.reason

    write(path, 7)
    planned = table.compaction.schedule()
    assert table.compaction.pending() == [planned]
    plans = table.services.pending().to_pylist()
    assert [(row["service"], row["instant"], row["state"], row["partition"], len(row["files"])) for row in plans] == [
        ("compaction", planned, "REQUESTED", "a", 2),
        ("compaction", planned, "REQUESTED", "b", 2),
    ]
    assert {row["file_id"] for row in plans} == set(table.files()["file_id"].to_pylist())
    write(path, 8)
    done = table.compaction.run(int(planned or 0))  # type: ignore[arg-type]  # as a data frame may have it
    assert done.instant == planned
    assert table.compaction.pending() == []
    assert read(path) == {8}
    assert table.compaction.run().reason == "no plan is pending"
    with pytest.raises(ConfigError, match="no such pending plan; pending: none"):
        table.compaction.run("20200101000000000")


def test_a_report_has_its_counts_and_shows_those_that_are_not_nought(path: str) -> None:
    """Where nothing was done, too, so that a program need not ask which."""
    table = hudi_py.open_table(path, BY_HAND)
    done = table.compact()
    assert repr(done) == f"<CompactionReport: {done}>"
    assert str(done).startswith(f"compaction {done.instant}: 2 file groups")
    nothing = table.compact()
    assert (nothing.num_file_groups, nothing.to_dict().keys()) == (0, done.to_dict().keys())
    assert repr(nothing) == f"<CompactionReport: compaction: nothing done: {nothing.reason}>"
    assert table.compaction.run().num_rows == table.log_compact().num_rows == table.clean().num_files == 0


def test_options_of_one_call(path: str) -> None:
    table = hudi_py.open_table(path, BY_HAND)
    few = {
        "hoodie.compaction.strategy": "PartitionRegexBasedCompactionStrategy",
        "hoodie.compaction.partition.path.regex": "^a$",
    }
    assert table.compaction.schedule(options=few) == table.compaction.pending()[0]
    assert table.services.pending().num_rows == 1
    report = table.compaction.run(options={"hoodie.parquet.compression.codec": "zstd"})
    (written,) = [row for row in table.files().to_pylist() if row["base_instant"] == report.instant]
    footer = pq.read_metadata(f"{path}/{written['partition']}/{written['base_file']}")
    assert footer.row_group(0).column(0).compression == "ZSTD"
    with pytest.raises(ConfigError, match="did you mean"):
        table.compaction.run(options={"hoodie.parquet.compression.kodec": "zstd"})


def test_progress_is_shown_on_a_terminal_and_wiped(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    table = hudi_py.open_table(path, BY_HAND)
    saved = table.savepoint().instant
    assert saved is not None
    table.compact()
    assert "compaction t: compacting, 1 of 2 files, " in terminal.getvalue()
    for call in (
        lambda: table.restore(saved),
        lambda: table.rollback(write(path, 9, {**BY_HAND, "hoodie.metadata.enable": "false"}).instant or ""),
        lambda: table.metadata.rebuild("files"),
        lambda: table.metadata.verify(),
    ):
        terminal.seek(0)
        terminal.truncate()
        call()
        assert terminal.getvalue().endswith(" \r"), terminal.getvalue()
    piped = io.StringIO()
    monkeypatch.setattr("sys.stderr", piped)
    table.metadata.verify()
    assert piped.getvalue() == ""


def test_log_compaction_keeps_base_files(path: str) -> None:
    write(path, 3)
    table = hudi_py.open_table(path, BY_HAND)
    bases = table.files()["base_file"].to_pylist()
    report = table.log_compact(options={**BY_HAND, "hoodie.log.compaction.blocks.threshold": "2"})
    assert report.instant is not None
    assert table.files()["base_file"].to_pylist() == bases
    assert table.log_compaction.pending() == []
    assert read(path) == {3}


def test_clean_takes_old_versions_away(tmp_path: Path) -> None:
    path = str(tmp_path / "cow")
    first = write(path, 0, kind="cow")
    for ts in range(1, 5):
        write(path, ts, kind="cow")
    table = hudi_py.open_table(path)
    options = {**BY_HAND, "hoodie.cleaner.commits.retained": "1"}
    cleaning = hudi_py.open_table(path, options).cleaning.schedule()
    plans = table.services.pending().to_pylist()
    assert [(row["service"], row["instant"], row["partition"], len(row["files"])) for row in plans] == [
        ("clean", cleaning, "a", 3),
        ("clean", cleaning, "b", 3),
    ]
    report = table.clean(options=options).to_dict()
    assert (report["num_files"], report["failed"]) == (6, ())
    assert table.cleaning.pending() == []
    assert read(path) == {4}
    with pytest.raises(hudi_py.HistoryCleanedError):
        read(path, as_of=first.instant)
    assert table.clean(options=options).instant is None


def test_archived_instants_stay_in_sight(tmp_path: Path) -> None:
    path = str(tmp_path / "cow")
    results = [write(path, ts, {**BY_HAND, "hoodie.metadata.enable": "false"}, kind="cow") for ts in range(8)]
    table = hudi_py.open_table(path)
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.cleaner.commits.retained": "1"}
    table.clean(options={**BY_HAND, **options, "hoodie.metadata.enable": "false"})
    report = table.archive(options={**BY_HAND, **options, "hoodie.metadata.enable": "false"})
    assert report.num_instants == 6
    assert len(table.history()) == 2
    assert table.history(archived=True)["instant"].to_pylist() == [result.instant for result in results]


def test_savepoints_rollbacks_and_restores(path: str) -> None:
    table = hudi_py.open_table(path, BY_HAND)
    saved = table.savepoint(user="ana", comment="before")
    again = table.savepoint()
    assert (again.instant, again.savepoint) == (None, saved.instant)
    assert again.reason == f"the commit {saved.instant} already has a savepoint"
    (row,) = table.savepoints.list().to_pylist()
    assert (row["instant"], row["user"], row["comment"], row["num_partitions"]) == (saved.instant, "ana", "before", 2)
    second, third = write(path, 10).instant, write(path, 11).instant
    assert second is not None
    with pytest.raises(ConflictError, match=f"newer instants are completed.*{third}"):
        table.rollback(second)
    report = table.rollback(second, with_newer=True)
    assert report.rolled_back == (third, second)
    assert read(path) == {2}
    write(path, 12)
    assert saved.instant is not None
    table.restore(saved.instant)
    assert read(path) == {2}
    assert table.restore(int(saved.instant)).reason == f"nothing was written since {saved.instant}"  # as numbers, too
    assert table.delete_savepoint(int(saved.instant)).instant == saved.instant
    assert table.savepoints.list().num_rows == 0
    assert table.metadata.verify().ok


def test_the_metadata_table_is_verified_rebuilt_and_dropped(path: str) -> None:
    metadata = hudi_py.open_table(path, BY_HAND).metadata
    report = metadata.verify()
    assert [check.partition for check in report.partitions] == ["files", "column_stats", "partition_stats"]
    assert report.ok
    assert metadata.drop("column_stats") == ("column_stats", "partition_stats")
    assert [check.partition for check in metadata.verify().partitions] == ["files"]
    assert metadata.rebuild("column_stats") == ("column_stats",)
    assert metadata.verify("column_stats").ok
    assert repr(metadata.verify("files")).startswith("<VerifyReport: ")
    assert "files: 3 records" in repr(metadata.verify("files"))
    with pytest.raises(ConfigError, match="secondary"):
        metadata.drop("secondary_index_x")


def test_what_follows_a_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {**QUICK, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    options |= {"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    seen = [write(path, ts, options).services for ts in range(12)]
    assert set().union(*seen) == {"clean", "archive", "compaction"}
    assert actions(path).count("deltacommit") < 8
    assert read(path) == {11}
    off = write(path, 20, {**options, "hoodie.table.services.enabled": "false"})
    assert off.services == ()


def test_a_plan_is_made_and_left(path: str) -> None:
    options = {**BY_HAND, "hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    assert write(path, 5, options).services == ("compaction plan",)
    assert write(path, 6, options).services == ()  # one at a time
    assert len(hudi_py.open_table(path).compaction.pending()) == 1


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The clean after each commit fails."""

    def fail(*_: object) -> None:
        raise error

    rule = AfterCommitRule(lambda options, config: iter([Step("clean", fail)]))
    monkeypatch.setattr(after_commit, "AFTER_COMMIT", (replace(CLEAN, after_commit=rule),))


def test_a_failure_after_a_commit_is_told(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing(monkeypatch, CorruptFileError("Cannot read the plan x: it is torn\nmore"))
    with pytest.raises(HudiError, match=r"is committed, but the clean after it failed: Cannot read the plan x: it is"):
        write(path, 30, QUICK)
    assert read(path) == {30}
    failing(monkeypatch, MemoryError())
    with pytest.raises(HudiError, match="is committed, but the clean after it failed: MemoryError; do not repeat"):
        write(path, 30, QUICK)
    with caplog.at_level(logging.WARNING):
        result = write(path, 31, {**QUICK, "hoodie.fail.writes.on.inline.table.service.exception": "false"})
    assert result.services == ()
    assert "the clean after the commit failed" in caplog.text
    failing(monkeypatch, ConflictError("Cannot run it: another is at it"))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert write(path, 32, QUICK).services == ()
    assert "is left to the next commit" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.keep.max.commits": "20"}, r"hoodie\.keep\.max\.commits = 20 .* must be greater"),
        ({"hoodie.keep.max.commits": "5", "hoodie.archive.automatic": "false"}, "must be greater than the second"),
        ({"hoodie.clean.partition.filter.regex": "a"}, "cannot be used with incremental cleaning"),
    ],
)
def test_services_that_cannot_run_as_asked_are_told_before_the_write(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a"]})
    with pytest.raises(ConfigError, match=message):
        hudi_py.write(path, rows, record_key="id", options=options)
    assert not (tmp_path / "t").exists()
    hudi_py.write(path, rows, record_key="id", options={**options, "hoodie.table.services.enabled": "false"})


@pytest.mark.parametrize("there", [True, False])
def test_services_that_the_table_cannot_have_are_told_before_the_write(tmp_path: Path, there: bool) -> None:
    path = str(tmp_path / "t")

    def put(**options: str) -> hudi_py.WriteResult:
        rows = pa.table({"id": ["a"], "ts": [1]})
        return hudi_py.write(path, rows, record_key="id", table_type="mor", table_version=6, options=options)

    if there:
        put()
        before = actions(path)
    logs = {"hoodie.log.compaction.inline": "true"}
    with pytest.raises(UnsupportedTableError, match="Cannot compact the logs of the table 't': its version is 6"):
        put(**logs)
    assert actions(path) == before if there else not (tmp_path / "t").exists()
    warned = put(**logs, **{"hoodie.fail.writes.on.inline.table.service.exception": "false"})
    assert "log_compaction" not in warned.services


def test_to_compact_and_to_plan_only_contradict_each_other(path: str) -> None:
    before = actions(path)
    with pytest.raises(
        ConfigError, match=r"hoodie\.compact\.inline = true and hoodie\.compact\.schedule\.inline = true"
    ):
        write(path, 5, {**BY_HAND, "hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "true"})
    assert actions(path) == before


def test_services_need_a_table_that_is_written(tmp_path: Path) -> None:
    path = str(tmp_path / "cow")
    write(path, 1, kind="cow")
    table = hudi_py.open_table(path)
    report = table.compact(options=BY_HAND)
    assert report.instant is None
    assert "only MERGE_ON_READ tables have logs to compact" in report.reason
    with pytest.raises(ConfigError, match=r"hoodie\.clustering\.async"):
        table.clean(options={"hoodie.clustering.async.enabled": "true"})


def test_schema_of_savepoints_without_any(path: str) -> None:
    assert hudi_py.open_table(path).savepoints.list().schema.field("created").type == pa.timestamp("ms", "UTC")


@pytest.mark.parametrize("options", [{}, {"hoodie.metadata.enable": "false"}])
def test_a_commit_whose_file_was_never_filled_holds_nothing_up(path: str, options: dict[str, str]) -> None:
    """A writer of Apache Hudi 1.0.2 that is killed between making its completed file and filling it leaves this;
    1.2.0 reads the rows of the commit and writes on. What it wrote only its file could tell, so nothing is written
    while it is the newest."""
    newest = hudi_py.open_table(path).timeline.last_completed
    assert newest is not None
    file = Path(path, ".hoodie", "timeline", newest.file_name)
    content = file.read_bytes()
    file.write_bytes(b"")
    assert read(path, options=options) == {2}
    assert hudi_py.open_table(path).history().to_pylist()[-1]["num_updates"] == 0
    with pytest.raises(CorruptFileError, match=f"{newest.time} is empty"):
        write(path, 3, {**QUICK, **options})
    file.write_bytes(content)
    write(path, 3, {**QUICK, **options})
    file.write_bytes(b"")
    write(path, 4, {**QUICK, **options, "hoodie.clean.commits.retained": "1"})
    assert read(path, options=options) == {4}
    table = hudi_py.open_table(path, {**QUICK, **options, "hoodie.clean.commits.retained": "1"})
    table.compact()
    write(path, 5, {**QUICK, **options, "hoodie.clean.commits.retained": "1"})
    assert table.clean().instant is not None or "clean" in actions(path)
    assert read(path, options=options) == {5}
    with pytest.raises(CorruptFileError, match="deltacommit is empty"):
        read(path, query_type="incremental", begin="000", options=READ_ALL)
