"""Time zones by Java's names, and their offsets from UTC."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from hudi_py.errors import ConfigError
from hudi_py.expressions.calendar import Bools, Longs
from hudi_py.expressions.dates.patterns import DAY, MINUTE

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
