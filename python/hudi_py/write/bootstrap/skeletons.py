"""Writes skeletons: base files with the meta columns of the rows that a file of the source has, in its order
(`HoodieBootstrapHandle`, `ParquetBootstrapMetadataHandler`, Apache Hudi 1.2.0)."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import FileId
from hudi_py.progress import Progress
from hudi_py.schema import RECORD_KEY
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view.bootstrap import BootstrapMapping
from hudi_py.write.bootstrap.plan import PlannedFile
from hudi_py.write.context import FileContext, TaskId
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
        super().__init__(
            transaction,
            settings.stored,
            pa.schema([]),
            _RECORD,
            bloom=settings.bloom,
            layout=settings.layout,
            task=TaskId(task),
            progress=progress,
        )
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
