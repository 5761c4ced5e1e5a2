"""Prints the output of commands: tables and facts for people, JSON for programs, also for several tables in turn.

On a terminal, tables fit its width: long text is shortened, and columns that do not fit are left out and named. If the
output is not a terminal, nothing is shortened or left out, and there are no colours. Names and values of a table never
control a terminal: their control characters are shown as escapes, in JSON as JSON's.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Final, Protocol

import click
import pyarrow as pa
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from hudi_py.cli.failure import fail, worst
from hudi_py.model.words import capitalised, visible, visible_json

_TABLE: Final[ContextVar[str]] = ContextVar("table", default="")
"""The path of the current table, if a command has several."""
_GAP: Final = 2
_MIN_WIDTH: Final = 8
"""Minimum width of a shortened text, unless the column's name is longer."""


@dataclass(frozen=True, slots=True)
class ScreenColumn:
    """A column of a table for people."""

    name: str
    right: bool = False
    keep: bool = False
    """Whether its text is never shortened, such as instants, which people copy."""


def number(name: str) -> ScreenColumn:
    return ScreenColumn(name, right=True, keep=True)


class Reported(Protocol):
    """A result; its text is a sentence without a capital and a full stop."""

    def to_dict(self) -> dict[str, Any]: ...


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=False)

    @property
    def terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        return self._console.width

    def title(self, text: str, more: str = "") -> None:
        self._print(Text.assemble((visible(text), "bold"), f"  {visible(more)}" if more else ""))

    def heading(self, text: str) -> None:
        self._console.print()
        self._print(Text(visible(text), "bold"))

    def path(self, text: str, style: str = "") -> None:
        """Prints a line that is never broken, so that paths in it can be copied."""
        text = visible(text)
        if self.terminal:
            self._console.print(Text(text, style), soft_wrap=True)
        else:
            print(text)

    def line(self, text: str = "", style: str = "", *, hang: int = 0) -> None:
        """Prints a line of text; on a terminal the rest continues below, indented by `hang` columns."""
        text = visible(text)
        lines = [text]
        if self.terminal and cell_len(text) > self.width:
            lines = textwrap.wrap(
                text, max(self.width, hang + 20), subsequent_indent=" " * hang, break_on_hyphens=False
            )
        for text_line in lines:
            self._print(Text(text_line, style))

    def report(self, result: Reported, *, as_json: bool) -> None:
        """Prints what was done, as a sentence or as JSON."""
        if as_json:
            self.json(result.to_dict())
        else:
            self.line(f"{capitalised(str(result))}.")

    def note(self, text: str) -> None:
        """Prints a remark about the output: below it on a terminal, otherwise on standard error."""
        text = visible(text)
        if self.terminal:
            self._print(Text(text, "dim"))
        else:
            click.echo(text, err=True)

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Prints names and values, one pair a line; long values continue below themselves."""
        known = [(visible(name), visible(value)) for name, value in pairs if value]
        left = max((len(name) for name, _ in known), default=0) + _GAP
        for name, value in known:
            lines = Text(value).wrap(self._console, max(self.width - left, 20)) if self.terminal else [Text(value)]
            for at, part in enumerate(lines):
                self._print(Text.assemble((name.ljust(left) if at == 0 else " " * left, "cyan"), part))

    def table(self, columns: Sequence[ScreenColumn], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
        """Prints a table; prints `empty` if it has no rows."""
        if not rows:
            self.note(empty)
            return
        columns = [replace(column, name=visible(column.name)) for column in columns]
        cells = [[shown(value) for value in row] for row in rows]
        natural = [
            max(cell_len(column.name), *(cell_len(row[at]) for row in cells)) for at, column in enumerate(columns)
        ]
        if not self.terminal:
            for line in ([column.name for column in columns], *cells):
                parts = (_padded(text, w, c) for text, w, c in zip(line, natural, columns, strict=True))
                print((" " * _GAP).join(parts).rstrip())
            return
        widths = fitted(columns, natural, self.width)
        heads = [column.name for column in columns]
        self.path(self._row(heads, columns, widths), "bold")
        self.path(("-" if self._console.options.ascii_only else "─") * _total(widths), "dim")
        for line in cells:
            self.path(self._row(line, columns, widths))
        left_out = [column.name for column in columns[len(widths) :]]
        if left_out:
            more = f", and {len(left_out) - 8} more" if len(left_out) > 8 else ""
            self.note(f"Not shown for lack of width: {', '.join(left_out[:8])}{more}.")

    def _row(self, texts: Sequence[str], columns: Sequence[ScreenColumn], widths: Sequence[int]) -> str:
        cells = []
        for text, column, width in zip(texts, columns, widths, strict=False):
            if cell_len(text) > width:
                text = set_cell_size(text, width - 1) + ("." if self._console.options.ascii_only else "…")
            cells.append(_padded(text, width, column))
        return (" " * _GAP).join(cells).rstrip()

    def json(self, value: Any) -> None:
        """Prints one JSON object, on one line."""
        print(to_json(_headed(value)))

    def json_lines(self, rows: Iterable[Any]) -> None:
        """Prints a JSON object on each line."""
        for row in rows:
            print(to_json(_headed(row)))

    @contextmanager
    def part(self, path: str, *, first: bool, as_json: bool) -> Iterator[None]:
        """Labels everything printed within with its table: a heading, or a member of each object."""
        if not as_json:
            if not first:
                self.line()
            self.path(f"==> {path} <==", "bold")
        token = _TABLE.set(path)
        try:
            yield
        finally:
            _TABLE.reset(token)

    def _print(self, text: Text) -> None:
        if self.terminal:
            self._console.print(text, soft_wrap=False)
        else:
            print(text.plain.rstrip())


def fitted(columns: Sequence[ScreenColumn], natural: Sequence[int], width: int) -> list[int]:
    """Returns widths of the leading columns that fit: the widest text is shortened first, then columns are left out
    from the end. At least one column remains."""
    widths = list(natural)
    least = [
        size if column.keep else min(size, max(cell_len(column.name), _MIN_WIDTH))
        for column, size in zip(columns, natural, strict=True)
    ]
    while len(widths) > 1 and _total(least) > width:
        widths.pop()
        least.pop()
    while _total(widths) > width:
        slack = [size - low for size, low in zip(widths, least, strict=True)]
        if not any(slack):
            return [min(widths[0], width), *widths[1:]]
        widest = max((at for at, left in enumerate(slack) if left), key=lambda at: widths[at])
        widths[widest] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def shown(value: Any) -> str:
    """Formats a value as one line of text for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds" if value.microsecond else "seconds")
    if isinstance(value, (dict, list, tuple, bytes)):
        return to_json(value)
    return visible(str(value))


def to_json(value: Any) -> str:
    return visible_json(json.dumps(value, default=_plain, ensure_ascii=False))


def records(table: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows of a report, which are few."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _headed(value: Any) -> Any:
    table = _TABLE.get()
    return {"table": table, **(value if isinstance(value, Mapping) else _plain(value))} if table else value


def _plain(value: Any) -> Any:
    """Converts values without a JSON form: times become ISO text, decimals text, bytes hexadecimal."""
    if is_dataclass(value) and not isinstance(value, type):
        return value.to_dict() if hasattr(value, "to_dict") else asdict(value)
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) if value.tzinfo else value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _padded(text: str, width: int, column: ScreenColumn) -> str:
    return text.rjust(width) if column.right else set_cell_size(text, max(width, cell_len(text)))


def answer_each(paths: Sequence[str], answer: Callable[[str], Any], *, debug: bool, as_json: bool) -> int:
    """Runs a command for each table, even if an earlier one failed; returns the worst exit code.

    Raises:
        click.UsageError: the command is wrong, for whichever table.
        click.Abort: a question was interrupted.
    """
    codes, screen = [], Screen()
    for number, path in enumerate(paths):
        with screen.part(path, first=number == 0, as_json=as_json):
            codes.append(_answer(path, answer, debug=debug, as_json=as_json))
        sys.stdout.flush()  # so that errors appear below their heading
    return worst(codes)


def _answer(path: str, answer: Callable[[str], Any], *, debug: bool, as_json: bool) -> int:
    try:
        answer(path)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.UsageError, BrokenPipeError):
        raise
    except Exception as error:  # shown like any other error of a command
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        return fail(error, debug=debug, as_json=as_json, table=path)
    return 0
