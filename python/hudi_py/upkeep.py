"""What keeps a table up, put together from options: who writes its metadata table, which services follow a commit, and
what a service called by hand works with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from hudi_py.config import Options, Scope
from hudi_py.config import service as service_config
from hudi_py.metadata_write.rebuild import drop, rebuild
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.metadata_write.verify import VerifyReport, verify
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import InstantTime
from hudi_py.services.context import ServiceContext
from hudi_py.services.inline import InlineServices
from hudi_py.services.report import ServiceReport
from hudi_py.services.service import PlannedService, run
from hudi_py.storage import Storage
from hudi_py.write.progress import Progress
from hudi_py.write.protocols import AfterCommit, MetadataWriter


def metadata_writer(options: Options) -> MetadataWriter:
    """Keeps the metadata table as the options of a write say. Holds no options of the storage.

    Raises:
        ConfigError: options of the metadata table contradict each other.
    """
    return MetadataTableWriter(MetadataWriteSettings.of(_bare(options)))


def after_commit(options: Options) -> AfterCommit | None:
    """The table services that the options of a write ask for after its commit; None: there are none."""
    if not options.get(service_config.ENABLED):
        return None
    return InlineServices(_bare(options), metadata_writer(options))


def service_context(
    storage: Storage,
    options: Mapping[str, Any],
    title: str,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> ServiceContext:
    """What a service that is called by hand works with. Shows its progress on a terminal: close it.

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


class ServicePlans:
    """The plans of one kind of service on a table: made, looked at, and run."""

    def __init__(self, service: PlannedService, context: Callable[[], ServiceContext]) -> None:
        self._service = service
        self._context = context

    def schedule(self) -> InstantTime | None:
        """Makes a plan of what there is to do. Returns its instant; None where there is nothing."""
        context = self._context()
        try:
            return self._service.schedule(context).instant
        finally:
            context.progress.close()

    def run(self, instant: str | None = None) -> ServiceReport:
        """Carries out the pending plan of an instant; by default the oldest one.

        Raises:
            ConfigError: there is no pending plan of this instant.
            ConflictError: another process is at it.
        """
        context = self._context()
        try:
            return run(self._service, context, None if instant is None else InstantTime(instant))
        finally:
            context.progress.close()

    def pending(self) -> list[InstantTime]:
        """Instants of the plans that were made and not completed, oldest first."""
        return self._service.pending(self._context())

    def schedule_and_run(self) -> ServiceReport:
        """Carries out pending plans, oldest first, then plans what is left and carries that out.

        Returns:
            The report of the last plan carried out, or why there was none.
        """
        context = self._context()
        try:
            report: ServiceReport | None = None
            for instant in self._service.pending(context):
                report = run(self._service, context, instant)
            scheduled = self._service.schedule(context)
            if scheduled.instant is not None:
                return run(self._service, context, scheduled.instant)
            return report or ServiceReport(self._service.name, None, reason=scheduled.reason)
        finally:
            context.progress.close()


class MetadataPartitions:
    """The partitions of a table's metadata table."""

    def __init__(self, context: Callable[[], ServiceContext]) -> None:
        self._context = context

    def verify(self, names: Collection[str] | None = None) -> VerifyReport:
        """Compares partitions, by default all, with the table's files. Changes nothing.

        Raises:
            ConfigError: a name is that of no partition the table has, or of one that is not kept up here.
            CorruptFileError: the metadata table cannot be read at all.
        """
        context = self._context()
        try:
            return verify(context, names=names)
        finally:
            context.progress.close()

    def rebuild(self, names: Collection[str] | None = None) -> tuple[str, ...]:
        """Makes partitions anew from the table's files, by default all there are. Meanwhile readers do without them.

        Returns:
            The partitions that were made, sorted.

        Raises:
            ConfigError: a name is that of no partition that is kept up here.
            ConflictError: a write is under way.
        """
        context = self._context()
        try:
            return rebuild(context, names=names)
        finally:
            context.progress.close()

    def drop(self, *names: str) -> tuple[str, ...]:
        """Drops partitions, and those that need them; `files` takes the whole metadata table along. The next write
        makes them again unless its options say no.

        Returns:
            The partitions that were dropped, sorted.

        Raises:
            ConfigError: there is no such partition, or an index that was made on purpose would go unasked.
            ConflictError: a write is under way.
        """
        return drop(self._context(), names)


def _bare(options: Options) -> Options:
    """Without options of the storage, which may be secrets: what comes of this travels."""
    return replace(options, storage={})
