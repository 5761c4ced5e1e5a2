"""Keys of the metadata table's records, and the file group of a key.

Sources: `HashID`, `ColumnIndexID`, `PartitionIndexID`, `FileIndexID`, `SecondaryIndexKeyUtils`,
`HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`, 1.2.0.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.keys.hashing import java_string_hash
from hudi_py.schema import java_float_texts

ALL_PARTITIONS: Final = "__all_partitions__"
UNPARTITIONED: Final = "."
"""Key of the only partition of an unpartitioned table."""
SECONDARY_SEPARATOR: Final = "$"
NULL_SECONDARY: Final = "\0"
SEED: Final = -625288518 & 0xFFFFFFFFFFFFFFFF
_MASK: Final = 0xFFFFFFFFFFFFFFFF
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_ESCAPED: Final = re.compile(r"[\\$\0]")


def partition_key(partition: str) -> str:
    """Returns the key of a partition's record in `files`."""
    return partition or UNPARTITIONED


def partition_of_key(key: str) -> str:
    """Returns the partition whose record in `files` has this key."""
    return "" if key == UNPARTITIONED else key


@lru_cache(4096)
def column_id(column: str) -> str:
    """Returns the first part of a column's keys in `column_stats` and `partition_stats`."""
    return _base64_text(hash64(column))


@lru_cache(65536)
def partition_id(partition: str) -> str:
    """Returns the part of a key that identifies a partition."""
    return _base64_text(hash64(partition or UNPARTITIONED))


def file_id(name: str) -> str:
    """Returns the part of a key that identifies a file, by its name."""
    return _base64_text(hashlib.md5(name.encode(), usedforsecurity=False).digest())


def column_stats_key(column: str, partition: str, name: str) -> str:
    return column_id(column) + partition_id(partition) + file_id(name)


def partition_stats_key(column: str, partition: str) -> str:
    return column_id(column) + partition_id(partition)


def bloom_filter_key(partition: str, name: str) -> str:
    return partition_id(partition) + file_id(name)


def secondary_prefix(value: str | None) -> str:
    """Returns the common prefix of the keys of a secondary value."""
    escaped = NULL_SECONDARY if value is None else _ESCAPED.sub(lambda result: "\\" + result[0], value)
    return escaped + SECONDARY_SEPARATOR


def secondary_texts(values: pa.Array) -> pa.StringArray:
    """Formats values for a secondary index, as Spark's internal values: dates as days, timestamps as microseconds since
    the epoch, floating-point numbers as Java prints them; null stays null."""
    kind = values.type
    if pa.types.is_floating(kind):
        return java_float_texts(values)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    elif pa.types.is_time64(kind):
        values = values.view(pa.int64())
    return values.cast(pa.string())


def secondary_keys(values: pa.StringArray, keys: pa.StringArray) -> pa.StringArray:
    """Builds keys of a secondary index.

    Args:
        values: texts of the secondary column; null for null.
        keys: record keys, without nulls.
    """
    escaped = pc.fill_null(_escape_separators(values), NULL_SECONDARY)
    return pc.binary_join_element_wise(escaped, _escape_separators(keys), SECONDARY_SEPARATOR)


def secondary_prefixes(keys: pa.StringArray) -> pa.StringArray:
    """Returns the part of each key of a secondary index up to its first unescaped separator; it decides the file group
    in indexes of version 2."""
    return pc.struct_field(pc.extract_regex(keys, r"(?s)^(?P<prefix>(?:[^\\$]|\\.)*\$)"), "prefix")


def _escape_separators(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, r"[\\$\x00]")).as_py():
        for character in ("\\", SECONDARY_SEPARATOR, "\0"):
            texts = pc.replace_substring(texts, character, "\\" + character)
    return texts


def record_key_of_secondary(key: str) -> str:
    """Returns the record key in a key of a secondary index: the part after the first unescaped separator."""
    position = 0
    while position < len(key) and key[position] != SECONDARY_SEPARATOR:
        position += 2 if key[position] == "\\" else 1
    return re.sub(r"\\(.)", r"\1", key[position + 1 :], flags=re.DOTALL)


def file_groups(keys: Iterable[str], count: int) -> npt.NDArray[np.int64]:
    """Returns the number of each key's file group, out of `count`. `keys` may be an Arrow array."""
    hashes = java_string_hash(keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.string()))
    # Math.abs twice: it returns the least int itself unchanged, whose remainder is negative
    numbers: npt.NDArray[np.int64] = np.abs(np.fmod(np.abs(hashes), np.int32(count))).astype(np.int64)
    return numbers


def _base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def hash64(text: str, seed: int = SEED) -> bytes:
    """Computes XXH64 of a text's UTF-8 bytes with Apache Hudi's seed, big-endian. A Python loop, for few and short
    names."""
    data = text.encode()
    position, end = 0, len(data)
    if end >= 32:
        lanes = [seed + _P1 + _P2 & _MASK, seed + _P2 & _MASK, seed, seed - _P1 & _MASK]
        while position <= end - 32:
            for lane in range(4):
                word = int.from_bytes(data[position : position + 8], "little")
                lanes[lane] = _hash_round(lanes[lane], word)
                position += 8
        value = sum(_rotate_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = (value ^ _hash_round(0, lane)) * _P1 + _P4 & _MASK
    else:
        value = seed + _P5 & _MASK
    value = value + end & _MASK
    while position <= end - 8:
        value ^= _hash_round(0, int.from_bytes(data[position : position + 8], "little"))
        value = _rotate_left(value, 27) * _P1 + _P4 & _MASK
        position += 8
    if position <= end - 4:
        value ^= int.from_bytes(data[position : position + 4], "little") * _P1 & _MASK
        value = _rotate_left(value, 23) * _P2 + _P3 & _MASK
        position += 4
    for byte in data[position:]:
        value = _rotate_left(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return (value ^ value >> 32).to_bytes(8, "big")


def _hash_round(lane: int, word: int) -> int:
    return _rotate_left(lane + word * _P2 & _MASK, 31) * _P1 & _MASK


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK
