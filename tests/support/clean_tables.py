"""Tables for tests of cleaning: timelines made by hand in simulated time, data files of a few bytes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from hudi_py.config import Options
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.names import join_path
from hudi_py.services.clean import Cleaning, CleanReport, Planned, plan_clean
from hudi_py.services.clean.policy import check_cleaning
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run, run_all
from hudi_py.storage import FileInfo, MemoryStorage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import CompactionOperation, CompactionPlan, encode_commit_metadata
from hudi_py.timeline.plans import SavepointMetadata, encode_compaction_plan, encode_savepoint
from hudi_py.timeline.records import encode_record
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.timeline.times import format_instant
from hudi_py.transaction.instants import inflight_path, requested_path
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.session import TableSession
from hudi_py.view import load_view
from tests.support.hand_writes import new_table
from tests.support.sessions import settings_of

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
SETTINGS = settings_of(LOCK_WAIT_MS=1000, LOCK_RETRIES=0, LOCK_RETRY_WAIT_MS=10, MAX_CLOCK_SKEW_MS=0)
_NUMBERS = itertools.count()


class SimulatedStorage(MemoryStorage):
    """Files are modified at simulated times; files in `stuck` cannot be deleted."""

    __slots__ = ("deleted", "modified", "now_ms", "stuck")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.now_ms = START_MS
        self.modified: dict[str, int] = {}
        self.stuck: set[str] = set()
        self.deleted: list[str] = []

    @property
    def is_local(self) -> bool:
        return True

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        self.modified[path] = self.now_ms

    def put_if_absent(self, path: str, data: bytes) -> bool:
        created = super().put_if_absent(path, data)
        if created:
            self.modified[path] = self.now_ms
        return created

    def list(self, path: str = "") -> list[FileInfo]:
        return [info._replace(modified_ms=self.modified.get(info.path, 0)) for info in super().list(path)]

    def delete(self, path: str) -> bool:
        if path.rpartition("/")[2] in self.stuck:
            raise PermissionError(f"no permission to delete {path}")
        self.deleted.append(path)
        return super().delete(path)


class HandMadeTable:
    """A table whose commits are written by hand, one simulated minute after the other."""

    def __init__(self, version: int = 9, *, mor: bool = False, partitioned: bool = True, cdc: bool = False) -> None:
        self.storage = SimulatedStorage(f"clean-{next(_NUMBERS)}")
        self.config = new_table(self.storage, version, mor=mor, partitioned=partitioned)
        self.layout = layout_for(self.config)
        self.clock = InstantClock(
            self.config, skew_ms=1000, wall_ms=lambda: self.storage.now_ms, sleep=lambda seconds: None
        )
        self.cdc = cdc

    # ---- time

    def tick(self, minutes: float = 1) -> InstantTime:
        self.storage.now_ms += int(minutes * MINUTE_MS)
        return format_instant(self.storage.now_ms, self.clock.zone)

    @property
    def timeline(self) -> Timeline:
        return load_timeline(self.storage, self.config, self.clock.zone)

    # ---- instants

    def request(self, action: Action, content: bytes = b"", *, inflight: bool = True) -> InstantTime:
        time = self.tick()
        self.storage.put(requested_path(self.layout, time, action), content)
        if inflight:
            self.storage.put(inflight_path(self.layout, time, action), b"")
        return time

    def complete(self, time: InstantTime, action: Action, content: bytes) -> None:
        completion = CompletionTime(self.tick())
        self.storage.put(self.layout.path(self.layout.completed_name(time, action, completion)), content)

    def finish(
        self,
        time: InstantTime,
        action: Action,
        stats: Sequence[WriteStat],
        *,
        operation: str = "UPSERT",
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        metadata = CommitMetadata(operation, tuple(stats), {"schema": "{}"}, replaced=replaced or {})
        content = encode_commit_metadata(metadata, self.layout, action=action.comparable, completed=True)
        self.complete(time, action, content)

    def take_back(self, time: InstantTime, action: Action) -> None:
        self.storage.delete(inflight_path(self.layout, time, action))
        self.storage.delete(requested_path(self.layout, time, action))

    # ---- files

    def put(self, partition: str, name: str) -> int:
        if partition:
            self.storage.put(f"{partition}/.hoodie_partition_metadata", b"")
        content = name.encode()
        self.storage.put(join_path(partition, name), content)
        return len(content)

    def base(self, time: str, partition: str, file_id: str, previous: str | None = None) -> WriteStat:
        name = f"{file_id}_0-1-0_{time}.{self.config.base_file_extension}"
        size = self.put(partition, name)
        if self.cdc and previous:
            self.put(partition, f".{file_id}_{time}.log.1_0-1-0.cdc")
        return WriteStat(file_id, join_path(partition, name), partition, previous or "null", file_size=size)

    def log(self, time: str, partition: str, file_id: str, base_instant: str) -> WriteStat:
        named = time if self.config.version >= 8 else base_instant
        version = 1
        while self.storage.stat(join_path(partition, f".{file_id}_{named}.log.{version}_0-1-0")) is not None:
            version += 1
        name = f".{file_id}_{named}.log.{version}_0-1-0"
        size = self.put(partition, name)
        return WriteStat(file_id, join_path(partition, name), partition, base_instant, file_size=size)

    # ---- whole actions

    @property
    def write_action(self) -> Action:
        return Action.DELTA_COMMIT if self.config.is_mor else Action.COMMIT

    def newest(self, partition: str, file_id: str) -> str | None:
        """Base instant of the newest slice."""
        timeline = self.timeline
        view = load_view(TableState(self.storage, self.config, timeline))
        slices = view.slices_of(partition, file_id)  # type: ignore[arg-type]
        return slices[0].base_instant if slices else None

    def begin(self) -> InstantTime:
        return self.request(self.write_action)

    def insert(self, *groups: tuple[str, str]) -> InstantTime:
        """New file groups, by (partition, file id)."""
        time = self.begin()
        self.finish(time, self.write_action, [self.base(time, *group) for group in groups])
        return time

    def update_stats(self, time: str, *groups: tuple[str, str]) -> list[WriteStat]:
        stats: list[WriteStat] = []
        for partition, file_id in groups:
            before = self.newest(partition, file_id)
            assert before is not None
            if self.config.is_mor:
                stats.append(self.log(time, partition, file_id, before))
            else:
                stats.append(self.base(time, partition, file_id, before))
        return stats

    def update(self, *groups: tuple[str, str]) -> InstantTime:
        """A new version of file groups; on merge-on-read a log file."""
        time = self.begin()
        self.finish(time, self.write_action, self.update_stats(time, *groups))
        return time

    def schedule_compaction(self, *groups: tuple[str, str], log: bool = False) -> InstantTime:
        view = load_view(TableState(self.storage, self.config, self.timeline))
        operations = []
        for partition, file_id in groups:
            piece = view.slices_of(partition, file_id)[0]  # type: ignore[arg-type]
            base = str(piece.base_file.name) if piece.base_file else None
            logs = tuple(str(file.name) for file in piece.log_files)
            operations.append(CompactionOperation(partition, file_id, piece.base_instant, base, logs))
        action = Action.LOG_COMPACTION if log else Action.COMPACTION
        content = encode_compaction_plan(CompactionPlan(tuple(operations)), log_compaction=log)
        return self.request(action, content)

    def finish_compaction(self, time: InstantTime, *groups: tuple[str, str]) -> None:
        stats = [self.base(time, partition, file_id, "0") for partition, file_id in groups]
        self.finish(time, Action.COMPACTION, stats, operation="COMPACT")

    def replace(self, old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> InstantTime:
        time = self.request(Action.REPLACE_COMMIT)
        replaced: dict[str, tuple[str, ...]] = {}
        for partition, file_id in old:
            replaced[partition] = (*replaced.get(partition, ()), file_id)
        stats = [self.base(time, *group) for group in new]
        self.finish(time, Action.REPLACE_COMMIT, stats, operation="INSERT_OVERWRITE", replaced=replaced)
        return time

    def schedule_clustering(self, *groups: tuple[str, str]) -> InstantTime:
        view = load_view(TableState(self.storage, self.config, self.timeline))
        slices = []
        for partition, file_id in groups:
            piece = view.slices_of(partition, file_id)[0]  # type: ignore[arg-type]
            slices.append(
                {
                    "dataFilePath": f"{self.storage.uri}/{piece.base_file.path}" if piece.base_file else "",
                    "deltaFilePaths": [f"{self.storage.uri}/{file.path}" for file in piece.log_files],
                    "fileId": file_id,
                    "partitionPath": partition,
                }
            )
        record = {
            "operationType": "CLUSTER",
            "clusteringPlan": {"inputGroups": [{"slices": slices}], "version": 1},
            "extraMetadata": {},
            "version": 1,
        }
        action = Action.CLUSTERING if self.config.version >= 8 else Action.REPLACE_COMMIT
        return self.request(action, encode_record("HoodieRequestedReplaceMetadata", record))

    def savepoint(self, time: InstantTime) -> None:
        """Savepoints what a query as of a commit reads."""
        view = load_view(TableState(self.storage, self.config, self.timeline))
        files: dict[str, tuple[str, ...]] = {}
        for partition in view.partitions():
            names: list[str] = []
            for piece in view.latest_slices(partition, time):
                names += [str(piece.base_file.name)] if piece.base_file else []
                names += [str(log.name) for log in piece.log_files]
            files[partition] = tuple(names)
        self.tick()
        self.storage.put(self.layout.path(self.layout.inflight_name(time, Action.SAVEPOINT)), b"")
        completion = CompletionTime(self.tick())
        name = self.layout.completed_name(time, Action.SAVEPOINT, completion)
        self.storage.put(self.layout.path(name), encode_savepoint(SavepointMetadata("me", 0, "", files)))

    def delete_savepoint(self, time: InstantTime) -> None:
        for instant in self.timeline.files:
            if instant.action is Action.SAVEPOINT and instant.time == time:
                self.storage.delete(self.layout.path(instant.file_name))

    # ---- cleaning

    def context(self, **options: object) -> ServiceContext:
        given = {key.replace("__", "."): value for key, value in options.items()}
        session = TableSession.open(self.storage, DropMetadata(True), settings=SETTINGS, clock=self.clock)
        return ServiceContext(session, Options.resolve(clean_options(given), defaults={}))

    @property
    def cleaning(self) -> Cleaning:
        return Cleaning(now_ms=lambda: self.storage.now_ms)

    def plan(self, **options: object) -> Planned:
        context = self.context(**options)
        check_cleaning(context.options)
        return plan_clean(context, context.state(), context.options, now_ms=self.storage.now_ms)

    def planned_files(self, **options: object) -> set[str]:
        """Paths, relative to the table, that a clean would delete."""
        plan = self.plan(**options).plan
        if plan is None:
            return set()
        prefix = len(self.storage.uri) + 1
        return {path[prefix:] for paths in plan.files.values() for path in paths}

    def clean(self, **options: object) -> CleanReport:
        self.tick()
        return run_all(self.cleaning, self.context(**options))

    def run(self, time: InstantTime, **options: object) -> CleanReport:
        report = run(self.cleaning, self.context(**options), time)
        assert isinstance(report, CleanReport)
        return report

    def files(self) -> set[str]:
        """Paths of all data files."""
        return {
            info.path
            for info in self.storage.walk()
            if not info.path.startswith(".hoodie/") and info.name != ".hoodie_partition_metadata"
        }


SHORT = {
    "commits": "hoodie.clean.commits.retained",
    "versions": "hoodie.clean.fileversions.retained",
    "hours": "hoodie.clean.hours.retained",
    "incremental": "hoodie.clean.incremental.enabled",
    "policy": "hoodie.clean.policy",
    "trigger": "hoodie.clean.trigger.max.commits",
    "at_most": "hoodie.clean.max.commits.to.clean",
    "selected": "hoodie.clean.partition.filter.selected",
    "regex": "hoodie.clean.partition.filter.regex",
    "empty_hours": "hoodie.write.empty.clean.interval.hours",
    "parallelism": "hoodie.clean.parallelism",
}
"""Options of cleaning by short names."""


def clean_options(given: Mapping[str, object]) -> dict[str, object]:
    """Options by their keys, one thread."""
    return {"hoodie.py.write.threads": "1", **{SHORT.get(name, name): value for name, value in given.items()}}
