"""How a timestamp key generator formats a column (`TimestampBasedAvroKeyGenerator`, `HoodieDateTimeParser`, Apache Hudi
1.2.0), in time zones by Java's names."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.calendar import Bools, Longs
from hudi_py.expressions.dates.patterns import DAY, HOUR, MINUTE, SECOND, DateParser, DatePrinter
from hudi_py.model.zones import local_zone

EARLIEST, END = -62_135_596_800_000, 253_402_300_800_000
"""The first milliseconds of the years 1 and 10000."""

_UTC = ("UTC", "GMT", "UT", "Z", "GMT0")
_FIXED = re.compile(r"GMT([+-])(\d{1,2}):?([0-5]\d)?")
_QUARTER = 15 * MINUTE
"""Clocks change on quarters of an hour, except in the past."""
_EPOCH = datetime.datetime(1970, 1, 1)


def zone(name: str, key: str) -> datetime.tzinfo:
    """Returns the zone of a name.

    Raises:
        ConfigError: the name is unknown, or Java gives it a meaning of its own (`key` is the option).
    """
    text = name.strip()
    if text in _UTC:
        return datetime.timezone.utc
    fixed = _FIXED.fullmatch(text)
    if fixed and int(fixed[2]) < 24:
        size = datetime.timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        return datetime.timezone(-size if fixed[1] == "-" else size)
    try:
        if "/" in text:
            return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ConfigError(
        f"Option {key} = '{name}' is not a supported time zone; supported: regions such as Europe/Berlin, UTC, GMT, "
        "and GMT+8 or GMT-03:30 (Apache Hudi takes others as well, some of them as GMT)"
    )


def offsets_at(times: Longs, where: datetime.tzinfo) -> Longs:
    """Returns the zone's offset from UTC at each time, in milliseconds."""

    def offset(time: int) -> int:
        moment = (_EPOCH + datetime.timedelta(milliseconds=time)).replace(tzinfo=datetime.timezone.utc)
        return _delta_millis(moment.astimezone(where).utcoffset())

    return _by_quarter(times, where, offset)


def offsets_at_local(local: Longs, where: datetime.tzinfo) -> tuple[Longs, Bools]:
    """Returns the zone's offset from UTC at each wall-clock time, the earlier one for a repeated time, and which of the
    times exist."""

    def offset(time: int) -> int:
        moment = _EPOCH + datetime.timedelta(milliseconds=time)
        return _delta_millis(moment.replace(tzinfo=where).utcoffset())

    offsets = _by_quarter(local, where, offset)
    return offsets, offsets_at(local - offsets, where) == offsets


def _by_quarter(times: Longs, where: datetime.tzinfo, offset: Callable[[int], int]) -> Longs:
    """Returns `offset` for each time, computed once per quarter of an hour, or per time where a clock changes within
    one."""
    if not isinstance(where, ZoneInfo):
        return np.full(len(times), offset(0), np.int64)
    within = np.clip(times, EARLIEST + DAY, END - DAY - 1)
    quarters, places = np.unique(within // _QUARTER, return_inverse=True)
    first = [offset(quarter * _QUARTER) for quarter in quarters.tolist()]
    last = [offset((quarter + 1) * _QUARTER - 1) for quarter in quarters.tolist()]
    result = np.array(first, np.int64)[places.reshape(-1)]
    changing = np.not_equal(first, last)[places.reshape(-1)]
    result[changing] = [offset(time) for time in within[changing].tolist()]
    return result


def _delta_millis(delta: datetime.timedelta | None) -> int:
    assert delta is not None
    return delta // datetime.timedelta(milliseconds=1)


PREFIX = "hoodie.keygen.timebased."
OLD_PREFIX = "hoodie.deltastreamer.keygen.timebased."
"""The prefix of the same keys in older tables."""
TYPE = "timestamp.type"
SCALAR_UNIT = "timestamp.scalar.time.unit"
INPUT_FORMAT = "input.dateformat"
INPUT_DELIMITER = "input.dateformat.list.delimiter.regex"
INPUT_ZONE = "input.timezone"
OUTPUT_FORMAT = "output.dateformat"
OUTPUT_ZONE = "output.timezone"
ZONE = "timezone"
NAMES = (TYPE, SCALAR_UNIT, INPUT_FORMAT, INPUT_DELIMITER, INPUT_ZONE, OUTPUT_FORMAT, OUTPUT_ZONE, ZONE)
"""The property names after the prefix."""
TEXT_TYPES = ("DATE_STRING", "MIXED")
"""Types whose values are text; MIXED accepts no numbers in Apache Hudi either."""
NUMBER_TYPES = {"UNIX_TIMESTAMP": "SECONDS", "EPOCHMILLISECONDS": "MILLISECONDS", "EPOCHMICROSECONDS": "MICROSECONDS"}
"""Types whose values are numbers, with their unit; the unit of SCALAR is an option."""
UNITS = {
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (SECOND, 1),
    "MINUTES": (MINUTE, 1),
    "HOURS": (HOUR, 1),
    "DAYS": (DAY, 1),
}
"""Milliseconds per unit, or units per millisecond."""


@dataclass(frozen=True, slots=True)
class DateRule:
    """Formats the values of a column as text. Can be pickled."""

    unit: str | None
    """The unit of numbers; None if the values are text."""
    printer: DatePrinter
    parsers: tuple[DateParser, ...] = ()
    """Parsers of text; the first one that fits counts."""
    first_format: str = ""
    """The pattern that formats null before it is parsed like other text."""
    input_zone: datetime.tzinfo | None = None
    """The zone of text that names none. None: `local`."""
    output_zone: datetime.tzinfo | None = None
    """None: the text's own zone, and `local` for numbers."""
    local: datetime.tzinfo = datetime.timezone.utc
    """The zone of the process that planned the write, as in Java."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> DateRule:
        """Reads the rule from a table's properties, under old or new names.

        Raises:
            ConfigError: a key is missing, or a value is not supported.
        """

        def given(name: str) -> str:
            return properties.get(PREFIX + name, properties.get(OLD_PREFIX + name, ""))

        kind = given(TYPE)
        expected = (*NUMBER_TYPES, *TEXT_TYPES, "SCALAR")
        if kind not in expected:
            raise ConfigError(
                f"The timestamp key generator needs {PREFIX}{TYPE}, which is '{kind}'; expected one of "
                f"{', '.join(expected)}"
            )
        if not given(OUTPUT_FORMAT):
            raise ConfigError(f"The timestamp key generator needs {PREFIX}{OUTPUT_FORMAT}, such as yyyy/MM/dd")
        unit = NUMBER_TYPES.get(kind)
        if kind == "SCALAR":
            unit = (given(SCALAR_UNIT) or "SECONDS").upper()
            if unit not in UNITS:
                raise ConfigError(f"Option {PREFIX}{SCALAR_UNIT} = '{unit}' is not one of {', '.join(UNITS)}")
        formats: list[str] = []
        if kind in TEXT_TYPES:
            if not given(INPUT_FORMAT):
                raise ConfigError(f"The timestamp key generator with the type {kind} needs {PREFIX}{INPUT_FORMAT}")
            formats = _java_split(given(INPUT_FORMAT), given(INPUT_DELIMITER).strip() or ",")
        both = properties.get(PREFIX + ZONE, properties.get(OLD_PREFIX + ZONE))
        zones = [given(name) if both is None else both for name in (INPUT_ZONE, OUTPUT_ZONE)]
        keys = [PREFIX + (name if both is None else ZONE) for name in (INPUT_ZONE, OUTPUT_ZONE)]
        input_zone, output_zone = (
            zone(name, key) if name.strip() else None for name, key in zip(zones, keys, strict=True)
        )
        rule = cls(
            unit,
            DatePrinter(given(OUTPUT_FORMAT), PREFIX + OUTPUT_FORMAT),
            tuple(DateParser(format_.strip(), PREFIX + INPUT_FORMAT) for format_ in formats),
            formats[0] if formats else "",
            input_zone,
            output_zone,
            local_zone(),
        )
        rule.printer.tokens  # noqa: B018 - refuses what is not supported
        for parser in rule.parsers:
            parser.tokens  # noqa: B018
        return rule

    def texts(self, values: pa.Array, column: str) -> pa.StringArray:
        """Formats each value; null counts as the first second, or other unit, after the epoch.

        Args:
            values: texts or, by the rule's type, numbers, dates (which count as the number of their days since the
                epoch) or timestamps (as the number of their microseconds or milliseconds).
            column: name of the column, for errors.

        Raises:
            ConfigError: the type of the column does not go with the rule.
            SchemaMismatchError: a value is no time, or beyond the years 1 to 9999.
        """
        if pa.types.is_dictionary(values.type):
            return self.texts(values.dictionary_decode(), column)
        if self.unit is not None:
            times = self._times_of_numbers(values, column)
            offsets = offsets_at(times, self.output_zone or self.local)
            return self._printed(times, offsets, values, column)
        encoded = self._as_texts(values, column).dictionary_encode()
        texts = pc.fill_null(encoded.dictionary, "")
        times, offsets = self._times_of_texts(texts, column)
        if self.output_zone is not None:
            offsets = offsets_at(times, self.output_zone)
        return self._printed(times, offsets, texts, column).take(encoded.indices)

    def _printed(self, times: Longs, offsets: Longs, values: pa.Array, column: str) -> pa.StringArray:
        local = times + offsets
        beyond = (local < EARLIEST) | (local >= END)
        if beyond.any():
            raise _no_time(values[int(np.flatnonzero(beyond)[0])].as_py(), column, "its year is not one of 1 to 9999")
        return self.printer.print(local, offsets)

    def _times_of_numbers(self, values: pa.Array, column: str) -> Longs:
        assert self.unit is not None
        numbers: Longs = _long_values(values, column).fill_null(1).to_numpy(zero_copy_only=False)
        factor, divisor = UNITS[self.unit]
        if divisor > 1:
            below = (numbers < 0) & (numbers % divisor != 0)
            whole: Longs = numbers // divisor + below  # towards zero, as in Java; the least number has no magnitude
            return whole
        beyond = (numbers < EARLIEST // factor - 1) | (numbers > END // factor)
        if beyond.any():
            raise _no_time(int(numbers[beyond][0]), column, "its year is not one of 1 to 9999")
        return numbers * factor

    def _as_texts(self, values: pa.Array, column: str) -> pa.StringArray:
        if not (pa.types.is_string(values.type) or pa.types.is_null(values.type)):
            raise ConfigError(
                f"Column '{column}' of type {values.type} cannot be a partition value of a timestamp key generator "
                f"whose {PREFIX}{TYPE} is DATE_STRING or MIXED; supported: texts; use another type"
            )
        zone_of_null = self.input_zone or self.output_zone or datetime.timezone.utc
        offset = offsets_at(np.array([1], np.int64), zone_of_null)
        null = DatePrinter(self.first_format, PREFIX + INPUT_FORMAT).print(offset + 1, offset)[0]
        return pc.fill_null(values.cast(pa.string()), null)

    def _times_of_texts(self, texts: pa.StringArray, column: str) -> tuple[Longs, Longs]:
        """Parses each text; returns the times, and the offset of the text's own zone from UTC."""
        times, offsets = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
        left = np.arange(len(texts))
        for parser in self.parsers:
            if not len(left):
                break
            parsed = parser.parse(texts.take(pa.array(left)))
            own, exist = parsed.offsets, parsed.exist
            if own is None:
                own, local_exist = offsets_at_local(parsed.local, self.input_zone or self.local)
                exist = exist & local_exist
            # the first pattern that a text matches decides, as in Joda-Time: a later one might read it as another time
            if (parsed.fit & ~exist).any():
                self._refuse(texts[int(left[parsed.fit & ~exist][0])], column, parser.pattern)
            utc = parsed.local - own
            position = left[parsed.fit]
            times[position] = utc[parsed.fit]
            offsets[position] = (own if self.input_zone is None else offsets_at(utc, self.input_zone))[parsed.fit]
            left = left[~parsed.fit]
        if len(left):
            self._refuse(texts[int(left[0])], column, " or ".join(parser.pattern for parser in self.parsers))
        return times, offsets

    @staticmethod
    def _refuse(text: pa.StringScalar, column: str, formats: str) -> NoReturn:
        why = f"the pattern is {formats} ({PREFIX}{INPUT_FORMAT}), for the years 1 to 9999"
        raise _no_time(text.as_py(), column, why)


def _long_values(values: pa.Array, column: str) -> pa.Array:
    """Converts values as Java's `longValue` does; null stays."""
    kind, types = values.type, pa.types
    if types.is_date32(kind):
        values = values.cast(pa.int32())
    elif types.is_decimal(kind):
        values = pc.trunc(values)
    elif types.is_floating(kind):
        values = pc.trunc(pc.if_else(pc.is_nan(values), pa.scalar(0, kind), values))
    elif not (types.is_integer(kind) or types.is_timestamp(kind) or types.is_null(kind)):
        raise ConfigError(
            f"Column '{column}' of type {kind} cannot be a partition value of a timestamp key generator with this "
            f"{PREFIX}{TYPE}; supported: integers, float, double, decimal, date and timestamp, and with DATE_STRING "
            "texts"
        )
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise _no_time(str(pc.max(values)), column, str(error)) from error


def _no_time(value: object, column: str, why: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"Column '{column}' holds {value!r}, which no partition can be named after: {why}")


def _java_split(text: str, delimiter: str) -> list[str]:
    """Splits as Java's `String.split`."""
    try:
        parts = re.split(delimiter, text)
    except re.error as error:
        raise ConfigError(f"Option {PREFIX}{INPUT_DELIMITER} = '{delimiter}' is not a valid pattern: {error}") from None
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
