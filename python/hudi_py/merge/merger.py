"""Record mergers written in Python, for tables whose merge mode is CUSTOM.

A merger combines two rows into one, for many pairs at a time. The option `hoodie.py.record.merger` names it as
`module:Class`; every process that reads must be able to import the module. A table itself never names one. For example:

```python
class KeepTheCheaper:
    required_columns = ("price",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return hudi_py.merge.choose_rows(pc.less(newer["price"], older["price"]), newer, older)
```
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.schema import conform

RECORD_MERGER = read_config.RECORD_MERGER.key


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The result of merging pairs of rows."""

    rows: pa.RecordBatch
    """One for each pair, with the columns of the input."""
    deleted: pa.BooleanArray | None = None
    """Pairs whose record is deleted; None: none. A later version may insert the record again."""


@runtime_checkable
class RecordMerger(Protocol):
    """Merges two versions of a record into one. Instances are created without arguments, one for each file slice."""

    @property
    def required_columns(self) -> Sequence[str]:
        """Returns the table's columns that `merge` uses; they are read even if a query does not select them."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch | MergedRows:
        """Merges pairs of versions: row i of `newer` was written after row i of `older`, under the same key.

        `older` are log rows or base rows, `newer` are log rows. Several versions of a record are merged oldest first,
        two at a time. Deletes are not passed: the later of a delete and a row wins.

        Args:
            older: a batch with `_hoodie_record_key`, `required_columns`, and the other columns that the query reads, in
                the table's types.
            newer: a batch of the same schema and length.

        Returns:
            The same number of rows, with the same columns and types; columns may have any order.
        """


def choose_rows(condition: pa.BooleanArray, first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    """Chooses rows from `first` where the condition is true, and from `second` where it is false or null; both have the
    same schema."""
    count = first.num_rows
    mask = condition.fill_null(False).to_numpy(zero_copy_only=False)
    index = np.where(mask, 0, count) + np.arange(count)
    both = pa.Table.from_batches([first, second], first.schema).combine_chunks()
    chosen = both.take(pa.array(index)).combine_chunks().to_batches()
    return chosen[0] if chosen else first.slice(0, 0)


def load_merger(name: str) -> RecordMerger:
    """Creates the merger `module:Class`.

    Raises:
        ConfigError: the module or class cannot be loaded, or is not a merger.
    """
    module, _, attribute = name.partition(":")
    try:
        result = getattr(importlib.import_module(module.strip()), attribute.strip())
        merger = result()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Option {RECORD_MERGER} = '{name}' cannot be used: {error}; the module must be importable wherever the "
            "table is read (on Spark: on the workers too), and the class must take no arguments"
        ) from error
    columns = getattr(merger, "required_columns", None)
    if not callable(getattr(merger, "merge", None)) or isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ConfigError(
            f"Option {RECORD_MERGER} = '{name}' is not a merger: it needs a method merge(older, newer) and "
            "required_columns, a sequence of column names (see hudi_py.merge.RecordMerger)"
        )
    assert isinstance(merger, RecordMerger)
    return merger


def merge_pairs(
    merger: RecordMerger, older: pa.RecordBatch, newer: pa.RecordBatch, name: str
) -> tuple[pa.RecordBatch, pa.BooleanArray]:
    """Calls a merger and checks its result. Returns the rows in the schema of `older`, and which of them are deleted.

    Raises:
        SchemaMismatchError: the merger returned other columns or another number of rows.
    """
    problem = merger.merge(older, newer)
    rows, deleted = (problem.rows, problem.deleted) if isinstance(problem, MergedRows) else (problem, None)
    missing = [column for column in older.schema.names if column not in rows.schema.names]
    if missing or rows.num_rows != older.num_rows:
        returned = f"no column '{missing[0]}'" if missing else f"{rows.num_rows} rows"
        raise SchemaMismatchError(
            f"Merger '{name}' returned {returned} for {older.num_rows} pairs of rows; it must return one row for each "
            "pair, with the columns it was given"
        )
    if deleted is None:
        deleted = pa.array([False] * rows.num_rows, pa.bool_())
    if len(deleted) != rows.num_rows:
        raise SchemaMismatchError(
            f"Merger '{name}' returned a `deleted` of {len(deleted)} values for {rows.num_rows} rows; it must have one "
            "value for each row"
        )
    return conform(rows, older.schema, context=f"merger '{name}'"), deleted.fill_null(False)
