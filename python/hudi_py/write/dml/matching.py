"""Finds the rows of a table that match a row of the source by ON: by texts that both have, formed from the values that
ON compares. The rest of ON is a condition on pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.assigned import Expression
from hudi_py.formats.arrays import combined, true_where
from hudi_py.schema import RECORD_KEY
from hudi_py.write.dml.assignments import Assignment
from hudi_py.write.rows.keygen import KeyGenerator

_SEPARATOR = "\0"
"""Between a partition path and a record key, neither of which contains it."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The equalities in ON. Pickles.

    By `key columns`, ON compares all key columns with expressions of the source, and the text is the record key. By
    `record key`, it compares the meta column `_hoodie_record_key`, and possibly `_hoodie_partition_path`. By `values`,
    which is only for tables with generated keys, the text is formed from any values; without any, it is the same for
    all rows.
    """

    by: Literal["key columns", "record key", "values"]
    source: tuple[Assignment, ...]
    """Expressions of the source, in the types of the columns with which they are compared."""
    target: tuple[Expression, ...] = ()
    """The expressions of the table with which they are compared; only by `values`."""

    def of_source(self, inputs: pa.RecordBatch, keygen: KeyGenerator) -> pa.StringArray:
        """Returns the text of each row of the source; null if it matches nothing.

        Args:
            inputs: the rows, as structs in one column named as their alias.
        """
        values = [field.evaluate(inputs) for field in self.source]
        if self.by == "key columns":
            return scattered(values, self.source, keygen.record_keys, keygen.key_fields)
        if self.by == "record key":
            return pc.binary_join_element_wise(*values, _SEPARATOR)
        return _join_values(values, inputs.num_rows)

    def of_target(self, batch: pa.RecordBatch, partitions: pa.StringArray, alias: str) -> pa.StringArray:
        """Returns the text of each row of the table.

        Args:
            batch: their record keys, and at least the columns that `target` reads.
            partitions: their partition paths.
            alias: the table's, in expressions.
        """
        keys = combined(batch[RECORD_KEY])
        if self.says_partitions:
            return pc.binary_join_element_wise(partitions, keys, _SEPARATOR)
        if self.by != "values":
            return keys
        names = [name for name in batch.schema.names if name != RECORD_KEY]
        inputs = pa.record_batch([as_structs(batch, names)], names=[alias])
        return _join_values([expression.evaluate(inputs) for expression in self.target], batch.num_rows)

    def asked(self, texts: pa.StringArray) -> list[str] | None:
        """Returns the record keys that texts of the source ask for; None if texts do not contain the key."""
        if self.by == "values":
            return None if len(texts) else []
        keys = _split_texts(texts, 1) if self.says_partitions else texts
        keys_asked: list[str] = keys.unique().to_pylist()
        return keys_asked

    def partitions(self, texts: pa.StringArray) -> pa.StringArray | None:
        """Returns the partition path in each text of the source; None if texts do not contain it."""
        return _split_texts(texts, 0) if self.says_partitions else None

    @property
    def says_partitions(self) -> bool:
        """Whether the text contains a partition path."""
        return self.by == "record key" and len(self.source) > 1


def as_structs(batch: pa.RecordBatch, names: Sequence[str]) -> pa.StructArray:
    """Converts the columns of a batch to one column of structs."""
    if not names:
        nothing = pa.array(np.zeros(batch.num_rows, np.bool_))
        return pa.StructArray.from_arrays([], fields=[], mask=nothing)
    columns = [combined(batch[name]) for name in names]
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def partitions_of_source(fields: Sequence[Assignment], inputs: pa.RecordBatch, keygen: KeyGenerator) -> pa.StringArray:
    """Returns the partition path that each row of a source asks for, by `BoundMerge.partitions`; null if a part of it
    is null."""
    return scattered([field.evaluate(inputs) for field in fields], fields, keygen.partition_paths, ())


def scattered(
    values: Sequence[pa.Array],
    fields: Sequence[Assignment],
    made: Callable[[pa.RecordBatch], pa.StringArray],
    needed: Sequence[str],
) -> pa.StringArray:
    """Calls `made` for the rows without nulls, and returns its results, with null for the other rows. `needed`: columns
    of which at least one must not be an empty text."""
    known = np.ones(len(values[0]), np.bool_)
    some = np.zeros(len(values[0]), np.bool_) if needed else known.copy()
    for array in values:
        known &= array.is_valid().to_numpy(zero_copy_only=False)
        if needed:
            empty = (
                pc.equal(pc.binary_length(array), 0)
                if pa.types.is_string(array.type)
                else pa.array([False] * len(array))
            )
            some |= ~true_where(empty)
    rows_without_nulls = np.flatnonzero(known & some)
    batch = pa.record_batch(
        [column.take(pa.array(rows_without_nulls)) for column in values],
        schema=pa.schema([field.field for field in fields]),
    )
    places = np.full(len(known), -1, np.int64)
    places[rows_without_nulls] = np.arange(len(rows_without_nulls))
    return made(batch).take(pa.array(places, mask=places < 0))


def has_text(left: pa.DataType, right: pa.DataType) -> bool:
    """Returns whether equal values of two types, and only those, have the same text."""
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return True
    simple = (pa.types.is_string, pa.types.is_boolean, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_decimal)
    return left.equals(right) and any(is_kind(left) for is_kind in simple)


def _join_values(values: Sequence[pa.Array], rows: int) -> pa.StringArray:
    """Joins values to one text for each row, with the length of each part before it; null if a value is null."""
    pieces: list[pa.Array | str] = []
    for array in values:
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        text = array.cast(pa.string())
        pieces += [pc.binary_length(text).cast(pa.string()), ":", text]
    return pc.binary_join_element_wise(*pieces, "") if pieces else pa.repeat(pa.scalar("", pa.string()), rows)


def _split_texts(texts: pa.StringArray, number: int) -> pa.StringArray:
    """Returns the partition paths (0) or record keys (1) of texts that contain both."""
    return pc.list_element(pc.split_pattern(texts, _SEPARATOR, max_splits=1), number)
