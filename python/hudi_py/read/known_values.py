"""The partition columns that have one value in all rows of a file slice: that of the path, see `partition.path_values`.

Files may hold others: a global index keeps rows in their file group, whatever their new values. Statistics show where
they do not, so that a generic reader shows the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hudi_py.errors import HudiError, StorageError
from hudi_py.metadata.files import warn_unused
from hudi_py.metadata.stats import ColumnRange, column_stats
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import KnownValues, Split

_MAX_FILES = 20_000
"""Files whose statistics are looked up, which takes a fourth of the time of planning the read."""
_INSTEAD = "footers of base files are read instead"


def known_values(split: Split) -> KnownValues:
    """The columns of the split that are partition columns with a value, which is the same in all of its rows."""
    if type(split) is not Split:
        return ()
    columns = split.spec.columns
    return tuple((name, value) for name, value in split.partition_values if name in columns and value.is_valid)


def stored_alike(snapshot: Snapshot, request: ScanRequest, splits: Sequence[Split]) -> list[frozenset[str]]:
    """For each split, the columns with a value from the path of which column statistics show that the base file has no
    other value, and no null."""
    nothing: list[frozenset[str]] = [frozenset()] * len(splits)
    wanted = [[name for name, _ in split.partition_values if name in split.spec.wanted_columns] for split in splits]
    names = sorted({name for some in wanted for name in some})
    files = [
        (split.partition, str(split.base_file.name))
        for split, some in zip(splits, wanted, strict=True)
        if some and split.base_file is not None
    ]
    if not files or len(files) > _MAX_FILES:
        return nothing
    kinds = {name: splits[0].spec.table_schema.field(name).type for name in names}
    try:
        metadata = snapshot.metadata(_INSTEAD) if request.use_metadata and request.use_indexes else None
        if metadata is None or not metadata.has(COLUMN_STATS):
            return nothing
        found = column_stats(metadata, kinds, files)
    except StorageError:  # not damage
        raise
    except (HudiError, FileNotFoundError) as error:
        warn_unused(snapshot.storage.uri, error, _INSTEAD)
        return nothing

    def alike(split: Split) -> frozenset[str]:
        base = split.base_file
        if base is None:
            return frozenset()
        return frozenset(
            name
            for name, value in split.partition_values
            if value.is_valid and _is_only(found.get((name, split.partition, str(base.name))), value.as_py())
        )

    return [alike(split) for split in splits]


def _is_only(found: ColumnRange | None, value: Any) -> bool:
    """Whether statistics say that a file has no other value, and no null."""
    return found is not None and found.nulls == 0 and found.low == value and found.high == value
