"""What a statement of SQL is that hudi-py runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_hudi.dialect.tables import Tables
from pyspark_hudi.dialect.text import Cursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A kind of statement: how it is recognised, who runs it, and what the documentation says of it."""

    begins: tuple[str, ...]
    """The words with which it may begin, after a WITH clause if it has one."""
    run: Callable[[Tables, Cursor], DataFrame | None]
    """Parses and runs a statement. Returns None if it is Spark's, as it concerns no Hudi table."""
    syntax: str = ""
    """For docs/sql.md, in which statements without syntax have no row."""
    notes: str = ""

    def sees(self, cursor: Cursor) -> bool:
        """Whether a statement is of this kind."""
        return any(cursor.sees(*words.split()) for words in self.begins)

    def may_begin_with(self, word: str) -> bool:
        """Whether there are statements of this kind with this first word, in upper case."""
        return any(words.split()[0] == word for words in self.begins)
