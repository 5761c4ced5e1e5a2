"""Runs a table service as a write: tasks execute pieces of a plan, and the commit completes it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.model.instant import InstantTime
from hudi_py.services.calls import PLAIN, PLANNED, begin, check_call, leave_report, schedule
from hudi_py.services.context import ServiceContext
from hudi_py.services.report import ServiceReport
from hudi_py.services.service import PlannedService, Work
from hudi_py.storage import open_storage
from hudi_py.upkeep import metadata_writer

PIECE = "piece"
"""The column with the numbers of the pieces that a task executes."""


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call, as every process of it gets it. Pickles."""

    path: str
    options: Options
    name: str
    phase: str
    instant: str | None
    token: str
    arguments: tuple[tuple[str, Any], ...] = ()
    """Further arguments of a service without a plan."""
    work: Work | None = None
    """Phase `execute`: the plan being executed."""
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def context(self) -> ServiceContext:
        storage_options = dict(self.storage_options) or None
        storage = open_storage(self.path, storage_options)
        return ServiceContext.of(storage, self.options, metadata_writer(self.options), storage_options=storage_options)

    @property
    def planned(self) -> PlannedService[ServiceReport]:
        """Raises ConfigError where the service has no plan."""
        service = PLANNED.get(self.name)
        if service is None:
            raise ConfigError(
                f"Cannot {self.phase} the service {self.name}: it has no plan; those with one are {', '.join(PLANNED)}"
            )
        return service


def plan_service(path: str, options: Options) -> ServiceCall:
    """The call that the options describe. Changes nothing.

    Raises:
        ConfigError: the service, phase or argument does not exist, or there is no such plan in progress.
    """
    name = options.get(spark_config.SERVICE) or ""
    instant = options.get(spark_config.SERVICE_INSTANT)
    arguments = json.loads(options.get(spark_config.SERVICE_ARGUMENTS) or "{}")
    phase = options.get(spark_config.SERVICE_PHASE)
    check_call(name, phase, instant, arguments)
    call = ServiceCall(
        path,
        options,
        name,
        phase,
        instant,
        options.get(spark_config.SERVICE_TOKEN) or "",
        tuple(arguments.items()),
        storage_options=tuple(options.storage.items()),
    )
    if call.phase == "call":
        if name not in PLAIN:
            raise ConfigError(f"Cannot run the service {name} in a single call; schedule, begin and execute it")
        return call
    service = call.planned
    if call.phase != "execute":
        return call
    if call.instant is None:
        raise ConfigError(f"Cannot execute the service {name} without an instant ({spark_config.SERVICE_INSTANT.key})")
    work = service.join(call.context(), InstantTime(call.instant))
    return replace(call, work=work)


class ServiceMessage(WriterCommitMessage):
    """The outcome of a task attempt."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        self.outcomes = tuple(outcomes)


class ServiceWriter(DataSourceArrowWriter):
    """One call; pickled once to each task and once to the process that commits."""

    def __init__(self, call: ServiceCall) -> None:
        self.call = call

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ServiceMessage:
        call = self.call
        pieces = [piece for batch in iterator for piece in batch.column(PIECE).to_pylist()]
        if call.work is None or not pieces:
            return ServiceMessage(())
        try:
            context = call.context()
        except TableNotFoundError as error:  # the planning process found it
            raise TableNotFoundError(
                f"{error}; Spark's driver can see the table, but its executor on {socket.gethostname()} cannot: give a "
                "path that all of them can reach"
            ) from error
        return ServiceMessage(call.planned.execute(context, call.work, pieces))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        call, context = self.call, self.call.context()
        if call.phase == "call":
            report = PLAIN[call.name](context, call.instant, **dict(call.arguments)).to_dict()
        elif call.phase == "schedule":
            report = schedule(context, call.planned)
        elif call.work is None:
            report = begin(context, call.planned, call.instant, plan=call.phase == "begin")
        else:
            outcomes = [
                each for message in messages if isinstance(message, ServiceMessage) for each in message.outcomes
            ]
            report = call.planned.commit(context, call.work, outcomes).to_dict()
        if call.token:
            leave_report(context.storage, call.token, report)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.call.work is not None:
            self.call.planned.give_up(self.call.context(), self.call.work)
