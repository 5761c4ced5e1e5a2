"""Folds the versions of a record into one, column by column, for merges that combine two versions into a row.

Folding copies no values: a record holds, for each group of columns, the number of the row that provides the values. It
proceeds in rounds over all keys at once: the second version of every key, then the third, and so on. A merger written
in Python is called in the same rounds, with pairs of rows of many keys.

Sources of the rules (1.2.0): `BufferedRecordMergerFactory` with `PartialUpdateHandler` (partial updates),
`PartialMergerWithKeepValues` and `SparkRecordMergingUtils` (log blocks of partial updates), `HoodieAvroRecordMerger`
with the payload classes (merge mode CUSTOM).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, is_text, true_where
from hudi_py.merge.merger import RecordMerger, merge_pairs
from hudi_py.merge.reduce import Mask, Rows, Versions, versions_by_key
from hudi_py.merge.settings import IS_DELETED, MergeSettings, PartialUpdate, Payload
from hudi_py.schema import META_FIELDS, conform_array
from hudi_py.schema.paths import values_at

Sources = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Records:
    """One record for each of n keys."""

    sources: Sources
    """(groups, n): the row that provides the values of a group of columns; -1: the record lacks them."""
    empty: Mask
    """Deletes without a row: entries of delete blocks, and records that a payload class turned into deletes."""
    deleted: Mask
    codes: npt.NDArray[np.int64]
    """(fields, n): ordering values, see `ordering.field_codes`."""
    defaults: Mask
    """Records whose ordering value is the default."""
    ordering: Rows
    """(fields, n): the version that provides the ordering value."""

    def take(self, rows: Rows) -> Records:
        return Records(*(getattr(self, field.name)[..., rows] for field in fields(self)))

    def put(self, rows: Rows, other: Records) -> None:
        for field in fields(self):
            getattr(self, field.name)[..., rows] = getattr(other, field.name)

    @property
    def unconditional(self) -> Mask:
        """Returns deletes in commit time order (`BufferedRecord.isCommitTimeOrderingDelete`)."""
        return np.asarray(self.deleted & self.defaults)


def choose(condition: Mask, first: Records, second: Records) -> Records:
    """Chooses `first` where the condition is true, else `second`."""
    return Records(
        *(np.where(condition, getattr(first, field.name), getattr(second, field.name)) for field in fields(Records))
    )


class FoldSpace:
    """The rows that records consist of, with what a merge needs to know about them.

    Args:
        rows: data rows, which have the numbers of their versions; deletes without rows are numbered after them.
        codes: (fields, versions).
        absent: for each column that some rows lack, a mask of those rows.
    """

    def __init__(
        self,
        rows: pa.Table,
        settings: MergeSettings,
        codes: npt.NDArray[np.int64],
        defaults: Mask,
        absent: Mapping[str, Mask] | None = None,
    ) -> None:
        self.rows = rows
        self.settings = settings
        self.codes = codes
        self.defaults = defaults
        absent = absent or {}
        gaps: list[Mask] = []
        lacking: list[Mask | None] = []
        groups: list[list[str]] = [[], []]
        none = np.zeros(rows.num_rows, np.bool_)
        gaps += [none, none]
        lacking += [None, None]
        for name in rows.column_names:
            gap, lacks = _gap_mask(rows[name], settings), absent.get(name)
            if (gap is None or not gap.any()) and (lacks is None or not lacks.any()):
                groups[name in META_FIELDS].append(name)
            else:
                groups.append([name])
                gaps.append(none if gap is None else gap)
                lacking.append(lacks)
        self.groups = groups
        """Columns that always come from the same row: data columns without gaps, meta columns without gaps, and then
        each column with gaps."""
        self.meta = np.array([any(name in META_FIELDS for name in group) for group in groups]) | (
            np.arange(len(groups)) == 1
        )
        self._gaps = gaps
        self._lacking = lacking
        self._group_of = {name: number for number, group in enumerate(groups) for name in group}
        payload = settings.payload
        self._sequence = None if payload is None else _sequence_codes(rows, payload)
        self._marks = _payload_marks(rows, settings)

    @property
    def width(self) -> int:
        return len(self.groups)

    def first(self, versions: Rows, deleted: Mask) -> Records:
        """Returns the versions as records; numbers beyond the rows are deletes without a row."""
        empty = versions >= self.rows.num_rows
        row = np.where(empty, -1, versions).astype(np.int32)
        sources = np.repeat(row[None, :], self.width, axis=0)
        for group, lacks in enumerate(self._lacking):
            if lacks is not None:
                sources[group, ~empty] = np.where(lacks[row[~empty]], -1, row[~empty])
        fields_ = len(self.codes)
        return Records(
            sources,
            empty,
            deleted,
            self.codes[:, versions],
            self.defaults[versions],
            np.repeat(versions[None, :], fields_, axis=0),
        )

    def gap(self, records: Records, group: int) -> Mask:
        """Returns records whose value in the group counts as missing."""
        return _mask_at(self._gaps[group], records.sources[group], True)

    def marked(self, records: Records) -> Mask:
        """Returns records that the payload class itself treats as deletes (`BaseAvroPayload.isDeleteRecord`)."""
        result: Mask = records.empty.copy()
        for name, mask in self._marks.items():
            result |= _mask_at(mask, records.sources[self._group_of[name]], False)
        return result

    def sequence(self, records: Records) -> tuple[npt.NDArray[np.int64], Mask]:
        """Returns the payload's own ordering values as codes, and which records have one."""
        if self._sequence is None:
            return np.zeros(len(records.empty), np.int64), np.zeros(len(records.empty), np.bool_)
        name, codes, valid = self._sequence
        sources = records.sources[self._group_of[name]]
        if not len(codes):
            return np.zeros(len(sources), np.int64), np.zeros(len(sources), np.bool_)
        return codes[np.maximum(sources, 0)], np.asarray(valid[np.maximum(sources, 0)] & (sources >= 0))

    def ordering_of_rows(self, records: Records) -> Records:
        """Returns the records with ordering values taken from their columns."""
        versions = records.ordering.copy()
        for number, name in enumerate(self.settings.ordering_fields):
            group = self._ordering_group(name)
            if group is not None:
                sources = records.sources[group]
                versions[number] = np.where(sources >= 0, sources, versions[number])
        codes = np.stack([self.codes[number, row] for number, row in enumerate(versions)])
        defaults = self.defaults[versions[0]]
        return Records(records.sources, records.empty, records.deleted, codes, defaults, versions)

    def _ordering_group(self, name: str) -> int | None:
        """Returns the group of an ordering field's column."""
        return self._group_of.get(name, self._group_of.get(name.partition(".")[0]))

    def has_ordering_value(self, records: Records) -> Mask:
        """Marks the records whose first ordering column is not null."""
        result: Mask = np.ones(len(records.empty), np.bool_)
        for name in self.settings.ordering_fields[:1]:
            group, values = self._ordering_group(name), values_at(self.rows, name)
            if group is None or values is None:
                return np.zeros(len(records.empty), np.bool_)
            valid = np.asarray(combined(values).is_valid())
            result = _mask_at(valid, records.sources[group], False)
        return result

    def table(self, records: Records) -> pa.Table:
        """Assembles the records as rows; columns that a record lacks are null."""
        columns: dict[str, pa.Array] = {}
        whole = np.arange(self.rows.num_rows, dtype=np.int32)
        for group, names in enumerate(self.groups):
            sources = records.sources[group]
            same = len(sources) == len(whole) and bool((sources == whole).all())
            taken = None if same else pa.array(sources, mask=sources < 0 if (sources < 0).any() else None)
            for name in names:
                column = combined(self.rows[name])
                columns[name] = column if taken is None else column.take(taken)
        ordered = [columns[name] for name in self.rows.column_names]
        return pa.Table.from_arrays(ordered, schema=self.rows.schema)

    def lacking(self, records: Records) -> dict[str, Mask]:
        """Returns, for each column that some records lack, a mask of those records."""
        result = {}
        for group, names in enumerate(self.groups):
            absent = (records.sources[group] < 0) & ~records.empty
            if absent.any():
                result.update(dict.fromkeys(names, absent))
        return result


def fold_versions(
    space: FoldSpace, logged: Versions, ids: Rows, count: int, *, partial_from: int | None = None
) -> Records:
    """Merges the versions within a log: one record for each key number 0..count-1.

    Args:
        ids: key number of each version.
        partial_from: versions from this position on fill only the columns that they lack; None: there are none.
    """
    order, starts, lengths = versions_by_key(ids, logged.position)
    heads = order[starts]
    result = space.first(heads, logged.deletes[heads])
    assert len(starts) == count
    live = np.flatnonzero(lengths > 1)
    number = 1
    while len(live):
        versions = order[starts[live] + number]
        newer = space.first(versions, logged.deletes[versions])
        late = np.zeros(len(live), np.bool_) if partial_from is None else logged.position[versions] >= partial_from
        older = result.take(live)
        result.put(live, combine(space, older, newer, logged.entries[versions], late))
        number += 1
        live = live[lengths[live] > number]
    return result


def combine(space: FoldSpace, older: Records, newer: Records, entries: Mask, late: Mask) -> Records:
    """Merges older with newer records.

    Args:
        entries: newer records that come from a delete block and are merged within the log.
        late: merges that only fill the columns that the winner lacks (log blocks of partial updates).
    """
    settings = space.settings
    if settings.payload is not None:
        return _combine_by_payload(space, older, newer)
    takes_newer = np.ones(len(older.empty), np.bool_)
    if settings.by_event_time:
        beaten = _is_greater(older.codes, newer.codes)
        takes_newer = newer.unconditional | older.unconditional | ~beaten
        obsolete = older.unconditional | (beaten & ~newer.defaults)
        takes_newer = np.where(entries, ~obsolete, takes_newer)
    high, low = choose(takes_newer, newer, older), choose(takes_newer, older, newer)
    both = ~(older.deleted | newer.deleted)
    for group in range(space.width):
        fills = both & np.where(late, high.sources[group] < 0, _table_gap(space, high, group))
        if fills.any():
            high.sources[group] = np.where(fills, low.sources[group], high.sources[group])
    return high


def _table_gap(space: FoldSpace, records: Records, group: int) -> Mask:
    if space.settings.partial is None:
        return np.zeros(len(records.empty), np.bool_)
    return space.gap(records, group)


def _combine_by_payload(space: FoldSpace, older: Records, newer: Records) -> Records:
    """Merges as `HoodieAvroRecordMerger.merge`: the payload's `combineAndGetUpdateValue`, within the log and over base
    rows."""
    payload = space.settings.payload
    unmerged = newer.unconditional | older.unconditional | older.empty
    dead = space.marked(newer)
    keeps = np.zeros(len(dead), np.bool_)  # the older record stays unchanged
    merged = newer
    if payload is Payload.PARTIAL_UPDATE:
        late = space.has_ordering_value(older) & _is_greater(older.codes, newer.codes) & ~newer.empty
        dead = dead | (late & space.marked(older))
        merged = _fill_gaps(space, older, newer, late)
    elif payload is Payload.OVERWRITE_NON_DEFAULTS:
        merged = _fill_gaps(space, older, newer, np.zeros(len(dead), np.bool_))
    elif payload is not None and payload.sequence_column is not None:
        (old, has_old), (new, has_new) = space.sequence(older), space.sequence(newer)
        keeps = has_old & has_new & (new < old) & ~newer.empty
    delete = choose(newer.deleted, newer, choose(older.deleted, older, _new_delete(older, newer)))
    result = choose(keeps, older, choose(dead, delete, merged))
    return choose(unmerged, newer, result)


def _fill_gaps(space: FoldSpace, older: Records, newer: Records, late: Mask) -> Records:
    """Fills gaps of the newer record from the older one; where `late`, the other way round except for meta columns."""
    sources = newer.sources.copy()
    for group in range(space.width):
        first, second = newer, older
        if late.any() and not space.meta[group]:
            first, second = choose(late, older, newer), choose(late, newer, older)
        gap = space.gap(first, group)
        sources[group] = np.where(gap, second.sources[group], first.sources[group])
    none = np.zeros(len(newer.empty), np.bool_)
    filled = Records(sources, none, none, newer.codes, newer.defaults, newer.ordering)
    return space.ordering_of_rows(filled)


def _new_delete(older: Records, newer: Records) -> Records:
    """Returns a delete with the greater ordering value of the two (`BufferedRecords.createDelete`)."""
    latest = choose(_is_greater(older.codes, newer.codes), older, newer)
    every = np.ones(len(older.empty), np.bool_)
    sources = np.full_like(newer.sources, -1)
    return Records(sources, every, every, latest.codes, latest.defaults, latest.ordering)


def _is_greater(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Mask:
    """Compares ordering values field by field; true where those of `first` are greater."""
    result = np.zeros(first.shape[1], np.bool_)
    equal = np.ones(first.shape[1], np.bool_)
    for own, other in zip(first, second, strict=True):
        result |= equal & (own > other)
        equal &= own == other
    return result


def _mask_at(mask: Mask, rows: Sources, missing: bool) -> Mask:
    """Selects a mask's values by row; `missing` for row -1."""
    if not len(mask):
        return np.full(len(rows), missing)
    return np.asarray(np.where(rows >= 0, mask[np.maximum(rows, 0)], missing))


def _gap_mask(column: pa.ChunkedArray, settings: MergeSettings) -> Mask | None:
    """Returns the values that count as missing; None if there are none."""
    ignores = settings.partial is PartialUpdate.IGNORE_DEFAULTS or settings.payload in (
        Payload.PARTIAL_UPDATE,
        Payload.OVERWRITE_NON_DEFAULTS,
    )
    if ignores:
        return true_where(column.is_null()) if column.null_count else None
    fills = settings.partial is PartialUpdate.FILL_UNAVAILABLE and settings.unavailable is not None
    if fills and settings.fills_bytes and pa.types.is_binary(column.type):
        return true_where(pc.equal(column, pa.scalar((settings.unavailable or "").encode(), column.type)))
    if fills and is_text(column.type):
        return true_where(pc.equal(column, pa.scalar(settings.unavailable, column.type)))
    return None


def _payload_marks(rows: pa.Table, settings: MergeSettings) -> dict[str, Mask]:
    """Returns, for each column that can mark deletes for the payload class, a mask of the rows that it marks."""
    result: dict[str, Mask] = {}
    if settings.payload is None:
        return result
    names = rows.column_names
    if IS_DELETED in names and pa.types.is_boolean(rows.schema.field(IS_DELETED).type):
        result[IS_DELETED] = true_where(rows[IS_DELETED])
    column = settings.payload.operation_column
    if column is not None and column in names:
        parts = [conform_array(part, pa.string(), path=column) for part in rows[column].chunks]
        text = pa.chunked_array(parts, pa.string())
        letter = "D" if settings.payload is Payload.AWS_DMS else "d"
        result[column] = true_where(pc.equal(pc.utf8_upper(text), letter.upper()))
    return result


def _sequence_codes(rows: pa.Table, payload: Payload) -> tuple[str, npt.NDArray[np.int64], Mask] | None:
    """Returns the column by which a Debezium payload orders rows, its values as codes in Java's order, and which are
    valid."""
    name = payload.sequence_column
    if name is None or name not in rows.column_names:
        return None
    column = combined(rows[name])
    valid = np.asarray(column.is_valid())
    if payload is Payload.POSTGRES_DEBEZIUM:
        return name, column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), valid
    codes, valid = binlog_positions(column)
    return name, codes, valid


def binlog_positions(column: pa.Array) -> tuple[npt.NDArray[np.int64], Mask]:
    """Converts texts `<file number>.<position>` to codes in Java's order, and tells which texts match
    (`MySqlDebeziumAvroPayload.isCurrentSeqLatest`)."""
    parts = pc.extract_regex(column.cast(pa.string()), r"^(?P<file>\d{1,18})\.(?P<pos>\d{1,18})")
    valid = np.asarray(column.is_valid()) & np.asarray(parts.is_valid())
    numbers = [part.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) for part in _sequence_members(parts)]
    order = np.lexsort((numbers[1], numbers[0]))
    changes = np.zeros(len(order), np.bool_)
    changes[1:] = np.any([part[order][1:] != part[order][:-1] for part in numbers], axis=0)
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(changes)
    return codes, valid


def _sequence_members(parts: pa.Array) -> Sequence[pa.Array]:
    # empty text where the pattern does not match
    return [pc.if_else(pc.equal(member, ""), None, member) for member in parts.flatten()]


class RowStore:
    """Numbered rows; merged rows are appended."""

    def __init__(self, rows: pa.Table) -> None:
        self._parts = [rows]
        self._count = rows.num_rows

    def add(self, rows: pa.RecordBatch) -> Rows:
        """Appends rows; returns their numbers."""
        self._parts.append(pa.Table.from_batches([rows]))
        first, self._count = self._count, self._count + rows.num_rows
        return np.arange(first, self._count, dtype=np.int64)

    def take(self, at: Rows) -> pa.RecordBatch:
        rows = self.table(at).combine_chunks()
        batches = rows.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)

    def table(self, rows: Rows) -> pa.Table:
        return pa.concat_tables(self._parts).take(pa.array(rows))


def fold_pairs(
    store: RowStore, merger: RecordMerger, name: str, ids: Rows, position: Rows, deleted: Mask
) -> tuple[Rows, Rows, Mask, Mask]:
    """Folds the versions of each key into one row.

    Args:
        store: the data rows, under the numbers of their versions; deletes may have none.
        ids, position, deleted: of each version its key number, its position in the log, and whether it is a delete.

    Returns:
        For each key: the number of its row; the number of its last version; whether it is deleted; and whether any of
        its versions deleted it, so that the base row must not be merged into it.
    """
    order, starts, lengths = versions_by_key(ids, position)
    row = order[starts].copy()
    last = row.copy()
    is_deleted = deleted[row].copy()
    was_deleted = is_deleted.copy()
    number = 1
    live = np.flatnonzero(lengths > 1)
    while len(live):
        newer = order[starts[live] + number]
        both = ~deleted[newer] & ~is_deleted[live]
        merged = newer.copy()
        removed = deleted[newer].copy()
        if both.any():
            merged[both], removed[both] = merge_rows(store, merger, name, row[live][both], newer[both])
        row[live], is_deleted[live], last[live] = merged, removed, newer
        was_deleted[live] |= removed
        number += 1
        live = live[lengths[live] > number]
    return row, last, is_deleted, was_deleted


def merge_rows(store: RowStore, merger: RecordMerger, name: str, older: Rows, newer: Rows) -> tuple[Rows, Mask]:
    """Merges pairs; returns the numbers of the new rows, and which of them are deletes."""
    rows, deleted = merge_pairs(merger, store.take(older), store.take(newer), name)
    return store.add(rows), np.asarray(deleted.to_numpy(zero_copy_only=False), np.bool_)
