"""Reads the rows of single files, including those of older versions, rolled-back writes and deletes, and decides which
versions to erase."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.expressions.filter import Filter
from hudi_py.formats.arrays import combined
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.base.files import iter_base_batches
from hudi_py.formats.hfile import open_hfile, read_hfile
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_deletes, read_blocks, read_content
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import LogSpec, SliceLog, merge_settings
from hudi_py.merge.keys import record_keys
from hudi_py.merge.versions import KEY as ENTRY_KEY
from hudi_py.metadata.keys import secondary_keys
from hudi_py.model.changes import AFTER, BEFORE
from hudi_py.model.changes import KEY as CHANGED_KEY
from hudi_py.model.names import BaseFileName, PartitionPath, parse_base_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import path_values
from hudi_py.read.slices.reader import SliceReader
from hudi_py.read.split import KnownValues, ReadSpec, Split
from hudi_py.schema import PARTITION_PATH, RECORD_KEY
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.timeline.state import BootstrapSources
from hudi_py.view.bootstrap import base_file_in

_LOGGED = (BlockType.AVRO, BlockType.PARQUET, BlockType.HFILE, BlockType.DELETE)
Mask = npt.NDArray[np.bool_]
_MIN_TEXT: Final = 6
"""Minimum length of a key for a text search: a longer key is hardly in a text by accident."""


@dataclass(frozen=True)
class DataFiles:
    """Data files, read one by one."""

    storage: Storage
    config: TableConfig
    spec: ReadSpec
    """How to read the record key and the filter's columns. `logs` may be None."""
    sources: BootstrapSources
    """The source of each base file that was bootstrapped without its rows."""

    def versions(self, info: FileInfo, place: tuple[str, str]) -> Iterator[pa.Table]:
        """Yields the versions of rows in a base file, log or change log, a portion at a time: the record key, and the
        columns of the filter if the file has more than keys.

        Args:
            place: the folder that contains the file's partition, usually that of the table, and the partition's path.

        Raises:
            CorruptFileError: the file is damaged, or some bytes of a log are no block.
        """
        root, partition = place
        storage = FolderStorage(self.storage, root) if root else self.storage
        name = parse_base_file_name(info.name)
        if name is not None:
            yield from self._of_base(storage, info, name, PartitionPath(partition))
        else:
            blocks = list(read_blocks(self.storage, info.path, info.size))
            yield from self._of_log(blocks, partition)
            for block in blocks:
                if block.type is BlockType.CDC:
                    yield from self._of_changes(block)
            check_whole(info, blocks)

    def _of_base(
        self, storage: Storage, info: FileInfo, name: BaseFileName, partition: PartitionPath
    ) -> Iterator[pa.Table]:
        file = base_file_in(self.sources, partition, name, info.size)
        split = Split(self._spec, partition, name.file_id, file, (), partition_values=self._values(partition))
        with SliceReader(storage, split) as reader:
            for batch in reader.rows():
                yield pa.Table.from_batches([batch])

    def _of_log(self, blocks: list[LogBlock], partition: str) -> Iterator[pa.Table]:
        logged = [block for block in blocks if block.type in _LOGGED]
        if not logged:
            return
        values = self._values(partition)
        log = SliceLog(self.storage, logged, self._logs, self.spec.history)
        for versions in log.versions(log.columns(self.spec.table_schema, self._spec.read_schema().names)):
            rows = versions.rows
            for name, value in values:
                at = rows.schema.get_field_index(name)
                if at >= 0:
                    rows = rows.set_column(at, rows.schema.field(at), pa.repeat(value, rows.num_rows))
            yield rows
            yield pa.table({RECORD_KEY: combined(versions.entries[ENTRY_KEY])})

    def _of_changes(self, block: LogBlock) -> Iterator[pa.Table]:
        """Yields the rows before and after the changes of a block of a change log; only the keys if it logs no rows."""
        schema = json.loads(block.header[HeaderKey.SCHEMA])
        changes = decode_log_content([read_content(self.storage, block)], schema, context=block.path)
        names = changes.schema.names
        if CHANGED_KEY in names:
            yield pa.table({RECORD_KEY: changes[CHANGED_KEY].cast(pa.string())})
        fields = self.config.record_key_fields
        for name in (BEFORE, AFTER):
            if name not in names or not changes.num_rows:
                continue
            images = changes.filter(changes[name].is_valid())[name]
            rows = pa.RecordBatch.from_arrays(images.flatten(), names=[column.name for column in images.type])
            keys = record_keys(rows, fields)
            yield pa.Table.from_batches([rows]).append_column(RECORD_KEY, keys)
            if len(fields) == 1:  # as some key generators build it
                yield pa.table({RECORD_KEY: pc.binary_join_element_wise(fields[0], keys, ":")})

    @cached_property
    def _spec(self) -> ReadSpec:
        names = tuple(dict.fromkeys((RECORD_KEY, *self.spec.wanted_columns)))
        known = tuple(name for name in names if name in self.spec.table_schema.names)
        return replace(self.spec, columns=known, filter=None, keys=None, limit=None, mode="merge")

    @cached_property
    def _logs(self) -> LogSpec:
        return self.spec.logs or LogSpec(merge_settings(self.config))

    def _values(self, partition: str) -> KnownValues:
        return path_values(self.config, self.spec.table_schema, PartitionPath(partition), self.storage.uri)


def stored_keys(storage: Storage, path: str) -> Iterator[tuple[pa.StringArray, pa.StringArray]]:
    """Yields record keys and partition paths of rows in a file other than a data file of the table; nothing if it lacks
    these columns."""
    for batch in iter_base_batches(storage, path, [RECORD_KEY, PARTITION_PATH]):
        if {RECORD_KEY, PARTITION_PATH} <= set(batch.schema.names):
            yield combined(batch[RECORD_KEY]).cast(pa.string()), combined(batch[PARTITION_PATH]).cast(pa.string())


def index_entries(storage: Storage, info: FileInfo) -> Iterator[pa.StringArray]:
    """Yields the keys of all records and deletes in a file of the metadata table, whether or not they count."""
    if info.name.endswith(".hfile"):
        for entries in open_hfile(storage, info.path, info.size).batches():
            yield entries.keys.cast(pa.string())
        return
    blocks = list(read_blocks(storage, info.path, info.size))
    for block in blocks:
        if block.type is BlockType.HFILE:
            for entries in read_hfile(read_content(storage, block), context=info.path).batches():
                yield entries.keys.cast(pa.string())
        elif block.type is BlockType.DELETE:
            yield combined(decode_deletes(read_content(storage, block), context=info.path).keys)
    check_whole(info, blocks)


def check_whole(info: FileInfo, blocks: list[LogBlock]) -> None:
    """Raises CorruptFileError if some bytes of a log are no block."""
    lost = [block for block in blocks if block.type is BlockType.CORRUPT]
    if lost:
        raise CorruptFileError(
            f"Cannot read {lost[0].content_length} bytes of {info.path} from byte {lost[0].content_offset} on: they "
            "are no block of a log",
            path=info.path,
        )


@dataclass(frozen=True)
class ErasureScope:
    """The versions to erase: those for which the filter is true, and those with one of the keys unless their row stays.

    The keys are either given, or are the keys of all rows of which any version satisfies the filter, deleted rows
    included. With a filter, rows of the newest state that do not satisfy it stay; their older versions that did are
    removed all the same.
    """

    condition: Filter | None
    keys: TextSet
    staying: Mapping[str, pa.StringArray] = field(default_factory=dict)
    """Keys whose rows stay, by partition path."""

    def mask(self, rows: pa.RecordBatch | pa.Table, partition: str) -> Mask:
        """Returns which rows to erase. They have their record key, and the columns of the filter unless only the key is
        known."""
        erased = self.has(combined(rows[RECORD_KEY]).cast(pa.string()), partition)
        return erased if self.condition is None else erased | satisfied(self.condition, rows)

    def has(self, keys: pa.StringArray, partition: str) -> Mask:
        """Returns which keys of rows in a partition to erase."""
        erased = self.keys.find(keys) >= 0
        staying = self.staying.get(partition)
        if staying is not None:
            erased &= ~pc.is_in(keys, value_set=staying).to_numpy(zero_copy_only=False)
        return erased

    @property
    def everywhere(self) -> pa.StringArray:
        """Returns the keys whose rows stay in no partition."""
        staying = [keys for keys in self.staying.values() if len(keys)]
        if not staying:
            return self.keys.texts
        return self.keys.texts.filter(pc.invert(pc.is_in(self.keys.texts, value_set=pa.concat_arrays(staying))))

    def of_secondary(self) -> pa.StringArray:
        """Returns the keys as an entry of a secondary index ends, with the separator."""
        return secondary_keys(pa.repeat(pa.scalar("", pa.string()), len(self.everywhere)), self.everywhere)

    def texts(self) -> tuple[bytes, ...]:
        """Returns the keys that can be recognised in a file that is only searched for their bytes."""
        return tuple(key.encode() for key in self.everywhere.to_pylist() if len(key) >= _MIN_TEXT)


def satisfied(condition: Filter, rows: pa.RecordBatch | pa.Table) -> Mask:
    """Returns rows for which a filter is true; none if they lack its columns."""
    if not condition.columns <= set(rows.schema.names):
        return np.zeros(rows.num_rows, np.bool_)
    holds: Mask = condition.evaluate(rows).fill_null(False).to_numpy(zero_copy_only=False)
    return holds
