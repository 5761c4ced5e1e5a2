"""The SIMPLE and BLOOM indexes, which look keys up in base files (`HoodieSimpleIndex`, `HoodieBloomIndex`, their global
kinds, `HoodieKeyLookupHandle`, Apache Hudi 1.2.0).

Logs are not read: a key that only a log deletes is still in its base file, and is found. Both indexes are exact; key
ranges and bloom filters only skip files that cannot contain a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.formats.arrays import combined
from hudi_py.formats.base.files import open_base_file
from hudi_py.formats.base.reader import BaseFileFooter
from hudi_py.formats.lookup import TextSet
from hudi_py.merge.keys import key_columns, keys_of
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.view import FileSystemView
from hudi_py.write.index.other_indexes import check_index
from hudi_py.write.index.protocol import Index, IndexKind, IndexSettings, KeyLookup, Live, SearchedIndex
from hudi_py.write.rows import RowNumbers, TaggedRows

_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The distinct keys that a base file holds."""

    keys: RowNumbers
    """Their numbers, ascending."""
    positions: RowNumbers | None
    """The row of each key in the file; None if a key is in several rows."""


@dataclass(frozen=True, slots=True)
class BaseFileIndex:
    """Looks keys up in the base files of their partition."""

    storage: Storage
    settings: IndexSettings
    threads: int = 1
    check_key: Callable[[BaseFile, str], None] | None = None
    """Called with each base file and its first key, to raise an error if its keys have another form."""
    live: Live | None = None
    """Needed only where logs may have deleted rows of base files."""

    is_global: ClassVar[Literal[False]] = False

    def tag(self, rows: pa.Table, partition: PartitionPath, slices: Sequence[FileSlice]) -> TaggedRows:
        """Tags rows like `PartitionIndex.tag`. If several file groups have a key, those whose logs have deleted it do
        not count: the key was inserted again elsewhere, as merges do, and would come back. Apache Hudi 1.2.0 updates it
        in all of them."""
        check_index(slices, partition)
        encoded = combined(rows[RECORD_KEY]).dictionary_encode()
        distinct = len(encoded.dictionary)
        codes = encoded.indices.to_numpy().astype(np.int64)
        known = np.zeros(distinct, np.bool_)
        located, positions = [], {}
        for slice_, hit in self.living(encoded.dictionary, self.find(encoded.dictionary, slices)):
            known[hit.keys] = True
            located.append((slice_, _rows_with(hit.keys, codes, distinct)))
            if hit.positions is not None and len(codes) == distinct:
                positions[slice_.file_id] = hit.positions
        return TaggedRows(rows, tuple(located), np.flatnonzero(~known[codes]), positions=positions)

    def find(self, keys: pa.StringArray, slices: Sequence[FileSlice]) -> list[tuple[FileSlice, FoundKeys]]:
        """Finds the slices whose base files contain some of the keys, with these keys.

        Args:
            keys: distinct ones.
        """
        wanted = TextSet(keys)
        with_base = [(slice_, slice_.base_file) for slice_ in slices if slice_.base_file is not None]
        bases = [base for _, base in with_base]
        size = max(-(-len(bases) // (2 * self.threads)), 1)
        parts = [bases[at : at + size] for at in range(0, len(bases), size)]
        hits = in_threads(lambda part: self._find_keys(part, wanted), parts, self.threads)
        return [
            (slice_, hit)
            for (slice_, _), hit in zip(with_base, chain.from_iterable(hits), strict=True)
            if len(hit.keys)
        ]

    def living(
        self, keys: pa.StringArray, located: Sequence[tuple[FileSlice, FoundKeys]], *, every: bool = False
    ) -> Iterator[tuple[FileSlice, FoundKeys]]:
        """Yields the results of `find` without keys that logs have deleted, among the keys in several slices; or among
        `every` key."""
        counts = np.zeros(len(keys), np.int64)
        for _, keys_found in located:
            counts[keys_found.keys] += 1
        for slice_, keys_found in located:
            unsure = keys_found.keys if every else keys_found.keys[counts[keys_found.keys] > 1]
            if self.live is None or not slice_.log_files or not len(unsure):
                yield slice_, keys_found
                continue
            dead = unsure[~self.live(slice_, keys.take(pa.array(unsure)))]
            kept = ~np.isin(keys_found.keys, dead)
            if kept.any():
                positions = None if keys_found.positions is None else keys_found.positions[kept]
                yield slice_, FoundKeys(keys_found.keys[kept], positions)

    def _find_keys(self, bases: Sequence[BaseFile], wanted: TextSet) -> list[FoundKeys]:
        """Returns for each base file the distinct keys that it contains."""
        results = [FoundKeys(np.empty(0, np.int64), None) for _ in bases]
        if not len(wanted):
            return results
        for at, base in enumerate(bases):
            with open_base_file(self.storage, base.path) as file:
                footer = file.footer
                if self.check_key is not None and footer.min_key:
                    self.check_key(base, footer.min_key)
                candidates = self._candidate_keys(wanted, footer)
                if not len(candidates):
                    continue
                fields = self.settings.key_fields
                batches = file.batches(key_columns(fields), batch_rows=_BATCH_ROWS)
                keys = pa.chunked_array([keys_of(batch, fields) for batch in batches], wanted.texts.type)
            if len(candidates) > len(keys):
                results[at] = _search_file(keys, wanted)
            else:  # a set of few keys takes less time to make
                some = _search_file(keys, TextSet(wanted.texts.take(pa.array(candidates))))
                results[at] = replace(some, keys=candidates[some.keys])
        return results

    def _candidate_keys(self, wanted: TextSet, footer: BaseFileFooter) -> RowNumbers:
        """Returns the numbers of the distinct keys that a base file may contain, ascending."""
        candidates = np.arange(len(wanted), dtype=np.int64)
        if self.settings.prune_by_ranges:
            mask = footer.in_range(wanted.texts)
            if mask is not None:
                candidates = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
        if self.settings.reads_filters and len(candidates) and footer.bloom is not None:
            candidates = candidates[footer.bloom.might_contain(wanted.texts.take(pa.array(candidates)))]
        return candidates


@dataclass(frozen=True, slots=True)
class GlobalBaseFileIndex:
    """Looks keys up in the base files of all partitions.

    Where rows move, a key that a log deletes in one partition does not count there, as it may be in another one
    (`HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded`). Otherwise it stays in its partition.
    """

    files: BaseFileIndex
    view: FileSystemView

    is_global: ClassVar[Literal[True]] = True

    def searched(self, keys: pa.StringArray) -> SearchedIndex:
        """Looks keys up like `GlobalIndex.searched`; reads every base file once.

        Raises:
            ConfigError: a key is in several file groups, or a partition was written with another index.
        """
        partitions = self.view.partitions()
        self.view.lister.prefetch(partitions)
        slices = []
        for partition in partitions:
            own = self.view.latest_slices(partition)
            check_index(own, partition)
            slices += own
        owner = np.full(len(keys), -1, np.int64)
        holders: list[FileSlice] = []
        located = self.files.living(keys, self.files.find(keys, slices), every=self.files.settings.moves_rows)
        for slice_, hit in ((slice_, located_keys.keys) for slice_, located_keys in located):
            twice = hit[owner[hit] >= 0]
            if len(twice):
                other = holders[owner[twice[0]]]
                raise ConfigError(
                    f"Cannot write with {write_config.INDEX_TYPE.key}={self.files.settings.type}: the record key "
                    f"'{keys[int(twice[0])]}' is in the file groups {other.file_id} of partition '{other.partition}' "
                    f"and {slice_.file_id} of partition '{slice_.partition}', and this index needs keys that are "
                    "unique in the table; use SIMPLE or BLOOM, or delete one of the rows"
                )
            owner[hit] = len(holders)
            holders.append(slice_)
        at = pa.array(owner, mask=owner < 0)
        paths = pa.array([str(slice_.partition) for slice_ in holders], pa.string()).take(at)
        ids = pa.array([str(slice_.file_id) for slice_ in holders], pa.string()).take(at)
        return SearchedIndex(TextSet(keys), paths, ids)

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """Locates keys like `GlobalIndex.locate`."""
        return self.searched(keys.unique()).locate(keys)


def open_base_files(lookup: KeyLookup) -> Index:
    """Opens the index of the base files of a partition, or of the table."""
    files = BaseFileIndex(lookup.state.storage, lookup.settings, lookup.threads, lookup.check_key, lookup.live)
    return GlobalBaseFileIndex(files, lookup.view) if lookup.settings.is_global else files


SIMPLE = IndexKind("SIMPLE", open_base_files, needs_stored_keys=False)
GLOBAL_SIMPLE = IndexKind(
    "GLOBAL_SIMPLE",
    open_base_files,
    is_global=True,
    moves_rows=write_config.SIMPLE_INDEX_UPDATE_PARTITION,
    needs_stored_keys=False,
)
BLOOM = IndexKind("BLOOM", open_base_files, reads_filters=True)
GLOBAL_BLOOM = IndexKind(
    "GLOBAL_BLOOM",
    open_base_files,
    is_global=True,
    moves_rows=write_config.BLOOM_INDEX_UPDATE_PARTITION,
    reads_filters=True,
)


def _rows_with(keys: RowNumbers, codes: RowNumbers, distinct: int) -> RowNumbers:
    """Returns the numbers of the rows with some of the distinct keys, ascending."""
    if len(codes) == distinct:  # keys are numbered as they first appear
        return keys
    hit = np.zeros(distinct, np.bool_)
    hit[keys] = True
    return np.flatnonzero(hit[codes])


def _search_file(held: pa.ChunkedArray, keys: TextSet) -> FoundKeys:
    """Finds some keys in those that a base file contains."""
    places = keys.find(held)
    rows = np.flatnonzero(places >= 0)
    some, first = np.unique(places[rows], return_index=True)
    return FoundKeys(some, rows[first] if len(some) == len(rows) else None)
