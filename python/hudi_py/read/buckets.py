"""Prunes by the simple bucket index. No table property records how a table was hashed, so read options must say it.

Source: `BucketIdentifier`, `BucketIndexSupport`, 1.2.0 (format reference 9.2). The id of a bucket's file group begins
with its number, in eight digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.formats.hashing import java_string_hash
from hudi_py.model.files import FileSlice
from hudi_py.model.properties import TableConfig

_NUMBER = re.compile(r"[0-9]{8}")
_SPECIAL = {"__null__": None, "__empty__": ""}


@dataclass(frozen=True, slots=True)
class Buckets:
    """How a table with a simple bucket index was hashed, according to the read options."""

    count: int
    fields: tuple[str, ...]
    """Hashed columns; empty: those of the record key."""

    def of(self, key: str, config: TableConfig) -> set[int] | None:
        """The buckets that may hold a record key; None if its parts cannot be determined."""
        key_fields = config.record_key_fields
        wanted = self.fields or key_fields
        if not wanted or not set(wanted) <= set(key_fields):
            return None
        readings = _readings(key, key_fields)
        return None if readings is None else {self._bucket([values[name] for name in wanted]) for values in readings}

    def _bucket(self, values: Sequence[str | None]) -> int:
        """Java's `List.hashCode` without its sign, modulo the number of buckets."""
        total = 1
        for text in values:
            own = 0 if text is None else int(java_string_hash(pa.array([text], pa.string()))[0])
            total = (31 * total + own) & 0xFFFFFFFF
        return (total & 0x7FFFFFFF) % self.count

    def slices(self, slices: Sequence[FileSlice], keys: Iterable[str], config: TableConfig) -> list[FileSlice] | None:
        """The slices of the keys' buckets; None if uncertain, or if the file groups are not these buckets."""
        numbers: set[int] = set()
        for key in keys:
            found = self.of(key, config)
            if found is None:
                return None
            numbers |= found
        own = [slice_.file_id[:8] for slice_ in slices]
        if not all(_NUMBER.fullmatch(number) and int(number) < self.count for number in own):
            return None
        if len({(slice_.partition, number) for slice_, number in zip(slices, own, strict=True)}) < len(slices):
            return None  # several file groups in one bucket: not a simple bucket index
        return [slice_ for slice_, number in zip(slices, own, strict=True) if int(number) in numbers]


def buckets_of(options: Mapping[str, str], count: int | None, fields: tuple[str, ...]) -> Buckets | None:
    """The buckets that options describe: index type BUCKET, engine SIMPLE, and a number of buckets."""
    kind = options.get("hoodie.index.type", "").strip().upper()
    engine = options.get("hoodie.index.bucket.engine", "SIMPLE").strip().upper()
    return Buckets(count, fields) if kind == "BUCKET" and engine == "SIMPLE" and count else None


def _readings(key: str, fields: Sequence[str]) -> list[dict[str, str | None]] | None:
    """The possible values of the key columns in a record key; None if it is ambiguous."""
    if len(fields) == 1:
        if "," in key and ":" in key:
            return None
        # the value alone, or `column:value`, depending on the key generator
        name, separator, value = key.partition(":")
        paired = bool(separator) and name == fields[0]
        return [{fields[0]: key}, *([{fields[0]: _SPECIAL.get(value, value)}] if paired else [])]
    pairs = [part.partition(":") for part in key.split(",")]
    if [name for name, _, _ in pairs] != list(fields) or any(":" in value for _, _, value in pairs):
        return None
    return [{name: _SPECIAL.get(value, value) for name, _, value in pairs}]
