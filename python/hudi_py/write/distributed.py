"""Spreads a write over the tasks of an engine: its plan, its tasks and its commit.

Tasks receive rows in no order and without a shuffle. If no key is looked up, they write files of their own. All other
rows, and groups of rows too small for a file, are staged as Arrow IPC files, which one process merges and writes at the
commit.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from hudi_py.config import Options, incremental
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, HudiError, LockError
from hudi_py.formats.base.files import iter_base_batches
from hudi_py.model.commit import WriteStat
from hudi_py.model.layout import SOURCES
from hudi_py.model.operation import Operation
from hudi_py.read.partition import path_values
from hudi_py.transaction.handle import TransactionHandle
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.api import existing_table, open_or_create, parse_operation
from hudi_py.write.context import TaskId, WriteContext
from hudi_py.write.exchange import write_in_parts, write_routed
from hudi_py.write.operation import combines, effective_operation, operation_on
from hudi_py.write.operations import run_operation
from hudi_py.write.operations.bulk_insert import write_new_file_groups
from hudi_py.write.operations.overwrite import replaced_by
from hudi_py.write.result import WriteResult, result_of
from hudi_py.write.retry import CONFLICTS, conflict_retries, redo_on_conflict
from hudi_py.write.rows.input import normalise_batch, normalise_schema
from hudi_py.write.settings import WriteSettings, write_settings
from hudi_py.write.staging import Stage, StagedFile, forget_source, large_partitions, staged_rows
from hudi_py.write.stream import Batch, last_batch, marked_writer_id, retry_pause_s
from hudi_py.write.table.first import FirstWrite

__all__ = [
    "DistributedWrite",
    "TaskId",
    "TaskResult",
    "WriteResult",
    "abort_write",
    "commit_write",
    "conflict_retries",
    "forget_staged",
    "key_columns",
    "nothing_written",
    "plan_write",
    "redo_on_conflict",
    "run_task",
    "stage_small",
]

_log = logging.getLogger(__name__)

_MB = 1024 * 1024
TASK_MEMORY = 512 * _MB
"""Bytes of memory for the rows of one task on their way to files."""


@dataclass(frozen=True, slots=True)
class DistributedWrite:
    """A planned write, as its processes exchange it. Pickles."""

    handle: TransactionHandle
    settings: WriteSettings
    operation: Operation
    incoming: pa.Schema
    """The normalised schema of the rows, without meta columns."""
    extra: tuple[tuple[str, str], ...]
    """Extra metadata of the commit."""
    stream: str | None = None
    """The identifier of the streaming query that writes a batch."""
    last: Batch | None = None
    """The query's last batch that was in the table when the write was planned."""
    arrival: str = "any"
    """How rows come to tasks: in no order (`any`), also for the commit to write all of them (`one`), by ranges of their
    keys (`ranges`), by partition (`partitions`), or by file group with the columns of `write.routing` (`groups`)."""
    relied_on: tuple[str, ...] | None = None
    """The partitions of the metadata table on which the plan depends; None: those that the operation reads."""
    first: FirstWrite | None = None
    """Set if the write created the table, which is removed again if the write fails."""
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def options(self) -> Options:
        """The options of the write, without the options of the storage."""
        return self.settings.options

    @property
    def stages_all(self) -> bool:
        """Whether a file may need the rows of several tasks."""
        if self.arrival == "one" or self.settings.index.buckets is not None:
            return True
        if not self.operation.takes_whole_rows or self.operation.looks_up_keys:
            return True
        settings = self.settings
        return settings.combines or settings.insert_duplicates != "none"

    @property
    def merges_stored(self) -> bool:
        """Whether rows are merged with stored ones before their file group is known, so that one process merges all."""
        settings = self.settings
        return self.operation.traits.known == "update" and settings.merge.folds and settings.index.moves_rows

    def attach(self) -> WriteTransaction:
        return WriteTransaction.attach(self.handle, dict(self.storage_options) or None)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task attempt: statistics and paths, which are small."""

    stats: tuple[WriteStat, ...]
    staged: StagedFile | None


def plan_write(
    target: WriteTarget,
    schema: pa.Schema,
    *,
    overwrite: bool = False,
    owner_pid: int | None = None,
    stream: str | None = None,
) -> DistributedWrite:
    """Creates the table if needed, recovers failed writes, chooses the instant, and pins what the write sees.

    Args:
        schema: the columns of the rows that tasks will get.
        overwrite: whether the rows replace those of the table.
        owner_pid: the process whose end ends the write; None: unknown.
        stream: the identifier of the streaming query that writes a batch; see `for_batch`.

    Raises:
        TableNotFoundError: a delete without a table.
        ConfigError: options contradict the table or each other.
        SchemaMismatchError, UnsupportedTableError, ConflictError, LockError: as `write_rows`.
    """
    options = target.options
    check_many_processes(options)
    requested = effective_operation(parse_operation(None, options), options)
    if overwrite and not requested.takes_whole_rows:
        raise ConfigError(
            f"Cannot write to {target.storage.uri} with mode overwrite and {options.name_of(write_config.OPERATION)} = "
            f"'{requested.value}'; use mode append"
        )
    operation = _overwrite_operation(requested, options) if overwrite else requested
    incoming = normalise_schema(schema)
    storage = target.durable
    owner = None if owner_pid is None else process_identity(owner_pid)
    first = FirstWrite.of(owner, options)
    config = open_or_create(target, existing_table(storage), incoming, operation, first)
    operation = operation_on(config, operation)
    with first.taken_back(storage, config):
        session = target.session(config)
        handle = WriteTransaction.plan(
            session,
            action=operation.action(config),
            operation=operation.java_name,
            owner=owner,
            writer_id=None if stream is None else marked_writer_id(stream),
        )
        seen = WriteTransaction.attach(handle, storage=storage)
        settings = write_settings(seen.view, incoming, operation, options)
    if operation.overwrites and requested.traits.known == "update" and not settings.keygen.generates_keys:
        settings = replace(settings, combines=settings.combines or combines(requested, options))
    return DistributedWrite(
        handle,
        settings,
        operation,
        incoming,
        extra=tuple(options.commit_metadata.items()),
        stream=stream,
        last=None if stream is None else last_batch(storage, seen.timeline, stream),
        first=replace(first, storage_options=None) if first.made(config) else None,
        storage_options=tuple(options.storage.items()),
    )


def run_task(write: DistributedWrite, task: TaskId, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """Writes or stages the rows of one task attempt. `task` must be unique to the attempt.

    Raises:
        SchemaMismatchError, ConfigError: the rows do not fit the table.
        RolledBackError, ConflictError: the write has been rolled back or completed.
    """
    with write.attach() as transaction:
        settings = write.settings.of_task(TASK_MEMORY)
        context = WriteContext(transaction, settings, task=task)
        rows = (normalise_batch(_select_columns(batch, write.incoming), write.incoming) for batch in batches)
        stage = Stage(transaction.storage, f"{transaction.staging}/{task}.arrow")
        try:
            if write.arrival == "groups":
                return TaskResult(tuple(write_routed(context, write.operation, write.incoming, batches)), None)
            if write.stages_all:
                for batch in _key_columns(write, rows):
                    stage.add(batch)
                stats: list[WriteStat] = []
            else:
                # rows that come in order are not combined with those of other tasks
                parts = large_partitions(context, rows, stage) if write.arrival == "any" else rows
                stats = write_new_file_groups(context, parts)
            return TaskResult(tuple(stats), stage.close())
        except BaseException:  # nothing staged may remain, even after an interrupt
            stage.abandon()
            raise


def stage_small(
    write: DistributedWrite, task: TaskId, batches: Iterable[pa.RecordBatch], max_bytes: int
) -> TaskResult | None:
    """Stages the rows of one task attempt for one process to write, outside of the write, which does not begin.

    Returns:
        None if the tasks have staged more than `max_bytes`, as far as this one knows: other rows are not taken.

    Raises:
        SchemaMismatchError: the rows do not fit the table.
    """
    storage, name = write.attach().storage, write.handle.writer.id
    left = max_bytes - sum(file.size for file in storage.list(SOURCES) if file.name.startswith(f"{name}-"))
    stage = Stage(storage, f"{SOURCES}/{name}-{task}.arrow")
    try:
        rows = (normalise_batch(_select_columns(batch, write.incoming), write.incoming) for batch in batches)
        for batch in _key_columns(write, rows):
            stage.add(batch)
            if stage.num_bytes > left:
                stage.abandon()
                return None
        return TaskResult((), stage.close())
    except BaseException:  # nothing staged may remain, even after an interrupt
        stage.abandon()
        raise


def forget_staged(write: DistributedWrite) -> None:
    """Removes what `stage_small` has staged."""
    forget_source(write.attach().storage, write.handle.writer.id)


def commit_write(write: DistributedWrite, results: Sequence[TaskResult]) -> WriteResult:
    """Writes the staged rows and publishes the write.

    Raises:
        BatchCommittedError: the batch (`for_batch`) was committed meanwhile.
        HudiError: as `WriteTransaction.commit`; call `abort_write`.
    """
    transaction = write.attach()
    staged = [result.staged for result in results if result.staged is not None]
    stats = [stat for result in results for stat in result.stats]
    if (
        not write.options.get(write_config.ALLOW_EMPTY_COMMIT)
        and not stats
        and not staged
        and write.settings.deleted_partitions is None
    ):
        transaction.abort()
        return nothing_written(write)
    _check_groups(write, results)
    optimistic = transaction.handle.settings.optimistic
    in_parts = _is_large(write, sum(file.num_bytes for file in staged))
    with transaction:  # its heartbeat keeps the staged rows
        attempts = itertools.count()

        def attempt() -> tuple[WriteResult, Committed]:
            number = next(attempts)
            task = TaskId(task=len(results), stage=0, attempt=number)
            if number and optimistic:
                return _commit_again(write, transaction, task, staged, stats, in_parts=in_parts)
            rows = partial(staged_rows, transaction.storage, staged)
            context = WriteContext(transaction, write.settings, task=task)
            return _commit_rows(write, context, rows, stats, in_parts=in_parts)

        num_bytes = sum(file.num_bytes for file in staged) + sum(stat.file_size for stat in stats)
        (done, committed), retried = _retry_commit(write, attempt, num_bytes)
        if done.instant != transaction.instant:
            try:
                transaction.abort()
            except (HudiError, OSError) as error:  # the rows are committed: an error would make the caller write again
                _log.warning("the replaced write %s is rolled back by the next write: %s", transaction.instant, error)
    return replace(done, retries=retried, services=transaction.session.run_after(committed))


def _retry_commit(
    write: DistributedWrite, attempt: Callable[[], tuple[WriteResult, Committed]], num_bytes: int
) -> tuple[tuple[WriteResult, Committed], int]:
    """Attempts to commit, again after conflicts. Returns the result, and how often the attempt was repeated.
    `num_bytes`: what one process would write."""
    settings, options = write.handle.settings, write.options
    retries, causes, pause_s = settings.conflict_retries, CONFLICTS, None
    if write.stream is not None:
        # with one writer at a time, it would try again under the same instant, and the conflict would remain
        causes = (LockError, OSError, *(CONFLICTS if settings.optimistic else ()))
        retries, pause_s = max(retries, options.get(incremental.SINK_RETRY_COUNT) - 1), retry_pause_s(options)
    too_much = settings.optimistic and num_bytes > options.get(write_config.STAGING_MAX_BYTES)
    if (
        too_much or write.arrival == "groups"
    ):  # more than one process should write it, or rows were routed by what it saw
        retries = 0
    return redo_on_conflict(attempt, retries, causes=causes, first_pause_s=pause_s)


def _commit_rows(
    write: DistributedWrite,
    context: WriteContext,
    rows: Callable[[], Iterator[pa.RecordBatch]],
    stats: Sequence[WriteStat],
    *,
    in_parts: bool,
) -> tuple[WriteResult, Committed]:
    """Writes the rows and commits them with the files that tasks have written. `in_parts`: in bounded memory."""
    settings, left = context.settings, iter(()) if in_parts else rows()
    if in_parts:
        within = WriteContext(context.transaction, settings.within(TASK_MEMORY), task=context.task)
        incoming = pa.schema(map(write.incoming.field, key_columns(write)))
        stats = [*stats, *write_in_parts(within, write.operation, incoming, rows)]
    result = run_operation(context, left, write.operation)
    result = replace(result, stats=[*stats, *result.stats])
    if write.operation.traits.replaces == "partitions" and stats:
        result = replace(result, replaced=replaced_by(context, result.stats))
    if write.relied_on is not None:
        # a statement has looked for its keys in every partition that the index spans
        knows_keys = result.knows_keys or settings.index.is_global
        result = replace(result, relied_on=write.relied_on, knows_keys=knows_keys)
    return context.commit_rows(write.operation, result, dict(write.extra))


def _commit_again(
    write: DistributedWrite,
    planned: WriteTransaction,
    task: TaskId,
    staged: Iterable[StagedFile],
    stats: Iterable[WriteStat],
    *,
    in_parts: bool,
) -> tuple[WriteResult, Committed]:
    """Writes and commits again under a new instant, after a conflict. The files of tasks belong to the instant of the
    plan, so their rows are read back."""
    handle = write.handle
    with WriteTransaction.begin(planned.session, action=handle.action, operation=handle.operation) as transaction:
        settings = write_settings(transaction.view, write.incoming, write.operation, write.options)
        settings = replace(settings, combines=write.settings.combines)
        storage = transaction.storage

        def rows() -> Iterator[pa.RecordBatch]:
            written = (_rows_written(write, settings, transaction, stat) for stat in stats)
            return itertools.chain(staged_rows(storage, staged), *written)

        return _commit_rows(write, WriteContext(transaction, settings, task=task), rows, (), in_parts=in_parts)


def _rows_written(
    write: DistributedWrite, settings: WriteSettings, transaction: WriteTransaction, stat: WriteStat
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file that a task has written, with the columns that files lack."""
    config, storage = transaction.config, transaction.storage
    path, shown = stat.partition_path, settings.schema.arrow
    values = path_values(config, shown, path, storage.uri) if settings.stored.omitted else ()
    for batch in iter_base_batches(storage, stat.path, write.incoming.names):
        for name, value in values:
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        yield batch


def nothing_written(write: DistributedWrite) -> WriteResult:
    """Returns the result of a write that commits nothing."""
    return result_of(write.operation.value, None, None, ())


def _is_large(write: DistributedWrite, num_bytes: int) -> bool:
    """Returns whether so much was staged that the commit merges it part by part, through its local disk."""
    if num_bytes <= write.options.get(write_config.STAGING_MAX_BYTES):
        return False
    _log.warning(
        "one process merges the %d MB that the tasks of the write %s of %s have staged, which is more than "
        "hoodie.py.staging.max.bytes; pyspark_hudi.write_table lets Spark's tasks merge them",
        num_bytes // _MB,
        write.handle.instant,
        write.handle.table_uri,
    )
    # memory is bounded anyway for a bucket's rows, and for rows that no look-up keeps together
    in_memory = write.stages_all and write.operation.traits.needs != "partitions"
    return in_memory and write.settings.index.buckets is None and not write.merges_stored


def _check_groups(write: DistributedWrite, results: Iterable[TaskResult]) -> None:
    """Refuses rows of one file group that were written by several tasks: each would have lost those of the others."""
    if write.arrival != "groups":
        return
    seen: set[tuple[str, str]] = set()
    for result in results:
        groups = {(stat.partition_path, stat.file_id) for stat in result.stats}
        for partition, file_id in sorted(groups & seen):
            raise HudiError(
                f"Cannot commit the write {write.handle.instant} of {write.handle.table_uri}: two tasks have written "
                f"the file group {file_id} of partition '{partition}'; the engine has split rows that must stay "
                "together: write with hudi_py.write, or with write_table in a new session"
            )
        seen |= groups


def abort_write(write: DistributedWrite) -> None:
    """Rolls the write back, unless it was published, and removes the table that it created."""
    transaction = write.attach()
    transaction.abort()
    if write.first is not None:
        first = replace(write.first, storage_options=dict(write.storage_options) or None)
        first.take_back(transaction.storage, write.handle.config)


def _overwrite_operation(requested: Operation, options: Options) -> Operation:
    """Returns the operation of mode overwrite: it replaces the whole table, or only partitions if the options ask for
    that."""
    if requested.overwrites:
        return requested
    dynamic = options.get(write_config.OVERWRITE_MODE) == "DYNAMIC"
    return Operation.INSERT_OVERWRITE if dynamic else Operation.INSERT_OVERWRITE_TABLE


def _key_columns(write: DistributedWrite, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the columns that the commit needs."""
    if write.operation.takes_whole_rows:
        yield from rows
        return
    if write.settings.deleted_partitions is not None:
        return
    names = key_columns(write)
    for batch in rows:
        yield batch.select(names)


def key_columns(write: DistributedWrite) -> list[str]:
    """Returns the columns that a write needs: for deletes, those from which key and partition are formed."""
    keygen, schema = write.settings.keygen, write.settings.schema.arrow
    needed = {*keygen.partition_columns(schema)}
    if write.operation.traits.needs == "keys":
        needed.update(keygen.key_columns(schema))
    return [name for name in write.incoming.names if write.operation.takes_whole_rows or name in needed]


def _select_columns(batch: pa.RecordBatch, incoming: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema.names == incoming.names else batch.select(incoming.names)
