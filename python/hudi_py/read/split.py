"""Splits: the units of a scan, each read by one task in any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

import pyarrow as pa

from hudi_py.expressions.filter import Filter
from hudi_py.merge import LogSpec, SliceLog
from hudi_py.merge.keys import key_columns
from hudi_py.model.changes import AFTER, BEFORE, OP, TS_MS, LoggingMode
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.names import PartitionPath
from hudi_py.schema import COMMIT_TIME, RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage

SliceMode = Literal["merge", "skip", "unmerged"]
"""`merge`: the newest version of each key. `skip`: base rows, then all log rows, unmerged (`skip_merge`).
`unmerged`: as `skip`, with deletes as rows."""
KnownValues = tuple[tuple[str, pa.Scalar], ...]
"""Columns with the value that all rows have, never null."""
CHANGE_SCHEMA: Final = pa.schema([(name, pa.string()) for name in (OP, TS_MS, BEFORE, AFTER)])
"""`op`: `i`, `u` or `d`. `ts_ms`: requested time of the commit. `before`, `after`: the row as JSON; null, or the text
`null`, where there is none (`HoodieCDCFileIndex.FULL_CDC_SPARK_SCHEMA`, 1.2.0)."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Settings shared by all splits of a scan."""

    uri: str
    """The table's root, without credentials."""
    table_schema: pa.Schema
    """All columns of rows, including meta columns."""
    columns: tuple[str, ...]
    """Output columns, in order."""
    batch_rows: int
    filter: Filter | None = None
    logs: LogSpec | None = None
    """How logs are read and merged; None if no file slice has logs."""
    limit: int | None = None
    """Maximum number of rows of each split."""
    mode: SliceMode = "merge"
    commit_times: frozenset[str] | None = None
    """Requested times of the commits whose rows are returned (`_hoodie_commit_time`), in incremental queries; None:
    all."""
    keys: frozenset[str] | None = None
    """Only rows of these record keys; None: all."""
    key_fields: tuple[str, ...] = ()
    """Columns that make up the record key if files have no `_hoodie_record_key`; used with `keys`, and if
    `table_schema` has the record key anyway."""
    emit_deletes: bool = False
    """Whether deletes in logs are returned as rows too, with `_hoodie_operation` = `D`."""
    history: SchemaHistory | None = None
    """Maps columns of base files and log blocks to those of the table; None: by name."""

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([self.table_schema.field(name) for name in self.columns])

    @property
    def wanted_columns(self) -> tuple[str, ...]:
        """Returns the columns that rows need before they are filtered and projected."""
        wanted = [*self.columns, *(self.filter.columns if self.filter else ())]
        wanted += [COMMIT_TIME] if self.commit_times is not None else []
        if self.keys is not None or RECORD_KEY in self.columns:
            wanted += [RECORD_KEY] if RECORD_KEY in self.columns else []
            wanted += key_columns(self.key_fields)
        return tuple(dict.fromkeys(wanted))

    def open_log(self, storage: Storage, files: Sequence[LogFile], *, instant: str | None = None) -> SliceLog:
        """Opens the log of a slice, see `LogSpec.open`."""
        assert self.logs is not None
        return self.logs.open(storage, files, self.history, instant=instant)

    def read_schema(self) -> pa.Schema:
        """Returns `wanted_columns` in the table's order."""
        wanted = set(self.wanted_columns)
        return pa.schema([field for field in self.table_schema if field.name in wanted])


@dataclass(frozen=True, slots=True)
class Split:
    """A file slice, or row groups of a slice without logs."""

    spec: ReadSpec
    partition: PartitionPath
    file_id: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]
    row_groups: tuple[int, int] | None = None
    """Half-open range of row groups; None: all."""
    partition_values: tuple[tuple[str, pa.Scalar], ...] = ()
    """Columns that take their value from the partition path."""
    without_base: bool = False
    """Whether another reader reads the base file: only rows that it lacks are returned, see `parts`."""
    known_values: KnownValues = ()
    """Columns with the value that all rows are known to have, so that the split can be skipped, see `engines`."""

    @classmethod
    def of(cls, spec: ReadSpec, file_slice: FileSlice, values: KnownValues = ()) -> Split:
        """Builds the split that reads a whole file slice."""
        base, logs = file_slice.base_file, file_slice.log_files
        return Split(spec, file_slice.partition, file_slice.file_id, base, logs, partition_values=values)

    @property
    def merged(self) -> bool:
        """Returns whether rows of several files are merged, so that the split can only be read as a whole."""
        return bool(self.log_files)

    @property
    def size(self) -> int:
        """Returns the size in bytes of the files whose rows it reads."""
        base = 0 if self.base_file is None or self.without_base else self.base_file.size
        return base + sum(file.size for file in self.log_files)

    @property
    def output_schema(self) -> pa.Schema:
        return self.spec.output_schema


class InferenceCase(Enum):
    """How the changes of a commit to a file group are found (`HoodieCDCInferenceCase`, 1.2.0)."""

    AS_IS = "AS_IS"
    """From change logs; images that these lack are looked up in the base files before and after."""
    BASE_FILE_INSERT = "BASE_FILE_INSERT"
    """Rows of a base file are new: all of them, or with `Change.own_rows` those that its commit wrote."""
    BASE_FILE_DELETE = "BASE_FILE_DELETE"
    """Every row of the previous base file was deleted."""
    LOG_FILE = "LOG_FILE"
    """Log files are merged with the previous file slice, and the rows before and after are compared."""
    REPLACE_COMMIT = "REPLACE_COMMIT"
    """Every row of the file group was deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one commit to one file group, and the files to read them from."""

    instant: str
    """Requested time of the commit."""
    case: InferenceCase
    before: FileSlice | None = None
    """The file slice before the commit, if its rows are needed."""
    before_as_of: str | None = None
    """Log blocks of later instants do not belong to `before`."""
    after: BaseFile | None = None
    """The base file that the commit wrote, if its rows are needed."""
    own_rows: bool = False
    """Only rows of `after` with the commit's own time count: the commit added rows to a file without logging them."""
    logs: tuple[LogFile, ...] = ()
    """Change logs, or the log files that the commit wrote."""

    @property
    def size(self) -> int:
        size = sum(log.size for log in self.logs) + (self.before.size if self.before else 0)
        return size + (self.after.size if self.after else 0)


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """The table information shared by all change splits of a scan."""

    rows: ReadSpec
    """How to read the table's rows, with all columns as stored."""
    mode: LoggingMode
    record: str
    """Avro schema of the table's rows without meta columns, JSON."""
    key_fields: tuple[str, ...] = ()
    """Columns of the record key."""
    read_damaged: bool = False
    """Whether the readable rest of damaged change logs is read."""


@dataclass(frozen=True, slots=True)
class ChangeSplit(Split):
    """The changes of a file group. `spec` describes the four columns of changes, `source` the table's rows."""

    source: ChangeSource = field(kw_only=True)
    changes: tuple[Change, ...] = field(kw_only=True)
    """The changes, oldest first."""

    @property
    def merged(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return sum(change.size for change in self.changes)
