"""Plans and results of indexings (Avro models `HoodieIndexPlan`, `HoodieIndexCommitMetadata` of Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.timeline.records import Fields, decode_record, encode_record

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class IndexPartition:
    """A partition of the metadata table that a plan builds."""

    name: str
    upto: str
    """Requested time of the newest commit that precedes all pending ones at the time of the plan."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Content of a requested indexing."""

    partitions: tuple[IndexPartition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions that it builds."""
        return tuple(partition.name for partition in self.partitions)


def encode_index_plan(plan: IndexPlan) -> bytes:
    """Encodes a plan as an Avro container file."""
    return encode_record("HoodieIndexPlan", {"version": _VERSION, "indexPartitionInfos": _infos(plan.partitions)})


def decode_index_plan(data: bytes, context: str = "the plan of an indexing") -> IndexPlan:
    """Raises CorruptFileError, naming `context`."""
    fields = Fields(decode_record(data, context), context)
    infos = fields.records("indexPartitionInfos")
    return IndexPlan(
        tuple(IndexPartition(info.text("metadataPartitionPath"), info.text("indexUptoInstant")) for info in infos)
    )


def encode_index_metadata(partitions: Sequence[IndexPartition]) -> bytes:
    """Encodes the content of a completed indexing as an Avro container file."""
    record = {"version": _VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return encode_record("HoodieIndexCommitMetadata", record)


def _infos(partitions: Iterable[IndexPartition]) -> list[dict[str, Any]]:
    return [
        {
            "version": _VERSION,
            "metadataPartitionPath": partition.name,
            "indexUptoInstant": partition.upto,
            "extraMetadata": {},
        }
        for partition in partitions
    ]
