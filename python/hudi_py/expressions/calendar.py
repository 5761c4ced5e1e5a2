"""Splits points in time into parts and joins parts: the common ground of Spark's and Joda-Time's date patterns.

Times are wall-clock times since the epoch; `second` is the number of their units in a second, a thousand or a million.
Letters are those with the same meaning in both kinds of patterns. The calendar is Gregorian at all times, and NumPy's,
which has all years of 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
OFFSET: Final = r"Z|[+-]\d\d(?::?[0-5]\d(?::?[0-5]\d)?)?"
"""Pattern of the text that `offsets_of` accepts."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The parts of wall-clock times."""

    year: Longs
    month: Longs
    day: Longs
    day_of_year: Longs
    weekday: Longs
    """0 is Monday."""
    hour: Longs
    minute: Longs
    second: Longs
    fraction: Longs
    """The fraction of a second, in the unit of the times."""

    @classmethod
    def of(cls, local: Longs, second: int) -> WallClock:
        number, in_day = np.divmod(local, 86_400 * second)
        days = number.astype("datetime64[D]")
        months, years = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
        return cls(
            years.astype(np.int64) + 1970,
            months.astype(np.int64) % 12 + 1,
            (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
            (days - years.astype("datetime64[D]")).astype(np.int64) + 1,
            (number + 3) % 7,
            in_day // (3600 * second),
            in_day // (60 * second) % 60,
            in_day // second % 60,
            in_day % second,
        )

    @property
    def by_letter(self) -> dict[str, Longs]:
        """Returns the numbers of letters with the same meaning in both kinds of patterns, except years and
        fractions."""
        return {
            "M": self.month,
            "d": self.day,
            "D": self.day_of_year,
            "H": self.hour,
            "k": (self.hour - 1) % 24 + 1,
            "K": self.hour % 12,
            "h": (self.hour - 1) % 12 + 1,
            "m": self.minute,
            "s": self.second,
        }


def local_times(
    values: Mapping[str, Longs], given: Mapping[str, Bools], rows: int, *, second: int, years: tuple[int, int, int]
) -> tuple[Longs, Bools]:
    """Computes wall-clock times from the numbers of letters.

    Args:
        values: by letter, `a` as 0 or 1 and `S` in the unit of the times.
        given: which rows have a number of a letter; all of them have one of a letter that is not there.
        rows: how many there are.
        years: the first and the last that may be given, and the year of those which have none.

    Returns:
        The times, and which of them exist.
    """
    exist = np.ones(rows, np.bool_)

    def of(letter: str, low: int, high: int, default: int) -> Longs:
        if letter not in values:
            return np.full(rows, default, np.int64)
        number = np.where(given[letter], values[letter], default) if letter in given else values[letter]
        np.logical_and(exist, (number >= low) & (number <= high), out=exist)
        return np.clip(number, low, high)

    year = of("y", *years)
    month, day, in_year = of("M", 1, 12, 1), of("d", 1, 31, 1), of("D", 1, 366, 1)
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (day - 1) + (in_year - 1)
    whole = "Y" if "D" in values else "M"  # a day beyond the end belongs to the next year or month
    exist &= days.astype(f"datetime64[{whole}]") == first.astype(f"datetime64[{whole}]")
    if "H" in values or "k" in values:
        hour = of("H", 0, 23, 0) + of("k", 1, 24, 24) % 24
    else:
        hour = of("h", 1, 12, 12) % 12 + of("K", 0, 11, 0) + of("a", 0, 1, 0) * 12
    seconds = hour * 3600 + of("m", 0, 59, 0) * 60 + of("s", 0, 59, 0)
    return (days.astype(np.int64) * 86_400 + seconds) * second + of("S", 0, second - 1, 0), exist


def named_months(texts: pa.StringArray) -> Longs:
    """Returns months by English names or their first three letters, in any case; 1 for other text."""
    short = pa.array([name[:3].lower() for name in MONTHS])
    months = pc.index_in(pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, 3)), value_set=short)
    return np.asarray(pc.fill_null(months, 0).to_numpy(), np.int64) + 1


def offsets_of(texts: pa.StringArray, second: int) -> Longs:
    """Parses offsets such as `Z`, `+01`, `+0130` and `+01:30:15`; 0 for empty text."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(texts, "[^0-9]", ""), 6, padding="0")
    hours, minutes, seconds = (
        pc.utf8_slice_codeunits(digits, index, index + 2).cast(pa.int64()).to_numpy() for index in (0, 2, 4)
    )
    size: Longs = (hours * 3600 + minutes * 60 + seconds) * second
    return np.where(np.asarray(pc.starts_with(texts, "-")), -size, size)
