"""Registers the partitions of the metadata table that hudi-py maintains, with rules for the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config.indexes import METADATA_ENABLE
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.encoding.records import Combine, newest
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.bloom_filters import BloomFilters
from hudi_py.metadata_write.partitions.column_stats import ColumnStats
from hudi_py.metadata_write.partitions.expression_index import ExpressionIndex
from hudi_py.metadata_write.partitions.files import FilesIndex
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, put_definition
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.partitions.record_index import RecordIndex
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
"""The partitions with fixed names, in order of creation (`MetadataPartitionType`, 1.2.0)."""
NAMED: Final[tuple[type[NamedIndex], ...]] = (SecondaryIndex, ExpressionIndex)
"""The indexes that are created by name."""


def own_names() -> tuple[str, ...]:
    """Returns the partitions with fixed names, in order of creation."""
    return tuple(partition.name for partition in PARTITIONS)


def partition_of(name: str) -> MetadataPartition | None:
    """Returns the partition of this name; None if hudi-py maintains none of its kind."""
    own = next((partition for partition in PARTITIONS if partition.name == name), None)
    return own or next((kind(name) for kind in NAMED if name.startswith(kind.prefix)), None)


def maintained(names: Collection[str]) -> tuple[MetadataPartition, ...]:
    """Returns the partitions among these names that hudi-py maintains, in order of creation: indexes created by name
    come last."""
    own = own_names()
    others = sorted(set(names) - {*own})
    partitions = (partition_of(name) for name in (*own, *others) if name in names)
    return tuple(partition for partition in partitions if partition is not None)


def maintained_names(storage: Storage, config: TableConfig, names: Collection[str]) -> tuple[str, ...]:
    """Returns the names among these of partitions that hudi-py maintains. Reads the index definitions if the answer
    depends on them."""
    if {*names} <= {*own_names()}:
        return tuple(names)
    definitions = read_definitions(storage, config)
    return tuple(
        name
        for name in names
        if (partition := partition_of(name)) is not None and partition.maintainable(definitions.get(name, {}))
    )


def wanted_partitions(options: Options, config: TableConfig) -> tuple[str, ...]:
    """Returns the partitions that the options ask for, whether or not the table has them, in order of creation."""
    if not options.get(METADATA_ENABLE):
        return ()
    return tuple(partition.name for partition in PARTITIONS if partition.wanted(options, config))


def unwanted_partitions(options: Options, config: TableConfig) -> tuple[str, ...]:
    """Returns the partitions that the table has, or was about to get, and that the options disable or drop by name,
    with those that need them."""
    if not options.get(indexes_config.METADATA_AUTO_DELETE_PARTITIONS) or not options.get(METADATA_ENABLE):
        return ()
    there = tuple(dict.fromkeys((*config.metadata_partitions, *config.metadata_partitions_to_make)))
    gone = {partition.name for partition in maintained(there) if partition.unwanted(options)}
    gone |= {name for name in there if name == options.get(indexes_config.DROP_INDEX) and name != FILES}
    return with_dependants(gone, there)


def partitions_unknown_to(
    version: int, definitions: Mapping[str, Mapping[str, Any]], there: Sequence[str]
) -> tuple[str, ...]:
    """Returns the partitions of a table that tables of another version cannot have (`NineToEightDowngradeHandler`,
    `EightToSevenDowngradeHandler`, 1.2.0): because of the version of their records, or because that version has no
    definitions of indexes."""
    config = TableConfig.of_version(version)
    unknown: list[str] = []
    for name in there:
        definition = definitions.get(name, {})
        newer = str(definition.get("version") or "V1") > f"V{config.index_version}"
        partitioned = str((definition.get("indexOptions") or {}).get("isPartitioned", "")).lower() == "true"
        partition = partition_of(name)
        named = partition is None or isinstance(partition, (NamedIndex, PartitionStats))
        if newer or (partitioned and not config.merges_by_mode) or (named and not config.defines_indexes):
            unknown.append(name)
    return tuple(unknown)


def with_dependants(names: Collection[str], there: Sequence[str]) -> tuple[str, ...]:
    """Returns the partitions, and existing ones that depend on them; sorted."""
    gone = set(names)
    return tuple(sorted(gone | {partition.name for partition in maintained(there) if partition.needs in gone}))


def combine_of(name: str, *, logs_only: bool = False) -> Combine:
    """Returns a partition's rule for records with more than one version. `logs_only`: the result will be combined with
    older versions later."""
    partition = partition_of(name)
    return newest if partition is None else partition.combine(logs_only=logs_only)


def removals_of(name: str, values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Returns a mask of the values of a partition that are removals, as `MetadataPartition.removals` does."""
    partition = partition_of(name)
    return None if partition is None else partition.removals(values)


def index_kinds() -> tuple[str, ...]:
    """Returns the kinds of indexes that can be created by name, as SQL and `create_index` call them."""
    named = tuple(kind for index in NAMED for kind in index.kinds)
    return named + tuple(partition.name for partition in PARTITIONS if partition.on_request({}) is not None)


def named_index(kind: str) -> type[NamedIndex] | None:
    """Returns the class of indexes of this kind that are created by name, which is one of `index_kinds`; None: it is
    the partition itself."""
    return next((index for index in NAMED if kind in index.kinds), None)


def names_of_index(name: str) -> tuple[str, ...]:
    """Returns the partitions that an index may have, given its name with or without their prefix."""
    return (name, *(index.full_name(name) for index in NAMED))


def asked_indexes(
    options: Options, definitions: Callable[[], Mapping[str, Mapping[str, Any]]]
) -> list[tuple[type[NamedIndex], IndexRequest]]:
    """Returns the indexes that the options of a write ask for by their columns, and that the table lacks."""
    asked = [(index, request) for index in NAMED if (request := index.asked(options)) is not None]
    there = definitions() if asked else {}
    return [
        (index, replace(request, name=request.name or request.column.replace(".", "_")))
        for index, request in asked
        if not any(
            name.startswith(index.prefix) and index.is_same(definition, request) for name, definition in there.items()
        )
    ]


def define_first(storage: Storage, config: TableConfig, options: Options, names: Collection[str]) -> TableConfig:
    """Stores what the options decide about partitions before they are created or rebuilt, unless it is already stored.
    The table lock must be held."""
    for partition in maintained(names):
        if partition.name not in config.metadata_partitions_to_make:
            definition = partition.first_definition(storage, config, options)
            config = config if definition is None else put_definition(storage, config, definition)
    return config


def as_defined(storage: Storage, config: TableConfig, options: Options) -> Options:
    """Returns the options with values from the table's own index definitions."""
    for name, definition in read_definitions(storage, config).items():
        partition = partition_of(name)
        options = options if partition is None else partition.as_defined(options, definition)
    return options
