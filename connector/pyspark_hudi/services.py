"""`run_service`: table services on Spark."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.services.distributed import (
    PARCELS,
    BegunPlan,
    ServiceCall,
    UnitPart,
    Work,
    check_call,
    joined,
    read_parts,
    write_parts,
)
from pyspark_hudi import calls
from pyspark_hudi.failure import carried
from pyspark_hudi.remote import collected, given_options, remote, remote_tasks, undone
from pyspark_hudi.table_writer import shuffle_partitions
from pyspark_hudi.tasks import in_tasks
from pyspark_hudi.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_service(
    spark: SparkSession,
    path: str | os.PathLike[str],
    name: str,
    *,
    phase: str | None = None,
    instant: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Runs a table service, with its work spread over Spark's tasks.

    docs/services.md lists the services, with the arguments that they take. Like `Table.compact()`, a call of one with
    plans runs pending plans, oldest first, then schedules and runs one for what is left. The work of a plan (file
    groups to rewrite, files to delete) is divided among as many Spark tasks; sorted rows of a clustering that become
    several files are shuffled. The others run in one process: this one,
    or Spark's driver behind Spark Connect. There only Spark's processes access the table.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        name: name of the service, such as `compaction`.
        phase: `schedule` only makes a plan; `execute` only runs a pending plan, by default the oldest; None does both.
        instant: the plan to run or drop, or the instant to roll back, restore to or save (default: the newest commit).
        options: write options, by Apache Hudi's keys.
        arguments: those that the service takes, such as `comment` of a savepoint; as `Table.services.run` takes them.

    Returns:
        The report of the last plan that ran, or of the service, as `to_dict()` of the report that `Table` returns:
        `service`, `instant` (None if there was nothing to do), `completion_time`, `reason` (why there was nothing to
        do), and counts that depend on the service.

    Raises:
        ConfigError: the service or phase does not exist, or an option or instant is wrong.
        HudiError: the same errors as the call of `Table` raises.
        pyspark.errors.PySparkException: Spark failed.
    """
    path = os.fspath(path)
    call = check_call(name, phase, None if instant is None else str(instant), arguments)
    request = calls.ServiceRequest(path, given_options(options), name, tuple(call.arguments.items()))
    if call.service.plans is None:
        return _plain(remote(spark, calls.run_single_step, request, call.instant))
    if phase == "schedule":
        return _plain(remote(spark, calls.schedule_plan, request))
    answer: dict[str, Any] | None = None  # the result of `services.planned.service.run_all`
    while True:
        made, begun = remote(spark, calls.begin_plan, request, call.instant, phase is None)
        report = begun.report if begun.work is None else _executed(spark, made, begun)
        if report["instant"] is not None or answer is None:
            answer = report
        if begun.last or phase is not None:
            return _plain(answer)


def _plain(report: dict[str, Any]) -> dict[str, Any]:
    """Converts the report to JSON types, for programs to store."""
    plain: dict[str, Any] = json.loads(json.dumps(report))
    return plain


def _executed(spark: SparkSession, call: ServiceCall, begun: BegunPlan) -> dict[str, Any]:
    """Executes a plan in Spark's tasks and completes it. After a failure it is pending again."""
    work, shuffled = begun.work, {part.unit for part in begun.parts}
    assert work is not None
    with undone(spark, calls.give_up_plan, call, work):
        tasks = [number for number in range(work.num_tasks) if number not in shuffled]
        outcomes = remote_tasks(spark, calls.execute_plan, call, work, tasks, number=len(tasks)) if tasks else []
        if begun.parts:
            outcomes += _shuffled(spark, call, work, begun.parts)
        return remote(spark, calls.commit_plan, call, work, outcomes)


def _shuffled(spark: SparkSession, call: ServiceCall, work: Work, parts: Sequence[UnitPart]) -> list[Any]:
    """Moves the rows of parts to the tasks that write their targets. Returns the outcomes of their units."""
    samples = remote_tasks(spark, calls.sample_parts, call, work, parts, number=len(parts))
    bounds = remote(spark, calls.bounds_of_units, call, work, samples)
    read = functools.partial(_read_parts, call, work, bounds, parts)
    frame = in_tasks(spark.range(0, len(parts), 1, len(parts)), read, spark_schema(PARCELS))
    # Spark's adaptive execution keeps explicit numbers
    frame = frame.repartition(shuffle_partitions(spark), "to")
    written = collected(frame, functools.partial(write_parts, call, work))
    return joined(parts, (outcome for some in written for outcome in some))


def _read_parts(
    call: ServiceCall,
    work: Work,
    bounds: dict[int, Any],
    parts: Sequence[UnitPart],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    with carried():
        yield from read_parts(call, work, bounds, [parts[number] for number in numbers])
