"""Cleans in random histories: an incremental plan is the full one, and what is to stay stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import join_path
from hudi_py.services.archive import archive
from hudi_py.services.clean.slices import load_guards
from hudi_py.services.recovery.savepoint import delete_savepoint
from hudi_py.timeline.metadata import decode_compaction_plan
from hudi_py.timeline.plans import RollbackMetadata, encode_rollback_metadata
from hudi_py.timeline.state import TableState
from hudi_py.transaction.instants import requested_path
from hudi_py.view import load_view
from tests.support.archiving import archiving
from tests.support.clean_tables import HandMadeTable

Group = tuple[str, str]
PARTITIONS = ["a", "b", "c"]
GROUPS = st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 2)), min_size=1, max_size=3, unique=True)
POLICIES = st.one_of(
    st.fixed_dictionaries({"commits": st.integers(1, 6)}),
    st.fixed_dictionaries({"hours": st.integers(1, 12)}),
    st.fixed_dictionaries({"versions": st.integers(1, 3)}),
    st.fixed_dictionaries({"commits": st.integers(1, 3), "at_most": st.integers(1, 3)}),
)
ALL_POLICIES = ["KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"]
SHOWN = dict[str, list[tuple[str, tuple[str, ...]]]]


class Histories(RuleBasedStateMachine):
    """Any of the actions that Apache Hudi knows, in simulated time, with cleans of changing policies between them."""

    version = 9
    mor = False

    def __init__(self) -> None:
        super().__init__()
        self.table = HandMadeTable(self.version, mor=self.mor, cdc=not self.mor)
        self.fresh = 0
        self.groups: list[Group] = []
        """Those that were not replaced."""
        self.writes: list[InstantTime] = []
        """Pending commits, with their files in place."""
        self.stats: dict[InstantTime, list[Any]] = {}
        self.plans: dict[InstantTime, tuple[Action, list[Group]]] = {}
        """Pending compactions, log compactions and clusterings."""
        self.savepoints: list[InstantTime] = []

    def _groups(self, wanted: list[tuple[str, int]]) -> list[Group]:
        found: list[Group] = []
        for partition, number in wanted:
            there = [group for group in self.groups if group[0] == partition]
            if there and there[number % len(there)] not in found:
                found.append(there[number % len(there)])
        return found

    def _unwritten(self, wanted: list[tuple[str, int]]) -> list[Group]:
        """Groups that no pending write adds to: it could not complete, were they replaced."""
        return self._unwritten_of(self._groups(wanted))

    def _unwritten_of(self, groups: list[Group]) -> list[Group]:
        writing = {(stat.partition_path, stat.file_id) for stats in self.stats.values() for stat in stats}
        return [group for group in groups if group not in writing]

    def _busy(self) -> set[Group]:
        return {group for _, groups in self.plans.values() for group in groups}

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 2))
    def insert(self, partition: str, count: int) -> None:
        added = [(partition, f"g{self.fresh + number}") for number in range(count)]
        self.fresh += count
        self.table.insert(*added)
        self.groups += added

    @rule(wanted=GROUPS, again=st.integers(1, 3))
    def update(self, wanted: list[tuple[str, int]], again: int) -> None:
        for _ in range(again):
            groups = self._groups(wanted)
            if groups:
                self.table.update(*groups)

    @rule(minutes=st.sampled_from([30, 120, 600]))
    def wait(self, minutes: int) -> None:
        self.table.tick(minutes)

    @rule(wanted=GROUPS)
    def begin_write(self, wanted: list[tuple[str, int]]) -> None:
        groups = self._groups(wanted)
        if groups and len(self.writes) < 2:
            time = self.table.begin()
            self.writes.append(time)
            self.stats[time] = self.table.update_stats(time, *groups)

    @precondition(lambda self: self.writes)
    @rule(first=st.booleans())
    def finish_write(self, first: bool) -> None:
        time = self.writes.pop(0 if first else -1)
        self.table.finish(time, self.table.write_action, self.stats.pop(time))

    @precondition(lambda self: self.writes)
    @rule()
    def roll_back_write(self) -> None:
        time = self.writes.pop()
        for stat in self.stats.pop(time):
            self.table.storage.delete(stat.path)
        self._roll_back(time, self.table.write_action)

    @rule(wanted=GROUPS, kind=st.sampled_from([Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING]))
    def plan_service(self, wanted: list[tuple[str, int]], kind: Action) -> None:
        groups = [group for group in self._groups(wanted) if group not in self._busy()]
        if kind is Action.CLUSTERING:
            if groups:
                self.plans[self.table.schedule_clustering(*groups)] = (kind, groups)
        elif groups and self.mor and (self.version >= 8 or (kind is Action.COMPACTION and not self.writes)):
            time = self.table.schedule_compaction(*groups, log=kind is Action.LOG_COMPACTION)
            self.plans[time] = (kind, groups)

    @precondition(lambda self: self.plans)
    @rule(first=st.booleans())
    def finish_service(self, first: bool) -> None:
        time = list(self.plans)[0 if first else -1]
        kind, groups = self.plans.pop(time)
        table = self.table
        if kind is Action.COMPACTION:
            table.finish_compaction(time, *groups)
        elif kind is Action.LOG_COMPACTION:
            stats = [table.log(time, *group, time) for group in groups]
            table.finish(time, Action.LOG_COMPACTION, stats, operation="LOG_COMPACT")
        else:
            groups = [group for group in self._unwritten_of(groups) if group in self.groups]
            added = [(partition, f"g{self.fresh + number}") for number, (partition, _) in enumerate(groups)]
            self.fresh += len(groups)
            replaced: dict[str, tuple[str, ...]] = {}
            for partition, file_id in groups:
                replaced[partition] = (*replaced.get(partition, ()), file_id)
            stats = [table.base(time, *group) for group in added]
            table.finish(time, Action.CLUSTERING, stats, operation="CLUSTER", replaced=replaced)
            self.groups = [group for group in self.groups if group not in groups] + added

    @precondition(lambda self: self.plans)
    @rule()
    def take_service_back(self) -> None:
        time, (kind, _) = list(self.plans.items())[-1]
        if (
            kind is Action.COMPACTION
            and self.version < 8
            and any(f"_{time}.log" in path for path in self.table.files())
        ):
            return  # its slices have been written to
        del self.plans[time]
        self._roll_back(time, kind)

    def _roll_back(self, time: InstantTime, action: Action) -> None:
        rollback = self.table.request(Action.ROLLBACK)
        self.table.take_back(time, action)
        metadata = RollbackMetadata(rollback, 1, time, action.value)
        self.table.complete(rollback, Action.ROLLBACK, encode_rollback_metadata(metadata))

    @rule(wanted=GROUPS, refill=st.booleans())
    def overwrite(self, wanted: list[tuple[str, int]], refill: bool) -> None:
        groups = self._unwritten(wanted)
        if groups:
            added = [(groups[0][0], f"g{self.fresh}")] if refill else []
            self.fresh += 1
            self.table.replace(groups, added)
            self.groups = [group for group in self.groups if group not in groups] + added

    @rule(number=st.integers(0, 20))
    def savepoint(self, number: int) -> None:
        commits = [instant.time for instant in self.table.timeline.write_completed]
        cleans = [instant for instant in self.table.timeline.completed if instant.action is Action.CLEAN]
        commits = [time for time in commits if not cleans or time > cleans[-1].time]
        if commits and commits[number % len(commits)] not in self.savepoints:
            self.table.savepoint(commits[number % len(commits)])
            self.savepoints.append(commits[number % len(commits)])

    @precondition(lambda self: self.savepoints)
    @rule(first=st.booleans())
    def delete_savepoint(self, first: bool) -> None:
        shown = self._shown(None)
        delete_savepoint(self.table.context(), self.savepoints.pop(0 if first else -1))
        assert self._shown(None) == shown

    @rule(policy=POLICIES, stuck=st.integers(0, 3), times=st.integers(1, 2))
    def clean(self, policy: dict[str, int], stuck: int, times: int) -> None:
        table = self.table
        for _ in range(times):
            planned = table.planned_files(**policy, trigger=0)
            full = table.plan(**policy, trigger=0, incremental=False).plan
            assert planned == table.planned_files(**policy, trigger=0, incremental=False)
            table.storage.stuck = {path.rpartition("/")[2] for path in sorted(planned)[:stuck]}
            earliest = full.earliest.time if full is not None and full.earliest is not None else None
            shown = self._shown(earliest)
            must_stay = self._must_stay()
            assert must_stay <= table.files()
            before = table.files()
            report = table.clean(**policy, trigger=0)
            assert before - table.files() == planned - set(report.failed)
            assert {path.rpartition("/")[2] for path in report.failed} == table.storage.stuck & {
                path.rpartition("/")[2] for path in planned
            }
            assert must_stay <= table.files()
            assert self._shown(earliest) == shown
            table.storage.stuck = set()
            if not report.failed and "at_most" not in policy:
                assert table.planned_files(**policy, trigger=0, incremental=False) == set()

    @rule(partition=st.sampled_from(PARTITIONS), policy=POLICIES)
    def clean_one_partition(self, partition: str, policy: dict[str, int]) -> None:
        shown = self._shown(None)
        must_stay = self._must_stay()
        self.table.clean(**policy, trigger=0, incremental=False, selected=partition)
        assert must_stay <= self.table.files()
        assert self._shown(None) == shown

    @rule(kept=st.integers(1, 3), beyond=st.booleans(), policy=st.sampled_from(ALL_POLICIES), times=st.integers(1, 2))
    def archive(self, kept: int, beyond: bool, policy: str, times: int) -> None:
        """Whatever leaves the active timeline, queries as of now and as of savepoints read the same."""
        settings = archiving(
            min_commits=kept,
            max_commits=kept + 1,
            beyond_savepoint=beyond,
            cleaner_policy=policy,
            cleaner_commits=1,
            cleaner_hours=1,
            compaction_commits=None,
        )
        for _ in range(times):
            shown = self._shown(None, *self.savepoints)
            files = self.table.files()
            pending = self.table.timeline.pending
            archive(replace(self.table.context(), options=settings))
            assert self._shown(None, *self.savepoints) == shown
            assert self.table.files() == files
            assert self.table.timeline.pending == pending

    def _must_stay(self) -> set[str]:
        table = self.table
        guards = load_guards(table.storage, table.timeline)
        found = {join_path(*file) for file in guards.clustering}
        found |= {path for path in table.files() if path.rpartition("/")[2] in guards.savepointed}
        for time, (kind, _) in self.plans.items():
            if kind is not Action.CLUSTERING:
                plan = decode_compaction_plan(table.storage.read(requested_path(table.layout, time, kind)))
                for operation in plan.operations:
                    names = [*operation.log_files, *([operation.base_file] if operation.base_file else [])]
                    found |= {join_path(operation.partition_path, name) for name in names}
        for stats in self.stats.values():
            found |= {stat.path for stat in stats}
        return found

    def _shown(self, earliest: InstantTime | None, *others: InstantTime) -> dict[str | None, SHOWN]:
        """What queries as of now, as of each retained commit and as of some others read."""
        table = self.table
        timeline = table.timeline
        view = load_view(TableState(table.storage, table.config, timeline))
        moments: list[InstantTime | None] = [None, *others]
        if earliest is not None:
            moments += [instant.time for instant in timeline.write_completed if instant.time >= earliest]
        return {
            moment: {
                partition: [
                    (
                        piece.file_id,
                        (
                            str(piece.base_file.name) if piece.base_file else "",
                            *(str(log.name) for log in piece.log_files),
                        ),
                    )
                    for piece in view.latest_slices(partition, moment)  # type: ignore[arg-type]
                ]
                for partition in PARTITIONS
            }
            for moment in moments
        }


@pytest.mark.parametrize(("version", "mor"), [(6, False), (6, True), (8, True), (9, False), (9, True)])
@pytest.mark.sampled(3)
def test_incremental_cleans_are_full_cleans_and_spare_what_is_needed(version: int, mor: bool) -> None:
    machine = type("Machine", (Histories,), {"version": version, "mor": mor})
    run_state_machine_as_test(machine, settings=settings(max_examples=10, stateful_step_count=30, deadline=None))
