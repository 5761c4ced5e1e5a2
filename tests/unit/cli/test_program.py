"""What holds for every command: help with examples, exit codes, errors in one block, JSON, completion."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import hudi_py
from hudi_py.cli import declare, export
from hudi_py.cli.declare import Documented
from hudi_py.cli.main import main
from hudi_py.config.options import ALL
from hudi_py.errors import HistoryCleanedError, LockError
from hudi_py.services.registry import SERVICES
from tests.unit.cli.conftest import Run


def commands(group: click.Group = main, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Documented]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            assert isinstance(command, Documented)
            yield (*words, name), command


COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_is_helped_by_an_example(words: tuple[str, ...], cli: Run) -> None:
    text = cli(*words, "--help").out
    assert COMMANDS[words].help
    assert COMMANDS[words].examples
    assert all(f"hudi-py {' '.join(words)} " in example for example in COMMANDS[words].examples)
    assert all(example in text for example in COMMANDS[words].examples)
    options = {option for param in COMMANDS[words].params for option in param.opts}
    if words == ("run",):
        options |= {f"--{each.name.replace('_', '-')}" for service in SERVICES.values() for each in service.arguments}
    used = {word for example in COMMANDS[words].examples for word in re.findall(r"(?<= )--?[a-z-]+", example)}
    assert used <= options
    assert all(param.help for param in COMMANDS[words].params if isinstance(param, click.Option))


def test_the_help_lists_every_command_once(cli: Run) -> None:
    found = re.findall(r"^  ([a-z][a-z-]+)  +[A-Z]", cli("--help").out, re.MULTILINE)
    assert sorted(found) == sorted(main.commands)


def test_the_version(cli: Run) -> None:
    assert re.fullmatch(r"hudi-py, version \d+\.\d+\.\d+\n", cli("--version").out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "/nowhere"], 3, "No Hudi table at"),
        (["show"], 2, "Missing argument 'PATH...'"),
        (["read"], 2, "Missing argument 'PATH'"),
        (["nothing"], 2, "No such command"),
        (["read", "TRIPS", "-c", "nope"], 2, "has no column 'nope'"),
        (["read", "TRIPS", "-o", "hoodie.nothing=1"], 2, "Unknown option hoodie.nothing"),
        (["read", "TRIPS", "-o", "hoodie"], 2, "not of the form key=value"),
        (["read", "TRIPS", "--begin", "earliest"], 2, "belong to --incremental"),
        (["read", "TRIPS", "--json", "--to", "csv"], 2, "contradict each other"),
        (["read", "TRIPS", "--output", "rows.txt"], 2, "give --to"),
        (["read", "TRIPS", "--options-file", "/nowhere"], 2, "Cannot read the options file"),
        (["rollback", "TRIPS", "FIRST"], 4, "give --with-newer"),
        (["rollback", "TRIPS", "20200101000000000"], 2, "no such instant"),
        (["clean", "TRIPS"], 2, "confirm with --yes"),
        (["delete", "TRIPS"], 2, "Give one of"),
        (["compact", "TRIPS", "--dry-run", "--schedule"], 2, "Give only one of"),
        (["files", "TRIPS", "-p", "nope"], 2, "it has lima, oslo"),
        (["write", "TRIPS", "-"], 2, "give --from"),
    ],
)
def test_errors(words: list[str], code: int, said: str, cli: Run, made: Path) -> None:
    first = hudi_py.open_table(made).instants()["instant"][0].as_py()
    given = [{"TRIPS": str(made), "FIRST": first}.get(word, word) for word in words]
    ran = cli(*given, code=code)
    assert not ran.out
    assert said in ran.err
    assert "Traceback" not in ran.err
    if not {"--json", "--output"} & set(words):
        assert json.loads(cli(*given, "--json", code=code).err)["exit_code"] == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(LockError("busy"), 4), (HistoryCleanedError("gone"), 8), (KeyError("x"), 1), (KeyboardInterrupt(), 130)],
)
def test_errors_of_a_command(
    error: BaseException, code: int, cli: Run, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(export, "read", fail)
    quiet = cli("read", made, code=code).err
    assert "Traceback" not in quiet
    assert isinstance(error, KeyError) == ("--debug" in quiet)
    assert "Traceback" in cli("read", made, "--debug", code=code).err


def test_an_error_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit):
        main(["read", "/nowhere/at/all"])
    lines = click.unstyle(capsys.readouterr().err).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].startswith("Error: ")
    assert all(line.startswith("       ") for line in lines[1:])


def test_warnings_are_on_standard_error(cli: Run, trips: Path) -> None:
    ran = cli("delete", trips, "-p", "atlantis", "-p", "oslo", "--yes", "--json", code=0)
    assert ran.json["operation"] == "delete_partition"
    assert "Warning: " in ran.err


@pytest.mark.parametrize("answer", [True, False])
def test_the_question(answer: bool, trips: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declare, "_can_ask", lambda: True)
    newest = hudi_py.open_table(trips).instants()["instant"][-1].as_py()
    ran = cli("rollback", trips, newest, code=0 if answer else 1, input=b"y\n" if answer else b"n\n")
    assert f"undo 1 instant ({newest}) for good?" in ran.err
    assert ("Nothing was changed." in ran.err) != answer
    assert hudi_py.open_table(trips).instants()["action"].to_pylist().count("rollback") == answer


REPORTS = {
    "show": 1,
    "show --properties": 1,
    "timeline": None,
    "timeline --pending": None,
    "timeline --archived --action deltacommit -n 1": None,
    "files": None,
    "files --logs -p oslo": None,
    "partitions": None,
    "schema --meta": None,
    "stats --rows": 1,
    "plans": None,
    "savepoint list": None,
    "locks show": None,
    "locks audit status": 1,
    "locks audit validate": 1,
    "explain -f fare>3": 1,
    "read -n 2": None,
    "read --incremental --begin earliest": None,
    "clean --dry-run": 1,
    "compact --dry-run": 1,
    "log-compact --dry-run": 1,
    "archive --dry-run": 1,
    "metadata verify": 1,
    "index list": None,
}


@pytest.mark.parametrize("command", REPORTS)
def test_json_is_json_and_text_is_plain(command: str, cli: Run, made: Path) -> None:
    words = command.split()
    at = 3 if words[1:2] == ["audit"] else 2 if words[0] in ("savepoint", "locks", "metadata", "index") else 1
    given = [*words[:at], str(made), *words[at:]]
    lines = cli(*given, "--json").lines
    assert all(isinstance(line, dict) for line in lines)
    assert REPORTS[command] in (None, len(lines))
    text = cli(*given)
    assert "\x1b" not in text.out + text.err


def completed(words: list[str], incomplete: str) -> set[str]:
    found: list[Any] = ShellComplete(main, {}, "hudi-py", "_HUDI_PY_COMPLETE").get_completions(words, incomplete)
    return {item.value for item in found}


def test_completion() -> None:
    assert completed([], "com") == {"compact"}
    assert completed(["metadata"], "") == {"verify", "rebuild", "drop"}
    assert {"--as-of", "--archived"} & completed(["files", "/data/trips"], "--a") == {"--as-of"}
    assert "hoodie.clean.commits.retained=" in completed(["clean", "/data/trips", "-o"], "hoodie.clean.co")


def test_options_come_from_a_file_too(cli: Run, made: Path, tmp_path: Path) -> None:
    file = tmp_path / "hudi.properties"
    file.write_text("# kept\nhoodie.clean.commits.retained=1\n")
    plan = cli("clean", made, "--dry-run", "--json", "--options-file", file).json
    assert "10 are kept" not in plan["reason"]
    wins = cli("clean", made, "--dry-run", "--options-file", file, "-o", "hoodie.clean.commits.retained=7").out
    assert "and 7 are kept" in wins


def test_options_are_explained() -> None:
    shown = CliRunner().invoke(main, ["options", "clean", "commits", "retained"]).output
    assert "hoodie.clean.commits.retained\n  KEEP_LATEST_COMMITS: number of commits that stay available" in shown
    assert "  default: 10\n" in shown
    assert "  example: hoodie.clean.commits.retained=20\n" in shown
    lines = CliRunner().invoke(main, ["options", "--json"]).output.splitlines()
    known = {each["option"]: each for each in map(json.loads, lines)}
    assert set(known) == {option.key for option in ALL if not option.internal}
    assert known["hoodie.clustering.async.enabled"]["treated"] == "refused"
    assert known["hoodie.datasource.write.recordkey.field"]["example"] == "hoodie.datasource.write.recordkey.field=id"
    assert CliRunner().invoke(main, ["options", "no such words"]).output == ""
    ranked = [
        json.loads(line)["option"]
        for line in CliRunner().invoke(main, ["options", "lock", "--json"]).output.splitlines()
    ]
    named = [".lock." in key or key.endswith(".lock") for key in ranked]
    assert sum(named) > 10
    assert named == sorted(named, reverse=True)
