"""What the services have in common whose plans are clusterings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.services.compaction.strategy import slice_metrics
from hudi_py.services.planned.codec import PlanCodec
from hudi_py.storage import Storage
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan, ClusteringSlice, encode_clustering_plan

ClusteringCodec: TypeAlias = PlanCodec[ClusteringPlan, ClusteringGroup]


def clustering_codec(decode: Callable[[bytes, str], ClusteringPlan | None]) -> ClusteringCodec:
    """Return how the plans of a service are stored. `decode`: of those that are its own."""
    return PlanCodec(
        action=Action.CLUSTERING,
        decode=decode,
        encode=encode_clustering_plan,
        units=lambda plan: plan.groups,
        with_units=lambda plan, groups: replace(plan, groups=groups),
        files=lambda group: ((each.partition_path, name) for each in group.slices for name in each.files),
        rows=_rows,
    )


def planned_group(
    storage: Storage,
    slices: Sequence[FileSlice],
    outputs: int,
    default_size: int,
    extra: Mapping[str, str] | None = None,
) -> ClusteringGroup:
    """Return a group of a new plan.

    Args:
        outputs: how many file groups are planned to take their place.
        default_size: bytes that a slice without a base file is assumed to write.
    """
    named = tuple(_named(storage, slice_) for slice_ in slices)
    return ClusteringGroup(named, outputs, slice_metrics(slices, default_size), extra)


def _named(storage: Storage, slice_: FileSlice) -> ClusteringSlice:
    uri, base = storage.uri.replace("file:///", "file:/", 1), slice_.base_file
    return ClusteringSlice(
        partition_path=slice_.partition,
        file_id=slice_.file_id,
        base_path="" if base is None else f"{uri}/{base.path}",
        log_paths=tuple(f"{uri}/{log.path}" for log in reversed(slice_.log_files)),
        bootstrap_file="" if base is None or base.source is None else base.source,
    )


def _rows(plan: ClusteringPlan) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {"partition": each.partition_path, "file_id": each.file_id, "files": list(each.files)} for each in plan.slices
    )
