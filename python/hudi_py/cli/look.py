"""Commands that show a table without changing it, and the one that explains options."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from hudi_py.cli.declare import CommandTarget, Documented, table_command


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)
    main.add_command(options)


_GROUP = click.Group()
_WIDTH = 100
_NO_MATCH = 4
_AS_OF = click.option("--as-of", metavar="TIME", help="State as of an instant or a time such as 2026-01-31.")


@table_command(
    _GROUP,
    "show",
    paths="several",
    examples=["hudi-py show /data/trips", "hudi-py show /data/trips --properties", "hudi-py show /data/*"],
)
@click.option("--properties", is_flag=True, help="Print the table's hoodie.properties instead.")
def show(target: CommandTarget, properties: bool) -> None:
    """Show what a table is, what state it is in, and what to do next."""
    from hudi_py.cli import overview

    (overview.show_properties if properties else overview.show)(target)


@table_command(
    _GROUP,
    "timeline",
    paths="several",
    examples=["hudi-py timeline /data/trips", "hudi-py timeline /data/trips --archived --action commit -n 20"],
)
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Show only the newest ones.")
@click.option("--action", metavar="ACTION", help="Only this action, such as commit, deltacommit, clean or rollback.")
@click.option("--pending", is_flag=True, help="Only what is not completed.")
@click.option("--archived", is_flag=True, help="Also the archived timeline.")
def timeline(target: CommandTarget, limit: int | None, action: str | None, pending: bool, archived: bool) -> None:
    """List instants, the newest first, and what they wrote."""
    from hudi_py.cli import views

    views.timeline(target, views.InstantFilter(limit, action, pending, archived))


@table_command(
    _GROUP,
    "files",
    paths="several",
    examples=["hudi-py files /data/trips", "hudi-py files /data/trips -p oslo --as-of 2026-01-31"],
)
@click.option("-p", "--partition", metavar="PATH", help="Only this partition.")
@click.option("--logs", is_flag=True, help="Only file slices with logs.")
@_AS_OF
def files(target: CommandTarget, partition: str | None, logs: bool, as_of: str | None) -> None:
    """List file slices."""
    from hudi_py.cli import views

    views.files(target, partition, logs, as_of)


@table_command(
    _GROUP,
    "partitions",
    paths="several",
    examples=["hudi-py partitions /data/trips"],
)
@_AS_OF
def partitions(target: CommandTarget, as_of: str | None) -> None:
    """List partitions and their sizes."""
    from hudi_py.cli import views

    views.partitions(target, as_of)


@table_command(
    _GROUP,
    "schema",
    paths="several",
    examples=["hudi-py schema /data/trips", "hudi-py schema /data/trips --as-of 20260131101530123"],
)
@click.option("--meta", is_flag=True, help="Also the meta columns, _hoodie_commit_time and so on.")
@_AS_OF
def schema(target: CommandTarget, meta: bool, as_of: str | None) -> None:
    """List columns with their Arrow types."""
    from hudi_py.cli import views

    views.schema(target, meta, as_of)


@table_command(
    _GROUP,
    "stats",
    paths="several",
    examples=["hudi-py stats /data/trips", "hudi-py stats /data/trips --rows"],
)
@click.option("--rows", is_flag=True, help="Also count the rows; reads the slices that have logs.")
def stats(target: CommandTarget, rows: bool) -> None:
    """Show file sizes, and how much the writes had to rewrite."""
    from hudi_py.cli import overview

    overview.stats(target, rows)


@table_command(
    _GROUP,
    "diff",
    examples=["hudi-py diff /data/trips 2026-01-30 2026-01-31", "hudi-py diff /data/trips 2026-01-31 --keys"],
)
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="[TO]", required=False)
@click.option("--keys", is_flag=True, help="List the record keys that were added, changed and removed.")
def diff(target: CommandTarget, before: str, after: str | None, keys: bool) -> None:
    """Compare rows, files and schema of two times.

    FROM and TO are instants or times; TO is now by default. Rows are compared by their keys and commits, so no column
    of the user is read.
    """
    from hudi_py.cli import difference

    difference.diff(target, before, after, keys)


@table_command(
    _GROUP,
    "report",
    examples=["hudi-py report /data/trips", "hudi-py report s3://lake/trips --output trips.html --open"],
)
@click.option("--output", type=click.Path(dir_okay=False), help="The page to write [default: NAME-report.html].")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@click.option("--full", is_flag=True, help="Have the doctor read every row, not a sample.")
def report(target: CommandTarget, output: str | None, opened: bool, full: bool) -> None:
    """Write a report page: timeline, sizes, writes, services, findings.

    The page is a single HTML file that loads nothing else.
    """
    from hudi_py.cli import overview

    overview.report(target, output, opened, full)


@table_command(
    _GROUP,
    "plans",
    paths="several",
    examples=["hudi-py plans /data/trips"],
)
def plans(target: CommandTarget) -> None:
    """List pending plans of table services."""
    from hudi_py.cli import views

    views.plans(target)


@click.command("options", cls=Documented, examples=["hudi-py options clean", "hudi-py options record key --json"])
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def options(words: tuple[str, ...], as_json: bool) -> None:
    """Explain options: all of them, or those with all these words in their key or meaning, best matches first."""
    from hudi_py.config.docs import reference
    from hudi_py.config.options import ALL

    known = [(option, reference(option)) for option in ALL if not option.internal]
    lowered = [word.lower() for word in words]
    ranked = [(_match_rank(lowered, " ".join(option.keys), entry["meaning"].lower()), entry) for option, entry in known]
    for rank, entry in sorted(ranked, key=lambda pair: pair[0]):
        if rank < _NO_MATCH:
            click.echo(json.dumps(entry) if as_json else _option_text(entry))


def _match_rank(words: Sequence[str], keys: str, meaning: str) -> int:
    """Rates how well an option matches, by its worst word: 0 for a part of the key, 1 for text within a part, 2 for a
    word of the meaning, 3 for text within a word."""
    places = (set(re.split(r"[._ ]", keys)), keys, set(re.findall(r"\w+", meaning)), meaning)
    ranks = [next((rank for rank, place in enumerate(places) if word in place), _NO_MATCH) for word in words]
    return max(ranks, default=0)


def _option_text(entry: dict[str, Any]) -> str:
    meaning = {"refused": "Refused: ", "harmless": "No effect: "}.get(entry["treated"], "") + entry["meaning"]
    lines = [entry["option"], *textwrap.wrap(meaning, _WIDTH, initial_indent="  ", subsequent_indent="  ")]
    for name in ("default", "values", "accepted", "also", "since", "example"):
        value = entry.get(name)
        if value not in (None, [], ""):
            text = (
                ", ".join(value)
                if isinstance(value, list)
                else str(value).lower()
                if isinstance(value, bool)
                else str(value)
            )
            lines.append(f"  {name}: {text}")
    return "\n".join(lines) + "\n"
