"""Computes the bucket of a record key, and the number of buckets of each partition.

A key is hashed by the values of some of its columns, which are parsed from the text of the key: from `a:1,b:2`. A key
without a comma or a colon is hashed as a whole. Rules set the number of buckets of some partitions; a table stores them
in files.

Sources: `BucketIdentifier`, `KeyGenUtils.extractRecordKeysByFields`, `RegexRuleEngine`,
`PartitionBucketIndexCalculator` and `PartitionBucketIndexHashingConfig`, Apache Hudi 1.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError, CorruptFileError, SchemaMismatchError
from hudi_py.formats.keys.hashing import java_string_hash
from hudi_py.model.limits import parse_json
from hudi_py.model.names import EMPTY_KEY_PART, NULL_KEY_PART
from hudi_py.model.words import visible

BUCKET_DIGITS = 8
"""The file id of a bucket begins with its number, in eight digits."""
FIXED_FILE_ID = "-0000-0000-0000-000000000000-0"
"""The rest of the file ids of non-blocking writers, the same in every partition."""
_NUMBER = re.compile(r"[0-9]{8}-")
KEY_PLACEHOLDERS = {NULL_KEY_PART: None, EMPTY_KEY_PART: ""}
"""Parts of keys that represent null and the empty string, whose hashes are 0."""
RULE = "regex"
"""The only kind of rule."""
_MAX_BUCKETS = 2**31 - 1


def bucket_number(file_id: str) -> int | None:
    """Returns the number of a file group's bucket; None if its id is not one of the bucket index."""
    return int(file_id[:BUCKET_DIGITS]) if _NUMBER.match(file_id) else None


def bucket_numbers(
    keys: pa.StringArray, hashed: Sequence[str], key_fields: Sequence[str], count: int
) -> npt.NDArray[np.int32]:
    """Returns the bucket of each record key.

    Args:
        keys: without nulls.
        hashed: the hashed columns, some of `key_fields`.
        key_fields: the columns of the record key, in its order.
        count: the number of buckets.

    Raises:
        SchemaMismatchError: Apache Hudi cannot take a key apart.
    """
    hashes = java_string_hash(keys).view(np.uint32) + np.uint32(31)
    if len(keys):
        parts = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
        rows = np.flatnonzero(parts.to_numpy(zero_copy_only=False))
        if len(rows):
            hashes[rows] = _hashes_of_parts(keys.take(pa.array(rows)), hashed, key_fields)
    return _bucket_of(hashes, count)


def bucket_of_values(values: Sequence[str | None], count: int) -> int:
    """Returns the bucket of a record key with these values in the hashed columns."""
    return int(_bucket_of(np.array([_hash_of(values)], np.uint32), count)[0])


def _bucket_of(hashes: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.int32]:
    numbers: npt.NDArray[np.int32] = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).view(np.int32)
    return numbers


def hashed_texts(keys: pa.StringArray, hashed: Sequence[str], key_fields: Sequence[str]) -> pa.StringArray:
    """Returns the hashed values of each record key as one text, null as "null" (`ConsistentBucketIdentifier`, 1.2.0).
    Arguments and errors are those of `bucket_numbers`."""
    parts = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
    rows = np.flatnonzero(parts.to_numpy(zero_copy_only=False))
    if not len(rows):
        return keys
    some = keys.take(pa.array(rows))
    fits, columns = _key_parts(some, hashed, key_fields)
    texts = np.empty(len(rows), object)
    if columns:
        known = [pc.if_else(pc.equal(column, NULL_KEY_PART), "null", column) for column in columns]
        known = [pc.if_else(pc.equal(item, EMPTY_KEY_PART), "", item) for item in known]
        texts[fits] = pc.binary_join_element_wise(*known, "").to_numpy(zero_copy_only=False)
    others = np.ones(len(rows), np.bool_)
    others[fits] = False
    for row in np.flatnonzero(others):  # few rows: values with commas
        values = hash_values(some[int(row)].as_py(), hashed)
        texts[row] = "".join("null" if value is None else value for value in values)
    return pc.replace_with_mask(keys, parts, pa.array(texts, pa.string()))


def _hashes_of_parts(keys: pa.StringArray, hashed: Sequence[str], key_fields: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Hashes keys of several parts: all at once where the values have no commas, which separate parts."""
    fits, columns = _key_parts(keys, hashed, key_fields)
    hashes = np.ones(len(fits), np.uint32)
    for values in columns:
        own = java_string_hash(values).view(np.uint32).copy()
        own[pc.is_in(values, value_set=pa.array(list(KEY_PLACEHOLDERS))).to_numpy(zero_copy_only=False)] = 0
        hashes = hashes * np.uint32(31) + own
    result = np.zeros(len(keys), np.uint32)
    result[fits] = hashes
    others = np.ones(len(keys), np.bool_)
    others[fits] = False
    for row in np.flatnonzero(others):  # few rows: values with commas
        result[row] = _hash_of(hash_values(keys[int(row)].as_py(), hashed))
    return result


def _key_parts(
    keys: pa.StringArray, hashed: Sequence[str], key_fields: Sequence[str]
) -> tuple[npt.NDArray[np.intp], list[pa.StringArray]]:
    """Returns the rows of keys that have as many parts as columns, each part with its column's name, and the hashed
    columns of these rows."""
    number = len(key_fields)
    regular = pc.equal(pc.count_substring(keys, ","), number - 1)
    parts = pc.list_flatten(pc.split_pattern(keys.filter(regular), ","))
    fits = np.ones(len(parts) // number, np.bool_)
    columns = []
    for index, field in enumerate(key_fields):
        part = parts.take(pa.array(np.arange(index, len(parts), number)))
        fits &= pc.starts_with(part, f"{field}:").to_numpy(zero_copy_only=False)
        if field in hashed:
            columns.append(pc.utf8_slice_codeunits(part, len(field) + 1))
        elif index == number - 1:
            fits &= pc.equal(pc.count_substring(part, ":"), 1).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(regular.to_numpy(zero_copy_only=False))
    return places[fits], [column.filter(pa.array(fits)) for column in columns]


def _hash_of(values: Sequence[str | None]) -> int:
    """Computes Java's `List.hashCode` as an unsigned number."""
    total = 1
    for own in java_string_hash(pa.array(values, pa.string())).tolist():
        total = (31 * total + own) & 0xFFFFFFFF
    return total


def hash_values(key: str, hashed: Sequence[str]) -> list[str | None]:
    """Returns the hashed values of a record key, step by step as in Java.

    Raises:
        SchemaMismatchError: Java would fail, or never end.
    """
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    start = 0
    while start < len(key):
        colon = key.find(":", start)
        if colon < 0:
            raise _unreadable_error(key)
        comma, following = -1, key.find(":", colon + 1)
        while following >= 0:
            comma = key.rfind(",", 0, following)
            if comma >= colon:
                break
            following = key.find(":", following + 1)
        if key[start:colon] in hashed:
            ended = following >= 0 and comma > 0
            value = key[colon + 1 : comma if ended else len(key)]
            values.append(KEY_PLACEHOLDERS.get(value, value))
            start = comma + 1 if ended else len(key)
        elif following >= 0:
            start = comma + 1
        elif key.find(":", colon + 1) >= 0:
            raise _unreadable_error(key)
        else:
            start = len(key)
    return values or [key]


def _unreadable_error(key: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"Cannot determine the bucket of record key {key!r}: Apache Hudi's bucket index cannot split it at its "
        "commas and colons; change the values of the key columns, or use another index"
    )


@dataclass(frozen=True, slots=True)
class BucketRules:
    """How many buckets each partition has. Can be pickled."""

    expressions: str
    """`pattern,buckets;pattern,buckets`: the first pattern that occurs in a partition's path counts."""
    default: int
    """Number of buckets of a partition that no pattern matches."""

    def parsed(self) -> list[tuple[str, int]]:
        """Parses the patterns and their numbers of buckets, in order.

        Raises:
            ConfigError: the expressions have another form.
        """
        return [self._rule(text) for text in _java_split(self.expressions, ";")]

    def _rule(self, text: str) -> tuple[str, int]:
        parts = [part.strip() for part in _java_split(text.strip(), ",")]
        if len(parts) != 2 or not parts[1].isascii() or not parts[1].isdigit() or not 0 < int(parts[1]) <= _MAX_BUCKETS:
            raise ConfigError(
                f"The bucket rule '{visible(text)}' of '{visible(self.expressions)}' is not valid; expected "
                "'pattern,buckets', with a regular expression without commas and semicolons, and a number of at least 1"
            )
        return parts[0], int(parts[1])

    def encode(self, instant: str) -> bytes:
        """Encodes the `.hashing_config` file of the commit that created these rules, as Java does."""
        fields = {"expressions": self.expressions, "defaultBucketNumber": self.default}
        text = json.dumps(
            {**fields, "rule": RULE, "version": 1, "instant": instant},
            indent=2,
            separators=(",", " : "),
            ensure_ascii=False,
        )
        return text.encode()

    @classmethod
    def decode(cls, data: bytes, context: str) -> BucketRules:
        """Decodes a `.hashing_config` file.

        Raises:
            CorruptFileError: the content is something else; names `context`.
            ConfigError: its rules are of another kind.
        """
        try:
            content = parse_json(data)
            rules, rule = cls(str(content["expressions"]), int(content["defaultBucketNumber"])), str(content["rule"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"Cannot read {context}: no rules for numbers of buckets ({error})") from error
        if rule.lower() != RULE:
            raise ConfigError(f"Cannot use the bucket rules of {context}: their kind is '{rule}'; supported: {RULE}")
        return rules


def _java_split(text: str, by: str) -> list[str]:
    """Splits as Java's `String.split`, which drops empty parts at the end."""
    parts = text.split(by)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
