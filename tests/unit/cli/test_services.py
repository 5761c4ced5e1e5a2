"""Services, savepoints, metadata table, locks and differences."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest

import hudi_py
from hudi_py.cli.main import main
from hudi_py.cli.screen import ScreenColumn, fitted, number, shown
from hudi_py.model.words import ago
from hudi_py.services.descriptor import Service
from hudi_py.services.registry import SERVICES
from tests.golden.old.tables import extract
from tests.unit.cli.conftest import OPTIONS, Run

QUICK = [text for pair in OPTIONS.items() for text in ("-o", "=".join(pair))]


def actions(path: Path) -> list[str]:
    found: list[str] = hudi_py.open_table(path).instants()["action"].to_pylist()
    return found


def test_compaction(cli: Run, trips: Path) -> None:
    before = actions(trips)
    assert "2 file groups with 6 files would be rewritten" in cli("compact", trips, "--dry-run").out
    assert actions(trips) == before
    planned = cli("compact", trips, "--schedule", "--json", *QUICK).json["instant"]
    assert [row["instant"] for row in cli("plans", trips, "--json").lines] == [planned] * 2
    (step, *_) = cli("show", trips, "--json").json["next"]
    assert step["command"] == f"hudi-py compact {trips}"
    assert cli("compact", trips, "--run", "oldest", "--json", *QUICK).json["num_file_groups"] == 2
    assert "no file group has logs" in cli("compact", trips, *QUICK).out
    assert "no plan was made" in cli("compact", trips, "--schedule", *QUICK).out
    assert not cli("files", trips, "--logs", "--json").lines


def test_a_plan_is_removed(cli: Run, trips: Path) -> None:
    planned = cli("compact", trips, "--schedule", "--json", *QUICK).json["instant"]
    assert "the compaction plan dropped" in cli("unschedule", trips, planned, "--yes", *QUICK).out
    assert cli("plans", trips).err == "No pending plans.\n"


def test_clustering(cli: Run, trips: Path) -> None:
    cli("compact", trips, *QUICK)
    by_fare = ("--sort-by", "fare", "--partitions", "oslo", *QUICK)
    assert {row["partition"] for row in cli("cluster", trips, "--dry-run", "--json", *by_fare).json["plan"]} == {"oslo"}
    assert cli("cluster", trips, "--json", *by_fare).json["num_partitions"] == 1
    assert "by no_fare" in cli("cluster", trips, "--sort-by", "no_fare", *QUICK, code=2).err


@pytest.mark.parametrize("service", [each for each in SERVICES.values() if each.command])
def test_the_command_of_a_service_takes_its_arguments(service: Service[Any]) -> None:
    """They are named once more where the command is declared, so that its help loads no service."""
    command: click.Command = main
    for word in service.command.split():
        assert isinstance(command, click.Group)
        command = command.commands[word]
    taken = {name for parameter in command.params for name in (*parameter.opts, f"--{parameter.name}")}
    assert {f"--{argument.name.replace('_', '-')}" for argument in service.arguments} - {"--when-due"} <= taken


def test_a_dry_run_asks_nothing(cli: Run, trips: Path) -> None:
    before = actions(trips)
    assert "no partition has expired" in cli("run", trips, "ttl", "--retain-days", "1", "--dry-run").out
    assert "confirm with --yes" in cli("run", trips, "ttl", "--retain-days", "1", code=2).err
    assert actions(trips) == before


def test_clean(cli: Run, trips: Path) -> None:
    cli("compact", trips, *QUICK)
    one = ["-o", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS", "-o", "hoodie.clean.fileversions.retained=1", *QUICK]
    preview = cli("clean", trips, "--dry-run", "--json", *one).json
    files = [file for row in preview["plan"] for file in row["files"]]
    assert len(files) == 6
    assert "6 files in 2 partitions would be deleted" in cli("clean", trips, "--dry-run", *one).out
    due = {row["service"]: row for row in cli("show", trips, "--json", *one).json["services"]}
    assert due["clean"] == {
        "service": "clean",
        "due": True,
        "reason": "6 files in 2 partitions can be deleted",
        "pending": [],
        "files": 6,
        "num_bytes": 0,
    }
    assert cli("clean", trips, "--yes", "--json", *one).json["num_files"] == 6
    assert not any(list(trips.rglob(file)) for file in files)


def test_archive(cli: Run, trips: Path) -> None:
    few = ["-o", "hoodie.keep.min.commits=1", "-o", "hoodie.keep.max.commits=2"]
    few += [
        "-o",
        "hoodie.clean.commits.retained=1",
        "-o",
        "hoodie.metadata.enable=false",
        "-o",
        "hoodie.compact.inline.trigger.strategy=TIME_ELAPSED",
        *QUICK,
    ]
    assert "may have up to 30" in cli("archive", trips, "--dry-run").out
    preview = cli("archive", trips, "--dry-run", "--json", *few).json
    done = cli("archive", trips, "--json", *few).json
    assert len(preview["instants"]) == done["num_instants"]
    assert preview["instants"][-1:] == ([done["instant"]] if done["instant"] else [])


def test_versions(cli: Run, trips: Path) -> None:
    shown = cli("downgrade", trips, "--to", "8", "--dry-run").out
    assert "- hoodie.properties replaced: from then on the table has the new version\n" in shown
    assert f"To go back: hudi-py upgrade file://{trips} --to 9\n" in shown
    assert "confirm with --yes" in cli("downgrade", trips, "--to", "8", code=2).err
    done = cli("downgrade", trips, "--to", "8", "--yes", "--json").json
    assert (done["source"], done["target"], done["reason"]) == (9, 8, "")
    assert cli("upgrade", trips, "--to", "8").out == "Upgrade: nothing done: the table has version 8 already.\n"
    assert cli("upgrade", trips, "--yes").out.endswith("Upgrade: version 8 to 9.\n")
    assert "there is no version 10" in cli("downgrade", trips, "--to", "10", code=2).err


def test_an_old_version(cli: Run, tmp_path: Path) -> None:
    path = extract("v5_12_mor_ordering_date", tmp_path)
    assert "upgrade it with `hudi-py upgrade PATH`" in cli("compact", path, code=6).err
    shown = cli("upgrade", path, "--to", "6", "--dry-run").out
    assert "- hoodie.properties replaced: from then on the table has version 6\n" in shown
    assert "Note: Apache Hudi before 0.14 can no longer read or write the table.\n" in shown
    assert "To go back: downgrade_table of Apache Hudi 0.14 or 0.15 to version 5, since" in shown
    assert cli("upgrade", path, "--to", "6", "--yes").out.endswith("Upgrade: version 5 to 6.\n")


def test_any_service_by_its_name(cli: Run, trips: Path) -> None:
    assert "2 file groups with 6 files would be rewritten" in cli("run", trips, "compaction", "--dry-run").out
    planned = cli("run", trips, "compaction", "--phase", "schedule", "--json", *QUICK).json["instant"]
    assert "confirm with --yes" in cli("run", trips, "unschedule", "--instant", planned, code=2).err
    dropped = cli("run", trips, "unschedule", "--instant", planned, "--yes", *QUICK).out
    assert dropped == f"Unschedule {planned}: the compaction plan dropped.\n"
    due = cli("run", trips, "compaction", "--when-due", "--json", *QUICK).json
    assert (due["instant"], due["reason"].partition(",")[0]) == (None, "3 delta commits since the last compaction")
    said = cli("run", trips, "compaction", "--phase", "schedule", *QUICK).out
    flags = said.partition(" Run it with ")[2].strip(".\n").split()
    assert "2 file groups, 4 log files" in cli("run", trips, "compaction", *flags, *QUICK).out
    given = ("--comment", "before --this", "--user=me=you")
    saved = cli("run", trips, "savepoint", *given, "--json", *QUICK).json["savepoint"]
    (row,) = cli("savepoint", "list", trips, "--json").lines
    assert (row["instant"], row["comment"], row["user"]) == (saved, "before --this", "me=you")
    assert "'yes' has no name" in cli("run", trips, "savepoint", "yes", code=2).err
    assert "archive has no plan to show" in cli("run", trips, "archive", "--dry-run", code=2).err
    assert "services are compaction, " in cli("run", trips, "compact", code=2).err
    rules = ("--expressions", "^a$,1", "--dry-run")
    assert "it has no stored rules" in cli("run", trips, "rescale_buckets", *rules, code=2).err


def test_rollback_and_restore(cli: Run, trips: Path) -> None:
    first, second, third = (row["instant"] for row in reversed(cli("timeline", trips, "--json").lines))
    assert cli("rollback", trips, second, "--with-newer", "--dry-run", "--json").json["instants"] == [third, second]
    saved = cli("savepoint", "create", trips, second, "--user", "me", "--comment", "now", "--json", *QUICK).json
    assert saved["savepoint"] == second
    assert [row["comment"] for row in cli("savepoint", "list", trips, "--json").lines] == ["now"]
    assert third in cli("restore", trips, second, "--dry-run").out
    assert cli("restore", trips, "latest", "--dry-run").out == cli("restore", trips, second, "--dry-run").out
    assert "confirm with --yes" in cli("restore", trips, second, code=2).err
    assert cli("restore", trips, second, "--yes", "--json", *QUICK).json["rolled_back"] == [third]
    assert "delete the savepoint first" in cli("rollback", trips, second, "--yes", code=4).err
    assert "released" in cli("savepoint", "delete", trips, second, "--yes", *QUICK).out
    assert cli("rollback", trips, second, "--yes", "--json", *QUICK).json["rolled_back"] == [second]
    assert cli("rollback", trips, second, "--dry-run").out == "Nothing would be undone.\n"
    assert [row["instant"] for row in cli("timeline", trips, "--json", "--action", "deltacommit").lines] == [first]


def test_indexes(cli: Run, trips: Path) -> None:
    cli("index", "create", trips, "record_index", "--using", "record_index", *QUICK)
    column = hudi_py.open_table(str(trips)).schema.names[-1]
    assert cli("index", "create", trips, "ix", column, *QUICK).out == "Created the index ix.\n"
    assert cli("index", "create", trips, "ix", column, "--if-not-exists", "--json", *QUICK).json == {"created": False}
    cut = ("--using", "column_stats", "--expr", "substring", "--with", "pos=1", "--with", "len=2")
    assert cli("index", "create", trips, "cut", "city", *cut, *QUICK).out == "Created the index cut.\n"
    assert cli("index", "refresh", trips, "ix", *QUICK).out == "Built the index ix anew.\n"
    assert "secondary_index_ix" in cli("index", "list", trips).out
    assert cli("index", "drop", trips, "ix", "--yes", "--json", *QUICK).json == {"dropped": True}
    assert "secondary_index_ix" not in cli("index", "list", trips, "--json").out


def test_the_metadata_table(cli: Run, trips: Path) -> None:
    assert cli("metadata", "verify", trips, "--json").json["ok"]
    lost = next(trips.glob("oslo/*.parquet"))
    lost.rename(trips / "away")
    assert "data files are lost" in cli("metadata", "verify", trips, code=5).out
    (trips / "away").rename(lost)
    assert cli("metadata", "drop", trips, "column_stats", "--yes", "--json", *QUICK).json == {
        "dropped": ["column_stats", "partition_stats"]
    }
    assert cli("metadata", "rebuild", trips, "column_stats", *QUICK).out == "Rebuilt: column_stats.\n"
    cli("metadata", "drop", trips, "files", "--yes", *QUICK)
    assert "There is no metadata table" in cli("show", trips).out


def test_locks(cli: Run, trips: Path) -> None:
    assert cli("locks", "show", trips).err == "Nobody holds the table lock.\n"
    (trips / ".hoodie" / "lock").write_text("")
    (held,) = cli("locks", "show", trips, "--json").lines
    assert held["provider"] == "FileSystemBasedLockProvider"
    assert "held by" in cli("show", trips).out
    assert "locks show" in cli("locks", "break", trips, "somebody", "--yes", code=4).err
    assert cli("locks", "break", trips, held["owner"], "--yes").out == "The lock was released.\n"
    assert not cli("locks", "show", trips, "--json").out


def test_diff(cli: Run, trips: Path) -> None:
    first, *_ = (row["instant"] for row in reversed(cli("timeline", trips, "--json").lines))
    cli("delete", trips, "--keys", "9", "--yes", *QUICK)
    hudi_py.write(trips, [{"id": "new", "ts": 1, "city": "rome", "fare": 1.0, "note": "", "more": 1}], options=OPTIONS)
    found = cli("diff", trips, first, "--keys", "--json").json
    assert found["rows"] == {"inserted": 1, "updated": 7, "deleted": 1}
    assert found["keys"]["deleted"] == [{"partition": "lima", "key": "9"}]
    assert found["columns"] == [{"column": "more", "before": None, "after": "int64"}]
    assert [(row["partition"], row["change"]) for row in found["files"]] == [
        ("lima", "appended"),
        ("oslo", "appended"),
        ("rome", "added"),
    ]
    text = cli("diff", trips, first, "--keys").out
    assert "1 inserted, 7 updated, 1 deleted" in text
    assert "more: absent -> int64" in text
    assert "2 file groups appended, 1 file group added" in text
    # a compaction changes files, not rows
    newest = cli("timeline", trips, "--json").lines[0]["instant"]
    cli("compact", trips, *QUICK)
    found = cli("diff", trips, newest, "--json").json
    assert found["rows"] == {"inserted": 0, "updated": 0, "deleted": 0}
    assert {row["change"] for row in found["files"]} == {"rewritten"}


def test_a_read_only_table_is_shown(cli: Run, tmp_path: Path, made: Path) -> None:
    found = cli("show", made, "--json").json
    assert found["read_only"] is None
    assert [row["service"] for row in found["services"]] == ["compaction", "clean", "archive"]


@pytest.mark.parametrize(
    ("natural", "width", "widths"),
    [
        ([5, 5, 5], 30, [5, 5, 5]),
        ([5, 40, 5], 30, [5, 16, 5]),
        ([40, 40, 5], 40, [15, 16, 5]),
        ([40, 40, 5], 20, [9, 9]),
        ([40, 40, 5], 10, [10]),
    ],
)
def test_columns_are_fitted(natural: list[int], width: int, widths: list[int]) -> None:
    assert fitted([ScreenColumn("a"), ScreenColumn("b"), number("c")], natural, width) == widths


def test_values_of_people() -> None:
    assert shown("a\nb\x1b[31m\tc") == r"a\nb\x1b[31m\tc"
    assert (shown(None), shown(True), shown(1234567)) == ("", "true", "1,234,567")
    assert (ago(59_999), ago(60_000), ago(7_200_000), ago(100_000_000)) == (
        "less than a minute ago",
        "1 minute ago",
        "2 hours ago",
        "1 day ago",
    )


def test_doctor_and_repair(cli: Run, trips: Path) -> None:
    assert cli("doctor", trips, "--full").out.startswith(f"file://{trips}  healthy\n")
    properties = trips / ".hoodie" / "hoodie.properties"
    whole = properties.read_bytes()
    properties.rename(properties.with_name("hoodie.properties.backup"))
    found = cli("doctor", trips, "--json", code=5).json
    assert [each["code"] for each in found["findings"] if each["severity"] != "notice"] == ["properties.from_backup"]
    assert "properties.from_backup" in cli("doctor", trips, code=5).out
    planned = cli("repair", trips, "--dry-run", "--json").json
    assert not properties.exists()
    assert [step["codes"] for step in planned["steps"]] == [["properties.from_backup"]]
    assert "confirm with --yes" in cli("repair", trips, code=2).err
    done = cli("repair", trips, "--yes", "--json").json
    assert properties.read_bytes() == whole
    assert [row["id"] for row in cli("repairs", "list", trips, "--json").lines] == [done["id"]]
    assert done["id"] in cli("repairs", "list", trips).out
    assert "brought back" in cli("repairs", "undo", trips, done["id"], "--yes").out
    assert not properties.exists()
    again = cli("repair", trips, "--yes").out
    assert f"hudi-py repairs undo {trips} " in again
    id = cli("repairs", "list", trips, "--json").lines[-1]["id"]
    assert cli("repairs", "forget", trips, id, "--yes", "--json").json["id"] == id
    assert cli("repairs", "list", trips).err == "No repairs are kept.\n"
    assert cli("repair", trips, "--yes").out == "There is nothing to repair.\n"


def test_the_audit_of_the_lock(cli: Run, trips: Path) -> None:
    assert cli("locks", "audit", "status", trips).out.startswith("audit")
    assert cli("locks", "audit", "enable", trips).out == "The audit of the lock is enabled.\n"
    (status,) = cli("locks", "audit", "status", trips, "--json").lines
    assert status["enabled"]
    assert cli("locks", "audit", "disable", trips).out == "The audit of the lock is disabled.\n"
    assert "nothing to validate" in cli("locks", "audit", "validate", trips).out
    folder = trips / ".hoodie/.locks/audit"
    folder.mkdir()
    (folder / "1_o.jsonl").write_text("damaged")
    os.utime(folder / "1_o.jsonl", (1, 1))
    assert cli("locks", "audit", "validate", trips, code=5).out == "[ERROR] Failed to parse audit file: 1_o.jsonl\n"
    assert cli("locks", "audit", "cleanup", trips, "--dry-run").out == "1 record would be deleted.\n"
    assert "confirm with --yes" in cli("locks", "audit", "cleanup", trips, code=2).err
    assert cli("locks", "audit", "cleanup", trips, "--yes").out == "1 record deleted.\n"
    assert cli("locks", "audit", "cleanup", trips).out == "0 records deleted.\n"
