"""Functions of dates and times, and Spark's casts to these types."""

from __future__ import annotations

import re
import zoneinfo
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.calendar import Bools, Longs, WallClock
from hudi_py.expressions.functions.patterns import DAY, HOUR, MINUTE, SECOND, DatePattern
from hudi_py.expressions.functions.texts import as_texts

UTC: Final = "UTC"
DEFAULT_PATTERN: Final = "yyyy-MM-dd HH:mm:ss"
INSTANT: Final = pa.timestamp("us", UTC)
_AROUND: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""Characters around text that casts ignore."""
_NOTHING: Final = np.iinfo(np.int64).min
_LAST: Final = np.iinfo(np.int64).max
_DATE: Final = r"(?s)^(?P<y>[+-]?\d{4,7})(?:-(?P<M>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T].*)?)?)?$"
_TIME: Final = (
    r"(?s)^(?P<y>[+-]?\d{4,6})(?:-(?P<M>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T](?P<H>\d{1,2})(?::(?P<m>\d{1,2})"
    r"(?::(?P<s>\d{1,2})(?:\.(?P<S>\d*))?(?P<X>[^0-9.].*)?)?)?)?)?)?$"
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{1,2}))?", re.ASCII)
_WHOLE: Final = r"^[+-]?\d{1,18}(\.\d*)?$"


def is_time(kind: pa.DataType) -> bool:
    """Returns whether a column has dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def check_zone(zone: str) -> None:
    """Raises `ValueError` if there is no such time zone."""
    try:
        pc.local_timestamp(pa.array([0], INSTANT).cast(pa.timestamp("us", zone)))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"there is no time zone {zone!r}; expected UTC or a name such as Europe/Oslo") from error


def local_micros(values: pa.Array, zone: str) -> tuple[Longs, Longs]:
    """Returns wall-clock times in microseconds since the epoch, and their offsets from UTC; numbers for nulls are
    meaningless.

    Args:
        values: timestamps; those without a zone are wall-clock times already.
    """
    if values.type.tz is None:
        local = _long_values(_as_micros(values, None))
        return local, _long_values(_local_instants(_as_micros(values, None), zone)) * -1 + local
    instants = _as_micros(values, UTC)
    if zone == UTC:
        return _long_values(instants), np.zeros(len(values), np.int64)
    local = _long_values(pc.local_timestamp(instants.cast(pa.timestamp("us", zone))))
    return local, local - _long_values(instants)


def to_instants(values: pa.Array, zone: str) -> pa.Array:
    """Casts as `CAST(... AS TIMESTAMP)`: numbers are seconds. Text that is no time becomes null."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return _as_micros(values, UTC) if kind.tz is not None else _local_instants(_as_micros(values, None), zone)
    if pa.types.is_date(kind):
        return _local_instants(values.cast(pa.timestamp("us")), zone)
    if pa.types.is_boolean(kind):
        return _timestamp_array(values.cast(pa.int64()).fill_null(0).to_numpy(), values)
    if pa.types.is_integer(kind):
        whole = _long_values(values.cast(pa.int64()))
        most = (2**63 - 1) // SECOND
        micros = np.where(whole > most, _LAST, np.where(whole < -most, _NOTHING, np.clip(whole, -most, most) * SECOND))
        return _timestamp_array(micros, values)
    if pa.types.is_floating(kind):
        seconds = values.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
        known = np.isfinite(seconds)
        micros = np.where(known, seconds, 0) * SECOND
        inside = np.abs(micros) < 2.0**63
        whole = np.where(inside, micros, 0).astype(np.int64)
        return _timestamp_array(np.where(inside, whole, np.where(micros > 0, 2**63 - 1, -(2**63))), values, ~known)
    if pa.types.is_decimal(kind):
        scaled = pc.multiply(values.cast(pa.decimal256(38 + kind.scale - min(kind.scale, 0), kind.scale)), SECOND)
        return _timestamp_array(_long_values(pc.trunc(scaled).cast(pa.int64(), safe=False)), values)
    return _of_texts(pc.utf8_trim(as_texts(values), characters=_AROUND), zone)


def to_days(values: pa.Array, zone: str) -> pa.Array:
    """Casts as `CAST(... AS DATE)`; numbers are years, since they are cast to text first."""
    kind = values.type
    if pa.types.is_date32(kind):
        return values
    if pa.types.is_date(kind):
        return values.cast(pa.date32())
    if pa.types.is_timestamp(kind):
        local, _ = local_micros(values, zone)
        return _date_array(local // DAY, values)
    texts = pc.utf8_trim(as_texts(values), characters=_AROUND)
    days, valid = _civil_midnights(texts, _DATE)
    return _date_array(days // DAY, texts, ~valid)


def part(name: str, values: pa.Array, zone: str) -> pa.Array:
    """Returns `year`, `month`, `day` or `hour`."""
    if name == "hour":
        times = values if pa.types.is_timestamp(values.type) else to_instants(values, zone)
        numbers = WallClock.of(local_micros(times, zone)[0], SECOND).hour
    else:
        times = to_days(values, zone)
        fields = WallClock.of(_long_values(times.cast(pa.int32()).cast(pa.int64())) * DAY, SECOND)
        numbers = {"year": fields.year, "month": fields.month, "day": fields.day}[name]
    return pa.array(numbers.astype(np.int32), mask=_null_mask(times))


def shifted(values: pa.Array, days: int, zone: str) -> pa.Array:
    """Shifts dates by some days; beyond 32 bits they wrap, as in Java."""
    dates = to_days(values, zone)
    return _date_array(_long_values(dates.cast(pa.int32()).cast(pa.int64())) + days, dates)


def printed(values: pa.Array, pattern: DatePattern, zone: str) -> pa.Array:
    """Formats times as `date_format`."""
    times = to_instants(values, zone)
    return _with_nulls(pattern.print(*local_micros(times, zone)), times)


def from_seconds(values: pa.Array, pattern: DatePattern, zone: str) -> pa.Array:
    """Formats seconds as `from_unixtime`: the product in microseconds wraps, as in Java."""
    kind = values.type
    if pa.types.is_integer(kind):
        seconds = values.cast(pa.int64())
    elif pa.types.is_floating(kind):
        # as Java casts to long: NaN becomes 0, and larger values the greatest or the least number
        given = np.nan_to_num(values.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False))
        fits = np.abs(given) < 2.0**63
        beyond = np.where(given > 0, _LAST, _NOTHING)
        seconds = pa.array(
            np.where(fits, np.where(fits, given, 0).astype(np.int64), beyond), mask=np.asarray(values.is_null())
        )
    elif pa.types.is_decimal(kind):
        inside = pc.less(pc.abs(values.cast(pa.float64())), 2.0**63)
        seconds = pc.trunc(pc.if_else(inside, values, None)).cast(pa.int64())
    else:
        texts = pc.utf8_trim(as_texts(values), characters=_AROUND)
        known = pc.if_else(pc.match_substring_regex(texts, _WHOLE), texts, None)
        seconds = pc.utf8_ltrim(pc.replace_substring_regex(known, r"\..*", ""), characters="+").cast(pa.int64())
    return printed(_timestamp_array(_long_values(seconds) * SECOND, seconds), pattern, zone)


def parsed(values: pa.Array, pattern: DatePattern, zone: str) -> pa.Array:
    """Parses text as times by a pattern; casts dates and timestamps. Text that does not match becomes null."""
    if is_time(values.type):
        return to_instants(values, zone)
    texts = as_texts(values)
    return _instants_at(*pattern.parse(texts), zone)


def seconds_of(times: pa.Array) -> pa.Array:
    """Returns whole seconds since the epoch, rounded towards it, as Java divides."""
    micros = _long_values(times)
    return pa.array(np.where(micros < 0, -(-micros // SECOND), micros // SECOND), mask=_null_mask(times))


def timestamp_texts(values: pa.Array, zone: str, *, least: int = 0) -> pa.Array:
    """Formats timestamps, without trailing zeros in the fraction. `least` is its minimum number of digits."""
    times = local_micros(values, zone)
    whole, fraction = DatePattern(DEFAULT_PATTERN).print(*times), DatePattern("SSSSSS").print(*times)
    digits = pc.utf8_rpad(pc.utf8_rtrim(fraction, characters="0"), least, padding="0")
    dotted = pc.if_else(pc.equal(digits, ""), "", pc.binary_join_element_wise(".", digits, ""))
    return _with_nulls(pc.binary_join_element_wise(whole, dotted, ""), values)


def local_texts(values: pa.Array) -> pa.Array:
    """Formats timestamps without a zone as `LocalDateTime.toString`: seconds and fraction only if not zero, and the
    fraction in thousandths or millionths."""
    times = local_micros(values, UTC)
    minutes, seconds = DatePattern("yyyy-MM-dd'T'HH:mm").print(*times), DatePattern(":ss").print(*times)
    thousandths, millionths = DatePattern(".SSS").print(*times), DatePattern(".SSSSSS").print(*times)
    rest = times[0] % MINUTE
    none, whole, short = (pa.array(rest % unit == 0) for unit in (MINUTE, SECOND, 1000))
    fraction = pc.if_else(whole, "", pc.if_else(short, thousandths, millionths))
    tail = pc.if_else(none, "", pc.binary_join_element_wise(seconds, fraction, ""))
    return _with_nulls(pc.binary_join_element_wise(minutes, tail, ""), values)


def _long_values(values: pa.Array) -> Longs:
    """Returns whole numbers, 0 for nulls."""
    whole = values if pa.types.is_int64(values.type) else values.cast(pa.int64())
    numbers: Longs = whole.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _null_mask(values: pa.Array) -> Bools | None:
    return np.asarray(values.is_null()) if values.null_count else None


def _with_nulls(texts: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), texts, None) if like.null_count else texts


def _timestamp_array(micros: Longs, like: pa.Array, nulls: Bools | None = None) -> pa.Array:
    mask = np.asarray(like.is_null()) | (False if nulls is None else nulls)
    return pa.array(micros, mask=mask).view(INSTANT)


def _date_array(days: Longs, like: pa.Array, nulls: Bools | None = None) -> pa.Array:
    mask = np.asarray(like.is_null()) | (False if nulls is None else nulls)
    return pa.array(days.astype(np.int32), mask=mask).view(pa.date32())


def _as_micros(values: pa.Array, zone: str | None) -> pa.Array:
    return values.cast(pa.timestamp("us", zone), safe=False)


def _local_instants(local: pa.Array, zone: str) -> pa.Array:
    """Converts wall-clock times to instants. A time that the clock skips has the offset before the gap, a repeated one
    the earlier offset, as in `ZonedDateTime.of`."""
    if zone == UTC:
        return local.view(pa.int64()).view(INSTANT)
    near = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    ahead = _long_values(pc.local_timestamp(near)) - _long_values(near)
    return _timestamp_array(_long_values(local) - ahead, local)


def _civil_midnights(texts: pa.StringArray, regex: str) -> tuple[Longs, Bools]:
    """Returns midnight of each text that matches, and which of them exist."""
    groups = pc.extract_regex(pc.fill_null(texts, ""), regex)
    valid = np.asarray(groups.is_valid())
    numbers = []
    for name, default in (("y", "0"), ("M", "1"), ("d", "1")):
        part = pc.utf8_ltrim(pc.fill_null(groups.field(name), ""), characters="+")
        numbers.append(pc.if_else(pc.equal(part, ""), default, part).cast(pa.int64()).to_numpy(zero_copy_only=False))
    year, month, day = numbers
    possible = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    first = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (np.clip(day, 1, 31) - 1)
    possible &= days.astype("datetime64[M]") == first
    return days.astype(np.int64) * DAY, valid & possible


def _of_texts(texts: pa.StringArray, zone: str) -> pa.Array:
    days, valid = _civil_midnights(texts, _TIME)
    groups = pc.extract_regex(pc.fill_null(texts, ""), _TIME)
    local = days
    for name, unit, most in (("H", HOUR, 23), ("m", MINUTE, 59), ("s", SECOND, 59)):
        part = pc.fill_null(groups.field(name), "")
        numbers = pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()).to_numpy(zero_copy_only=False)
        valid &= numbers <= most
        local = local + numbers * unit
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(groups.field("S"), ""), 6, padding="0"), 0, 6)
    local = local + fraction.cast(pa.int64()).to_numpy(zero_copy_only=False)
    tails = pc.fill_null(groups.field("X"), "")
    if not pc.any(pc.not_equal(tails, "")).as_py():
        return _instants_at(local, None, valid, zone)
    result = _instants_at(local, None, valid, zone)
    encoded = tails.dictionary_encode()
    codes = encoded.indices.to_numpy()
    # a Python loop over the zones in the text
    for code, tail in enumerate(encoded.dictionary.to_pylist()):
        if tail:
            own, named = valid & (codes == code), _zone_of(tail.strip(_AROUND))
            if isinstance(named, int):
                other = _instants_at(local, np.full(len(local), named), own, zone)
            else:
                other = _instants_at(local, None, own & (named is not None), named or zone)
            result = pc.if_else(pa.array(codes == code), other, result)
    return result


def _zone_of(text: str) -> int | str | None:
    """Returns the offset in microseconds, or the zone, that a text names; None if there is none."""
    if text in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(text)
    if match is not None:
        hours, minutes, seconds = (int(match[index] or 0) for index in (2, 3, 4))
        size = hours * HOUR + minutes * MINUTE + seconds * SECOND
        if minutes > 59 or seconds > 59 or size > 18 * HOUR:
            return None
        return -size if match[1] == "-" else size
    try:
        return str(zoneinfo.ZoneInfo(text)) if text else None
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None


def _instants_at(local: Longs, offsets: Longs | None, valid: Bools, zone: str) -> pa.Array:
    """Converts wall-clock times to instants, null where they are not valid."""
    times = pa.array(np.where(valid, local, 0)).view(pa.timestamp("us"))
    instants = _long_values(_local_instants(times, zone))
    if offsets is not None:
        instants = np.where(offsets == _NOTHING, instants, np.where(valid, local, 0) - offsets)
    return pa.array(instants, mask=~valid).view(INSTANT)
