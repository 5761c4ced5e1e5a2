"""Mergers in Python, for tables whose merge mode is CUSTOM: a class which makes one row of two, many at a time.

A merger is named by the option `hoodie.py.record.merger` as `module:Class`, where its module can be imported by every
process that reads; nothing in a table names one. For example:

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

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.schema import conform

RECORD_MERGER = "hoodie.py.record.merger"
"""The option that names a merger."""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """What a merger made of pairs of rows."""

    rows: pa.RecordBatch
    """One for each pair, with the columns of the input."""
    deleted: pa.BooleanArray | None = None
    """Pairs whose record is deleted; None: none is. What comes later may bring it back."""


@runtime_checkable
class RecordMerger(Protocol):
    """Makes one version of two of the same record. Instances are made without arguments, one for each file slice."""

    @property
    def required_columns(self) -> Sequence[str]:
        """Columns of the table which `merge` looks at; they are read even when a query does not ask for them."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch | MergedRows:
        """Merges pairs of versions: row i of `newer` was written after row i of `older`, under the same key.

        Called with log rows (older and newer ones of the log) and with base rows as `older`; a record of several
        versions is merged oldest first, two at a time. Deletes do not come here: the later of a delete and a row wins.

        Args:
            older, newer: batches of one schema and one length: `_hoodie_record_key`, `required_columns`, and what else
                the query reads, with the table's types.

        Returns:
            As many rows, with the same columns and types, in any order of columns.
        """


def choose_rows(condition: pa.BooleanArray, first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    """Row by row `first` where the condition is true, `second` where it is false or null; both of one schema."""
    count = first.num_rows
    mask = condition.fill_null(False).to_numpy(zero_copy_only=False)
    at = np.where(mask, 0, count) + np.arange(count)
    both = pa.Table.from_batches([first, second], first.schema).combine_chunks()
    chosen = both.take(pa.array(at)).combine_chunks().to_batches()
    return chosen[0] if chosen else first.slice(0, 0)


def load_merger(name: str) -> RecordMerger:
    """A new merger of a class.

    Args:
        name: `module:Class`.

    Raises:
        ConfigError: there is no such module or class here, or it is no merger.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module.strip()), attribute.strip())
        merger = found()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Option {RECORD_MERGER} = '{name}' cannot be used: {error}; the module must be importable wherever the "
            "table is read (on Spark: on the workers too), and the class be made without arguments"
        ) from error
    columns = getattr(merger, "required_columns", None)
    if not callable(getattr(merger, "merge", None)) or isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ConfigError(
            f"Option {RECORD_MERGER} = '{name}' is no merger: it needs a method merge(older, newer) and "
            "required_columns, a sequence of column names (see hudi_py.merge.RecordMerger)"
        )
    assert isinstance(merger, RecordMerger)
    return merger


def merge_pairs(
    merger: RecordMerger, older: pa.RecordBatch, newer: pa.RecordBatch, name: str
) -> tuple[pa.RecordBatch, pa.BooleanArray]:
    """What a merger makes of pairs of rows, checked: the rows in the schema of `older`, and which are deleted.

    Raises:
        SchemaMismatchError: the merger returned other columns or another number of rows.
    """
    result = merger.merge(older, newer)
    rows, deleted = (result.rows, result.deleted) if isinstance(result, MergedRows) else (result, None)
    missing = [column for column in older.schema.names if column not in rows.schema.names]
    if missing or rows.num_rows != older.num_rows:
        found = f"no column '{missing[0]}'" if missing else f"{rows.num_rows} rows"
        raise SchemaMismatchError(
            f"Merger '{name}' returned {found} for {older.num_rows} pairs of rows; it must return one row for each "
            "pair, with the columns it was given"
        )
    if deleted is None:
        deleted = pa.array([False] * rows.num_rows, pa.bool_())
    if len(deleted) != rows.num_rows:
        raise SchemaMismatchError(
            f"Merger '{name}' told of {len(deleted)} rows whether they are deleted; made were {rows.num_rows}"
        )
    return conform(rows, older.schema, context=f"merger '{name}'"), deleted.fill_null(False)
