"""An engine for `write_table` without Spark: its steps, with the shuffles done here."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from hudi_py.config import Options, Scope
from hudi_py.errors import HudiError
from hudi_py.wiring import write_target
from hudi_py.write import routing
from hudi_py.write.distributed import TaskId, TaskResult, abort_write, commit_write, run_task
from hudi_py.write.result import WriteResult
from hudi_py.write.routed import KEY, PATH, RoutedSteps, Sizes, Step, by_share, plan_routed, steps_of

Task = list[pa.RecordBatch]


def shuffled(tasks: Iterable[Iterable[pa.RecordBatch]], column: str, number: int) -> list[Task]:
    """The rows of tasks by a column, as if fetched in another order than they were made."""
    result: list[Task] = [[] for _ in range(number)]
    batches = [batch for task in tasks for batch in task]
    for batch in random.Random(column).sample(batches, len(batches)):
        for value in set(batch.column(column).to_pylist()):
            rows = batch.filter(pa.array([each == value for each in batch.column(column).to_pylist()]))
            result[hash(value) % number].append(rows)
    return result


class Engine:
    """Spark's part of `write_table`."""

    def __init__(self, root: str, data: pa.Table, operation: str, given: dict[str, str]) -> None:
        resolved = Options.resolve(given, Scope.WRITE, defaults={})
        self.plan = plan_routed(write_target(root, resolved), operation, data.schema)
        self.write = pickle.loads(pickle.dumps(self.plan.write))
        step = -(-max(data.num_rows, 1) // 3)
        chosen = data.select(self.write.incoming.names)
        self.tasks = [chosen.slice(at, step).to_batches(max_chunksize=7) for at in range(0, data.num_rows, step)]

    def each(self, rows: list[Task], step: Step, *_: pa.Field) -> list[Task]:
        """As of `Exchange`."""
        copies = [pickle.loads(pickle.dumps(self.write)) for _ in rows]
        return [list(step(steps_of(write, at), iter(rows[at]))) for at, write in enumerate(copies)]

    def together(self, rows: list[Task], by: pa.Field, tasks: int) -> list[Task]:
        """As of `Exchange`."""
        return shuffled(rows, by.name, tasks)

    def measured(self) -> list[dict[str, Any]]:
        counted: dict[str, dict[str, int]] = defaultdict(lambda: {"rows": 0, "tasks": 0})
        some = [[batch.select(self.plan.counted) for batch in task] for task in self.tasks]
        for task in self.each(some, RoutedSteps.count):
            for batch in task:
                for row in batch.to_pylist():
                    counted[row["path"]]["rows"] += row["rows"]
                    counted[row["path"]]["tasks"] += row["tasks"]
        counts = [{"path": path, **numbers} for path, numbers in counted.items()]
        one = [pa.RecordBatch.from_pylist(counts, routing.COUNTED)]
        return [row for batch in self.each([one], RoutedSteps.measure)[0] for row in batch.to_pylist()]

    def routed(self, sizes: Sizes | None = None) -> list[Task]:
        """The rows of each task that writes."""
        counts = self.measured()
        sizes = sizes or Sizes.of(counts)
        parts = 3 if self.plan.gathers_keys and any(row["parts"] for row in counts) else 0
        return by_share(self, self.tasks, sizes, parts=parts, tasks=4)

    def arrived(self) -> list[Task]:
        if self.write.arrival == "any":
            return self.tasks
        if self.write.arrival == "groups":
            return self.routed()
        keyed = self.each(self.tasks, RoutedSteps.key)
        if self.write.arrival == "partitions":
            return shuffled(keyed, PATH.name, 2)
        table = pa.Table.from_batches([batch for task in keyed for batch in task])
        table = table.sort_by([(PATH.name, "ascending"), (KEY.name, "ascending")])
        half = table.num_rows // 2
        return [table.slice(half).to_batches(), table.slice(0, half).to_batches()]

    def ran(self, tasks: Sequence[Task]) -> list[TaskResult]:
        return [run_task(self.write, TaskId(at), task) for at, task in enumerate(tasks)]

    def commit(self) -> WriteResult:
        try:
            return commit_write(self.write, self.ran(self.arrived()))
        except HudiError:
            abort_write(self.write)
            raise


def write_routed(root: str, data: pa.Table, operation: str, given: dict[str, str]) -> WriteResult:
    return Engine(root, data, operation, given).commit()
