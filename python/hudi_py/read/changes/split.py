"""The unit of work of a change data capture query: the changes of one file group, oldest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import pyarrow as pa

from hudi_py.model.changes import AFTER, BEFORE, OP, TS_MS, LoggingMode
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.read.split import ReadSpec, Split

CHANGE_SCHEMA: Final = pa.schema([(name, pa.string()) for name in (OP, TS_MS, BEFORE, AFTER)])
"""`op`: `i`, `u` or `d`. `ts_ms`: requested time of the commit. `before`, `after`: the row as JSON; null, or the text
`null`, where there is none (`HoodieCDCFileIndex.FULL_CDC_SPARK_SCHEMA`, 1.2.0)."""


class InferenceCase(Enum):
    """How the changes of a commit to a file group are found (`HoodieCDCInferenceCase`, 1.2.0)."""

    AS_IS = "AS_IS"
    """In change logs; images that these lack are looked up in the base files before and after."""
    BASE_FILE_INSERT = "BASE_FILE_INSERT"
    """Rows of a base file are new: all, or with `Change.own_rows` those that its commit wrote."""
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
    """The file slice before the commit, where its rows are needed."""
    before_as_of: str | None = None
    """Log blocks of later instants do not belong to `before`."""
    after: BaseFile | None = None
    """The base file that the commit wrote, where its rows are needed."""
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
    """The table information that all change splits of a scan share."""

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
    """Oldest first."""

    @property
    def merged(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return sum(change.size for change in self.changes)
