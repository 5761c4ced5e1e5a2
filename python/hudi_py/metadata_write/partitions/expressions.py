"""Functions of expression indexes, by column (`ExpressionIndexSparkFunctions`, 1.2.0).

Only functions whose values are known here to the last bit: not those that depend on the time zone of a Spark session,
on Java's regular expressions or on its patterns of dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.file_stats.columns import ValueType

Apply = Callable[[pa.Array], pa.Array]
EXPR: Final = "expr"
IDENTITY: Final = "identity"
_ZONE: Final = "it depends on the time zone of the Spark session"
_JAVA: Final = "it takes Java's regular expressions"
_UNFOLLOWED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("from_unixtime", "unix_timestamp", "date_format", "to_timestamp"), _ZONE),
    **dict.fromkeys(("regexp_extract", "regexp_replace", "split"), _JAVA),
}
"""Functions of Apache Hudi that hudi-py cannot follow, and why."""


@dataclass(frozen=True, slots=True)
class _Function:
    options: tuple[str, ...]
    """Names of its options besides `expr`; those that end in `?` may be missing."""
    takes: Callable[[pa.DataType], bool]
    needs: str
    """The columns that it takes, for errors."""
    result: ValueType
    make: Callable[[Mapping[str, str]], Apply]


@dataclass(frozen=True, slots=True)
class Expression:
    """A function with its options."""

    name: str
    options: Mapping[str, str]

    def check(self) -> str:
        """Why hudi-py cannot follow the function or its options; empty if it can."""
        if self.name == IDENTITY:
            return ""
        function = _FUNCTIONS.get(self.name)
        if function is None:
            why = _UNFOLLOWED.get(self.name, "Apache Hudi has no such function")
            return f"hudi-py cannot follow the function {self.name!r}: {why}; supported are {', '.join(NAMES)}"
        known = {option.rstrip("?") for option in function.options}
        given = {key for key in self.options if key != EXPR}
        missing = {option for option in function.options if not option.endswith("?")} - given
        if missing or given - known:
            return f"the function {self.name} takes the options {', '.join(sorted(known)) or 'none'}"
        try:
            function.make(self.options)
        except ValueError:
            return f"the options {dict(self.options)} of the function {self.name} are no whole numbers"
        return ""

    def check_column(self, kind: pa.DataType) -> str:
        """Why the function has no values of a column; empty if it has."""
        function = _FUNCTIONS.get(self.name)
        if function is None or function.takes(kind):
            return ""
        return f"the function {self.name} takes {function.needs} here, not {kind}"

    def result(self, stored: ValueType) -> ValueType:
        """The type of its values for a column of a type."""
        return stored if self.name == IDENTITY else _FUNCTIONS[self.name].result

    def apply(self, values: pa.Array) -> pa.Array:
        """The values of the function."""
        return values if self.name == IDENTITY else _FUNCTIONS[self.name].make(self.options)(values)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or _is_local(kind))


def _is_local(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _distinct(function: Callable[[str], str]) -> Apply:
    """Applies Python's rules of Unicode, which are Java's, to the distinct values: Arrow maps single characters."""

    def apply(values: pa.Array) -> pa.Array:
        encoded = values.dictionary_encode()
        changed = pa.array([None if v is None else function(v) for v in encoded.dictionary.to_pylist()], pa.string())
        return changed.take(encoded.indices)

    return apply


def _cased(ascii_: Apply, function: Callable[[str], str]) -> Callable[[Mapping[str, str]], Apply]:
    def apply(values: pa.Array) -> pa.Array:
        plain = pc.all(pc.fill_null(pc.string_is_ascii(values), True)).as_py() is not False
        return ascii_(values) if plain else _distinct(function)(values)

    return lambda options: apply


def _trimmed(function: Callable[..., pa.Array]) -> Callable[[Mapping[str, str]], Apply]:
    return lambda options: lambda values: function(values, characters=options.get("trimString", " "))


def _substring(options: Mapping[str, str]) -> Apply:
    position, length = int(options["pos"]), int(options["len"])

    def cut(text: str) -> str:
        start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
        return text[max(start, 0) : max(start + length, 0)]

    if position < 0 or length < 0:
        return _distinct(cut if length > 0 else lambda text: "")
    start = max(position - 1, 0)
    return lambda values: pc.utf8_slice_codeunits(values, start, start + length)


def _days(values: pa.Array) -> pa.Array:
    return values.cast(pa.date32(), safe=False)


def _shifted(sign: int) -> Callable[[Mapping[str, str]], Apply]:
    def make(options: Mapping[str, str]) -> Apply:
        days = sign * int(options["days"])

        def apply(values: pa.Array) -> pa.Array:
            whole = _days(values).view(pa.int32()).cast(pa.int64())
            shifted = pc.add(whole, days).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
            return pa.array(shifted, mask=np.asarray(values.is_null())).view(pa.date32())

        return apply

    return make


def _part(function: Apply) -> Callable[[Mapping[str, str]], Apply]:
    return lambda options: lambda values: function(values).cast(pa.int32())


_TEXT: Final = (_is_text, "columns of strings", ValueType.STRING)
_DAY: Final = (_is_day, "columns of dates, or of timestamps without time zone")
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    "lower": _Function((), *_TEXT, _cased(pc.ascii_lower, str.lower)),
    "upper": _Function((), *_TEXT, _cased(pc.ascii_upper, str.upper)),
    "trim": _Function(("trimString?",), *_TEXT, _trimmed(pc.utf8_trim)),
    "ltrim": _Function(("trimString?",), *_TEXT, _trimmed(pc.utf8_ltrim)),
    "rtrim": _Function(("trimString?",), *_TEXT, _trimmed(pc.utf8_rtrim)),
    "substring": _Function(("pos", "len"), *_TEXT, _substring),
    "length": _Function((), _is_text, "columns of strings", ValueType.INT, _part(pc.utf8_length)),
    "year": _Function((), *_DAY, ValueType.INT, _part(pc.year)),
    "month": _Function((), *_DAY, ValueType.INT, _part(pc.month)),
    "day": _Function((), *_DAY, ValueType.INT, _part(pc.day)),
    "hour": _Function((), _is_local, "columns of timestamps without time zone", ValueType.INT, _part(pc.hour)),
    "to_date": _Function((), *_DAY, ValueType.DATE, lambda options: _days),
    "date_add": _Function(("days",), *_DAY, ValueType.DATE, _shifted(1)),
    "date_sub": _Function(("days",), *_DAY, ValueType.DATE, _shifted(-1)),
}
NAMES: Final = (IDENTITY, *_FUNCTIONS)


def check_expression(expression: Expression, kind: pa.DataType, what: str) -> None:
    """Raises ConfigError, which begins with `what`, if the values of an expression of a column are not known."""
    why = expression.check() or expression.check_column(kind)
    if why:
        raise ConfigError(f"{what}: {why}")
