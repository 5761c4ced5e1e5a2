"""Generates the tables of statements and procedures in docs/sql.md from what the dialect runs: `make docs-pages`."""

from __future__ import annotations

import sys
from typing import Final

from pyspark_hudi.dialect import run
from pyspark_hudi.dialect.call import PROCEDURES
from pyspark_hudi.dialect.queries import QUERIES
from tools.matrix import ROOT, replaced, table

DOCUMENT: Final = ROOT / "docs" / "sql.md"
STATEMENT_MARKS: Final = (
    "<!-- statements: begin, written by `make docs-pages` from pyspark_hudi/dialect -->",
    "<!-- statements: end -->",
)
PROCEDURE_MARKS: Final = (
    "<!-- procedures: begin, written by `make docs-pages` from pyspark_hudi/dialect -->",
    "<!-- procedures: end -->",
)


def statements() -> str:
    """Renders the table of statements between its markers."""
    listed = [QUERIES, *(each for each in run.STATEMENTS if each is not QUERIES)]
    rows = [(each.syntax, each.notes) for each in listed if each.syntax]
    return "\n".join([STATEMENT_MARKS[0], *table(["statement", "notes"], rows), STATEMENT_MARKS[1]])


def procedures() -> str:
    """Renders the table of procedures between its markers."""
    rows = []
    for name, each in sorted(PROCEDURES.items()):
        given = (
            f"`{key}`" if value in (None, "") else f"`{key} => {_constant(value)}`"
            for key, value in each.parameters.items()
        )
        rows.append((f"`{name}`", ", ".join(given)))
    return "\n".join([PROCEDURE_MARKS[0], *table(["procedure", "arguments"], rows), PROCEDURE_MARKS[1]])


def _constant(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def updated(text: str) -> str:
    """Returns the page's text with the current tables between their markers."""
    return replaced(replaced(text, statements(), DOCUMENT.name), procedures(), DOCUMENT.name)


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
