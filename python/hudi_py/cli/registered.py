"""`hudi-py sync`."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen
from hudi_py.config import interop as config
from hudi_py.interop.catalogs import Registered
from hudi_py.interop.catalogs import sync as register
from hudi_py.model.words import counted

_DONE = {
    "created": "registered in",
    "changed": "brought up to date in",
    "noted": "up to date in",
    "unchanged": "up to date in",
}


def sync(target: CommandTarget, catalogs: Sequence[str], database: str | None, name: str | None) -> None:
    """Registers the table, and says what was done."""
    more = {config.DATABASE.key: database, config.TABLE.key: name}
    options = {key: value for key, value in more.items() if value is not None}
    report, screen = register(target.open(), *catalogs, options=options), Screen()
    if target.as_json:
        screen.json(report.to_dict())
        return
    for each in report.entries:
        screen.line(f"{each.name} is {_DONE[each.done]} {each.catalog}{_partitions(each)}.")


def _partitions(entry: Registered) -> str:
    counts = (
        (entry.partitions_added, "added"),
        (entry.partitions_changed, "changed"),
        (entry.partitions_dropped, "dropped"),
    )
    told = [f"{counted(count, 'partition')} {done}" for count, done in counts if count]
    return f": {', '.join(told)}" if told else ""
