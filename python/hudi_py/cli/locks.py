"""Commands of the table lock."""

from __future__ import annotations

import click

from hudi_py.cli.declare import CommandTarget, dry_run_option, table_command, yes_option
from hudi_py.cli.failure import FOUND


def add_to(main: click.Group) -> None:
    """Adds the commands to the program."""
    main.add_command(locks)


@click.group("locks")
def locks() -> None:
    """Show or break the table lock, and examine its use."""


@table_command(locks, "show", paths="several", examples=["hudi-py locks show /data/trips"])
def locks_show(target: CommandTarget) -> None:
    """Show who holds the table lock."""
    from hudi_py.cli import views

    views.locks(target)


@table_command(locks, "break", examples=["hudi-py locks break /data/trips OWNER --yes"])
@click.argument("owner")
@yes_option
def locks_break(target: CommandTarget, owner: str, yes: bool) -> None:
    """Release the lock of an OWNER that no longer runs, given its id in `locks show`."""
    from hudi_py.cli import services

    services.break_lock(target, owner, yes)


@locks.group("audit")
def audit() -> None:
    """Show, enable or disable the records of who held the lock in an object store, and examine them.

    Apache Hudi's writers make these records. Those of hudi-py do not.
    """


@table_command(audit, "status", paths="several", examples=["hudi-py locks audit status s3://lake/trips"])
def audit_status(target: CommandTarget) -> None:
    """Show whether the lock is audited."""
    from hudi_py.cli import views

    views.lock_audit(target)


@table_command(audit, "enable", paths="several", examples=["hudi-py locks audit enable s3://lake/trips"])
def audit_enable(target: CommandTarget) -> None:
    """Ask writers to record when they hold the lock."""
    from hudi_py.cli import services

    services.set_audit(target, True)


@table_command(audit, "disable", paths="several", examples=["hudi-py locks audit disable s3://lake/trips"])
def audit_disable(target: CommandTarget) -> None:
    """Stop the records. Those that exist stay."""
    from hudi_py.cli import services

    services.set_audit(target, False)


@table_command(audit, "validate", paths="several", examples=["hudi-py locks audit validate s3://lake/trips"])
@click.pass_context
def audit_validate(ctx: click.Context, target: CommandTarget) -> None:
    """Look for writers that held the lock at the same time, or never released it.

    The exit code is 5 if there are any.
    """
    from hudi_py.cli import services

    if not services.validate_audit(target):
        ctx.exit(FOUND)


@table_command(
    audit, "cleanup", paths="several", examples=["hudi-py locks audit cleanup s3://lake/trips --age-days 30 --dry-run"]
)
@click.option("--age-days", type=click.IntRange(min=1), default=7, show_default=True, help="Keep newer records.")
@dry_run_option
@yes_option
def audit_cleanup(target: CommandTarget, age_days: int, dry_run: bool, yes: bool) -> None:
    """Delete old records."""
    from hudi_py.cli import services

    services.clean_up_audit(target, age_days, dry_run, yes)
