"""Reporting metrics after commits, and after services that are called directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hudi_py.config import Options
from hudi_py.config import metrics as config
from hudi_py.interop.metrics.measures import measures_of
from hudi_py.interop.metrics.reporters import Reporter
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession


@dataclass(frozen=True, slots=True)
class MetricsStep:
    """Reports a commit, and the services that ran after it. Implements `AfterCommit`."""

    reporter: Reporter

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Every table has metrics."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Reports. A failure is a warning."""
        timeline = session.timeline()
        done = [each for each in timeline.completed if _belongs(each, session.config, committed)]
        return ("metrics",) if _report(self.reporter, session, timeline, done) else ()


@contextmanager
def measured(session: TableSession, options: Options) -> Iterator[None]:
    """Reports what is completed in the context, if the options ask for it."""
    reporter = Reporter.of(options)
    if reporter is None:
        yield
        return
    before = {(each.time, each.action.comparable) for each in session.timeline().completed}
    yield
    timeline = session.timeline()
    done = [each for each in timeline.completed if (each.time, each.action.comparable) not in before]
    if done:
        _report(reporter, session, timeline, done)


def _belongs(instant: Instant, table: TableConfig, committed: Committed) -> bool:
    """Whether an instant is the commit, or that of a service after it; other writers' commits are not."""
    if instant.time == committed.instant:
        return instant.action.comparable in WRITE_ACTIONS
    is_service = instant.action is Action.CLEAN or (table.is_mor and instant.action is Action.COMMIT)
    return is_service and instant.time > committed.instant


def _report(reporter: Reporter, session: TableSession, timeline: Timeline, done: Iterable[Instant]) -> bool:
    blocks = reporter.options.get(config.LOG_BLOCKS)
    measures = dict(measures_of(session.storage, timeline, done, session.zone, log_blocks=blocks))
    return reporter.report(session.storage.uri, session.config.name, measures)
