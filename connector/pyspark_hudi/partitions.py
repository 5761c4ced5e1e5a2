"""Groups splits into Spark tasks by size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pyspark.sql.datasource import InputPartition

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.read import Split
from hudi_py.read.plan import divide
from hudi_py.storage import Storage


class AnySplit(Protocol):
    """A part of a plan: a frozen dataclass whose field `spec` is shared by all parts of the plan."""

    @property
    def spec(self) -> Any: ...

    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=AnySplit)


class HudiPartition(InputPartition):
    """The splits of one task; empty for a scan without splits, for which Spark still runs a task.

    The splits are stored without their spec, which is large and the same in all of them; the reader has it.
    """

    def __init__(self, splits: Sequence[AnySplit]) -> None:
        super().__init__(None)
        self.splits = tuple(without_spec(split) for split in splits)

    def with_spec(self, spec: Any) -> list[Any]:
        """The splits as `read_split` takes them."""
        return [with_spec(split, spec) for split in self.splits]


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How much one task reads, by the rules of Spark's own file sources (`FilePartition.maxSplitBytes`, Spark 4)."""

    split_bytes: int
    """A task reads no more than this, unless one split alone is larger."""
    open_cost: int
    """Bytes that opening a file slice counts as, so that no task gets thousands of tiny ones."""
    min_tasks: int
    """The least number of tasks, if there is enough to read."""

    @classmethod
    def of(cls, options: Options) -> TaskSize:
        chosen = options.get(read_config.MIN_TASKS)
        # a data source does not learn the session's parallelism; the CPUs of the planning machine stand in for it
        return cls(
            options.get(read_config.SPLIT_BYTES),
            options.get(read_config.OPEN_COST_BYTES),
            chosen or 2 * (os.cpu_count() or 1),
        )

    def target(self, splits: Sequence[AnySplit]) -> int:
        """Bytes of a task of this plan, the cost of opening included."""
        total = sum(split.size + self.open_cost for split in splits)
        return min(self.split_bytes, max(self.open_cost, total // self.min_tasks, 1))


def tasks_of(storage: Storage, splits: Sequence[AnySplit], size: TaskSize) -> list[HudiPartition]:
    """The tasks of a plan, at least one. Large base files are divided and small slices grouped, in the plan's order.

    Raises:
        HistoryCleanedError: a file to be divided is gone.
    """
    target = size.target(splits)
    if all(isinstance(split, Split) for split in splits):
        splits = divide(storage, [split for split in splits if isinstance(split, Split)], target)
    tasks: list[HudiPartition] = []
    held: list[AnySplit] = []
    volume = 0
    for split in splits:
        if held and volume + split.size > target:
            tasks.append(HudiPartition(held))
            held, volume = [], 0
        held.append(split)
        volume += split.size + size.open_cost
    if held or not tasks:
        tasks.append(HudiPartition(held))
    return tasks


def without_spec(split: S) -> S:
    return split if split.spec is None else replace(split, spec=None)  # type: ignore[type-var]


def with_spec(split: S, spec: Any) -> S:
    return replace(split, spec=spec)  # type: ignore[type-var]
