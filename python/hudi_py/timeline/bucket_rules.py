"""Stores a table's rules for numbers of buckets: a file for each commit that changed them.

Source: `PartitionBucketIndexHashingConfig`, Apache Hudi 1.2.0, which moves files of archived commits to another folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hudi_py.errors import ConfigError, ConflictError
from hudi_py.formats.keys.buckets import BucketRules
from hudi_py.model.layout import BUCKET_RULES, HASHING_METADATA
from hudi_py.schema.patterns import check_regex, matching
from hudi_py.storage import Storage
from hudi_py.timeline.timeline import Timeline

_CONFIGS, _ARCHIVE = f"{BUCKET_RULES}/configs", f"{BUCKET_RULES}/archive"
_SUFFIX = ".hashing_config"
EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
FIRST_INSTANT = "00000000000000"
"""The instant of a table's initial rules."""


@dataclass(frozen=True, slots=True)
class StoredRules:
    """Rules in force, and the commit that created them."""

    instant: str
    rules: BucketRules


def stored_rules(storage: Storage, timeline: Timeline, until: str | None = None) -> StoredRules | None:
    """Reads the newest rules of a table; None if it has none.

    Args:
        until: leaves out rules of later commits.

    Raises:
        CorruptFileError: they cannot be read.
        ConfigError: they are of an unknown kind.
    """
    for folder in (_CONFIGS, _ARCHIVE):
        counting = _counting(storage, timeline, folder, until)
        if counting:
            return _read(storage, counting[-1], folder)
    return None


def all_rules(storage: Storage, timeline: Timeline) -> list[StoredRules]:
    """Reads all rules of a table in the order of their commits: first those in force, then those that were moved away.
    Raises what `stored_rules` does."""
    return [
        _read(storage, instant, folder)
        for folder in (_CONFIGS, _ARCHIVE)
        for instant in _counting(storage, timeline, folder)
    ]


def _counting(storage: Storage, timeline: Timeline, folder: str, until: str | None = None) -> list[str]:
    """Returns the commits whose rules are in a folder."""
    instants = (name.removesuffix(_SUFFIX) for name in storage.names(folder) if name.endswith(_SUFFIX))
    return [
        instant
        for instant in sorted(instants)
        if (until is None or instant <= until) and (instant == FIRST_INSTANT or timeline.is_committed(instant))
    ]


def _read(storage: Storage, instant: str, folder: str) -> StoredRules:
    path = f"{folder}/{instant}{_SUFFIX}"
    return StoredRules(instant, BucketRules.decode(storage.read(path), f"{storage.uri}/{path}"))


@lru_cache(4096)  # called for each batch of rows of a partition
def buckets_by_rule(rules: BucketRules, partition: str) -> int:
    """Returns how many buckets the rules give a partition.

    Raises:
        ConfigError: a rule is not valid.
    """
    if rules.default < 1:
        raise ConfigError(
            f"Cannot use the stored bucket rules '{rules.expressions}': they give partitions without a rule "
            f"{rules.default} buckets, as Apache Hudi stores where bucket_number is left out; give it there"
        )
    for pattern, count in checked_rules(rules):
        if matching(pattern, [partition], EXPRESSIONS):
            return count
    return rules.default


@lru_cache(64)  # the same rules are applied to one partition after another
def checked_rules(rules: BucketRules) -> tuple[tuple[str, int], ...]:
    """Parses the patterns of rules and their numbers of buckets.

    Raises:
        ConfigError: a rule is not valid.
    """
    parsed = tuple(rules.parsed())
    for pattern, _ in parsed:
        check_regex(pattern, EXPRESSIONS)
    return parsed


def store_rules(storage: Storage, rules: BucketRules, instant: str = FIRST_INSTANT) -> None:
    """Stores the initial rules of a table, or those of a commit before it completes.

    Raises:
        ConflictError: another write has stored others meanwhile.
    """
    path, content = f"{_CONFIGS}/{instant}{_SUFFIX}", rules.encode(instant)
    if storage.put_if_absent(path, content):
        return
    there = BucketRules.decode(storage.read(path), f"{storage.uri}/{path}")
    if there != rules:
        raise ConflictError(
            f"Cannot write to {storage.uri}: another write stored the bucket rules '{there.expressions}' "
            f"meanwhile, but this write uses '{rules.expressions}'; write again"
        )


def remove_buckets(storage: Storage, instant: str) -> None:
    """Removes the rules and the hash buckets of an undone action, which Apache Hudi takes for committed once the
    instant is gone."""
    _remove_rules(storage, instant)
    for info in storage.walk(HASHING_METADATA):
        if info.name.partition(".")[0] == instant:
            storage.delete(info.path)


def _remove_rules(storage: Storage, instant: str) -> None:
    """Removes the rules, and the empty folder, on which Apache Hudi fails."""
    names = storage.names(_CONFIGS)
    if f"{instant}{_SUFFIX}" in names:
        storage.delete(f"{_CONFIGS}/{instant}{_SUFFIX}")
        if len(names) == 1:
            storage.delete_tree(_CONFIGS)
