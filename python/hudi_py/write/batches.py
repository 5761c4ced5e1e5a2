"""Writes batches of streaming queries as distributed writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hudi_py.config import Options
from hudi_py.config import incremental as incremental_config
from hudi_py.errors import ConflictError, LockError
from hudi_py.transaction.owner.claim import holder
from hudi_py.transaction.recovery.rollback import rollback_instant
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import existing_table
from hudi_py.write.distributed import DistributedWrite
from hudi_py.write.retry import redo_on_conflict
from hudi_py.write.stream import (
    Batch,
    BatchCommittedError,
    OncePerBatch,
    given_batch,
    is_of_stream,
    last_archived_batch,
    retry_pause_s,
    stream_identifier,
)

__all__ = [
    "Batch",
    "BatchCommittedError",
    "abort_stream",
    "for_batch",
    "given_batch",
    "plan_batch",
    "stream_identifier",
]


def plan_batch(plan: Callable[[], DistributedWrite], options: Options) -> DistributedWrite:
    """Plans a batch, again while another writer has the table or its lock. Raises the errors of `plan_write`."""
    write, _ = redo_on_conflict(
        plan,
        options.get(incremental_config.SINK_RETRY_COUNT) - 1,
        causes=(ConflictError, LockError),
        first_pause_s=retry_pause_s(options),
    )
    return write


def for_batch(write: DistributedWrite, batch: Batch) -> DistributedWrite:
    """Returns the write as that of a batch, which its commit records. If several processes write the same batch, one
    commits; the commits of the others raise `BatchCommittedError`.

    Raises:
        BatchCommittedError: the table holds the batch already.
        ConfigError: the last batch under this identifier is another query's.
    """
    last = write.last
    if last is None:  # rarely reached once a query has written
        last = last_archived_batch(write.attach().storage, write.handle.config, batch.identifier)
    batch.check_new(last)
    conflicts = OncePerBatch(write.handle.conflicts, batch, write.handle.pin)
    return replace(write, handle=replace(write.handle, conflicts=conflicts), extra=(*write.extra, *batch.extra.items()))


def abort_stream(target: WriteTarget, stream: str) -> None:
    """Rolls back what a batch of a query left pending, for a process that does not have its plan."""
    storage = target.durable
    config = existing_table(storage)
    if config is None:
        return
    session = target.session(config)
    with session.locked("roll a batch back") as table:
        for instant in table.plans.writes:
            owner = holder(storage, session.layout, instant.time, instant.action)
            if owner is not None and is_of_stream(owner.id, stream):
                rollback_instant(table, instant)
