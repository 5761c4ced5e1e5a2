"""`run_service`: table services on Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hudi_py.config import SECRET_KEYS, SECRET_PREFIX, STORAGE_PREFIX
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.services.distributed import check_call
from pyspark_hudi.failure import raised_here
from pyspark_hudi.session import activate
from pyspark_hudi.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PHASES = (None, "schedule", "execute")
_MOST_TASKS = 10_000


def run_service(
    spark: SparkSession,
    path: str,
    name: str,
    *,
    phase: str | None = None,
    instant: str | int | None = None,
    options: Mapping[str, Any] | None = None,
    user: str = "",
    comment: str = "",
    with_newer: bool = False,
    when_due: bool = False,
    **rescaling: Any,
) -> dict[str, Any]:
    """Run a table service, with its work spread over Spark's tasks.

    `compaction`, `log_compaction` and `clean` have plans. Like `Table.compact()`, a call runs pending plans, oldest
    first, then schedules and runs one for what is left. The work of a plan (file groups to compact, ranges of files to
    delete) is divided among as many Spark tasks. `archive`, `savepoint`, `delete_savepoint`, `rollback`, `restore`,
    `unschedule`, `rescale_buckets` and `resize_buckets` run in one Spark process. Only Spark's processes access the
    table; the caller's does not.

    The session becomes the active one of the calling thread.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        name: name of the service.
        phase: `schedule` only makes a plan; `execute` only runs a pending plan, by default the oldest; None does both.
        instant: the plan to run or drop, or the instant to roll back, restore to or save (default: the newest commit).
        options: write options, by Apache Hudi's keys.
        user, comment: notes stored with a savepoint.
        with_newer: for a rollback: undo newer commits as well, newest first. Without it they make the rollback fail.
        when_due: plan a compaction only if one is due (`hoodie.compact.inline.max.delta.commits` and the like).
        rescaling: `expressions`, `buckets`, `add` and `dry_run` of `rescale_buckets`, as `Table.rescale_buckets` takes
            them.

    Returns:
        The report of the last plan that ran, or of the service, as `to_dict()` of the report that `Table` returns:
        `service`, `instant` (None if there was nothing to do), `completion_time`, `reason` (why there was nothing to
        do), and counts that depend on the service.

    Raises:
        ConfigError: the service or phase does not exist, or an option or instant is wrong.
        HudiError: the same errors as the call of `Table` raises.
        pyspark.errors.PySparkException: Spark failed.
    """
    given_arguments = {"user": user, "comment": comment, "with_newer": with_newer, "when_due": when_due, **rescaling}
    arguments = {key: value for key, value in given_arguments.items() if value}
    chosen = None if instant is None else str(instant)
    service = check_call(name, phase, chosen, arguments)
    if phase not in _PHASES or (phase is not None and service.plans is None):
        raise ConfigError(
            f"Cannot run the phase {phase!r} of the service {name}; "
            + ("it has no phases" if service.plans is None else "phases are 'schedule' and 'execute', or None for both")
        )
    given = {str(key): value for key, value in (options or {}).items()}
    if arguments:
        given[spark_config.SERVICE_ARGUMENTS.key] = json.dumps(arguments)
    call = _Call(spark, path, name, given)
    if service.plans is None:
        return call.make("call", chosen)
    if phase == "schedule":
        return call.make("schedule", None)
    answer: dict[str, Any] | None = None  # as `services.planned.service.run_all` gives it
    while True:
        begun = call.make("begin" if phase is None else "begin_pending", chosen)
        report: dict[str, Any] = begun["report"]
        if begun["num_tasks"]:
            report = call.make("execute", report["instant"], begun["num_tasks"])
        if report["instant"] is not None or answer is None:
            answer = report
        if begun["last"] or phase is not None:
            return answer


class _Call:
    def __init__(self, spark: SparkSession, path: str, name: str, options: Mapping[str, Any]) -> None:
        self._spark = spark
        self._path = path
        self._name = name
        self._options = options

    def make(self, phase: str, instant: str | None, tasks: int = 0) -> dict[str, Any]:
        """Issue one write and return its report."""
        activate(self._spark)
        token = uuid.uuid4().hex
        rows = self._spark.range(0, tasks, 1, min(max(tasks, 1), _MOST_TASKS)).withColumnRenamed("id", "task")
        given = {
            **self._options,
            spark_config.SERVICE.key: self._name,
            spark_config.SERVICE_PHASE.key: phase,
            spark_config.SERVICE_TOKEN.key: token,
        }
        if instant is not None:
            given[spark_config.SERVICE_INSTANT.key] = instant
        with raised_here():
            rows.write.format(FORMAT).options(**given).mode("append").save(self._path)
        return stored_report(self._spark, self._path, given, f"the {self._name} of {self._path} did: it completed")


def stored_report(spark: SparkSession, path: str, options: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The report that the commit of a write has stored under the token in its options.

    Raises:
        CorruptFileError: there is none; the error says that it cannot report `what`.
    """
    token = options[spark_config.SERVICE_TOKEN.key]
    reader = spark.read.format(FORMAT).options(**of_storage(options))
    reader = reader.option(spark_config.VIEW.key, "service").option(spark_config.SERVICE_TOKEN.key, token)
    with raised_here():
        found = reader.load(path).collect()
    if not found:
        raise CorruptFileError(
            f"Cannot report what {what}, but its report is missing from .hoodie/.hudi_py/reports; see the timeline "
            "(option view = 'timeline')"
        )
    report: dict[str, Any] = json.loads(found[0]["report"])
    return report


def of_storage(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the storage, and secrets, by keys whose values Spark does not show."""
    found = {key: value for key, value in options.items() if key.lower().startswith(STORAGE_PREFIX)}
    hidden = {key.lower(): value for key, value in options.items() if key.lower() in SECRET_KEYS}
    return {**found, **{f"{SECRET_PREFIX}{key}": value for key, value in hidden.items()}}
