"""`run_service`: table services by Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.services.calls import PLAIN, check_call
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
) -> dict[str, Any]:
    """Runs a table service; what it is made of is spread over Spark's tasks.

    `compaction`, `log_compaction` and `clean` have plans. As `Table.compact()` does, a call carries out those pending,
    oldest first, then makes a plan of what is left and carries that out, each by as many tasks as it has pieces (file
    groups to compact, stretches of files to delete). `archive`, `savepoint`, `delete_savepoint`, `rollback`,
    `restore` and `unschedule` run in one process of Spark. The table is only touched by Spark's processes: this one
    needs no access.

    Args:
        path: the table's base path, absolute or a URI, as Spark's driver and executors see it.
        name: of the service.
        phase: `schedule`: make a plan, and no more; `execute`: carry out a pending plan, by default the oldest one,
            and make none; None: both.
        instant: of the only plan that is meant, or that is to be dropped; of what is to be rolled back, restored to, or
            kept by a savepoint (by default the newest commit).
        options: options of writes, by the keys of Apache Hudi.
        user, comment: of a savepoint, for people.
        with_newer: of a rollback: undo newer commits, too, newest first; otherwise they refuse it.

    Returns:
        The report of the last plan carried out, or of the service, as `to_dict()` of what `Table` returns gives it:
        `service`, `instant` (None where there was nothing to do), `completion_time`, `reason` (why there was nothing to
        do), and counts which depend on the service.

    Raises:
        ConfigError: there is no such service, or it has no such phase, or an option or instant is wrong.
        HudiError: what else the service raises, as the same call of `Table` would.
        pyspark.errors.PySparkException: Spark failed.
    """
    told = {"user": user, "comment": comment, "with_newer": with_newer}
    arguments = {key: value for key, value in told.items() if value}
    chosen = None if instant is None else str(instant)
    check_call(name, phase, chosen, arguments)
    if phase not in _PHASES or (phase is not None and name in PLAIN):
        raise ConfigError(
            f"Cannot run the phase {phase!r} of the service {name}; "
            + ("it has none" if name in PLAIN else "phases are 'schedule' and 'execute', or none for both")
        )
    given = {str(key): value for key, value in (options or {}).items()}
    if arguments:
        given[spark_config.SERVICE_ARGUMENTS.key] = json.dumps(arguments)
    call = _Call(spark, path, name, given)
    if name in PLAIN:
        return call.make("call", chosen)
    if phase == "schedule":
        return call.make("schedule", None)
    answer: dict[str, Any] | None = None  # as `services.service.run_all` gives it
    while True:
        begun = call.make("begin" if phase is None else "begin_pending", chosen)
        report: dict[str, Any] = begun["report"]
        if begun["num_pieces"]:
            report = call.make("execute", report["instant"], begun["num_pieces"])
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

    def make(self, phase: str, instant: str | None, pieces: int = 0) -> dict[str, Any]:
        """One write, and its report."""
        activate(self._spark)
        token = uuid.uuid4().hex
        tasks = min(max(pieces, 1), _MOST_TASKS)
        rows = self._spark.range(0, pieces, 1, tasks).withColumnRenamed("id", "piece")
        given = {
            **self._options,
            spark_config.SERVICE.key: self._name,
            spark_config.SERVICE_PHASE.key: phase,
            spark_config.SERVICE_TOKEN.key: token,
        }
        if instant is not None:
            given[spark_config.SERVICE_INSTANT.key] = instant
        reader = self._spark.read.format(FORMAT).options(**_of_storage(self._options))
        reader = reader.option(spark_config.VIEW.key, "service").option(spark_config.SERVICE_TOKEN.key, token)
        with raised_here():
            rows.write.format(FORMAT).options(**given).mode("append").save(self._path)
            found = reader.load(self._path).collect()
        if not found:
            raise CorruptFileError(
                f"Cannot tell what the {self._name} of {self._path} did: it is done, but its report is gone from "
                ".hoodie/.hudi_py/reports; look at the timeline (option view = 'timeline')"
            )
        report: dict[str, Any] = json.loads(found[0]["report"])
        return report


def _of_storage(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key.lower().startswith("storage.")}
