"""What reports say: a line for people, and nothing that is not so."""

from __future__ import annotations

import pytest

from hudi_py.metadata_write.maintenance.verify import PartitionCheck, VerifyReport
from hudi_py.model.instant import InstantTime
from hudi_py.services.archive import ArchiveReport
from hudi_py.services.clean import CleanReport
from hudi_py.services.compaction import CompactionReport
from hudi_py.services.planned.service import ServiceReport
from hudi_py.services.planned.unschedule import UnscheduleReport
from hudi_py.services.recovery.restore import RestoreReport
from hudi_py.services.recovery.rollback import RollbackReport
from hudi_py.services.recovery.savepoint import SavepointReport

TIME = InstantTime("20260131101530123")
OTHERS = tuple(InstantTime(f"2026013110153000{number}") for number in range(5))
DONE = (
    (ServiceReport("clean", TIME), f"clean {TIME}"),
    (
        CompactionReport(
            "log_compaction", TIME, num_file_groups=2, num_log_files=10, num_rows=1_500, log_bytes=2_000_000
        ),
        f"log compaction {TIME}: 2 file groups, 10 log files (2.0 MB) merged, 1,500 rows, 0 B written",
    ),
    (
        CompactionReport(
            "compaction", TIME, num_file_groups=1, num_log_files=1, num_rows=4, num_updated=3, num_deleted=1
        ),
        f"compaction {TIME}: 1 file group, 1 log file (0 B) merged, 4 rows (3 updated, 1 deleted), 0 B written",
    ),
    (
        CleanReport(
            "clean",
            TIME,
            policy="KEEP_LATEST_COMMITS",
            earliest_retained=OTHERS[0],
            num_files=3,
            num_bytes=1_500,
            num_partitions=2,
            deleted_partitions=("a",),
            failed=("b/x", "b/y", "b/z", "b/zz"),
        ),
        (
            f"clean {TIME}: 3 files (1.5 kB) in 2 partitions deleted, KEEP_LATEST_COMMITS from {OTHERS[0]} on, "
            "1 emptied partition (a) removed, 4 files (b/x, b/y, b/z, ...) could not be deleted; the next clean "
            "tries again"
        ),
    ),
    (
        CleanReport("clean", TIME, policy="KEEP_LATEST_FILE_VERSIONS", num_files=1, num_bytes=None, num_partitions=1),
        f"clean {TIME}: 1 file in 1 partition deleted, KEEP_LATEST_FILE_VERSIONS",
    ),
    (
        ArchiveReport("archive", TIME, num_instants=3, oldest=OTHERS[0], written_bytes=3_000, num_files_deleted=9),
        f"archive {TIME}: 3 instants archived, {OTHERS[0]} and newer, 3.0 kB written, 9 timeline files removed",
    ),
    (
        ArchiveReport("archive", None, reason="why", num_files_merged=10, num_levels_compacted=1, num_files_cleaned=1),
        "archive: 1 archive level compacted, 10 archive files merged, 1 archive file removed; nothing done: why",
    ),
    (
        RollbackReport("rollback", TIME, rolled_back=OTHERS, num_files_deleted=2, num_rollback_blocks=1),
        f"rollback {TIME}: 5 instants ({', '.join(OTHERS[:3])}, ...) undone, 2 files deleted, 1 rollback block written",
    ),
    (
        RollbackReport("rollback", TIME, rolled_back=OTHERS[:1], plan_kept=True),
        f"rollback {TIME}: 1 instant ({OTHERS[0]}) undone, 0 files deleted, its plan remains",
    ),
    (
        RestoreReport("restore", TIME, savepoint=OTHERS[0], rolled_back=OTHERS[1:2], num_files_deleted=1),
        f"restore {TIME}: the table is as of {OTHERS[0]}, 1 instant ({OTHERS[1]}) undone, 1 file deleted",
    ),
    (
        SavepointReport("savepoint", TIME, savepoint=TIME, num_partitions=1, num_files=2),
        f"savepoint {TIME}: 2 files in 1 partition kept",
    ),
    (
        SavepointReport("delete_savepoint", TIME, savepoint=TIME, num_partitions=1, num_files=2),
        f"delete savepoint {TIME}: 2 files in 1 partition released",
    ),
    (
        UnscheduleReport("unschedule", TIME, plan="log_compaction", rollback=OTHERS[0]),
        f"unschedule {TIME}: the log compaction plan dropped, an unfinished attempt rolled back by {OTHERS[0]}",
    ),
)


@pytest.mark.parametrize(("report", "text"), DONE)
def test_what_was_done(report: ServiceReport, text: str) -> None:
    assert str(report) == text


@pytest.mark.parametrize(
    "report",
    [
        CompactionReport("compaction", None, reason="why"),
        CleanReport("clean", None, reason="why"),
        ArchiveReport("archive", None, reason="why"),
        RollbackReport("rollback", None, reason="why", plan_kept=True),
        RestoreReport("restore", None, reason="why", savepoint=TIME),
        SavepointReport("savepoint", None, reason="why", savepoint=TIME),
    ],
    ids=lambda report: report.service,
)
def test_why_nothing_was_done(report: ServiceReport) -> None:
    assert str(report) == f"{report.service}: nothing done: why"


def test_a_metadata_table() -> None:
    harmless = PartitionCheck("column_stats", records=1_200, superfluous=2, examples=("superfluous: 'x'",))
    bad = PartitionCheck("files", records=1, missing=2, wrong=1, examples=("missing: 'p'",))
    assert str(VerifyReport((harmless,))) == (
        "metadata table: matches the files\n  column_stats: 1,200 records, 2 superfluous (harmless)"
    )
    assert str(VerifyReport((harmless, bad), unchecked=("secondary_index_x",))) == (
        "metadata table: differs from the files: rebuild files\n"
        "  column_stats: 1,200 records, 2 superfluous (harmless)\n"
        "  files: 1 record, 2 missing, 1 wrong\n"
        "    missing: 'p'\n"
        "  secondary_index_x: not compared, hudi-py does not maintain it"
    )
    assert str(VerifyReport(reason="why")) == "metadata table: not compared: why"
    lost = VerifyReport((PartitionCheck("record_index", error="cannot be read"),), lost_files=("p/f is missing",))
    assert not lost.ok
    assert str(lost) == (
        "metadata table: data files are lost: restore them from a copy, or roll back the commits that wrote them\n"
        "  p/f is missing\n"
        "  record_index: not compared: cannot be read"
    )
