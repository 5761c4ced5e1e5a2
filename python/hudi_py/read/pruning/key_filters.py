"""Prunes slices without logs whose base file cannot have the sought keys, by bloom filters from the metadata table or
from footers, and by the bounds in footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from hudi_py.errors import HudiError, StorageError
from hudi_py.expressions.filter import Filter
from hudi_py.formats.base.files import open_base_file
from hudi_py.formats.base.reader import OpenBaseFile
from hudi_py.metadata.locations import bloom_filters
from hudi_py.metadata.table import BLOOM_FILTERS
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.words import counted
from hudi_py.read.pruning.bounds import row_groups_to_read
from hudi_py.read.pruning.keys import key_bounds
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows, place_of
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads

_MAX_FOOTERS: Final = 256
"""Maximum number of footers read while planning; tasks read them anyway."""


def _has_filters(sought: SoughtRows) -> bool:
    return bool(sought.keys) and sought.metadata is not None and sought.metadata.has(BLOOM_FILTERS)


def _by_bloom_filter(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Returns the slices that remain after the bloom filters in the metadata table."""
    among, keys = _without_logs(slices), sought.keys or frozenset()
    if not among or sought.metadata is None:
        return None
    filters = bloom_filters(sought.metadata, [(file.partition, str(file.name)) for file in among])
    wanted = _sorted_keys(keys)
    matches = {place: item.might_contain_any(wanted) for place, item in filters.items()}
    sought.answered |= matches.keys()
    return Kept(_matching_slices(slices, matches), counted(len(keys), "key"))


def _by_footer(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Returns the slices that remain after the footers of base files that no bloom filter in the metadata table
    decided."""
    keys = sought.keys or frozenset()
    left = [file for file in _without_logs(slices) if place_of(file) not in sought.answered]
    left = [file for file in left if file.name.extension == "parquet"]
    if not 1 < len(left) <= _MAX_FOOTERS:
        return None
    kept = in_threads(lambda file: _may_have(sought.snapshot.storage, file, keys), left)
    return Kept(_matching_slices(slices, dict(zip(map(place_of, left), kept, strict=True))), counted(len(keys), "key"))


def _may_have(storage: Storage, file: BaseFile, keys: frozenset[str]) -> bool:
    """Returns whether a base file may have one of the keys, by the bounds and the bloom filter in its footer."""
    wanted = _sorted_keys(keys)
    try:
        with open_base_file(storage, file.path) as opened:
            footer = opened.footer
            inside = footer.in_range(wanted)
            if inside is not None:
                wanted = wanted.filter(inside)
            elif footer.min_key is None and not _has_row_groups(opened, keys):
                return False
        bloom = footer.bloom if len(wanted) else None
        return bool(len(wanted)) and (bloom is None or bloom.might_contain_any(wanted))
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError):
        return True  # reading the file raises the error


def _has_row_groups(file: OpenBaseFile, keys: frozenset[str]) -> bool:
    """Returns whether a row group may have one of the keys, by the statistics of the key column."""
    if file.parquet is None:
        return True
    node = key_bounds(keys)[0]
    groups = range(file.parquet.metadata.num_row_groups)
    return bool(row_groups_to_read(file.parquet, groups, Filter("", node.columns(), predicate=node)))


def _sorted_keys(keys: frozenset[str]) -> pa.Array:
    return pa.array(sorted(keys), pa.string())


def _without_logs(slices: Sequence[FileSlice]) -> list[BaseFile]:
    """Returns the base files of slices without logs."""
    return [slice_.base_file for slice_ in slices if slice_.base_file is not None and not slice_.log_files]


def _matching_slices(slices: Sequence[FileSlice], matches: Mapping[tuple[str, str], bool]) -> list[FileSlice]:
    """Removes slices without logs whose base file does not match."""
    missed = {id(file) for file in _without_logs(slices) if not matches.get(place_of(file), True)}
    return [slice_ for slice_ in slices if id(slice_.base_file) not in missed]


BY_BLOOM_FILTER: Final = Pruner("bloom filters", _has_filters, _by_bloom_filter)
BY_FOOTER: Final = Pruner("footers", lambda sought: bool(sought.keys), _by_footer, by_metadata=False)
