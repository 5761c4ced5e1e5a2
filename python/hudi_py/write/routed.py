"""The plan of a write whose rows an engine shuffles by file group, see `hudi_py.write.exchange`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import first_line
from hudi_py.transaction.session import WriteTarget
from hudi_py.write import routing
from hudi_py.write.api import parse_operation
from hudi_py.write.batches import BatchCommittedError, for_batch, given_batch
from hudi_py.write.context import WriteContext
from hudi_py.write.distributed import TASK_MEMORY, DistributedWrite, key_columns, plan_write
from hudi_py.write.exchange import KEY, PATH, RoutedSteps, Step, by_share
from hudi_py.write.routing import COUNTED, MEASURED, Sizes

__all__ = [
    "COUNTED",
    "KEY",
    "MEASURED",
    "PATH",
    "RoutedPlan",
    "RoutedSteps",
    "Sizes",
    "Step",
    "by_share",
    "plan_routed",
    "steps_of",
]


@dataclass(frozen=True, slots=True)
class RoutedPlan:
    """A planned write, and what its engine must know to bring rows to its tasks. Pickles."""

    write: DistributedWrite
    counted: tuple[str, ...]
    """Columns of the rows that form partition paths, or one other column."""
    gathers_keys: bool
    """Whether rows of one key are brought together first."""
    rewritten_bytes: int | None
    """Maximum bytes of the table that the write rewrites; None: unknown."""
    local_bytes: int
    """Bytes up to which one process should write."""
    committed: str | None
    """A message that the table already contains this batch of a stream; None if it does not."""


def plan_routed(target: WriteTarget, operation: str, schema: pa.Schema, *, owner_pid: int | None = None) -> RoutedPlan:
    """Plans a write as `plan_write` does. Raises its errors, and ConfigError if the option of the operation has another
    value."""
    kind = parse_operation(operation, target.options)
    options = target.options.replace({write_config.OPERATION: kind.value})
    batch, committed = given_batch(options), None
    stream = None if batch is None else batch.identifier
    write = plan_write(replace(target, options=options), schema, owner_pid=owner_pid, stream=stream)
    if batch is not None:
        try:
            write = for_batch(write, batch)
        except BatchCommittedError as error:
            committed = first_line(error)
    arrival = _arrival_of(write, options.get(write_config.BULK_INSERT_SORT_MODE))
    if arrival != "any" or write.operation.traits.needs == "partitions":
        names = key_columns(write) or write.incoming.names[:1]
        write = replace(write, arrival=arrival, incoming=pa.schema(map(write.incoming.field, names)))
    context = WriteContext(write.attach(), write.settings)
    keygen = write.settings.keygen
    wanted = set(keygen.partition_columns(write.settings.schema.arrow)) or {write.incoming.names[0]}
    return RoutedPlan(
        write,
        tuple(name for name in write.incoming.names if name in wanted),
        routing.gathers_keys(write.settings, write.operation),
        routing.rewritten_bytes(context, write.operation) if arrival == "groups" else 0,
        options.get(write_config.LOCAL_MAX_BYTES),
        committed,
    )


def _arrival_of(write: DistributedWrite, sort_mode: str) -> str:
    if write.operation.traits.needs == "partitions":
        return "any"
    if write.stages_all or write.operation.traits.fills:
        # rows that get generated keys have no keys to shuffle by, or to look up in a task
        return "any" if write.settings.keygen.generates_keys or write.merges_stored else "groups"
    if sort_mode == "GLOBAL_SORT":
        return "ranges"
    return "partitions" if sort_mode.startswith("PARTITION_PATH_") else "any"


def steps_of(write: DistributedWrite, task: int) -> RoutedSteps:
    """Returns the steps of a planned write in a task."""
    context = WriteContext(write.attach(), write.settings.of_task(TASK_MEMORY))
    return RoutedSteps(context, write.operation, write.incoming, task)
