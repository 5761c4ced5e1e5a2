"""Commands that read and change rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

import click

from hudi_py.cli.declare import NAMES, CommandTarget, KeyValue, dry_run_option, table_command, yes_option
from hudi_py.model.operation import Operation

Body = TypeVar("Body", bound=Callable[..., Any])
OPERATIONS = tuple(operation.value for operation in Operation if operation.traits.needs != "partitions")
FORMATS = ("csv", "json", "parquet", "arrow")


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """Which rows a scan returns."""

    columns: list[str] | None
    filter: str | None
    as_of: str | None
    incremental: bool
    cdc: bool
    read_optimized: bool
    begin: str | None
    end: str | None
    keys: list[str] | None
    partition: tuple[str, ...]
    limit: int | None


def _query_options(body: Body) -> Body:
    """Declares the options of a scan, passed as one `ScanQuery`."""

    @wraps(body)
    def run(*args: Any, **named: Any) -> Any:
        return body(
            *args,
            query=ScanQuery(**{argument.name: named.pop(argument.name) for argument in fields(ScanQuery)}),
            **named,
        )

    options = [
        click.option("-c", "--columns", type=NAMES, help="Columns to read, in this order."),
        click.option("-f", "--filter", metavar="SQL", help="Condition, such as \"city = 'oslo' AND fare > 10\"."),
        click.option("-n", "--limit", type=click.IntRange(min=0), help="No more rows than this."),
        click.option("-p", "--partition", metavar="PATH", multiple=True, help="Only this partition; may be repeated."),
        click.option("-k", "--keys", type=NAMES, help="Only rows with these record keys."),
        click.option("--as-of", metavar="TIME", help="State as of an instant or a time such as 2026-01-31."),
        click.option("--incremental", is_flag=True, help="Rows written after --begin; by default by the last commit."),
        click.option("--cdc", is_flag=True, help="Changes after --begin, with the rows before and after."),
        click.option("--begin", metavar="TIME", help="Start of a range, exclusive; `earliest` for all."),
        click.option("--end", metavar="TIME", help="End of a range, inclusive."),
        click.option("--read-optimized", is_flag=True, help="Base files only, without logs."),
    ]
    for option in reversed(options):
        option(run)
    return run  # type: ignore[return-value]


@table_command(
    _GROUP,
    "read",
    examples=[
        "hudi-py read /data/trips -c id,fare -f \"city = 'oslo'\"",
        "hudi-py read /data/trips --as-of 2026-01-31 --to parquet --output trips.parquet",
        "hudi-py read /data/trips --incremental --begin 20260131101530123 --json",
    ],
)
@_query_options
@click.option("--meta", is_flag=True, help="Also the meta columns, _hoodie_commit_time and so on.")
@click.option(
    "--to", type=click.Choice(["table", *FORMATS]), help="Form of the rows; by default by --output, or a table."
)
@click.option("--output", type=click.Path(dir_okay=False), help="File to write; standard output by default.")
def read(target: CommandTarget, query: ScanQuery, meta: bool, to: str | None, output: str | None) -> None:
    """Print or export rows.

    On a terminal, a table of 20 rows is shown unless --limit says otherwise.
    """
    from hudi_py.cli import export

    export.read(target, query, meta, to, output)


@table_command(_GROUP, "explain", paths="several", examples=["hudi-py explain /data/trips -f \"city = 'oslo'\""])
@_query_options
def explain(target: CommandTarget, query: ScanQuery) -> None:
    """Show which files a read would open, and why it skips the others."""
    from hudi_py.cli import export

    export.explain(target, query)


@table_command(
    _GROUP,
    "sql",
    paths="none",
    examples=[
        'hudi-py sql "SELECT city, sum(fare) FROM t GROUP BY city" -t /data/trips',
        'hudi-py sql "SELECT * FROM trips JOIN cities USING (city)" -t trips=/data/trips -t cities=/data/cities',
    ],
)
@click.argument("query")
@click.option(
    "-t",
    "--table",
    "tables",
    multiple=True,
    metavar="[NAME=]PATH",
    help="Table of the query; without a name it is `t`.",
)
@click.option("--as-of", metavar="TIME", help="State of all tables as of an instant or a time.")
@click.option(
    "--to", type=click.Choice(["table", *FORMATS]), help="Form of the rows; by default by --output, or a table."
)
@click.option("--output", type=click.Path(dir_okay=False), help="File to write; standard output by default.")
def sql(
    target: CommandTarget, query: str, tables: tuple[str, ...], as_of: str | None, to: str | None, output: str | None
) -> None:
    """Run a query of DuckDB over tables.

    Only the columns that the query names are read. Needs `pip install "hudi-py[duckdb]"`.
    """
    from hudi_py.cli import export
    from hudi_py.cli import export as run

    run.sql(target, query, tables, as_of, export.Form(to, output))


@dataclass(frozen=True, slots=True)
class TableCreation:
    """How to create a table that does not exist yet."""

    record_key: list[str] | None
    partition_by: list[str] | None
    ordering_by: list[str] | None
    table_type: str | None
    table_version: int | None


def _creation_options(body: Body) -> Body:
    """Options of a new table, passed as one `TableCreation`."""

    @wraps(body)
    def run(*args: Any, table_version: str | None, **named: Any) -> Any:
        given = {
            argument.name: named.pop(argument.name) for argument in fields(TableCreation) if argument.name in named
        }
        version = None if table_version is None else int(table_version)
        return body(*args, new=TableCreation(**given, table_version=version), **named)

    options = [
        click.option("--record-key", type=NAMES, help="New table: columns of the record key."),
        click.option("--partition-by", type=NAMES, help="New table: columns of the partition path."),
        click.option(
            "--ordering-by", type=NAMES, help="New table: columns by which the newest row of a key is chosen."
        ),
        click.option(
            "--type",
            "table_type",
            type=click.Choice(["cow", "mor"]),
            help="New table: copy on write or merge on read.",
        ),
        click.option(
            "--table-version", type=click.Choice(["6", "8", "9"]), help="New table: its version, by default 9."
        ),
    ]
    for option in reversed(options):
        option(run)
    return run  # type: ignore[return-value]


@table_command(
    _GROUP,
    "write",
    examples=[
        "hudi-py write /data/trips rows.csv --record-key id --partition-by city --ordering-by ts",
        "hudi-py write /data/trips more.parquet --operation insert",
        "cat rows.jsonl | hudi-py write /data/trips - --from json",
    ],
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--operation", type=click.Choice(OPERATIONS), default="upsert", show_default=True, help="What to do.")
@click.option("--from", "form", type=click.Choice(FORMATS), help="Format of the file; by default by its name.")
@_creation_options
def write(target: CommandTarget, file: str, operation: str, form: str | None, new: TableCreation) -> None:
    """Write the rows of a file as one commit.

    FILE is CSV with a header, JSON with one object per line, Parquet or Arrow; - is standard input. The table is
    created if it does not exist. Values of CSV and JSON are read in the types of the table's columns.
    """
    from hudi_py.cli import intake

    intake.write(target, file, operation, form, new)


@table_command(
    _GROUP,
    "bootstrap",
    examples=[
        "hudi-py bootstrap /data/trips /data/raw/trips --record-key id --partition-by city --ordering-by ts",
        "hudi-py bootstrap /data/trips /data/raw/trips --record-key id --mode full_record",
        "hudi-py bootstrap /data/trips /data/raw/trips --record-key id --partition-by day --regex 'day=202[0-5].*'",
    ],
)
@click.argument("source")
@click.option(
    "--mode",
    type=click.Choice(["metadata_only", "full_record"]),
    default="metadata_only",
    show_default=True,
    help="Leave the rows where they are, or copy them.",
)
@click.option("--regex", metavar="REGEX", help="The folders of SOURCE for which the mode is; others get the other one.")
@_creation_options
def bootstrap(target: CommandTarget, source: str, mode: str, regex: str | None, new: TableCreation) -> None:
    """Make a table of Parquet or ORC files.

    SOURCE is the folder of the files, which stay where they are and are never changed. By default the new table has the
    keys of the rows, and reads their other columns from these files.
    """
    from hudi_py.cli import intake

    intake.bootstrap(target, source, mode, regex, new)


@table_command(
    _GROUP,
    "delete",
    examples=[
        "hudi-py delete /data/trips --where \"city = 'oslo' AND fare < 0\" --dry-run",
        "hudi-py delete /data/trips --keys a,b --yes",
        "hudi-py delete /data/trips --partition city=oslo",
    ],
)
@click.option("-w", "--where", metavar="SQL", help="Delete the rows for which this is true.")
@click.option("-k", "--keys", type=NAMES, help="Delete the rows with these record keys.")
@click.option("-p", "--partition", metavar="PATH", multiple=True, help="Delete this partition; may be repeated.")
@dry_run_option
@yes_option
def delete(
    target: CommandTarget,
    where: str | None,
    keys: list[str] | None,
    partition: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete rows or partitions."""
    from hudi_py.cli import intake

    if sum(map(bool, (where, keys, partition))) != 1:
        raise click.UsageError("Give one of --where, --keys and --partition.")
    intake.delete(target, intake.Doomed(where, keys, partition), dry_run, yes)


@table_command(
    _GROUP,
    "erase",
    examples=[
        "hudi-py erase /data/trips --where \"email = 'jane@example.com'\" --dry-run",
        "hudi-py erase /data/trips --keys a,b --reference 4711 --yes --json > erasure-4711.json",
    ],
)
@click.option("-w", "--where", metavar="SQL", help="Erase the rows for which this is true, or was.")
@click.option("-k", "--keys", type=NAMES, help="Erase the rows with these record keys.")
@click.option("--delete-savepoints", is_flag=True, help="Delete savepoints that keep files with the rows.")
@click.option("--reference", default="", metavar="TEXT", help="For the report, such as the number of a request.")
@dry_run_option
@yes_option
@click.pass_context
def erase(
    ctx: click.Context,
    target: CommandTarget,
    where: str | None,
    keys: list[str] | None,
    delete_savepoints: bool,
    reference: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Erase rows from every file, and report what is left of them.

    Deletes the rows, removes all older versions of their file groups, rebuilds indexes, then reads every file again.
    Time travel to earlier states of these file groups is impossible afterwards. The exit code is 5 if anything is left.
    """
    from hudi_py.cli import intake as run

    if sum(map(bool, (where, keys))) != 1:
        raise click.UsageError("Give either --where or --keys.")
    asked = run.ErasureRequest(where, keys, delete_savepoints, reference)
    if not run.erase(target, asked, dry_run, yes):
        ctx.exit(5)


@table_command(
    _GROUP,
    "update",
    examples=[
        'hudi-py update /data/trips --set "fare=fare * 1.1" --where "city = \'oslo\'"',
        "hudi-py update /data/trips --set \"city='oslo'\" --where \"city = 'kristiania'\" --dry-run",
    ],
)
@click.option(
    "--set", "assignments", type=KeyValue(), multiple=True, required=True, metavar="COLUMN=SQL", help="May be repeated."
)
@click.option("-w", "--where", metavar="SQL", help="Only the rows for which this is true.")
@dry_run_option
def update(target: CommandTarget, assignments: tuple[tuple[str, str], ...], where: str | None, dry_run: bool) -> None:
    """Set columns of rows to SQL expressions of the old row."""
    from hudi_py.cli import intake

    intake.update(target, dict(assignments), where, dry_run)
