"""An engine in one process that spreads a statement over tasks: what travels between them is pickled, tasks are
repeated, and what comes to a task comes in another order than it was sent in."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_py.config import Options, Scope
from hudi_py.storage import open_storage
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import after_commit, metadata_writer
from hudi_py.write.context import TaskId
from hudi_py.write.dml.distributed import (
    WORK,
    Delete,
    MergePlan,
    SpreadPlan,
    SpreadResult,
    SpreadSteps,
    Update,
    WriteResult,
    abort_merge,
    abort_spread,
    commit_merge,
    commit_spread,
    plan_merge,
    run_change,
    run_spread_task,
    stage_source,
)
from hudi_py.write.dml.merge import MergeBuilder

Batches = list[pa.RecordBatch]


def merging(source: pa.Table, on: Any, path: Path | str, options: Mapping[str, str], **more: Any) -> MergeBuilder:
    """As `Table.merge`, run by `spread`."""
    plan = MergePlan((on,) if isinstance(on, str) else tuple(on), ())
    return MergeBuilder(plan, lambda made: spread(path, made, options, source, **more))


def spread(
    path: Path | str,
    change: Update | Delete | MergePlan,
    options: Mapping[str, str],
    source: pa.Table | None = None,
    *,
    seed: str = "",
    tasks: int = 2,
    before_commit: Callable[[], None] = lambda: None,
) -> WriteResult:
    """Runs a statement in tasks, however small it is.

    Args:
        tasks: of each step, at most.
        before_commit: called when all tasks are done.
    """
    rnd = random.Random(seed)
    resolved = Options.resolve({"hoodie.py.local.max.bytes": "0", **options}, Scope.WRITE)
    rows = pa.table({}) if source is None else source
    metadata, after = metadata_writer(resolved), after_commit(resolved)
    if isinstance(change, MergePlan):
        call = _sent(
            plan_merge(
                WriteTarget(open_storage(str(path)), resolved, metadata, after),
                change,
                rows.schema,
            )
        )
        try:
            parts = [
                rows.slice(at, -(-rows.num_rows // tasks) or 1).to_batches() for at in _starts(rows.num_rows, tasks)
            ]
            staged = [_sent(stage_source(call, TaskId(number), part)) for number, part in enumerate(parts)]
        except BaseException:
            abort_merge(call)
            raise
        planned = commit_merge(call, [each for each in staged if each is not None])
    else:
        planned = run_change(WriteTarget(open_storage(str(path)), resolved, metadata, after), change)
    if not isinstance(planned, SpreadPlan):
        return planned
    plan = pickle.dumps(planned.statement)
    try:
        inputs: list[Batches] = [[pa.RecordBatch.from_pylist([{"work": each}], WORK)] for each in planned.work]
        if planned.shuffles:
            inputs = _shuffled(_step(plan, SpreadSteps.read, inputs, rnd), tasks, rnd)
            inputs = _shuffled(_step(plan, SpreadSteps.merge, inputs, rnd), tasks, rnd)
        results: list[SpreadResult] = []
        for number, batches in enumerate(inputs):
            attempts = [
                run_spread_task(pickle.loads(plan), TaskId(number, 1, attempt), batches)
                for attempt in range(rnd.randint(1, 2))
            ]
            results.append(_sent(rnd.choice(attempts)))
        before_commit()
        return commit_spread(pickle.loads(plan), results)
    except BaseException:
        abort_spread(pickle.loads(plan))
        raise


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _starts(count: int, tasks: int) -> Sequence[int]:
    return range(0, count, -(-count // tasks) or 1)


def _step(plan: bytes, step: Callable[..., Iterator[pa.RecordBatch]], inputs: list[Batches], rnd: Any) -> Batches:
    found: Batches = []
    for number, batches in enumerate(inputs):
        for attempt in range(rnd.randint(1, 2)):  # a task that was repeated
            out = list(step(SpreadSteps(pickle.loads(plan), TaskId(number, 1, attempt)), batches))
        found += out
    return found


def _shuffled(batches: Batches, tasks: int, rnd: random.Random) -> list[Batches]:
    inputs: list[Batches] = [[] for _ in range(tasks)]
    places: dict[str, int] = {}
    for batch in batches:
        for at in range(batch.num_rows):
            to = batch.column("to")[at].as_py()
            inputs[places.setdefault(to, rnd.randrange(tasks))].append(batch.slice(at, 1))
    for each in inputs:
        rnd.shuffle(each)
    return inputs
