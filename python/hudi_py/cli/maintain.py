"""Commands that run table services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hudi_py.cli.declare import NAMES, CommandTarget, Documented, confirm, dry_run_option, table_command, yes_option
from hudi_py.cli.failure import FOUND


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()
_SCHEDULE = click.option("--schedule", is_flag=True, help="Only make a plan, which any process may run later.")
_RUN = click.option("--run", metavar="INSTANT", help="Run this pending plan; `oldest` for the oldest one.")


def _planned(
    service: str, name: str, about: str, examples: Sequence[str], arguments: Mapping[str, str] | None = None
) -> None:
    """Declares the command of a service with plans that deletes nothing.

    `arguments`: those of the service, which are texts, with their help. They are named here, too, so that the help of
    the command line loads no service.
    """

    def command(target: CommandTarget, schedule: bool, run: str | None, dry_run: bool, **given: str | None) -> None:
        from hudi_py.cli import services

        named = {key: text for key, text in given.items() if text is not None}
        services.planned(target, target.open().services.planned(service, **named), services.How(schedule, run, dry_run))

    for key, text in reversed([*(arguments or {}).items()]):
        command = click.option(f"--{key.replace('_', '-')}", key, help=text)(command)
    command = _SCHEDULE(_RUN(dry_run_option(command)))
    table_command(_GROUP, name, paths="several", examples=examples, about=about)(command)


_planned(
    "compaction",
    "compact",
    """Merge logs into new base files.

    Runs the pending plans, then compacts the rest.
    """,
    [
        "hudi-py compact /data/trips",
        "hudi-py compact /data/trips --dry-run",
        "hudi-py compact /data/trips --run oldest",
    ],
)
_planned(
    "log_compaction",
    "log-compact",
    """Merge the logs of each file group into one.

    Runs the pending plans, then merges the logs of file groups that have enough of them
    (hoodie.log.compaction.blocks.threshold).
    """,
    ["hudi-py log-compact /data/trips"],
)
_planned(
    "clustering",
    "cluster",
    """Move rows to fewer, larger or sorted files.

    Runs the pending plans, then plans and runs a new one, as the options say (hoodie.clustering.plan.strategy.*).
    """,
    [
        "hudi-py cluster /data/trips --dry-run",
        "hudi-py cluster /data/trips --sort-by city,ts",
        "hudi-py cluster /data/trips --sort-by lat,lon --layout hilbert --partitions oslo,lima",
    ],
    {
        "sort_by": "Sort rows by these columns, separated by commas.",
        "layout": "How they are sorted by several columns: linear, zorder or hilbert.",
        "partitions": "Plan these partitions only, by their paths, separated by commas.",
    },
)


@table_command(
    _GROUP,
    "clean",
    paths="several",
    examples=[
        "hudi-py clean /data/trips --dry-run",
        "hudi-py clean /data/trips -o hoodie.clean.commits.retained=5 --yes",
    ],
)
@_SCHEDULE
@_RUN
@dry_run_option
@yes_option
def clean(target: CommandTarget, schedule: bool, run: str | None, dry_run: bool, yes: bool) -> None:
    """Delete old file versions.

    Time travel to earlier commits is impossible afterwards. The options of Apache Hudi say what is kept
    (hoodie.clean.policy, hoodie.clean.commits.retained).
    """
    from hudi_py.cli import services

    services.clean(target, services.How(schedule, run, dry_run), yes)


@table_command(
    _GROUP,
    "archive",
    paths="several",
    examples=["hudi-py archive /data/trips", "hudi-py archive /data/trips --dry-run"],
)
@dry_run_option
def archive(target: CommandTarget, dry_run: bool) -> None:
    """Move old instants to the archived timeline."""
    from hudi_py.cli import services

    services.archive(target, dry_run)


_planned(
    "resize_buckets",
    "resize-buckets",
    """Split and merge the hash buckets of consistent hashing.

    Runs the pending plans, which are clusterings, then plans and runs what is left to change
    (hoodie.bucket.index.split.threshold, hoodie.bucket.index.merge.threshold).
    """,
    ["hudi-py resize-buckets /data/trips -o hoodie.index.bucket.engine=CONSISTENT_HASHING"],
)


def _version_command(name: str, about: str, examples: Sequence[str], *, newest: bool) -> None:
    """Declares a command that changes the version of a table."""

    def command(target: CommandTarget, to: int, dry_run: bool, yes: bool) -> None:
        from hudi_py.cli import services

        services.change_table(target, name, to, dry_run, yes)

    chosen = click.option("--to", type=int, help="The version.", **({"default": 9} if newest else {"required": True}))
    command = chosen(dry_run_option(yes_option(command)))
    table_command(_GROUP, name, examples=examples, about=about)(command)


_version_command(
    "upgrade",
    """Bring a table to a newer version.

    Logs are compacted first where the new version needs it. --dry-run shows what changes, what older releases can no
    longer do, and how to go back.
    """,
    ["hudi-py upgrade /data/trips --dry-run", "hudi-py upgrade /data/trips --to 9 --yes"],
    newest=True,
)
_version_command(
    "downgrade",
    """Bring a table to an older version.

    Indexes that the version does not know are dropped, and logs are compacted first. --dry-run shows what changes and
    what is lost.
    """,
    ["hudi-py downgrade /data/trips --to 8 --dry-run", "hudi-py downgrade /data/trips --to 6 --yes"],
    newest=False,
)


@table_command(
    _GROUP,
    "change-type",
    examples=["hudi-py change-type /data/trips mor --dry-run", "hudi-py change-type /data/trips COPY_ON_WRITE --yes"],
)
@click.argument("to", metavar="TYPE")
@dry_run_option
@yes_option
def change_type(target: CommandTarget, to: str, dry_run: bool, yes: bool) -> None:
    """Make a table copy-on-write (cow) or merge-on-read (mor).

    On the way to copy-on-write, logs are compacted first. --dry-run shows what changes and how to go back.
    """
    from hudi_py.cli import services

    services.change_table(target, "change_type", to, dry_run, yes)


class _AnyService(Documented):
    """The command that runs a service by name. Its help lists the services."""

    ignore_unknown_options = True

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from hudi_py.cli import services

        with formatter.section("Services"):
            formatter.write_dl(services.described())
        super().format_epilog(ctx, formatter)


@table_command(
    _GROUP,
    "run",
    examples=[
        "hudi-py run /data/trips compaction --when-due",
        "hudi-py run /data/trips compaction --phase schedule",
        "hudi-py run /data/trips rescale_buckets --expressions '^region=,8' --buckets 16 --dry-run",
    ],
    kind=_AnyService,
)
@click.argument("service")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--ARGUMENT VALUE]...")
@click.option("--phase", help="Of a service with plans: `schedule` only plans, `execute` only runs a plan.")
@click.option("--instant", help="The plan to run or drop, or the instant to go back to or save.")
@dry_run_option
@yes_option
def run_service(target: CommandTarget, **given: Any) -> None:
    """Run a table service by its name."""
    from hudi_py.cli import services

    services.run_service(target, services.ServiceRun(**given))


@table_command(
    _GROUP,
    "tend",
    paths="none",
    examples=[
        "hudi-py tend s3://lake/ --dry-run",
        "hudi-py tend /data/lake --budget-time 30m --jobs 2",
        "hudi-py tend /data/lake /data/staging --services compaction,clean --json",
    ],
)
@click.argument("places", type=click.Path(), nargs=-1, metavar="PATH...", required=True)
@click.option("--services", type=NAMES, help="Run these where they are due, whatever the tables' settings say.")
@click.option("--budget-time", metavar="TIME", help="Begin nothing that takes longer than is left: 90s, 1h30m.")
@click.option("--budget-bytes", metavar="SIZE", help="Read and write no more than this, such as 500GB.")
@click.option("--budget-requests", type=click.IntRange(min=1), help="Make no more calls of the storage than this.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Tables at a time.")
@click.option("--depth", type=click.IntRange(min=0), help="Levels of folders below each PATH to search; default: all.")
@dry_run_option
def tend(target: CommandTarget, **given: Any) -> None:
    """Care for all tables at and below paths: find them, ask what is due, and do it.

    A PATH may be hms:DATABASE or glue:DATABASE, for the tables of a catalog.

    Does what each table's settings ask for after commits, the compactions that writers leave to others, and the
    rollback of failed writes; the greatest gain for its cost comes first. Never asks, so it can run from cron, beside
    writers, and on several machines at once.
    """
    from hudi_py.cli import tend as tending

    code = tending.tend(target, tending.TendArguments(**given))
    click.get_current_context().exit(code)


@table_command(_GROUP, "unschedule", examples=["hudi-py unschedule /data/trips 20260131101530123"])
@click.argument("instant")
@yes_option
def unschedule(target: CommandTarget, instant: str, yes: bool) -> None:
    """Remove a pending plan. Rows do not change."""
    from hudi_py.cli import services

    table = target.open()
    confirm(f"Remove the plan {instant} of {table.uri}?", yes)
    services.report(target, table.services.unschedule(instant))


@table_command(
    _GROUP,
    "rollback",
    examples=[
        "hudi-py rollback /data/trips 20260131101530123",
        "hudi-py rollback /data/trips 20260131101530123 --with-newer --dry-run",
    ],
)
@click.argument("instant")
@click.option("--with-newer", is_flag=True, help="Undo newer commits as well, newest first.")
@dry_run_option
@yes_option
def rollback(target: CommandTarget, instant: str, with_newer: bool, dry_run: bool, yes: bool) -> None:
    """Undo a commit."""
    from hudi_py.cli import services

    table = target.open()
    undone = services.Undone(table.preview_rollback(instant, with_newer=with_newer), f"roll back {table.uri}")
    if services.agreed(target, undone, dry_run, yes):
        services.report(target, table.rollback(instant, with_newer=with_newer))


@table_command(
    _GROUP,
    "restore",
    examples=[
        "hudi-py restore /data/trips 20260131101530123 --dry-run",
        "hudi-py restore /data/trips 20260131101530123",
        "hudi-py restore /data/trips latest",
    ],
)
@click.argument("instant")
@dry_run_option
@yes_option
def restore(target: CommandTarget, instant: str, dry_run: bool, yes: bool) -> None:
    """Go back to a savepoint, by default the latest. Everything after it is undone for good."""
    from hudi_py.cli import services

    table = target.open()
    if instant == "latest":
        instant = max(table.savepoints.list()["instant"].to_pylist(), default=instant)
    undone = services.Undone(table.preview_restore(instant), f"restore {table.uri} to {instant}")
    if services.agreed(target, undone, dry_run, yes):
        services.report(target, table.restore(instant))


@_GROUP.group("savepoint")
def savepoint() -> None:
    """Protect commits, so that `restore` can go back to them."""


@table_command(
    savepoint,
    "create",
    examples=['hudi-py savepoint create /data/trips --comment "before the backfill"'],
)
@click.argument("instant", required=False)
@click.option("--user", default="", help="Who created it.")
@click.option("--comment", default="", help="What it is for.")
def savepoint_create(target: CommandTarget, instant: str | None, user: str, comment: str) -> None:
    """Protect a commit, by default the newest, from cleaning and archiving."""
    from hudi_py.cli import services

    services.report(target, target.open().savepoint(instant, user=user, comment=comment))


@table_command(savepoint, "list", paths="several", examples=["hudi-py savepoint list /data/trips"])
def savepoint_list(target: CommandTarget) -> None:
    """List savepoints."""
    from hudi_py.cli import views

    views.savepoints(target)


@table_command(savepoint, "delete", examples=["hudi-py savepoint delete /data/trips 20260131101530123"])
@click.argument("instant")
@yes_option
def savepoint_delete(target: CommandTarget, instant: str, yes: bool) -> None:
    """Delete a savepoint, so that its commit may be cleaned and archived."""
    from hudi_py.cli import services

    table = target.open()
    confirm(f"Delete the savepoint {instant} of {table.uri}? Its files may then be cleaned.", yes)
    services.report(target, table.delete_savepoint(instant))


@_GROUP.group("index")
def index() -> None:
    """Create, list, refresh or drop indexes of the metadata table."""


@table_command(index, "list", paths="several", examples=["hudi-py index list /data/trips"])
def index_list(target: CommandTarget) -> None:
    """List indexes."""
    from hudi_py.cli import views

    views.indexes(target)


@table_command(
    index,
    "create",
    examples=[
        "hudi-py index create /data/trips by_driver driver",
        "hudi-py index create /data/trips record_index --using record_index",
        "hudi-py index create /data/trips day ts --using column_stats --expr from_unixtime --with format=yyyy-MM-dd",
    ],
)
@click.argument("name")
@click.argument("column", required=False, default="")
@click.option(
    "--using", default="secondary_index", show_default=True, help="Or column_stats, bloom_filters, record_index."
)
@click.option("--expr", default="", help="Function of an expression index.")
@click.option("--with", "pairs", multiple=True, metavar="KEY=VALUE", help="Option of the index; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if it exists.")
def index_create(
    target: CommandTarget, name: str, column: str, using: str, expr: str, pairs: tuple[str, ...], if_not_exists: bool
) -> None:
    """Create the index NAME of a COLUMN.

    Later writes keep it up to date. A secondary index needs a record index.
    """
    from hudi_py.cli import services

    given = dict([*([("expr", expr)] if expr else []), *(pair.partition("=")[::2] for pair in pairs)])
    services.create_index(target, name, column, using, given, if_not_exists)


@table_command(index, "refresh", examples=["hudi-py index refresh /data/trips by_driver"])
@click.argument("name")
def index_refresh(target: CommandTarget, name: str) -> None:
    """Rebuild the index NAME."""
    from hudi_py.cli import services

    services.refresh_index(target, name)


@table_command(index, "drop", examples=["hudi-py index drop /data/trips by_driver --yes"])
@click.argument("name")
@yes_option
def index_drop(target: CommandTarget, name: str, yes: bool) -> None:
    """Drop the index NAME and those that need it."""
    from hudi_py.cli import services

    services.drop_index(target, name, yes)


@_GROUP.group("metadata")
def metadata() -> None:
    """Verify, rebuild or drop the metadata table."""


@table_command(
    metadata,
    "verify",
    examples=["hudi-py metadata verify /data/trips", "hudi-py metadata verify /data/trips files column_stats"],
)
@click.argument("partitions", metavar="[PARTITION]...", nargs=-1)
@click.pass_context
def metadata_verify(ctx: click.Context, target: CommandTarget, partitions: tuple[str, ...]) -> None:
    """Compare the metadata table with the table's files, and look for lost data files.

    The exit code is 5 if anything is wrong.
    """
    from hudi_py.cli import services

    if not services.verify(target, partitions):
        ctx.exit(FOUND)


@table_command(
    metadata,
    "rebuild",
    examples=["hudi-py metadata rebuild /data/trips", "hudi-py metadata rebuild /data/trips files column_stats"],
)
@click.argument("partitions", metavar="[PARTITION]...", nargs=-1)
def metadata_rebuild(target: CommandTarget, partitions: tuple[str, ...]) -> None:
    """Rebuild partitions of the metadata table, by default all that exist.

    Partitions that are named are created if they do not exist.
    """
    from hudi_py.cli import services

    services.rebuild(target, partitions)


@table_command(metadata, "drop", examples=["hudi-py metadata drop /data/trips column_stats --yes"])
@click.argument("partitions", metavar="PARTITION...", nargs=-1, required=True)
@yes_option
def metadata_drop(target: CommandTarget, partitions: tuple[str, ...], yes: bool) -> None:
    """Drop partitions of the metadata table; `files` drops all of it."""
    from hudi_py.cli import services

    services.drop(target, partitions, yes)
