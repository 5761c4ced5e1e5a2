"""The result of a write."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hudi_py.errors import ConfigError
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.operation import Operation
from hudi_py.model.words import Spoken, counted, show_bytes
from hudi_py.write.table.evolution import SchemaChange

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class WriteResult(Spoken):
    """The result of a write to a table."""

    instant: InstantTime | None
    """None when there was nothing to commit (`hoodie.allow.empty.commit=false`)."""
    completion_time: CompletionTime | None
    """None on timeline layout 1 (table version 6), which does not store completion times."""
    operation: str
    """A value of `hoodie.datasource.write.operation`."""
    num_inserted: int | None
    """Rows with new keys; with insert and bulk_insert, which look up no keys, all rows."""
    num_updated: int | None
    num_deleted: int | None
    """Rows deleted, by key or by a delete marker; keys that the table does not have do not count. None for
    `delete_partition`, which reads no rows."""
    num_files: int
    """Data files written."""
    num_bytes: int
    """Their size."""
    retries: int = 0
    """How often the write was repeated after a conflict."""
    services: tuple[str, ...] = ()
    """Table services that ran after it."""
    schema_changes: tuple[SchemaChange, ...] = ()
    """Columns that the write added to the table or widened, each with `column`, `before` (None for a new column) and
    `after`."""

    def rows_changed(self) -> str:
        """Returns the counts of rows, in words."""
        counts = {"inserted": self.num_inserted, "updated": self.num_updated, "deleted": self.num_deleted}
        return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "no rows changed"

    def _text(self) -> str:
        what = self.operation.replace("_", " ")
        if self.instant is None:
            return f"{what}: nothing written, as there are no rows"
        parts = [
            f"{what} {self.instant}: {self.rows_changed()}",
            f"{counted(self.num_files, 'file')}, {show_bytes(self.num_bytes)}",
            *(f"column {change}" for change in self.schema_changes),
        ]
        if self.retries:
            parts.append(f"redone {counted(self.retries, 'time')} after conflicts")
        if self.services:
            parts.append(f"then {', '.join(self.services).replace('_', ' ')}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Returns the result in JSON's types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> WriteResult:
        """Returns the result from the output of `to_dict`."""
        changes = tuple(SchemaChange(**change) for change in fields["schema_changes"])
        return cls(**{**fields, "services": tuple(fields["services"]), "schema_changes": changes})


def requested_time(instant: str | int | WriteResult) -> str:
    """Returns the requested time of an instant that a user gives as text, number, or result of a write.

    Raises:
        ConfigError: the write committed nothing.
    """
    if isinstance(instant, WriteResult) and instant.instant is None:
        raise ConfigError(f"Cannot use {instant!r} as an instant: it committed nothing")
    return str(instant.instant if isinstance(instant, WriteResult) else instant)


def result_of(
    operation: str,
    instant: InstantTime | None,
    completion_time: CompletionTime | None,
    stats: Iterable[WriteStat],
    changes: tuple[SchemaChange, ...] = (),
) -> WriteResult:
    """Builds the result of a commit with these statistics."""
    files = list(stats)
    return WriteResult(
        instant,
        completion_time,
        operation,
        num_inserted=sum(stat.num_inserts for stat in files),
        num_updated=sum(stat.num_updates for stat in files),
        num_deleted=None if operation == Operation.DELETE_PARTITION else sum(stat.num_deletes for stat in files),
        num_files=len(files),
        num_bytes=sum(stat.file_size for stat in files),
        schema_changes=changes,
    )


def log_schema_changes(table: str, instant: InstantTime, changes: tuple[SchemaChange, ...]) -> None:
    """Logs a warning that names each column which a commit added to its table or widened."""
    if changes:
        _log.warning("the write %s changed columns of the table %s: %s", instant, table, "; ".join(map(str, changes)))
