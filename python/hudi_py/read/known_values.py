"""Finds the partition columns that have one value in all rows of a file slice.

The path of a partition is not enough: a global index keeps rows in their file group, whatever their new values. But
statistics of the slice's base file and of every log show whether the stored values are those of the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_py.errors import HudiError, StorageError
from hudi_py.metadata.files import warn_unused
from hudi_py.metadata.stats import ColumnRange, column_stats
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.read.partition import partition_values
from hudi_py.read.prune_files import metadata_of
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import KnownValues, Split

_MOST_FILES = 20_000
"""Files whose statistics are looked up, which takes a fourth of the time of planning the read."""


def known_values(snapshot: Snapshot, request: ScanRequest, splits: Sequence[Split]) -> list[KnownValues]:
    """For each split, its partition columns of which statistics show that all its rows have the value of the path.

    No values are known where rows are made of several versions or may be deletes, or without column statistics.
    """
    nothing: list[KnownValues] = [()] * len(splits)
    if not splits or not all(type(split) is Split for split in splits) or sum(map(_files, splits)) > _MOST_FILES:
        return nothing
    spec = splits[0].spec
    names = [name for name in snapshot.config.partition_fields if name in spec.columns]
    if spec.mode not in ("merge", "base") or spec.emit_deletes or (spec.merge is not None and spec.merge.folds):
        return nothing
    if not names or (spec.history is not None and spec.history.query is not None):
        return nothing
    kinds = {name: spec.table_schema.field(name).type for name in names}
    try:
        _, metadata = metadata_of(snapshot, request, listing=False, pruning=True)
        if metadata is None or not metadata.has(COLUMN_STATS):
            return nothing
        found = column_stats(metadata, kinds, [(split.partition, name) for split in splits for name in _names(split)])
    except StorageError:  # not damage
        raise
    except (HudiError, FileNotFoundError) as error:
        warn_unused(snapshot.storage.uri, error, "values of partition columns are taken as unknown")
        return nothing
    of_paths: dict[str, Mapping[str, pa.Scalar]] = {}
    for path in {split.partition for split in splits}:
        values = partition_values(snapshot.config, snapshot.schema, path)
        of_paths[path] = {name: values[name] for name in names if name in values}

    def known(split: Split) -> KnownValues:
        shown = {name for name, _ in split.partition_values}  # which may be another text than that of the files
        return tuple(
            (name, value)
            for name, value in of_paths[split.partition].items()
            if name not in shown
            and all(_is_only(found.get((name, split.partition, file)), value.as_py()) for file in _names(split))
        )

    return [known(split) for split in splits]


def _names(split: Split) -> list[str]:
    names = [str(log.name) for log in split.log_files]
    return names if split.base_file is None else [str(split.base_file.name), *names]


def _files(split: Split) -> int:
    return len(split.log_files) + (split.base_file is not None)


def _is_only(found: ColumnRange | None, value: Any) -> bool:
    """Whether statistics say that a file has no other value, and no null."""
    return found is not None and found.nulls == 0 and found.low == value and found.high == value
