"""Registers the partitions of the metadata table that hudi-py maintains, with rules for the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import metadata as metadata_config
from hudi_py.config.indexes import METADATA_ENABLE
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.locations import EXPRESSION_PREFIX, SECONDARY_PREFIX
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.encoding.payloads import Combine, newest
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.bloom_filters import BloomFilters
from hudi_py.metadata_write.partitions.column_stats import ColumnStats
from hudi_py.metadata_write.partitions.expression_index import ExpressionIndex
from hudi_py.metadata_write.partitions.expression_records import KINDS as EXPRESSION_KINDS
from hudi_py.metadata_write.partitions.expression_records import expression_in
from hudi_py.metadata_write.partitions.files import FilesIndex
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.partitions.record_index import RecordIndex
from hudi_py.metadata_write.partitions.secondary_index import KIND as SECONDARY_KIND
from hudi_py.metadata_write.partitions.secondary_index import SecondaryIndex
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage

PARTITIONS: Final[tuple[MetadataPartition, ...]] = (
    FilesIndex(),
    ColumnStats(),
    BloomFilters(),
    RecordIndex(),
    PartitionStats(),
)
"""The partitions with names of their own, in order of creation (`MetadataPartitionType`, 1.2.0)."""
BY_NAME: Final = {partition.name: partition for partition in PARTITIONS}


def partition_of(name: str) -> MetadataPartition | None:
    """The partition of this name; None if hudi-py maintains none of its kind."""
    if name.startswith(SECONDARY_PREFIX):
        return SecondaryIndex(name)
    if name.startswith(EXPRESSION_PREFIX):
        return ExpressionIndex(name)
    return BY_NAME.get(name)


def maintained(names: Collection[str]) -> tuple[MetadataPartition, ...]:
    """Those of some partitions that hudi-py maintains, in order of creation: indexes made by name come last."""
    others = sorted(name for name in set(names) - BY_NAME.keys())
    found = (partition_of(name) for name in (*BY_NAME, *others) if name in names)
    return tuple(partition for partition in found if partition is not None)


def is_maintained(name: str, definitions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether hudi-py maintains a partition, which for an index made by name depends on its definition."""
    if name in BY_NAME:
        return True
    found = definitions.get(name, {})
    if not found.get("sourceFields") or found.get("version") not in (None, "V1", "V2"):
        return False
    if name.startswith(SECONDARY_PREFIX):
        return bool(found.get("indexType") == SECONDARY_KIND)
    is_expression = name.startswith(EXPRESSION_PREFIX) and found.get("indexType") in EXPRESSION_KINDS
    return is_expression and not expression_in(found).check()


def maintained_names(storage: Storage, config: TableConfig, names: Collection[str]) -> tuple[str, ...]:
    """Those of some partitions that hudi-py maintains. Reads the index definitions if it depends on them."""
    if all(name in BY_NAME for name in names):
        return tuple(names)
    definitions = read_definitions(storage, config)
    return tuple(name for name in names if is_maintained(name, definitions))


def wanted_partitions(options: Options, config: TableConfig) -> tuple[str, ...]:
    """Partitions that the options ask for, whether or not the table has them, in order of creation."""
    if not options.get(METADATA_ENABLE):
        return ()
    return tuple(partition.name for partition in PARTITIONS if partition.wanted(options, config))


def unwanted_partitions(options: Options, config: TableConfig) -> tuple[str, ...]:
    """Partitions that the table has, or was about to get, and that the options disable or drop by name, with those that
    need them."""
    if not options.get(metadata_config.AUTO_DELETE_PARTITIONS) or not options.get(METADATA_ENABLE):
        return ()
    there = tuple(dict.fromkeys((*config.metadata_partitions, *config.metadata_partitions_to_make)))
    gone = {partition.name for partition in maintained(there) if partition.unwanted(options)}
    gone |= {name for name in there if name == options.get(metadata_config.DROP_INDEX) and name != FILES}
    return with_dependants(gone, there)


def with_dependants(names: Collection[str], there: Sequence[str]) -> tuple[str, ...]:
    """The partitions, and existing ones that depend on them; sorted."""
    gone = set(names)
    return tuple(sorted(gone | {name for name in there if _needs(name) in gone}))


def combine_of(name: str, *, logs_only: bool = False) -> Combine:
    """A partition's rule for records with more than one version. `logs_only`: the result will be combined with older
    versions later."""
    partition = partition_of(name)
    return newest if partition is None else partition.combine(logs_only=logs_only)


def _needs(name: str) -> str:
    partition = partition_of(name)
    return "" if partition is None else partition.needs
