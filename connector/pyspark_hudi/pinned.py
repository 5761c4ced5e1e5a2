"""The planned read that a DataFrame holds: files of one state of the table, found when its schema was resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.config import spark as spark_config
from hudi_py.read import Scan, all_of, parse_filter
from hudi_py.read.plan import Plan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.scan import make_scan
from hudi_py.read.split import ReadSpec
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from pyspark_hudi.partitions import AnySplit, HudiPartition, TaskSize, tasks_of, with_spec, without_spec
from pyspark_hudi.pin import PlanPin


@dataclass(frozen=True, slots=True)
class Pinned:
    """A planned read. Pickles; holds no credentials.

    It names files, not just an instant: a new plan, which Spark before 4.1 makes for each query, could not distinguish
    a file cleaned since from one that never existed.
    """

    spec: ReadSpec
    splits: tuple[AnySplit, ...]
    """Without their spec."""

    @property
    def schema(self) -> pa.Schema:
        """The rows' columns, in order."""
        return self.spec.output_schema

    def tasks(self, options: Options) -> list[HudiPartition]:
        """What each Spark task reads.

        Raises:
            HistoryCleanedError: a large file to be divided was cleaned since.
        """
        storage = open_storage(self.spec.uri, options.storage or None)
        return tasks_of(storage, [with_spec(split, self.spec) for split in self.splits], TaskSize.of(options))


@dataclass(frozen=True, slots=True)
class Planned:
    """A scan and its plan, of the newest state or of a pinned one."""

    storage: Storage
    scan: Scan
    plan: Plan

    def pin(self, splits: Sequence[AnySplit] | None = None) -> str:
        """The pin of the plan, or of some of its splits."""
        return PlanPin.of(self.scan.snapshot.pin, self.plan.splits if splits is None else splits).encode()


def pin_table(path: str, options: Options, names: Sequence[str] | None) -> Pinned:
    """Plan a read of the table.

    Args:
        names: the columns, in order; None: all.

    Raises:
        TableNotFoundError, UnsupportedTableError, ConfigError, SchemaMismatchError, HistoryCleanedError: as the core's
            `Table.scan`.
    """
    plan = plan_table(path, options, names).plan
    return Pinned(plan.spec, tuple(without_spec(split) for split in plan.splits))


def plan_table(path: str, options: Options, names: Sequence[str] | None) -> Planned:
    """As `pin_table`, with the storage and scan of the plan."""
    storage = open_storage(path, options.storage or None)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    arguments = ScanArguments(columns=names)
    text = options.get(spark_config.PIN)
    if text is None:
        scan = make_scan(storage, config, timeline, ScanRequest.of(options, arguments))
        return Planned(storage, scan, scan.plan())
    pin = PlanPin.decode(text)
    # Pruning may have changed since (an index was added or dropped): plan every slice, and let the pin choose
    open_options = options.without(read_config.FILTER, read_config.KEYS)
    scan = make_scan(storage, config, timeline.at(pin.state), ScanRequest.of(open_options, arguments))
    plan = scan.plan()
    keys = read_config.record_keys(options.get(read_config.KEYS))
    conditions = [options.get(read_config.FILTER), plan.spec.filter.text if plan.spec.filter else None]
    spec = replace(
        plan.spec,
        filter=parse_filter(all_of(conditions), plan.spec.table_schema),
        keys=None if keys is None else frozenset(keys),
    )
    splits: tuple[Any, ...] = tuple(with_spec(split, spec) for split in pin.choose(plan.splits, storage.uri))
    return Planned(storage, scan, replace(plan, spec=spec, splits=splits))
