"""Prunes by the simple bucket index. No table property records how a table was hashed, so read options must specify it;
rules by partition are stored with the table.

Source: `BucketIdentifier`, `BucketIndexSupport`, 1.2.0. The id of a bucket's file group begins with its number, in
eight digits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

import pyarrow as pa

from hudi_py.formats.keys.buckets import KEY_PLACEHOLDERS, BucketRules, bucket_of_values
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage
from hudi_py.timeline.bucket_rules import buckets_by_rule, stored_rules
from hudi_py.timeline.timeline import Timeline

_NUMBER = re.compile(r"[0-9]{8}")
_MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class BucketHashing:
    """How a table with a simple bucket index was hashed, according to the read options."""

    count: int
    fields: tuple[str, ...]
    """Hashed columns; empty means the record key's."""
    rules: BucketRules | None = None
    """How many buckets each partition has; None: all have `count`."""

    def of_table(self, storage: Storage, timeline: Timeline, as_of: str | None) -> BucketHashing | None:
        """Adds the rules that the table had at an instant, if it had any; None if the number of buckets is unknown.

        Raises:
            CorruptFileError, ConfigError: see `stored_rules`.
        """
        stored = stored_rules(storage, timeline, as_of)
        if stored is not None:
            return replace(self, count=stored.rules.default, rules=stored.rules)
        return self if self.count else None

    def in_partition(self, path: str) -> BucketHashing:
        """Returns the hashing of one partition, without rules."""
        return self if self.rules is None else BucketHashing(buckets_by_rule(self.rules, path), self.fields)

    def of(self, key: str, config: TableConfig) -> set[int] | None:
        """Returns the buckets that may hold a record key; None if its parts cannot be determined."""
        key_fields = config.record_key_fields
        wanted = self.fields or key_fields
        if not wanted or not set(wanted) <= set(key_fields):
            return None
        readings = _key_readings(key, key_fields)
        if readings is None:
            return None
        return {bucket_of_values([values[name] for name in wanted], self.count) for values in readings}

    def of_keys(self, keys: Iterable[str], config: TableConfig) -> set[int] | None:
        """Returns the buckets that may hold some record keys; None if the parts of one cannot be determined."""
        numbers: set[int] = set()
        for key in keys:
            result = self.of(key, config)
            if result is None:
                return None
            numbers |= result
        return numbers

    def of_values(
        self, equal: Mapping[str, frozenset[object]], config: TableConfig, schema: pa.Schema
    ) -> set[int] | None:
        """Returns the buckets that may hold rows with some values in the hashed columns; None if the values do not
        decide it.

        Args:
            equal: the possible values of columns, whose texts are those in record keys.
        """
        fields = config.record_key_fields
        hashed = [name for name in fields if name in self.fields]
        if not hashed or len(hashed) < len(self.fields) or not all(name in equal for name in hashed):
            return None
        # commas within values may mislead the writer, which splits the key
        others = [type_at(schema, name) for name in fields if name not in hashed]
        if any(kind is None or pa.types.is_string(kind) for kind in others):
            return None
        texts = [[str(value) for value in equal[name]] for name in hashed]
        if prod(map(len, texts)) > _MAX_KEYS or any("," in text for item in texts for text in item):
            return None
        return {bucket_of_values(values, self.count) for values in product(*texts)}

    def slices(self, slices: Sequence[FileSlice], numbers: Collection[int]) -> list[FileSlice] | None:
        """Returns the slices of some buckets; None if the file groups are not these buckets."""
        own = [slice_.file_id[:8] for slice_ in slices]
        if not all(_NUMBER.fullmatch(number) and int(number) < self.count for number in own):
            return None
        if len({(slice_.partition, number) for slice_, number in zip(slices, own, strict=True)}) < len(slices):
            return None  # several file groups in one bucket: not a simple bucket index
        return [slice_ for slice_, number in zip(slices, own, strict=True) if int(number) in numbers]


def buckets_of(
    options: Mapping[str, str], count: int, fields: tuple[str, ...], expressions: str = ""
) -> BucketHashing | None:
    """Reads the buckets from options: index type BUCKET and engine SIMPLE. With a `count` of 0 the table's rules
    decide, if it has any."""
    kind = options.get("hoodie.index.type", "").strip().upper()
    engine = options.get("hoodie.index.bucket.engine", "SIMPLE").strip().upper()
    if kind != "BUCKET" or engine != "SIMPLE":
        return None
    return BucketHashing(count, fields, BucketRules(expressions, count) if expressions and count else None)


def _key_readings(key: str, fields: Sequence[str]) -> list[dict[str, str | None]] | None:
    """Returns the possible values of the key columns in a record key; None if it is ambiguous."""
    if len(fields) == 1:
        if "," in key and ":" in key:
            return None
        # the value alone, or `column:value`, depending on the key generator
        name, separator, value = key.partition(":")
        paired = bool(separator) and name == fields[0]
        return [{fields[0]: key}, *([{fields[0]: KEY_PLACEHOLDERS.get(value, value)}] if paired else [])]
    pairs = [part.partition(":") for part in key.split(",")]
    if [name for name, _, _ in pairs] != list(fields) or any(":" in value for _, _, value in pairs):
        return None
    return [{name: KEY_PLACEHOLDERS.get(value, value) for name, _, value in pairs}]


def _has_buckets(sought: SoughtRows) -> bool:
    return sought.restricted and sought.request.buckets is not None


def _by_bucket(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Selects the slices of the buckets of sought keys and values."""
    snapshot, buckets = sought.snapshot, sought.request.buckets
    buckets = None if buckets is None else buckets.of_table(snapshot.storage, snapshot.timeline, snapshot.as_of)
    # given slices may be of several commits with different rules
    if buckets is None or (sought.given and buckets.rules is not None):
        return None
    parts: dict[PartitionPath, list[FileSlice]] = {}
    if buckets.rules is None:
        parts[PartitionPath("")] = slices
    else:
        for slice_ in slices:
            parts.setdefault(slice_.partition, []).append(slice_)
    kept: list[FileSlice] = []
    counts: set[int] = set()
    for path, own in parts.items():
        those = buckets.in_partition(path)
        numbers = _bucket_numbers_of(sought, those)
        result = None if numbers is None else those.slices(own, numbers)
        kept += own if result is None else result
        counts |= set() if result is None else {those.count}
    return Kept(kept, "of " + " or ".join(map(str, sorted(counts)))) if counts else None


def _bucket_numbers_of(sought: SoughtRows, buckets: BucketHashing) -> set[int] | None:
    """Returns the buckets that may hold sought rows; None if any may."""
    config = sought.snapshot.config
    by_key = None if sought.keys is None else buckets.of_keys(sought.keys, config)
    by_value = buckets.of_values(sought.equal, config, sought.snapshot.schema)
    return by_value if by_key is None else by_key if by_value is None else by_key & by_value


BY_BUCKET: Final = Pruner("buckets", _has_buckets, _by_bucket, by_metadata=False)
