"""Executes the operations of a compaction plan (`HoodieCompactor`, 1.2.0)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from hudi_py.errors import CorruptFileError, HistoryCleanedError
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.merge.base import Watch
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, WriteStat
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.layout import sidecar_folder
from hudi_py.model.names import FileId, PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.services.compaction.base import CompactionSlice
from hudi_py.services.compaction.rewrite import Rewrite, RewriteTask, Rewritten
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage
from hudi_py.timeline.plan_checks import check_partition
from hudi_py.timeline.plans import CompactionOperation
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.publication import FilePermit
from hudi_py.write.changes import change_log

_STAGE = 1


def slice_of(storage: Storage, operation: CompactionOperation, sizes: Mapping[str, int]) -> FileSlice:
    """The files of an operation, with their sizes: those of `sizes`, by path, or of the storage.

    Raises:
        CorruptFileError: a name in the plan is not that of a file of the group, or its partition is none.
        HistoryCleanedError: a file is missing.
    """
    partition = PartitionPath(operation.partition_path)
    check_partition(partition, f"compact {storage.uri} by its plan")
    base: BaseFile | None = None
    if operation.base_file is not None:
        found = parse_base_file_name(operation.base_file)
        if found is None or found.file_id != operation.file_id:
            raise _misnamed(storage, operation, operation.base_file)
        size = _size(storage, join_path(partition, operation.base_file), sizes)
        base = BaseFile(partition, found, size, operation.bootstrap_file)
    logs = []
    for name in operation.log_files:
        log = parse_log_file_name(name)
        if log is None or log.file_id != operation.file_id:
            raise _misnamed(storage, operation, name)
        logs.append(LogFile(partition, log, _size(storage, join_path(partition, name), sizes)))
    logs.sort(key=lambda log: log.name.sort_key)
    return FileSlice(partition, FileId(operation.file_id), operation.base_instant, base, tuple(logs))


def write_token(number: int) -> str:
    """A write token unique to this attempt."""
    return f"{number}-{_STAGE}-{secrets.randbelow(1 << 31)}"


def compact_slice(context: ServiceContext, planned: CompactionSlice, rewrite: Rewrite) -> WriteStat:
    """Writes and publishes the new base file of one operation.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
    """
    started = time.monotonic()
    whole = slice_of(context.storage, planned.unit, planned.sizes)
    base = whole.base_file
    publication, token, settings = planned.running.publication, write_token(planned.number), planned.work.settings
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
    owner = planned.work.attempt.owner.process
    if done.ranges is not None and owner is not None and owner == process_identity():  # so this process will commit
        sidecar = Sidecar()
        sidecar.set_ranges(done.ranges)
        sidecar.hold(context.storage, sidecar_folder(planned.work.instant), permit.path)
    return WriteStat(
        file_id=whole.file_id,
        path=permit.path,
        partition_path=whole.partition,
        prev_commit=base.instant if base is not None else NO_PREVIOUS_COMMIT,
        num_writes=done.num_rows,
        num_inserts=done.inserts,
        num_updates=done.updates,
        num_deletes=done.deletes,
        total_write_bytes=done.size,
        file_size=done.size,
        prev_base_file=str(base.name) if base is not None else None,
        cdc_stats=cdc_stats,
        upsert_time_ms=int((time.monotonic() - started) * 1000),
        compacted=done.logs,
    )


def _size(storage: Storage, path: str, sizes: Mapping[str, int]) -> int:
    known = sizes.get(path)
    if known is not None:
        return known
    info = storage.stat(path)
    if info is None:
        raise HistoryCleanedError(
            f"Cannot compact {storage.uri}: the file {path} of the plan is missing, so the plan can no longer be "
            "executed; unschedule it, or restore an earlier savepoint",
            path=path,
        )
    return info.size


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
        raise HistoryCleanedError(
            f"Cannot compact file group {whole.file_id} in partition '{whole.partition}' of {storage.uri}: a file of "
            f"the plan is missing ({error}), so the plan can no longer be executed; unschedule it, or restore an "
            "earlier savepoint"
        ) from error
    context.progress.wrote(done.size)
    return done


def _misnamed(storage: Storage, operation: CompactionOperation, name: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot compact file group {operation.file_id} in partition '{operation.partition_path}' of {storage.uri}: "
        f"the plan names '{name}', which is not the name of a file of this group"
    )
