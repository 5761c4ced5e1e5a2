"""Texts as points in time, by a pattern, as Joda-Time parses them."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.write.rows.keygen.dates.patterns import DAY, HOUR, MINUTE, MONTHS, SECOND, Token, tokens

_LETTERS = "YyMdDaHhKkmsSZ"
_CLASHES = ("Yy", "DM", "Dd", "HhKk")
"""Letters of which a pattern may have one."""
_LONGEST_YEAR = 9
"""Digits of a year that no other number follows."""

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """What a pattern makes of texts."""

    local: Longs
    """Wall-clock times in milliseconds since the epoch."""
    offsets: Longs | None
    """What they are ahead of UTC, in milliseconds. None: the pattern does not say."""
    valid: Bools
    """Which of the texts have the form and name a time of the years 1 to 9999."""


@dataclass(frozen=True)
class DateParser:
    """Parses texts. Case does not count; names of months are English. Pickles."""

    pattern: str
    key: str
    """The option that holds the pattern, for errors."""

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Raises `ConfigError` if the pattern has letters that are not supported, or that do not go together."""
        found = tokens(self.pattern, _LETTERS, self.key)
        letters = [token.letter for token in found if token.letter]
        if {"y", "Y"}.isdisjoint(letters):
            raise self._refused("has no year; add yyyy")
        for some in (*_CLASHES, *_LETTERS):
            if sum(letter in some for letter in letters) > 1:
                raise self._refused(f"has more than one of the letters {' '.join(some)}; supported is one")
        return found

    def _refused(self, what: str) -> ConfigError:
        return ConfigError(f"Option {self.key} = '{self.pattern}' {what}")

    @cached_property
    def _regex(self) -> str:
        parts = [_regex(token, after) for token, after in self._pairs()]
        return f"(?i)^{''.join(parts)}$"

    def _pairs(self) -> list[tuple[Token, Token]]:
        """Each part with the one after it."""
        return list(zip(self.tokens, (*self.tokens[1:], Token("", 0)), strict=True))

    def parse(self, texts: pa.StringArray) -> ParsedTimes:
        """The times of texts, which are not null."""
        found = pc.extract_regex(texts, self._regex)
        valid = found.is_valid().to_numpy(zero_copy_only=False)
        matched = {field.name: pc.fill_null(found.field(field.name), "") for field in found.type}
        values: dict[str, Longs] = {}
        lengths: dict[str, Longs] = {}
        for token in self.tokens:
            if token.is_number:
                values[token.letter], lengths[token.letter] = _number(matched[token.letter])
            if token.letter == "S":
                values["S"] = _thousandths(matched["S"])
            if token.letter == "M" and token.is_name:
                names = pc.utf8_lower(pc.utf8_slice_codeunits(matched["M"], 0, 3))
                short = pa.array([name[:3].lower() for name in MONTHS])
                values["M"] = pc.fill_null(pc.index_in(names, value_set=short), 0).to_numpy().astype(np.int64) + 1
            if token.letter in ("y", "Y") and token.count == 2:
                values[token.letter] = _with_century(values[token.letter], lengths[token.letter])
        for token, after in self._pairs():
            if token.is_number and after.is_number:
                # a number takes all digits that it can before the next one gets any
                valid &= (lengths[token.letter] == _most_digits(token, after)) | (lengths[after.letter] == 0)
        if "a" in matched:
            values["a"] = pc.equal(pc.utf8_lower(matched["a"]), "pm").to_numpy(zero_copy_only=False).astype(np.int64)
        local, possible = _local(values, len(texts))
        offsets = _offsets(matched["Z"]) if "Z" in matched else None
        if offsets is not None:
            possible &= np.abs(offsets) < DAY
        return ParsedTimes(local, offsets, valid & possible)


def _most_digits(token: Token, after: Token) -> int:
    if token.letter in "yY":
        return token.count if after.is_number else _LONGEST_YEAR
    if token.letter == "S":
        return token.count
    return 3 if token.letter == "D" else 2


def _regex(token: Token, after: Token) -> str:
    letter, most = token.letter, _most_digits(token, after)
    if not letter:
        return re.escape(token.text)
    if letter == "Z":
        return r"(?P<Z>Z|[+-]\d\d(?::?[0-5]\d(?::?[0-5]\d)?)?)"
    if letter == "a":
        return "(?P<a>AM|PM)"
    if token.is_name:
        return f"(?P<M>{'|'.join((*MONTHS, *(name[:3] for name in MONTHS)))})"
    if letter in "yY" and token.count == 2 and after.is_number:
        return rf"(?P<{letter}>\d\d)"
    sign = "[+-]?" if letter == "y" else ""
    return rf"(?P<{letter}>{sign}\d{{1,{most}}})"


def _number(texts: pa.StringArray) -> tuple[Longs, Longs]:
    """Numbers, 0 for empty texts, and how many digits they have; 0 for those with a sign."""
    plain = pc.utf8_ltrim(texts, characters="+")
    values = pc.if_else(pc.equal(plain, ""), "0", plain).cast(pa.int64()).to_numpy()
    signed = pc.match_substring_regex(texts, "^[+-]")
    return values, pc.if_else(signed, 0, pc.utf8_length(texts)).to_numpy().astype(np.int64)


def _thousandths(digits: pa.StringArray) -> Longs:
    """Fractions of a second as milliseconds."""
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 3, padding="0"), 0, 3)
    result: Longs = padded.cast(pa.int64()).to_numpy()
    return result


def _with_century(years: Longs, lengths: Longs) -> Longs:
    """Years, of which those of two digits are within 50 years of the year 30 years ago."""
    first = datetime.datetime.now().year - 80
    return np.where(lengths == 2, first + (years - first) % 100, years)


def _local(values: dict[str, Longs], rows: int) -> tuple[Longs, Bools]:
    """Wall-clock times of the numbers of letters, and which of them exist."""

    def of(letter: str, low: int, high: int, default: int) -> Longs:
        given = values.get(letter)
        if given is None:
            return np.full(rows, default, np.int64)
        np.logical_and(exist, (given >= low) & (given <= high), out=exist)
        return np.clip(given, low, high)

    exist = np.ones(rows, np.bool_)
    year = of("Y" if "Y" in values else "y", 1, 9999, 1)
    month, day, in_year = of("M", 1, 12, 1), of("d", 1, 31, 1), of("D", 1, 366, 1)
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (day - 1) + (in_year - 1)
    whole = "Y" if "D" in values else "M"  # a day beyond the end is of the next year or month
    exist &= days.astype(f"datetime64[{whole}]") == first.astype(f"datetime64[{whole}]")
    if "H" in values or "k" in values:
        hour = of("H", 0, 23, 0) + of("k", 1, 24, 24) % 24
    else:
        hour = of("h", 1, 12, 12) % 12 + of("K", 0, 11, 0) + of("a", 0, 1, 0) * 12
    in_day = hour * HOUR + of("m", 0, 59, 0) * MINUTE + of("s", 0, 59, 0) * SECOND + of("S", 0, 999, 0)
    return days.astype(np.int64) * DAY + in_day, exist


def _offsets(texts: pa.StringArray) -> Longs:
    """Offsets such as `Z`, `+01`, `+0130` and `+01:30:15` in milliseconds."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(texts, "[^0-9]", ""), 6, padding="0")
    parts = [pc.utf8_slice_codeunits(digits, at, at + 2).cast(pa.int64()).to_numpy() for at in (0, 2, 4)]
    size: Longs = parts[0] * HOUR + parts[1] * MINUTE + parts[2] * SECOND
    return np.where(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), -size, size)
