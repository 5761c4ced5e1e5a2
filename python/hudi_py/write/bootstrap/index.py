"""Writes the bootstrap index, which maps file groups to files of the source (`HFileBootstrapIndexWriter`, Apache Hudi
1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from hudi_py.formats.hfile import write_hfile
from hudi_py.model.layout import BOOTSTRAP_FILES, BOOTSTRAP_INDEX
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.records import encode_record
from hudi_py.view.bootstrap import INDEX_INFO, METADATA_INSTANT, BootstrapMapping

_NAME: Final = f"00000000-0000-0000-0000-000000000000-0_1-0-1_{METADATA_INSTANT}.hfile"
_BLOCK_BYTES: Final = 33_554_432
"""The block size that Hadoop reports for files of the local file system and of object stores."""


def write_bootstrap_index(storage: Storage, base: str, files: Sequence[tuple[BootstrapMapping, FileInfo]]) -> None:
    """Writes both files of the index.

    Args:
        base: the source's path, as the table's properties have it.
        files: the file groups, each with the file of the source as it was listed.
    """
    partitions: dict[str, list[tuple[BootstrapMapping, FileInfo]]] = {}
    for file in files:
        partitions.setdefault(file[0].partition, []).append(file)
    _write_index_file(
        storage,
        f"{BOOTSTRAP_INDEX}/{_NAME}",
        base,
        (
            (
                f"part={partition}",
                encode_record(
                    "HoodieBootstrapPartitionMetadata",
                    {
                        "version": None,
                        "bootstrapPartitionPath": mappings_of_partition[0][0].source_partition,
                        "partitionPath": partition,
                        "fileIdToBootstrapFile": {
                            mapping.file_id: _file_status(mapping, info) for mapping, info in mappings_of_partition
                        },
                    },
                ),
            )
            for partition, mappings_of_partition in partitions.items()
        ),
    )
    _write_index_file(
        storage,
        f"{BOOTSTRAP_FILES}/{_NAME}",
        base,
        (
            (
                f"part={mapping.partition};fileid={mapping.file_id}",
                encode_record(
                    "HoodieBootstrapFilePartitionInfo",
                    {
                        "version": None,
                        "bootstrapPartitionPath": mapping.source_partition,
                        "bootstrapFileStatus": _file_status(mapping, info),
                        "partitionPath": mapping.partition,
                    },
                ),
            )
            for mapping, info in files
        ),
    )


def _write_index_file(storage: Storage, path: str, base: str, entries: Iterable[tuple[str, bytes]]) -> None:
    ordered = sorted((key.encode(), value) for key, value in entries)
    described = {
        "version": 1,
        "bootstrapBasePath": base,
        "createdTimestamp": time.time_ns() // 1_000_000,
        "numKeys": len(ordered),
    }
    keys, values = ([entry[at] for entry in ordered] for at in (0, 1))
    info = {INDEX_INFO: encode_record("HoodieBootstrapIndexInfo", described)}
    # whole or not at all: every process that opens the table reads it, even to remove what a killed bootstrap left
    content = write_hfile(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), info=info, compression="NONE")
    storage.put(path, content)


def _file_status(mapping: BootstrapMapping, info: FileInfo) -> dict[str, Any]:
    """Returns the `HoodieFileStatus` of a file."""
    return {
        "version": None,
        "path": {"version": 1, "uri": mapping.source},
        "length": info.size,
        "isDir": False,
        "blockReplication": 1,
        "blockSize": _BLOCK_BYTES,
        "modificationTime": info.modified_ms,
        "accessTime": info.modified_ms,
        "permission": None,
        "owner": None,
        "group": None,
        "symlink": None,
    }
