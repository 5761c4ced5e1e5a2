"""One command for several tables: each is answered for, under its own heading; the exit code is the worst."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hudi_py
from hudi_py.cli import declare
from hudi_py.errors import CorruptFileError, LockError
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_program import COMMANDS, REPORTS

SEVERAL = {" ".join(words) for words, command in COMMANDS.items() if command.params[0].name == "paths"}


@pytest.fixture
def lost(made: Path, tmp_path: Path) -> Path:
    """A table without one of its data files."""
    path = tmp_path / "lost"
    shutil.copytree(made, path)
    next(iter((path / "oslo").glob("*.parquet"))).unlink()
    return path


@pytest.mark.parametrize("command", [each for each in REPORTS if " ".join(each.split(" -")[0].split()) in SEVERAL])
def test_each_is_what_it_is_alone(command: str, cli: Run, made: Path, trips: Path) -> None:
    words = command.split()
    place = 3 if words[1:2] == ["audit"] else 2 if words[0] in ("savepoint", "locks", "index") else 1
    before, after = words[:place], words[place:]
    alone = {path: cli(*before, path, *after).out for path in (made, trips)}
    text = cli(*before, made, trips, *after).out
    assert text == f"==> {made} <==\n{alone[made]}\n==> {trips} <==\n{alone[trips]}"
    lines = cli(*before, made, trips, *after, "--json").lines
    for path in (made, trips):
        rows = [{name: row[name] for name in row if name != "table"} for row in lines if row["table"] == str(path)]
        assert rows == cli(*before, path, *after, "--json").lines


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tables", "code"),
    [
        (("trips", "made"), 0),
        (("lost", "made"), 5),
        (("lost", "nowhere", "made"), 3),
        (("nowhere", "lost"), 3),
    ],
)
def test_the_worst_exit_code(tables: tuple[str, ...], code: int, cli: Run, made: Path, lost: Path, trips: Path) -> None:
    paths = [{"made": made}.get(name, trips.parent / name) for name in tables]
    ran = cli("doctor", *paths, code=code)
    assert [line for line in ran.out.splitlines() if line.startswith("==>")] == [f"==> {each} <==" for each in paths]
    assert ran.err.count("Error: ") == tables.count("nowhere")
    as_json = cli("doctor", *paths, "--json", code=code)
    told = as_json.lines + [json.loads(line) for line in as_json.err.splitlines()]
    assert sorted(each["table"] for each in told) == sorted(map(str, paths))


def test_an_error_names_its_table(cli: Run, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    assert "Error: No Hudi table at" in cli("plans", "/nowhere", made, code=3).err
    monkeypatch.setattr(hudi_py, "open_table", fail)
    assert (
        cli("plans", made, "/else", code=1).err == f"Error: {made}: the disk is full\nError: /else: the disk is full\n"
    )
    assert cli("plans", made, code=1).err == "Error: the disk is full\n"


def test_of_several_errors_the_highest_code_counts(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {"/a": LockError("busy"), "/b": CorruptFileError("cut"), "/c": KeyError("x")}

    def fail(path: str, *_: object, **__: object) -> None:
        raise errors[path]

    monkeypatch.setattr(hudi_py, "open_table", fail)
    cli("plans", "/a", "/b", "/c", code=7)
    cli("plans", "/c", "/a", code=4)
    cli("plans", "/c", "/c", code=1)


def test_questions_are_asked_of_each(cli: Run, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = [tmp_path / "a", tmp_path / "b"]
    for path in both:
        shutil.copytree(made, path)
    monkeypatch.setattr(declare, "_can_ask", lambda: True)
    cli("compact", *both)
    keep = ["-o", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS", "-o", "hoodie.clean.fileversions.retained=1"]
    ran = cli("clean", *both, *keep, code=1, input=b"n\ny\n")
    cleans = [hudi_py.open_table(path).instants()["action"].to_pylist().count("clean") for path in both]
    assert cleans == [0, 1], ran
    monkeypatch.setattr(declare, "_can_ask", lambda: False)
    refused = cli("clean", *both, *keep, code=2)
    assert refused.err.count("confirm with --yes") == 1


def test_an_interruption_ends_all(cli: Run, made: Path, trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hudi_py, "open_table", interrupt)
    ran = cli("show", made, trips, code=130)
    assert str(trips) not in ran.out


def test_a_wrong_command_is_told_once(cli: Run, made: Path, trips: Path) -> None:
    ran = cli("compact", made, trips, "--schedule", "--dry-run", code=2)
    assert ran.err.count("Give only one of") == 1
