"""Declares the SQL statements that hudi-py runs."""

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
    """A kind of statement: how to recognise, run and document it."""

    begins: tuple[str, ...]
    """The words with which it may begin, after a WITH clause if there is one."""
    run: Callable[[Tables, Cursor], DataFrame | None]
    """Parses and runs a statement. Returns None if it concerns no Hudi table, so that Spark runs it."""
    syntax: str = ""
    """Syntax for docs/sql.md, which omits statements without it."""
    notes: str = ""

    def sees(self, cursor: Cursor) -> bool:
        """Returns whether a statement is of this kind."""
        return any(cursor.sees(*words.split()) for words in self.begins)

    def may_begin_with(self, word: str) -> bool:
        """Returns whether statements of this kind may begin with a word, in upper case."""
        return any(words.split()[0] == word for words in self.begins)
