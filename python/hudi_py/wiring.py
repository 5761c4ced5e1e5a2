"""Builds, from options, the writer of the metadata table, the services after a commit, and the context of services that
are called directly; and what `Table` offers on top of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Generic

from hudi_py.config import Options, Scope
from hudi_py.config import service as service_config
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.maintenance.verify import VerifyReport, verify
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import InstantTime
from hudi_py.progress import Progress
from hudi_py.services.after_commit import InlineServices
from hudi_py.services.archive import Selection, preview_archive
from hudi_py.services.context import ServiceContext
from hudi_py.services.due import Due, due_services
from hudi_py.services.planned.service import AnyService, Preview, Report, run, run_all
from hudi_py.services.recovery.restore import preview_restore
from hudi_py.services.recovery.rollback import preview_rollback
from hudi_py.storage import Storage
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.write.result import WriteResult, requested_time


def metadata_writer(options: Options) -> MetadataWriter:
    """The writer of the metadata table that the options of a write describe. Holds no options of the storage.

    Raises:
        ConfigError: options of the metadata table contradict each other.
    """
    return MetadataTableWriter(MetadataWriteSettings.of(_bare(options)))


def after_commit(options: Options) -> tuple[AfterCommit, ...]:
    """The table services that run after a commit according to the options of a write."""
    if not options.get(service_config.ENABLED):
        return ()
    return (InlineServices(_bare(options), metadata_writer(options)),)


def service_context(
    storage: Storage,
    options: Mapping[str, Any],
    title: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> ServiceContext:
    """The context of a service that is called directly. Shows its progress on a terminal: close it, or use `serving`.

    Args:
        options: options of writes, by the keys of Apache Hudi.
        title: title of the progress line.

    Raises:
        ConfigError: an option is unknown, not valid or refused.
        TableNotFoundError: there is no table.
        UnsupportedTableError: the table's version can only be read.
    """
    resolved = Options.resolve(options, Scope.WRITE)
    return ServiceContext.of(
        storage,
        resolved,
        metadata_writer(resolved),
        storage_options=storage_options,
        progress=Progress.on_terminal(title),
    )


@contextmanager
def serving(
    storage: Storage,
    options: Mapping[str, Any],
    title: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[ServiceContext]:
    """`service_context` for one call, which clears its progress from the terminal at the end."""
    context = service_context(storage, options, title, storage_options=storage_options)
    try:
        yield context
    finally:
        context.progress.close()


Serving = Callable[[str, Mapping[str, Any] | None], AbstractContextManager[ServiceContext]]
"""Opens the context of one call, from a title and further options."""


class ServicePlans(Generic[Report]):
    """The plans of one kind of service on a table. `options` are write options; they override those with which the
    table was opened."""

    def __init__(self, service: AnyService[Report], serve: Serving) -> None:
        self._service = service
        self._serve = serve

    def schedule(self, *, options: Mapping[str, Any] | None = None) -> InstantTime | None:
        """Makes a plan. Returns its instant; None if there is nothing to do."""
        with self._serve(self._service.name, options) as context:
            return self._service.schedule(context).instant

    def preview(self, *, options: Mapping[str, Any] | None = None) -> Preview:
        """What a plan made now would contain, or why it would be empty. Changes nothing, and does not take the lock."""
        with self._serve(self._service.name, options) as context:
            return self._service.preview(context)

    def run(self, instant: str | None = None, *, options: Mapping[str, Any] | None = None) -> Report:
        """Executes the pending plan of an instant, by default the oldest one.

        Returns:
            The report; its instant is None if no plan is pending.

        Raises:
            ConfigError: there is no pending plan with this instant.
            ConflictError: another process is executing it.
        """
        with self._serve(self._service.name, options) as context:
            return run(self._service, context, None if instant is None else InstantTime(instant))

    def pending(self) -> list[InstantTime]:
        """Instants of the plans that are not completed, oldest first."""
        with self._serve(self._service.name, None) as context:
            return self._service.pending(context)

    def schedule_and_run(self, *, options: Mapping[str, Any] | None = None) -> Report:
        """Executes the pending plans, oldest first, then schedules a new one and executes it.

        Returns:
            The report of the last plan executed, or why there was none.
        """
        with self._serve(self._service.name, options) as context:
            return run_all(self._service, context)


class ServicePreviews:
    """The methods of `Table` that say what services would do. They change nothing, and do not take the lock."""

    _serving: Serving

    def due(self, *, options: Mapping[str, Any] | None = None) -> list[Due]:
        """Whether compaction, cleaning and archiving would find something to do now, and what. Lists files, but reads
        no rows. `options` are those of writes, after which the services run."""
        with self._serving("due services", options) as context:
            return due_services(context)

    def preview_archive(self, *, options: Mapping[str, Any] | None = None) -> Selection:
        """The `instants` that `archive` would move now, oldest first, or the `reason` why there are none."""
        with self._serving("archive", options) as context:
            return preview_archive(context)

    def preview_rollback(
        self, instant: str | int | WriteResult, *, with_newer: bool = False, options: Mapping[str, Any] | None = None
    ) -> list[InstantTime]:
        """The instants that `rollback` would undo now, in this order. For arguments and errors see there."""
        with self._serving("rollback", options) as context:
            return [each.time for each in preview_rollback(context, requested_time(instant), with_newer=with_newer)]

    def preview_restore(
        self, instant: str | int | WriteResult, *, options: Mapping[str, Any] | None = None
    ) -> list[InstantTime]:
        """The instants that `restore` would undo now, in this order. For arguments and errors see there."""
        with self._serving("restore", options) as context:
            return [InstantTime(each.time) for each in preview_restore(context, requested_time(instant)).instants]


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
        """Drops partitions and those that depend on them; without `files` there is no metadata table. The next write
        creates them again unless its options disable them.

        Returns:
            The partitions that were dropped, sorted.

        Raises:
            ConfigError: no partition is named, there is no such partition, or an index that was created on request
                would be dropped without being named.
            ConflictError: a write is running.
        """
        with self._serve("drop of the metadata table", options) as context:
            return drop(context, names)


def _bare(options: Options) -> Options:
    """The options without those of the storage, which may contain credentials: other processes receive the result."""
    return replace(options, storage={})
