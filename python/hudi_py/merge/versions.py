"""Versions of records from log blocks, in memory: data rows and delete entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.merge.entries import DEFAULT, KEY, POSITION
from hudi_py.merge.ordering import default_mask
from hudi_py.merge.reduce import Mask, Rows, Versions, delete_marks, row_ordering
from hudi_py.merge.settings import MergeSettings
from hudi_py.schema import RECORD_KEY


@dataclass(frozen=True, slots=True)
class LogVersions:
    """Versions in any order, with their positions in the log."""

    rows: pa.Table
    """Data rows with `_hoodie_record_key`."""
    position: Rows
    """Position of each row in the log, where delete entries count too."""
    entries: pa.Table
    """Delete entries, see `entries.entry_schema`."""
    absent: Mapping[str, Mask]
    """Columns that some rows lack because their block holds partial updates, with a mask of those rows."""
    partial_from: int | None = None
    """Position of the first version in a block of partial updates."""
    content_bytes: int = 0
    """Bytes of the log blocks that they were decoded from."""
    block_records: tuple[int, ...] = ()
    """Number of records of each of those blocks, in order; empty if only some of their records are included."""

    def __len__(self) -> int:
        return int(self.rows.num_rows + self.entries.num_rows)

    @property
    def nbytes(self) -> int:
        absent = sum(mask.nbytes for mask in self.absent.values())
        return int(self.rows.nbytes + self.entries.nbytes + self.position.nbytes + absent)

    def places(self) -> Rows:
        """Positions of the rows, then of the entries."""
        return np.concatenate([self.position, combined(self.entries[POSITION]).to_numpy(zero_copy_only=False)])

    def as_versions(self, settings: MergeSettings) -> Versions:
        """Rows, then entries, as input of a reduction."""
        count, entries = self.rows.num_rows, self.entries.num_rows
        ordering = row_ordering(self.rows, settings)
        marks = np.ones(count + entries, np.bool_)
        marks[:count] = delete_marks(self.rows, settings)
        entry_defaults = combined(self.entries[DEFAULT]).to_numpy(zero_copy_only=False)
        return Versions(
            keys=pa.concat_arrays([combined(self.rows[RECORD_KEY]), combined(self.entries[KEY])]),
            position=self.places(),
            deletes=marks,
            entries=np.arange(count + entries) >= count,
            defaults=np.concatenate([default_mask(ordering, count), entry_defaults]).astype(np.bool_),
            ordering=tuple(pa.concat_arrays([own, combined(self.entries[str(at)])]) for at, own in enumerate(ordering)),
        )


def concat_versions(parts: Sequence[LogVersions]) -> LogVersions:
    """All versions of the parts, of which there must be at least one."""
    if len(parts) == 1:
        return parts[0]
    names = {name for part in parts for name in part.absent}
    absent = {}
    for name in names:
        masks = [part.absent.get(name, np.zeros(part.rows.num_rows, np.bool_)) for part in parts]
        absent[name] = np.concatenate(masks)
    starts = [part.partial_from for part in parts if part.partial_from is not None]
    return LogVersions(
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.position for part in parts]),
        pa.concat_tables([part.entries for part in parts]),
        absent,
        min(starts, default=None),
        sum(part.content_bytes for part in parts),
        tuple(count for part in parts for count in part.block_records),
    )
