"""Generates the table of services in docs/services.md from their descriptors: `make docs-pages`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from hudi_py.services.descriptor import InstantArgument, Service
from hudi_py.services.registry import SERVICES
from tools.matrix import ROOT, replaced, table

DOCUMENT: Final = ROOT / "docs" / "services.md"
MARKS: Final = (
    "<!-- services: begin, written by `make docs-pages` from hudi_py/services -->",
    "<!-- services: end -->",
)


def services() -> str:
    """Renders the table between its markers."""
    rows = (
        (
            f"`{each.name}`",
            each.help,
            "yes" if each.plans else "",
            "; ".join(_takes(each)),
            f"`{each.command or 'run'}`",
        )
        for each in SERVICES.values()
    )
    return "\n".join([MARKS[0], *table(["service", "does", "plans", "takes", "command"], rows), MARKS[1]])


def _takes(service: Service[Any]) -> Iterator[str]:
    if service.instant is InstantArgument.REQUIRED:
        yield "`instant`"
    elif service.instant is InstantArgument.OPTIONAL:
        yield "`instant`, if wanted"
    yield from (f"`{each.name}`: {each.help}" for each in service.arguments)


def updated(text: str) -> str:
    """Returns the page's text with the current table between its markers."""
    return replaced(text, services(), DOCUMENT.name)


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
