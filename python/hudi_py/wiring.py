"""What keeps a table up, put together from options: who writes its metadata table, which services follow a commit, and
what a service called by hand works with."""

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
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import AnyService, Report, run, run_all
from hudi_py.storage import Storage
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter


def metadata_writer(options: Options) -> MetadataWriter:
    """Keeps the metadata table as the options of a write say. Holds no options of the storage.

    Raises:
        ConfigError: options of the metadata table contradict each other.
    """
    return MetadataTableWriter(MetadataWriteSettings.of(_bare(options)))


def after_commit(options: Options) -> tuple[AfterCommit, ...]:
    """What the options of a write ask for after its commit: table services."""
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
    """What a service that is called by hand works with. Shows its progress on a terminal: close it, or use `serving`.

    Args:
        options: options of writes, by the keys of Apache Hudi.
        title: what the progress is of.

    Raises:
        ConfigError: an option is unknown, not valid or refused.
        TableNotFoundError, UnsupportedTableError: there is no table, or it is of a version which is only read.
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
    """`service_context` for one call: its progress is wiped from the terminal at the end."""
    context = service_context(storage, options, title, storage_options=storage_options)
    try:
        yield context
    finally:
        context.progress.close()


Serving = Callable[[str, Mapping[str, Any] | None], AbstractContextManager[ServiceContext]]
"""Of a title and further options: what one call of a service works with."""


class ServicePlans(Generic[Report]):
    """The plans of one kind of service on a table: made, looked at, and run. `options` are those of writes, above those
    the table was opened with."""

    def __init__(self, service: AnyService[Report], serve: Serving) -> None:
        self._service = service
        self._serve = serve

    def schedule(self, *, options: Mapping[str, Any] | None = None) -> InstantTime | None:
        """Makes a plan of what there is to do. Returns its instant; None where there is nothing."""
        with self._serve(self._service.name, options) as context:
            return self._service.schedule(context).instant

    def run(self, instant: str | None = None, *, options: Mapping[str, Any] | None = None) -> Report:
        """Carries out the pending plan of an instant; by default the oldest one.

        Returns:
            What was done; without an instant where no plan is pending.

        Raises:
            ConfigError: there is no pending plan of this instant.
            ConflictError: another process is at it.
        """
        with self._serve(self._service.name, options) as context:
            return run(self._service, context, None if instant is None else InstantTime(instant))

    def pending(self) -> list[InstantTime]:
        """Instants of the plans that were made and not completed, oldest first."""
        with self._serve(self._service.name, None) as context:
            return self._service.pending(context)

    def schedule_and_run(self, *, options: Mapping[str, Any] | None = None) -> Report:
        """Carries out pending plans, oldest first, then plans what is left and carries that out.

        Returns:
            The report of the last plan carried out, or why there was none.
        """
        with self._serve(self._service.name, options) as context:
            return run_all(self._service, context)


class MetadataPartitions:
    """The partitions of a table's metadata table. `options` are those of writes, above those the table was opened
    with."""

    def __init__(self, serve: Serving) -> None:
        self._serve = serve

    def verify(self, *names: str, options: Mapping[str, Any] | None = None) -> VerifyReport:
        """Compares partitions, by default all, with the table's files. Changes nothing.

        Raises:
            ConfigError: a name is that of no partition the table has, or of one that is not kept up here.
            CorruptFileError: the metadata table cannot be read at all.
        """
        with self._serve("verify the metadata table", options) as context:
            return verify(context, names=names or None)

    def rebuild(self, *names: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Makes partitions anew from the table's files, by default all there are; those which are named, also where
        the table has not had them. Meanwhile readers do without them.

        Returns:
            The partitions that were made, in the order they were.

        Raises:
            ConfigError: a name is that of no partition that is kept up here, or the table has no metadata table and
                `files` is not named.
            ConflictError: a write is under way.
        """
        with self._serve("rebuild the metadata table", options) as context:
            return rebuild(context, names=names or None)

    def drop(self, *names: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Drops partitions, and those that need them; `files` takes the whole metadata table along. The next write
        makes them again unless its options say no.

        Returns:
            The partitions that were dropped, sorted.

        Raises:
            ConfigError: none is named, or there is no such partition, or an index that was made on purpose would go
                unasked.
            ConflictError: a write is under way.
        """
        with self._serve("drop of the metadata table", options) as context:
            return drop(context, names)


def _bare(options: Options) -> Options:
    """Without options of the storage, which may be secrets: what comes of this travels."""
    return replace(options, storage={})
