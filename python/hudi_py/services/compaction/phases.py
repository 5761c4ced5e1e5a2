"""What compaction and log compaction have in common: a plan of file slices, begun, executed in pieces, committed."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.compaction.plan import existing_plan, not_overtaken
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.drop import drop_plan
from hudi_py.services.service import Dropped, Scheduled, Work
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.metadata import encode_commit_metadata, read_commit_metadata
from hudi_py.timeline.plans import CompactionOperation
from hudi_py.timeline.state import TableState
from hudi_py.transaction.action import complete_action
from hudi_py.transaction.attempt import (
    Participation,
    begin_attempt,
    close_attempt,
    end_attempt,
    give_up_attempt,
    join_attempt,
    undo_attempt,
)
from hudi_py.transaction.instants import requested_path
from hudi_py.transaction.owner.claim import Attempt, check_open, superseded
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import LockedTable

_log = logging.getLogger(__name__)

Prepare = Callable[[TableState], RewriteSettings | None]
"""How slices are rewritten; refuses tables that would lose something."""
OnePiece = Callable[[Participation, CompactionOperation, int], WriteStat]
"""Carries one operation out; the number is that of the piece."""


@dataclass(frozen=True, slots=True)
class CompactionWork:
    """A plan under way. Its pieces are its operations, in order."""

    attempt: Attempt
    num_pieces: int
    settings: RewriteSettings | None
    """None where slices are rewritten by a callable of the caller's."""

    @property
    def instant(self) -> InstantTime:
        return self.attempt.instant


@dataclass(frozen=True, slots=True)
class Outcome:
    """One operation carried out."""

    piece: int
    stat: WriteStat


def begin_plan(
    context: ServiceContext, instant: InstantTime, action: Action, prepare: Prepare, *, local: bool
) -> CompactionWork | Dropped:
    """Takes a plan to inflight. What an attempt that died left of it is removed, and so is what would be in vain in the
    plan of a log compaction.

    Apache Hudi 1.2.0 refuses to carry out log compactions older than any compaction (`BaseHoodieTableServiceClient
    .logCompact`).

    Raises:
        ConfigError: there is no such plan.
        ConflictError: another process is at it.
    """
    attempt: Attempt | None = None
    storage = context.storage
    try:
        with context.locked(f"begin the {action.value} {instant}") as table:
            timeline = table.timeline
            plan = existing_plan(storage, timeline, instant, action)
            settings = prepare(table)
            kept = plan.operations
            if action is Action.LOG_COMPACTION:
                kept = not_overtaken(context.view(table), kept)
            in_vain = bool(plan.operations) and not kept
            attempt = begin_attempt(table, instant, action, local=local)
            if in_vain:
                undo_attempt(storage, timeline.layout, instant, action)
                drop_plan(table, instant, action)
            elif len(kept) < len(plan.operations):
                content = encode_compaction_plan(replace(plan, operations=kept), log_compaction=True)
                storage.put(requested_path(timeline.layout, instant, action), content)
    except BaseException:  # whatever it is, nobody will be at work
        if attempt is not None:
            end_work(attempt.owner.id)
        raise
    if in_vain:
        end_work(attempt.owner.id)
        reason = (
            f"the {action.value} {instant} was removed: compactions since it was planned take in the logs of its file "
            "groups, or these were replaced"
        )
        _log.warning("%s", reason)
        return Dropped(instant, reason)
    return CompactionWork(attempt, len(kept), settings)


def join_plan(context: ServiceContext, instant: InstantTime, action: Action, prepare: Prepare) -> CompactionWork:
    """The plan that another process began, for this one to take part in.

    Raises:
        ConfigError: it is not under way.
    """
    state = context.state()
    attempt = join_attempt(context.session, state, instant, action)
    plan = existing_plan(context.storage, state.timeline, instant, action)
    return CompactionWork(attempt, len(plan.operations), prepare(state))


def execute_plan(context: ServiceContext, work: CompactionWork, pieces: Sequence[int], one: OnePiece) -> list[Outcome]:
    """Carries some operations of a plan out, several at a time.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is gone.
    """
    check_open(context.storage, work.attempt)
    plan = existing_plan(context.storage, context.timeline(), work.instant, work.attempt.action)
    context.progress.phase("compacting", len(pieces))
    with Participation(context.session, work.attempt) as participation:

        def outcome(piece: int) -> Outcome:
            return Outcome(piece, one(participation, plan.operations[piece], piece))

        return in_threads(outcome, pieces, context.threads)


def commit_plan(
    context: ServiceContext,
    service: str,
    operation: str,
    work: CompactionWork,
    outcomes: Sequence[Outcome],
    extra: Mapping[str, str],
) -> CompactionReport:
    """Completes the action. Idempotent.

    Args:
        service: named in the report.
        operation: name of the `WriteOperationType`.
        extra: extra metadata of the commit.

    Raises:
        ConfigError: the outcome of a piece is missing.
        RolledBackError: the attempt was given up in the meantime.
    """
    storage, attempt = context.storage, work.attempt
    action = attempt.action
    stats = {outcome.piece: outcome.stat for outcome in outcomes}
    missing = [piece for piece in range(work.num_pieces) if piece not in stats]
    if missing:
        raise ConfigError(
            f"Cannot commit the {action.value} {work.instant} of {storage.uri}: {len(missing)} of its "
            f"{work.num_pieces} pieces were not executed, the first is {missing[0]}; execute them, then commit"
        )
    with context.locked(f"commit the {action.value} {work.instant}") as table:
        timeline = table.timeline
        done = timeline.find(work.instant, action)
        if done is not None and done.completed:
            found = read_commit_metadata(storage, timeline.layout, done)
            completed_at = table.session.completion_shown(done.completion_time)
            return CompactionReport.of(service, work.instant, completed_at, found)
        if done is None:
            raise superseded(storage, attempt, "its plan is not there")
        metadata = CommitMetadata(
            operation=operation, stats=tuple(stats[piece] for piece in sorted(stats)), extra=extra, compacted=True
        )
        close_attempt(table, attempt, metadata.stats)
        content = encode_commit_metadata(metadata, timeline.layout, action=action, completed=True)
        change = TableChange(work.instant, action.comparable, commit=metadata)
        completed = complete_action(table, work.instant, action, content, change)
    end_attempt(storage, attempt)
    return CompactionReport.of(service, work.instant, completed.completion_time, metadata)


@dataclass(frozen=True, slots=True)
class PlannedRewrite(ABC):
    """What compaction and log compaction do alike as planned services. Pickles where `rewrite` does."""

    always: bool = False
    """A plan is made whenever there are logs enough, whether one is due by the options or not."""
    local: bool = True
    """The process that begins a plan lives until it is completed; False: only the heartbeat shows that it does not."""
    rewrite: Rewrite | None = None
    """Writes the new file of a slice; None: of a table that holds rows."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata of the commit; goes with a `rewrite`."""

    action: ClassVar[Action]
    operation: ClassVar[str]
    """Name of the `WriteOperationType`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the service, as reports and errors have it."""

    @abstractmethod
    def check_table(self, config: TableConfig, options: Options) -> None:
        """Raises UnsupportedTableError for a table that would lose something."""

    @abstractmethod
    def plan(self, context: ServiceContext, table: LockedTable, instant: InstantTime | None) -> Scheduled:
        """Makes a plan where one is due."""

    @abstractmethod
    def settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        """How the slices of a table that holds rows are rewritten. Raises UnsupportedTableError."""

    @abstractmethod
    def one_piece(self, context: ServiceContext, work: CompactionWork) -> OnePiece:
        """What rewrites one slice of the plan."""

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans what was committed until now, where it is due.

        Raises:
            UnsupportedTableError: the table has a feature that would be lost.
            ConfigError: a strategy by days meets a partition whose path is no date.
            LockError: the table lock could not be acquired in time.
        """
        config, title = context.config(), self.name.replace("_", " ")
        if not config.is_mor:
            return Scheduled(None, f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact")
        context.progress.phase(f"planning the {title}")
        if self.rewrite is None:
            self.check_table(config, context.options)
        with context.locked(f"plan a {title}") as table:
            if any(each.time == instant for each in table.plans.of(self.action)):
                return Scheduled(instant)
            return self.plan(context, table, instant)

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in context.timeline().pending if instant.action is self.action]

    def begin(self, context: ServiceContext, instant: InstantTime) -> CompactionWork | Dropped:
        """See `begin_plan`. Raises UnsupportedTableError, too: the table has a feature that would be lost."""
        return begin_plan(context, instant, self.action, self._prepare(context, instant), local=self.local)

    def join(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        return join_plan(context, instant, self.action, self._prepare(context, instant))

    def _prepare(self, context: ServiceContext, instant: InstantTime) -> Prepare:
        return lambda state: self.settings(context, state, instant) if self.rewrite is None else None

    def execute(self, context: ServiceContext, work: Work, pieces: Sequence[int]) -> list[Outcome]:
        """See `execute_plan`. Raises UnsupportedTableError, too: logs hold what cannot be rewritten."""
        assert isinstance(work, CompactionWork)
        return execute_plan(context, work, pieces, self.one_piece(context, work))

    def commit(self, context: ServiceContext, work: Work, outcomes: Sequence[Outcome]) -> CompactionReport:
        """See `commit_plan`."""
        assert isinstance(work, CompactionWork)
        extra = work.settings.extra if work.settings is not None else self.extra
        return commit_plan(context, self.name, self.operation, work, outcomes, extra)

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)

    def give_up(self, context: ServiceContext, work: Work) -> None:
        """Removes the files of the attempt; the plan stays."""
        assert isinstance(work, CompactionWork)
        give_up_attempt(context.session, work.attempt)
