"""A made-up service with plans: the rows of each file group move to a new one, by a clustering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime
from hudi_py.model.names import PartitionPath, new_file_id
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices.reader import SliceReader
from hudi_py.read.split import Split
from hudi_py.services.compaction.rewrite import RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, Service, Step, schedule_step
from hudi_py.services.planned.codec import slice_of
from hudi_py.services.planned.moves import ClusteringCodec, clustering_codec, planned_group
from hudi_py.services.planned.phases import Chosen, PlannedUnit, PlannedWork, RewritingService, UnitOutcome
from hudi_py.services.planned.service import ServiceReport
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan, decode_clustering_plan
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.write.context import FileContext, TaskId
from hudi_py.write.handles.base import BaseFileHandle

_STRATEGY: Final = "made.up.Freshening"


@dataclass(frozen=True, slots=True, repr=False)
class FreshenReport(ServiceReport):
    """What it did."""

    num_file_groups: int = 0


def _decode(data: bytes, context: str) -> ClusteringPlan | None:
    plan = decode_clustering_plan(data, context)
    return plan if plan is not None and plan.strategy == _STRATEGY else None


_PLANS: Final = clustering_codec(_decode)


@dataclass(frozen=True, slots=True)
class Freshening(RewritingService[ClusteringPlan, ClusteringGroup, RewriteSettings, FreshenReport]):
    """Plans every file group with a base file, or at most so many."""

    operation: ClassVar[str] = "CLUSTER"
    doing: ClassVar[str] = "freshening"

    local: bool = True
    most: int = 100

    @property
    def codec(self) -> ClusteringCodec:
        return _PLANS

    @property
    def name(self) -> str:
        return "freshen"

    def planned(self, plans: PendingPlans) -> list[Instant]:
        return [each for each in plans.of(Action.CLUSTERING) if plans.decoded(each, _decode) is not None]

    def refused(self, context: ServiceContext) -> str:
        return ""

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[ClusteringPlan]:
        view = context.view(state)
        found = [slice_ for path in sorted(view.partitions()) for slice_ in view.latest_slices(path)]
        groups = tuple(
            planned_group(state.storage, [each], 1, 0)
            for each in found[: self.most]
            if (each.partition, each.file_id) not in view.pending_clustering
        )
        chosen = instant if instant is not None else context.session.clock.next_instant(state.timeline)
        return Chosen(
            chosen, ClusteringPlan(groups, _STRATEGY) if groups else None, "" if groups else "no file is left"
        )

    def settings(
        self, context: ServiceContext, state: TableState, plan: ClusteringPlan, instant: InstantTime
    ) -> RewriteSettings:
        return RewriteSettings.of(state, context.options, as_of=instant, do="freshen")

    def execute_unit(
        self, context: ServiceContext, planned: PlannedUnit[ClusteringGroup, RewriteSettings]
    ) -> UnitOutcome:
        storage, settings, task = context.storage, planned.work.settings, TaskId.fresh(planned.number)
        assert settings is not None
        files = FileContext(
            planned.running,
            settings.files(planned.work.attempt.config),
            task=task,
            progress=context.progress,
        )
        (moved,) = planned.unit.slices
        spec = settings.spec(storage, files.keyed_schema, files.stored.key_fields)
        split = Split.of(spec, slice_of(context, moved.as_operation(), planned.sizes, "freshen"))
        with (
            SliceReader(storage, split) as reader,
            BaseFileHandle(files, PartitionPath(moved.partition_path), new_file_id()) as handle,
        ):
            for batch in reader.rows():
                handle.write_moved(batch)
            stat = handle.finish()
        return UnitOutcome(planned.number, (stat,), ((moved.partition_path, moved.file_id),))

    def commit_extra(self, work: PlannedWork[RewriteSettings]) -> Mapping[str, str]:
        return work.settings.extra if work.settings is not None else {}

    def report(
        self, work: PlannedWork[RewriteSettings], completion: CompletionTime | None, metadata: CommitMetadata
    ) -> FreshenReport:
        return FreshenReport("freshen", work.instant, completion, num_file_groups=len(metadata.stats))

    def nothing(self, reason: str) -> FreshenReport:
        return FreshenReport("freshen", None, reason=reason)


def _steps(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(compaction_config.SCHEDULE_INLINE):
        yield schedule_step(Freshening())


def _due(context: ServiceContext, state: TableState) -> Due:
    preview = Freshening().preview(context)
    return Due("freshen", bool(preview.rows), f"{len(preview.rows)} file groups are not fresh")


FRESHEN: Final = Service(
    name="freshen",
    help="Moves the rows of each file group to a new one",
    plans=Freshening,
    arguments=(Argument("most", int, "how many file groups at most"),),
    after_commit=AfterCommitRule(_steps),
    due=_due,
)
