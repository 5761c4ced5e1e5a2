"""Prints points in time by a pattern, as Joda-Time does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hudi_py.expressions.calendar import DAYS, MONTHS, Longs, WallClock
from hudi_py.expressions.dates.patterns import DAY, HOUR, MINUTE, SECOND, JodaToken, tokens

_LETTERS = "CYyxwMdDeEaHhKkmsSZ"
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
        return tokens(self.pattern, _LETTERS, self.key)

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
