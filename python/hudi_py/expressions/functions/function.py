"""The registry of functions, with their options and the column types they accept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.functions import texts, times
from hudi_py.expressions.functions.patterns import DatePattern
from hudi_py.expressions.functions.regex import JavaRegex, replacement
from hudi_py.expressions.functions.times import DEFAULT_PATTERN, INSTANT, UTC, is_time
from hudi_py.formats.arrays import is_bytes, is_instant, is_number, is_text

EXPR: Final = "expr"
IDENTITY: Final = "identity"
FILTER_SIZES: Final = ("filtertype", "numentries", "fpp", "maxentries")
"""Options of an index's bloom filters, which are stored among those of its function (`BLOOM_FILTER_CONFIG_MAPPING`)."""
_INT: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Function:
    needed: tuple[str, ...]
    """Required options besides `expr`."""
    result: Callable[[pa.DataType], pa.DataType]
    """Maps a column's type to the type of the function's values."""
    apply: Callable[[pa.Array, Options, str], pa.Array]
    """Computes the values from a column's values, the options and the time zone."""
    takes: Callable[[pa.DataType], bool]
    needs: str
    """The column types that it accepts, for errors."""
    is_zoned: Callable[[pa.DataType, Options], bool] = lambda kind, options: False
    """Returns whether its values depend on the time zone."""
    optional: tuple[str, ...] = ()
    check: Callable[[Options], object] = lambda options: None
    """Raises `ValueError` if the options are not valid."""


@dataclass(frozen=True)
class IndexFunction:
    """A function of one column, with its options. Picklable."""

    name: str
    options: Options = field(default_factory=dict)
    """By name; `expr` is ignored."""

    @classmethod
    def of_index(cls, function: str, options: Options) -> IndexFunction:
        """Reads function and options from an index definition."""
        return cls(function, {key: value for key, value in options.items() if key not in FILTER_SIZES})

    def check(self) -> str:
        """Returns why the function does not exist or does not accept these options; empty if it does."""
        function = _FUNCTIONS.get(self.name)
        if function is None:
            return f"there is no function {self.name!r} of expression indexes; there are {', '.join(NAMES)}"
        given = self.options.keys() - {EXPR}
        wrong = sorted(given - {*function.needed, *function.optional}) or sorted(set(function.needed) - given)
        if wrong:
            known = ", ".join([*function.needed, *(f"{name} (optional)" for name in function.optional)]) or "none"
            verb = "has no option" if wrong[0] in given else "lacks the option"
            return f"the function {self.name} {verb} {wrong[0]!r}; its options are {known}"
        try:
            function.check(self.options)
        except ValueError as error:
            return f"the function {self.name} cannot be followed: {error}"
        return ""

    def check_column(self, kind: pa.DataType) -> str:
        """Returns why the function does not accept a column; empty if it does."""
        function = _FUNCTIONS[self.name]
        return "" if function.takes(kind) else f"the function {self.name} takes {function.needs}, not {kind}"

    def result(self, kind: pa.DataType) -> pa.DataType:
        """Returns the type of its values for a column of a type."""
        return _FUNCTIONS[self.name].result(kind)

    def is_zoned(self, kind: pa.DataType) -> bool:
        """Returns whether its values for a column type depend on the time zone."""
        return _FUNCTIONS[self.name].is_zoned(kind, self.options)

    def apply(self, values: pa.Array, zone: str = UTC) -> pa.Array:
        """Computes its values. Text that is no date, time or number becomes null, as with ANSI mode off."""
        return _FUNCTIONS[self.name].apply(values, self.options, zone)

    def same(self, other: IndexFunction) -> bool:
        """Returns whether two functions always have the same values."""
        one, two = ({**_DEFAULTS.get(item.name, {}), **item.options} for item in (self, other))
        return self.name == other.name and {**one, EXPR: ""} == {**two, EXPR: ""}


def _is_scalar(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def _parse_integer(options: Options, name: str) -> int:
    """Parses an option as `Integer.parseInt` does."""
    if not _INT.fullmatch(options[name]) or not -(2**31) <= int(options[name]) < 2**31:
        raise ValueError(f"{name} = {options[name]!r} is no whole number of 32 bits")
    return int(options[name])


def _date_pattern(options: Options) -> DatePattern:
    return DatePattern(options.get("format", DEFAULT_PATTERN))


def _text_of(values: pa.Array, zone: str) -> pa.Array:
    return times.timestamp_texts(values, zone) if pa.types.is_timestamp(values.type) else texts.as_texts(values)


def _of_texts(
    apply: Callable[[pa.Array, Options], pa.Array],
    *,
    result: pa.DataType | None = None,
    needed: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    check: Callable[[Options], object] = lambda options: None,
    with_bytes: bool = False,
) -> _Function:
    """Declares a function of text; other values are cast to text. `with_bytes`: bytes are not cast."""

    def of(values: pa.Array, options: Options, zone: str) -> pa.Array:
        own = with_bytes and is_bytes(values.type)
        return apply(values if own else _text_of(values, zone), options)

    def kind_of(kind: pa.DataType) -> pa.DataType:
        return result if result is not None else pa.binary() if with_bytes and is_bytes(kind) else pa.string()

    return _Function(
        needed,
        kind_of,
        of,
        _is_scalar,
        "columns of simple types",
        lambda kind, options: is_instant(kind),
        optional,
        check,
    )


def _trim_function(*, left: bool, right: bool) -> _Function:
    return _of_texts(
        lambda values, options: texts.trim(values, options.get("trimString", " "), left, right),
        optional=("trimString",),
    )


def _of_days(
    apply: Callable[[pa.Array, Options, str], pa.Array], result: pa.DataType, needed: tuple[str, ...] = ()
) -> _Function:
    return _Function(
        needed,
        lambda kind: result,
        apply,
        lambda kind: is_time(kind) or is_text(kind),
        "columns of dates, timestamps and texts",
        lambda kind, options: is_instant(kind),
        check=lambda options: [_parse_integer(options, name) for name in needed],
    )


def _part_function(name: str) -> _Function:
    return _of_days(lambda values, options, zone: times.part(name, values, zone), pa.int32())


def _shift_function(sign: int) -> _Function:
    return _of_days(
        lambda values, options, zone: times.shifted(values, sign * _parse_integer(options, "days"), zone),
        pa.date32(),
        ("days",),
    )


def _check_parsing(options: Options) -> None:
    if "format" in options:
        _date_pattern(options).check(parsing=True)


def _to_date(values: pa.Array, options: Options, zone: str) -> pa.Array:
    if "format" not in options or is_time(values.type):
        return times.to_days(values, zone)
    return times.to_days(times.parsed(values, _date_pattern(options), zone), zone)


def _to_timestamp(values: pa.Array, options: Options, zone: str) -> pa.Array:
    return (
        times.parsed(values, _date_pattern(options), zone) if "format" in options else times.to_instants(values, zone)
    )


def _is_not_instant(kind: pa.DataType, options: Options) -> bool:
    return not is_instant(kind)


_TIMES: Final = (lambda kind: is_time(kind) or is_text(kind), "columns of dates, timestamps and texts")
_SCALARS: Final = (_is_scalar, "columns of simple types")
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    IDENTITY: _Function((), lambda kind: kind, lambda values, options, zone: values, *_SCALARS),
    "lower": _of_texts(lambda values, options: texts.lower(values)),
    "upper": _of_texts(lambda values, options: texts.upper(values)),
    "trim": _trim_function(left=True, right=True),
    "ltrim": _trim_function(left=True, right=False),
    "rtrim": _trim_function(left=False, right=True),
    "length": _of_texts(lambda values, options: texts.length(values), result=pa.int32(), with_bytes=True),
    "substring": _of_texts(
        lambda values, options: texts.substring(values, _parse_integer(options, "pos"), _parse_integer(options, "len")),
        needed=("pos", "len"),
        check=lambda options: (_parse_integer(options, "pos"), _parse_integer(options, "len")),
        with_bytes=True,
    ),
    "regexp_replace": _of_texts(
        lambda values, options: texts.regexp_replace(values, JavaRegex(options["pattern"]), options["replacement"]),
        needed=("pattern", "replacement"),
        check=lambda options: replacement(options["replacement"], JavaRegex(options["pattern"])),
    ),
    "regexp_extract": _of_texts(
        lambda values, options: texts.regexp_extract(
            values, JavaRegex(options["pattern"]), _parse_integer(options, "idx")
        ),
        needed=("pattern", "idx"),
        check=lambda options: _check_group(JavaRegex(options["pattern"]), _parse_integer(options, "idx")),
    ),
    "split": _of_texts(
        lambda values, options: texts.split(values, JavaRegex(options["pattern"])),
        result=pa.list_(pa.string()),
        needed=("pattern",),
        check=lambda options: JavaRegex(options["pattern"]).compiled,
    ),
    "year": _part_function("year"),
    "month": _part_function("month"),
    "day": _part_function("day"),
    "hour": _Function(
        (),
        lambda kind: pa.int32(),
        lambda values, options, zone: times.part("hour", values, zone),
        *_TIMES,
        lambda kind, options: not (pa.types.is_timestamp(kind) and kind.tz is None),
    ),
    "date_add": _shift_function(1),
    "date_sub": _shift_function(-1),
    "to_date": _Function(
        (),
        lambda kind: pa.date32(),
        _to_date,
        *_SCALARS,
        lambda kind, options: is_instant(kind) or "format" in options,
        ("format",),
        _check_parsing,
    ),
    "to_timestamp": _Function(
        (),
        lambda kind: INSTANT,
        _to_timestamp,
        *_SCALARS,
        lambda kind, options: not is_instant(kind) and not (is_number(kind) and "format" not in options),
        ("format",),
        _check_parsing,
    ),
    "unix_timestamp": _Function(
        (),
        lambda kind: pa.int64(),
        lambda values, options, zone: times.seconds_of(times.parsed(values, _date_pattern(options), zone)),
        *_SCALARS,
        _is_not_instant,
        ("format",),
        lambda options: _date_pattern(options).check(parsing=True),
    ),
    "from_unixtime": _Function(
        (),
        lambda kind: pa.string(),
        lambda values, options, zone: times.from_seconds(values, _date_pattern(options), zone),
        lambda kind: is_number(kind) or is_text(kind),
        "columns of numbers and texts",
        lambda kind, options: True,
        ("format",),
        lambda options: _date_pattern(options).check(parsing=False),
    ),
    "date_format": _Function(
        ("format",),
        lambda kind: pa.string(),
        lambda values, options, zone: times.printed(values, _date_pattern(options), zone),
        *_TIMES,
        lambda kind, options: True,
        check=lambda options: _date_pattern(options).check(parsing=False),
    ),
}
_DEFAULTS: Final[Mapping[str, Options]] = {
    **{name: {"trimString": " "} for name in ("trim", "ltrim", "rtrim")},
    **{name: {"format": DEFAULT_PATTERN} for name in ("from_unixtime", "unix_timestamp")},
}
NAMES: Final = tuple(_FUNCTIONS)
"""Names of all functions."""


def _check_group(regex: JavaRegex, group: int) -> None:
    if not 0 <= group <= regex.compiled.groups:
        raise ValueError(f"the pattern {regex.text!r} has no group {group}")


def filter_texts(values: pa.Array, zone: str) -> pa.StringArray:
    """Converts values to the text that bloom filters hold: that of `toString` of Java's objects."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return times.local_texts(values)
        return times.timestamp_texts(values, zone, least=1)
    if pa.types.is_list(kind):
        joined = pc.binary_join(values, ", ")
        return pc.binary_join_element_wise("WrappedArray(", joined, ")", "")
    if pa.types.is_decimal(kind):
        return texts.decimal_texts(values)
    return texts.as_texts(values)
