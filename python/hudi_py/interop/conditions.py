"""Translates conditions of other engines to our filter grammar, where both mean the same.

An engine pushes conditions down only to save reading: it still applies them itself. So a part without an exact
counterpart is left out, and more rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Final

import pyarrow as pa

SWAPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparisons, and their counterparts with sides swapped."""


class Conditions:
    """Builds conditions on the columns of a schema. Each method returns None if there is no exact counterpart.

    Only whole numbers, text, booleans and dates are compared, with values of their own kind: engines differ in how they
    compare floating-point numbers and times, and in their casts.
    """

    def __init__(self, schema: pa.Schema, *, ignore_case: bool = False) -> None:
        self._types: Mapping[str, pa.DataType] = dict(zip(schema.names, schema.types, strict=True))
        self._folded = {name.lower(): name for name in schema.names} if ignore_case else {}

    def compared(self, column: str, comparison: str, value: object) -> str | None:
        """Returns `column <comparison> value`; `comparison` is one of `SWAPPED`."""
        name, literal = self._column(column), self._literal(column, value)
        return None if name is None or literal is None else f"{name} {comparison} {literal}"

    def one_of(self, column: str, values: Sequence[object]) -> str | None:
        """Returns `column IN (values)`."""
        name = self._column(column)
        literals = [self._literal(column, value) for value in values]
        known = [literal for literal in literals if literal is not None]
        if name is None or not known or len(known) < len(literals):
            return None
        return f"{name} IN ({', '.join(known)})"

    def is_null(self, column: str, *, negated: bool = False) -> str | None:
        """Returns `column IS [NOT] NULL`."""
        name = self._column(column)
        return None if name is None else f"{name} IS {'NOT ' if negated else ''}NULL"

    def _column(self, name: str) -> str | None:
        value = name if name in self._types else self._folded.get(name.lower())
        return None if value is None or "`" in value else f"`{value}`"

    def _literal(self, column: str, value: object) -> str | None:
        kind = self._types.get(column, self._types.get(self._folded.get(column.lower(), "")))
        if kind is None:
            return None
        if isinstance(value, bool):
            return str(value).upper() if pa.types.is_boolean(kind) else None
        if isinstance(value, int):
            return str(value) if pa.types.is_integer(kind) and -(2**63) <= value < 2**63 else None
        if isinstance(value, str):
            plain = value.isprintable() and not set(value) & {"'", "\\"}
            return f"'{value}'" if pa.types.is_string(kind) and plain else None
        if isinstance(value, date) and not isinstance(value, datetime):
            return f"DATE '{value:%Y-%m-%d}'" if pa.types.is_date32(kind) and value.year >= 1000 else None
        return None


def every(parts: Iterable[str | None]) -> str | None:
    """Returns a condition that holds at least where all parts hold; unknown parts are left out."""
    known = [f"({part})" for part in parts if part is not None]
    return " AND ".join(known) or None


def either(parts: Sequence[str | None]) -> str | None:
    """Returns a condition that holds where one of the parts does; None if one is unknown."""
    known = [f"({part})" for part in parts if part is not None]
    return " OR ".join(known) if known and len(known) == len(parts) else None
