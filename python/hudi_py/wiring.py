"""Builds from options the metadata writer, the steps after a commit and the context of table services, and the parts of
`Table` that use them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options, Problems, Scope
from hudi_py.config import interop as interop_config
from hudi_py.config import services as services_config
from hudi_py.interop.announce import announced
from hudi_py.interop.callbacks import CommitCallback
from hudi_py.interop.catalogs.run import CatalogSync
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.interop.iceberg.run import IcebergPublication
from hudi_py.interop.metrics import MetricsStep, Reporter
from hudi_py.metadata_write.maintenance.indexes import (
    create_index,
    drop_index,
    index_report,
    refresh_index,
)
from hudi_py.metadata_write.maintenance.rebuild import change_metadata_table, drop, rebuild
from hudi_py.metadata_write.maintenance.verify import VerifyReport, verify
from hudi_py.metadata_write.partitions.named import IndexRequest
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.progress import Progress
from hudi_py.services.after_commit import InlineServices
from hudi_py.services.context import ServiceContext
from hudi_py.services.methods import Serving
from hudi_py.storage import Storage, StrPath, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.write.api import TableArguments, write_options
from hudi_py.write.bootstrap import bootstrap_options, bootstrap_table
from hudi_py.write.result import WriteResult
from hudi_py.write.table.alter import AlterArguments, Types, alter_table, column_changes


def metadata_writer(options: Options) -> MetadataWriter:
    """Builds the metadata writer from write options. It holds no storage options.

    Raises:
        ConfigError: options of the metadata table contradict each other.
    """
    return MetadataTableWriter(_bare(options))


def after_commit(options: Options) -> tuple[AfterCommit, ...]:
    """Builds the steps after a commit from write options: table services first, then the steps that report to other
    systems, which include what the services did.

    Raises:
        ConfigError: options contradict each other; names all that do, those of the write itself among them.
    """
    problems, steps = Problems(), list[AfterCommit]()
    with problems.collected():
        TransactionSettings.of(options)
    with problems.collected():
        metadata_writer(options)
    for step in _STEPS:
        with problems.collected():
            made = step(options)
            steps += () if made is None else (made,)
    problems.check()
    return tuple(steps)


def service_target(
    table: Storage | StrPath, options: Options, storage_options: Mapping[str, str] | None = None
) -> WriteTarget:
    """Returns the table on which services and changes without rows run.

    Args:
        table: its storage, or its path, at which it is opened.
        storage_options: options of the storage besides those among `options`.

    Raises:
        ConfigError: options of the metadata table contradict each other; or as `open_storage`.
    """
    given = options.with_storage(storage_options)
    storage = open_storage(table, given.for_storage()) if isinstance(table, (str, os.PathLike)) else table
    return WriteTarget(storage, given, metadata_writer(options))


def write_target(
    table: Storage | StrPath, options: Options, storage_options: Mapping[str, str] | None = None
) -> WriteTarget:
    """Returns the table to which rows are written. For the arguments see `service_target`. Raises its errors, and those
    of `after_commit`."""
    return replace(service_target(table, options, storage_options), after=after_commit(options))


def _services(options: Options) -> AfterCommit | None:
    return InlineServices(_bare(options), metadata_writer(options)) if options.get(services_config.ENABLED) else None


def _publication(options: Options) -> AfterCommit | None:
    return IcebergPublication(_bare(options)) if options.get(interop_config.ICEBERG_ENABLED) else None


def _registration(options: Options) -> AfterCommit | None:
    registered = SyncSettings.of(options)
    return None if registered is None else CatalogSync(registered)


def _metrics(options: Options) -> AfterCommit | None:
    reporter = Reporter.of(options)
    return None if reporter is None else MetricsStep(reporter)


_STEPS: Final[tuple[Callable[[Options], AfterCommit | None], ...]] = (
    *(_services, _publication, _registration, CommitCallback.of, _metrics),
)


def checked_write(resolved: Options, problems: Problems) -> Options:
    """Returns resolved write options. If resolving them found problems, checks for contradictions too, so that one
    error names everything.

    Raises:
        ConfigError: there are problems.
    """
    if problems:
        with problems.collected():
            after_commit(resolved)
    problems.check()
    return resolved


def write_configuration(options: Mapping[str, Any] | None, arguments: TableArguments | None = None) -> Options:
    """Resolves write options as `write_options` does; the error also names contradictions between them.

    Raises:
        ConfigError: as `write_options` and `after_commit`.
    """
    problems = Problems()
    return checked_write(write_options(options, arguments or TableArguments(), problems=problems), problems)


def bootstrap(
    path: StrPath,
    source: StrPath | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    regex: str | None = None,
    record_key: str | list[str] | tuple[str, ...] | None = None,
    partition_by: str | list[str] | tuple[str, ...] | None = None,
    ordering_by: str | list[str] | tuple[str, ...] | None = None,
    table_type: str | None = None,
    table_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Makes a table of Parquet or ORC files that there are, which stay where they are and are never changed.

    Args:
        path: the base path of the new table, beside the source; see `open_table`.
        source: folder of the files: a path or URI; or by the option `hoodie.bootstrap.base.path`.
        mode: `metadata_only` (default): the table has the meta columns of each row, and reads the rows from the
            source's files, which it needs from then on; `full_record`: it has copies of the rows.
        options: options of writes, by the keys of Apache Hudi. For the other arguments see `create_table`.
        regex: the folders of the source, by their whole path below it, for which `mode` is; others get the other mode.

    Raises:
        TableExistsError: there is a table at the path.
        ConfigError: there are no such files, or options contradict each other or the files.
        SchemaMismatchError, UnsupportedTableError: the files cannot be a table.
        ConflictError: another bootstrap of the table is under way.
        LockError: the table lock could not be acquired in time.
    """
    resolved = write_configuration(
        bootstrap_options(options, source=None if source is None else str(source), mode=mode, regex=regex),
        TableArguments(record_key, partition_by, ordering_by, table_type, table_version),
    )
    return bootstrap_table(write_target(path, resolved, storage_options))


def service_context(
    storage: Storage,
    options: Mapping[str, Any] | Options,
    title: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    any_version: bool = False,
) -> ServiceContext:
    """Opens the context of a service that is called directly. It shows progress on a terminal: close it, or use
    `serving`.

    Args:
        options: options of writes, by the keys of Apache Hudi, or resolved.
        title: title of the progress line; empty: none is shown.
        any_version: whether tables whose version can only be read are taken.

    Raises:
        ConfigError: an option is unknown, not valid or refused.
        TableNotFoundError: there is no table.
        UnsupportedTableError: the table's version can only be read, unless `any_version` is set.
    """
    resolved = options if isinstance(options, Options) else Options.resolve(options, Scope.WRITE)
    progress = Progress.on_terminal(title) if title else Progress.silent()
    target = service_target(storage, resolved, storage_options)
    return ServiceContext.of(target, progress=progress, any_version=any_version)


@contextmanager
def serving(
    storage: Storage,
    options: Mapping[str, Any] | Options,
    title: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    any_version: bool = False,
) -> Iterator[ServiceContext]:
    """Opens a `service_context` for one call; at the end, clears the progress line and announces what was done."""
    context = service_context(storage, options, title, storage_options=storage_options, any_version=any_version)
    try:
        with announced(context.storage, context.options):
            yield context
    finally:
        context.progress.close()


def announcing(path: str, options: Options) -> AbstractContextManager[None]:
    """Announces what is done within the context to the systems that follow the table at a path. Raises as
    `announced`."""
    return announced(open_storage(path, options.for_storage()), options)


class Alterable:
    """The part of `Table` that changes columns."""

    _storage: Storage
    _options: Mapping[str, Any]
    _storage_options: Mapping[str, str] | None

    def alter(
        self,
        *,
        drop: str | Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        add: Types | None = None,
        type: Types | None = None,
        comment: Mapping[str, str | None] | None = None,
        nullable: Mapping[str, bool] | None = None,
        move: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Changes columns, in one commit without rows: files stay as they are, and readers see them in the new columns.

        Columns have dotted paths: `address.city` is a member of a struct, `tags.element` that of a list, `prices.value`
        that of a map. `drop` and `rename` take the paths of the columns as they are; the other arguments are applied
        after them, in the order below, and take those that result.

        By default files are matched with columns by name. Then columns can be added, moved and widened, and no column
        can be dropped or renamed. `hoodie.schema.on.read.enable=true` gives the columns ids, and allows for
        everything; the table keeps the ids for good, and other engines need that option to read it.

        Args:
            drop: paths of columns.
            rename: the new name, without path, by the path of the column.
            add: the Arrow type, or a field with a comment (metadata `comment`), by the path of the new column. It comes
                last and is null in the rows that are there.
            type: the new Arrow type by path: a wider number, text for numbers, dates and binary values, and from text
                a date, a decimal or a binary value. What text does not fit becomes null.
            comment: a text by path; None: no comment any more.
            nullable: True by path. Columns cannot become not nullable.
            move: `first`, `after <column>` or `before <column>` by path, among the members of the same struct.
            options: of writes.

        Returns:
            `schema_changes` lists what was done. `instant` is None if the columns were like that before.

        Raises:
            ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was changed. Record key, partition and
                ordering columns, and those with an index, cannot be dropped, renamed or get another type.
            ConflictError: another write is pending, or completed meanwhile.
        """
        resolved = write_options({**self._options, **(options or {})})
        changes = column_changes(AlterArguments(drop, rename, add, type, comment, nullable, move))
        target = service_target(self._storage, resolved, self._storage_options)
        with announced(target.storage, target.options):
            return alter_table(target, changes)


class MetadataPartitions:
    """The partitions of a table's metadata table. `options` are write options; they override those with which the table
    was opened."""

    def __init__(self, serve: Serving) -> None:
        self._serve = serve

    def verify(self, *names: str, options: Mapping[str, Any] | None = None) -> VerifyReport:
        """Compares partitions, by default all, with the table's files, and looks for lost data files. Changes nothing.

        Raises:
            ConfigError: the table has no such partition, or hudi-py does not maintain it.
            CorruptFileError: the metadata table cannot be read at all.
        """
        with self._serve("verify the metadata table", options) as context:
            return verify(context, names=names or None)

    def rebuild(self, *names: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Rebuilds partitions from the table's files, by default all existing ones; named ones are created if they do
        not exist. Meanwhile readers do not use them.

        Returns:
            The partitions that were built, in order.

        Raises:
            ConfigError: hudi-py does not maintain a partition, or the table has no metadata table and `files` is not
                named.
            ConflictError: a write is running.
            CorruptFileError: data files are lost; nothing was changed.
        """
        with self._serve("rebuild the metadata table", options) as context:
            return rebuild(context, names=names or None)

    def drop(self, *names: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Drops partitions, and those that depend on them; dropping `files` drops the whole metadata table. The next
        write creates them again unless its options disable them.

        Returns:
            The partitions that were dropped, sorted.

        Raises:
            ConfigError: no partition is named, there is no such partition, or an index that was created on request
                would be dropped without being named.
            ConflictError: a write is running.
        """
        with self._serve("drop of the metadata table", options) as context:
            return drop(context, names)


class TableIndexes:
    """The indexes of a table, by name. `options` are write options; they override those with which it was opened."""

    def __init__(self, storage: Storage, serve: Serving) -> None:
        self._storage = storage
        self._serve = serve

    def drop(self, name: str, *, if_exists: bool = False, options: Mapping[str, Any] | None = None) -> bool:
        """Drops an index, by its name or that of its partition, and the indexes that need it.

        Returns:
            False if there is none and `if_exists` is set.

        Raises:
            ConfigError: there is no such index.
            ConflictError: a write is running.
        """
        with self._serve("drop an index of", options) as context:
            return drop_index(context, name, if_exists=if_exists)

    def refresh(self, name: str, *, options: Mapping[str, Any] | None = None) -> None:
        """Rebuilds an index from the table's files. Raises as `metadata.rebuild`."""
        with self._serve("refresh an index of", options) as context:
            refresh_index(context, name)

    def list(self) -> pa.Table:
        """Lists the indexes in the metadata table by name: name, kind, columns (list), function, options (map),
        version, and whether it is ready. One that is not is being built."""
        return index_report(self._storage, load_table_config(self._storage))


class Indexable(ABC):
    """Building indexes of a table."""

    _storage: Storage

    @property
    def indexes(self) -> TableIndexes:
        """The indexes of the table."""
        return TableIndexes(self._storage, self._serving)

    def index(
        self,
        name: str,
        column: str = "",
        *,
        using: str = "secondary_index",
        index_options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> bool:
        """Creates an index in the metadata table and builds it from the table's files, beside writers. Writes keep it
        up to date. If this process dies, the plan stays (`indexing`): the same call completes it.

        Args:
            name: letters, digits and underscores; a record index is named `record_index`.
            column: the indexed column, or a field of a struct as `struct.field`.
            using: `secondary_index`, for a table of version 8 or 9 that has a global record index, or gets it by
                `hoodie.metadata.global.record.level.index.enable` in `options`; `column_stats` or
                `bloom_filters` for an expression index; or `record_index`.
            index_options: stored with the index: `expr`, the function of an expression index, and its options;
                `isPartitioned` for a record index.

        Returns:
            False if the index exists and `if_not_exists` is set.

        Raises:
            ConfigError: the index exists, or the table cannot have it.
            ConflictError: another process is building it, or a write is running and the table has version 6.
            CorruptFileError: data files are lost; nothing was changed.
        """
        request = IndexRequest(name, column, using, dict(index_options or {}))
        with self._serving("create an index of", options) as context:
            return create_index(context, request, if_not_exists=if_not_exists)

    @abstractmethod
    def _serving(
        self, title: str, options: Mapping[str, Any] | None = None, *, any_version: bool = False
    ) -> AbstractContextManager[ServiceContext]:
        """Opens the context of one call."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """A statement about an index or the whole metadata table. Can be pickled."""

    action: str
    """`create`, `drop` or `refresh` for an index; `make`, `complete` or `remove` for the whole metadata table."""
    name: str = ""
    column: str = ""
    kind: str = "secondary_index"
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that are stored with a new index."""
    quiet: bool = False
    """Whether to ignore an index that exists already (`create`) or does not exist (`drop`)."""

    def run(self, path: str, options: Options) -> None:
        """Runs the statement and announces what it did, as `Table.index` and `Table.indexes`. Raises as they do."""
        target = service_target(path, options)
        context = ServiceContext.of(target)
        with announced(target.storage, options):
            if self.action == "create":
                request = IndexRequest(self.name, self.column, self.kind, self.options)
                create_index(context, request, if_not_exists=self.quiet)
            elif self.action == "drop":
                drop_index(context, self.name, if_exists=self.quiet)
            elif self.action in ("make", "complete", "remove"):
                change_metadata_table(context, self.action)
            else:
                refresh_index(context, self.name)


def index_table(path: str, options: Options) -> pa.Table:
    """`Table.indexes.list` of the table at a path."""
    storage = open_storage(path, options.for_storage())
    return index_report(storage, load_table_config(storage))


def _bare(options: Options) -> Options:
    """Returns the options without credentials, for other processes."""
    return options.without_credentials()
