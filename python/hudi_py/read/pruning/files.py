"""Prunes partitions and file slices that cannot match a filter or record keys, by the metadata table's indexes.

Order: partition statistics, then for file slices column statistics, record index, secondary indexes, bloom filters, and
finally the footers of base files. A damaged or missing index is ignored with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

import pyarrow as pa

from hudi_py.config import indexes
from hudi_py.config import metadata as metadata_config
from hudi_py.errors import HudiError, StorageError
from hudi_py.formats.base_files import open_base_file
from hudi_py.formats.base_reader import OpenBaseFile
from hudi_py.metadata import MetadataTable
from hudi_py.metadata.definitions import index_definitions
from hudi_py.metadata.files import warn_unused
from hudi_py.metadata.key_scope import read_scope
from hudi_py.metadata.locations import (
    EXPRESSION_PREFIX,
    SECONDARY_PREFIX,
    bloom_filters,
    is_by_partition,
    keys_of_secondary,
    record_locations,
)
from hudi_py.metadata.table import BLOOM_FILTERS, RECORD_INDEX
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.model.words import counted
from hudi_py.read.filter import Filter
from hudi_py.read.partition import PathFormat, columns_from_paths
from hudi_py.read.predicate import Column, Comparison, Literal, Membership, Node
from hudi_py.read.pruning.bounds import row_groups_to_read
from hudi_py.read.pruning.buckets import BucketHashing
from hudi_py.read.pruning.expression_indexes import ExpressionIndexes
from hudi_py.read.pruning.keys import equalities, keys_of_filter, texts_of_filter
from hudi_py.read.pruning.statistics import Statistics
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import ReadSpec
from hudi_py.schema import RECORD_KEY
from hudi_py.storage.threads import in_threads

T = TypeVar("T")

_MAX_FOOTERS = 256
"""Maximum base files whose footers are read while planning; tasks read them anyway."""
_MAX_VALUES = 10_000
_MAX_MEMBERS = 1000
"""Maximum keys compared with bounds one by one; of more keys only the smallest and the greatest are compared."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of one pruning step."""

    step: str
    """partition path, partition stats, column stats, ..."""
    what: str
    """`partitions` or `slices`."""
    before: int
    after: int
    why: str = ""
    """The columns, keys or index that decided it."""


class FilePruning:
    """The steps that prune the files of one scan, first its partitions, then file slices."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: ScanRequest,
        spec: ReadSpec,
        metadata: MetadataTable | None,
        *,
        given: bool,
        escaped: bool,
    ) -> None:
        """
        Args:
            spec: its filter and keys are those of the scan.
            metadata: the table whose indexes are used, if the request does so; if None, only paths, buckets and footers
                are.
            given: whether the slices are not those of the newest state, but given by the caller.
            escaped: see `partition.path_values`.
        """
        condition, options = spec.filter, request.options
        # indexes may store a key of one column in another form
        keys = None if spec.key_fields else spec.keys
        self.steps: tuple[Pruned, ...] = ()
        """What each step has left out so far; steps that could leave nothing out are not among them."""
        self._condition = condition
        self._escaped = escaped
        self._buckets = None
        if spec.filter is not None or spec.keys is not None:
            self._buckets = _buckets_of(snapshot, request, given=given)
        self._trusts = options.get(indexes.RECORD_INDEX_TRUST)
        self._snapshot = snapshot
        metadata = metadata if request.use_indexes else None
        self._metadata = metadata
        # some indexes describe the newest state only
        newest = not given and snapshot.as_of is None and request.query_type != "read_optimized"
        self._newest = newest and metadata is not None and metadata.is_newest
        self._equal = equalities(condition)
        self._texts = texts_of_filter(condition)
        self._keys = _both(keys, keys_of_filter(condition, snapshot.config, snapshot.schema))
        self._statistics: Statistics | None = None
        self._expressions: Callable[[], ExpressionIndexes] | None = None
        conjuncts = [] if condition is None else list(condition.conjuncts())
        if keys is not None and RECORD_KEY in snapshot.schema.names:
            conjuncts += _key_bounds(keys)
        if metadata is not None and conjuncts:
            ignored = columns_from_paths(snapshot.config)
            self._statistics = Statistics(metadata, conjuncts, snapshot.schema, snapshot.history, ignored)
            if any(name.startswith(EXPRESSION_PREFIX) for name in metadata.partitions):
                self._expressions = lambda: ExpressionIndexes(
                    metadata,
                    index_definitions(snapshot.storage, snapshot.config),
                    conjuncts,
                    options.get(metadata_config.EXPRESSION_INDEX_ZONE),
                    history=snapshot.history,
                    ignored=ignored,
                )

    def partitions(self, paths: list[PartitionPath], *, total: int) -> list[PartitionPath]:
        """Return the partitions that may hold matching rows.

        Args:
            paths: partitions to choose from.
            total: number of partitions of the table.
        """
        kept = self._by_path(paths)
        self.steps += (Pruned("partition path", "partitions", total, len(kept)),)
        return self._by_partition_stats(kept)

    def _by_path(self, paths: list[PartitionPath]) -> list[PartitionPath]:
        """The partitions whose paths do not exclude that their rows satisfy the condition."""
        if self._condition is None:
            return paths
        format, schema = PathFormat.of(self._snapshot.config), self._snapshot.schema
        values = [format.values(schema, path, escaped=self._escaped) for path in paths]
        return list(compress(paths, self._condition.may_match(values)))

    def _by_partition_stats(self, paths: list[PartitionPath]) -> list[PartitionPath]:
        """The partitions that remain after partition statistics.

        Apache Hudi 1.2.0 makes the ranges of partitions without the base files whose ranges it cannot read, which are
        all but Parquet files, so they leave out rows.
        """
        statistics = self._statistics
        if statistics is None or not self._newest:
            return paths
        if self._snapshot.config.base_file_format != "PARQUET":
            return paths
        kept = self._looked_up(lambda: statistics.partitions(paths))
        return self._noted("partition stats", "partitions", paths, kept, statistics.columns)

    def slices(self, slices: list[FileSlice], *, merged: bool) -> list[FileSlice]:
        """The slices that may hold matching rows.

        Args:
            merged: whether each row is the newest version of its key and has only values from the files; otherwise
                slices that have logs or may hold older versions are kept.
        """
        statistics = self._statistics
        if statistics is not None:
            kept = self._looked_up(lambda: statistics.slices(slices, with_logs=merged))
            slices = self._noted("column stats", "slices", slices, kept, statistics.columns)
        slices = self._by_expressions(slices, with_logs=merged)
        if self._buckets is not None:
            slices = self._by_bucket(self._buckets, slices)
        if self._newest and merged:
            slices = self._by_location(slices)
        return slices if self._keys is None else self._by_bloom_filter(slices, self._keys)

    def _by_expressions(self, slices: list[FileSlice], *, with_logs: bool) -> list[FileSlice]:
        """The slices that remain after expression indexes."""
        made = self._expressions
        indexes = None if made is None or not slices else self._looked_up(made)
        if indexes is None:
            return slices
        kept = self._looked_up(lambda: indexes.slices(slices, with_logs=with_logs))
        return self._noted("expression index", "slices", slices, kept, indexes.names)

    def _by_bucket(self, buckets: BucketHashing, slices: list[FileSlice]) -> list[FileSlice]:
        """The slices that remain after the buckets of keys and values."""
        parts: dict[PartitionPath, list[FileSlice]] = {}
        if buckets.rules is None:
            parts[PartitionPath("")] = slices
        else:
            for slice_ in slices:
                parts.setdefault(slice_.partition, []).append(slice_)
        kept: list[FileSlice] = []
        of: set[int] = set()
        for path, own in parts.items():
            those = buckets.in_partition(path)
            numbers = self._bucket_numbers(those)
            found = None if numbers is None else those.slices(own, numbers)
            kept += own if found is None else found
            of |= set() if found is None else {those.count}
        if not of:
            return slices
        return self._noted("buckets", "slices", slices, kept, "of " + " or ".join(map(str, sorted(of))))

    def _bucket_numbers(self, buckets: BucketHashing) -> set[int] | None:
        """The buckets that may hold matching rows; None if any may."""
        config = self._snapshot.config
        by_key = None if self._keys is None else buckets.of_keys(self._keys, config)
        by_value = buckets.of_values(self._equal, config, self._snapshot.schema)
        return by_value if by_key is None else by_key if by_value is None else by_key & by_value

    def _by_location(self, slices: list[FileSlice]) -> list[FileSlice]:
        """The slices that remain after the record index and secondary indexes."""
        metadata, keys = self._metadata, self._keys
        if metadata is None or not metadata.has(RECORD_INDEX) or len(slices) < 2:
            return slices
        if keys is None and not self._texts:
            return slices
        if not self._looked_up(lambda: self._has_every_row(metadata)):
            why = "not used: record keys are not known to be unique in the table"
            return self._noted("record index", "slices", slices, slices, why)
        found = self._looked_up(lambda: self._secondary_keys(metadata))
        keys, name = (keys, "") if found is None else (_both(keys, found[0]), found[1])
        if keys is None:
            return slices
        wanted = keys
        places = self._looked_up(lambda: self._places(metadata, wanted))
        if places is None:
            return slices
        kept = [slice_ for slice_ in slices if (slice_.partition, slice_.file_id) in places]
        step = "secondary index" if name else "record index"
        return self._noted(step, "slices", slices, kept, f"{name + ': ' if name else ''}{counted(len(wanted), 'key')}")

    def _has_every_row(self, metadata: MetadataTable) -> bool:
        """Whether the record index knows every row: it has one place for a key, unless it is one by partition."""
        storage, config, timeline = self._snapshot.storage, self._snapshot.config, self._snapshot.timeline
        if self._trusts or is_by_partition(storage, config, metadata.file_groups(RECORD_INDEX)):
            return True
        scope = read_scope(storage)
        return scope is not None and scope.is_unique(config, timeline)

    def _places(self, metadata: MetadataTable, keys: frozenset[str]) -> set[tuple[str, str]] | None:
        """(partition, file group) of these keys; None if the record index is not conclusive.

        A merge-on-read table may have a key that its index lacks: Apache Hudi 1.2.0 removes the key when a log deletes
        the row, and treats a later insert of the same key as an update, which does not change the index.
        """
        found = record_locations(metadata, keys)
        config = self._snapshot.config
        if config.is_mor:
            prefix = f"{config.record_key_fields[0]}:" if len(config.record_key_fields) == 1 else None
            for key in keys - found.keys():
                # a key of one column has two forms, of which the table uses one
                other = None if prefix is None else key[len(prefix) :] if key.startswith(prefix) else prefix + key
                if other not in found:
                    return None
        return set().union(*found.values())

    def _secondary_keys(self, metadata: MetadataTable) -> tuple[frozenset[str], str] | None:
        """Record keys found in secondary indexes, and the names of the indexes; None if no index fits the filter."""
        if not self._texts or not any(name.startswith(SECONDARY_PREFIX) for name in metadata.partitions):
            return None
        keys: frozenset[str] | None = None
        names: list[str] = []
        from_paths = columns_from_paths(self._snapshot.config)
        for definition in index_definitions(self._snapshot.storage, self._snapshot.config):
            fields = definition.source_fields
            if definition.kind != "secondary_index" or not metadata.has(definition.name) or len(fields) != 1:
                continue
            field = fields[0]
            values = None if field in from_paths else self._texts.get(field)
            if values is not None and len(values) <= _MAX_VALUES:
                keys = _both(keys, keys_of_secondary(metadata, definition, values))
                names.append(definition.name[len(SECONDARY_PREFIX) :])
        return None if keys is None else (keys, ", ".join(names))

    def _by_bloom_filter(self, slices: list[FileSlice], keys: frozenset[str]) -> list[FileSlice]:
        """The slices that remain after the bloom filters of base files, from the metadata table or from footers."""
        among = _without_logs(slices)
        if not among or not keys:
            return slices
        wanted = pa.array(sorted(keys), pa.string())
        matches: dict[tuple[str, str], bool] = {}
        metadata = self._metadata
        if metadata is not None and metadata.has(BLOOM_FILTERS):
            names = [(file.partition, str(file.name)) for file in among]
            filters = self._looked_up(lambda: bloom_filters(metadata, names)) or {}
            matches = {place: found.might_contain_any(wanted) for place, found in filters.items()}
            kept = _matching_slices(slices, matches)
            slices = self._noted("bloom filters", "slices", slices, kept, counted(len(keys), "key"))
        left = _without_logs(slices)
        left = [file for file in left if _place(file) not in matches and file.name.extension == "parquet"]
        if not 1 < len(left) <= _MAX_FOOTERS:
            return slices
        found = in_threads(lambda file: self._in_footer(file, wanted), left)
        held = dict(zip(map(_place, left), found, strict=True))
        kept = _matching_slices(slices, held)
        return self._noted("footers", "slices", slices, kept, counted(len(keys), "key"))

    def _in_footer(self, file: BaseFile, keys: pa.Array) -> bool:
        """Whether a base file may hold one of the keys, by the bounds and the bloom filter in its footer."""
        try:
            with open_base_file(self._snapshot.storage, file.path) as opened:
                footer = opened.footer
                inside = footer.in_range(keys)
                if inside is not None:
                    keys = keys.filter(inside)
                elif footer.min_key is None and not self._in_row_groups(opened):
                    return False
            found = footer.bloom if len(keys) else None
            return bool(len(keys)) and (found is None or found.might_contain_any(keys))
        except StorageError:  # not damage
            raise
        except (HudiError, FileNotFoundError):
            return True  # reading the file raises the error

    def _in_row_groups(self, file: OpenBaseFile) -> bool:
        """Whether a row group may hold one of the keys, by the statistics of the key column."""
        if file.parquet is None:
            return True
        node = _key_bounds(self._keys or frozenset())[0]
        groups = range(file.parquet.metadata.num_row_groups)
        return bool(row_groups_to_read(file.parquet, groups, Filter("", node.columns(), predicate=node)))

    def _looked_up(self, read: Callable[[], T]) -> T | None:
        """The result of an index; None, with a warning, if the index is damaged or missing."""
        try:
            return read()
        except StorageError:  # not damage
            raise
        except (HudiError, FileNotFoundError) as error:
            warn_unused(self._snapshot.storage.uri, error, "files are not pruned by it")
            return None

    def _noted(self, step: str, what: str, before: Sequence[T], after: list[T] | None, why: str) -> list[T]:
        if after is None:
            return list(before)
        self.steps += (Pruned(step, what, len(before), len(after), why),)
        return after


def _buckets_of(snapshot: Snapshot, request: ScanRequest, *, given: bool) -> BucketHashing | None:
    """The simple bucket index of the table, if the options describe one that knows the slices."""
    buckets = request.buckets
    if buckets is None:
        return None
    found = buckets.of_table(snapshot.storage, snapshot.timeline, snapshot.as_of)
    if given and found is not None and found.rules is not None:
        return None  # given slices may be of several commits, and so of several rules
    return found


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    """The intersection; None means everything."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _key_bounds(keys: frozenset[str]) -> list[Node]:
    """Conditions on the record key that are true for rows with these keys."""
    column, kind = Column((RECORD_KEY,), pa.string()), pa.string()
    if len(keys) <= _MAX_MEMBERS:
        return [Membership(column, tuple(sorted(keys)), kind, has_null=False)]
    low, high = Literal(min(keys), kind), Literal(max(keys), kind)
    return [Comparison(">=", column, low, kind), Comparison("<=", column, high, kind)]


def _without_logs(slices: Sequence[FileSlice]) -> list[BaseFile]:
    """The base files of slices without logs."""
    return [each.base_file for each in slices if each.base_file is not None and not each.log_files]


def _matching_slices(slices: Sequence[FileSlice], matches: Mapping[tuple[str, str], bool]) -> list[FileSlice]:
    """The slices but for those without logs whose base file does not match."""
    missed = {id(file) for file in _without_logs(slices) if not matches.get(_place(file), True)}
    return [each for each in slices if id(each.base_file) not in missed]


def _place(file: BaseFile) -> tuple[str, str]:
    return file.partition, str(file.name)
