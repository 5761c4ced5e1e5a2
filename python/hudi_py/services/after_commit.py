"""Table services that follow a commit: `registry.AFTER_COMMIT`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.config import Options, Problems
from hudi_py.config import services as services_config
from hudi_py.errors import ConflictError, HudiError, LockError, first_line
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule
from hudi_py.services.registry import AFTER_COMMIT
from hudi_py.storage import Storage
from hudi_py.transaction.protocols import Committed, MetadataWriter
from hudi_py.transaction.session import TableSession, WriteTarget

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InlineServices:
    """Runs the services that the options of a write ask for after its commit. Implements `AfterCommit`.

    Raises:
        ConfigError: their options contradict each other.
    """

    options: Options
    metadata: MetadataWriter

    def __post_init__(self) -> None:
        problems = Problems()
        for rule in _after_commit_rules():
            with problems.collected():
                rule.check_options(self.options)
        problems.check()

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. If failures only cause warnings, they are raised after the commit instead."""
        if self.options.get(services_config.FAIL_ON_ERROR):
            for rule in _after_commit_rules():
                rule.check_table(self.options, config)

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Runs the services that are due, one after another. The write stays committed if one fails.

        A service that another process is running is skipped.

        Raises:
            HudiError: a service failed, and `hoodie.fail.writes.on.inline.table.service.exception` is true.
        """
        progress = Progress.on_terminal("table services")
        target = WriteTarget(session.storage, self.options.with_storage(session.storage_options), self.metadata)
        context = ServiceContext.of(target, config=session.config, progress=progress)
        if not context.options.get(services_config.ENABLED):
            return ()
        done: list[str] = []
        state = None if committed.timeline is None else session.state(committed.timeline)
        try:
            for step in [
                step for rule in _after_commit_rules() for step in rule.steps(context.options, session.config)
            ]:
                try:
                    state = state or context.state()
                    if step.run(context, state) is not None:
                        done.append(step.title)
                        state = None
                except (ConflictError, LockError) as error:
                    _log.warning("the %s after the commit is left to the next commit: %s", step.title, error)
                except Exception as error:  # whatever failed, the caller must know that the write is committed
                    if context.options.get(services_config.FAIL_ON_ERROR):
                        raise _error_of_failure(session.storage, step.title, error) from error
                    _log.warning("the %s after the commit failed: %s", step.title, error)
        finally:
            progress.close()
        return tuple(done)


def _after_commit_rules() -> Iterator[AfterCommitRule]:
    for service in AFTER_COMMIT:
        if service.after_commit is not None:
            yield service.after_commit


def _error_of_failure(storage: Storage, name: str, error: Exception) -> HudiError:
    return HudiError(
        f"The write to {storage.uri} is committed, but the {name} after it failed: {first_line(error)}; do "
        f"not repeat the write: fix the cause and run the {name} again, or set "
        f"{services_config.FAIL_ON_ERROR.key}=false to get only a warning"
    )
