"""The entry point: the commands, and the display of warnings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Final

import click

from hudi_py.cli import heal, locks, look, maintain, rows, share
from hudi_py.cli.failure import fail
from hudi_py.model.words import visible_lines

PROGRAM: Final = "hudi-py"

_SECTIONS: Final = {
    "Learn": ("options",),
    "Look": ("show", "timeline", "files", "partitions", "schema", "stats", "diff", "plans", "report"),
    "Rows": ("read", "sql", "explain", "write", "bootstrap", "update", "delete", "erase"),
    "Maintain": (
        *("compact", "log-compact", "cluster", "clean", "archive", "resize-buckets", "run", "unschedule"),
        "tend",
        *("upgrade", "downgrade", "change-type"),
        *("index", "metadata"),
    ),
    "Health": ("doctor", "repair", "repairs"),
    "Go back": ("rollback", "savepoint", "restore"),
    "Locks": ("locks",),
    "Other systems": ("iceberg", "sync", "export"),
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
        except BrokenPipeError:  # the reader has seen enough, such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except (Exception, KeyboardInterrupt) as error:
            code = fail(error, debug="--debug" in given, as_json="--json" in given)
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

    Each command takes the path or URI of a table, such as /data/trips or s3://lake/trips; those with PATH... in their
    help take several. `hudi-py COMMAND --help` shows examples.
    """


look.add_to(main)
rows.add_to(main)
maintain.add_to(main)
heal.add_to(main)
locks.add_to(main)
share.add_to(main)


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
