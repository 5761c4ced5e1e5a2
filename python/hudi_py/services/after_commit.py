"""Table services that follow a commit (`BaseHoodieWriteClient.mayBeCleanAndArchive`,
`BaseHoodieTableServiceClient.runTableServicesInline`, 1.2.0): clean, archive, compaction, log compaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hudi_py.config import Options, Problems
from hudi_py.config import archive as archive_config
from hudi_py.config import clean as clean_config
from hudi_py.config import compaction as compaction_config
from hudi_py.config import service as service_config
from hudi_py.errors import ConfigError, ConflictError, HudiError, LockError, first_line
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.services.archive import ArchiveSettings, archive, may_be_due
from hudi_py.services.clean import Cleaning, CleanSettings, why_not_due
from hudi_py.services.compaction import Compaction, check_compactable
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction, check_logs_compactable
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import AnyService, run_all, schedule_and_run
from hudi_py.storage import Storage
from hudi_py.timeline.state import TableState
from hudi_py.transaction.protocols import Committed, MetadataWriter
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)

Step = Callable[[ServiceContext, TableState], bool]
"""Runs what is due, given the state of the table before it, and returns whether there was anything to do."""


@dataclass(frozen=True, slots=True)
class InlineServices:
    """The services that the options of a write ask for after its commit. Implements `AfterCommit`.

    Raises:
        ConfigError: their options contradict each other.
    """

    options: Options
    metadata: MetadataWriter

    def __post_init__(self) -> None:
        problems = Problems()
        if self.options.get(clean_config.AUTOMATIC):
            with problems.collected():
                CleanSettings.of(self.options)
        # Checked even if archiving is off, as in `HoodieWriteConfig.validate`: the metadata table uses the same numbers
        with problems.collected():
            ArchiveSettings.of(self.options)
        with problems.collected():
            self._check_compaction()
        problems.check()

    def _check_compaction(self) -> None:
        if self.options.get(compaction_config.INLINE) and self.options.get(compaction_config.SCHEDULE_INLINE):
            raise ConfigError(  # `HoodieWriteConfig.validate`, 1.2.0
                f"Cannot write with {compaction_config.INLINE.key} = true and {compaction_config.SCHEDULE_INLINE.key} "
                "= true: a commit is followed either by a compaction or by a plan to run later; set only one of them"
            )

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. If failures only cause warnings, those come after the commit."""
        if not config.is_mor or not self.options.get(service_config.FAIL_ON_ERROR):
            return
        if self._compacts or self.options.get(compaction_config.SCHEDULE_INLINE):
            check_compactable(config)
        if self.options.get(compaction_config.LOG_INLINE):
            check_logs_compactable(config, self.options)

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Runs the services that are due, one after the other. The write stays committed if one fails.

        A service that another process is running is skipped.

        Raises:
            HudiError: a service failed, and `hoodie.fail.writes.on.inline.table.service.exception` is true.
        """
        if not self.options.get(service_config.ENABLED):
            return ()
        progress = Progress.on_terminal("table services")
        context = ServiceContext.of(
            session.storage,
            self.options,
            self.metadata,
            config=session.config,
            storage_options=session.storage_options,
            progress=progress,
        )
        done: list[str] = []
        state: TableState | None = None
        try:
            for name, step in self._steps(session.config):
                try:
                    state = state or context.state()
                    if step(context, state):
                        done.append(name)
                        state = None
                except (ConflictError, LockError) as error:
                    _log.warning("the %s after the commit is left to the next commit: %s", name, error)
                except Exception as error:  # whatever failed, the caller must learn that the write is committed
                    if self.options.get(service_config.FAIL_ON_ERROR):
                        raise _failed(session.storage, name, error) from error
                    _log.warning("the %s after the commit failed: %s", name, error)
        finally:
            progress.close()
        return tuple(done)

    @property
    def _compacts(self) -> bool:
        # `DataSourceUtils.createHoodieConfig`: a table that is not compacted asynchronously is compacted inline
        return self.options.get(compaction_config.INLINE) or not self.options.get(compaction_config.ASYNC)

    def _steps(self, config: TableConfig) -> Iterator[tuple[str, Step]]:
        options = self.options
        if options.get(clean_config.AUTOMATIC):
            yield "clean", _clean
        if options.get(archive_config.AUTOMATIC):
            yield "archive", _archive
        if not config.is_mor:
            return
        if self._compacts:
            yield "compaction", _runs(Compaction())
        elif options.get(compaction_config.SCHEDULE_INLINE):
            yield "compaction plan", _plans(Compaction())
        if options.get(compaction_config.LOG_INLINE):
            yield "log_compaction", _runs(LogCompaction())


# Most commits are followed by neither, which the timeline shows without the lock


def _clean(context: ServiceContext, state: TableState) -> bool:
    service = Cleaning(waits=True)
    if any(instant.action is Action.CLEAN for instant in state.timeline.pending):
        return run_all(service, context).instant is not None
    if why_not_due(context, state.timeline, CleanSettings.of(context.options), now_ms=service.now_ms()):
        return False
    return schedule_and_run(service, context).instant is not None


def _archive(context: ServiceContext, state: TableState) -> bool:
    return may_be_due(context, state) and archive(context).instant is not None


def _runs(service: AnyService[ServiceReport]) -> Step:
    return lambda context, _: run_all(service, context).instant is not None


def _plans(service: AnyService[ServiceReport]) -> Step:
    return lambda context, _: not service.pending(context) and service.schedule(context).instant is not None


def _failed(storage: Storage, name: str, error: Exception) -> HudiError:
    return HudiError(
        f"The write to {storage.uri} is committed, but the {name} after it failed: {first_line(error)}; do "
        f"not repeat the write: fix the cause and run the {name} again, or set "
        f"{service_config.FAIL_ON_ERROR.key}=false to get only a warning"
    )
