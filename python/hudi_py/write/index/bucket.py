"""The bucket index: the hash of a key determines its file group, without a look-up. Contains the simple buckets.

Sources: `HoodieSimpleBucketIndex`, `BucketIdentifier`, `SparkBucketIndexPartitioner`, Apache Hudi 1.2.0. The number of
buckets and the hashed columns are not stored with a table; they are checked against its files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.formats.base.files import iter_base_batches, read_footer
from hudi_py.formats.keys.buckets import BUCKET_DIGITS, FIXED_FILE_ID, BucketRules, bucket_number, bucket_numbers
from hudi_py.merge.keys import key_columns, keys_of
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, new_file_id
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.bucket_rules import buckets_by_rule, checked_rules, store_rules, stored_rules
from hudi_py.timeline.timeline import Timeline
from hudi_py.write.rows import KeyedRows, share_names

_log = logging.getLogger(__name__)
DEFAULT_BUCKETS = 256
"""The number of buckets unless options give another, as in Apache Hudi."""
_CHECKED_FILES = 2
_CHECKED_KEYS = 16
"""Number of first keys that are checked in a file without a bloom filter, whose footer lacks the least and the greatest
key."""


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """A bucket index as described by the options of a write. Pickles."""

    count: int
    """Buckets in a partition; with consistent hashing, in a new partition."""
    hashed: tuple[str, ...]
    """The hashed columns, in the order of the record key."""
    key_fields: tuple[str, ...]
    fixed_ids: bool = False
    """Whether the file id of a bucket follows from its number alone, so that writers that do not wait for each other
    write to the same file group. Always so with consistent hashing."""
    consistent: bool = False
    """Whether the table stores the buckets of each partition, which are split and merged."""
    rules: BucketRules | None = None
    """How many buckets each partition has; None: all have `count`."""
    stores_keys: bool = True
    """Whether files have the record key."""
    rules_to_store: bool = False
    """Whether the write is the table's first one, which stores the rules."""

    @classmethod
    def of(cls, options: Options, config: TableConfig, *, non_blocking: bool = False) -> BucketIndex:
        """Returns the index that the options of a write describe.

        Raises:
            ConfigError: the table cannot have such buckets, or a hashed column is not part of the record key.
        """
        engine = options.get(indexes_config.BUCKET_ENGINE)
        consistent = engine == "CONSISTENT_HASHING"
        chosen = f"{options.name_of(indexes_config.BUCKET_ENGINE)} = '{engine}'"
        if consistent and not config.is_mor:
            raise ConfigError(
                f"Cannot write to the copy-on-write table '{config.name}' with {chosen}, which needs a merge-on-read "
                "table; supported: SIMPLE"
            )
        if consistent and non_blocking:
            raise ConfigError(
                f"Cannot write to the table '{config.name}' with {chosen} and {concurrency_config.MODE.key} = "
                f"'{concurrency_config.NON_BLOCKING}', which needs SIMPLE"
            )
        fields, wanted = config.record_key_fields, options.get(indexes_config.BUCKET_FIELDS)
        for name in wanted:
            if name not in fields:
                raise ConfigError(
                    f"Cannot hash the column '{name}' ({options.name_of(indexes_config.BUCKET_FIELDS)}) of the table "
                    f"'{config.name}': it is not part of the record key {','.join(fields)}"
                )
        hashed = tuple(name for name in fields if name in wanted) or fields
        count = options.get(indexes_config.BUCKETS) or DEFAULT_BUCKETS
        expressions = options.get(indexes_config.BUCKET_EXPRESSIONS)
        rules = BucketRules(expressions, count) if expressions and not consistent else None
        if rules is not None:
            checked_rules(rules)
        return cls(count, hashed, fields, non_blocking or consistent, consistent, rules, config.populates_meta_fields)

    def of_table(self, storage: Storage, timeline: Timeline) -> BucketIndex:
        """Returns the index with the rules of the table, which take precedence over those of the options
        (`HoodieSparkSqlWriter`, 1.2.0).

        Raises:
            CorruptFileError, ConfigError: see `stored_rules`.
        """
        if self.consistent:
            return self
        stored = stored_rules(storage, timeline)
        if stored is not None:
            if self.rules is not None and self.rules != stored.rules:
                _log.warning(
                    "the bucket rules '%s' have no effect: the table at %s has '%s'; see Table.rescale_buckets",
                    self.rules.expressions,
                    storage.uri,
                    stored.rules.expressions,
                )
            return replace(self, count=stored.rules.default, rules=stored.rules)
        return replace(self, rules_to_store=self.rules is not None and timeline.last_completed is None)

    def buckets_in(self, partition: str) -> int:
        """Returns the number of buckets of a partition."""
        return self.count if self.rules is None else buckets_by_rule(self.rules, partition)


class Buckets(Protocol):
    """The buckets of a table's partitions; each has one file group. Methods are thread-safe."""

    @property
    def fixed_ids(self) -> bool:
        """See `BucketIndex`. The first rows of a bucket then go to a log."""

    def numbers(self, keys: pa.StringArray, partition: str) -> npt.NDArray[np.int32]:
        """Returns the bucket of each key.

        Raises:
            SchemaMismatchError: Apache Hudi could not find the bucket of a key.
        """

    def spread(self, keyed: KeyedRows) -> KeyedRows:
        """Returns the rows by bucket: the owner of a share (`share_names`) is the bucket's number."""

    def new_file_id(self, number: int, partition: str, *, fixed: bool = True) -> FileId:
        """Returns the file id of a bucket that has no file group yet. `fixed`: if this index has such ids."""

    def replacing_file_id(self, number: int, partition: str) -> FileId:
        """Returns the file id of the file group with which a write replaces that of a bucket."""

    def replace(self, partition: str, file_ids: Collection[str] | None = None) -> None:
        """Records that the write replaces the file groups of all buckets of a partition, or only these. Must be called
        before rows are written if it replaces only some."""

    def after_commit(self) -> None:
        """Does what is left to do when the write has completed."""

    def by_number(self, slices: Iterable[FileSlice], partition: str) -> dict[int, FileSlice]:
        """Returns the slices of a partition by bucket.

        Raises:
            ConfigError: they are not the buckets that the options describe.
        """

    def check_keys(self, slices: Mapping[int, FileSlice]) -> None:
        """Compares the least and the greatest key of a few base files with the buckets of these files, as returned by
        `by_number`. With a different number of buckets, or other hashed columns, the same keys belong to other buckets.

        Raises:
            ConfigError: a key does not belong into its file.
        """


@dataclass(frozen=True, slots=True)
class SimpleBuckets:
    """Buckets with one number for all partitions, or by rules; see `Buckets`."""

    index: BucketIndex
    storage: Storage

    @property
    def fixed_ids(self) -> bool:
        return self.index.fixed_ids

    def numbers(self, keys: pa.StringArray, partition: str) -> npt.NDArray[np.int32]:
        return bucket_numbers(keys, self.index.hashed, self.index.key_fields, self.index.buckets_in(partition))

    def spread(self, keyed: KeyedRows) -> KeyedRows:
        if self.index.rules is not None:
            return spread_by_partition(self, keyed)
        return joined(keyed, self.numbers(keyed.rows.column(0), ""))

    def new_file_id(self, number: int, partition: str, *, fixed: bool = True) -> FileId:
        if self.index.rules_to_store and self.index.rules is not None:
            store_rules(self.storage, self.index.rules)
        rest = FIXED_FILE_ID if self.fixed_ids and fixed else new_file_id()[BUCKET_DIGITS:]
        return FileId(f"{number:0{BUCKET_DIGITS}d}{rest}")

    def replacing_file_id(self, number: int, partition: str) -> FileId:
        return self.new_file_id(number, partition, fixed=False)

    def replace(self, partition: str, file_ids: Collection[str] | None = None) -> None:
        pass

    def after_commit(self) -> None:
        pass

    def by_number(self, slices: Iterable[FileSlice], partition: str) -> dict[int, FileSlice]:
        by_bucket: dict[int, FileSlice] = {}
        count = self.index.buckets_in(partition)
        for slice_ in slices:
            number = bucket_number(slice_.file_id)
            if number is None:
                raise mismatch(
                    f"its file group {slice_.file_id} is no bucket, so the table is written with another index; leave "
                    f"{write_config.INDEX_TYPE.key} out",
                    partition,
                )
            if number >= count:
                raise mismatch(
                    f"its file group {slice_.file_id} is bucket {number}, so there are more than {count}; set "
                    f"{indexes_config.BUCKETS.key} to the number that the table was created with, and "
                    f"{indexes_config.BUCKET_EXPRESSIONS.key} to its rules if it had any",
                    partition,
                )
            if number in by_bucket:
                raise mismatch(
                    f"bucket {number} has several file groups, {by_bucket[number].file_id} and {slice_.file_id}, as "
                    "a bulk insert of Apache Hudi into an existing bucket leaves them, which does not write to such a "
                    "partition either; rewrite the table with insert_overwrite_table",
                    partition,
                )
            by_bucket[number] = slice_
        return by_bucket

    def check_keys(self, slices: Mapping[int, FileSlice]) -> None:
        check_file_keys(self, self.index, self.storage, slices)


def check_file_keys(buckets: Buckets, index: BucketIndex, storage: Storage, slices: Mapping[int, FileSlice]) -> None:
    """Implements `Buckets.check_keys`."""
    files = [(number, slice_.base_file) for number, slice_ in slices.items() if slice_.base_file is not None]
    for own, base in files[:_CHECKED_FILES]:
        keys = _some_keys(storage, base.path, () if index.stores_keys else index.key_fields)
        for key, number in zip(keys.to_pylist(), buckets.numbers(keys, base.partition).tolist(), strict=True):
            if number != own:
                raise mismatch(
                    f"its file {base.name} has the record key {key!r}, which belongs to bucket {number} by the hash of "
                    f"{','.join(index.hashed)}, not to bucket {own}; set {indexes_config.BUCKETS.key} and "
                    f"{indexes_config.BUCKET_FIELDS.key} as the table was created",
                    base.partition,
                )


def _some_keys(storage: Storage, path: str, virtual: Sequence[str]) -> pa.StringArray:
    """Reads some keys of a file. `virtual`: the columns that form the record key, if files do not store it."""
    footer = read_footer(storage, path)
    if footer.min_key is not None and footer.max_key is not None:
        return pa.array([footer.min_key, footer.max_key], pa.string())
    columns = key_columns(virtual)
    batch = next(iter_base_batches(storage, path, columns, batch_rows=_CHECKED_KEYS), None)
    return pa.array([], pa.string()) if batch is None or not batch.num_columns else keys_of(batch, virtual)


def spread_by_partition(buckets: Buckets, keyed: KeyedRows) -> KeyedRows:
    """Implements `Buckets.spread` for partitions that have buckets of their own."""
    keys, paths = keyed.rows.column(0), keyed.partitions.dictionary_encode()
    codes, numbers = paths.indices.to_numpy(), np.empty(len(keys), np.int32)
    for code, path in enumerate(paths.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        numbers[rows] = buckets.numbers(keys.take(pa.array(rows)), path)
    return joined(keyed, numbers)


def joined(keyed: KeyedRows, numbers: npt.NDArray[np.int32]) -> KeyedRows:
    """Implements `Buckets.spread`, given the bucket of each row."""
    return KeyedRows(keyed.rows, share_names(keyed.partitions, pa.array(numbers).cast(pa.string())))


def mismatch(what: str, partition: str) -> ConfigError:
    """Builds the error for buckets that differ from those that the options describe."""
    return ConfigError(f"Cannot write to partition '{partition}' with {write_config.INDEX_TYPE.key}=BUCKET: {what}")
