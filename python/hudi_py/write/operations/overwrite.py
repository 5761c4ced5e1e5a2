"""Determines the file groups that overwrites and deletions of partitions replace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import write as write_config
from hudi_py.errors import ConflictError
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import PartitionPath
from hudi_py.schema.patterns import escaped, matching
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.shares import pending_clustering_conflict

_log = logging.getLogger(__name__)


def replaced_by(context: WriteContext, stats: Iterable[WriteStat]) -> dict[str, tuple[str, ...]]:
    """Returns the file groups that an overwrite of partitions replaces, if it wrote these files: those of the
    partitions written to, or of the partitions that `hoodie.static.overwrite.partition.paths` names
    (`SparkInsertOverwriteCommitActionExecutor`, 1.2.0).

    Raises:
        ConflictError: a pending clustering is about to replace some of them, and would bring their rows back.
    """
    partitions = context.settings.get(write_config.OVERWRITTEN_PARTITIONS) or {stat.partition_path for stat in stats}
    return replaced_groups(context, map(PartitionPath, partitions), "overwrite")


def deleted_groups(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> dict[str, tuple[str, ...]]:
    """Returns the file groups of the partitions that `settings.deleted_partitions` names, or of the rows' partitions
    (`SparkDeletePartitionCommitActionExecutor`, 1.2.0). Their files stay until they are cleaned.

    Raises:
        ConflictError: a pending compaction, log compaction or clustering has file groups of them.
    """
    named = context.settings.deleted_partitions
    partitions = _partitions_of(context, batches) if named is None else _match_partitions(context, named)
    return groups_to_delete(context, partitions)


def groups_to_delete(context: WriteContext, partitions: Sequence[PartitionPath]) -> dict[str, tuple[str, ...]]:
    """Returns the file groups of partitions that a write deletes. Raises the errors of `deleted_groups`."""
    _check_no_pending_compaction(context, partitions)
    return replaced_groups(context, partitions, "delete")


def replaced_groups(
    context: WriteContext, partitions: Iterable[PartitionPath], verb: str
) -> dict[str, tuple[str, ...]]:
    """Returns the file groups of some partitions, by partition.

    Args:
        verb: what the write does to them, for the error.

    Raises:
        ConflictError: a pending clustering is about to replace some of them.
    """
    view = context.transaction.view
    chosen = sorted(set(partitions))
    for partition, file_id in sorted(view.pending_clustering):
        if partition in chosen:
            raise pending_clustering_conflict(view, verb, partition, file_id)
    view.lister.prefetch(chosen)
    replaced: dict[str, tuple[str, ...]] = {}
    for partition in chosen:
        if context.buckets is not None:
            context.buckets.replace(partition)
        groups = tuple(str(slice_.file_id) for slice_ in view.latest_slices_for_write(partition))
        if groups:
            replaced[str(partition)] = groups
    return replaced


def _partitions_of(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> list[PartitionPath]:
    keygen, schema = context.settings.keygen, context.settings.schema
    paths_written: set[str] = set()
    for batch in batches:
        context.progress.read(batch.num_rows)
        paths = keygen.partition_paths(schema.conform_some(batch, keygen.partition_columns(schema.arrow)))
        paths_written.update(pc.unique(paths).to_pylist())
    return sorted(PartitionPath(path) for path in paths_written)


def _match_partitions(context: WriteContext, patterns: Sequence[str]) -> list[PartitionPath]:
    """Returns the table's partitions that match, where `*` stands for any text, as in `resolvePartitionWildcards` of
    Apache Hudi 1.2.0."""
    known = context.transaction.view.partitions()
    matches: set[str] = set()
    for pattern in patterns:
        wanted = pattern.strip("/")
        regex = ".*".join(escaped(part) for part in wanted.split("*"))
        matched = matching(f"(?s:{regex})", known, "hoodie.datasource.write.partitions.to.delete", whole=True)
        if not matched:
            _log.warning("the table %s has no partition '%s' to delete", context.transaction.config.name, pattern)
        matches.update(matched)
    return sorted(PartitionPath(path) for path in matches)


def _check_no_pending_compaction(context: WriteContext, partitions: Sequence[PartitionPath]) -> None:
    transaction = context.transaction
    plans = PendingPlans(transaction.storage, transaction.timeline)
    for instant in plans.of(*COMPACTIONS):
        for partition, file_id in plans.file_groups(instant):
            if partition in partitions:
                raise ConflictError(
                    f"Cannot delete the partition '{partition}' of {transaction.storage.uri}: the pending "
                    f"{instant.action.value} {instant.time} has its file group {file_id}; run or unschedule it, then "
                    "delete the partition again",
                    instant=instant.time,
                )
