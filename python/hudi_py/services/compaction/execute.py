"""Executes the operations of a compaction plan (`HoodieCompactor`, 1.2.0)."""

from __future__ import annotations

import time

from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.merge.base import Watch
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.services.compaction.base import CompactionSlice
from hudi_py.services.compaction.rewrite import Rewrite, RewriteTask, Rewritten
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.slices import missing_file, slice_of
from hudi_py.transaction.publication import FilePermit
from hudi_py.write.changes import change_log
from hudi_py.write.context import TaskId


def compact_slice(context: ServiceContext, planned: CompactionSlice, rewrite: Rewrite) -> WriteStat:
    """Writes and publishes the new base file of one operation.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
    """
    started = time.monotonic()
    whole = slice_of(context.storage, planned.unit, planned.sizes)
    base = whole.base_file
    publication, settings, token = planned.running.publication, planned.work.settings, str(TaskId.fresh(planned.number))
    extension = planned.work.attempt.config.base_file_extension
    permit = publication.permit_base_file(
        whole.partition, whole.file_id, token, merges=base is not None, extension=extension
    )
    logging = None if settings is None else settings.changes
    with change_log(publication, logging, planned.work.instant, whole.partition, whole.file_id, token) as changes:
        done = publish_rewritten(
            context, planned, rewrite, whole, permit, watch=None if changes is None else changes.add
        )
        cdc_stats = None if changes is None else changes.finish()
    if done.ranges is not None and planned.running.keeps_sidecars:
        sidecar = Sidecar()
        sidecar.set_ranges(done.ranges)
        planned.running.keep_sidecar(sidecar, permit.path)
    took_ms = int((time.monotonic() - started) * 1000)
    return WriteStat.of_base_file(
        done.file(whole, permit.path, took_ms), base, cdc_stats=cdc_stats, compacted=done.logs
    )


def publish_rewritten(
    context: ServiceContext,
    planned: CompactionSlice,
    rewrite: Rewrite,
    whole: FileSlice,
    permit: FilePermit,
    *,
    watch: Watch | None = None,
) -> Rewritten:
    """Writes the new file of a slice to the path of the permit, and publishes it. `watch`: see `RewriteTask`.

    Raises:
        HistoryCleanedError: a file of the plan is missing.
    """
    storage, work = context.storage, planned.work
    name = permit.path.rpartition("/")[2]
    task = RewriteTask(
        storage, work.attempt.config, context.options, work.instant, whole, permit.temp_path, name, work.settings, watch
    )
    try:
        with planned.running.publication.publishing(permit):
            done = rewrite(task)
    except FileNotFoundError as error:
        raise missing_file(storage, f"compact the file group {whole.file_id}", whole.partition, error) from error
    context.progress.wrote(done.size)
    return done
