"""Reporting metrics after commits, and after other actions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hudi_py.config import monitoring as config
from hudi_py.errors import first_line
from hudi_py.interop.metrics.measures import measures_of
from hudi_py.interop.metrics.reporters import Reporter
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetricsStep:
    """Reports a commit, and the services that ran after it. Implements `AfterCommit`."""

    reporter: Reporter

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Every table has metrics."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Reports. A failure is a warning."""

        def done(timeline: Timeline) -> list[Instant]:
            return [each for each in timeline.completed if _belongs(each, session.config, committed)]

        return ("metrics",) if self.report(session, done) else ()

    def report(self, session: TableSession, done: Callable[[Timeline], Iterable[Instant]]) -> bool:
        """Reports what `done` finds in the present timeline; False with a warning if it failed."""
        uri, blocks = session.storage.uri, self.reporter.options.get(config.LOG_BLOCKS)
        try:
            timeline = session.timeline()
            found = measures_of(session.storage, timeline, done(timeline), session.zone, log_blocks=blocks)
            measures = dict(found)
        except Exception as error:  # whatever failed, the action that is reported is done
            _log.warning("metrics of %s could not be read: %s", uri, first_line(error))
            return False
        return self.reporter.report(uri, session.config.name, measures)


def _belongs(instant: Instant, table: TableConfig, committed: Committed) -> bool:
    """Whether an instant is the commit, or that of a service after it; other writers' commits are not."""
    if instant.time == committed.instant:
        return instant.action.comparable in WRITE_ACTIONS
    is_service = instant.action is Action.CLEAN or (table.is_mor and instant.action is Action.COMMIT)
    return is_service and instant.time > committed.instant
