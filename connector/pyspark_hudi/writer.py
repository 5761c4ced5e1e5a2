"""`df.write.format("hudi-py")`: plans a write on the driver, and implements Spark's writer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.storage import open_storage, with_durability
from hudi_py.transaction.owner.identity import ProcessIdentity, process_identity
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.upkeep import after_commit, metadata_writer
from hudi_py.write.api import existing_table, open_or_create
from hudi_py.write.context import TaskId
from hudi_py.write.input import normalise_schema
from hudi_py.write.operations import Operation, action_of
from hudi_py.write.plan import write_settings
from pyspark_hudi.distributed import DistributedWrite, TaskResult, abort_write, commit_write, run_task
from pyspark_hudi.types import arrow_schema


def plan_write(path: str, options: Options, schema: StructType, *, overwrite: bool) -> DistributedWrite:
    """Create the table if needed, recover failed writes, choose the instant and pin what the write sees.

    Raises:
        TableNotFoundError: a delete without a table.
        ConfigError: options contradict the table or each other.
        SchemaMismatchError, UnsupportedTableError, ConflictError, LockError: as the core's write.
    """
    asked = Operation(options.get(write_config.OPERATION))
    if overwrite and asked is Operation.DELETE:
        raise ConfigError(
            f"Cannot write to {path} with mode overwrite and {options.name_of(write_config.OPERATION)} = 'delete'; "
            "use mode append"
        )
    operation = Operation.INSERT_OVERWRITE_TABLE if overwrite else asked
    after = after_commit(options)
    incoming = normalise_schema(arrow_schema(schema))
    storage = with_durability(open_storage(path, options.storage or None), options.get(write_config.DURABLE))
    config = open_or_create(storage, existing_table(storage), incoming, operation, options, after)
    session = TableSession.open(
        storage,
        metadata_writer(options),
        config=config,
        settings=TransactionSettings.of(options),
        storage_options=options.storage or None,
    )
    handle = WriteTransaction.plan(
        session, action=action_of(operation, config), operation=operation.java_name, owner=_driver()
    )
    seen = WriteTransaction.attach(handle, storage=storage)
    settings = write_settings(storage, handle.config, seen.timeline, seen.view, incoming, operation, options)
    combine = (asked is Operation.UPSERT and settings.combine_before_upsert) or (
        asked is Operation.INSERT and settings.combine_before_insert
    )
    return DistributedWrite(
        handle,
        settings,
        operation,
        incoming,
        combine=combine and operation is Operation.INSERT_OVERWRITE_TABLE,
        max_staged_bytes=options.get(write_config.STAGING_MAX_BYTES),
        allow_empty=options.get(write_config.ALLOW_EMPTY_COMMIT),
        extra=tuple(options.commit_metadata.items()),
        after=after,
        storage_options=tuple(options.storage.items()),
    )


class TaskMessage(WriterCommitMessage):
    """What a task attempt passes to the commit."""

    def __init__(self, result: TaskResult) -> None:
        self.result = result


class HudiWriter(DataSourceArrowWriter):
    """One write; pickled once to each task and once to the process that commits."""

    def __init__(self, write: DistributedWrite) -> None:
        self.plan = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(run_task(self.plan, _task_id(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_write(self.plan, [message.result for message in messages if isinstance(message, TaskMessage)])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_write(self.plan)


def _task_id() -> TaskId:
    context = TaskContext.get()
    if context is None:  # not in a Spark task
        return TaskId(attempt=random.getrandbits(31))
    return TaskId(context.partitionId(), context.stageId(), context.taskAttemptId())


def _driver() -> ProcessIdentity | None:
    """The JVM that runs the job, an ancestor of the process that plans a writer; None if it cannot be found."""
    pid = None
    for _ in range(8):
        pid = _parent(pid)
        if pid is None or pid <= 1:
            return None
        try:
            if Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java":
                return process_identity(pid)
        except OSError:  # the process ended, or there is no /proc
            return None
    return None


def _parent(pid: int | None) -> int | None:
    try:
        text = Path(f"/proc/{pid or 'self'}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the second field is the command in parentheses and may itself hold spaces and parentheses
    return int(text[text.rindex(")") + 2 :].split()[1])
