"""Estimates what a clustering gains: fewer files, and fewer of them that a filter opens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import clustering as config
from hudi_py.config import indexes as index_config
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.metadata.files import metadata_lister
from hudi_py.metadata.stats import column_stats
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.model.words import counted
from hudi_py.read.pruning.bounds import footer_bounds, has_usable_bounds
from hudi_py.read.pruning.statistics import bounds_over, names_of
from hudi_py.services.planned.service import PlanGain
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan
from hudi_py.timeline.plans import FileGroup
from hudi_py.view import FileSystemView

_MAX_COLUMNS: Final = 5
_MAX_FOOTERS: Final = 1_000
_Range: TypeAlias = tuple[Any, Any]
"""The least and greatest value of a column in a file."""


@dataclass(frozen=True, slots=True)
class ColumnGain:
    """How many files a filter for one value of a column opens, on average over the ends of the files' ranges."""

    name: str
    opened: float
    opened_after: float
    """Estimated: the range of a group is divided evenly among its new files, along a curve in each of its columns."""


@dataclass(frozen=True, slots=True, repr=False)
class ClusteringGain(PlanGain):
    """What a clustering gains in the partitions of its plan."""

    files: int
    """Latest file slices."""
    files_after: int
    small_files: int
    """Those below `hoodie.clustering.plan.strategy.small.file.limit`."""
    small_files_after: int
    columns: tuple[ColumnGain, ...] = ()
    """Those to sort by; without any those that `hoodie.metadata.index.column.stats.column.list` names. Columns without
    known ranges are left out."""

    @property
    def files_saved(self) -> int:
        """Returns by how many files listings shrink, or the filters that gain the most."""
        return max(
            self.files - self.files_after, *(round(column.opened - column.opened_after) for column in self.columns), 0
        )

    def _text(self) -> str:
        parts = [f"{counted(self.files, 'file')} become {self.files_after:,}"]
        if self.small_files and self.small_files != self.files:
            parts.append(f"{self.small_files:,} small ones become {self.small_files_after:,}")
        parts += [
            f"a filter for one value of {column.name} opens {column.opened:,.1f} of them on average, "
            f"then about {column.opened_after:,.1f}"
            for column in self.columns
        ]
        return "; ".join(parts)


def estimate_gain(
    view: FileSystemView, options: Options, plan: ClusteringPlan, schema: pa.Schema, *, footers: bool
) -> ClusteringGain:
    """Estimates what a plan gains.

    Args:
        options: those with which the plan is run.
        schema: columns whose ranges may be compared; none: only files are counted.
        footers: whether ranges that the metadata table does not have are read from the files.
    """
    slices: dict[FileGroup, FileSlice] = {
        (path, slice_.file_id): slice_
        for path in sorted({slice_.partition_path for slice_ in plan.slices})
        for slice_ in view.latest_slices(PartitionPath(path))
    }
    moved = {(slice_.partition_path, slice_.file_id) for slice_ in plan.slices}
    outputs = sum(group.num_outputs for group in plan.groups)
    limit = options.get(config.SMALL_FILE_LIMIT)
    small = {place for place, slice_ in slices.items() if slice_.base_file is None or slice_.base_file.size < limit}
    sizes = [_bytes_of(slices, group) / max(group.num_outputs, 1) for group in plan.groups]
    return ClusteringGain(
        files=len(slices),
        files_after=len(slices.keys() - moved) + outputs,
        small_files=len(small),
        small_files_after=len(small - moved)
        + sum(group.num_outputs for group, size in zip(plan.groups, sizes, strict=True) if size < limit),
        columns=tuple(_column_gains(view, options, plan, slices, schema, footers)),
    )


def _bytes_of(slices: Mapping[FileGroup, FileSlice], group: ClusteringGroup) -> int:
    planned = (slices.get((slice_.partition_path, slice_.file_id)) for slice_ in group.slices)
    return sum(slice_.size for slice_ in planned if slice_ is not None)


def _column_gains(
    view: FileSystemView,
    options: Options,
    plan: ClusteringPlan,
    slices: Mapping[FileGroup, FileSlice],
    schema: pa.Schema,
    footers: bool,
) -> Iterator[ColumnGain]:
    sorted_by = options.get(config.SORT_COLUMNS)
    spelled = {name.lower(): name for name in schema.names}
    wanted = (spelled.get(name.lower()) for name in sorted_by or options.get(index_config.COLUMN_STATS_COLUMNS))
    kinds = {name: schema.field(name).type for name in wanted if name is not None}
    usable = {name: kind for name, kind in kinds.items() if has_usable_bounds(kind)}
    kinds = dict(list(usable.items())[:_MAX_COLUMNS])
    if not kinds:
        return
    known = _ranges_of(view, kinds, slices, footers)
    leading = [spelled.get(name.lower()) for name in sorted_by]
    if options.get(config.LAYOUT) == "LINEAR":
        leading = leading[:1]
    moved = {(slice_.partition_path, slice_.file_id) for slice_ in plan.slices}
    for name, ranges in known.items():
        points = [end for range_ in ranges.values() for end in range_]
        after = _average_opened([range_ for place, range_ in ranges.items() if place not in moved], points)
        for group in plan.groups:
            opened = group.num_outputs ** (1 - 1 / len(leading)) if name in leading else group.num_outputs
            after += opened * _average_opened(_whole_range(group, ranges), points)
        if points:
            yield ColumnGain(name, _average_opened([*ranges.values()], points), after)


def _whole_range(group: ClusteringGroup, ranges: Mapping[FileGroup, _Range]) -> list[_Range]:
    """Returns the range of all slices of a group; none if none has values."""
    places = ((slice_.partition_path, slice_.file_id) for slice_ in group.slices)
    members = [ranges[place] for place in places if place in ranges]
    return [(min(low for low, _ in members), max(high for _, high in members))] if members else []


def _average_opened(ranges: Sequence[_Range], points: Sequence[Any]) -> float:
    """Returns the average number of ranges that contain a point."""
    lows, highs = sorted(low for low, _ in ranges), sorted(high for _, high in ranges)
    return sum(bisect_right(lows, point) - bisect_left(highs, point) for point in points) / max(len(points), 1)


def _ranges_of(
    view: FileSystemView, kinds: Mapping[str, pa.DataType], slices: Mapping[FileGroup, FileSlice], footers: bool
) -> dict[str, dict[FileGroup, _Range]]:
    """Returns the ranges of columns by file group, for columns whose ranges are known for all slices with values."""
    _, metadata = metadata_lister(view.state)
    by_column: dict[str, dict[FileGroup, _Range] | None] = {name: {} for name in kinds}
    if metadata is not None and metadata.has(COLUMN_STATS):
        files = [(slice_.partition, file) for slice_ in slices.values() for file in names_of(slice_)]
        stats = column_stats(metadata, kinds, files)
        for place, slice_ in slices.items():
            for name in kinds:
                bounds = bounds_over([stats.get((name, slice_.partition, file)) for file in names_of(slice_)])
                if bounds is None:
                    by_column[name] = None
                elif bounds.nulls is None or bounds.nulls != bounds.rows:
                    _note(by_column, name, place, bounds.low, bounds.high)
    elif footers and len(slices) <= _MAX_FOOTERS and all(map(_has_footer, slices.values())):
        read = in_threads(lambda item: _footer_ranges(view.state.storage, item, kinds), slices.values())
        for place, ranges in zip(slices, read, strict=True):
            for name, (low, high) in ranges.items():
                _note(by_column, name, place, low, high)
    else:
        return {}
    return {name: ranges for name, ranges in by_column.items() if ranges is not None}


def _note(
    by_column: dict[str, dict[FileGroup, _Range] | None], name: str, place: FileGroup, low: Any, high: Any
) -> None:
    ranges = by_column[name]
    if low is None or high is None:
        by_column[name] = None
    elif ranges is not None:
        ranges[place] = (low, high)


def _has_footer(slice_: FileSlice) -> bool:
    return slice_.base_file is not None and not slice_.log_files and slice_.base_file.name.extension == "parquet"


def _footer_ranges(storage: Storage, slice_: FileSlice, kinds: Mapping[str, pa.DataType]) -> dict[str, _Range]:
    """Returns the ranges of columns that have values; unknown ends are None."""
    assert slice_.base_file is not None
    footer = read_metadata(storage, slice_.base_file.path)
    places = {footer.schema.column(number).path: number for number in range(len(footer.schema))}
    result: dict[str, _Range] = {}
    for name, kind in kinds.items():
        if name not in places:
            continue
        chunks = [footer.row_group(number).column(places[name]) for number in range(footer.num_row_groups)]
        chunks = [
            chunk for chunk in chunks if not (chunk.is_stats_set and chunk.statistics.null_count == chunk.num_values)
        ]
        ends: list[_Range] = [
            footer_bounds(chunk.statistics, kind) if chunk.is_stats_set else (None, None) for chunk in chunks
        ]
        if ends:
            known = all(low is not None for low, _ in ends)
            result[name] = (min(low for low, _ in ends), max(high for _, high in ends)) if known else (None, None)
    return result
