"""The commands that publish a table as an Iceberg table."""

from __future__ import annotations

import click

from hudi_py.cli.declare import CommandTarget, confirm, table_command, yes_option

_GROUP = click.Group()


def add_to(program: click.Group) -> None:
    for name, command in _GROUP.commands.items():
        program.add_command(command, name)


@_GROUP.group("iceberg")
def iceberg() -> None:
    """Publish the table to Iceberg's engines, or remove what was published."""


_CATALOG = click.option(
    "--catalog", metavar="NAME", help="A catalog that pyiceberg is configured for.  [default: none]"
)
_NAME = click.option("--name", metavar="NAMESPACE.TABLE", help="The table in the catalog.")


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

    The metadata lies in the folder `metadata` of the table.
    """
    from hudi_py.cli.screen import Screen
    from hudi_py.interop import iceberg as interop

    found = interop.publish(
        target.open(),
        catalog,
        name,
        base_files_only=base_files_only,
        location=location,
        max_snapshots=max_snapshots,
    )
    screen = Screen()
    if target.as_json:
        screen.json(found.to_dict())
    else:
        text = str(found)
        screen.line(text[:1].upper() + text[1:] + ".")


@table_command(iceberg, "unpublish", examples=["hudi-py iceberg unpublish /data/trips --yes"])
@_CATALOG
@_NAME
@yes_option
def unpublish(target: CommandTarget, catalog: str | None, name: str | None, yes: bool) -> None:
    """Remove the Iceberg table. The Hudi table stays as it is."""
    from hudi_py.cli.screen import Screen
    from hudi_py.interop import iceberg as interop
    from hudi_py.model.words import counted

    table = target.open()
    confirm(f"Remove the Iceberg metadata of {table.uri}?", yes)
    count = interop.unpublish(table, catalog, name)
    screen = Screen()
    if target.as_json:
        screen.json({"deleted_files": count})
    else:
        screen.line(f"Removed {counted(count, 'file')}." if count else "Nothing was published.")
