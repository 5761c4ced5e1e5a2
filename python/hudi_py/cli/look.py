"""Commands that look at a table and change nothing."""

from __future__ import annotations

import click

from hudi_py.cli.declare import CommandTarget, table_command


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()
_AS_OF = click.option("--as-of", metavar="TIME", help="State as of an instant or a time such as 2026-01-31.")


@table_command(
    _GROUP,
    "show",
    several=True,
    examples=["hudi-py show /data/trips", "hudi-py show /data/trips --properties", "hudi-py show /data/*"],
)
@click.option("--properties", is_flag=True, help="Print the table's hoodie.properties instead.")
def show(target: CommandTarget, properties: bool) -> None:
    """Show what a table is, how it is doing, and what to do next."""
    from hudi_py.cli import overview

    (overview.show_properties if properties else overview.show)(target)


@table_command(
    _GROUP,
    "timeline",
    several=True,
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
    several=True,
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
    several=True,
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
    several=True,
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
    several=True,
    examples=["hudi-py stats /data/trips", "hudi-py stats /data/trips --rows"],
)
@click.option("--rows", is_flag=True, help="Also count the rows; reads the slices that have logs.")
def stats(target: CommandTarget, rows: bool) -> None:
    """Show the sizes of files, and how much the writes had to rewrite."""
    from hudi_py.cli import statistics

    statistics.stats(target, rows)


@table_command(
    _GROUP,
    "diff",
    examples=["hudi-py diff /data/trips 2026-01-30 2026-01-31", "hudi-py diff /data/trips 2026-01-31 --keys"],
)
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="[TO]", required=False)
@click.option("--keys", is_flag=True, help="List the record keys that were added, changed and removed.")
def diff(target: CommandTarget, before: str, after: str | None, keys: bool) -> None:
    """Compare rows, files and schema as of two times.

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
    """Write a page to look at: timeline, sizes, writes, services, findings.

    The page is one HTML file that needs nothing else and requests nothing.
    """
    from hudi_py.cli import picture

    picture.report(target, output, opened, full)


@table_command(
    _GROUP,
    "plans",
    several=True,
    examples=["hudi-py plans /data/trips"],
)
def plans(target: CommandTarget) -> None:
    """List pending plans of table services."""
    from hudi_py.cli import views

    views.plans(target)
