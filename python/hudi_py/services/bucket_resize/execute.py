"""Carrying out one group of a plan: rows go to the file groups of their new buckets
(`SparkConsistentBucketClusteringExecutionStrategy`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.model.files import FileSlice
from hudi_py.read.slice import SliceReader
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY, StoredRows
from hudi_py.services.bucket_resize.plan import BucketGroup
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.phases import PlannedUnit, UnitOutcome
from hudi_py.services.planned.slices import missing_file, slice_of
from hudi_py.timeline.clustering_records import ClusteringGroup
from hudi_py.write.context import FileContext, TaskId
from hudi_py.write.handles.base import BaseFileHandle
from hudi_py.write.index.bucket import BucketIndex


@dataclass(frozen=True, slots=True)
class ResizeSettings:
    """How the groups of one plan are carried out. Pickles; holds no credentials."""

    rewrite: RewriteSettings
    index: BucketIndex
    num_split: int
    num_merged: int


ResizeUnit = PlannedUnit[ClusteringGroup, ResizeSettings]


def resize_group(context: ServiceContext, planned: ResizeUnit) -> UnitOutcome:
    """Write the rows of a group's slices to the file groups of their new buckets. Buckets without rows get none.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
    """
    storage, config, settings = context.storage, planned.work.attempt.config, planned.work.settings
    group = BucketGroup.of(planned.unit)
    assert settings is not None
    assert group is not None
    rewrite, ring, index = settings.rewrite, group.new, settings.index
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
    slices = [slice_of(storage, each.as_operation(), planned.sizes, "cluster") for each in planned.unit.slices]
    handles: dict[int, BaseFileHandle] = {}
    try:
        with ExitStack() as opened:
            for batch in (batch for slice_ in slices for batch in _rows(context, files, rewrite, slice_)):
                keys = combined(batch[RECORD_KEY])
                numbers = ring.numbers(keys, index.hashed, index.key_fields)
                for number in np.unique(numbers).tolist():
                    if number not in handles:
                        handle = BaseFileHandle(files, group.partition, ring.file_id(number))
                        handles[number] = opened.enter_context(handle)
                    handles[number].write_moved(batch.take(pa.array(np.flatnonzero(numbers == number))))
            stats = tuple(handle.finish() for handle in handles.values())
    except FileNotFoundError as error:
        raise missing_file(storage, "change hash buckets", group.partition, error) from error
    replaced = tuple((str(each.partition_path), each.file_id) for each in planned.unit.slices)
    return UnitOutcome(planned.number, stats, replaced)


def _rows(
    context: ServiceContext, files: FileContext, rewrite: RewriteSettings, slice_: FileSlice
) -> Iterator[pa.RecordBatch]:
    """The merged rows of a slice with their meta columns, or at least their keys."""
    spec = rewrite.spec(context.storage, files.keyed_schema, files.stored.key_fields)
    with SliceReader(context.storage, Split.of(spec, slice_)) as reader:
        yield from reader.rows()
