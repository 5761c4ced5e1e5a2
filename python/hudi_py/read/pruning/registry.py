"""The pruners of partitions and file slices, in the order in which a scan uses them: the cheapest first.

A new index registers its pruner here.
"""

from __future__ import annotations

from itertools import compress
from typing import Final, TypeVar

from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.partition import PathFormat
from hudi_py.read.pruning.buckets import BY_BUCKET
from hudi_py.read.pruning.expression_indexes import BY_EXPRESSION_INDEX
from hudi_py.read.pruning.key_pruners import BY_BLOOM_FILTER, BY_FOOTER, BY_LOCATION
from hudi_py.read.pruning.pruner import Kept, Pruned, Pruner, SoughtRows
from hudi_py.read.pruning.statistics import BY_COLUMN_STATS, BY_PARTITION_STATS

T = TypeVar("T")


def _by_path(sought: SoughtRows, paths: list[PartitionPath]) -> Kept[PartitionPath]:
    """Returns the requested partitions whose paths allow rows that satisfy the condition."""
    if sought.request.partitions is not None:
        paths = sorted({*paths} & {*sought.request.partitions})
    if sought.condition is None:
        return Kept(paths)
    snapshot = sought.snapshot
    path_format = PathFormat.of(snapshot.config)
    values = [path_format.values(snapshot.schema, path, escaped=sought.escaped) for path in paths]
    return Kept(list(compress(paths, sought.condition.may_match(values))))


BY_PATH: Final = Pruner("partition path", lambda sought: True, _by_path, by_metadata=False)

OF_PARTITIONS: Final[tuple[Pruner[PartitionPath], ...]] = (BY_PATH, BY_PARTITION_STATS)
OF_SLICES: Final[tuple[Pruner[FileSlice], ...]] = (
    BY_COLUMN_STATS,
    BY_EXPRESSION_INDEX,
    BY_BUCKET,
    BY_LOCATION,
    BY_BLOOM_FILTER,
    BY_FOOTER,
)


def prune_partitions(sought: SoughtRows, paths: list[PartitionPath]) -> tuple[list[PartitionPath], tuple[Pruned, ...]]:
    """Returns the partitions that may hold sought rows, and what each step left out."""
    return _apply_pruners(sought, OF_PARTITIONS, paths, "partitions")


def prune_slices(sought: SoughtRows, slices: list[FileSlice]) -> tuple[list[FileSlice], tuple[Pruned, ...]]:
    """Returns the file slices that may hold sought rows, and what each step left out."""
    return _apply_pruners(sought, OF_SLICES, slices, "slices")


def _apply_pruners(
    sought: SoughtRows, pruners: tuple[Pruner[T], ...], items: list[T], what: str
) -> tuple[list[T], tuple[Pruned, ...]]:
    """Applies all pruners; steps that could leave nothing out are not reported."""
    steps: list[Pruned] = []
    for pruner in pruners:
        kept = _left_by(sought, pruner, items)
        if kept is not None:
            steps.append(Pruned(kept.step or pruner.name, what, len(items), len(kept.items), kept.why))
            items = kept.items
    return items, tuple(steps)


def _left_by(sought: SoughtRows, pruner: Pruner[T], items: list[T]) -> Kept[T] | None:
    if (pruner.by_metadata and sought.metadata is None) or not pruner.applies(sought):
        return None
    if not pruner.by_metadata:
        return pruner.prune(sought, items)
    return sought.looked_up(lambda: pruner.prune(sought, items))
