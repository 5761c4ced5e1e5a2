"""The procedures that show what a table was bootstrapped from (`ShowBootstrapMappingProcedure`,
`ShowBootstrapPartitionsProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.inspect.procedures.shown import Given, Opened, Rows, Shown, columns, limited, text_of
from hudi_py.view.bootstrap import BootstrapMapping, bootstrap_mappings, has_bootstrap_index


def _show_mapping(table: Opened, given: Given) -> Rows:
    """Lists file groups and their source files.

    Raises:
        ConfigError: file ids without a partition, a partition that the index does not have, or no such column.
    """
    partition, ids = text_of(given, "partition_path"), text_of(given, "file_ids")
    by, limit = text_of(given, "sort_by"), limited(given)
    if ids and not partition:
        raise ConfigError(
            f"Cannot show the bootstrap mapping of {table.storage.uri} for the file_ids {ids}: they are looked up in a "
            "partition; give partition_path => '...'"
        )
    if by not in _MAPPING.names:
        raise ConfigError(
            f"Cannot sort the bootstrap mapping of {table.storage.uri} by '{by}'; supported: "
            f"{', '.join(_MAPPING.names)}"
        )
    mappings = _indexed_mappings(table)
    if partition and all(item.partition != partition for item in mappings):
        known = ", ".join(sorted({item.partition for item in mappings}))
        raise ConfigError(
            f"Cannot show the bootstrap mapping of {table.storage.uri} for the partition '{partition}': its index does "
            f"not have it; it has: {known}"
        )
    wanted = {part.strip() for part in ids.split(",")}
    rows = [
        (item.partition, item.file_id, item.source_base, item.source_partition, item.source)
        for item in mappings
        if (not partition or item.partition == partition) and (not ids or item.file_id in wanted)
    ]
    index = _MAPPING.names.index(by)
    rows.sort(key=lambda row: str(row[index]), reverse=bool(given["desc"]))
    return rows[: max(limit, 0)]


def _show_partitions(table: Opened, given: Given) -> Rows:
    """Lists the partitions in the bootstrap index, in its order."""
    return [(item,) for item in dict.fromkeys(item.partition for item in _indexed_mappings(table))]


def _indexed_mappings(table: Opened) -> list[BootstrapMapping]:
    if not has_bootstrap_index(table.storage, table.config):
        raise ConfigError(
            f"Cannot show the bootstrap index of {table.storage.uri}: the table was not bootstrapped, or without an "
            "index (hoodie.bootstrap.base.path, hoodie.bootstrap.index.enable); only bootstrapped tables are supported"
        )
    return list(bootstrap_mappings(table.storage))


_MAPPING: Final = columns(
    "partition text, file_id text, source_base_path text, source_partition text, source_file text"
)
PROCEDURES: Final = {
    "show_bootstrap_mapping": Shown(
        {
            "table": None,
            "path": None,
            "partition_path": "",
            "file_ids": "",
            "limit": 10,
            "sort_by": "partition",
            "desc": False,
            "filter": "",
        },
        _MAPPING,
        _show_mapping,
    ),
    "show_bootstrap_partitions": Shown(
        {"table": None, "path": None, "filter": ""}, columns("indexed_partitions text"), _show_partitions
    ),
}
