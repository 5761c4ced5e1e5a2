"""Partition paths: the directory a row belongs to (`KeyGenUtils.getRecordPartitionPath`, `PartitionPathEncodeUtils`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.model.names import NULL_PARTITION
from hudi_py.model.properties import SLASHED_DATES

MAX_PART_BYTES = 255
"""Bytes of a folder's name that file systems take (`NAME_MAX` of Linux)."""

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")

_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


def escape(value: str) -> str:
    """Percent-encodes the characters Hive does, with upper-case digits; all others, non-ASCII included, stay."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def partition_segment(
    texts: pa.StringArray,
    field: str,
    *,
    hive_style: bool,
    url_encoded: bool,
    alone: bool = True,
    dated: bool = False,
    slashed: bool = False,
) -> pa.StringArray:
    """The path segment of one partition field: one per row, never null.

    Args:
        texts: the field's values as text, null if the value is null.
        alone: whether the table has no other partition field.
        dated: whether the texts are dates, whose columns Apache Hudi does not take from paths.
        slashed: whether dashes become slashes (`KeyGenUtils.getPartitionPath`).

    Raises:
        ConfigError: a value cannot be part of a path as it is.
    """
    encoded = texts.dictionary_encode()
    prefix = f"{field}=" if hive_style else ""
    # a Python loop over the distinct values, few against the rows
    segments = [
        _segment(prefix, value, field, url_encoded=url_encoded, alone=alone, dated=dated)
        for value in encoded.dictionary.to_pylist()
    ]
    if slashed:
        segments = [_slashed(segment, field) for segment in segments]
    missing = len(segments)
    dictionary = pa.array([*segments, prefix + NULL_PARTITION], pa.string())
    return dictionary.take(encoded.indices.fill_null(missing))


def join_segments(segments: Sequence[pa.StringArray]) -> pa.StringArray:
    """The path of each row from its segments, first field first."""
    return segments[0] if len(segments) == 1 else pc.binary_join_element_wise(*segments, "/")


def _segment(prefix: str, value: str, field: str, *, url_encoded: bool, alone: bool, dated: bool) -> str:
    if not value:
        return prefix + NULL_PARTITION
    text = escape(value) if url_encoded else value
    reason = _unusable(text) or ("" if url_encoded else _unreadable(text, named=bool(prefix) or dated, alone=alone))
    if reason:
        encodable = not url_encoded and not _unusable(escape(value))
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


def _slashed(segment: str, field: str) -> str:
    path = segment.replace("-", "/")
    if _unusable(path):
        raise ConfigError(
            f"Partition value {segment!r} of column '{field}' cannot be a directory: with slashes for its dashes, "
            f"{_unusable(path)}; change the value, or write a table without {SLASHED_DATES}"
        )
    return path


def _unusable(text: str) -> str:
    """Why a text cannot name folders; empty if it can."""
    if "\x00" in text:
        return "names of files cannot hold the character NUL"
    if any(not part or part.startswith(".") for part in text.split("/")):
        return "path parts must not be empty and must not begin with a dot"
    return ""


def _unreadable(text: str, *, named: bool, alone: bool) -> str:
    """Why Apache Hudi 1.2.0 would not read the value back from a path that is not URL-encoded; empty if it would.

    `named`: the column's name stands before the value.
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
