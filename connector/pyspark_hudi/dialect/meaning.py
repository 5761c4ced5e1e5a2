"""Decides whether an expression means the same to the core as to Spark in a session.

The core reads expressions as Spark does by default, in UTC. Expressions that a session's settings change are left to
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions import text_constants
from pyspark_hudi.dialect.text import tokens_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE: Final = "spark.sql.session.timeZone"
_ANSI: Final = "spark.sql.ansi.enabled"
_OF_TEXTS: Final = (
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
)
"""Settings that change the meaning of quotes and backslashes; all are off by default."""
_UTC: Final = frozenset({"utc", "etc/utc", "gmt", "etc/gmt", "z", "+00:00"})


class _Parsed(Protocol):
    @property
    def depends(self) -> frozenset[str]: ...


Parse = Callable[[str], _Parsed | None]


@dataclass(frozen=True)
class Meaning:
    """The settings of a session that expressions depend on."""

    spark: SparkSession

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Returns settings that differ from the core's, with their values, by the names in `Binder.depends`."""
        result: dict[str, str] = {}
        zone, ansi = self.spark.conf.get(_ZONE), self.spark.conf.get(_ANSI)
        if str(zone).lower() not in _UTC:
            result["zone"] = f"{_ZONE}={zone}"
        result["lenient" if _is_on(ansi) else "ansi"] = f"{_ANSI}={ansi}"
        of_texts = [key for key in _OF_TEXTS if _is_on(self.spark.conf.get(key, "false"))]
        if of_texts:
            result["texts"] = f"{of_texts[0]}=true"
        return result

    def shared(self, text: str | None, parse: Parse) -> bool:
        """Returns whether the core accepts an expression and gives it the meaning that it has in this session."""
        return text is None or self.differs(text, parse) == ""

    def differs(self, text: str, parse: Parse) -> str | None:
        """Returns the setting that changes the meaning of an expression; empty if there is none, None if the core
        refuses it."""
        try:
            parsed = parse(text)
        except (ConfigError, SchemaMismatchError):
            return None
        depends = set() if parsed is None else set(parsed.depends)
        if "texts" in self.settings and any(map(_is_quoted_apart, _constant_texts(text))):
            depends.add("texts")
        return next((said for name, said in self.settings.items() if name in depends), "")

    def in_moments(self, text: str) -> str:
        """Rewrites constants `TIMESTAMP '...'` so that they name their moment in this session's zone."""
        if "zone" not in self.settings:
            return text
        tokens = tokens_of(text) or []
        result = [
            (word.start, given.end)
            for word, given in pairwise(tokens)
            if word.is_word("TIMESTAMP", "TIMESTAMP_LTZ") and given.kind == "text"
        ]
        if not result:
            return text
        values = ", ".join(f"unix_micros(CAST({text[start:end]} AS TIMESTAMP_LTZ))" for start, end in result)
        (row,) = self.spark.sql(f"SELECT {values}").collect()
        pieces, done = [], 0
        for (start, end), micros in zip(result, row, strict=True):
            pieces += [text[done:start], _moment_text(micros)]
            done = end
        return "".join([*pieces, text[done:]])


def _is_on(value: Any) -> bool:
    return str(value).lower() == "true"


def _constant_texts(text: str) -> list[str]:
    return [text[part.start : part.end] for part in text_constants(text) if part.value is not None]


def _is_quoted_apart(constant: str) -> bool:
    """Returns whether the meaning of a text constant depends on the session."""
    return constant[0] == '"' or "\\" in constant or "''" in constant[1:-1]


def _moment_text(micros: int) -> str:
    """Formats a timestamp as a constant in UTC."""
    text = str(np.datetime64(micros, "us")).replace("T", " ")
    return f"TIMESTAMP '{text}+00:00'"
