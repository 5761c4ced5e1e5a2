"""The rows of a merge's source, bound: the texts by which they match rows of the table, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.merge.ordering import ordering_codes
from hudi_py.write.dml.matching import partitions_of_source
from hudi_py.write.dml.merge_plan import BoundMerge
from hudi_py.write.settings import WriteSettings

Numbers = npt.NDArray[np.int64]
"""Row numbers, counted from 0."""


@dataclass(frozen=True)
class MergeSource:
    """The rows of the source with the texts by which they match rows of the table (`Matching`). A row whose text is
    null matches nothing."""

    bound: BoundMerge
    rows: pa.StructArray
    keys: pa.StringArray
    """The text of each row."""
    distinct: pa.StringArray
    by_key: Numbers
    """Numbers of the rows with a text, ordered by it."""
    starts: Numbers
    """Where the rows of each text in `distinct` begin in `by_key`, and where the last ones end."""
    partitions: pa.StringArray | None
    """The partition path of each row, if ON compares all partition columns; null if one of them is null."""

    @classmethod
    def of(cls, bound: BoundMerge, source: pa.Table, settings: WriteSettings) -> MergeSource:
        whole = source.combine_chunks()
        columns = [combined(column) for column in whole.columns]
        rows = pa.StructArray.from_arrays(columns, fields=list(whole.schema))
        inputs = pa.record_batch([rows], names=[bound.plan.source_alias])
        keys = bound.matching.of_source(inputs, settings.keygen)
        encoded = keys.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes, np.arange(len(encoded.dictionary) + 1), sorter=order)
        partitions = partitions_of_source(bound.partitions, inputs, settings.keygen) if bound.partitions else None
        return cls(bound, rows, keys, encoded.dictionary, order, starts, partitions)

    def inputs(self, numbers: Numbers | None = None) -> pa.RecordBatch:
        """Returns rows of the source, by default all, in the form that expressions over the source alone expect: a
        struct."""
        rows = self.rows if numbers is None else self.rows.take(pa.array(numbers))
        return pa.record_batch([rows], names=[self.bound.plan.source_alias])

    @cached_property
    def ordering(self) -> tuple[pa.Array, ...]:
        """The ordering values of the rows, a column for each field; none if the source does not have them.

        Raises:
            SchemaMismatchError: a value does not fit the table's column.
        """
        inputs = self.inputs()
        return tuple(column.evaluate(inputs) for column in self.bound.ordering)

    @cached_property
    def ranks(self) -> Numbers:
        """The position of each row among all rows by ordering value."""
        (codes,) = ordering_codes([self.ordering], [len(self.keys)])
        ranks = np.empty(len(codes), np.int64)
        ranks[np.argsort(codes, kind="stable")] = np.arange(len(codes))
        return ranks
