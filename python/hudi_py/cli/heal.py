"""Commands that examine and repair tables."""

from __future__ import annotations

import click

from hudi_py.cli.declare import CommandTarget, confirm, dry_run_option, table_command, yes_option
from hudi_py.cli.failure import FOUND


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    for command in _GROUP.commands.values():
        main.add_command(command)


_GROUP = click.Group()
_FULL = click.option(
    "--full", is_flag=True, help="Read every row and every record of the metadata table, not a sample."
)


@table_command(
    _GROUP,
    "doctor",
    paths="several",
    examples=[
        "hudi-py doctor /data/trips",
        "hudi-py doctor /data/trips --full --json",
        "hudi-py doctor /data/trips /data/cities",
    ],
)
@_FULL
@click.pass_context
def doctor(ctx: click.Context, target: CommandTarget, full: bool) -> None:
    """Show what is wrong with a table, the most harmful first, and how to fix it.

    Only reads, and works on tables that cannot be opened. The exit code is 5 if there is anything to fix.
    """
    from hudi_py.cli import health

    if not health.examine(target, full):
        ctx.exit(FOUND)


@table_command(
    _GROUP,
    "repair",
    paths="several",
    examples=["hudi-py repair /data/trips --dry-run", "hudi-py repair /data/trips --full --yes"],
)
@_FULL
@click.option("--lose-rows", is_flag=True, help="Also give up the rows of files that are missing or cannot be read.")
@dry_run_option
@yes_option
def repair(target: CommandTarget, full: bool, lose_rows: bool, dry_run: bool, yes: bool) -> None:
    """Repair what `doctor` finds.

    Shows the plan and asks. Everything that a repair removes or replaces is kept, so that `repairs undo` can bring it
    back.
    """
    from hudi_py.cli import health

    health.mend(target, full=full, lose_rows=lose_rows, dry_run=dry_run, yes=yes)


@_GROUP.group("repairs")
def repairs() -> None:
    """List, undo or forget earlier repairs."""


@table_command(repairs, "list", paths="several", examples=["hudi-py repairs list /data/trips"])
def repairs_list(target: CommandTarget) -> None:
    """List the repairs that can be undone."""
    from hudi_py.cli import health

    health.kept(target)


@table_command(repairs, "undo", examples=["hudi-py repairs undo /data/trips ID"])
@click.argument("id")
@yes_option
def repairs_undo(target: CommandTarget, id: str, yes: bool) -> None:
    """Bring a table back to its state before a repair."""
    from hudi_py.cli import health

    confirm(f"Undo the repair {id} of {target.path}? Readers may see a state in between.", yes)
    health.undo(target, id)


@table_command(repairs, "forget", examples=["hudi-py repairs forget /data/trips ID --yes"])
@click.argument("id")
@yes_option
def repairs_forget(target: CommandTarget, id: str, yes: bool) -> None:
    """Delete what a repair has kept. It can no longer be undone."""
    from hudi_py.cli import health

    confirm(f"Delete what the repair {id} of {target.path} has kept?", yes)
    health.forget(target, id)
