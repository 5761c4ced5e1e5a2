"""Parses text as points in time by a pattern, as Joda-Time does."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.expressions.calendar import MONTHS, OFFSET, Bools, Longs, local_times, named_months, offsets_of
from hudi_py.expressions.dates.patterns import DAY, SECOND, JodaToken, tokens

_LETTERS = "YyMdDaHhKkmsSZ"
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
        parts = tokens(self.pattern, _LETTERS, self.key)
        letters = [token.letter for token in parts if token.letter]
        if {"y", "Y"}.isdisjoint(letters):
            raise self._refused("has no year; add yyyy")
        for some in (*_CLASHES, *_LETTERS):
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
