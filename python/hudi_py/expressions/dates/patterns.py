"""Date patterns in Joda-Time's letters, which Apache Hudi's key generators use (`DateTimeFormat`): parses and prints
points in time by them."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.expressions.calendar import (
    DAYS,
    MONTHS,
    OFFSET,
    Bools,
    Longs,
    WallClock,
    local_times,
    named_months,
    offsets_of,
)

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'?|[^A-Za-z']+")


@dataclass(frozen=True, slots=True)
class JodaToken:
    """A part of a pattern: a repeated letter, or text."""

    letter: str
    """The letter; empty for text."""
    count: int
    text: str = ""

    @property
    def is_name(self) -> bool:
        """Returns whether the token names a month or a weekday."""
        return self.letter == "E" or (self.letter == "M" and self.count >= 3)

    @property
    def is_number(self) -> bool:
        return self.letter not in ("", "a", "Z") and not self.is_name


def tokens(pattern: str, letters: str, key: str) -> tuple[JodaToken, ...]:
    """Splits a pattern into tokens. Text is in single quotes, or has no letters; two quotes mean one.

    Args:
        letters: the supported ones.
        key: the option that holds the pattern, for errors.

    Raises:
        ConfigError: the pattern is empty, or has other letters.
    """
    result = []
    for part in _TOKEN.finditer(pattern):
        text = part[0]
        if part[1]:
            result.append(JodaToken(part[1], len(text)))
            continue
        if text[0] == "'" and text != "''":
            text = text[1:].removesuffix("'")
        result.append(JodaToken("", 0, text.replace("''", "'")))
    if not result:
        raise ConfigError(f"Option {key} is empty; expected a date pattern such as yyyy-MM-dd")
    for token in result:
        if token.letter and (token.letter not in letters or (token.letter == "Z" and token.count > 2)):
            raise ConfigError(
                f"Option {key} = '{pattern}' has {token.letter * token.count}, which is not supported; supported: "
                f"{' '.join(letters)} with Joda-Time's meanings, Z once or twice: change the pattern, or put text in "
                "single quotes"
            )
    return tuple(result)


_PARSED_LETTERS = "YyMdDaHhKkmsSZ"
_CLASHES = ("Yy", "DM", "Dd", "HhKk")
"""Letters of which a pattern may contain only one."""
_MAX_YEAR_DIGITS = 9
"""Maximum digits of a year that no other number follows."""
_YEARS = (1, 9999, 1)


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """Results of parsing texts by a pattern."""

    local: Longs
    """Wall-clock times in milliseconds since the epoch."""
    offsets: Longs | None
    """Offsets ahead of UTC in milliseconds. None: the pattern has no zone."""
    fit: Bools
    """Which texts match the pattern."""
    exist: Bools
    """Which of the matching texts name a time of the years 1 to 9999."""


@dataclass(frozen=True)
class DateParser:
    """Parses text, ignoring case; names of months are English. Can be pickled."""

    pattern: str
    key: str
    """The option that holds the pattern, for errors."""

    @cached_property
    def tokens(self) -> tuple[JodaToken, ...]:
        """Splits the pattern into tokens. Raises `ConfigError` if letters are not supported or exclude each other."""
        parts = tokens(self.pattern, _PARSED_LETTERS, self.key)
        letters = [token.letter for token in parts if token.letter]
        if {"y", "Y"}.isdisjoint(letters):
            raise self._refused("has no year; add yyyy")
        for some in (*_CLASHES, *_PARSED_LETTERS):
            if sum(letter in some for letter in letters) > 1:
                raise self._refused(f"has more than one of the letters {' '.join(some)}; supported: one")
        return parts

    def _refused(self, what: str) -> ConfigError:
        return ConfigError(f"Option {self.key} = '{self.pattern}' {what}")

    @cached_property
    def _regex(self) -> str:
        parts = [_token_regex(token, after) for token, after in self._pairs()]
        return f"(?i)^{''.join(parts)}$"

    def _pairs(self) -> list[tuple[JodaToken, JodaToken]]:
        """Pairs each token with the next one."""
        return list(zip(self.tokens, (*self.tokens[1:], JodaToken("", 0)), strict=True))

    def parse(self, texts: pa.StringArray) -> ParsedTimes:
        """Parses texts without nulls."""
        groups = pc.extract_regex(texts, self._regex)
        fit = groups.is_valid().to_numpy(zero_copy_only=False)
        matched = {field.name: pc.fill_null(groups.field(field.name), "") for field in groups.type}
        values: dict[str, Longs] = {}
        lengths: dict[str, Longs] = {}
        for token in self.tokens:
            if token.is_number:
                values[token.letter], lengths[token.letter] = _parse_numbers(matched[token.letter])
            if token.letter == "S":
                values["S"] = _to_milliseconds(matched["S"])
            if token.letter == "M" and token.is_name:
                values["M"] = named_months(matched["M"])
            if token.letter in ("y", "Y") and token.count == 2:
                values[token.letter] = _with_century(values[token.letter], lengths[token.letter])
        for token, after in self._pairs():
            if token.is_number and after.is_number:
                # a number takes as many digits as it can before the next number gets any
                fit &= (lengths[token.letter] == _max_digits(token, after)) | (lengths[after.letter] == 0)
        if "a" in matched:
            values["a"] = pc.equal(pc.utf8_lower(matched["a"]), "pm").to_numpy(zero_copy_only=False).astype(np.int64)
        if "Y" in values:
            values["y"] = values.pop("Y")
        local, possible = local_times(values, {}, len(texts), second=SECOND, years=_YEARS)
        offsets = offsets_of(matched["Z"], SECOND) if "Z" in matched else None
        if offsets is not None:
            fit &= np.abs(offsets) < DAY
        return ParsedTimes(local, offsets, fit, possible)


def _max_digits(token: JodaToken, after: JodaToken) -> int:
    if token.letter in "yY":
        return token.count if after.is_number else _MAX_YEAR_DIGITS
    if token.letter == "S":
        return token.count
    return 3 if token.letter == "D" else 2


def _token_regex(token: JodaToken, after: JodaToken) -> str:
    letter, most = token.letter, _max_digits(token, after)
    if not letter:
        return re.escape(token.text)
    if letter == "Z":
        return f"(?P<Z>{OFFSET})"
    if letter == "a":
        return "(?P<a>AM|PM)"
    if token.is_name:
        return f"(?P<M>{'|'.join((*MONTHS, *(name[:3] for name in MONTHS)))})"
    if letter in "yY" and token.count == 2 and after.is_number:
        return rf"(?P<{letter}>\d\d)"
    sign = "[+-]?" if letter == "y" else ""
    return rf"(?P<{letter}>{sign}\d{{1,{most}}})"


def _parse_numbers(texts: pa.StringArray) -> tuple[Longs, Longs]:
    """Returns numbers, 0 for empty text, and how many digits they have; 0 digits for signed numbers."""
    plain = pc.utf8_ltrim(texts, characters="+")
    values = pc.if_else(pc.equal(plain, ""), "0", plain).cast(pa.int64()).to_numpy()
    signed = pc.match_substring_regex(texts, "^[+-]")
    return values, pc.if_else(signed, 0, pc.utf8_length(texts)).to_numpy().astype(np.int64)


def _to_milliseconds(digits: pa.StringArray) -> Longs:
    """Converts fractions of a second to milliseconds."""
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 3, padding="0"), 0, 3)
    result: Longs = padded.cast(pa.int64()).to_numpy()
    return result


def _with_century(years: Longs, lengths: Longs) -> Longs:
    """Adds the century to years of two digits: the one that is within 50 years of the year 30 years ago."""
    first = datetime.datetime.now().year - 80
    return np.where(lengths == 2, first + (years - first) % 100, years)


_PRINTED_LETTERS = "CYyxwMdDeEaHhKkmsSZ"
_MAX_MINUTES = 2_048
"""Bound of the minutes that a clock is ahead of UTC or behind it."""
_UNITS = (("S", 1), ("s", SECOND), ("m", MINUTE), ("aHhKk", HOUR))


@dataclass(frozen=True)
class DatePrinter:
    """Prints points in time. Names of months and days are English. Can be pickled."""

    pattern: str
    key: str
    """The option that holds the pattern, for errors."""

    @cached_property
    def tokens(self) -> tuple[JodaToken, ...]:
        """Splits the pattern into tokens. Raises `ConfigError` if letters are not supported."""
        return tokens(self.pattern, _PRINTED_LETTERS, self.key)

    @cached_property
    def _unit(self) -> int:
        """Returns the milliseconds within which all times print alike."""
        letters = {token.letter for token in self.tokens}
        return next((unit for some, unit in _UNITS if not letters.isdisjoint(some)), DAY)

    def print(self, local: Longs, offsets: Longs) -> pa.StringArray:
        """Prints each point in time.

        Args:
            local: wall-clock times in milliseconds since the epoch, of the years 1 to 9999.
            offsets: what they are ahead of UTC, in milliseconds.
        """
        whole = local - local % self._unit
        if any(token.letter == "Z" for token in self.tokens):
            minutes = np.sign(offsets) * (np.abs(offsets) // MINUTE)
        else:
            minutes = np.zeros_like(offsets)
        encoded = pa.array(whole * (2 * _MAX_MINUTES) + (minutes + _MAX_MINUTES)).dictionary_encode()
        times, offset = np.divmod(encoded.dictionary.to_numpy(), 2 * _MAX_MINUTES)
        # a Python loop over distinct texts, which become partitions
        texts = [
            "".join([_token_text(token, numbers, ahead) for token in self.tokens])
            for numbers, ahead in zip(_letter_numbers(times), (offset - _MAX_MINUTES).tolist(), strict=True)
        ]
        return pa.array(texts, pa.string()).take(encoded.indices)


def _letter_numbers(local: Longs) -> list[dict[str, int]]:
    """Returns the numbers of all letters at each wall-clock time."""
    fields = WallClock.of(local, SECOND)
    thursday = (local // DAY).astype("datetime64[D]") + (3 - fields.weekday)
    week_year = thursday.astype("datetime64[Y]")
    columns = {
        **fields.by_letter,
        "y": fields.year,
        "x": week_year.astype(np.int64) + 1970,
        "w": (thursday - week_year.astype("datetime64[D]")).astype(np.int64) // 7 + 1,
        "e": fields.weekday + 1,
        "S": fields.fraction,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _token_text(token: JodaToken, numbers: dict[str, int], offset: int) -> str:
    """Prints a token. `offset` is in minutes ahead of UTC."""
    letter, count = token.letter, token.count
    if not letter:
        return token.text
    if token.is_name or letter == "E":
        name = MONTHS[numbers["M"] - 1] if letter == "M" else DAYS[numbers["e"] - 1]
        return name if count > 3 else name[:3]
    if letter == "a":
        return "PM" if numbers["H"] >= 12 else "AM"
    if letter == "S":
        return f"{numbers['S']:03d}".ljust(count, "0")[:count]
    if letter == "Z":
        hours, minutes = divmod(abs(offset), 60)
        return f"{'-' if offset < 0 else '+'}{hours:02d}{':' if count == 2 else ''}{minutes:02d}"
    if letter == "C":
        return f"{numbers['y'] // 100:0{count}d}"
    if letter in "Yyx":
        year = numbers["x" if letter == "x" else "y"]
        return f"{year % 100:02d}" if count == 2 else f"{year:0{count}d}"
    return f"{numbers[letter]:0{count}d}"
