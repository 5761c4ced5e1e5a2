"""Plans clusterings: assigns file slices to groups (`PartitionAwareClusteringPlanStrategy` and its subclasses, Apache
Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from hudi_py.config import Option, Options
from hudi_py.config import clustering as config
from hudi_py.config import compaction as compaction_config
from hudi_py.errors import ConfigError
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action, Instant
from hudi_py.model.names import PartitionPath
from hudi_py.schema.patterns import matching
from hudi_py.services.bucket_resize.plan import changes_buckets
from hudi_py.services.planned.moves import clustering_codec, planned_group
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan, decode_clustering_plan
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans, clustering_plan
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.view import FileSystemView

SORT_COLUMNS: Final = config.SORT_COLUMNS.key
KEPT: Final[tuple[Option[object], ...]] = (
    config.LAYOUT,
    config.CURVE_METHOD,
    config.CURVE_SAMPLE_SIZE,
    config.SORT_BY_KEY_LAST,
    config.TARGET_FILE_BYTES,
)
"""Options that a plan stores where they differ from the defaults, so that everyone who executes it writes alike."""


@dataclass(frozen=True, slots=True)
class ClusteringScope:
    """What a plan may take."""

    partitions: Collection[str]
    """The partitions to consider."""
    on_demand: bool
    """Whether these are all partitions; then a plan names any that it leaves out, for later plans after commits, which
    would consider only those that have changed since."""
    busy: Collection[FileGroup]
    """File groups that other plans have."""


def plan_clustering(
    view: FileSystemView, options: Options, scope: ClusteringScope, *, default_size: int, hour: int
) -> ClusteringPlan:
    """Plans a clustering; the plan has no groups if there is nothing to do.

    Args:
        default_size: bytes that a slice without a base file is assumed to write.
        hour: hour of the day.
    """
    chosen, missing = choose_partitions(options, sorted(scope.partitions), hour)
    if scope.on_demand:
        missing = [path for path in scope.partitions if path not in chosen]
    groups: list[ClusteringGroup] = []
    max_groups, storage = options.get(config.MAX_GROUPS), view.state.storage
    for path in sorted(chosen):
        current = [
            slice_ for slice_ in view.latest_slices(PartitionPath(path)) if (path, slice_.file_id) not in scope.busy
        ]
        packed, cut = _pack_groups(storage, options, candidates(options, current, default_size), default_size)
        new = [planned_group(storage, slices, count, default_size) for slices, count in packed]
        if cut or len(groups) + len(new) > max_groups:
            missing.append(path)
        groups += new[: max_groups - len(groups)]
    columns = options.get(config.SORT_COLUMNS)
    parameters = {SORT_COLUMNS: ",".join(columns)} if columns else {}
    for option in KEPT:
        if options.get(option) != option.default and (columns or option is config.TARGET_FILE_BYTES):
            parameters[option.key] = _option_text(options.get(option))
    return ClusteringPlan(
        tuple(groups),
        config.RUNS_PACKAGE + (config.STREAM_COPY_RUN if _copies(options) else options.get(config.RUN_STRATEGY)),
        parameters,
        missing_partitions=tuple(sorted(missing)) if options.get(compaction_config.INCREMENTAL) else None,
    )


def choose_partitions(options: Options, partitions: Sequence[str], hour: int) -> tuple[list[str], list[str]]:
    """Chooses the partitions of a plan from partitions in order. Returns them, and those that it leaves for later
    plans.

    Raises:
        ConfigError: the options skip more partitions than there are, or the regular expression is not valid.
    """
    selected, regex = options.get(config.PARTITIONS), options.get(config.PARTITION_REGEX)
    chosen = list(partitions)
    if selected:
        chosen = [path for path in dict.fromkeys(selected) if path in partitions]
    elif regex:
        chosen = matching(regex, chosen, options.name_of(config.PARTITION_REGEX), whole=True)
    kept = chosen
    mode = config.FILTERING.get(options.get(config.PLAN_STRATEGY)) or options.get(config.FILTER_MODE)
    if mode == "RECENT_DAYS":
        skipped, wanted = options.get(config.SKIPPED_PARTITIONS), options.get(config.LOOKBACK_PARTITIONS)
        if skipped > len(chosen):
            raise ConfigError(
                f"Cannot plan a clustering that skips the latest {skipped} partitions "
                f"({config.SKIPPED_PARTITIONS.key}): there are {len(chosen)}"
            )
        newest = sorted(chosen, reverse=True)
        kept = newest[skipped : skipped + wanted if wanted else None]
        return kept, newest[:skipped]  # older ones are never clustered
    elif mode == "SELECTED_PARTITIONS":
        first, last = options.get(config.BEGIN_PARTITION), options.get(config.END_PARTITION)
        return [path for path in chosen if (first is None or path >= first) and (last is None or path <= last)], []
    elif mode == "DAY_ROLLING":
        kept = [path for number, path in enumerate(sorted(chosen)) if number % 24 == hour]
    return kept, [path for path in chosen if path not in kept]


def candidates(options: Options, slices: Sequence[FileSlice], default_size: int) -> list[FileSlice]:
    """Returns the slices that are small enough, in the order in which they go into groups."""
    limit = options.get(config.SMALL_FILE_LIMIT)
    orders: dict[str, Callable[[FileSlice], object]] = {
        "SIZE": lambda slice_: -_size_of(slice_, default_size),
        "INSTANT_TIME": lambda slice_: "" if slice_.base_file is None else slice_.base_file.instant,
    }
    names = ("SIZE",) if _groups_by_schema(options) else options.get(config.SLICES_SORT_BY)
    small = [slice_ for slice_ in slices if slice_.base_file is None or slice_.base_file.size < limit]
    return sorted(small, key=lambda slice_: tuple(orders[name](slice_) for name in names))


def _pack_groups(
    storage: Storage, options: Options, slices: Sequence[FileSlice], default_size: int
) -> tuple[list[tuple[list[FileSlice], int]], bool]:
    """Returns groups of slices, each with the number of files that replace them, and whether slices were left out."""
    if options.get(config.PLAN_STRATEGY) == config.SINGLE_FILE:
        return [([slice_], 1) for slice_ in slices], bool(
            slices
        )  # as in Apache Hudi, whether or not a slice was left out
    target, max_bytes = options.get(config.TARGET_FILE_BYTES), options.get(config.MAX_GROUP_BYTES)
    by_schema = _groups_by_schema(options)
    schemas = in_threads(partial(_schema_of, storage), slices) if by_schema else [None] * len(slices)
    groups: list[list[FileSlice]] = [[]]
    room, cut, schema = max_bytes, False, None
    for slice_, own in zip(slices, schemas, strict=True):
        size = _size_of(slice_, default_size)
        if groups[-1] and (size > room or own != schema):
            if len(groups) >= options.get(config.MAX_GROUPS):
                cut = True
                break
            groups.append([])
            room = max_bytes
        schema = own
        groups[-1].append(slice_)
        room -= size
    counted = [
        (group, -(-sum(_size_of(member, default_size) for member in group) // target)) for group in groups if group
    ]
    if options.get(config.SINGLE_GROUPS):
        return counted, cut
    if by_schema:  # as in Apache Hudi, only the last group is left out, however many files it becomes
        closed, last = counted[:-1], counted[-1:]
        return closed + [(group, count) for group, count in last if len(group) > 1 or cut], cut
    return [(group, count) for group, count in counted if len(group) > 1 or count > 1], cut


def _copies(options: Options) -> bool:
    return options.get(config.PLAN_STRATEGY) == config.STREAM_COPY


def _groups_by_schema(options: Options) -> bool:
    """Returns whether the files of a group have the same schema, so that they can be copied (`ParquetUtils.
    readSchemaHash`, 1.2.0)."""
    return _copies(options) and not options.get(config.COPY_OTHER_SCHEMAS)


def _schema_of(storage: Storage, slice_: FileSlice) -> Hashable:
    """Returns a value that is equal for Parquet files with equal schemas; None for other slices."""
    base = slice_.base_file
    if base is None or base.name.extension != "parquet":
        return None
    schema = read_metadata(storage, base.path).schema
    return tuple(
        (
            column.path,
            column.physical_type,
            str(column.logical_type),
            column.length,
            column.max_definition_level,
            column.max_repetition_level,
        )
        for column in map(schema.column, range(len(schema)))
    )


def _size_of(slice_: FileSlice, default_size: int) -> int:
    return default_size if slice_.base_file is None else slice_.base_file.size


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def last_clustering(state: TableState, *, completed: bool = False) -> Instant | None:
    """Finds the newest clustering; None if there is none. `completed`: only completed ones count."""
    plans = PendingPlans(state.storage, state.timeline)
    for instant in reversed(state.timeline.instants):
        if not instant.completed:
            if not completed and plans.is_clustering(instant):
                return instant
        elif instant.action is Action.REPLACE_COMMIT and _plan_of(state, instant) is not None:
            return instant
    return None


def _plan_of(state: TableState, instant: Instant) -> ClusteringPlan | None:
    return clustering_plan(state.storage, state.timeline.layout, instant.time)


def commits_since(state: TableState, clustering: Instant | None) -> int:
    """Counts the completed commits of rows after a clustering; all of them if there is none."""
    actions = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
    since = "" if clustering is None else clustering.time
    return sum(instant.action in actions and instant.time > since for instant in state.timeline.write_completed)


def changed_partitions(state: TableState) -> set[str] | None:
    """Returns the partitions written since the last completed clustering was planned, and those that its plan left out;
    None: all, because it is not known."""
    last = last_clustering(state, completed=True)
    if last is None:
        return None
    plan = _plan_of(state, last)
    partitions = set(() if plan is None else plan.missing_partitions or ())
    for instant in _commits_since_plan(state, last):
        try:
            metadata = read_commit_metadata(state.storage, state.timeline.layout, instant)
        except FileNotFoundError:  # archived since it was listed
            return None
        if not metadata.compacted:
            partitions.update(stat.partition_path for stat in metadata.stats)
    return partitions


def _commits_since_plan(state: TableState, last: Instant) -> Iterator[Instant]:
    """Yields the commits that were completed since a clustering was planned."""
    for instant in state.timeline.write_completed:
        if instant.time != last.time and (instant.completion_time or instant.time) >= last.time:
            yield instant


def _decode_plan(data: bytes, context: str) -> ClusteringPlan | None:
    plan = decode_clustering_plan(data, context)
    return None if plan is None or changes_buckets(plan) else plan


CLUSTERING_PLANS: Final = clustering_codec(_decode_plan)
