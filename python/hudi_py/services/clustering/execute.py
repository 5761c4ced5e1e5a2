"""Carrying out one group of a plan: its rows, in order, go to new file groups (`SparkSortAndSizeExecutionStrategy`,
`SparkSingleFileSortExecutionStrategy`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.read.slice import SliceReader
from hudi_py.read.split import Split
from hudi_py.schema import StoredRows
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.phases import PlannedUnit, UnitOutcome
from hudi_py.services.planned.slices import missing_file, slice_of
from hudi_py.timeline.clustering_records import ClusteringGroup
from hudi_py.write.context import FileContext, TaskId
from hudi_py.write.handles.base import BaseFileHandle, steps
from hudi_py.write.rows.ordered import OrderedRows


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How the groups of one plan are carried out. Pickles; holds no credentials."""

    rewrite: RewriteSettings
    order: RowOrder
    max_file_bytes: int | None
    """Size at which a file is full; None: each group becomes one file."""
    memory: int
    """Bytes of rows in memory of one group; the rest is spilled to the local disk."""


ClusterUnit = PlannedUnit[ClusteringGroup, ClusterSettings]


def cluster_group(context: ServiceContext, planned: ClusterUnit) -> UnitOutcome:
    """Write the rows of a group's slices to new file groups.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
        CorruptFileError: the group has several partitions.
    """
    storage, config, settings, group = context.storage, planned.work.attempt.config, planned.work.settings, planned.unit
    assert settings is not None
    partition = _partition(context, planned)
    rewrite = settings.rewrite
    files = FileContext(
        planned.running,
        StoredRows.of(config),
        rewrite.schema,
        json.loads(rewrite.avro_json),
        bloom=rewrite.bloom,
        layout=rewrite.layout,
        task=TaskId.fresh(planned.number),
        progress=context.progress,
    )
    slices = [slice_of(storage, each.as_operation(), planned.sizes, "cluster") for each in group.slices]
    try:
        with ExitStack() as opened:
            rows: Iterator[pa.RecordBatch] = (
                batch for slice_ in slices for batch in _rows(context, files, rewrite, slice_)
            )
            per_file: int | None = None
            if settings.order.sorts:
                held = _held(rows, settings, opened)
                if held is None:
                    rows = iter(())
                else:
                    rows = (batch.select(files.keyed_schema.names) for batch in held.batches())
                    per_file = -(-held.num_rows // max(group.num_outputs, 1))
            limit = settings.max_file_bytes
            stats = _written(files, partition, rows, limit, None if limit is None else per_file)
    except FileNotFoundError as error:
        raise missing_file(storage, "cluster rows", partition, error) from error
    replaced = tuple((each.partition_path, each.file_id) for each in group.slices)
    return UnitOutcome(planned.number, tuple(stats), replaced)


def _partition(context: ServiceContext, planned: ClusterUnit) -> PartitionPath:
    paths = sorted({each.partition_path for each in planned.unit.slices})
    if len(paths) != 1:
        raise CorruptFileError(
            f"Cannot cluster {context.storage.uri}: group {planned.number} of the plan {planned.work.instant} has "
            f"{len(paths)} partitions ({', '.join(paths)}), and a group has files of one; unschedule it, and plan it "
            "anew"
        )
    return PartitionPath(paths[0])


def _held(rows: Iterator[pa.RecordBatch], settings: ClusterSettings, opened: ExitStack) -> OrderedRows | None:
    """The rows with what they are sorted by; None if there are none."""
    held: OrderedRows | None = None
    for batch in rows:
        keys = settings.order.keys(batch)
        whole = pa.RecordBatch.from_arrays([*batch.columns, *keys.values()], names=[*batch.schema.names, *keys])
        if held is None:
            held = opened.enter_context(OrderedRows(whole.schema, tuple(keys), settings.memory))
        held.add(whole)
    return held


def _written(
    files: FileContext,
    partition: PartitionPath,
    rows: Iterator[pa.RecordBatch],
    max_bytes: int | None,
    max_rows: int | None,
) -> list[WriteStat]:
    """Write rows to file groups that are full after some bytes, or some rows."""
    stats: list[WriteStat] = []
    handle: BaseFileHandle | None = None
    count = 0
    try:
        for batch in (step for whole in rows for step in steps(whole)):
            while batch.num_rows:
                full = handle is not None and max_bytes is not None and handle.bytes_written >= max_bytes
                if handle is not None and (full or count == max_rows):
                    stats.append(handle.finish())
                    handle, count = None, 0
                if handle is None:
                    handle = BaseFileHandle(files, partition)
                part = batch if max_rows is None else batch.slice(0, max_rows - count)
                handle.write_moved(part)
                count += part.num_rows
                batch = batch.slice(part.num_rows)
        if handle is not None:
            stats.append(handle.finish())
    except BaseException:
        if handle is not None:
            handle.abandon()
        raise
    return stats


def _rows(
    context: ServiceContext, files: FileContext, rewrite: RewriteSettings, slice_: FileSlice
) -> Iterator[pa.RecordBatch]:
    """The merged rows of a slice with their meta columns, or at least their keys."""
    spec = rewrite.spec(context.storage, files.keyed_schema, files.stored.key_fields)
    with SliceReader(context.storage, Split.of(spec, slice_)) as reader:
        yield from reader.rows()
