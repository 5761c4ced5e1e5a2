"""Routes the rows of a distributed write to the tasks that write their file groups.

An engine runs these steps with its shuffles. Rows are counted by partition (`count_rows`, `measure`); the counts only
determine sizes. Each row is numbered and, for a look-up, gets the part of the look-up to which it belongs
(`number_rows`). After a shuffle by part, which is skipped for few rows, `route_rows` finds the file group of each key,
or chooses the file to which a new key goes. After a second shuffle, by file group, `write_routed` writes whole file
groups.

The values that rows carry from one step to the next were computed for these very rows: nothing relies on two
evaluations of the input being equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.hashing import java_string_hash
from hudi_py.metadata.keys import file_groups
from hudi_py.model.names import PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.index import GlobalRecordIndex
from hudi_py.write.operations.shares import TO_MAKE, fillable, measured_record_size
from hudi_py.write.operations.tagging import held_rows, index_of, look_up
from hudi_py.write.placement.assign import MEGABYTE, InsertBucket, assign_inserts, effective_record_size, even_files
from hudi_py.write.placement.combine import PLACE, in_one_partition, losing_keys
from hudi_py.write.rows import (
    KeyedRows,
    PartitionedRows,
    RowNumbers,
    TaggedRows,
    share_name,
    without_keys,
)
from hudi_py.write.rows.input import normalise_batch
from hudi_py.write.settings import WriteSettings

ORDER = pa.field("_hudi_py_order", pa.int64())
"""The place of a row in the input, by which ties between rows of one key are broken."""
PART = pa.field("_hudi_py_part", pa.int32())
"""Rows with the same part must come to one task of a look-up, if it is divided into parts."""
GROUP = pa.field("_hudi_py_group", pa.string())
"""Rows with the same group must come to one writing task. A group is a partition path, NUL, and a file id or the number
of a new file."""
STATE = pa.field("_hudi_py_state", pa.int64())
"""`NEW`, `LEAVING` or `KNOWN`; greater numbers: known, and in that row of the file group's base file."""
COUNTED = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("tasks", pa.int64())])
MEASURED = pa.schema(
    [
        *COUNTED,
        ("parts", pa.int64()),
        ("record_size", pa.int64()),
        ("index_groups", pa.int64()),
        ("work", pa.int64()),
    ]
)
"""Rows by partition path, how many tasks have them, into how many parts their look-up is divided (0 for all: each task
looks up the rows that it has), the bytes of a row, `Sizes.index_groups`, and the bytes that the write reads and writes.
"""

NEW, LEAVING, KNOWN = -3, -2, -1
_LOOKUP_ROWS = 2_000_000
"""Rows of a partition that are looked up at a time; the keys of its base files are read each time."""
_GLOBAL_LOOKUP_ROWS = 500_000
_TASKS_OF_A_PARTITION = 2
"""Average number of tasks that may look up rows of one partition; with more, bringing the rows together is cheaper."""
_ADDED_PARTITIONS = 32
"""Maximum number of partitions whose files the plan of a write adds up."""
_TEXT_BYTES = 24
"""The estimated bytes of a value of a type without a fixed width."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The counts of the input. Pickles."""

    rows: Mapping[str, int]
    """Rows by partition path."""
    record_size: int
    """Bytes of a row in a file."""
    index_groups: int = 0
    """The number of file groups of the record index over all partitions, if rows are looked up there; else 0."""

    @classmethod
    def of(cls, measured: Sequence[Any]) -> Sizes:
        """Builds the counts from rows of `MEASURED`."""
        first = measured[0] if measured else {"record_size": 1, "index_groups": 0}
        return cls({row["path"]: row["rows"] for row in measured}, first["record_size"], first["index_groups"])

    @property
    def index_splits(self) -> int:
        """How often each file group of the record index is read: each time for some of its keys."""
        return max(-(-sum(self.rows.values()) // (self.index_groups * _GLOBAL_LOOKUP_ROWS)), 1)


def gathers_keys(settings: WriteSettings, operation: Operation) -> bool:
    """Returns whether rows of one key come together before their file group is known: for a look-up, or to choose one
    row among those with different partitions."""
    combines = settings.combines and operation.takes_whole_rows and settings.index.is_global
    return settings.looks_up(operation) or combines


def count_rows(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts the rows of one task by partition path: `COUNTED`. `batches`: with at least the partition columns."""
    keygen, schema = context.settings.keygen, context.settings.schema
    columns = keygen.partition_columns(schema.arrow)
    rows: Counter[str] = Counter()
    for batch in batches:
        if columns:
            counts = keygen.partition_paths(schema.conform_some(batch, columns)).value_counts()
            rows.update(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)))
        elif batch.num_rows:
            rows[""] += batch.num_rows
    counted = {"path": list(rows), "rows": list(rows.values()), "tasks": [1] * len(rows)}
    yield pa.RecordBatch.from_pydict(counted, COUNTED)


def measure(
    context: WriteContext, operation: Operation, incoming: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields `MEASURED` from `COUNTED`, one row for each path."""
    transaction = context.transaction
    counts = [row for batch in batches for row in batch.to_pylist()]
    transaction.view.lister.prefetch([PartitionPath(row["path"]) for row in counts])
    size = record_size(context, incoming)
    rewrites = _rewrites_files(context, operation)
    groups = _index_groups(context, operation)
    is_global = context.settings.index.is_global
    most = _GLOBAL_LOOKUP_ROWS if is_global else _LOOKUP_ROWS
    # the group of a row does not depend on other rows, unless their keys are in other partitions
    in_place = (
        not is_global
        and sum(row["rows"] for row in counts) <= most
        and sum(row["tasks"] for row in counts) <= _TASKS_OF_A_PARTITION * len(counts)
    )
    measured = []
    for row in counts:
        path, rows = PartitionPath(row["path"]), row["rows"]
        slices = transaction.view.latest_slices(path) if not operation.overwrites else ()
        costs = [slice_.size if rewrites else MEGABYTE for slice_ in slices]
        touched = sum(costs) * min(rows, len(costs)) // max(len(costs), 1)
        parts = 0 if in_place else -(-rows // most)
        more = {"parts": parts, "record_size": size, "index_groups": groups, "work": touched + rows * size}
        measured.append({**row, **more})
    if groups and measured:
        whole = groups * Sizes.of(measured).index_splits
        measured = [{**row, "parts": 0 if number else whole} for number, row in enumerate(measured)]
    yield pa.RecordBatch.from_pylist(measured, MEASURED)


def _index_groups(context: WriteContext, operation: Operation) -> int:
    if not context.settings.looks_up(operation):
        return 0
    index = index_of(context)
    return index.num_groups if isinstance(index, GlobalRecordIndex) else 0


def rewritten_bytes(context: WriteContext, operation: Operation) -> int | None:
    """Returns the maximum number of bytes of the table that a write reads and rewrites; None if it would take long to
    add up."""
    if not _rewrites_files(context, operation):
        return 0
    view = context.transaction.view
    paths = view.partitions()
    if len(paths) > _ADDED_PARTITIONS:
        return None
    view.lister.prefetch(paths)
    return sum(slice_.size for path in paths for slice_ in view.latest_slices(path))


def _rewrites_files(context: WriteContext, operation: Operation) -> bool:
    """Returns whether rows that come to a file group rewrite its base file."""
    return not context.transaction.config.is_mor and operation.traits.known is not None


def record_size(context: WriteContext, incoming: pa.Schema) -> int:
    """Estimates the bytes of a row in a file before any row is known."""
    return effective_record_size(measured_record_size(context), context.settings.packing, _row_width(incoming))


def number_rows(
    context: WriteContext,
    sizes: Sizes,
    first: int,
    batches: Iterable[pa.RecordBatch],
    normalised: Callable[[pa.RecordBatch], pa.RecordBatch] | None,
) -> Iterator[pa.RecordBatch]:
    """Yields incoming rows with their places from `first` on (`ORDER`) and, for a look-up, its part (`PART`).

    Args:
        normalised: a batch in the types of tables; None: there is no look-up.
    """
    for batch in batches:
        order = pa.array(np.arange(first, first + batch.num_rows))
        first += batch.num_rows
        columns, fields = [*batch.columns, order], [*batch.schema, ORDER]
        if normalised is not None:
            columns.append(_part_numbers(context, sizes, context.keys_only(normalised(batch))))
            fields.append(PART)
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def route_rows(
    context: WriteContext, operation: Operation, sizes: Sizes, incoming: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Adds `GROUP` and `STATE` to rows with `ORDER`, and drops `PART`. Where keys are gathered, a row may come out in
    several groups or in none, and `batches` must hold all rows of their parts, where `measure` found any.

    Args:
        incoming: normalised schema of the rows' own columns.
    """
    router = Router(context, operation, sizes)
    given: Iterator[pa.RecordBatch] = (
        batch.select([*incoming.names, ORDER.name]) for batch in batches if batch.num_rows
    )
    if not gathers_keys(context.settings, operation):
        for batch in given:
            routes = _Routes()
            router.without_look_up(context.keys_only(normalised(batch, incoming)), routes)
            yield from routes.applied([batch])
        return
    # a key that may be in any partition is looked up with its whole row, because rows of one key are compared
    everywhere = context.settings.index.is_global
    if everywhere:
        given = _in_order(given)
    routes, row = _Routes(), 0
    first = next(given, None)
    if first is None:
        return
    with PartitionedRows(first.schema, context.settings.waiting_bytes) as originals:
        keyed = []
        for batch in chain([first], given):
            originals.add(batch, pa.repeat("", batch.num_rows))
            keyed.append(_with_keys(context, operation, normalised(batch, incoming), row, whole=everywhere))
            row += batch.num_rows
        with context.transaction.view.naming_lost_files():
            router.gathered(keyed, routes)
        yield from routes.applied(originals.batches(PartitionPath("")))


class Router:
    """Chooses the groups of rows."""

    def __init__(self, context: WriteContext, operation: Operation, sizes: Sizes) -> None:
        self._context = context
        self._operation = operation
        self._sizes = sizes
        self._targets: dict[str, tuple[list[InsertBucket], npt.NDArray[np.float64]]] = {}

    def without_look_up(self, keyed: KeyedRows, routes: _Routes) -> None:
        """Routes the rows of a batch by the hashes of their keys."""
        keys, encoded = keyed.rows.column(0), keyed.partitions.dictionary_encode()
        codes = encoded.indices.to_numpy()
        index = self._context.buckets
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            some = keys.take(pa.array(rows))
            if index is None:
                self._route_new(path, some, rows, routes)
                continue
            numbers = index.numbers(some, path)
            for number in np.unique(numbers).tolist():
                routes.add(share_name(path, number), rows[numbers == number], NEW)

    def tagged(self, path: PartitionPath, tagged: TaggedRows, routes: _Routes) -> None:
        """Routes the rows of a partition with `PLACE`, which were looked up there."""
        row = combined(tagged.rows[PLACE.name]).to_numpy()
        for slice_, numbers in tagged.found:
            routes.add(share_name(path, slice_.file_id), row[numbers], tagged.positions.get(slice_.file_id, KNOWN))
        for file_id, numbers in tagged.leaving.items():
            routes.add(share_name(path, file_id), row[numbers], LEAVING)
        if self._operation.takes_whole_rows and len(tagged.new):
            keys = combined(tagged.rows[RECORD_KEY]).take(pa.array(tagged.new))
            self._route_new(path, keys, row[tagged.new], routes)

    def gathered(self, rows: list[KeyedRows], routes: _Routes) -> None:
        """Routes rows with `PLACE`, given all rows of their keys: if one row of each key counts, only that one is
        routed, unless rows are folded from two versions."""
        context, settings = self._context, self._context.settings
        one = settings.combines and self._operation.takes_whole_rows and settings.index.is_global
        if one and settings.merge.folds:  # the task that writes the group folds the rows of a key into one
            rows, one = in_one_partition(context, rows), False
        schema = rows[0].rows.schema
        if settings.looks_up(self._operation):
            with look_up(context, self._operation, _drain_rows(rows), schema, one_per_key=one) as looked_up:
                for path in looked_up.held.partitions:
                    slices = list(context.transaction.view.latest_slices(path))
                    self.tagged(path, looked_up.tagged(path, slices), routes)
            return
        with held_rows(context, _drain_rows(rows), schema) as held:
            losing = losing_keys(held, settings.merge, order=PLACE.name, packed=False) if one else {}
            for path in held.partitions:
                left = without_keys(held.table(path), losing.get(path))
                if left.num_rows:
                    self._route_new(path, combined(left[RECORD_KEY]), combined(left[PLACE.name]).to_numpy(), routes)

    def new_groups(self, path: str, keys: pa.StringArray) -> tuple[list[str], RowNumbers]:
        """Returns the groups that rows with new keys may go to, and the index of each row's group: each file to fill or
        create has a range of hashes."""
        if path not in self._targets:
            self._targets[path] = self._plan_files(PartitionPath(path))
        targets, ends = self._targets[path]
        targets_of_rows = np.minimum(np.searchsorted(ends, key_hashes(keys) / 2**32, side="right"), len(targets) - 1)
        owners = (target.file_id or f"{TO_MAKE}{number}" for number, target in enumerate(targets))
        return [share_name(path, owner) for owner in owners], targets_of_rows

    def _route_new(self, path: str, keys: pa.StringArray, rows: RowNumbers, routes: _Routes) -> None:
        groups, targets_of_rows = self.new_groups(path, keys)
        for number in np.unique(targets_of_rows).tolist():
            routes.add(groups[number], rows[targets_of_rows == number], NEW)

    def _plan_files(self, path: PartitionPath) -> tuple[list[InsertBucket], npt.NDArray[np.float64]]:
        """Plans the files for the maximum number of rows that the partition gets, and the cumulated shares of the rows
        that they get."""
        packing, size = self._context.settings.packing, self._sizes.record_size
        small = fillable(self._context, path) if self._operation.traits.fills else []
        planned = assign_inserts(max(self._sizes.rows.get(path, 1), 1), small, packing, size)
        old = [bucket for bucket in planned if bucket.file_id is not None]
        new = even_files(sum(bucket.num_rows for bucket in planned[len(old) :]), packing, size)
        shares = np.cumsum([bucket.num_rows for bucket in [*old, *new]], dtype=np.float64)
        return [*old, *new], shares / shares[-1]


class _Routes:
    """Collects which rows go to which groups."""

    def __init__(self) -> None:
        self._groups: list[str] = []
        self._part_numbers: list[tuple[RowNumbers, RowNumbers]] = []

    def add(self, group: str, rows: RowNumbers, state: int | RowNumbers) -> None:
        """Adds rows to a group. `rows`: numbers of rows in the input; `state`: of all of them, or of each."""
        self._groups.append(group)
        self._part_numbers.append((rows, np.broadcast_to(np.asarray(state, np.int64), len(rows))))

    def applied(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the input with their groups, in their order."""
        if not self._part_numbers:
            return
        counts = [len(rows) for rows, _ in self._part_numbers]
        row = np.concatenate([rows for rows, _ in self._part_numbers])
        by_row = np.argsort(row, kind="stable")
        row = row[by_row]
        code = np.repeat(np.arange(len(counts)), counts)[by_row]
        state = np.concatenate([state for _, state in self._part_numbers])[by_row]
        groups, start = pa.array(self._groups, pa.string()), 0
        for batch in batches:
            low, high = np.searchsorted(row, [start, start + batch.num_rows])
            if low < high:
                taken = batch.take(pa.array(row[low:high] - start))
                columns = [*taken.columns, groups.take(pa.array(code[low:high])), pa.array(state[low:high])]
                yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, GROUP, STATE]))
            start += batch.num_rows


def _with_keys(
    context: WriteContext, operation: Operation, batch: pa.RecordBatch, first: int, *, whole: bool
) -> KeyedRows:
    """Returns the rows with the columns that a look-up needs, and their places from `first` on."""
    keyed = context.keyed_for(operation, batch) if whole else context.keys_only(batch)
    places = pa.array(np.arange(first, first + batch.num_rows))
    rows = pa.RecordBatch.from_arrays([*keyed.rows.columns, places], schema=pa.schema([*keyed.rows.schema, PLACE]))
    return KeyedRows(rows, keyed.partitions)


def _drain_rows(rows: list[KeyedRows]) -> Iterator[KeyedRows]:
    """Yields the rows and releases them one by one."""
    while rows:
        yield rows.pop(0)


def _part_numbers(context: WriteContext, sizes: Sizes, keyed: KeyedRows) -> pa.Int32Array:
    keys = keyed.rows.column(0)
    hashes = key_hashes(keys)
    if sizes.index_groups:  # rows of one file group together, which only their task reads
        split = (hashes.astype(np.uint64) * np.uint64(sizes.index_splits) >> np.uint64(32)).astype(np.int64)
        return pa.array((file_groups(keys, sizes.index_groups) + sizes.index_groups * split).astype(np.int32))
    if context.settings.index.is_global:
        return pa.array(hashes.view(np.int32))
    encoded = keyed.partitions.dictionary_encode()
    codes = encoded.indices.to_numpy()
    parts = np.array(
        [-(-sizes.rows.get(path, 1) // _LOOKUP_ROWS) for path in encoded.dictionary.to_pylist()], np.uint32
    )
    own = key_hashes(encoded.dictionary)[codes] + hashes % parts[codes]
    return pa.array(own.view(np.int32))


def key_hashes(texts: pa.StringArray) -> npt.NDArray[np.uint32]:
    """Hashes record keys evenly over all 32 bits, most evenly in the upper ones; the hash of null is 0."""
    hashes: npt.NDArray[np.uint32] = java_string_hash(texts).view(np.uint32) * np.uint32(2654435769)
    return hashes


def normalised(batch: pa.RecordBatch, incoming: pa.Schema) -> pa.RecordBatch:
    return normalise_batch(batch.select(incoming.names), incoming)


def _in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held = list(batches)
    if held:
        table = pa.Table.from_batches(held)
        yield from table.take(pc.sort_indices(table[ORDER.name])).combine_chunks().to_batches()


def _row_width(schema: pa.Schema) -> float:
    """Estimates the bytes of a row in memory."""
    return sum(_type_width(field.type) for field in schema)


def _type_width(kind: pa.DataType) -> float:
    try:
        return float(kind.bit_width / 8)
    except ValueError:  # text, bytes, nested
        return _TEXT_BYTES
