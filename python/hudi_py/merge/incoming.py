"""Reduces the rows of a write to one for each key, as Apache Hudi does before it looks the keys up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from hudi_py.formats.arrays import combined, is_text, last_of_each
from hudi_py.merge.fold import FoldSpace, RowStore, binlog_positions, fold_pairs, fold_versions
from hudi_py.merge.merger import load_merger
from hudi_py.merge.ordering import field_codes
from hudi_py.merge.reduce import Rows, row_versions, winning_rows
from hudi_py.merge.settings import EVENT_TIME, MergeSettings, Payload
from hudi_py.schema import PARTITION_PATH, RECORD_KEY

_POSITION = "_hudi_py_position"


def reduce_input(
    table: pa.Table, settings: MergeSettings, *, key_columns: Sequence[str] = (PARTITION_PATH, RECORD_KEY)
) -> pa.Table:
    """Reduces the rows to write to one for each key, in their order (`HoodieWriteHelper.deduplicateRecords`, 1.2.0).

    Args:
        table: rows to write, with the key columns; returned unchanged if no key repeats.
        settings: decide which row of a key wins, or how one is made of several; ties, and COMMIT_TIME_ORDERING, keep
            the later row.
        key_columns: the columns that make up a key; only the record key for global indexes.
    """
    ids, count = _key_numbers([combined(table[name]) for name in key_columns])
    if count == table.num_rows:
        return table
    compared, settings = table, replace(settings, fills_bytes=True)
    if settings.payload not in (None, Payload.PARTIAL_UPDATE):
        if settings.payload is Payload.MYSQL_DEBEZIUM:
            compared, settings = _by_binlog_position(table, settings)
        # `preCombine` of the other classes is inherited from OverwriteWithLatestAvroPayload: the greatest ordering
        # value wins
        settings = replace(settings, mode=EVENT_TIME, payload=None)
    if settings.folds:
        return _folded_input(table, settings, ids, count)
    position = np.arange(table.num_rows, dtype=np.int64)
    keys = combined(table[key_columns[-1]])
    rows = winning_rows(ids, count, row_versions(compared, settings, keys, position), settings)
    return table.take(pa.array(np.sort(rows)))


def _by_binlog_position(table: pa.Table, settings: MergeSettings) -> tuple[pa.Table, MergeSettings]:
    """Orders rows by the numbers in their ordering values `<file>.<position>` (`MySqlDebeziumAvroPayload.preCombine`).
    Other text, which is an error in Apache Hudi, is compared as such."""
    name = settings.ordering_fields[0] if settings.ordering_fields else ""
    if name not in table.column_names or not is_text(table.schema.field(name).type):
        return table, settings
    codes, valid = binlog_positions(combined(table[name]))
    if not valid.all():
        return table, settings
    return table.append_column(_POSITION, pa.array(codes)), replace(settings, ordering_fields=(_POSITION,))


def _folded_input(table: pa.Table, settings: MergeSettings, ids: Rows, count: int) -> pa.Table:
    """Folds each key's rows in input order. If the last one is a delete, returns that row."""
    table = table.combine_chunks()
    position = np.arange(table.num_rows, dtype=np.int64)
    versions = row_versions(table, settings, combined(table[RECORD_KEY]), position)
    last = last_of_each(ids, count)
    in_order = pa.array(np.argsort(last, kind="stable"))
    if settings.merger is not None:
        store = RowStore(table)
        name = settings.merger
        made, _, deleted, _ = fold_pairs(store, load_merger(name), name, ids, position, versions.deletes)
        # no row can record that the merger deleted it, so the last one meets the stored row
        return store.table(np.where(deleted, last, made)).take(in_order)
    (codes,) = field_codes([list(versions.ordering)], [table.num_rows])
    space = FoldSpace(table, settings, codes, versions.defaults)
    records = fold_versions(space, versions, ids, count)
    if records.empty.any():  # a payload class turned a row into a delete
        marked = np.flatnonzero(versions.deletes | space.marked(space.first(position, versions.deletes)))
        deleting = last.copy()
        deleting[ids[marked]] = marked
        records.sources[:, records.empty] = deleting[records.empty]
    return space.table(records).take(in_order)


def _key_numbers(columns: Sequence[pa.Array]) -> tuple[Rows, int]:
    """Numbers rows, equally if all their key columns are equal; also returns the number of distinct keys."""
    numbers = np.zeros(len(columns[0]), np.int64)
    count = min(len(columns[0]), 1)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if count <= 1:
            numbers, count = own, len(encoded.dictionary)
            continue
        if len(encoded.dictionary) <= 1:
            continue
        distinct, numbers = np.unique(numbers * np.int64(len(encoded.dictionary)) + own, return_inverse=True)
        numbers, count = numbers.reshape(-1).astype(np.int64), len(distinct)
    return numbers, count
