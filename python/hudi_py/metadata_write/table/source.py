"""The table whose metadata is written, as input for the partitions of the metadata table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.file_stats.columns import IndexedColumn
from hudi_py.file_stats.files import DataFile, ranges_of_files
from hudi_py.file_stats.ranges import ColumnRanges
from hudi_py.metadata.definitions import read_definitions
from hudi_py.metadata.files import MetadataLister
from hudi_py.metadata.table import MetadataTable, open_metadata
from hudi_py.model.instant import WRITE_ACTIONS
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import TableSchema
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import FileSystemView

_MAX_FILES: Final = 1024
"""Number of files whose ranges are cached."""


def schema_text(schema: TableSchema | None) -> str:
    """Returns the schema that a table stores as JSON, as a source has it; empty if there is none."""
    return "" if schema is None else json.dumps(schema.stored_avro)


@dataclass(frozen=True)
class TableSource(TableState):
    """The current state of the table whose metadata is written, as read under the table lock, which is held. In its
    timeline, the action being recorded is still pending."""

    view: FileSystemView
    """View of that timeline, without the files of the action being recorded."""
    schema_json: str
    """Avro JSON of the table's schema without meta columns, or of the change's own schema if it has one. Empty if the
    table has no schema yet."""
    options: Options
    """The options of the write."""
    needs_unique_keys: bool = False
    """Whether a record index over all partitions is refused if a key is in several file groups."""

    repeated_keys: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """A key with rows in several file groups, once a record index over all partitions has found one."""
    _written: dict[DataFile, ColumnRanges | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bounds_replace(self, change: TableChange) -> bool:
        """Returns whether bounds over several files that the change records may replace earlier ones (`isTightBound`).

        The metadata table keeps records in the order of requests. A write that was requested before the change and
        completes after it records the bounds of both, which the change's would replace; so they only widen them.
        Apache Hudi's bounds always replace (`HoodieTableMetadataUtil`, 1.2.0).
        """
        return not any(
            instant.action in WRITE_ACTIONS and instant.time < change.instant for instant in self.timeline.pending
        )

    def ranges(
        self, files: Iterable[DataFile], columns: Sequence[IndexedColumn], sidecars: str
    ) -> list[tuple[DataFile, ColumnRanges | None]]:
        """Returns what `ranges_of_files` does. The ranges of a small commit are cached: several indexes read them, all
        for the same columns."""
        listed = list(files)
        new = [file for file in listed if file not in self._written]
        ranges = dict(ranges_of_files(self.storage, new, columns, sidecars=sidecars))
        if len(self._written) + len(ranges) <= _MAX_FILES:
            self._written.update(ranges)
        return [(file, ranges[file] if file in ranges else self._written[file]) for file in listed]

    @cached_property
    def metadata(self) -> MetadataTable | None:
        """The current metadata table; None if there is none."""
        lister = self.view.lister
        if isinstance(lister, MetadataLister):
            return lister.metadata
        return open_metadata(self)

    @cached_property
    def definitions(self) -> Mapping[str, Mapping[str, Any]]:
        """The stored index definitions by name."""
        return read_definitions(self.storage, self.config)
