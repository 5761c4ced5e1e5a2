"""Clustering as a planned service (`ClusteringPlanActionExecutor`, `BaseHoodieTableServiceClient.completeClustering`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import clustering as config
from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.schema import PARTITION_PATH, RECORD_KEY, StoredRows
from hudi_py.services.clustering.execute import (
    ClusterSettings,
    KeyRanges,
    KeySample,
    key_ranges,
    ranked_ranges,
    sample_keys,
    sample_ranked,
    write_in_order,
)
from hudi_py.services.clustering.gain import ClusteringGain, estimate_gain
from hudi_py.services.clustering.order import LINEAR, RowOrder
from hudi_py.services.clustering.plan import (
    CLUSTERING_PLANS,
    KEPT,
    SORT_COLUMNS,
    ClusteringScope,
    changed_partitions,
    commits_since,
    last_clustering,
    plan_clustering,
)
from hudi_py.services.clustering.ranks import RowSample
from hudi_py.services.compaction.plan import busy_groups, rewritten_bytes
from hudi_py.services.compaction.rewrite import RewriteSettings, check_compactable
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, Service, Step, run_step, schedule_step
from hudi_py.services.planned.moves import ClusteringCodec, MovingService, UnitFiles, unit_memory
from hudi_py.services.planned.phases import Chosen, PlannedWork
from hudi_py.services.planned.service import ServiceReport
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.write.index.other_indexes import check_table_index
from hudi_py.write.settings import max_file_size

_log = logging.getLogger(__name__)
_DO: Final = "cluster"


@dataclass(frozen=True, slots=True, repr=False)
class ClusteringReport(ServiceReport):
    """The result of a clustering."""

    num_replaced: int = 0
    """File groups that were replaced."""
    num_partitions: int = 0
    num_files: int = 0
    """New files."""
    num_rows: int = 0
    written_bytes: int = 0
    """Bytes of the new files."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield f"{counted(self.num_replaced, 'file group')} replaced by {counted(self.num_files, 'file')}"
            yield f"in {counted(self.num_partitions, 'partition')}"
            yield f"{counted(self.num_rows, 'row')}, {show_bytes(self.written_bytes)} written"


@dataclass(frozen=True, slots=True)
class Clustering(MovingService[ClusterSettings, ClusteringReport]):
    """Moves rows to fewer, larger or sorted files. Rows keep their meta columns except for the file name."""

    doing: ClassVar[str] = "clustering"
    divides: ClassVar[bool] = False

    min_commits: int = 0
    """Plans once there are this many commits since the last clustering, and only for partitions that have changed
    since; 0: at any time, for all partitions."""
    local: bool = True
    sort_by: str = ""
    """Columns to sort by in a new plan, instead of those in the options."""
    layout: str = ""
    partitions: str = ""
    footers: bool = True
    """Whether a preview reads the footers of files for its gain, if the metadata table has no ranges of the columns."""

    def _plan_options(self, context: ServiceContext) -> Options:
        """Returns the options for a new plan."""
        given = {config.SORT_COLUMNS: self.sort_by, config.LAYOUT: self.layout, config.PARTITIONS: self.partitions}
        return context.options.replace({option: text for option, text in given.items() if text})

    @property
    def codec(self) -> ClusteringCodec:
        return CLUSTERING_PLANS

    def refused(self, context: ServiceContext) -> str:
        table, options = context.config(), context.options
        for option in (config.PLAN_STRATEGY, config.RUN_STRATEGY):
            if options.get(option) in config.CONSISTENT_HASHING:
                raise UnsupportedTableError(
                    f"Cannot cluster the table '{table.name}' with {option.key} = '{options.get(option)}': it changes "
                    "hash buckets; use resize_buckets"
                )
        if options.get(write_config.INDEX_TYPE) == "BUCKET":
            raise UnsupportedTableError(
                f"Cannot cluster the table '{table.name}' with {write_config.INDEX_TYPE.key} = 'BUCKET': rows belong "
                "to the file groups of their buckets; resize_buckets and rescale_buckets change those"
            )
        check_compactable(table, _DO)
        return ""

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[ClusteringPlan]:
        options, plans = self._plan_options(context), PendingPlans(state.storage, state.timeline)
        chosen = instant if instant is not None else context.session.clock.next_instant(state.timeline)
        reason = self._why_not_due(state)
        if not reason and plans.writes and not context.session.settings.optimistic:
            # its rows would be lost if it completed after the clustering; with several writers, it conflicts instead
            write = plans.writes[0]
            reason = (
                f"the {write.action.value} {write.time} is pending, and a clustering is planned only while no write is "
                "pending"
            )
        if reason:
            return Chosen(chosen, None, reason)
        view = context.view(state)
        check_table_index(view, None)
        self._check_arguments(state, options, view.partitions())
        self._row_order(state, RewriteSettings.of(state, options, as_of=chosen, do=_DO), options)
        incremental = self.min_commits > 0 and options.get(compaction_config.INCREMENTAL)
        changed = changed_partitions(state) if incremental else None
        scope = ClusteringScope(
            [path for path in view.partitions() if changed is None or path in changed],
            on_demand=not self.min_commits,
            busy=busy_groups(state.storage, state.timeline, view, log_compactions=True),
        )
        plan = plan_clustering(
            view,
            options,
            scope,
            default_size=max_file_size(state.config, options),
            hour=datetime.now(context.session.zone).hour,
        )
        none = "no file group is small enough that is not in a pending plan"
        return Chosen(chosen, plan) if plan.groups else Chosen(chosen, None, none)

    def _check_arguments(self, state: TableState, options: Options, partitions: Sequence[str]) -> None:
        """Checks the arguments of a call against the table.

        Raises:
            ConfigError: a partition does not exist, or rows follow a curve through no columns.
        """
        name, layout, columns = state.config.name, options.get(config.LAYOUT), options.get(config.SORT_COLUMNS)
        unknown = sorted(set(options.get(config.PARTITIONS)) - set(partitions)) if self.partitions else []
        if unknown:
            raise ConfigError(
                f"Cannot cluster the partition {unknown[0]!r} of the table '{name}', which does not exist; "
                f"partitions: {', '.join(map(repr, sorted(partitions)[:5]))}{', …' if len(partitions) > 5 else ''}"
            )
        if layout != LINEAR and not columns and self.layout:
            raise ConfigError(
                f"Cannot cluster the table '{name}' with the layout {layout} and no columns to sort by; give two or "
                "more columns (sort_by)"
            )
        if layout != LINEAR and len(columns) == 1 and options.get(config.CURVE_METHOD) == "DIRECT":
            _log.warning(
                "the layout %s sorts nothing by the column %s alone: use two or more columns, or the layout linear",
                layout,
                columns[0],
            )

    def _why_not_due(self, state: TableState) -> str:
        """Returns why no clustering is due; empty if one is."""
        if not self.min_commits:
            return ""
        count = commits_since(state, last_clustering(state))
        if count >= self.min_commits:
            return ""
        return (
            f"{counted(count, 'commit')} since the last clustering, due after {self.min_commits} "
            f"({config.INLINE_MAX_COMMITS.key}, {config.ASYNC_MAX_COMMITS.key})"
        )

    def gain(self, context: ServiceContext, state: TableState, plan: ClusteringPlan) -> ClusteringGain:
        options = self._plan_options(context)
        now = context.session.clock.next_instant(state.timeline)
        schema = RewriteSettings.of(state, options, as_of=now, do=_DO).schema
        return estimate_gain(context.view(state), options, plan, schema, footers=self.footers)

    def num_bytes(self, units: Sequence[ClusteringGroup]) -> int:
        return sum(rewritten_bytes(unit.metrics) for unit in units)

    def settings(
        self, context: ServiceContext, state: TableState, plan: ClusteringPlan, instant: InstantTime
    ) -> ClusterSettings:
        self.refused(context)
        name = plan.strategy.rpartition(".")[2]
        known = (config.SORT_AND_SIZE, config.SINGLE_FILE_SORT, "JavaSortAndSizeExecutionStrategy", *config.COPIES)
        if name not in known:
            raise UnsupportedTableError(
                f"Cannot run the clustering {instant} of {state.storage.uri}: its plan asks for the class "
                f"{plan.strategy}; supported: {', '.join(known)}; unschedule it, and plan it again"
            )
        options = _as_planned(context.options, plan, f"{instant} of {state.storage.uri}")
        rewrite = RewriteSettings.of(state, options, as_of=instant, do=_DO)
        copies = name in config.COPIES and _may_be_copied(state.config, options)
        whole = copies or name == config.SINGLE_FILE_SORT
        return ClusterSettings(
            rewrite,
            RowOrder(()) if copies else self._row_order(state, rewrite, options),
            None if whole else options.get(config.TARGET_FILE_BYTES),
            unit_memory(options),
        )

    def _row_order(self, state: TableState, rewrite: RewriteSettings, options: Options) -> RowOrder:
        stored = StoredRows.of(state.config)
        schema = stored.columns(rewrite.schema)
        columns, layout = list(options.get(config.SORT_COLUMNS)), options.get(config.LAYOUT)
        keys = [RECORD_KEY] if stored.has_meta else list(stored.key_fields)
        if columns and layout == LINEAR and options.get(config.SORT_BY_KEY_LAST):
            columns += keys
        elif not columns and options.get(write_config.BULK_INSERT_SORT_MODE) in ("GLOBAL_SORT", "PARTITION_SORT"):
            columns, layout = keys, LINEAR
        columns = [name for name in columns if name != PARTITION_PATH]  # a group has rows of one partition
        sampled = options.get(config.CURVE_METHOD) == "SAMPLE"
        max_bounds = options.get(config.CURVE_SAMPLE_SIZE) if sampled else None
        return RowOrder.of(columns, layout, schema, state.config.name, max_bounds=max_bounds)

    def shuffles(self, settings: ClusterSettings, unit: ClusteringGroup) -> bool:
        return settings.order.sorts and settings.max_file_bytes is not None and unit.num_outputs > 1

    def sampled_columns(self, settings: ClusterSettings) -> tuple[str, ...]:
        return settings.order.columns

    def sample(self, settings: ClusterSettings, rows: Iterable[pa.RecordBatch]) -> KeySample | RowSample | None:
        return (sample_keys if settings.order.sampling is None else sample_ranked)(settings.order, rows)

    def bounds(self, settings: ClusterSettings, unit: ClusteringGroup, samples: Sequence[Any]) -> KeyRanges:
        divided = key_ranges if settings.order.sampling is None else ranked_ranges
        return divided(settings.order, samples, unit.num_outputs)

    def divide(
        self, settings: ClusterSettings, unit: ClusteringGroup, bounds: KeyRanges, rows: pa.RecordBatch
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        return bounds.divide(rows)

    def write(
        self, unit: UnitFiles[ClusterSettings], target: str | None, rows: Iterator[pa.RecordBatch]
    ) -> list[WriteStat]:
        settings, outputs = unit.settings, unit.planned.unit.num_outputs if target is None else 1
        return write_in_order(unit, settings.order, rows, max_bytes=settings.max_file_bytes, outputs=outputs)

    def report(
        self, work: PlannedWork[ClusterSettings], completion: CompletionTime | None, metadata: CommitMetadata
    ) -> ClusteringReport:
        return ClusteringReport(
            self.name,
            work.instant,
            completion,
            num_replaced=sum(map(len, metadata.replaced.values())),
            num_partitions=len(metadata.replaced),
            num_files=len(metadata.stats),
            num_rows=sum(stat.num_writes for stat in metadata.stats),
            written_bytes=sum(stat.file_size for stat in metadata.stats),
        )

    def nothing(self, reason: str) -> ClusteringReport:
        return ClusteringReport(self.name, None, reason=reason)


def _may_be_copied(table: TableConfig, options: Options) -> bool:
    """Returns whether groups can become one file each by copying (`supportBinaryStreamCopy`, 1.2.0). Otherwise such a
    plan is run like any other."""
    return not (table.is_mor or options.get(config.SORT_COLUMNS)) and table.base_file_format == "PARQUET"


def _as_planned(options: Options, plan: ClusteringPlan, which: str) -> Options:
    """Returns the options with those of a plan, which take precedence. Apache Hudi's plans store only the columns to
    sort by."""
    given = {option: plan.parameters[option.key] for option in KEPT if option.key in plan.parameters}
    columns = plan.parameters.get(SORT_COLUMNS, "")
    layout = options.get(config.LAYOUT)
    if columns and layout != LINEAR and config.LAYOUT not in given:
        _log.warning("the clustering %s is run with the layout %s of the options: its plan has none", which, layout)
    return options.replace({config.SORT_COLUMNS: columns, **given})


def _after_commits(options: Options) -> Clustering | None:
    """Returns the clustering that is due after a commit; None if the options ask for none."""
    if options.get(config.INLINE):
        return Clustering(min_commits=max(options.get(config.INLINE_MAX_COMMITS), 1), footers=False)
    if options.get(config.SCHEDULE_INLINE):
        return Clustering(min_commits=max(options.get(config.ASYNC_MAX_COMMITS), 1), footers=False)
    return None


def _steps_after_commit(options: Options, _: TableConfig) -> Iterator[Step]:
    service = _after_commits(options)
    if service is not None:
        yield run_step(service) if options.get(config.INLINE) else schedule_step(service)


def _check_options(options: Options) -> None:
    if options.get(config.INLINE) and options.get(config.SCHEDULE_INLINE):
        raise ConfigError(  # `HoodieWriteConfig.validate`, 1.2.0
            f"Cannot write with {config.INLINE.key} = true and {config.SCHEDULE_INLINE.key} = true: a commit is "
            "followed either by a clustering or by a plan to run later; set only one of them"
        )


def _check_table(options: Options, table: TableConfig) -> None:
    if _after_commits(options) is not None:
        check_compactable(table, "cluster")


def _find_due(context: ServiceContext, _: TableState) -> Due | None:
    service = _after_commits(context.options)
    if service is None:
        return None
    preview = service.preview(context)
    if not isinstance(preview.gain, ClusteringGain):
        return Due("clustering", False, preview.reason)
    groups = f"{counted(len(preview.rows), 'file group')} to join or sort: {preview.gain}"
    return Due("clustering", True, groups, files=preview.gain.files_saved, num_bytes=preview.num_bytes)


CLUSTERING: Final = Service(
    name="clustering",
    help="Moves rows to fewer, larger or sorted files",
    plans=Clustering,
    arguments=(
        Argument("sort_by", str, "columns to sort the rows of a new plan by, separated by commas"),
        Argument("layout", str, "how to sort by several columns: linear, zorder or hilbert"),
        Argument("partitions", str, "paths of the partitions that a new plan has, separated by commas"),
    ),
    command="cluster",
    after_commit=AfterCommitRule(
        _steps_after_commit,
        check_options=_check_options,
        check_table=_check_table,
        switch={config.INLINE: "true", config.SCHEDULE_INLINE: "false"},
        left=lambda options, _: options.get(config.SCHEDULE_INLINE),
    ),
    due=_find_due,
)
