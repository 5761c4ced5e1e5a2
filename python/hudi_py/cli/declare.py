"""Declares commands: their common arguments, help with examples, and the question before a deletion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.model.properties import parse_properties
from hudi_py.model.words import visible

if TYPE_CHECKING:
    from hudi_py.table import Table

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic only in newer releases

Body = TypeVar("Body", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The table that a command works on, and the form of its output."""

    path: str
    options: Mapping[str, str]
    storage_options: Mapping[str, str] | None
    as_json: bool

    def open(self) -> Table:
        return hudi_py.open_table(self.path, self.options, storage_options=self.storage_options)


class Documented(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*args, **named)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class KeyValue(_ParamType):
    """`key=value`; completes the keys of Hudi options."""

    name = "key=value"

    def __init__(self, completes: bool = False) -> None:
        self._completes = completes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        if not sign or not key.strip():
            self.fail(f"{value!r} is not of the form key=value", param, ctx)
        return key.strip(), text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if not self._completes:
            return []
        from hudi_py.config.options import HONOURED

        keys = (option.key for option in HONOURED)
        return [CompletionItem(f"{key}=") for key in keys if key.startswith(incomplete)]


class NameList(_ParamType):
    """Names separated by commas."""

    name = "name,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        if isinstance(value, list):
            return value
        return [part.strip() for part in str(value).split(",") if part.strip()]


NAMES = NameList()
_PLACE = click.Path()


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["-o", "--option", "options"],
            type=KeyValue(completes=True),
            multiple=True,
            help="Option by its Apache Hudi key; may be repeated.",
        ),
        click.Option(
            ["--storage-option", "storage_options"],
            type=KeyValue(),
            multiple=True,
            help="Setting of the storage, such as a region or credentials; may be repeated.",
        ),
        click.Option(
            ["--options-file"],
            type=click.Path(dir_okay=False),
            help="File with one key=value per line; -o wins.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
    ]


def table_command(
    group: click.Group,
    name: str,
    *,
    examples: Sequence[str],
    paths: Literal["none", "one", "several"] = "one",
    about: str | None = None,
    kind: type[Documented] = Documented,
) -> Callable[[Body], Documented]:
    """Declares a command of a table. Its function gets a `CommandTarget` first, then its own parameters.

    Args:
        examples: command lines for its help.
        paths: whether the path of the table is its first argument, or those of several tables, for each of which the
            function is called; `none`: that of the target is empty.
        about: its help; None: the function's docstring.
        kind: the class of the command.
    """

    def declare(body: Body) -> Documented:
        own = list(reversed(getattr(body, "__click_params__", [])))
        place: list[click.Parameter] = []
        if paths == "several":
            place = [click.Argument(["paths"], type=_PLACE, nargs=-1, required=True, metavar="PATH...")]
        elif paths == "one":
            place = [click.Argument(["path"], type=_PLACE)]

        @wraps(body)
        def run(
            options: Sequence[tuple[str, str]],
            storage_options: Sequence[tuple[str, str]],
            options_file: str | None,
            as_json: bool,
            debug: bool,
            **rest: Any,
        ) -> Any:
            given = {**_of_file(options_file), **dict(options)}
            places: Sequence[str] = rest.pop("paths", None) or (rest.pop("path", ""),)

            def answer(path: str) -> Any:
                return body(CommandTarget(path, given, dict(storage_options) or None, as_json), **rest)

            if len(places) < 2:
                return answer(places[0])
            from hudi_py.cli.screen import answer_each

            code = answer_each(places, answer, debug=debug, as_json=as_json)
            return click.get_current_context().exit(code) if code else None

        run.__click_params__ = []  # type: ignore[attr-defined]
        params = [*place, *own, *_common_options()]
        command = click.command(name, cls=kind, params=params, examples=examples, help=about)(run)
        group.add_command(command)
        return command

    return declare


def yes_option(body: Body) -> Body:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(body)


def dry_run_option(body: Body) -> Body:
    return click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")(body)


def confirm(question: str, yes: bool) -> None:
    """Asks before a deletion, unless `--yes` was given.

    Raises:
        click.Abort: the answer is no.
        click.UsageError: there is no terminal to ask on.
    """
    if yes:
        return
    if not _can_ask():
        raise click.UsageError(f"{question} There is no terminal to ask on: confirm with --yes.")
    click.confirm(visible(question), abort=True, err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _of_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise ConfigError(f"Cannot read the options file {path}: {error.strerror}") from error
