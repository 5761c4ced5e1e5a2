"""Determines from the files which record keys a data file adds to its file group or removes from it.

Sources: `BaseFileRecordParsingUtils`, `HoodieTableMetadataUtil.getRevivedAndDeletedKeysFromMergedLogs`, 1.2.0. Unlike
in Java, a delete in a log is ignored if a base row has a greater ordering value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.files import iter_base_batches
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import LogSpec, MergeSettings
from hudi_py.merge.keys import key_columns, keys_of
from hudi_py.merge.reduce import Mask
from hudi_py.merge.versions import KEY as ENTRY_KEY
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.read.slices.reader import MERGE_ROWS, SliceReader
from hudi_py.read.split import ReadSpec, Split
from hudi_py.schema import RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage

_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the keys in a table's files."""

    storage: Storage
    schema: pa.Schema
    """All columns of a row, the record key among the first (`StoredRows.keyed`)."""
    logs: LogSpec
    history: SchemaHistory | None = None

    @property
    def merge(self) -> MergeSettings:
        return self.logs.merge

    def of_slice(self, slice_: FileSlice) -> Iterator[pa.Array]:
        """Yields the keys (string) of the merged rows of a slice."""
        if not slice_.log_files:
            if slice_.base_file is not None:
                yield from self.of_base_file(slice_.base_file.path)
            return
        for batch in self.rows(slice_, [RECORD_KEY]):
            yield batch.column(0)

    def of_base_file(self, path: str) -> Iterator[pa.Array]:
        """Yields the keys (string) of a base file's rows."""
        columns = key_columns(self.merge.key_fields)
        for batch in iter_base_batches(self.storage, path, columns, batch_rows=_ROWS):
            if not batch.num_columns:
                raise CorruptFileError(f"Base file {path} has no column {columns[0]}; its keys cannot be indexed")
            yield keys_of(batch, self.merge.key_fields)

    def live(self, slice_: FileSlice, keys: pa.Array) -> Mask:
        """Returns whether the slice has a row for each of the keys."""
        result, wanted = np.zeros(len(keys), np.bool_), TextSet(keys)
        for some in self.of_slice(slice_):
            places = wanted.find(some)
            result[places[places >= 0]] = True
        return result

    def ordering_of(self, slice_: FileSlice, keys: pa.Array) -> pa.Table:
        """Returns `_hoodie_record_key` and the ordering columns of a slice's rows with these keys (string,
        distinct)."""
        columns = [RECORD_KEY, *self.merge.ordering_columns]
        schema = pa.schema([field for field in self.schema if field.name in columns])
        wanted = TextSet(keys)
        batches = self.rows(slice_, columns)
        return pa.Table.from_batches([batch.filter(wanted.has(batch.column(RECORD_KEY))) for batch in batches], schema)

    def rows(self, slice_: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields columns of the merged rows of a slice."""
        spec = ReadSpec(
            uri=self.storage.uri,
            table_schema=self.schema,
            columns=tuple(columns),
            batch_rows=MERGE_ROWS,
            logs=self.logs,
            key_fields=self.merge.key_fields,
            history=self.history,
        )
        with SliceReader(self.storage, Split.of(spec, slice_)) as reader:
            yield from reader.rows()

    def deleted_by(self, log_files: Sequence[LogFile]) -> pa.Array:
        """Returns the keys (string) that log files delete, regardless of the base file."""
        log = self.logs.open(self.storage, log_files, self.history)
        parts = log.parts(log.columns(self.schema, ()))
        deleted = [records.keys.filter(pa.array(records.winners.deletes)) for records in parts]
        return pa.concat_arrays([pa.array([], pa.string()), *deleted])

    def touched_by(self, log: LogFile) -> pa.Array:
        """Returns the distinct keys (string) of the rows and deletes of a log file."""
        opened = self.logs.open(self.storage, [log], self.history)
        parts = [pa.array([], pa.string())]
        for versions in opened.versions(opened.columns(self.schema, ())):
            for keys in (versions.rows[RECORD_KEY], versions.entries[ENTRY_KEY]):
                parts.extend(chunk.cast(pa.string()) for chunk in keys.chunks)
        return pa.concat_arrays(parts).unique()


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """Changes to the keys of a file group; both string, distinct."""

    added: pa.Array
    removed: pa.Array


def no_changes() -> KeyChanges:
    """Returns changes without added or removed keys."""
    empty = pa.array([], pa.string())
    return KeyChanges(empty, empty)


def base_file_changes(reader: KeyReader, path: str, previous: str | None) -> KeyChanges:
    """Compares a base file with the previous one of its file group (None: there is none)."""
    keys = _all_keys(reader.of_base_file(path))
    if previous is None:
        return KeyChanges(keys, pa.array([], pa.string()))
    old = _all_keys(reader.of_base_file(previous))
    return KeyChanges(_keys_without(keys, old), _keys_without(old, keys))


def log_file_changes(reader: KeyReader, before: FileSlice, log: LogFile, keys: pa.Array | None = None) -> KeyChanges:
    """Computes the changes of a log file to its slice, by merging the slice with and without the file.

    Args:
        before: the slice. The log file is ignored if the slice contains it.
        keys: distinct keys to consider; None: all in the log file.
    """
    touched = reader.touched_by(log) if keys is None else keys
    if not len(touched):
        return no_changes()
    others = tuple(file for file in before.log_files if file.name != log.name)
    was = reader.live(replace(before, log_files=others), touched)
    now = reader.live(replace(before, log_files=(*others, log)), touched)
    return KeyChanges(touched.filter(pa.array(now & ~was)), touched.filter(pa.array(was & ~now)))


def written_log_changes(
    reader: KeyReader, before: FileSlice, log: LogFile, keys: pa.Array, deletes: Mask | None, *, known_live: bool
) -> KeyChanges:
    """Computes the changes of a log file that was just written, with as little reading as possible.

    Args:
        before: the slice without the log file.
        keys: keys of the written rows, including deletes.
        deletes: which rows are deletes; None: all of them, unconditionally.
        known_live: whether tagging found the keys among merged rows, not only in base files.
    """
    distinct = keys.unique()
    if len(distinct) < len(keys) or before.base_file is None or reader.merge.folds:
        return log_file_changes(reader, before, log, distinct)
    if deletes is None:
        return KeyChanges(pa.array([], pa.string()), keys)
    deleted, data = keys.filter(pa.array(deletes)), keys.filter(pa.array(~deletes))
    unsure: list[pa.Array] = []
    changes = no_changes()
    if len(deleted) and not reader.merge.by_event_time:
        changes = KeyChanges(changes.added, deleted)
    elif len(deleted):
        unsure.append(deleted)
    if len(data) and before.log_files and not known_live:
        # an update restores a row that only a log has deleted
        unsure.append(data.filter(pc.is_in(data, value_set=reader.deleted_by(before.log_files))))
    checked = pa.concat_arrays(unsure) if unsure else pa.array([], pa.string())
    if len(checked):
        result = log_file_changes(reader, before, log, checked)
        changes = KeyChanges(result.added, pa.concat_arrays([changes.removed, result.removed]))
    return changes


def _all_keys(parts: Iterator[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *parts]).unique()


def _keys_without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
