"""Converts instant times from and to points in time and the forms that users may write.

An instant time is wall-clock time, `yyyyMMddHHmmssSSS`, in the table's time zone: UTC, or the zone of the writer's
process (`hoodie.table.timeline.timezone`). Instant times are ordered as strings.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo

from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.zones import local_zone

MILLIS_DIGITS = 17
SECONDS_DIGITS = 14
_SPECIAL = frozenset({"00000000000000", "00000000000001", "00000000000002"})
"""The initial instant, the metadata bootstrap and the full bootstrap (`HoodieTimeline`, 1.2.0)."""

_FORMS = (
    "yyyyMMddHHmmssSSS, yyyyMMddHHmmss, yyyy-MM-dd, yyyy-MM-dd HH:mm[:ss[.SSS]], the same with T instead of the blank "
    "and with Z or +hh:mm at the end, a date or a datetime"
)
_DIGITS = re.compile(r"\d+", re.ASCII)
_READABLE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)


def table_zone(config: TableConfig, local: tzinfo | None = None) -> tzinfo:
    """Returns the zone of a table's instants: UTC, or for a LOCAL timeline `local` (None: this process's zone)."""
    return timezone.utc if config.timezone == "UTC" else (local or local_zone())


def is_bootstrap(instant_time: str) -> bool:
    """Returns whether an instant is a bootstrap, or the initial one."""
    return instant_time in _SPECIAL


def is_special(instant_time: str) -> bool:
    """Returns whether an instant time is not a real time: one of a bootstrap, or one of the metadata table of such a
    table, which appends digits to it."""
    return is_bootstrap(instant_time[:SECONDS_DIGITS])


def format_instant(epoch_ms: int, zone: tzinfo) -> InstantTime:
    """Formats a point in time, in milliseconds since the epoch, as an instant time in a zone."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, zone)
    return _text(moment, epoch_ms % 1000)


def epoch_ms(instant_time: str, zone: tzinfo, fold: int = 0) -> int:
    """Returns the point in time of an instant time, in milliseconds since the epoch.

    A time of 14 digits counts as the last millisecond of its second (`HoodieInstantTimeGenerator`, 1.2.0). `fold`
    selects the first or second occurrence of a repeated hour.

    Raises:
        ConfigError: the text is not a time.
    """
    moment, millis = _naive(instant_time)
    aware = moment.replace(tzinfo=zone, fold=fold)
    return (aware - _EPOCH) // _SECOND * 1000 + millis


def add_ms(instant_time: str, millis: int) -> InstantTime:
    """Returns the instant time `millis` milliseconds of wall-clock time later; 17 digits."""
    moment, own = _naive(instant_time)
    seconds, rest = divmod(own + millis, 1000)
    return _text(moment + timedelta(seconds=seconds), rest)


def parse_instant(value: str | int | date, zone: tzinfo) -> InstantTime:
    """Parses any form that Apache Hudi's `as.of.instant` accepts, ISO 8601, dates and datetimes.

    Times without a zone are in `zone`, others are converted to it. Times of 14 or 17 digits are returned unchanged, so
    one of 14 digits is before all 17-digit instants of its second, as in `HoodieSqlCommonUtils.formatQueryInstant`.
    Fractions are truncated to milliseconds.

    Raises:
        ConfigError: the value has none of these forms.
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(zone)
        return _text(moment, moment.microsecond // 1000)
    if isinstance(value, date):
        return _text(datetime(value.year, value.month, value.day), 0)
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        text = str(value).strip()
        if _DIGITS.fullmatch(text) and len(text) in (SECONDS_DIGITS, MILLIS_DIGITS):
            if not is_special(text):
                _naive(text)
            return InstantTime(text)
        match = _READABLE.fullmatch(text)
        if match:
            return _parse_readable(text, match, zone)
    raise _not_a_time(value)


def _parse_readable(text: str, match: re.Match[str], zone: tzinfo) -> InstantTime:
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
        if offset:
            moment = moment.replace(tzinfo=_offset(offset)).astimezone(zone)
    except (ValueError, OverflowError):
        raise _not_a_time(text) from None
    return _text(moment, int((fraction or "0").ljust(3, "0")[:3]))


def _offset(text: str) -> timezone:
    if text in "Zz":
        return timezone.utc
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-size if text[0] == "-" else size)


def _naive(instant_time: str) -> tuple[datetime, int]:
    """Splits an instant time into wall-clock time in whole seconds, and milliseconds. Ignores digits beyond 17
    (metadata table suffixes)."""
    digits = instant_time[:MILLIS_DIGITS]
    if is_special(instant_time):
        return datetime(1, 1, 1), 0
    try:
        if not _DIGITS.fullmatch(digits) or len(digits) not in (SECONDS_DIGITS, MILLIS_DIGITS):
            raise ValueError
        fields = [int(digits[:4]), *(int(digits[index : index + 2]) for index in range(4, 14, 2))]
        moment = datetime(*fields)  # type: ignore[arg-type]
    except ValueError:
        raise _not_a_time(instant_time) from None
    return moment, int(digits[14:] or "999")


def _text(moment: datetime, millis: int) -> InstantTime:
    # strftime does not pad years below 1000
    return InstantTime(
        f"{moment.year:04}{moment.month:02}{moment.day:02}"
        f"{moment.hour:02}{moment.minute:02}{moment.second:02}{millis:03}"
    )


def _not_a_time(value: object) -> ConfigError:
    return ConfigError(f"Cannot take {value!r} as the time of an instant; expected one of: {_FORMS}")


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = timedelta(seconds=1)
