"""Pruners, which leave out partitions or file slices that cannot hold sought rows, and their input.

Each is one row, a `Pruner`, in the module of its index; `read.pruning.registry` has their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from hudi_py.errors import HudiError, StorageError
from hudi_py.expressions.predicate import Node
from hudi_py.metadata import MetadataTable
from hudi_py.metadata.files import warn_unused
from hudi_py.model.files import BaseFile
from hudi_py.read.partition import columns_from_paths
from hudi_py.read.pruning.keys import equalities, key_bounds, keys_of_filter, texts_of_filter
from hudi_py.read.split import ReadSpec
from hudi_py.schema import RECORD_KEY

if TYPE_CHECKING:
    from hudi_py.read.request import ScanRequest
    from hudi_py.read.snapshot import Snapshot

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """The result of a pruner."""

    items: list[T]
    why: str = ""
    """The columns, keys or index that decided it."""
    step: str | None = None
    """The name of the step, if it is not the pruner's."""


@dataclass(frozen=True, slots=True)
class Pruner(Generic[T]):
    """Leaves out partitions or file slices that cannot hold a sought row."""

    name: str
    """The name of the step in `explain`."""
    applies: Callable[[SoughtRows], bool]
    """Returns whether it could leave anything out, as far as that is known without reading."""
    prune: Callable[[SoughtRows, list[T]], Kept[T] | None]
    """Returns the items that may hold sought rows; None if it cannot decide."""
    by_metadata: bool = True
    """Whether it needs the metadata table. It is skipped, with a warning, if that is damaged."""


class SoughtRows:
    """The rows that a scan looks for, and what is known about their location."""

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
            metadata: the table whose indexes are used, if the request does so.
            given: whether the slices are not those of the newest state, but given by the caller.
            escaped: see `partition.path_values`.
        """
        self.snapshot = snapshot
        self.request = request
        self.condition = spec.filter
        self.metadata = metadata if request.use_indexes else None
        self.given = given
        self.escaped = escaped
        self.restricted = spec.filter is not None or spec.keys is not None
        """Whether there is a condition or a choice of keys."""
        # indexes may store a key of several columns in another form
        self._given_keys = None if spec.key_fields else spec.keys
        self.merged = False
        """Whether each row is the newest version of its key and has only values from the files, which is known once the
        slices are; otherwise slices with logs, or possibly older versions, are kept."""
        self.answered: set[tuple[str, str]] = set()
        """Partition and name of base files whose bloom filter has been checked for the keys."""

    @property
    def is_newest(self) -> bool:
        """Returns whether the slices are those of the metadata table's newest state, the only one that some indexes
        describe."""
        snapshot, metadata = self.snapshot, self.metadata
        newest = not self.given and snapshot.as_of is None and self.request.query_type != "read_optimized"
        return newest and metadata is not None and metadata.is_newest

    @cached_property
    def conjuncts(self) -> list[Node]:
        """Returns conditions that must all be true for a row, from the filter and on the record key."""
        result = [] if self.condition is None else list(self.condition.conjuncts())
        if self._given_keys is not None and RECORD_KEY in self.snapshot.schema.names:
            result += key_bounds(self._given_keys)
        return result

    @cached_property
    def equal(self) -> dict[str, frozenset[object]]:
        """Maps columns to their possible values."""
        return equalities(self.condition)

    @cached_property
    def texts(self) -> dict[str, frozenset[str]]:
        """Maps columns to the texts of their possible values in a secondary index."""
        return texts_of_filter(self.condition)

    @cached_property
    def keys(self) -> frozenset[str] | None:
        """Returns the possible record keys; None if any."""
        snapshot = self.snapshot
        return both(self._given_keys, keys_of_filter(self.condition, snapshot.config, snapshot.schema))

    @cached_property
    def columns_from_paths(self) -> frozenset[str]:
        """Returns columns whose values in files do not count, so that indexes do not apply to them."""
        return columns_from_paths(self.snapshot.config)

    def looked_up(self, read: Callable[[], T]) -> T | None:
        """Returns the result of an index lookup; None, with a warning, if the index is damaged or missing."""
        try:
            return read()
        except StorageError:  # not a sign of damage
            raise
        except (HudiError, FileNotFoundError) as error:
            warn_unused(self.snapshot.storage.uri, error, "files are not pruned by it")
            return None


def both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    """Intersects two sets; None means everything."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def place_of(file: BaseFile) -> tuple[str, str]:
    """Returns the partition and the name of a base file."""
    return file.partition, str(file.name)
