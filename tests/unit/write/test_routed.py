"""Writes whose rows an engine shuffles by file group, with the shuffles done here: equal to those of one process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError, DuplicateKeyError, HudiError
from hudi_py.wiring import after_commit, metadata_writer
from hudi_py.write import routing
from hudi_py.write.distributed import TaskId, TaskResult, abort_write, commit_write, run_task
from hudi_py.write.result import WriteResult
from hudi_py.write.routed import GROUP, KEY, ORDER, PART, PATH, RoutedWrite, Sizes, decode_plan, plan_routed
from tests.faults.tables import leftovers
from tests.support.choice import cases
from tests.support.writers import options

Task = list[pa.RecordBatch]
INDEXES = {
    "simple": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "record": {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
    },
    "global": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
    "moving": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.record.index.update.partition.path": "true",
    },
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
}


def shuffled(tasks: Iterable[Iterable[pa.RecordBatch]], column: str | None, number: int) -> list[Task]:
    """The rows of tasks by a column, as if fetched in another order than they were made."""
    result: list[Task] = [[] for _ in range(number)]
    for batch in [batch for task in tasks for batch in task][::-1]:
        for value in set(batch.column(column).to_pylist()):
            rows = batch.filter(pa.array([each == value for each in batch.column(column).to_pylist()]))
            result[hash(value) % number].append(rows)
    return result


class Engine:
    """Spark's part of `write_table`."""

    def __init__(self, root: str, data: pa.Table, operation: str, given: dict[str, str]) -> None:
        resolved = Options.resolve(given, Scope.WRITE, defaults={})
        found = plan_routed(
            root,
            operation,
            resolved,
            data.schema,
            metadata=metadata_writer(resolved),
            after=after_commit(resolved),
        )
        (self.plan,) = found.to_pylist()
        self.write = decode_plan(self.plan["plan"], {})
        step = -(-max(data.num_rows, 1) // 3)
        chosen = data.select(self.plan["columns"])
        self.tasks = [chosen.slice(at, step).to_batches(max_chunksize=7) for at in range(0, data.num_rows, step)]

    def each(self, tasks: Sequence[Task], run: Callable[[RoutedWrite, Task], Iterator[pa.RecordBatch]]) -> list[Task]:
        return [list(run(RoutedWrite(decode_plan(self.plan["plan"], {})), task)) for task in tasks]

    def measured(self) -> list[dict[str, Any]]:
        counted: dict[str, int] = defaultdict(int)
        some = [[batch.select(self.plan["counted"]) for batch in task] for task in self.tasks]
        for task in self.each(some, lambda write, task: write.count(task)):
            for batch in task:
                for row in batch.to_pylist():
                    counted[row["path"]] += row["rows"]
        counts = [{"path": path, "rows": rows} for path, rows in counted.items()]
        one = [pa.RecordBatch.from_pylist(counts, routing.COUNTED)]
        return [row for batch in self.each([one], RoutedWrite.measure)[0] for row in batch.to_pylist()]

    def routed(self, sizes: Sizes | None = None) -> list[Task]:
        """The rows of each task that writes."""
        counts = self.measured()
        size = counts[0]["record_size"] if counts else 1
        sizes = sizes or Sizes({row["path"]: row["rows"] for row in counts}, size)
        looks_up = self.plan["looks_up"]
        numbered = [
            self.each([task], lambda write, task: write.number(sizes, at << 33, task, parts=looks_up))[0]
            for at, task in enumerate(self.tasks)
        ]
        if looks_up:
            numbered = shuffled(numbered, PART.name, 3)
        return shuffled(self.each(numbered, lambda write, task: write.route(sizes, task)), GROUP.name, 4)

    def arrived(self) -> list[Task]:
        if self.plan["arrival"] == "any":
            return self.tasks
        if self.plan["arrival"] == "groups":
            return self.routed()
        keyed = self.each(self.tasks, lambda write, task: write.key(task))
        if self.plan["arrival"] == "partitions":
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


def rows(ids: Iterable[int], ts: int, v: int, *, parts: int = 3, deleted: Iterable[int] = ()) -> pa.Table:
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": ["abc"[n % parts] for n in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "v": pa.array([v + at for at in range(len(ids))], pa.int64()),
            "_hoodie_is_deleted": [n in set(deleted) for n in ids],
        }
    )


def stored(root: str) -> list[tuple[Any, ...]]:
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "id", "p", "ts", "v"]
    table = hudi_py.open_table(root).scan(columns=columns).to_table()
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


def counts_of(result: WriteResult) -> tuple[int | None, ...]:
    return result.num_inserted, result.num_updated, result.num_deleted


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    cases(product((6, 8, 9), ("cow", "mor"), INDEXES), "routed writes", 7),
)
def test_equal_to_the_writes_of_one_process(tmp_path: Path, version: int, kind: str, index: str) -> None:
    given = {**options(version, kind), "hoodie.record.merge.mode": "EVENT_TIME_ORDERING", **INDEXES[index]}
    if index == "record" and version < 9:
        given |= INDEXES["simple"]
    alone, spread = str(tmp_path / "alone"), str(tmp_path / "spread")
    twice = pa.concat_tables([rows(range(30, 60), 5, 100), rows(range(45, 80), 5, 500), rows(range(50, 55), 4, 900)])
    steps = [
        ("bulk_insert", rows(range(40), 1, 0), {}),
        ("insert", rows(range(40, 50), 1, 50), {}),
        ("upsert", twice, {}),
        ("upsert", rows(range(0, 90, 3), 6, 1000, parts=2, deleted=range(0, 30, 2)), {}),
        ("delete", rows(range(0, 120, 7), 0, 0), {}),
        ("insert_overwrite", rows(range(1, 30, 3), 7, 2000), {}),
        ("upsert", rows(range(200, 260), 1, 3000), {}),
    ]
    if index != "bucket":
        known = {"hoodie.datasource.insert.dup.policy": "drop"}
        steps.insert(5, ("insert", rows(range(60, 130), 8, 4000), known))
    for operation, data, more in steps:
        one = hudi_py.write(alone, data, operation, {**given, **more})
        other = write_routed(spread, data, operation, {**given, **more})
        assert counts_of(one) == counts_of(other), operation
        assert stored(alone) == stored(spread), operation
    table = hudi_py.open_table(spread)
    assert table.metadata.verify().ok
    assert table.timeline.pending == ()
    assert leftovers(Path(spread)) == set()
