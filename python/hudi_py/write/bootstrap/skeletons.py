"""Writes skeletons: base files with the meta columns of the rows that a file of the source has, in its order
(`HoodieBootstrapHandle`, `ParquetBootstrapMetadataHandler`, Apache Hudi 1.2.0), and the bootstrap index, which maps
file groups to files of the source (`HFileBootstrapIndexWriter`)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from hudi_py.formats.hfile import write_hfile
from hudi_py.model.commit import WriteStat
from hudi_py.model.layout import BOOTSTRAP_FILES, BOOTSTRAP_INDEX
from hudi_py.model.names import FileId
from hudi_py.progress import Progress
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.records import encode_record
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view.bootstrap import INDEX_INFO, METADATA_INSTANT, BootstrapMapping
from hudi_py.write.bootstrap.plan import PlannedFile
from hudi_py.write.context import FileContext, FileSettings, TaskId
from hudi_py.write.handles.base import BaseFileHandle
from hudi_py.write.settings import WriteSettings

_RECORD: Final[dict[str, Any]] = {"type": "record", "name": "HoodieRecordKey", "doc": "", "fields": []}
"""The Avro record of skeletons, except for its meta columns."""
_KEY: Final = pa.schema([pa.field(RECORD_KEY, pa.string())])
_ROWS: Final = 1 << 17


class SkeletonContext(FileContext):
    """The common state of skeletons: no columns of the table, and so no ranges. An index with ranges of their meta
    columns only would be taken for an index of all columns."""

    def __init__(self, transaction: WriteTransaction, settings: WriteSettings, task: int, progress: Progress) -> None:
        files = FileSettings(settings.stored, pa.schema([]), _RECORD, settings.bloom, settings.layout)
        super().__init__(transaction, files, task=TaskId(task), progress=progress)
        self.range_columns = ()

    def new_file_id(self) -> FileId:
        """Returns the id of a file group, which in bootstraps has no number at its end."""
        return FileId(str(uuid.uuid4()))


def write_skeleton(
    context: SkeletonContext, settings: WriteSettings, planned: PlannedFile
) -> tuple[WriteStat, BootstrapMapping]:
    """Writes the skeleton of a file.

    Raises:
        ConfigError: a row belongs to another partition than that of its folder, or the file was changed meanwhile.
        SchemaMismatchError: a row has no key.
        CorruptFileError: the file is damaged.
    """
    file, schema, keygen = planned.file, settings.schema, settings.keygen
    partitions = keygen.partition_columns(schema.arrow)
    names = list(dict.fromkeys([*keygen.key_columns(schema.arrow), *partitions]))
    with BaseFileHandle(context, planned.partition) as handle:
        for whole in file.batches(schema.arrow, names, batch_rows=_ROWS):
            try:
                batch = schema.conform_some(whole, names)
                keys = keygen.record_keys(batch)
                paths = keygen.partition_paths(batch).unique().to_pylist()
            except (ConfigError, SchemaMismatchError) as error:
                raise type(error)(f"Cannot bootstrap from {file.uri}: {first_line(error)}") from error
            stray = next((path for path in paths if path != planned.partition), None)
            if stray is not None:
                raise ConfigError(
                    f"Cannot bootstrap {file.uri} METADATA_ONLY: it has a row of the partition '{stray}' in the folder "
                    f"of '{planned.partition}', where later writes would not find it; bootstrap this folder FULL_RECORD"
                )
            context.progress.read(batch.num_rows)
            handle.write_new(pa.record_batch([keys], schema=_KEY))
        stat = handle.finish()
    source = file.source
    mapping = BootstrapMapping(planned.partition, handle.file_id, source.base, file.folder, file.uri, file.info.size)
    return stat, mapping


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
