"""Services whose plans are clusterings: rows move to new file groups, in one process or by a shuffle of an engine.

One process reads a unit once, and keeps its rows on the local disk if there are many. An engine can instead read the
file slices of a unit in separate tasks, which divide the rows by targets, and write each target in another task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config.write import WRITE_MEMORY
from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action, Instant
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.read.slices.reader import SliceReader
from hudi_py.read.split import Split
from hudi_py.services.compaction.plan import slice_metrics
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.codec import PlanCodec, missing_file, slice_of
from hudi_py.services.planned.phases import PlannedUnit, PlannedWork, Report_co, RewritingService, UnitOutcome
from hudi_py.storage import Storage, hadoop_uri
from hudi_py.storage.threads import write_threads
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan, ClusteringSlice, encode_clustering_plan
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.plans import FileGroup
from hudi_py.transaction.attempt import PlannedAction
from hudi_py.transaction.owner.claim import check_open
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.session import LockedTable
from hudi_py.write.context import FileContext, TaskId
from hudi_py.write.exchange import parcels, unpacked
from hudi_py.write.handles.base import BaseFileHandle, write_files
from hudi_py.write.rows import PartitionedRows

ClusteringCodec: TypeAlias = PlanCodec[ClusteringPlan, ClusteringGroup]


def clustering_codec(decode: Callable[[bytes, str], ClusteringPlan | None]) -> ClusteringCodec:
    """Returns the codec for the plans of a service. `decode`: decodes only the service's own plans."""
    return PlanCodec(
        action=Action.CLUSTERING,
        decode=decode,
        encode=encode_clustering_plan,
        units=lambda plan: plan.groups,
        with_units=lambda plan, groups: replace(plan, groups=groups),
        files=lambda group: ((slice_.partition_path, name) for slice_ in group.slices for name in slice_.files),
        rows=_plan_rows,
    )


def planned_group(
    storage: Storage,
    slices: Sequence[FileSlice],
    outputs: int,
    default_size: int,
    extra: Mapping[str, str] | None = None,
) -> ClusteringGroup:
    """Returns a group of a new plan.

    Args:
        outputs: how many file groups will replace them.
        default_size: bytes that a slice without a base file is assumed to write.
    """
    named = tuple(_slice_of(storage, slice_) for slice_ in slices)
    return ClusteringGroup(named, outputs, slice_metrics(slices, default_size), extra)


def _slice_of(storage: Storage, slice_: FileSlice) -> ClusteringSlice:
    uri, base = hadoop_uri(storage.uri), slice_.base_file
    return ClusteringSlice(
        partition_path=slice_.partition,
        file_id=slice_.file_id,
        base_path="" if base is None else f"{uri}/{base.path}",
        log_paths=tuple(f"{uri}/{log.path}" for log in reversed(slice_.log_files)),
        bootstrap_file="" if base is None or base.source is None else base.source.uri,
    )


def _plan_rows(plan: ClusteringPlan) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {"partition": slice_.partition_path, "file_id": slice_.file_id, "files": list(slice_.files)}
        for slice_ in plan.slices
    )


class MoveSettings(Protocol):
    """How to execute the units of a plan. Pickles; holds no credentials."""

    @property
    def rewrite(self) -> RewriteSettings: ...

    @property
    def memory(self) -> int:
        """Maximum bytes of one unit's rows in memory; the rest is spilled to the local disk."""
        ...


Settings = TypeVar("Settings", bound=MoveSettings)
Sample: TypeAlias = Any
"""Statistics of the rows of a slice, from one task. Pickles small."""
Bounds: TypeAlias = Any
"""How to divide the rows of a unit, computed from all of its samples. Pickles small."""


def unit_memory(options: Options) -> int:
    """Returns `MoveSettings.memory`: units run side by side, and half of it is for the files being written."""
    return max(options.get(WRITE_MEMORY) // 2 // write_threads(options), 1)


@dataclass(frozen=True, slots=True)
class UnitPart:
    """A file slice of a unit whose rows are shuffled."""

    unit: int
    """Number of the unit in its plan."""
    slice: int
    """Number of the slice in the unit."""
    group: FileGroup


class MovingService(
    RewritingService[ClusteringPlan, ClusteringGroup, Settings, Report_co], Generic[Settings, Report_co]
):
    """A service whose plans move rows to new file groups of their partition."""

    __slots__ = ()

    operation: ClassVar[str] = "CLUSTER"
    divides: ClassVar[bool]
    """Whether rows are divided by targets even in one process."""

    @property
    @abstractmethod
    def codec(self) -> ClusteringCodec: ...

    def planned(self, plans: PendingPlans) -> list[Instant]:
        """See `PlannedService.planned`. Clusterings whose plans the codec does not decode belong to other services."""
        return [
            instant for instant in plans.of(Action.CLUSTERING) if plans.decoded(instant, self.codec.decode) is not None
        ]

    def locked(self, context: ServiceContext, purpose: str) -> AbstractContextManager[LockedTable]:
        """See `RewritingService.locked`. Refuses if there is a failed write."""
        keep_failed = context.session.settings.keeps_failed_writes
        return recovered(context.session, purpose, beside=True, keep_failed=keep_failed)

    def commit_extra(self, work: PlannedWork[Settings]) -> Mapping[str, str]:
        assert work.settings is not None
        return work.settings.rewrite.extra

    @abstractmethod
    def shuffles(self, settings: Settings, unit: ClusteringGroup) -> bool:
        """Returns whether a unit is worth a shuffle, where an engine has one."""

    @abstractmethod
    def sample(self, settings: Settings, rows: Iterable[pa.RecordBatch]) -> Sample:
        """Samples the rows of a slice, so that the rows of its unit can be divided."""

    @abstractmethod
    def sampled_columns(self, settings: Settings) -> tuple[str, ...] | None:
        """Returns the columns that samples need; None: rows are divided without samples."""

    @abstractmethod
    def bounds(self, settings: Settings, unit: ClusteringGroup, samples: Sequence[Sample]) -> Bounds:
        """Computes how to divide the rows of a unit."""

    @abstractmethod
    def divide(
        self, settings: Settings, unit: ClusteringGroup, bounds: Bounds, rows: pa.RecordBatch
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Divides rows by targets."""

    @abstractmethod
    def write(
        self, unit: UnitFiles[Settings], target: str | None, rows: Iterator[pa.RecordBatch]
    ) -> Iterable[WriteStat]:
        """Writes all rows of a target; None: of the unit."""

    def execute_unit(self, context: ServiceContext, planned: PlannedUnit[ClusteringGroup, Settings]) -> UnitOutcome:
        """See `RewritingService.execute_unit`.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is missing.
            CorruptFileError: the unit has several partitions.
        """
        unit = UnitFiles(context, planned)
        rows = (batch for number in range(len(planned.unit.slices)) for batch in unit.rows(number))
        if not self.divides:
            stats = [*self.write(unit, None, rows)]
        else:
            with PartitionedRows(unit.files.keyed_schema, unit.settings.memory) as held:
                bounds = self.bounds(unit.settings, planned.unit, ())
                for batch in rows:
                    for target, part in self.divide(unit.settings, planned.unit, bounds, batch):
                        held.add(part, pa.repeat(target, part.num_rows))
                targets = held.partitions
                stats = [stat for target in targets for stat in self.write(unit, str(target), held.batches(target))]
        groups = tuple((slice_.partition_path, slice_.file_id) for slice_ in planned.unit.slices)
        return UnitOutcome(planned.number, tuple(stats), groups)

    # -- by a shuffle

    def parts(self, context: ServiceContext, work: PlannedWork[Settings]) -> list[UnitPart]:
        """Returns the file slices of the units to shuffle."""
        assert work.settings is not None
        return [
            UnitPart(number, place, (slice_.partition_path, slice_.file_id))
            for number, unit in enumerate(self._units_of(context, work))
            if self.shuffles(work.settings, unit)
            for place, slice_ in enumerate(unit.slices)
        ]

    def sampled(
        self, context: ServiceContext, work: PlannedWork[Settings], parts: Sequence[UnitPart]
    ) -> list[tuple[int, Sample]]:
        """Returns a sample of each part, with the number of its unit."""
        assert work.settings is not None
        columns = self.sampled_columns(work.settings)
        if columns is None:
            return [(part.unit, None) for part in parts]
        with PlannedAction(context.session, work.attempt) as running:
            return [
                (part.unit, self.sample(work.settings, unit.rows(part.slice, columns)))
                for part, unit in self._open_units(context, work, running, parts)
            ]

    def all_bounds(
        self, context: ServiceContext, work: PlannedWork[Settings], samples: Sequence[tuple[int, Sample]]
    ) -> dict[int, Bounds]:
        """Computes how to divide the rows of each unit, from the samples of its parts."""
        assert work.settings is not None
        settings = work.settings
        units, samples_by_unit = self._units_of(context, work), defaultdict(list)
        for number, sample in samples:
            samples_by_unit[number].append(sample)
        return {number: self.bounds(settings, units[number], some) for number, some in samples_by_unit.items()}

    def read_parts(
        self,
        context: ServiceContext,
        work: PlannedWork[Settings],
        bounds: dict[int, Bounds],
        parts: Sequence[UnitPart],
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of parts, as `PARCELS` by targets."""
        check_open(context.storage, work.attempt)
        with PlannedAction(context.session, work.attempt) as running:
            for part, unit in self._open_units(context, work, running, parts):
                for batch in unit.rows(part.slice):
                    divided = self.divide(unit.settings, unit.planned.unit, bounds[part.unit], batch)
                    for target, rows in divided:
                        yield from parcels(f"{part.unit}/{target}", "", pa.Table.from_batches([rows]))

    def write_parts(
        self, context: ServiceContext, work: PlannedWork[Settings], batches: Iterable[pa.RecordBatch]
    ) -> list[UnitOutcome]:
        """Writes the rows of some targets, given all of their parcels."""
        assert work.settings is not None
        units, outcomes = self._units_of(context, work), []
        with PlannedAction(context.session, work.attempt) as running:
            first = UnitFiles(context, PlannedUnit(work, running, units[0], 0))
            schema = first.files.keyed_schema
            with PartitionedRows(schema, work.settings.memory) as held:
                for to, rows in unpacked(batches, schema):
                    held.add(rows, pa.repeat(to, rows.num_rows))
                for to in held.partitions:
                    number, _, target = to.partition("/")
                    unit = UnitFiles(context, PlannedUnit(work, running, units[int(number)], int(number)))
                    stats = self.write(unit, target, held.batches(to))
                    outcomes.append(UnitOutcome(int(number), tuple(stats)))
        return outcomes

    def _units_of(self, context: ServiceContext, work: PlannedWork[Settings]) -> tuple[ClusteringGroup, ...]:
        return self.codec.units(self.codec.existing(context.storage, context.timeline(), work.instant))

    def _open_units(
        self, context: ServiceContext, work: PlannedWork[Settings], running: PlannedAction, parts: Iterable[UnitPart]
    ) -> Iterator[tuple[UnitPart, UnitFiles[Settings]]]:
        units = self._units_of(context, work)
        for part in parts:
            yield part, UnitFiles(context, PlannedUnit(work, running, units[part.unit], part.unit))


def joined(parts: Iterable[UnitPart], outcomes: Iterable[UnitOutcome]) -> list[UnitOutcome]:
    """Combines the outcomes of targets to one outcome for each shuffled unit."""
    stats: dict[int, list[WriteStat]] = defaultdict(list)
    groups: dict[int, list[FileGroup]] = defaultdict(list)
    for part in parts:
        groups[part.unit].append(part.group)
    for outcome in outcomes:
        stats[outcome.task] += outcome.stats
    return [UnitOutcome(unit, tuple(stats[unit]), tuple(replaced)) for unit, replaced in groups.items()]


class UnitFiles(Generic[Settings]):
    """The files of one unit that a process reads and writes."""

    def __init__(self, context: ServiceContext, planned: PlannedUnit[ClusteringGroup, Settings]) -> None:
        settings = planned.work.settings
        assert settings is not None
        self.planned = planned
        self.settings = settings
        self._context = context
        paths = sorted({slice_.partition_path for slice_ in planned.unit.slices})
        if len(paths) != 1:
            raise CorruptFileError(
                f"Cannot run the plan {planned.work.instant} of {context.storage.uri}: its group {planned.number} has "
                f"{len(paths)} partitions ({', '.join(paths)}), and a group has files of one; unschedule it, and plan "
                "it again"
            )
        self.partition = PartitionPath(paths[0])
        rewrite = settings.rewrite
        self.files = FileContext(
            planned.running,
            rewrite.files(planned.work.attempt.config),
            task=TaskId.fresh(planned.number),
            progress=context.progress,
        )

    def rows(self, number: int, columns: tuple[str, ...] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the merged rows of a slice with their meta columns, or at least their keys; or only some columns."""
        storage, files = self._context.storage, self.files
        whole = slice_of(self._context, self.planned.unit.slices[number].as_operation(), self.planned.sizes, "cluster")
        spec = self.settings.rewrite.spec(storage, files.keyed_schema, files.stored.key_fields, columns)
        try:
            with SliceReader(storage, Split.of(spec, whole)) as reader:
                yield from reader.rows()
        except FileNotFoundError as error:
            raise missing_file(storage, "move rows", self.partition, error) from error

    def written(
        self,
        rows: Iterator[pa.RecordBatch],
        *,
        max_bytes: int | None = None,
        max_rows: int | None = None,
        file_id: FileId | None = None,
    ) -> list[WriteStat]:
        """Writes rows to file groups of a limited number of bytes or rows, or to a single one with a given id."""
        opened = partial(BaseFileHandle, self.files, self.partition, file_id)
        return write_files(opened, BaseFileHandle.write_moved, rows, max_bytes=max_bytes, max_rows=max_rows)
