"""Renders column values as texts in record keys and partition paths.

Source of the forms: `HoodieAvroUtils.getNestedFieldValAsString`, `KeyGenUtils` and `PartitionPathEncodeUtils` of Apache
Hudi 1.2.0, checked on the texts that it stores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.model.names import NULL_PARTITION
from hudi_py.model.properties import SLASHED_DATES
from hudi_py.schema import java_float_texts

_MICROS_PER_MILLI = 1_000
_GREGORIAN = -12_219_206_400_000_000
"""1582-10-16 in microseconds: a day after the first day of the calendar, to be safe in any time zone."""


def render(values: pa.Array, column: str, *, millis: bool = False, purpose: str = "a record key") -> pa.StringArray:
    """Renders each value as Java prints it; nulls stay null.

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
        return _render_dates(values, column, purpose)
    if pa.types.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        if millis:
            micros = _floor_divide(micros, _MICROS_PER_MILLI)
        return micros.cast(pa.string())
    raise ConfigError(
        f"Column '{column}' of type {kind} cannot be {purpose}; supported: string, integers, float, double, "
        "boolean, decimal, date and timestamp; choose another column, or add one with the value as text"
    )


def java_timestamps(values: pa.Array, column: str, zone: str) -> pa.StringArray:
    """Renders instants as `java.sql.Timestamp.toString` prints their milliseconds, which are truncated toward 1970
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
    millis = pc.divide(micros, _MICROS_PER_MILLI)  # of integers, truncated toward zero
    texts = pc.strftime(millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", zone)), "%Y-%m-%d %H:%M:%S")
    return pc.replace_substring_regex(texts, r"(\.\d\d*?)0*$", r"\1")


def _check_exact(values: pa.Array, column: str, purpose: str) -> None:
    """Refuses floating-point numbers beyond the exact integers: Java before 19 prints a superfluous digit for some of
    them, so that the text of a value depends on who writes it."""
    limit = 2.0**24 if pa.types.is_float32(values.type) else 2.0**53
    large = pc.and_(pc.greater_equal(pc.abs(values), limit), pc.is_finite(values))
    if pc.any(large).as_py():
        raise ConfigError(
            f"Column '{column}' of type {values.type} holds {values.filter(large)[0].as_py()!r}, which cannot be "
            f"{purpose}: Java releases print floating-point numbers from {limit:.0f} on differently; use a decimal or "
            "text column"
        )


def _render_dates(values: pa.Array, column: str, purpose: str) -> pa.StringArray:
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


MAX_PART_BYTES = 255
"""Maximum bytes of a folder's name in file systems (`NAME_MAX` of Linux)."""

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")

_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


def escape(value: str) -> str:
    """Percent-encodes the same characters as Hive, with upper-case digits; all others stay, including non-ASCII
    ones."""
    return _ESCAPED.sub(lambda matched: f"%{ord(matched[0]):02X}", value)


@dataclass(frozen=True, slots=True)
class PathStyle:
    """How a table writes partition paths."""

    hive: bool = False
    """Whether segments are `field=value`."""
    url_encoded: bool = False
    slashed: bool = False
    """Whether dashes become slashes (`KeyGenUtils.getPartitionPath`)."""


def partition_segment(
    texts: pa.StringArray,
    field: str,
    style: PathStyle,
    *,
    alone: bool = True,
    dated: bool = False,
) -> pa.StringArray:
    """Computes the path segment of one partition field: one for each row, never null.

    Args:
        texts: the field's values as text, null if the value is null.
        alone: whether the table has no other partition field.
        dated: whether the texts are dates, whose columns Apache Hudi does not take from paths.

    Raises:
        ConfigError: a value cannot be part of a path as it is.
    """
    encoded = texts.dictionary_encode()
    prefix = f"{field}=" if style.hive else ""
    # a Python loop over the distinct values, few against the rows
    segments = [
        _build_segment(prefix, value, field, url_encoded=style.url_encoded, alone=alone, dated=dated)
        for value in encoded.dictionary.to_pylist()
    ]
    if style.slashed:
        segments = [_with_slashes(segment, field) for segment in segments]
    missing = len(segments)
    dictionary = pa.array([*segments, prefix + NULL_PARTITION], pa.string())
    return dictionary.take(encoded.indices.fill_null(missing))


def join_segments(segments: Sequence[pa.StringArray]) -> pa.StringArray:
    """Joins the segments of each row to its path, first field first."""
    return segments[0] if len(segments) == 1 else pc.binary_join_element_wise(*segments, "/")


def _build_segment(prefix: str, value: str, field: str, *, url_encoded: bool, alone: bool, dated: bool) -> str:
    if not value:
        return prefix + NULL_PARTITION
    text = escape(value) if url_encoded else value
    reason = _why_unusable(text) or (
        "" if url_encoded else _why_unreadable(text, named=bool(prefix) or dated, alone=alone)
    )
    if reason:
        encodable = not url_encoded and not _why_unusable(escape(value))
        hint = "create the table with hoodie.datasource.write.partitionpath.urlencode=true, or " if encodable else ""
        raise ConfigError(
            f"Partition value {value!r} of column '{field}' cannot be a directory: {reason}; {hint}change the value"
        )
    segment = prefix + text
    longest = max(segment.split("/"), key=lambda part: len(part.encode()))
    if len(longest.encode()) > MAX_PART_BYTES:
        raise ConfigError(
            f"Partition value {value[:40]!r}... of column '{field}' cannot be a directory: its name has "
            f"{len(longest.encode())} bytes, and file systems take {MAX_PART_BYTES}; partition by a shorter value"
        )
    return segment


def _with_slashes(segment: str, field: str) -> str:
    path = segment.replace("-", "/")
    if _why_unusable(path):
        raise ConfigError(
            f"Partition value {segment!r} of column '{field}' cannot be a directory: with slashes for its dashes, "
            f"{_why_unusable(path)}; change the value, or write a table without {SLASHED_DATES}"
        )
    return path


def _why_unusable(text: str) -> str:
    """Returns why a text cannot name folders; empty if it can."""
    if "\x00" in text:
        return "names of files cannot hold the character NUL"
    if any(not part or part.startswith(".") for part in text.split("/")):
        return "path parts must not be empty and must not begin with a dot"
    return ""


def _why_unreadable(text: str, *, named: bool, alone: bool) -> str:
    """Returns why Apache Hudi 1.2.0 would not read the value back from a path that is not URL-encoded; empty if it
    would.

    `named`: the column's name precedes the value.
    """
    if ":" in text:
        return "Apache Hudi cannot read paths with a colon"
    if "=" in text and not named:
        return "Apache Hudi takes what is before a '=' for the name of the column"
    if "/" in text and not named and not alone:
        return "Apache Hudi takes a slash for the end of the value where there are several partition columns"
    if _ENCODED.search(text):
        return "Apache Hudi takes a '%' with two hexadecimal digits for an encoded character"
    return ""
