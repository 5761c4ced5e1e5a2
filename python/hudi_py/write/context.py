"""State that the parts of one write share: its transaction, its settings, and the counters of its files."""

from __future__ import annotations

import copy
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_py.file_stats.columns import IndexedColumn, indexed_columns
from hudi_py.file_stats.keys import KeyReader
from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.formats.arrays import numbered
from hudi_py.formats.base.parquet_writer import FileLayout
from hudi_py.formats.base.rows import with_repeated
from hudi_py.formats.hudi_types import shared_names
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.merge import CommittedInstants, LogSpec
from hudi_py.model.names import FileId, folders_above, nested_partitions, new_file_id
from hudi_py.model.operation import Operation
from hudi_py.progress import Progress
from hudi_py.schema import META_FIELDS, RECORD_KEY, StoredRows, with_meta
from hudi_py.schema.meta import avro_with_meta, compact_json
from hudi_py.transaction.action import CommitResult, OperationResult
from hudi_py.transaction.attempt import RunningAction
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.index import open_buckets
from hudi_py.write.result import WriteResult, log_schema_changes, result_of
from hudi_py.write.rows import KeyedRows
from hudi_py.write.settings import WriteSettings


@dataclass(frozen=True, slots=True)
class TaskId:
    """Identifies a task attempt of a write: `<task>-<stage>-<attempt>` is the write token of its files."""

    task: int = 0
    stage: int = 1
    attempt: int = 0

    @classmethod
    def fresh(cls, task: int) -> TaskId:
        """Returns a unique attempt of a task."""
        return cls(task, attempt=secrets.randbelow(1 << 31))

    def __str__(self) -> str:
        return f"{self.task}-{self.stage}-{self.attempt}"


class NestingCheck:
    """Checks whether partitions of one write lie in one another, before the first of them is created. Thread-safe."""

    def __init__(self, transaction: WriteTransaction) -> None:
        self._transaction = transaction
        self._seen: set[str] = set()
        self._above: set[str] = set()
        """The folders that contain them."""
        self._lock = threading.Lock()

    def add(self, paths: pa.StringArray) -> None:
        """Checks the partition path of each row. Raises ConfigError if a new partition lies in another one of the
        write."""
        distinct = set(paths.unique().to_pylist())
        with self._lock:
            new = distinct - self._seen
            if not new:
                return
            self._seen |= new
            self._above.update(outer for path in new for outer in folders_above(path))
            for outer, inner in nested_partitions(self._seen) if self._above & self._seen else ():
                if outer in new or inner in new:
                    self._transaction.check_nested(outer, inner)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How an action writes base files."""

    stored: StoredRows
    """Which columns the files have."""
    schema: pa.Schema
    """Columns of the table."""
    avro: Mapping[str, Any]
    """The same as an Avro record."""
    bloom: BloomConfig | None
    layout: FileLayout


class FileContext:
    """State that the base files share which one process writes under an action. Methods are thread-safe."""

    def __init__(
        self,
        action: RunningAction,
        files: FileSettings,
        *,
        task: TaskId | None = None,
        progress: Progress | None = None,
    ) -> None:
        stored, schema, avro = files.stored, files.schema, files.avro
        self.action = action
        self.stored = stored
        self.bloom = files.bloom
        self.layout = files.layout
        self.task = task or TaskId()
        self.progress = progress or Progress.silent()
        own = compact_json(stored.own_avro(avro))
        self.sidecar: SidecarSettings | None = None
        """What the metadata table needs to know about each file; None: nothing."""
        if action.keeps_sidecars:
            self.sidecar = action.session.metadata.sidecar(action.attempt.config, own)
        self.range_columns = self._range_columns(own)
        """Columns whose ranges in files go into sidecars."""
        self.file_schema = stored.columns(schema)
        """Arrow schema of base files: meta columns, then the table's, as far as files have them."""
        self.keyed_schema = stored.keyed(schema)
        """The same with the record key, which rows have until they are in a file."""
        self._new_schema = with_repeated(self.keyed_schema)
        self.file_avro_json = compact_json(stored.avro(avro))
        self._next = 0
        self._lock = threading.Lock()

    def new_file_id(self) -> FileId:
        """Returns a new file group id that does not look like one of the bucket index."""
        while True:
            file_id = new_file_id()
            if not file_id[:8].isdigit():
                return file_id

    @property
    def tracks_keys(self) -> bool:
        """Whether sidecars list the keys that are added to a file group or removed from it."""
        return self.sidecar is not None and self.sidecar.keys

    def _range_columns(self, own_avro_json: str) -> tuple[IndexedColumn, ...]:
        wanted = self.sidecar.columns if self.sidecar is not None else ()
        if not wanted:
            return ()
        columns = indexed_columns(own_avro_json, names=wanted, meta_columns=self.stored.has_meta)
        return tuple(column for column in columns if column.name in wanted)

    def reserve(self, rows: int) -> int:
        """Reserves `rows` sequence numbers, which no other row of this process gets. Returns the first one."""
        with self._lock:
            first = self._next
            self._next += rows
            return first

    def stamped(self, rows: pa.RecordBatch, partition: str, file_name: str) -> pa.RecordBatch:
        """Converts rows (`_hoodie_record_key`, then the table's columns) to `keyed_schema`, as base files store
        them."""
        return self._as_stored(rows, partition, file_name, self.keyed_schema)

    def new_rows(self, rows: pa.RecordBatch, partition: str, file_name: str) -> pa.RecordBatch:
        """Does the same as `stamped`, with dictionaries for values that all new rows of a file share."""
        return self._as_stored(rows, partition, file_name, self._new_schema)

    def _as_stored(self, rows: pa.RecordBatch, partition: str, place: str, schema: pa.Schema) -> pa.RecordBatch:
        stored = self.stored
        if stored.omitted:
            rows = rows.select([name for name in rows.schema.names if name not in stored.omitted])
        return self._with_meta(rows, partition, place, schema) if stored.has_meta else rows

    def _with_meta(self, rows: pa.RecordBatch, partition: str, place: str, schema: pa.Schema) -> pa.RecordBatch:
        """Puts the meta columns before rows, as `HoodieCreateHandle` does (1.2.0); sequence numbers are
        `<instant>_<task>_<number>`."""
        count = rows.num_rows
        columns = [
            _repeat_text(self.action.instant, count, schema.field(0).type),
            self._sequence_numbers(count),
            rows.column(0),
            _repeat_text(partition, count, schema.field(3).type),
            _repeat_text(place, count, schema.field(4).type),
            *rows.columns[1:],
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def stripped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Converts rows of `keyed_schema` to `file_schema`."""
        return rows if self.stored.has_meta else rows.select(self.file_schema.names)

    def _sequence_numbers(self, count: int) -> pa.StringArray:
        """Returns texts `<instant>_<task>_<number>`, which no other row of the table has."""
        return numbered(f"{self.action.instant}_{self.task.task}_", self.reserve(count), count)


class WriteContext(FileContext):
    """A transaction, the settings, and the counters that files of this process share. Methods are thread-safe."""

    def __init__(
        self,
        transaction: WriteTransaction,
        settings: WriteSettings,
        *,
        task: TaskId | None = None,
        progress: Progress | None = None,
    ) -> None:
        schema = settings.schema
        files = FileSettings(settings.stored, schema.arrow, schema.avro, settings.bloom, settings.layout)
        super().__init__(transaction, files, task=task, progress=progress)
        self.transaction = transaction
        self.settings = settings
        index = settings.index.buckets
        self.buckets = None if index is None else open_buckets(index, transaction.view, transaction.instant)
        """The buckets of a write with a bucket index, else None."""
        self.log_schema = with_meta(settings.schema.arrow)
        """Arrow schema of log records: meta columns, then the table's."""
        self.log_avro: dict[str, Any] = avro_with_meta(settings.schema.avro)
        self.log_avro_json = compact_json(self.log_avro)
        self.partial_avro = _partial_avro(self.log_avro, settings.updated_columns)
        """Avro schema of log records that update some columns; None: updates set all columns."""
        self.row_schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *settings.schema.arrow])
        """Arrow schema of rows on their way to a file: the record key, then the table's columns."""
        self.key_schema = pa.schema([self.row_schema.field(0)])
        """The same for rows of which only the key matters."""
        config = transaction.config
        self._nesting = None if config.url_encoded or not config.partition_fields else NestingCheck(transaction)

    def updating(self, columns: Sequence[str] | None) -> WriteContext:
        """Returns this write, with updates that set only some columns. Replaces this context."""
        other = copy.copy(self)
        other.settings = replace(self.settings, updated_columns=None if columns is None else tuple(columns))
        other.partial_avro = _partial_avro(self.log_avro, other.settings.updated_columns)
        return other

    def keyed(self, batch: pa.RecordBatch) -> KeyedRows:
        """Converts incoming rows to `row_schema`, with their partition paths.

        Raises:
            SchemaMismatchError: a value does not fit the table, or a row has no key.
            ConfigError: a key or partition column has a type, or a value, that cannot be one, or a new partition lies
                in another.
        """
        rows = self.settings.schema.conform(batch)
        keygen = self.settings.keygen
        keys = self._sequence_numbers(rows.num_rows) if keygen.generates_keys else keygen.record_keys(rows)
        whole = pa.RecordBatch.from_arrays([keys, *rows.columns], schema=self.row_schema)
        paths = keygen.partition_paths(rows)
        if self._nesting is not None:
            self._nesting.add(paths)
        return KeyedRows(whole, paths)

    def keys_only(self, batch: pa.RecordBatch) -> KeyedRows:
        """Returns the keys of incoming rows, in `key_schema`, with their partition paths. Needs only the columns from
        which these are formed. Raises the errors of `keyed`."""
        keygen, schema = self.settings.keygen, self.settings.schema
        needed = [*keygen.key_columns(schema.arrow), *keygen.partition_columns(schema.arrow)]
        rows = schema.conform_some(batch, needed)
        keys = pa.record_batch([keygen.record_keys(rows)], schema=self.key_schema)
        return KeyedRows(keys, keygen.partition_paths(rows))

    def keyed_for(self, operation: Operation, batch: pa.RecordBatch) -> KeyedRows:
        """Returns incoming rows, in `schema_for` the operation, with their partition paths."""
        return self.keyed(batch) if operation.takes_whole_rows else self.keys_only(batch)

    def schema_for(self, operation: Operation) -> pa.Schema:
        """Returns the schema of an operation's rows on their way to files."""
        return self.row_schema if operation.takes_whole_rows else self.key_schema

    def key_reader(self) -> KeyReader:
        """Returns a reader for keys of the table's files as this write sees them, including its own files."""
        transaction = self.transaction
        committed = CommittedInstants.of(transaction.config, transaction.timeline, transaction.instant)
        history = self.settings.schema.history
        return KeyReader(transaction.storage, self.keyed_schema, LogSpec(self.settings.merge, committed), history)

    def commit(self, written: OperationResult, extra: Mapping[str, str] | None = None) -> CommitResult:
        """Publishes the write with the schema of its settings. For arguments and errors see
        `WriteTransaction.commit`."""
        self.progress.phase("committing")
        done = self.transaction.commit(
            written, schema_json=self.settings.stored_avro_json, extra=extra, ids=self.settings.schema.ids
        )
        if self.buckets is not None:
            self.buckets.after_commit()
        return done

    def commit_rows(
        self, operation: Operation, written: OperationResult, extra: Mapping[str, str]
    ) -> tuple[WriteResult, Committed]:
        """Does the same as `commit`. Returns the result of the operation, and the input for the steps that follow the
        commit."""
        done, stats = self.commit(written, extra), written.stats
        changes = self.settings.schema.changes
        log_schema_changes(self.transaction.config.name, done.instant, changes)
        partitions = {stat.partition_path for stat in stats} | written.replaced.keys()
        files = tuple(stat.path for stat in stats)
        committed = Committed(
            *(done.instant, done.completion_time, self.transaction.handle.operation),
            *(tuple(sorted(partitions)), files, done.timeline),
        )
        return result_of(operation.value, done.instant, done.completion_time, stats, changes), committed

    def logged(self, rows: pa.RecordBatch, partition: str, file_id: str) -> pa.RecordBatch:
        """Converts the rows to `log_schema`. Records of a log name the file group, not a file."""
        if self.stored.has_meta:
            return self._with_meta(rows, partition, file_id, self.log_schema)
        meta = [pa.nulls(rows.num_rows, pa.string()) for _ in META_FIELDS]
        return pa.RecordBatch.from_arrays([*meta, *rows.columns[1:]], schema=self.log_schema)


def _partial_avro(whole: dict[str, Any], columns: Sequence[str] | None) -> dict[str, Any] | None:
    """Returns the record with the meta columns and some others, in the table's order: Apache Hudi 1.2.0 mixes up the
    values if the order differs."""
    if columns is None:
        return None
    wanted = {*META_FIELDS, *columns}
    fields = [field for field in whole["fields"] if field["name"] in wanted]
    record: dict[str, Any] = shared_names({**whole, "fields": fields}, whole)
    return record


def _repeat_text(value: str, rows: int, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([value]))
    return pa.repeat(pa.scalar(value, kind), rows)
