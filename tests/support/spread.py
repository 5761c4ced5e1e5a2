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
from hudi_py.wiring import after_commit, metadata_writer
from hudi_py.write.context import TaskId
from hudi_py.write.dml.builder import MergeBuilder
from hudi_py.write.dml.distributed import (
    WORK,
    SpreadPlan,
    SpreadResult,
    SpreadSteps,
    WriteResult,
    abort_spread,
    abort_statement,
    commit_spread,
    commit_statement,
    decode_spread,
    forget_source,
    merge_text,
    plan_statement,
    run_spread_task,
    stage_source,
)
from hudi_py.write.dml.merge_plan import MergePlan
from hudi_py.write.dml.spread import encode_plan

TOKEN = "abc"
Batches = list[pa.RecordBatch]


def merging(source: pa.Table, on: Any, path: Path | str, options: Mapping[str, str], **more: Any) -> MergeBuilder:
    """As `Table.merge`, run by `spread`."""
    plan = MergePlan((on,) if isinstance(on, str) else tuple(on), ())
    return MergeBuilder(plan, lambda made: spread(path, merge_text(made), options, source, **more))


def spread(
    path: Path | str,
    text: str,
    options: Mapping[str, str],
    source: pa.Table | None = None,
    *,
    seed: str = "",
    tasks: int = 2,
    before_commit: Callable[[], None] = lambda: None,
) -> WriteResult:
    """Runs a statement of `hudi_py.write.dml.text` in tasks, however small it is.

    Args:
        tasks: of each step, at most.
        before_commit: called when all tasks are done.
    """
    rnd = random.Random(seed)
    given = {
        "hoodie.py.local.max.bytes": "0",
        **options,
        "hoodie.py.statement": text,
        "hoodie.py.service.token": TOKEN,
    }
    resolved = Options.resolve(given, Scope.WRITE)
    rows = pa.table({}) if source is None else source
    call = plan_statement(str(path), resolved, rows.schema, metadata_writer(resolved), after_commit(resolved))
    call = _sent(call)
    try:
        parts = [rows.slice(at, -(-rows.num_rows // tasks) or 1).to_batches() for at in _starts(rows.num_rows, tasks)]
        staged = [_sent(stage_source(call, TaskId(number), part)) for number, part in enumerate(parts)]
    except BaseException:
        abort_statement(call)
        raise
    planned = commit_statement(call, [each for each in staged if each is not None])
    if not isinstance(planned, SpreadPlan):
        assert planned is not None
        return planned
    plan = encode_plan(planned.statement)
    try:
        inputs: list[Batches] = [[pa.RecordBatch.from_pylist([{"work": each}], WORK)] for each in planned.work]
        if planned.shuffles:
            inputs = _shuffled(_step(plan, SpreadSteps.read, inputs, rnd), tasks, rnd)
            inputs = _shuffled(_step(plan, SpreadSteps.merge, inputs, rnd), tasks, rnd)
        results: list[SpreadResult] = []
        for number, batches in enumerate(inputs):
            attempts = [
                run_spread_task(decode_spread(plan, {}), TaskId(number, 1, attempt), batches)
                for attempt in range(rnd.randint(1, 2))
            ]
            results.append(_sent(rnd.choice(attempts)))
        before_commit()
        done = commit_spread(decode_spread(plan, {}), results)
    except BaseException:
        abort_spread(decode_spread(plan, {}), TOKEN)
        raise
    forget_source(call.storage(), TOKEN)
    return done


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _starts(count: int, tasks: int) -> Sequence[int]:
    return range(0, count, -(-count // tasks) or 1)


def _step(plan: bytes, step: Callable[..., Iterator[pa.RecordBatch]], inputs: list[Batches], rnd: Any) -> Batches:
    found: Batches = []
    for number, batches in enumerate(inputs):
        for attempt in range(rnd.randint(1, 2)):  # a task that was repeated
            out = list(step(SpreadSteps(decode_spread(plan, {}), TaskId(number, 1, attempt)), batches))
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
