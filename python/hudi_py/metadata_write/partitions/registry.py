"""Registers the partitions of the metadata table that hudi-py maintains, with rules for the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hudi_py.metadata.locations import SECONDARY_PREFIX
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.metadata_write.encoding.payloads import EXPRESSION_PREFIX, Combine, combine_stats, newest
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.bloom_filters import BloomFilters
from hudi_py.metadata_write.partitions.column_stats import ColumnStats
from hudi_py.metadata_write.partitions.files import FilesIndex
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.partitions.record_index import RecordIndex
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.model.properties import TableConfig

PARTITIONS: Final[tuple[MetadataPartition, ...]] = (
    FilesIndex(),
    ColumnStats(),
    BloomFilters(),
    RecordIndex(),
    PartitionStats(),
)
"""The partitions that hudi-py maintains, in order of creation (`MetadataPartitionType`, 1.2.0)."""
BY_NAME: Final = {partition.name: partition for partition in PARTITIONS}


def wanted_partitions(settings: MetadataWriteSettings, config: TableConfig) -> tuple[str, ...]:
    """Partitions that the options ask for, whether or not the table has them, in order of creation."""
    if not settings.enabled:
        return ()
    return tuple(partition.name for partition in PARTITIONS if partition.wanted(settings, config))


def unwanted_partitions(settings: MetadataWriteSettings, config: TableConfig) -> tuple[str, ...]:
    """Partitions that the table has, or was about to get, and that the options disable explicitly."""
    if not settings.auto_delete or not settings.enabled:
        return ()
    there = dict.fromkeys((*config.metadata_partitions, *config.metadata_partitions_to_make))
    return tuple(name for name in there if name in BY_NAME and BY_NAME[name].unwanted(settings))


def with_dependants(names: Collection[str], there: Sequence[str]) -> tuple[str, ...]:
    """The partitions, and existing ones that depend on them; sorted."""
    gone = set(names)
    return tuple(sorted(gone | {name for name in there if _needs(name) in gone}))


def combine_of(name: str, *, logs_only: bool = False) -> Combine:
    """A partition's rule for records with more than one version. `logs_only`: the result will be combined with older
    versions later."""
    if name in BY_NAME:
        return BY_NAME[name].combine(logs_only=logs_only)
    return combine_stats if name.startswith(EXPRESSION_PREFIX) else newest


def _needs(name: str) -> str:
    if name in BY_NAME:
        return BY_NAME[name].needs
    return RECORD_INDEX if name.startswith(SECONDARY_PREFIX) else ""
