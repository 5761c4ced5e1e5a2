"""Spark's date and time patterns (`DateTimeFormatterHelper`, 3.5), with the letters of `DateTimeFormatter`.

Names are English (`Locale.US`), and parsing is strict, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", re.DOTALL)
_TWO: Final = dict.fromkeys("dHhKkms", 2)
_PARSED_LETTERS: Final = {**_TWO, "y": 10, "M": 4, "L": 4, "D": 3, "S": 9, "a": 1, "X": 5, "x": 5, "Z": 5}
"""Letters supported for parsing, with the maximum number of repetitions."""
_PRINTED_LETTERS: Final = {**_PARSED_LETTERS, "G": 4, "E": 4, "Q": 4, "q": 4}
_CLASHES: Final = ("ML", "HhKk", "XxZ")
"""Letters of which a pattern for parsing may contain only one."""
_YEARS: Final = (-290_307, 294_246, 1970)
"""First and last whole year within 64-bit microseconds since the epoch, and the year for patterns without one."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a pattern: a repeated letter, or text."""

    letter: str
    """The letter, or a bracket that begins or ends an optional part; empty for text."""
    count: int
    text: str = ""

    @property
    def is_number(self) -> bool:
        return self.letter in tuple("yDdHhKkmsS") or (self.letter in ("M", "L") and self.count < 3)


@dataclass(frozen=True)
class DatePattern:
    """A date pattern. Can be pickled."""

    text: str

    def check(self, *, parsing: bool) -> None:
        """Raises `ValueError`, with the reason, if the pattern cannot be used for printing, or for parsing."""
        tokens = self.tokens
        most = _PARSED_LETTERS if parsing else _PRINTED_LETTERS
        for token in tokens:
            if token.letter and token.letter not in "[]" and token.count > most.get(token.letter, 0):
                raise ValueError(
                    f"the pattern {self.text!r} has {token.letter * token.count}, which is not supported here; "
                    f"supported: {' '.join(most)}, and text in single quotes"
                )
        if not parsing:
            return
        letters = [token.letter for token in tokens if token.letter and token.letter not in "[]"]
        for some in (*_CLASHES, *_PARSED_LETTERS):
            if sum(letter in some for letter in letters) > 1:
                raise ValueError(f"the pattern {self.text!r} has more than one of the letters {' '.join(some)}")
        if "D" in letters and not {"M", "L", "d"}.isdisjoint(letters):
            raise ValueError(f"the pattern {self.text!r} combines D with a month or a day of the month")

    @property
    def has_offset(self) -> bool:
        """Returns whether the pattern has a letter that depends on the zone."""
        return any(token.letter in ("X", "x", "Z") for token in self.tokens)

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Splits the pattern into tokens. Raises `ValueError` if it is not valid."""
        result: list[Token] = []
        depth = 0
        for part in _TOKEN.finditer(self.text):
            text = part[0]
            if part[1]:
                result.append(Token(part[1], len(text)))
            elif text in "[]":
                depth += 1 if text == "[" else -1
                if depth < 0:
                    raise ValueError(f"the pattern {self.text!r} has a ] without [")
                result.append(Token(text, 1))
            elif text in "{}#'":
                raise ValueError(f"the pattern {self.text!r} has {text}, which is reserved")
            else:
                result.append(Token("", 0, text if len(text) < 2 else text[1:-1].replace("''", "'") or "'"))
        result.extend([Token("]", 1)] * depth)
        return tuple(result)

    def print(self, local: Longs, offsets: Longs) -> pa.StringArray:
        """Prints each point in time.

        Args:
            local: wall-clock times in microseconds since the epoch.
            offsets: what they are ahead of UTC, in microseconds.
        """
        fields = WallClock.of(local, SECOND)
        era = any(token.letter == "G" for token in self.tokens)
        parts = [
            _token_texts(token, fields, offsets, era=era) for token in self.tokens if token.letter not in ("[", "]")
        ]
        texts = pc.binary_join_element_wise(*parts, "") if parts else pa.repeat("", len(local))
        return texts if isinstance(texts, pa.Array) else pa.repeat(texts, len(local))

    def parse(self, texts: pa.StringArray) -> tuple[Longs, Longs | None, Bools]:
        """Parses texts as times.

        Returns:
            Wall-clock times in microseconds since the epoch; what they are ahead of UTC (None: the pattern does not
            say; a text that leaves it out has the least number); and which texts have the form and name a time.
        """
        groups = pc.extract_regex(pc.fill_null(texts, "\0"), self._regex)
        valid = groups.is_valid().to_numpy(zero_copy_only=False) & np.asarray(texts.is_valid())
        matched = {field.name: pc.fill_null(groups.field(field.name), "") for field in groups.type}
        values = {
            letter: _parse_numbers(part) for letter, part in matched.items() if letter not in ("M", "L", "S", "a", "X")
        }
        for token in self.tokens:
            if token.letter == "S":
                values["S"] = _parse_numbers(pc.utf8_slice_codeunits(pc.utf8_rpad(matched["S"], 6, padding="0"), 0, 6))
            if token.letter in ("M", "L"):
                values["M"] = _parse_numbers(matched["M"]) if token.count < 3 else named_months(matched["M"])
            if token.letter == "y" and token.count == 2:
                values["y"] = values["y"] + 2000
        if "a" in matched:
            afternoon = pc.equal(pc.utf8_lower(matched["a"]), "pm")
            values["a"] = np.asarray(afternoon.to_numpy(zero_copy_only=False), np.int64)
        given = {letter: np.asarray(pc.not_equal(part, "")) for letter, part in matched.items()}
        local, possible = local_times(values, given, len(texts), second=SECOND, years=_YEARS)
        offsets = None
        if "X" in matched:
            found_offsets = offsets_of(matched["X"], SECOND)
            possible &= np.abs(found_offsets) <= 18 * HOUR
            offsets = np.where(given["X"], found_offsets, np.iinfo(np.int64).min)
        return local, offsets, valid & possible

    @cached_property
    def _regex(self) -> str:
        parts = [_token_regex(token, self.tokens[index + 1 :]) for index, token in enumerate(self.tokens)]
        return f"(?is)^{''.join(parts)}$"


def _printed_year(year: Longs, count: int, *, era: bool) -> pa.Array:
    if era:
        year = np.where(year > 0, year, 1 - year)
    return _zero_padded(year % 100, 2) if count == 2 else _year_texts(year, count)


def _printed_quarter(quarter: Longs, count: int) -> pa.Array:
    if count < 3:
        return _zero_padded(quarter + 1, count)
    short, long = ("Q1", "Q2", "Q3", "Q4"), ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
    return _chosen_names(short if count == 3 else long, quarter)


def _token_texts(token: Token, fields: WallClock, offsets: Longs, *, era: bool) -> pa.Array | str:
    letter, count = token.letter, token.count
    if not letter:
        return token.text
    if letter == "y":
        return _printed_year(fields.year, count, era=era)
    if letter in "ML" and count > 2:
        return _chosen_names([name[: None if count > 3 else 3] for name in MONTHS], fields.month - 1)
    if letter == "E":
        return _chosen_names([name[: None if count > 3 else 3] for name in DAYS], fields.weekday)
    if letter == "G":
        return _chosen_names(
            ["BC", "AD"] if count < 4 else ["Before Christ", "Anno Domini"], (fields.year > 0).astype(int)
        )
    if letter in "Qq":
        return _printed_quarter((fields.month - 1) // 3, count)
    if letter == "a":
        return _chosen_names(["AM", "PM"], fields.hour // 12)
    if letter == "S":
        return pc.utf8_slice_codeunits(pc.utf8_rpad(_zero_padded(fields.fraction, 6), 9, padding="0"), 0, count)
    if letter in "XxZ":
        return _offset_texts(letter, count, offsets)
    return _zero_padded(fields.by_letter["M" if letter == "L" else letter], count)


def _zero_padded(numbers: Longs, width: int) -> pa.StringArray:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, padding="0")


def _year_texts(years: Longs, width: int) -> pa.StringArray:
    """Prints years with a sign if they are negative or exceed the pattern's digits, of which there are at least four
    (`SignStyle`)."""
    beyond = years >= 10**width if width >= 4 else np.zeros(len(years), np.bool_)
    signs = _chosen_names(["", "-", "+"], np.where(years < 0, 1, np.where(beyond, 2, 0)))
    return pc.binary_join_element_wise(signs, _zero_padded(np.abs(years), width), "")


def _chosen_names(names: Sequence[str], numbers: Longs) -> pa.StringArray:
    return pa.array(names, pa.string()).take(pa.array(numbers))


def _offset_texts(letter: str, count: int, offsets: Longs) -> pa.StringArray:
    encoded = pa.array(offsets).dictionary_encode()
    # a Python loop over distinct offsets of a zone, which are few
    texts = [_offset_text(letter, count, offset // SECOND) for offset in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _offset_text(letter: str, count: int, offset: int) -> str:
    """Prints an offset in seconds (`DateTimeFormatterBuilder.appendOffset`, for ZZZZ `appendLocalizedOffset`)."""
    named = "GMT" if (letter, count) == ("Z", 4) else ""
    if not offset and (named or letter == "X" or (letter, count) == ("Z", 5)):
        return named or "Z"
    minutes, seconds = divmod(abs(offset), 60)
    hours, minutes = divmod(minutes, 60)
    colon = ":" if (count > 3 if letter == "Z" else count in (3, 5)) else ""
    text = f"{named}{'-' if offset < 0 else '+'}{hours:02d}"
    if count == 1 and letter != "Z" and not minutes:
        return text
    text += f"{colon}{minutes:02d}"
    return f"{text}{colon}{seconds:02d}" if count > 3 and seconds else text


def _token_regex(token: Token, after: Sequence[Token]) -> str:
    letter, count = token.letter, token.count
    if letter == "[":
        return "(?:"
    if letter == "]":
        return ")?"
    if not letter:
        return re.escape(token.text)
    if letter in "XxZ":
        return f"(?P<X>{OFFSET})"
    if letter == "a":
        return "(?P<a>AM|PM)"
    if letter in "ML":
        if count > 2:
            return f"(?P<M>{'|'.join(name[: None if count > 3 else 3] for name in MONTHS)})"
        return rf"(?P<M>\d{{{count}}})" if count == 2 else r"(?P<M>\d{1,2})"
    if letter == "S":
        # Spark accepts fewer digits than the pattern has
        return rf"(?P<S>\d{{1,{count}}})"
    if letter == "y" and count != 2:
        adjacent = bool(after) and after[0].is_number
        if count < 4:
            return rf"(?P<y>-?\d{{{count},6}})"
        longer = "" if adjacent else rf"|[+-]\d{{{count + 1},{max(count + 1, 6)}}}"
        return rf"(?P<y>-?\d{{{count}}}{longer})"
    most = 3 if letter == "D" else 2
    return rf"(?P<{letter}>\d{{{count if count > 1 else '1,' + str(most)}}})"


def _parse_numbers(texts: pa.StringArray) -> Longs:
    """Parses numbers; 0 for empty text."""
    plain = pc.utf8_ltrim(texts, characters="+")
    numbers: Longs = pc.if_else(pc.equal(plain, ""), "0", plain).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
