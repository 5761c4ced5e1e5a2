"""Counts the rows of a split with as little reading as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hudi_py.read.base_file import BaseFileReader
from hudi_py.read.changes import ChangeSplit
from hudi_py.read.parts import merged_count
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.support import missing_file
from hudi_py.read.task import read_split_on
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.threads import in_threads


def is_counted_by_footer(split: object) -> bool:
    """Whether a split's rows are all those of its base file."""
    return isinstance(split, Split) and not split.merged and split.row_groups is None and _takes_all(split.spec)


def count_split(storage: Storage, split: Split) -> int:
    """Number of rows of a split, from footers, or else from the columns alone by which rows merge and are chosen.

    Raises what `read_split` raises.
    """
    try:
        if is_counted_by_footer(split):
            assert split.base_file is not None
            with BaseFileReader(storage, split.base_file) as reader:
                return reader.num_rows
        if _is_merged_whole(split):
            return merged_count(storage, split)
    except FileNotFoundError as error:
        raise missing_file(storage, split, error) from error
    bare = replace(split, spec=replace(split.spec, columns=()))
    return sum(batch.num_rows for batch in read_split_on(storage, bare))


def count_splits(
    spec: ReadSpec, splits: Sequence[Split], storage_options: Mapping[str, str] | None = None, *, threads: int = 1
) -> int:
    """Number of rows of splits without their spec, see `Pinned`. Raises what `read_split` raises.

    Args:
        threads: splits to count at once.
    """
    storage = open_storage(spec.uri, storage_options)
    return sum(in_threads(lambda split: count_split(storage, replace(split, spec=spec)), splits, threads))


def _takes_all(spec: ReadSpec) -> bool:
    return spec.filter is None and spec.commit_times is None and spec.keys is None


def _is_merged_whole(split: Split) -> bool:
    spec = split.spec
    has_both = not isinstance(split, ChangeSplit) and split.merged and split.base_file is not None
    return has_both and _takes_all(spec) and spec.mode == "merge" and not spec.emit_deletes and spec.limit is None
