"""Plans a read that an engine carries out in several processes: splits, tasks and pin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.errors import HudiError, StorageError
from hudi_py.expressions.filter import all_of, parse_filter
from hudi_py.metadata.files import warn_unused
from hudi_py.metadata.stats import ColumnRange, column_stats
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.model.instant import Action
from hudi_py.read.engines.native import why_not_native
from hudi_py.read.planning.pin import PlanPin, load_pinned
from hudi_py.read.planning.plan import ScanPlan, divide, is_divided
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.scan import Scan, make_scan
from hudi_py.read.slices.parts import replaced_rows
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import KnownValues, ReadSpec, Split
from hudi_py.read.support import missing_file
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.threads import processors

_MAX_FILES = 20_000
"""Maximum number of files whose statistics are looked up, which takes a quarter of the planning time."""
_INSTEAD = "footers of base files are read instead"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A planned read. Picklable; holds no credentials.

    It names files, not just an instant: a new plan, which Spark before 4.1 makes for each query, could not distinguish
    a file cleaned since from one that never existed.
    """

    spec: ReadSpec
    splits: tuple[Split, ...]
    """Splits without their spec, which is large and the same for all; `read_splits` restores it."""

    @classmethod
    def of(cls, spec: ReadSpec, splits: Sequence[Split]) -> Pinned:
        """Builds the read from splits that have their spec."""
        return cls(spec, tuple(_without_spec(split) for split in splits))

    @property
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the rows."""
        return self.spec.output_schema

    def tasks(self, options: Options) -> list[tuple[Split, ...]]:
        """See `tasks_of`."""
        return tasks_of(self.spec, self.splits, options)


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan and its plan, of the newest state or of a pinned one."""

    storage: Storage
    scan: Scan
    plan: ScanPlan

    @property
    def spec(self) -> ReadSpec:
        return self.plan.spec

    @property
    def splits(self) -> tuple[Split, ...]:
        return self.plan.splits

    def explain(self) -> str:
        """See `Scan.explain`."""
        return self.scan.explain()

    @property
    def state(self) -> PlanPin:
        """Returns the state of the timeline at planning, without file slices."""
        return PlanPin(self.scan.snapshot.pin, ())

    def pin(self, splits: Sequence[Split] | None = None, *, without_base: int = 0) -> str:
        """Returns the pin of the plan, or of some of its splits.

        Args:
            without_base: how many of the splits, from the first, are read without the rows of their base files.
        """
        chosen = self.splits if splits is None else splits
        return PlanPin.of(self.scan.snapshot.pin, chosen, without_base=without_base).encode()

    def why_not_native(self) -> list[str | None]:
        """Returns, for each split, why a generic Parquet reader cannot read it, or None if it can."""
        completed = self.scan.snapshot.timeline.completed
        # the others are archived, or may be clustering
        uniform = {item.time for item in completed if item.action in (Action.COMMIT, Action.DELTA_COMMIT)}
        snapshot = self.scan.snapshot
        stored = None
        if not snapshot.config.drops_partition_columns:
            stored = _stored_alike(snapshot, self.scan.request, self.splits)
        return why_not_native(self.storage, self.splits, uniform, stored)

    def with_known_values(self, splits: Sequence[Split]) -> list[Split]:
        """Returns some of the splits, with `_known_values`."""
        return [replace(split, known_values=_known_values(split)) for split in splits]


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How much one task reads, by the rules of Spark's file sources (`FilePartition.maxSplitBytes`, Spark 4)."""

    split_bytes: int
    """Maximum bytes of a task, unless a single split is larger."""
    open_cost: int
    """Bytes that opening a file slice counts as, so that no task gets thousands of tiny ones."""
    min_tasks: int
    """Minimum number of tasks, if there is enough to read."""

    @classmethod
    def of(cls, options: Options) -> TaskSize:
        chosen = options.get(read_config.MIN_TASKS)
        # a data source cannot see the session's parallelism, so the CPUs of the planning machine count
        return cls(
            options.get(read_config.SPLIT_BYTES),
            options.get(read_config.OPEN_COST_BYTES),
            chosen or 2 * processors(),
        )

    def target(self, splits: Sequence[Split]) -> int:
        """Returns the target size of a task of this plan, including the cost of opening files."""
        total = sum(split.size + self.open_cost for split in splits)
        return min(self.split_bytes, max(self.open_cost, total // self.min_tasks, 1))


def pin_table(path: str, options: Options, names: Sequence[str] | None) -> Pinned:
    """Plans a read of the columns `names` (None: all); raises what `Table.scan` raises."""
    plan = plan_table(path, options, names).plan
    return Pinned.of(plan.spec, plan.splits)


def plan_table(path: str, options: Options, names: Sequence[str] | None) -> PlannedScan:
    """Plans as `pin_table`, with the storage and scan of the plan."""
    state, pin = load_pinned(path, options)
    arguments = ScanArguments(columns=names)
    if pin is None:
        scan = make_scan(state, ScanRequest.of(options, arguments))
        return PlannedScan(state.storage, scan, scan.plan())
    # Indexes may have been added or dropped since, so plan every slice and let the pin choose
    open_options = options.without(read_config.FILTER, read_config.KEYS)
    scan = make_scan(state, ScanRequest.of(open_options, arguments))
    plan = scan.plan()
    keys = read_config.record_keys(options.get(read_config.KEYS))
    conditions = [options.get(read_config.FILTER), plan.spec.filter.text if plan.spec.filter else None]
    spec = replace(
        plan.spec,
        filter=parse_filter(all_of(conditions), plan.spec.table_schema),
        keys=None if keys is None else frozenset(keys),
    )
    splits = tuple(replace(split, spec=spec) for split in pin.choose(plan.splits, state.storage.uri))
    return PlannedScan(state.storage, scan, replace(plan, spec=spec, splits=splits))


def tasks_of(spec: ReadSpec, splits: Sequence[Split], options: Options) -> list[tuple[Split, ...]]:
    """Groups splits into tasks, in the plan's order and without their spec; at least one task.

    Large base files are divided, small slices grouped.

    Raises:
        HistoryCleanedError: a file to be divided was cleaned.
    """
    size = TaskSize.of(options)
    target = size.target(splits)
    storage = open_storage(spec.uri, options.for_storage())
    tasks: list[tuple[Split, ...]] = []
    held: list[Split] = []
    volume = 0
    # only those that are divided need their spec
    given = [replace(split, spec=spec) if is_divided(split, target) else split for split in splits]
    for split in divide(storage, given, target):
        if held and volume + split.size > target:
            tasks.append(tuple(held))
            held, volume = [], 0
        held.append(_without_spec(split))
        volume += split.size + size.open_cost
    if held or not tasks:
        tasks.append(tuple(held))
    return tasks


def read_splits(
    spec: ReadSpec, splits: Sequence[Split], storage_options: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a task's splits, in order. Raises what `read_split` raises."""
    storage = open_storage(spec.uri, storage_options)
    for split in splits:
        yield from read_split_on(storage, replace(split, spec=spec))


def read_replaced(
    spec: ReadSpec,
    splits: Sequence[Split],
    storage_options: Mapping[str, str] | None = None,
    *,
    columns: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Finds rows of base files that the logs of a task's splits replace or delete: batches of `REPLACED_SCHEMA`.

    Raises what `read_split` raises.

    Args:
        columns: columns of the table to add, which must be among the `_known_values` of all splits.
    """
    storage = open_storage(spec.uri, storage_options)
    for split in (replace(split, spec=spec) for split in splits):
        try:
            for batch in replaced_rows(storage, split):
                for name in columns:
                    value = dict(split.known_values)[name]
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield batch
        except FileNotFoundError as error:
            raise missing_file(storage, split, error) from error


def _without_spec(split: Split) -> Split:
    return split if split.spec is None else replace(split, spec=None)  # type: ignore[arg-type]


def _known_values(split: Split) -> KnownValues:
    """Returns partition columns with the value that all rows of the split share."""
    if type(split) is not Split:
        return ()
    columns = split.spec.columns
    return tuple((name, value) for name, value in split.partition_values if name in columns and value.is_valid)


def _stored_alike(snapshot: Snapshot, request: ScanRequest, splits: Sequence[Split]) -> list[frozenset[str]]:
    """Returns, for each split, the columns with a value from the path for which column statistics show that the base
    file has no other value, and no null."""
    stats = _path_column_stats(snapshot, request, splits)

    def alike(split: Split) -> frozenset[str]:
        name = "" if split.base_file is None else str(split.base_file.name)
        return frozenset(
            column
            for column, value in split.partition_values
            if value.is_valid and _is_only(stats.get((column, split.partition, name)), value.as_py())
        )

    return [alike(split) for split in splits]


def _path_column_stats(
    snapshot: Snapshot, request: ScanRequest, splits: Sequence[Split]
) -> Mapping[tuple[str, str, str], ColumnRange]:
    """Returns the statistics of the base files for columns with a value from the path, as `column_stats`; empty if
    there are too many files, or no statistics."""
    kinds: dict[str, pa.DataType] = {}
    files: list[tuple[str, str]] = []
    for split in splits:
        names = [name for name, _ in split.partition_values if name in split.spec.wanted_columns]
        kinds.update((name, split.spec.table_schema.field(name).type) for name in names)
        if names and split.base_file is not None:
            files.append((split.partition, str(split.base_file.name)))
    if not files or len(files) > _MAX_FILES or not (request.use_metadata and request.use_indexes):
        return {}
    try:
        metadata = snapshot.metadata(_INSTEAD)
        return column_stats(metadata, kinds, files) if metadata is not None and metadata.has(COLUMN_STATS) else {}
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError) as error:
        warn_unused(snapshot.storage.uri, error, _INSTEAD)
        return {}


def _is_only(range_: ColumnRange | None, value: Any) -> bool:
    """Returns whether statistics show that a file has no other value, and no null."""
    return range_ is not None and range_.nulls == 0 and range_.low == value and range_.high == value
