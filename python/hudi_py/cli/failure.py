"""Shows errors on standard error, and maps them to exit codes."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable
from typing import Final

import click

from hudi_py.errors import (
    ConfigError,
    ConflictError,
    CorruptFileError,
    HistoryCleanedError,
    HudiError,
    LockError,
    RolledBackError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_py.model.words import visible, visible_json, visible_lines

EXIT_CODES: Final[dict[type[BaseException], int]] = {
    TableNotFoundError: 3,
    ConflictError: 4,
    LockError: 4,
    RolledBackError: 4,
    UnsupportedTableError: 6,
    CorruptFileError: 7,
    HistoryCleanedError: 8,
    ConfigError: 2,
    SchemaMismatchError: 2,
    click.UsageError: 2,
}
"""Exit code of the first class that an error belongs to; 1 for all others."""
FOUND: Final = 5
"""Exit code for findings that need action."""
_INTERRUPTED: Final = 130

_ERROR: Final = "Error: "


def code_of(error: BaseException) -> int:
    """Returns the exit code of an error."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def worst(codes: Iterable[int]) -> int:
    """Returns the worst of several exit codes: errors are worse than findings, and a higher code is a worse error."""
    return max(codes, key=lambda code: (code not in (0, FOUND), code), default=0)


def fail(error: BaseException, *, debug: bool, as_json: bool, table: str = "") -> int:
    """Shows an error on standard error and returns its exit code. `table` is the one of several that it belongs to."""
    code = code_of(error)
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):  # click wraps it
        code = _INTERRUPTED
    if debug:
        click.echo(visible_lines("".join(traceback.format_exception(error))), err=True)
    if isinstance(error, click.UsageError):
        error = click.UsageError(error.format_message() + _hint(error), error.ctx)
    if isinstance(error, click.UsageError) and not as_json:
        error.show()
    elif code == _INTERRUPTED:
        click.echo("Interrupted.", err=True)
    elif isinstance(error, click.Abort):
        click.echo("Nothing was changed.", err=True)
    elif as_json:
        fields = {key: str(value) for key, value in error.fields.items()} if isinstance(error, HudiError) else {}
        named = {"table": table} if table else {}
        shown_fields = {**named, "error": type(error).__name__, "message": _message(error), "exit_code": code, **fields}
        click.echo(visible_json(json.dumps(shown_fields, ensure_ascii=False)), err=True)
    else:
        click.echo(_block(error, table), err=True)
    return code


def _hint(error: click.UsageError) -> str:
    """Guesses what an extra argument means: a condition without its option."""
    extra = re.match(r"Got unexpected extra arguments? \((.*)\)", error.format_message())
    names = [name for param in error.ctx.command.params for name in param.opts] if error.ctx is not None else []
    name = next((name for name in ("--where", "--filter") if name in names), None)
    return f"; give a condition as {name} {json.dumps(extra[1])}" if extra and name else ""


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return visible_lines(error.format_message())
    text = error.worded("cli") if isinstance(error, HudiError) else str(error)
    return visible_lines(text) or type(error).__name__


def _block(error: BaseException, table: str) -> str:
    """Formats an error as a block of text that fits the terminal."""
    text = _message(error)
    if table and visible(table) not in text:
        text = f"{visible(table)}: {text}"
    if not isinstance(error, (HudiError, OSError, click.ClickException)):
        text = f"{type(error).__name__}: {text}\nShow where it happened with --debug."
    if not sys.stderr.isatty():
        return _ERROR + text
    width, hang = max(min(shutil.get_terminal_size().columns, 100), 40), " " * len(_ERROR)
    lines = text.splitlines()
    if len(lines) == 1:  # errors of several lines have their own layout
        lines = textwrap.wrap(text, width - len(hang), break_long_words=False, break_on_hyphens=False)
    return click.style(_ERROR, fg="red", bold=True) + f"\n{hang}".join(lines)
