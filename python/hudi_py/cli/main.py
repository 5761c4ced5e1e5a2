"""The entry point: the commands, and how errors are shown."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, Final

import click

from hudi_py.cli import heal, iceberg, look, maintain, reference, rows, share
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
from hudi_py.model.words import visible_json, visible_lines

PROGRAM: Final = "hudi-py"
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
"""Exit code of the first class that an error belongs to; 1 for all others. 5: something to mend was found."""
_INTERRUPTED: Final = 130

_ERROR: Final = "Error: "
_WORDS: Final = {
    "set with_newer=True": "give --with-newer",
    "look at Table.locks() again": "look at `hudi-py locks show` again",
}
"""Advice in messages of the Python API, and what it is on the command line."""

_SECTIONS: Final = {
    "Learn": ("options",),
    "Look": ("show", "timeline", "files", "partitions", "schema", "stats", "diff", "plans", "report"),
    "Rows": ("read", "sql", "explain", "write", "update", "delete"),
    "Maintain": ("compact", "log-compact", "clean", "archive", "unschedule", "index", "metadata"),
    "Health": ("doctor", "repair", "repairs"),
    "Go back": ("rollback", "savepoint", "restore"),
    "Locks": ("locks",),
    "Other systems": ("iceberg", "sync"),
}


class _Program(click.Group):
    def main(self, args: Sequence[str] | None = None, *_: Any, **more: Any) -> Any:
        with warnings.catch_warnings():
            _show_warnings()
            sys.exit(self._run(list(sys.argv[1:] if args is None else args), more))

    def _run(self, given: list[str], more: dict[str, Any]) -> int:
        try:
            code = super().main(given, **{**more, "prog_name": PROGRAM, "standalone_mode": False})
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except (Exception, KeyboardInterrupt) as error:
            code = _fail(error, debug="--debug" in given, as_json="--json" in given)
        return code if isinstance(code, int) else 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                commands = ((name, self.commands[name]) for name in names)
                formatter.write_dl([(name, command.get_short_help_str(100)) for name, command in commands])


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="hudi-py", prog_name=PROGRAM)
def main() -> None:
    """Apache Hudi tables on the command line.

    Each command takes the path or URI of a table, such as /data/trips or s3://lake/trips. `hudi-py COMMAND --help`
    shows examples.
    """


reference.add_to(main)
look.add_to(main)
rows.add_to(main)
maintain.add_to(main)
heal.add_to(main)
iceberg.add_to(main)
share.add_to(main)


def _fail(error: BaseException, *, debug: bool, as_json: bool) -> int:
    """Shows an error on standard error; its exit code."""
    code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
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
        found = {"error": type(error).__name__, "message": _message(error), "exit_code": code, **fields}
        click.echo(visible_json(json.dumps(found, ensure_ascii=False)), err=True)
    else:
        click.echo(_block(error), err=True)
    return code


def _hint(error: click.UsageError) -> str:
    """What may have been meant by an argument too many: a condition without its option."""
    extra = re.match(r"Got unexpected extra arguments? \((.*)\)", error.format_message())
    names = [name for param in error.ctx.command.params for name in param.opts] if error.ctx is not None else []
    name = next((name for name in ("--where", "--filter") if name in names), None)
    return f"; give a condition as {name} {json.dumps(extra[1])}" if extra and name else ""


def _message(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return visible_lines(error.format_message())
    text = visible_lines(str(error)) or type(error).__name__
    for words, ours in _WORDS.items():
        text = text.replace(words, ours)
    return text


def _block(error: BaseException) -> str:
    """An error as one block of text that fits the terminal."""
    text = _message(error)
    if not isinstance(error, (HudiError, OSError, click.ClickException)):
        text = f"{type(error).__name__}: {text}\nShow where it happened with --debug."
    if not sys.stderr.isatty():
        return _ERROR + text
    width, hang = max(min(shutil.get_terminal_size().columns, 100), 40), " " * len(_ERROR)
    lines = text.splitlines()
    if len(lines) == 1:  # others have their own layout
        lines = textwrap.wrap(text, width - len(hang), break_long_words=False, break_on_hyphens=False)
    return click.style(_ERROR, fg="red", bold=True) + f"\n{hang}".join(lines)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"Warning: {visible_lines(record.getMessage())}", err=True)


def _show_warnings() -> None:
    """Shows warnings, logged or raised, in one line each."""

    def show(message: Warning | str, *_: Any) -> None:
        click.echo(f"Warning: {visible_lines(str(message))}", err=True)

    warnings.filterwarnings("default", category=UserWarning)
    warnings.showwarning = show  # type: ignore[assignment]
    log = logging.getLogger("hudi_py")
    if not any(isinstance(handler, _Warnings) for handler in log.handlers):
        log.addHandler(_Warnings(logging.WARNING))
        log.propagate = False
