"""Which versions of rows belong to what is to be erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.formats.lookup import TextSet
from hudi_py.metadata.keys import secondary_keys
from hudi_py.read.filter import Filter
from hudi_py.schema import RECORD_KEY

Mask = npt.NDArray[np.bool_]
_MIN_TEXT: Final = 6
"""Characters of a key from which on a text that holds it is no accident."""


@dataclass(frozen=True)
class ErasureScope:
    """A version belongs to what is erased if the filter is true of it, or if it has one of the keys and is no version
    of a row that stays.

    The keys are those given, or those of rows of which any version satisfies the filter: also rows that were deleted
    before. With a filter, rows of the newest state that do not satisfy it stay. Older versions of them that did are
    removed all the same.
    """

    condition: Filter | None
    keys: TextSet
    staying: Mapping[str, pa.StringArray] = field(default_factory=dict)
    """By partition path, those of the keys whose rows stay."""

    def mask(self, rows: pa.RecordBatch | pa.Table, partition: str) -> Mask:
        """Which rows belong to it. They have their record key, and the columns of the filter unless only the key is
        known."""
        found = self.has(combined(rows[RECORD_KEY]).cast(pa.string()), partition)
        return found if self.condition is None else found | satisfied(self.condition, rows)

    def has(self, keys: pa.StringArray, partition: str) -> Mask:
        """Which keys of rows in a partition belong to it."""
        found = self.keys.find(keys) >= 0
        staying = self.staying.get(partition)
        if staying is not None:
            found &= ~pc.is_in(keys, value_set=staying).to_numpy(zero_copy_only=False)
        return found

    @property
    def everywhere(self) -> pa.StringArray:
        """The keys of which no row stays in any partition."""
        staying = [keys for keys in self.staying.values() if len(keys)]
        if not staying:
            return self.keys.texts
        return self.keys.texts.filter(pc.invert(pc.is_in(self.keys.texts, value_set=pa.concat_arrays(staying))))

    def of_secondary(self) -> pa.StringArray:
        """The keys as they end an entry of a secondary index, with the separator."""
        return secondary_keys(pa.repeat(pa.scalar("", pa.string()), len(self.everywhere)), self.everywhere)

    def texts(self) -> tuple[bytes, ...]:
        """The keys that can be told in a file that is only searched for their bytes."""
        return tuple(key.encode() for key in self.everywhere.to_pylist() if len(key) >= _MIN_TEXT)


def satisfied(condition: Filter, rows: pa.RecordBatch | pa.Table) -> Mask:
    """Rows for which a filter is true; none if they lack its columns."""
    if not condition.columns <= set(rows.schema.names):
        return np.zeros(rows.num_rows, np.bool_)
    found: Mask = condition.evaluate(rows).fill_null(False).to_numpy(zero_copy_only=False)
    return found
