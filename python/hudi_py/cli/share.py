"""Commands that show tables to other systems."""

from __future__ import annotations

import click

from hudi_py.cli.declare import NAMES, CommandTarget, table_command


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()


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
def sync(target: CommandTarget, catalogs: list[str] | None, database: str | None, name: str | None) -> None:
    """Register the table with catalogs.

    By default with the Hive metastore. An entry that is there is brought up to date.
    """
    from hudi_py.cli import registered

    registered.sync(target, catalogs or [], database, name)
