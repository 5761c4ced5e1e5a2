"""Leaving out what a filter or record keys cannot match, step by step, by the indexes of the metadata table.

Order: partition statistics, then for file slices column statistics, record index, secondary and expression indexes,
bloom filters, and at last the footers of base files. Every index only ever leaves out; one that is damaged or missing
is passed over with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hudi_py.config import Options, Scope
from hudi_py.config import indexes as index_config
from hudi_py.errors import HudiError
from hudi_py.metadata import MetadataTable, metadata_lister, open_metadata
from hudi_py.metadata.files import doubt
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.filter import Filter
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.statistics import Statistics
from hudi_py.view import Lister

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step of planning left out."""

    step: str
    """Partition path, partition stats, column stats, ..."""
    what: str
    """`partitions` or `slices`."""
    before: int
    after: int
    why: str = ""
    """What told it."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reads which planning looks at."""

    metadata: bool
    """Whether the metadata table is used at all."""
    skipping: bool
    """Whether its indexes leave out files."""

    @classmethod
    def of(cls, options: Mapping[str, str] | None) -> ReadOptions:
        resolved = Options.resolve(options, Scope.READ, defaults={})
        return cls(resolved.get(index_config.METADATA_ENABLE), resolved.get(index_config.DATA_SKIPPING))


class Skipping:
    """The steps for one scan; each adds what it did to `steps`."""

    def __init__(
        self,
        snapshot: Snapshot,
        metadata: MetadataTable | None,
        condition: Filter | None,
        keys: frozenset[str] | None,
        *,
        newest: bool,
        steps: list[Pruned],
    ) -> None:
        self._snapshot = snapshot
        self._metadata = metadata
        self._newest = newest and metadata is not None and metadata.is_newest
        self._steps = steps
        self._statistics: Statistics | None = None
        if metadata is not None and condition is not None:
            self._statistics = Statistics(metadata, condition, snapshot.schema, snapshot.history)

    def partitions(self, paths: list[PartitionPath]) -> list[PartitionPath]:
        """The partitions which may hold rows that match."""
        statistics = self._statistics
        if statistics is None or not self._newest:
            return paths
        kept = self._trusting(lambda: statistics.partitions(paths))
        return self._noted("partition stats", "partitions", paths, kept, statistics.columns)

    def slices(self, slices: list[FileSlice], *, with_logs: bool) -> list[FileSlice]:
        """The slices which may hold rows that match; those with logs only where `with_logs` says so."""
        statistics = self._statistics
        if statistics is not None:
            kept = self._trusting(lambda: statistics.slices(slices, with_logs=with_logs))
            slices = self._noted("column stats", "slices", slices, kept, statistics.columns)
        return slices

    def _trusting(self, read: Callable[[], T]) -> T | None:
        """What an index tells; None, with a warning, where it is damaged or missing."""
        try:
            return read()
        except (HudiError, FileNotFoundError) as error:
            doubt(self._snapshot.storage.uri, error)
            return None

    def _noted(self, step: str, what: str, before: Sequence[T], after: list[T] | None, why: str) -> list[T]:
        if after is None:
            return list(before)
        self._steps.append(Pruned(step, what, len(before), len(after), why))
        return after


def metadata_of(
    snapshot: Snapshot, *, listing: bool, options: ReadOptions
) -> tuple[Lister | None, MetadataTable | None]:
    """The lister by the metadata table, None for the storage; and the metadata table whose indexes are to be used."""
    if not options.metadata or not snapshot.config.metadata_partitions:
        return None, None
    storage, config, timeline = snapshot.storage, snapshot.config, snapshot.timeline
    if listing:
        lister, metadata = metadata_lister(storage, config, timeline)
        return (lister if metadata is not None else None), (metadata if options.skipping else None)
    if not options.skipping:
        return None, None
    try:
        return None, open_metadata(storage, config, timeline)
    except (HudiError, FileNotFoundError) as error:
        doubt(storage.uri, error)
        return None, None
