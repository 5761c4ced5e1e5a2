"""Prunes partitions and file slices by the statistics in the metadata table.

A slice with logs is pruned only if none of its row versions can match: statistics of its base file and of every log
must be known. Otherwise an older version could surface because the newer one was left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import pyarrow as pa

from hudi_py.expressions.predicate import Column, IsNull, Node
from hudi_py.metadata.stats import ColumnRange, column_stats, partition_stats
from hudi_py.metadata.table import COLUMN_STATS, PARTITION_STATS, MetadataTable
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.pruning.bounds import Bounds, has_usable_bounds, may_be_true
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows
from hudi_py.schema import RECORD_KEY, SchemaHistory


class Statistics:
    """Data skipping by statistics for one filter."""

    def __init__(
        self,
        metadata: MetadataTable,
        conjuncts: Iterable[Node],
        schema: pa.Schema,
        history: SchemaHistory | None = None,
        ignored: Collection[str] = (),
    ) -> None:
        """
        Args:
            conjuncts: conditions that must all be true for a row.
            history: as in `BaseFileReader`; columns that it does not resolve by name are ignored.
            ignored: further columns whose statistics do not describe the rows.
        """
        self._metadata = metadata
        unclear = {path.partition(".")[0] for path, _ in history.repairs} if history is not None else set()
        if history is not None and history.query is not None:
            unclear = set(schema.names)
        unclear.update(ignored)
        self._conjuncts = [node for node in conjuncts if _is_usable(node, schema)]
        self._columns = {
            item.path[0]: item.kind
            for node in self._conjuncts
            for item in node.walk()
            if isinstance(item, Column) and len(item.path) == 1 and has_usable_bounds(item.kind)
            if item.path[0] not in unclear
        }
        self._has_keys = RECORD_KEY in schema.names

    @property
    def columns(self) -> str:
        """Returns names of the columns whose statistics are used."""
        return ", ".join(self._columns)

    def partitions(self, paths: Sequence[PartitionPath]) -> list[PartitionPath] | None:
        """Returns the partitions that may hold matching rows; None if statistics cannot decide.

        Bounds of a column are used only if they cover as many rows as those of the record key, which every file has:
        if statistics of a column were enabled later, older files have none. Bounds of strings and floats are never
        used: Apache Hudi 1.2.0 ignores files without bounds (strings above 4 kB, NaN) when it combines them.
        """
        conjuncts = [node for node in self._conjuncts if not any(isinstance(part, IsNull) for part in node.walk())]
        joined = {name: kind for name, kind in self._columns.items() if _is_always_known(kind)}
        if not conjuncts or not joined or not self._has_keys or not paths or not self._metadata.has(PARTITION_STATS):
            return None
        kinds = {**joined, RECORD_KEY: pa.string()}
        stats = partition_stats(self._metadata, kinds, paths)

        def matches(path: PartitionPath) -> bool:
            keys = stats.get((RECORD_KEY, path))
            if keys is None or keys.values is None:
                return True

            def bounds(column: Column) -> Bounds | None:
                known = stats.get((column.path[0], path)) if len(column.path) == 1 else None
                if known is None or column.path[0] not in joined or known.values != keys.values:
                    return None
                return Bounds(known.low, known.high, known.nulls, known.values)

            return all(may_be_true(node, bounds) for node in conjuncts)

        return [path for path in paths if matches(path)]

    def slices(self, slices: Sequence[FileSlice], *, with_logs: bool) -> list[FileSlice] | None:
        """Returns the slices that may hold matching rows; None if statistics cannot decide.

        Args:
            with_logs: whether slices with logs may be pruned, which requires that merged rows have only values from the
                files.
        """
        among = [slice_ for slice_ in slices if with_logs or not slice_.log_files]
        if not self._columns or not among or not self._metadata.has(COLUMN_STATS):
            return None
        stats = column_stats(
            self._metadata, self._columns, [(slice_.partition, name) for slice_ in among for name in names_of(slice_)]
        )

        def matches(slice_: FileSlice) -> bool:
            if slice_.log_files and not with_logs:
                return True

            def bounds(column: Column) -> Bounds | None:
                if len(column.path) > 1 or column.path[0] not in self._columns:
                    return None
                return bounds_over([stats.get((column.path[0], slice_.partition, name)) for name in names_of(slice_)])

            return all(may_be_true(node, bounds) for node in self._conjuncts)

        return [slice_ for slice_ in slices if matches(slice_)]


def names_of(slice_: FileSlice) -> list[str]:
    """Returns the file names of a slice."""
    names = [str(log.name) for log in slice_.log_files]
    return names if slice_.base_file is None else [str(slice_.base_file.name), *names]


def bounds_over(ranges: Sequence[ColumnRange | None]) -> Bounds | None:
    """Combines the bounds of several files; None unless all are known."""
    known = [item for item in ranges if item is not None]
    if len(known) < len(ranges) or not known:
        return None
    # files with only nulls do not widen the bounds
    some = [item for item in known if item.may_have_values]
    bounded = some and all(item.low is not None for item in some)
    return Bounds(
        min(item.low for item in some) if bounded else None,
        max(item.high for item in some) if bounded else None,
        _sum_known([item.nulls for item in known]),
        _sum_known([item.values for item in known]),
    )


def _sum_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _is_usable(node: Node, schema: pa.Schema) -> bool:
    return any(
        isinstance(part, Column)
        and len(part.path) == 1
        and part.path[0] in schema.names
        and has_usable_bounds(part.kind)
        for part in node.walk()
    )


def _is_always_known(kind: pa.DataType) -> bool:
    """Returns whether every file has bounds of such a column, unless it holds only nulls."""
    return not (pa.types.is_string(kind) or pa.types.is_floating(kind))


def _usable_statistics(sought: SoughtRows) -> Statistics | None:
    snapshot, metadata = sought.snapshot, sought.metadata
    if metadata is None:
        return None
    return Statistics(metadata, sought.conjuncts, snapshot.schema, snapshot.history, sought.columns_from_paths)


def _knows_partitions(sought: SoughtRows) -> bool:
    """Returns whether the ranges of partitions are usable: they describe the newest state, and Apache Hudi 1.2.0
    computes them only from Parquet files, so for other formats they miss rows."""
    return bool(sought.conjuncts) and sought.is_newest and sought.snapshot.config.base_file_format == "PARQUET"


def _by_partition_stats(sought: SoughtRows, paths: list[PartitionPath]) -> Kept[PartitionPath] | None:
    statistics = _usable_statistics(sought)
    kept = None if statistics is None else statistics.partitions(paths)
    return None if statistics is None or kept is None else Kept(kept, statistics.columns)


def _by_column_stats(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    statistics = _usable_statistics(sought)
    kept = None if statistics is None else statistics.slices(slices, with_logs=sought.merged)
    return None if statistics is None or kept is None else Kept(kept, statistics.columns)


BY_PARTITION_STATS: Final = Pruner("partition stats", _knows_partitions, _by_partition_stats)
BY_COLUMN_STATS: Final = Pruner("column stats", lambda sought: bool(sought.conjuncts), _by_column_stats)
