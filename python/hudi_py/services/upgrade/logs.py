"""What comes before a change that logs do not survive: they are compacted, until none is left."""

from __future__ import annotations

from dataclasses import replace

from hudi_py.config import compaction as compaction_config
from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.service import run, run_all
from hudi_py.timeline.state import TableState
from hudi_py.view import FileSystemView


def compact_logs(context: ServiceContext) -> None:
    """Runs the pending compactions, and compacts all other logs."""
    options = context.options.replace({compaction_config.STRATEGY: "UnBoundedCompactionStrategy"})
    own = replace(context, session=context.session.reread(), options=options)
    own.progress.phase("compacting logs")
    for instant in own.timeline().pending:
        if instant.action is Action.LOG_COMPACTION:
            run(LogCompaction(), own, instant.time)
    run_all(Compaction(always=True), own)


def pending_compactions(state: TableState) -> int:
    """Returns the number of plans of compactions that are not completed."""
    return sum(pending.action in (Action.COMPACTION, Action.LOG_COMPACTION) for pending in state.timeline.pending)


def groups_with_logs(view: FileSystemView) -> int:
    """Returns the number of file groups whose newest slice has logs."""
    return sum(bool(slice_.log_files) for path in view.partitions() for slice_ in view.latest_slices_for_write(path))


def check_not_indexing(state: TableState, purpose: str) -> None:
    """Raises ConflictError if an index is being built."""
    indexing = [pending for pending in state.timeline.pending if pending.action is Action.INDEXING]
    if indexing or state.config.metadata_partitions_inflight:
        what = indexing[0].time if indexing else ", ".join(state.config.metadata_partitions_inflight)
        raise ConflictError(
            f"Cannot {purpose} at {state.storage.uri}: an index is being built ({what}); wait until it is done, or "
            "drop it"
        )


def logs_of_clustering(state: TableState, clustering: str, purpose: str) -> ConflictError:
    """Returns the error of a pending clustering whose file groups have logs, which cannot be compacted."""
    return ConflictError(
        f"Cannot {purpose} at {state.storage.uri}: the pending clustering {clustering} has file groups with logs, "
        "which have to be compacted first; run it, or drop it (unschedule)",
        instant=clustering,
    )


def added_too_fast(uri: str, purpose: str) -> ConflictError:
    """Returns the error of a table whose writers leave no moment without logs."""
    return ConflictError(
        f"Cannot {purpose} at {uri}: other writers add logs as quickly as they are compacted; stop them, then try again"
    )
