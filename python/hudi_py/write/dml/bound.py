"""A statement bound to its table: once, whatever processes it travels through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.model.properties import TableConfig
from hudi_py.read import make_scan
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.merge import Merge, MergedSource
from hudi_py.write.dml.merge_plan import BoundMerge
from hudi_py.write.dml.merge_source import MergeSource
from hudi_py.write.dml.statements import BoundDelete, BoundUpdate, Delete, RowChanges, Update
from hudi_py.write.settings import WriteSettings, settings_as_stored

Statement: TypeAlias = Update | Delete | Merge
BoundRows: TypeAlias = BoundUpdate | BoundDelete | BoundMerge
"""What tasks need of a statement to change rows. Pickles."""


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement that was checked against the columns and properties of its table. Pickles."""

    statement: Statement
    config: TableConfig
    settings: WriteSettings
    """Those of its write."""
    rows: BoundRows
    source: MergeSource | None = field(default=None, repr=False)
    """The rows of the source of a merge, in the process that runs it."""

    @classmethod
    def of(cls, statement: Statement, view: FileSystemView, options: Options) -> BoundStatement:
        """Bind a statement to its table.

        Raises:
            ConfigError, SchemaMismatchError, UnsupportedTableError: it does not fit the table.
        """
        settings = settings_as_stored(view, statement.operation, options, statement.title)
        return cls(statement, view.config, settings, statement.bind(view.config, settings))

    def on(self, view: FileSystemView) -> BoundStatement:
        """Return the statement for another state of its table. It is bound again only if that has other columns or
        properties. Raises as `of`."""
        statement, options = self.statement, self.settings.options
        settings = settings_as_stored(view, statement.operation, options, statement.title)
        if (view.config, settings) == (self.config, self.settings):
            return self
        again = replace(self, config=view.config, settings=settings, rows=statement.bind(view.config, settings))
        return again if self.source is None else again.merging(pa.Table.from_struct_array(self.source.rows))

    def merging(self, source: pa.Table) -> BoundStatement:
        """Return the merge with the rows of its source.

        Raises:
            ConfigError, SchemaMismatchError: a value by which they match cannot be evaluated.
        """
        assert isinstance(self.rows, BoundMerge)
        return replace(self, source=MergeSource.of(self.rows, source, self.settings))

    @property
    def changes(self) -> RowChanges:
        """What it does with the rows of its table; for a merge, the source must be known."""
        if not isinstance(self.rows, BoundMerge):
            return self.rows
        assert self.source is not None
        return MergedSource(self.source)

    def narrowed(self, context: WriteContext) -> WriteContext:
        """Return the context with which it writes."""
        return context.updating(self.rows.updated_columns)


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A bound statement, and what it reads of a state of its table."""

    bound: BoundStatement
    view: FileSystemView
    schema: pa.Schema
    splits: Sequence[Split]

    @classmethod
    def of(cls, bound: BoundStatement, view: FileSystemView) -> PlannedStatement:
        """Plan a statement in the process that runs it."""
        return cls.reading(bound, view, bound.changes.request(bound.settings, view))

    @classmethod
    def reading(cls, bound: BoundStatement, view: FileSystemView, request: ScanRequest | None) -> PlannedStatement:
        """Plan a statement that reads these rows."""
        if request is None:
            return cls(bound, view, pa.schema([]), ())
        scan = make_scan(view.state, request)
        return cls(bound, view, scan.schema, scan.splits())

    @property
    def size(self) -> int:
        """Bytes of the table that it reads."""
        return sum(split.size for split in self.splits)
