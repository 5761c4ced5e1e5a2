"""Remedies of the doctor's findings, in the terms of each interface."""

import re

import click
import pytest

from hudi_py.cli.main import main
from hudi_py.health import CODES

PYTHON = re.compile(r"(?<!\.)\btable\.\w+|\bTable\.|hudi_py\.")
COMMAND = re.compile(r"`hudi-py ([a-z -]+?) PATH")


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_remedies_name_the_calls_of_their_interface(code):
    assert not PYTHON.search(code.worded("cli"))
    assert "`hudi-py " not in code.remedy
    assert "{" not in code.remedy


def test_remedies_on_the_command_line_name_commands_that_exist():
    named = {name for code in CODES.values() for name in COMMAND.findall(code.worded("cli"))}
    assert {"repair", "repairs undo", "compact", "locks break"} <= named
    for name in named:
        command = main
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(main), word)
        assert command is not None, name
