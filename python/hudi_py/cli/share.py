"""Commands that publish tables to other systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hudi_py.cli.declare import (
    NAMES,
    CommandTarget,
    confirm,
    dry_run_option,
    table_command,
    yes_option,
)
from hudi_py.model.words import counted

if TYPE_CHECKING:
    from hudi_py.interop.catalogs import Registered


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()
_CATALOG = click.option(
    "--catalog", metavar="NAME", help="A catalog that pyiceberg is configured for.  [default: none]"
)
_NAME = click.option("--name", metavar="NAMESPACE.TABLE", help="The table in the catalog.")
_DONE = {
    "created": "registered in",
    "changed": "brought up to date in",
    "noted": "up to date in",
    "unchanged": "up to date in",
}


@table_command(
    _GROUP,
    "sync",
    examples=[
        "hudi-py sync /data/trips -o hoodie.datasource.hive_sync.metastore.uris=thrift://metastore:9083",
        "hudi-py sync s3://lake/trips --with glue --database lake",
    ],
)
@click.option(
    "--with", "catalogs", type=NAMES, help="Catalogs: hms, glue, polaris, unity. Default: as the options say."
)
@click.option("--database", metavar="NAME", help="Database of the entry; see hoodie.datasource.hive_sync.database.")
@click.option("--table", "name", metavar="NAME", help="Its name; see hoodie.datasource.hive_sync.table.")
def register(target: CommandTarget, catalogs: list[str] | None, database: str | None, name: str | None) -> None:
    """Register the table with catalogs.

    By default with the Hive metastore. An existing entry is updated.
    """
    from hudi_py.cli.screen import Screen
    from hudi_py.config import interop as config
    from hudi_py.interop.catalogs import sync

    given = {config.DATABASE.key: database, config.TABLE.key: name}
    options = {key: value for key, value in given.items() if value is not None}
    report, screen = sync(target.open(), *(catalogs or []), options=options), Screen()
    if target.as_json:
        screen.json(report.to_dict())
        return
    for entry in report.entries:
        screen.line(f"{entry.name} is {_DONE[entry.done]} {entry.catalog}{_partition_counts(entry)}.")


@table_command(
    _GROUP,
    "export",
    examples=[
        "hudi-py export /data/trips s3://backup/trips --dry-run",
        "hudi-py export /data/trips /data/copy --as-of 2026-01-31",
        "hudi-py export /data/trips /data/files --format parquet --partition-by city",
    ],
)
@click.argument("to", metavar="TARGET", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(["hudi", "parquet"]),
    default="hudi",
    show_default=True,
    help="A table, or files with its rows.",
)
@click.option("--as-of", metavar="TIME", help="The state as of an instant or a time.")
@click.option("--partition-by", metavar="COLUMN", help="Of parquet: a folder for each value of this column.")
@dry_run_option
def export(
    target: CommandTarget, to: str, form: str, as_of: str | None, partition_by: str | None, dry_run: bool
) -> None:
    """Copy the table, or its rows, to an empty folder.

    `hudi` copies the newest file slices and what makes them a table; `parquet` writes files with the rows.
    """
    from hudi_py.cli.screen import Screen

    table = target.open()
    report = table.export(to, format=form, as_of=as_of, partition_by=partition_by, dry_run=dry_run)
    Screen().report(report, as_json=target.as_json)


@_GROUP.group("iceberg")
def iceberg() -> None:
    """Publish the table to Iceberg's engines, or remove what was published."""


@table_command(
    iceberg,
    "publish",
    examples=[
        "hudi-py iceberg publish /data/trips",
        "hudi-py iceberg publish s3://lake/trips --catalog glue --name lake.trips",
    ],
)
@_CATALOG
@_NAME
@click.option("--location", metavar="URI", help="The table's path as Iceberg engines know it.")
@click.option("--base-files-only", is_flag=True, help="Leave out what logs changed.")
@click.option(
    "--max-snapshots",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="States to keep for time travel, if their files have not been cleaned.",
)
def publish(
    target: CommandTarget,
    catalog: str | None,
    name: str | None,
    location: str | None,
    base_files_only: bool,
    max_snapshots: int,
) -> None:
    """Publish the newest state.

    The metadata is in the folder `metadata` of the table.
    """
    from hudi_py.cli.screen import Screen
    from hudi_py.interop import iceberg as interop

    published = interop.publish(
        target.open(),
        catalog,
        name,
        base_files_only=base_files_only,
        location=location,
        max_snapshots=max_snapshots,
    )
    Screen().report(published, as_json=target.as_json)


@table_command(iceberg, "unpublish", examples=["hudi-py iceberg unpublish /data/trips --yes"])
@_CATALOG
@_NAME
@yes_option
def unpublish(target: CommandTarget, catalog: str | None, name: str | None, yes: bool) -> None:
    """Remove the Iceberg table. The Hudi table stays as it is."""
    from hudi_py.cli.screen import Screen
    from hudi_py.interop import iceberg as interop

    table = target.open()
    confirm(f"Remove the Iceberg metadata of {table.uri}?", yes)
    count = interop.unpublish(table, catalog, name)
    screen = Screen()
    if target.as_json:
        screen.json({"deleted_files": count})
    else:
        screen.line(f"Removed {counted(count, 'file')}." if count else "Nothing was published.")


def _partition_counts(entry: Registered) -> str:
    counts = (
        (entry.partitions_added, "added"),
        (entry.partitions_changed, "changed"),
        (entry.partitions_dropped, "dropped"),
    )
    parts = [f"{counted(count, 'partition')} {done}" for count, done in counts if count]
    return f": {', '.join(parts)}" if parts else ""
