"""docs/cli.md says what is: its commands run, its options, exit codes and commands exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hudi_py.cli.failure import EXIT_CODES
from hudi_py.cli.main import main
from tests.meta.sources import ROOT

TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
ROWS = "id,ts,city,fare\na,1,oslo,12.5\nb,1,lima,7\n"


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips.csv").write_text(ROWS)
    (block,) = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "cities").symlink_to(tmp_path / "trips")
    commands = [line.removeprefix("$ hudi-py ") for line in block.splitlines()]
    assert len(commands) > 10
    for command in commands:
        ran = CliRunner().invoke(main, shlex.split(command.replace("/tmp/", f"{tmp_path}/")))
        assert ran.exit_code == 0, (command, ran.output)
    assert (tmp_path / "oslo.parquet").is_file()


def named() -> list[str]:
    """The right side of the table of hudi-cli's commands."""
    cells = [line.split("|")[2] for line in section("From hudi-cli").splitlines() if line.startswith("| `")]
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("text", named())
def test_commands_and_options_exist(text: str) -> None:
    words, command = text.split(), None
    group: click.Command = main
    while isinstance(group, click.Group):
        command = group = group.commands[words.pop(0)]
    assert command is not None
    options = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_exit_codes() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Output"), re.MULTILINE)}
    assert told == {0, 1, 5, 130, *EXIT_CODES.values()}


def commands_of(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group at any depth, by their names."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def test_commands_that_ask_and_that_plan() -> None:
    text = section("What all commands take")
    asking, planning = text.split("**Questions.**")[1].split("`--yes`")[0], text.split("`--dry-run` of")[1]
    has = {"--yes": set(), "--dry-run": set()}
    for name, command in commands_of(main):
        for option in has:
            if any(option in param.opts for param in command.params):
                has[option].add(name)
    assert set(re.findall(r"`([a-z -]+)`", asking)) == has["--yes"]
    assert set(re.findall(r"`([a-z][a-z -]+)`", planning)) == has["--dry-run"]


def test_commands_of_several_tables() -> None:
    told = section("What all commands take").split("**Several tables.**")[1].split(" take more")[0]
    found = {name for name, command in commands_of(main) if command.params[0].name == "paths"}
    assert set(re.findall(r"`([a-z -]+)`", told)) == found
