"""Splits and merges hash buckets, as a planned service. Its plans are clusterings, which Apache Hudi can execute too,
and the other way round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from hudi_py.config import Option
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConflictError, UnsupportedTableError
from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.hash_ring import HashRing
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.schema import RECORD_KEY, StoredRows
from hudi_py.services.bucket_resize.plan import RESIZE_PLANS, BucketGroup, bucket_groups, plan_resizing
from hudi_py.services.clustering.execute import write_in_order
from hudi_py.services.clustering.order import LINEAR, RowOrder
from hudi_py.services.clustering.plan import SORT_COLUMNS
from hudi_py.services.compaction.rewrite import RewriteSettings, check_compactable
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Service
from hudi_py.services.planned.moves import ClusteringCodec, MovingService, UnitFiles, unit_memory
from hudi_py.services.planned.phases import Chosen, PlannedWork
from hudi_py.services.planned.service import ServiceReport
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.transaction.session import LockedTable
from hudi_py.write.index.bucket import BucketIndex
from hudi_py.write.index.consistent import ConsistentBuckets
from hudi_py.write.settings import settings_as_stored

_NAME: Final = "resize_buckets"
_DO: Final = "resize the buckets of"


@dataclass(frozen=True, slots=True)
class ResizeSettings:
    """How to execute the groups of one plan. Implements `MoveSettings`."""

    rewrite: RewriteSettings
    memory: int
    order: RowOrder
    """The order of rows in each bucket; plans of Apache Hudi may have sort columns."""
    index: BucketIndex
    num_split: int
    num_merged: int


@dataclass(frozen=True, slots=True, repr=False)
class ResizeReport(ServiceReport):
    """The result of `resize_buckets`."""

    num_split: int = 0
    """Buckets that were split in two."""
    num_merged: int = 0
    """Buckets that were merged with neighbours."""
    num_partitions: int = 0
    """Partitions whose buckets changed."""
    num_files: int = 0
    """Files written."""
    num_bytes: int = 0

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield f"{counted(self.num_split, 'bucket')} split"
            yield f"{counted(self.num_merged, 'bucket')} merged"
            yield f"in {counted(self.num_partitions, 'partition')}"


@dataclass(frozen=True, slots=True)
class BucketResizing(MovingService[ResizeSettings, ResizeReport]):
    """Splits buckets larger than `hoodie.bucket.index.split.threshold`, and merges neighbours smaller than
    `hoodie.bucket.index.merge.threshold`, within `hoodie.bucket.index.min.num.buckets` and `max`.

    Rows keep their meta columns except for the file name, as the plan says; Apache Hudi gives them new ones.
    """

    doing: ClassVar[str] = "resizing buckets"

    divides: ClassVar[bool] = True
    local: bool = True

    @property
    def codec(self) -> ClusteringCodec:
        return RESIZE_PLANS

    @property
    def name(self) -> str:
        return _NAME

    def refused(self, context: ServiceContext) -> str:
        config, options = context.config(), context.options
        if options.get(indexes_config.BUCKET_ENGINE) != "CONSISTENT_HASHING":
            raise UnsupportedTableError(
                f"Cannot resize the buckets of the table '{config.name}' with {indexes_config.BUCKET_ENGINE.key} = "
                f"'{options.get(indexes_config.BUCKET_ENGINE)}'; supported: CONSISTENT_HASHING. Table.rescale_buckets "
                "changes those of a simple bucket index"
            )
        if config.cdc_enabled:
            raise UnsupportedTableError(
                f"Cannot resize the buckets of the table '{config.name}', which logs changes; cluster it with Apache "
                "Hudi"
            )
        check_compactable(config, _DO)
        return ""

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[ClusteringPlan]:
        plans = PendingPlans(state.storage, state.timeline)
        chosen = instant if instant is not None else context.session.clock.next_instant(state.timeline)
        if plans.writes:
            write = plans.writes[0]
            return Chosen(
                chosen,
                None,
                f"the {write.action.value} {write.time} is pending, and changes of buckets are planned only while no "
                "write is pending",
            )
        view = context.view(state)
        busy = {group for pending in plans.of(*COMPACTIONS) for group in plans.file_groups(pending)}
        buckets = ConsistentBuckets(_bucket_index(context, state.config), view)
        settings_as_stored(view, Operation.INSERT_OVERWRITE, context.options.replace(_INDEXED), _DO)
        plan = plan_resizing(buckets, view, chosen, context.options, busy)
        return Chosen(chosen, plan) if plan.groups else Chosen(chosen, None, "no bucket is large or small enough")

    def settings(
        self, context: ServiceContext, state: TableState, plan: ClusteringPlan, instant: InstantTime
    ) -> ResizeSettings:
        self.refused(context)
        rewrite = RewriteSettings.of(state, context.options, as_of=instant, do=_DO)
        columns = [name.strip() for name in plan.parameters.get(SORT_COLUMNS, "").split(",") if name.strip()]
        order = RowOrder.of(columns, LINEAR, StoredRows.of(state.config).columns(rewrite.schema), state.config.name)
        split = sum(group.num_outputs > 1 for group in plan.groups)
        merged = sum(len(group.slices) for group in plan.groups if len(group.slices) > 1)
        return ResizeSettings(
            rewrite, unit_memory(context.options), order, _bucket_index(context, state.config), split, merged
        )

    def shuffles(self, settings: ResizeSettings, unit: ClusteringGroup) -> bool:
        return len(unit.slices) > 1 and unit.num_outputs > 1

    def sampled_columns(self, settings: ResizeSettings) -> None:
        return None

    def sample(self, settings: ResizeSettings, rows: Iterable[pa.RecordBatch]) -> None:
        return None

    def bounds(self, settings: ResizeSettings, unit: ClusteringGroup, samples: Sequence[None]) -> HashRing:
        group = BucketGroup.of(unit)
        assert group is not None
        return group.new

    def divide(
        self, settings: ResizeSettings, unit: ClusteringGroup, bounds: HashRing, rows: pa.RecordBatch
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        keys = combined(rows[RECORD_KEY])
        numbers = bounds.numbers(keys, settings.index.hashed, settings.index.key_fields)
        for number in np.unique(numbers).tolist():
            yield f"{number}", rows.take(pa.array(np.flatnonzero(numbers == number)))

    def write(
        self, unit: UnitFiles[ResizeSettings], target: str | None, rows: Iterator[pa.RecordBatch]
    ) -> list[WriteStat]:
        ring = self.bounds(unit.settings, unit.planned.unit, ())
        return write_in_order(unit, unit.settings.order, rows, file_id=ring.file_id(int(target or 0)))

    def before_commit(self, table: LockedTable, work: PlannedWork[ResizeSettings]) -> None:
        """Stores the new buckets, which count once the clustering has completed."""
        assert work.settings is not None
        plan = self.codec.existing(table.storage, table.timeline, work.instant)
        before = ConsistentBuckets(work.settings.index, table.session.view(table.timeline), work.instant)
        for path in sorted({group.partition for group in bucket_groups(plan)}):
            groups = [group for group in bucket_groups(plan) if group.partition == path]
            ring = before.ring(path)
            if any(group.sequence != ring.sequence for group in groups):
                raise ConflictError(
                    f"Cannot complete the clustering {work.instant} of {table.storage.uri}: the hash buckets of "
                    f"partition '{path}' have changed since it was planned; unschedule it, and plan it again",
                    instant=work.instant,
                )
            before.store(ring.changed(work.instant, [change for group in groups for change in group.changes]))

    def report(
        self, work: PlannedWork[ResizeSettings], completion: CompletionTime | None, metadata: CommitMetadata
    ) -> ResizeReport:
        settings, stats = work.settings, metadata.stats
        return ResizeReport(
            _NAME,
            work.instant,
            completion,
            num_split=0 if settings is None else settings.num_split,
            num_merged=0 if settings is None else settings.num_merged,
            num_partitions=len(metadata.replaced),
            num_files=len(stats),
            num_bytes=sum(stat.file_size for stat in stats),
        )

    def nothing(self, reason: str) -> ResizeReport:
        return ResizeReport(_NAME, None, reason=reason)


_INDEXED: Final[dict[Option[Any], str]] = {write_config.INDEX_TYPE: "BUCKET"}


def _bucket_index(context: ServiceContext, config: TableConfig) -> BucketIndex:
    return BucketIndex.of(context.options.replace(_INDEXED), config)


RESIZE_BUCKETS: Final = Service(
    name=_NAME,
    help="Splits large buckets of consistent hashing, and merges small ones",
    plans=BucketResizing,
    command="resize-buckets",
)
