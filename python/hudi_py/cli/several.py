"""A command for several tables, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from hudi_py.cli.failure import FOUND, fail
from hudi_py.cli.screen import Screen


def answer_each(paths: Sequence[str], answer: Callable[[str], Any], *, debug: bool, as_json: bool) -> int:
    """Answers for each table, whatever became of the one before; the worst exit code.

    Errors are worse than findings, and of two errors the one with the higher code.

    Raises:
        click.UsageError: the command is wrong, for whichever table.
        click.Abort: a question was interrupted.
    """
    codes, screen = [], Screen()
    for number, path in enumerate(paths):
        with screen.part(path, first=number == 0, as_json=as_json):
            codes.append(_answer(path, answer, debug=debug, as_json=as_json))
        sys.stdout.flush()  # so that errors come below their heading
    return max(codes, key=lambda code: (code not in (0, FOUND), code))


def _answer(path: str, answer: Callable[[str], Any], *, debug: bool, as_json: bool) -> int:
    try:
        answer(path)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.UsageError, BrokenPipeError):
        raise
    except Exception as error:  # as the program shows any error of a command
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        return fail(error, debug=debug, as_json=as_json, table=path)
    return 0
