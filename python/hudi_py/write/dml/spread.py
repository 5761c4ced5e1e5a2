"""Spreads a statement over the tasks of an engine: its plan, and the steps between the shuffles.

An update or a delete needs no shuffle: the task that reads the rows of a file group writes them. For a merge, tasks
read the table and the staged source, and send all rows of a key to one task (`SpreadSteps.read`). That task matches
them, and sends the results to the task that writes their file group (`SpreadSteps.merge`, `run_spread_task`). Between
tasks, rows travel as `PARCELS` of the kinds `source`, `table` and `located`.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import FileSystemView
from hudi_py.write.context import TaskId, WriteContext
from hudi_py.write.distributed import TASK_MEMORY, DistributedWrite, TaskResult, abort_write, commit_write
from hudi_py.write.dml.merge import Merge, merge_request
from hudi_py.write.dml.merge_plan import BoundMerge
from hudi_py.write.dml.merge_source import MergeSource
from hudi_py.write.dml.merging import Merging
from hudi_py.write.dml.run import BoundRows, BoundStatement, PlannedStatement
from hudi_py.write.dml.slices import located_rows, places_of, write_located, write_located_shares
from hudi_py.write.dml.source import KeyFilter, SourceColumns, StagedSource
from hudi_py.write.dml.statements import RowCounts
from hudi_py.write.exchange import parcels, unpacked
from hudi_py.write.result import WriteResult
from hudi_py.write.routing import Router, Sizes, key_hashes, record_size
from hudi_py.write.rows import LocatedRows, PartitionedRows, share_name, share_names
from hudi_py.write.rows.partitioned import split_by_partition
from hudi_py.write.staging import forget_source, staged_rows

WORK = pa.schema([("work", pa.binary())])
"""The input of the first tasks: each row is the work of one task."""
_TASK_BYTES = 64 * 1024 * 1024
"""Minimum bytes that a task reads, or receives by a shuffle, if there is more than one task."""
_INFLATION = 4
"""Approximate bytes in memory for each byte of a compressed file."""
_MAX_PARTS = 10_000
_EXACT_KEYS = 100_000
"""Maximum rows of a source whose keys choose the files of the table. Keys of a larger source only choose rows."""
_ORDER = pa.field("_hudi_py_order", pa.int64())
_PLACES = (pa.field("_hudi_py_file", pa.string()), pa.field("_hudi_py_path", pa.string()))
_ROWS_OF_A_FILE = 1 << 33


@dataclass(frozen=True, slots=True)
class SpreadStatement:
    """A planned statement, as its tasks and its commit receive it. Pickles."""

    write: DistributedWrite
    bound: BoundRows
    token: str
    """Part of the names of the files of a merge's source."""
    source: pa.Schema
    """Normalised columns of the source of a merge."""
    files: tuple[StagedSource, ...]
    target: pa.Schema
    """Columns of the table that a merge reads."""
    sizes: Sizes
    """The size of the rows that the merge may insert."""
    parts: int
    """Number of hash ranges of keys into which its rows are divided."""
    filters: bool
    """Whether rows of the table count only if the source may have their keys."""


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """A statement with the work of its first tasks."""

    statement: SpreadStatement
    work: tuple[bytes, ...]
    shuffles: bool
    """Whether it is a merge."""
    writers: int
    """How many tasks should write the file groups of a merge."""


@dataclass(frozen=True, slots=True)
class SpreadResult:
    """The result of a task that writes: statistics and paths, which are small."""

    stats: tuple[WriteStat, ...] = ()
    counts: RowCounts = field(default_factory=RowCounts)


def plan_staged(bound: BoundStatement, view: FileSystemView, files: Sequence[StagedSource]) -> PlannedStatement:
    """Plans a statement that tasks may run: for a merge, by its staged source, whose keys choose files only if it is
    small.

    Raises:
        HudiError: as `run_statement`, if the statement does not fit its table.
    """
    if not isinstance(bound.rows, BoundMerge) or bound.source is not None:
        return PlannedStatement.of(bound, view)
    keys = None
    if has_few_keys(files):
        columns = SourceColumns.of(bound.rows, bound.settings)
        rows = staged_rows(view.state.storage, [file.file for file in files])
        texts = pa.chunked_array([columns.texts(columns.inputs(batch)) for batch in rows], pa.string())
        keys = columns.matching.asked(combined(texts.drop_null().unique()))
    asked = [file.partitions for file in files]
    partitions = None if None in asked else {path for paths in asked for path in paths or ()}
    request = merge_request(bound.rows, bound.settings, view, keys=keys, partitions=partitions)
    return PlannedStatement.reading(bound, view, request)


def has_few_keys(files: Sequence[StagedSource]) -> bool:
    """Returns whether the keys of a source choose the files of the table."""
    return sum(file.num_rows for file in files) <= _EXACT_KEYS


def plan_spread(
    session: TableSession,
    planned: PlannedStatement,
    *,
    token: str = "",
    files: Sequence[StagedSource] = (),
    owner_pid: int | None = None,
) -> SpreadPlan:
    """Plans a statement for the tasks of an engine: chooses its instant and pins the table. Writes nothing.

    Args:
        planned: the statement, planned for the state of the table that was read last.
        token: names the files of its source.
        files: the staged source.
        owner_pid: the process whose end ends the write; None: unknown.

    Raises:
        HudiError: as `run_statement`, if the statement does not fit its table, or another write is pending.
    """
    config, statement = session.config, planned.bound.statement
    kind = statement.operation
    handle = WriteTransaction.plan(
        session,
        action=kind.action(config),
        operation=statement.java_name,
        owner=None if owner_pid is None else process_identity(owner_pid),
    )
    transaction = WriteTransaction.attach(handle, storage=session.storage)
    if transaction.timeline.moved_since(planned.view.timeline):
        planned = plan_staged(planned.bound.on(transaction.view), transaction.view, files)
    bound, size = planned.bound, planned.size
    merge = bound.rows if isinstance(bound.rows, BoundMerge) else None
    context = bound.narrowed(WriteContext(transaction, bound.settings))
    write = DistributedWrite(
        handle,
        context.settings,
        kind,
        context.row_schema,
        extra=tuple(bound.settings.options.commit_metadata.items()),
        arrival="groups",
        relied_on=tuple({RECORD_INDEX} & {*handle.config.metadata_partitions}),
        storage_options=tuple((session.storage_options or {}).items()),
    )
    inserts: Counter[str] = Counter()
    for file in files:
        inserts.update(dict(file.inserts))
    num_bytes = sum(staged_file.file.num_bytes for staged_file in files)
    by_source = merge is not None and bool(merge.by_source)
    matching = size if by_source else min(size, num_bytes)
    made = SpreadStatement(
        write,
        bound.rows,
        token,
        statement.source if isinstance(statement, Merge) else pa.schema([]),
        tuple(files),
        planned.schema,
        Sizes(dict(inserts), record_size(context, context.row_schema)),
        parts=min(_num_tasks((matching + num_bytes) * _INFLATION), _MAX_PARTS),
        filters=merge is not None and not by_source and not has_few_keys(files),
    )
    sources = [(number,) for number in range(len(files))]
    work = tuple(zlib.compress(pickle.dumps(part)) for part in (*_pack_splits(planned.splits), *sources))
    return SpreadPlan(made, work, merge is not None, _num_tasks(num_bytes if config.is_mor else size + num_bytes))


def _pack_splits(splits: Iterable[Split]) -> Iterator[tuple[Split, ...]]:
    """Divides splits into tasks."""
    held: list[Split] = []
    for split in splits:
        if held and sum(info.size for info in held) + split.size > _TASK_BYTES:
            yield tuple(held)
            held = []
        held.append(split)
    if held:
        yield tuple(held)


def _num_tasks(num_bytes: int) -> int:
    return max(-(-num_bytes // _TASK_BYTES), 1)


class SpreadSteps:
    """The steps of a merge in a task. They change nothing."""

    def __init__(self, plan: SpreadStatement, task: TaskId) -> None:
        """Creates the steps. `task`: the number of the task, unique in its step, which generated keys contain."""
        self._plan = plan
        self._context = _task_context(plan, plan.write.attach(), task)
        assert isinstance(plan.bound, BoundMerge)
        self._bound = plan.bound

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads the rows of table and source for `WORK`, and yields them in `PARCELS` by hash ranges of their keys."""
        columns = SourceColumns.of(self._bound, self._context.settings)
        storage = self._context.transaction.storage
        keeps = KeyFilter(storage, self._plan.files) if self._plan.filters else None
        for work in _work_of(batches):
            if isinstance(work[0], int):
                yield from self._to_parcels("source", self._source_schema, self._source_rows(work[0], columns))
            else:
                yield from self._to_parcels("table", self._target_schema, self._table_rows(work, keeps))

    def merge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merges the rows of complete hash ranges, and yields rows with the file groups that they go to: `PARCELS` by
        group."""
        router = Router(self._context, Operation.UPSERT, self._plan.sizes)
        memory = self._context.settings.waiting_bytes
        with PartitionedRows(WORK, memory) as held:
            for batch in batches:
                names = pc.binary_join_element_wise(batch.column("to"), batch.column("kind"), "/")
                held.add(pa.RecordBatch.from_arrays([batch.column("rows")], schema=WORK), names)
            for part in sorted({name.partition("/")[0] for name in held.partitions}):
                with located_rows(self._context) as located:
                    self._match_range(held, part, located)
                    for path in located.partitions:
                        yield from self._route_rows(router, path, located.table(path))

    def _match_range(self, held: PartitionedRows, part: str, located: PartitionedRows) -> None:
        """Adds the results for the rows of one hash range to `located`."""

        def rows(kind: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            for batch in held.batches(PartitionPath(f"{part}/{kind}")):
                for parcel in batch.column(0):  # each parcel has many rows
                    yield pa.ipc.read_record_batch(parcel.as_buffer(), schema)

        source = pa.Table.from_batches(list(rows("source", self._source_schema)), self._source_schema)
        # rows of the same key in the order of the source, whatever the order of arrival
        source = source.take(pc.sort_indices(source[_ORDER.name])).drop_columns([_ORDER.name])
        merge_source = MergeSource.of(self._bound, source, self._context.settings)
        merging = Merging(self._context, merge_source, located)
        for batch in rows("table", self._target_schema):
            places = (combined(batch.column(field.name)) for field in _PLACES)
            merging.add(batch.select(self._plan.target.names), *places)
        merging.insert()

    @property
    def _source_schema(self) -> pa.Schema:
        return pa.schema([*self._plan.source, _ORDER])

    @property
    def _target_schema(self) -> pa.Schema:
        return pa.schema([*self._plan.target, *_PLACES])

    def _source_rows(self, number: int, columns: SourceColumns) -> Iterator[tuple[pa.StringArray, pa.RecordBatch]]:
        """Yields the rows of a staged file with the texts by which they match."""
        first = number * _ROWS_OF_A_FILE
        for batch in staged_rows(self._context.transaction.storage, [self._plan.files[number].file]):
            keys = columns.texts(columns.inputs(batch))
            order = pa.array(np.arange(first, first + batch.num_rows))
            yield keys, pa.RecordBatch.from_arrays([*batch.columns, order], schema=self._source_schema)
            first += batch.num_rows

    def _table_rows(
        self, splits: Iterable[Split], keeps: KeyFilter | None
    ) -> Iterator[tuple[pa.StringArray, pa.RecordBatch]]:
        """Yields the rows of file slices with the texts by which they match, and their places."""
        matching, alias = self._bound.matching, self._bound.plan.target_alias
        for split in splits:
            for batch in read_split_on(self._context.transaction.storage, split):
                texts = matching.of_target(batch, places_of(split, batch.num_rows)[1], alias)
                if keeps is not None:
                    kept = pa.array(keeps.may_have(texts))
                    batch, texts = batch.filter(kept), texts.filter(kept)
                columns = [*batch.columns, *places_of(split, batch.num_rows)]
                yield texts, pa.RecordBatch.from_arrays(columns, schema=self._target_schema)

    def _to_parcels(
        self, kind: str, schema: pa.Schema, rows: Iterable[tuple[pa.StringArray, pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        with PartitionedRows(schema, self._context.settings.waiting_bytes) as held:
            for keys, batch in rows:
                part = key_hashes(keys).astype(np.uint64) * np.uint64(self._plan.parts) >> np.uint64(32)
                held.add(batch, pa.array(part).cast(pa.string()))
            for part in held.partitions:
                yield from parcels(part, kind, held.table(part))

    def _route_rows(self, router: Router, path: PartitionPath, packed: pa.Table) -> Iterator[pa.RecordBatch]:
        located = LocatedRows.unpacked(packed, moves=True)
        keys, buckets = combined(packed[RECORD_KEY]), self._context.buckets
        if buckets is not None:
            groups = share_names(path, pa.array(buckets.numbers(keys, path)).cast(pa.string()))
        else:
            known = located.file_ids.dictionary_encode()
            names = [share_name(path, file_id) for file_id in known.dictionary.to_pylist()]
            at = known.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            new = np.flatnonzero(at < 0)
            if len(new):
                more, places = router.new_groups(path, keys.take(pa.array(new)))
                at[new] = places + len(names)
                names += more
            groups = pa.array(names, pa.string()).take(pa.array(at))
        for batch in packed.combine_chunks().to_batches():
            for group, rows in split_by_partition(batch, groups):
                yield from parcels(group, "located", pa.Table.from_batches([rows]))


def run_spread_task(plan: SpreadStatement, task: TaskId, batches: Iterable[pa.RecordBatch]) -> SpreadResult:
    """Runs the last step, which writes files, in one task attempt: for a merge with all `PARCELS` of some groups, for
    other statements with `WORK`. `task` must be unique to the attempt.

    Raises:
        SchemaMismatchError, ConfigError: a value does not fit the table, or cannot be evaluated.
        RolledBackError, ConflictError: the write has been rolled back or completed.
    """
    with plan.write.attach() as transaction:
        context = _task_context(plan, transaction, task)
        given = iter(batches)
        first = next((batch for batch in given if batch.num_rows), None)
        if first is None:
            return SpreadResult()
        every = chain([first], given)
        return _write_work(plan, context, every) if first.schema.names == WORK.names else _write_groups(context, every)


def _write_work(plan: SpreadStatement, context: WriteContext, batches: Iterable[pa.RecordBatch]) -> SpreadResult:
    storage = context.transaction.storage
    assert not isinstance(plan.bound, BoundMerge)
    stats: list[WriteStat] = []
    counts = RowCounts()
    for split in (item for work in _work_of(batches) for item in work if isinstance(item, Split)):
        with located_rows(context) as held:  # one file group at a time
            rows = ((split, batch) for batch in read_split_on(storage, split))
            more = plan.bound.collect(context, rows, held)
            stats += write_located(context, held)
        counts = counts.plus(more.inserted, more.updated, more.deleted)
    return SpreadResult(tuple(stats), counts)


def _write_groups(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> SpreadResult:
    inserted = deleted = again = 0
    with located_rows(context) as held:
        for batch in batches:
            for group, rows in unpacked([batch], held.schema):
                located = LocatedRows.unpacked(pa.Table.from_batches([rows]), moves=True)
                assert located.leaving is not None
                moved = located.leaving.null_count  # moved out of another partition, by this task or another one
                inserted += located.file_ids.null_count - moved
                deleted += located.leaving.true_count - moved
                again += moved
                held.add(rows, pa.repeat(group, rows.num_rows))
        total = held.num_rows
        with context.transaction.view.naming_lost_files():
            stats = write_located_shares(context, held)
    return SpreadResult(tuple(stats), RowCounts(inserted, total - again - inserted - deleted, deleted))


def commit_spread(plan: SpreadStatement, results: Sequence[SpreadResult]) -> WriteResult:
    """Publishes what the tasks have written.

    Raises:
        HudiError: as `commit_write`; call `abort_spread`.
    """
    done = commit_write(plan.write, [TaskResult(task_result.stats, None) for task_result in results])
    counts = RowCounts()
    for result in results:
        counts = counts.plus(result.counts.inserted, result.counts.updated, result.counts.deleted)
    forget_source(plan.write.attach().storage, plan.token)
    return replace(done, num_inserted=counts.inserted, num_updated=counts.updated, num_deleted=counts.deleted)


def abort_spread(plan: SpreadStatement) -> None:
    """Rolls back what the tasks of a planned statement have written, unless it was published."""
    try:
        abort_write(plan.write)
    finally:
        forget_source(plan.write.attach().storage, plan.token)


def _task_context(plan: SpreadStatement, transaction: WriteTransaction, task: TaskId) -> WriteContext:
    settings = plan.write.settings.of_task(TASK_MEMORY)
    return WriteContext(transaction, settings, task=task)


def _work_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Split, ...] | tuple[int]]:
    """Yields the work in rows of `WORK`: file slices, or the number of a staged file."""
    for batch in batches:
        for work in batch.column("work").to_pylist():
            yield pickle.loads(zlib.decompress(work))
