"""Plans of clusterings (`HoodieClusteringPlan` in `HoodieRequestedReplaceMetadata`, Apache Hudi 1.2.0).

Versions 8 and 9 store them in requested clusterings, version 6 in requested replacecommits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.timeline.plans import CompactionOperation
from hudi_py.timeline.records import Fields, decode_record, encode_record

CLUSTER = "CLUSTER"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """One file slice that a clustering replaces."""

    partition_path: str
    file_id: str
    base_path: str = ""
    """Absolute path of its base file; empty if it has none."""
    log_paths: tuple[str, ...] = ()
    """Absolute paths of its logs, newest first."""
    bootstrap_file: str = ""
    """URI of a bootstrapped base file's source."""

    @property
    def files(self) -> tuple[str, ...]:
        """Returns the names of its base file and logs."""
        paths = (self.base_path, *self.log_paths)
        return tuple(path.rpartition("/")[2] for path in paths if path)

    def as_operation(self) -> CompactionOperation:
        """Returns the slice in the form of compaction plans."""
        base = self.base_path.rpartition("/")[2]
        logs = tuple(path.rpartition("/")[2] for path in reversed(self.log_paths))
        first = parse_base_file_name(base) if base else next(map(parse_log_file_name, logs), None)
        instant = "" if first is None else first.instant
        source = self.bootstrap_file or None
        return CompactionOperation(
            self.partition_path, self.file_id, instant, base or None, logs, bootstrap_file=source
        )


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """File slices whose rows go to the same new file groups."""

    slices: tuple[ClusteringSlice, ...]
    num_outputs: int = 1
    """Planned number of file groups that replace them."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """Content of a requested clustering."""

    groups: tuple[ClusteringGroup, ...]
    strategy: str = ""
    """The Java class that carries out the plan."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Options of the strategy, such as the columns to sort by."""
    preserves_meta: bool = True
    """Whether rows keep their meta columns."""
    missing_partitions: tuple[str, ...] | None = None
    """Partitions that the plan left out; None if not recorded."""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def slices(self) -> tuple[ClusteringSlice, ...]:
        """Returns the slices of all groups."""
        return tuple(slice_ for group in self.groups for slice_ in group.slices)


def encode_clustering_plan(plan: ClusteringPlan) -> bytes:
    """Encodes an Avro container file."""
    missing = plan.missing_partitions
    clustering: dict[str, Any] = {
        "inputGroups": [
            {
                "slices": [
                    {
                        "dataFilePath": slice_.base_path,
                        "deltaFilePaths": list(slice_.log_paths),
                        "fileId": slice_.file_id,
                        "partitionPath": slice_.partition_path,
                        "bootstrapFilePath": slice_.bootstrap_file,
                        "version": _VERSION,
                    }
                    for slice_ in group.slices
                ],
                "metrics": dict(group.metrics),
                "numOutputFileGroups": group.num_outputs,
                "extraMetadata": None if group.extra is None else dict(group.extra),
                "version": _VERSION,
            }
            for group in plan.groups
        ],
        "strategy": {
            "strategyClassName": plan.strategy,
            "strategyParams": dict(plan.parameters),
            "version": _VERSION,
        },
        "extraMetadata": dict(plan.extra),
        "version": _VERSION,
        "preserveHoodieMetadata": plan.preserves_meta,
        "missingSchedulePartitions": None if missing is None else list(missing),
    }
    record = {"operationType": CLUSTER, "clusteringPlan": clustering, "extraMetadata": {}, "version": _VERSION}
    return encode_record("HoodieRequestedReplaceMetadata", record)


def decode_clustering_plan(data: bytes, context: str = "a clustering plan") -> ClusteringPlan | None:
    """Decodes the plan of a requested replacecommit or clustering; None if it is not a clustering, or empty.

    Raises:
        CorruptFileError: naming `context`.
    """
    if not data:
        return None
    record = Fields(decode_record(data, context), context)
    plan = record.record("clusteringPlan")
    if plan is None:
        return ClusteringPlan(()) if record.text("operationType") == CLUSTER else None
    strategy = plan.record("strategy") or Fields({}, context)
    return ClusteringPlan(
        groups=tuple(_group(group) for group in plan.records("inputGroups")),
        strategy=strategy.text("strategyClassName"),
        parameters=strategy.text_map("strategyParams"),
        preserves_meta=plan.flag("preserveHoodieMetadata"),
        missing_partitions=plan.optional_texts("missingSchedulePartitions"),
        extra=plan.text_map("extraMetadata"),
    )


def _group(group: Fields) -> ClusteringGroup:
    slices = tuple(
        ClusteringSlice(
            partition_path=slice_.text("partitionPath"),
            file_id=slice_.text("fileId"),
            base_path=slice_.text("dataFilePath"),
            log_paths=slice_.texts("deltaFilePaths"),
            bootstrap_file=slice_.text("bootstrapFilePath"),
        )
        for slice_ in group.records("slices")
    )
    return ClusteringGroup(
        slices,
        group.number("numOutputFileGroups", 1),
        group.decimal_map("metrics"),
        group.optional_text_map("extraMetadata"),
    )
