"""Column values as text for record keys and partition paths.

Source of the forms: `HoodieAvroUtils.getNestedFieldValAsString` and `KeyGenUtils` of Apache Hudi 1.2.0, checked on the
keys which its upsert, insert and bulk_insert wrote for every type accepted here. Other types are refused: Apache Hudi
renders them differently from one operation to the next (binary: an object's address).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.schema import java_float_texts

_MICROS_PER_MILLI = 1_000
_GREGORIAN = -12_219_206_400_000_000
"""1582-10-16, a day after the calendar's first in any time zone, in microseconds."""


def render(values: pa.Array, column: str, *, millis: bool = False, purpose: str = "a record key") -> pa.StringArray:
    """Each value as Java prints it; nulls stay null.

    Args:
        values: integers, floating point, boolean, string, decimal, date32 or timestamp.
        column: name of the column, for the error.
        millis: the table stores the timestamps of this column as milliseconds: their number is that of milliseconds.
        purpose: what the text is for, for the error.

    Raises:
        ConfigError: the type has no rendering that all of Apache Hudi's writers agree on.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return render(values.dictionary, column, millis=millis, purpose=purpose).take(values.indices)
    if pa.types.is_string(kind):
        return values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())  # Arrow prints decimals by the rule of BigDecimal.toString
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        _check_exact(values, column, purpose)
        return java_float_texts(values)
    if pa.types.is_date32(kind):
        return _dates(values, column, purpose)
    if pa.types.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        if millis:
            micros = _floor_divide(micros, _MICROS_PER_MILLI)
        return micros.cast(pa.string())
    raise ConfigError(
        f"Column '{column}' of type {kind} cannot be {purpose}; supported: string, integers, float, double, "
        "boolean, decimal, date and timestamp; choose another column, or add one with the value as text"
    )


def is_instant(kind: pa.DataType) -> bool:
    """Whether values are instants: Avro's timestamps, but not its local ones."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def java_timestamps(values: pa.Array, column: str, zone: str) -> pa.StringArray:
    """Instants as `java.sql.Timestamp.toString` prints their milliseconds, which are cut towards 1970
    (`HoodieAvroUtils.convertValueForAvroLogicalTypes` with `consistentLogicalTimestampEnabled`, checked with 1.2.0).

    Args:
        zone: the time zone of the text.

    Raises:
        ConfigError: an instant is before the Gregorian calendar, whose dates Java prints by the Julian one.
    """
    micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    if micros.null_count < len(micros) and pc.min(micros).as_py() < _GREGORIAN:
        raise ConfigError(
            f"Column '{column}' has a timestamp before 1582-10-16, which cannot be part of a record key as a text: "
            "Java prints it by another calendar; choose another column"
        )
    millis = pc.divide(micros, _MICROS_PER_MILLI)  # of integers, cut towards zero
    texts = pc.strftime(millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", zone)), "%Y-%m-%d %H:%M:%S")
    return pc.replace_substring_regex(texts, r"(\.\d\d*?)0*$", r"\1")


def _check_exact(values: pa.Array, column: str, purpose: str) -> None:
    """Above the exact integers, Java before 19 prints a superfluous digit for some values, so that the text of a value
    depends on who writes it."""
    limit = 2.0**24 if pa.types.is_float32(values.type) else 2.0**53
    large = pc.and_(pc.greater_equal(pc.abs(values), limit), pc.is_finite(values))
    if pc.any(large).as_py():
        raise ConfigError(
            f"Column '{column}' of type {values.type} holds {values.filter(large)[0].as_py()!r}, which cannot be "
            f"{purpose}: Java releases print floating-point numbers from {limit:.0f} on differently; use a decimal or "
            "text column"
        )


def _dates(values: pa.Array, column: str, purpose: str) -> pa.StringArray:
    bounds = pc.min_max(pc.year(values))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < 1 or high > 9999):
        raise ConfigError(
            f"Column '{column}' holds a date of year {low if low < 1 else high}, which cannot be {purpose}: "
            "supported: the years 1 to 9999"
        )
    return values.cast(pa.string())


def _floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    filled = values.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(filled // divisor, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False))
