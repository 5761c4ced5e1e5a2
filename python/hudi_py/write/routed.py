"""A write whose rows an engine shuffles by file group: its plan, and the steps between the shuffles.

The plan travels as bytes, without the options of the storage. `hudi_py.write.routing` has the steps.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, first_line
from hudi_py.model.limits import UNPACKED, limit
from hudi_py.transaction.locks.choose import table_lock
from hudi_py.transaction.protocols import AfterCommit, MetadataWriter
from hudi_py.write import routing
from hudi_py.write.api import parse_operation
from hudi_py.write.batches import BatchCommittedError, for_batch, given_batch
from hudi_py.write.context import WriteContext
from hudi_py.write.distributed import TASK_MEMORY, DistributedWrite, key_columns, plan_write
from hudi_py.write.operation import Operation
from hudi_py.write.operations.delete import keys_only
from hudi_py.write.routing import COUNTED, GROUP, MEASURED, ORDER, PART, STATE, Sizes
from hudi_py.write.rows.input import normalise_batch

__all__ = [
    "COUNTED",
    "GROUP",
    "KEY",
    "MEASURED",
    "ORDER",
    "PART",
    "PATH",
    "PLAN_SCHEMA",
    "STATE",
    "RoutedWrite",
    "Sizes",
    "decode_plan",
    "plan_routed",
]

Plan = TypeVar("Plan")

PLAN_SCHEMA = pa.schema(
    [
        ("plan", pa.binary()),
        ("operation", pa.string()),
        ("arrival", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("counted", pa.list_(pa.string())),
        ("gathers_keys", pa.bool_()),
        ("max_file_size", pa.int64()),
        ("local_bytes", pa.int64()),
        ("rewritten_bytes", pa.int64()),
        ("committed", pa.string()),
        ("retries", pa.int32()),
        ("made", pa.bool_()),
    ]
)
"""One row: the plan, what it does, how rows must come to the tasks that write (`DistributedWrite.arrival`), the columns
that these need, those that make up partition paths (one column at least), whether rows of one key are brought together
first, the bytes of a file, those up to which one process should write (arrival `one`), those that it rewrites of the
table at most (null: unknown), a text if the table holds this batch of a stream already, how often the write is
repeated after a conflict, and whether it has made the table."""
PATH = pa.field("_hudi_py_path", pa.string())
KEY = pa.field("_hudi_py_key", pa.string())


def plan_routed(
    path: str,
    operation: str,
    options: Options,
    schema: pa.Schema,
    *,
    metadata: MetadataWriter,
    after: tuple[AfterCommit, ...] = (),
    owner_pid: int | None = None,
) -> pa.Table:
    """Plan a write as `plan_write` does: `PLAN_SCHEMA`. Raises what it raises, and ConfigError if the option of the
    operation has another value."""
    options = options.replace({write_config.OPERATION: parse_operation(operation, options).value})
    batch, committed = given_batch(options), None
    stream = None if batch is None else batch.identifier
    write = plan_write(path, options, schema, metadata=metadata, after=after, owner_pid=owner_pid, stream=stream)
    if batch is not None:
        try:
            write = for_batch(write, batch)
        except BatchCommittedError as error:
            committed = first_line(error)
    arrival = _arrival(write, options.get(write_config.BULK_INSERT_SORT_MODE))
    if arrival != "any" or write.operation is Operation.DELETE_PARTITION:
        names = key_columns(write) or write.incoming.names[:1]
        write = replace(write, arrival=arrival, incoming=pa.schema(map(write.incoming.field, names)))
    context = WriteContext(write.attach(), write.settings)
    keygen = write.settings.keygen
    wanted = set(keygen.partition_columns(write.settings.schema.arrow)) or {write.incoming.names[0]}
    row = {
        "plan": zlib.compress(pickle.dumps(replace(write, storage_options=()))),
        "operation": write.operation.value,
        "arrival": arrival,
        "columns": write.incoming.names,
        "counted": [name for name in write.incoming.names if name in wanted],
        "gathers_keys": routing.gathers_keys(write.settings, write.operation),
        "max_file_size": write.settings.packing.max_file_size,
        "local_bytes": options.get(write_config.LOCAL_MAX_BYTES),
        "rewritten_bytes": routing.rewritten_bytes(context, write.operation) if arrival == "groups" else 0,
        "committed": committed,
        "retries": write.handle.settings.conflict_retries,
        "made": write.first is not None,
    }
    return pa.Table.from_pylist([row], PLAN_SCHEMA)


def _arrival(write: DistributedWrite, sort_mode: str) -> str:
    if write.operation is Operation.DELETE_PARTITION:
        return "any"
    if write.stages_all or write.operation is Operation.INSERT:
        # rows that get generated keys have none to shuffle by, and none that a task would look up
        return "any" if write.settings.keygen.generates_keys or write.merges_stored else "groups"
    if sort_mode == "GLOBAL_SORT":
        return "ranges"
    return "partitions" if sort_mode.startswith("PARTITION_PATH_") else "any"


def decode_plan(plan: bytes, storage_options: Mapping[str, str]) -> DistributedWrite:
    """The write that `plan_routed` has planned.

    Raises:
        ConfigError: the bytes are something else.
    """
    return replace(decode(plan, DistributedWrite), storage_options=tuple(storage_options.items()))


def decode(plan: bytes, kind: type[Plan]) -> Plan:
    """A part of a plan. Raises ConfigError if the bytes are something else."""
    try:
        found = _PlanReader(io.BytesIO(_unpacked(plan))).load()
        if not isinstance(found, kind):
            raise ValueError
    except (ValueError, TypeError, AttributeError, ImportError, EOFError, zlib.error, pickle.UnpicklingError) as error:
        raise ConfigError(
            f"Option {spark_config.WRITE_PLAN.key} is not valid: expected a plan that write_table of pyspark_hudi, "
            "or update, delete_from or merge_into of the same release has made"
        ) from error
    return found


def _unpacked(plan: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(plan, limit(UNPACKED))
    if not unpacker.eof:
        raise ValueError
    return found


class _PlanReader(pickle.Unpickler):
    """Makes values of plans and nothing else: plans come in an option, which SQL can set as well."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):  # time zones
            return _zone_maker
        if (module, name) in _OTHERS or (module == "pyarrow.lib" and name in _ARROW):
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith("hudi_py.") and "." not in name else None
        if found is not table_lock and not _is_value(found):
            raise pickle.UnpicklingError(f"{module}.{name} is in no plan")
        return found


def _is_value(found: object) -> bool:
    """Whether it makes values that do nothing when they are made. Other classes may open files: `storage.local` has one
    that truncates the file of its first argument."""
    return isinstance(found, type) and (is_dataclass(found) or issubclass(found, (Enum, tuple)))


def _zone_maker(owner: object, name: str) -> Any:
    if owner is not ZoneInfo or name != "_unpickle":
        raise pickle.UnpicklingError(f"{name} is in no plan")
    return getattr(ZoneInfo, name)


_OTHERS = frozenset(
    {
        ("builtins", "frozenset"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("decimal", "Decimal"),
        ("zoneinfo", "ZoneInfo"),
    }
)
_ARROW = frozenset(
    ("schema", "field", "type_for_alias", "decimal128", "timestamp", "binary", "list_", "map_", "struct", "scalar")
)


class RoutedWrite:
    """The steps of a planned write in a task, which each take and return batches. They change nothing."""

    def __init__(self, write: DistributedWrite) -> None:
        settings = write.settings.of_task(TASK_MEMORY)
        self._write = write
        self._context = WriteContext(write.attach(), settings)

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows, with the columns that were to be `counted`, to `COUNTED`."""
        return routing.count_rows(self._context, map(self._normalised, batches))

    def measure(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All of `COUNTED`, one row for each path, to `MEASURED`."""
        return routing.measure(self._context, self._write.operation, self._write.incoming, batches)

    def number(
        self, sizes: Sizes, first: int, batches: Iterable[pa.RecordBatch], *, parts: bool
    ) -> Iterator[pa.RecordBatch]:
        """Adds `ORDER`, from `first` on, and `PART` to rows."""
        return routing.number_rows(self._context, sizes, first, batches, self._normalised if parts else None)

    def route(self, sizes: Sizes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with `ORDER`, all of their parts, to rows with `ORDER`, `GROUP` and `STATE`."""
        return routing.route_rows(self._context, self._write.operation, sizes, self._write.incoming, batches)

    def key(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Adds `PATH` and `KEY`, by which the rows of a bulk insert are shuffled."""
        for batch in batches:
            keyed = keys_only(self._context, self._normalised(batch))
            columns = [*batch.columns, keyed.partitions, keyed.rows.column(0)]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, PATH, KEY]))

    def _normalised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the write that a batch has."""
        names = [name for name in batch.schema.names if name in self._write.incoming.names]
        return normalise_batch(batch.select(names), pa.schema(map(self._write.incoming.field, names)))
