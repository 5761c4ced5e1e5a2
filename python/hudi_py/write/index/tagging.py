"""Tagging incoming keys by the keys of base files: the SIMPLE and the BLOOM index (`HoodieSimpleIndex`,
`HoodieBloomIndex`, `HoodieKeyLookupHandle`, Apache Hudi 1.2.0).

Both look at base files only: a key that only a log deletes is still in its base file, and is tagged. Both are exact, so
what they rule out beforehand (key ranges, bloom filters) changes the time they take, not what they find.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.formats.parquet import BaseFileFooter, batches_of, footer_of, open_parquet
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import Storage

Rows = npt.NDArray[np.int64]

SIMPLE = "SIMPLE"
BLOOM = "BLOOM"
GLOBAL_RECORD_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
PARTITION_RECORD_INDEX = "RECORD_LEVEL_INDEX"
RECORD_INDEXES = frozenset({GLOBAL_RECORD_INDEX, PARTITION_RECORD_INDEX})
"""Types which look keys up in the metadata table's `record_index`, over all partitions or within one."""

_BUCKET_ID = re.compile(r"000\d{5}-")
"""A file id of the bucket index begins with the bucket's number in eight digits. Random ids of eight digits occur (one
in 43), but of those with three zeros first only one in 43,000."""
_BUCKET_FOLDER = ".hoodie/.bucket_index"
_LOOKUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How keys are looked up. Pickles."""

    type: str = SIMPLE
    """`hoodie.index.type`: SIMPLE, BLOOM, GLOBAL_RECORD_LEVEL_INDEX or RECORD_LEVEL_INDEX."""
    prune_by_ranges: bool = True
    """`hoodie.bloom.index.prune.by.ranges`."""
    moves_rows: bool = False
    """Whether a row goes to its own partition when its key is in another one
    (`hoodie.record.index.update.partition.path`)."""


@dataclass(frozen=True, slots=True)
class Tagging:
    """Where the keys of one partition are."""

    found: tuple[tuple[FileSlice, Rows], ...]
    """Slices that hold keys, and the numbers of the incoming rows with these keys, ascending. A row whose key lies in
    several file groups (duplicates made by inserts) is in several."""
    new: Rows
    """Numbers of the rows whose key is nowhere, ascending."""


def check_no_bucket_index(storage: Storage) -> None:
    """Raises ConfigError where the table has the folder that a bucket index with changing numbers of buckets keeps."""
    if storage.list(_BUCKET_FOLDER):
        raise _other_index("the table", f"it has a folder {_BUCKET_FOLDER}")


def check_index(slices: Iterable[FileSlice], partition: str, *, looks_up_keys: bool = True) -> None:
    """Refuses a partition that was written by another index, whose keys these ones would not find.

    With `looks_up_keys` False, for rows that are added without a look-up, only the bucket index's sign counts: all of
    its file groups must be buckets.

    Raises:
        ConfigError: says by what sign.
    """
    found = list(slices)
    sign = None
    without_base = next((slice_.file_id for slice_ in found if slice_.base_file is None), None)
    if without_base and looks_up_keys:
        sign = f"file group {without_base} has log files but no base file"
    elif found and all(_BUCKET_ID.match(slice_.file_id) for slice_ in found):
        sign = f"its file ids begin with bucket numbers, as {found[0].file_id} does"
    if sign:
        raise _other_index(f"partition '{partition}'", sign)


def _other_index(what: str, sign: str) -> ConfigError:
    return ConfigError(
        f"Cannot write to {what} with hoodie.index.type=SIMPLE or BLOOM: {sign}, so the table is written with another "
        "index (bucket, for example), which is not supported; write it with Apache Hudi"
    )


def tag_keys(
    storage: Storage,
    slices: Sequence[FileSlice],
    keys: pa.StringArray,
    settings: IndexSettings,
    *,
    executor: Executor | None = None,
    check_key: Callable[[BaseFile, str], None] | None = None,
) -> Tagging:
    """Looks up the keys of one partition's incoming rows.

    Args:
        slices: the latest slices of the partition; ones without base file are passed over.
        keys: one per row, without nulls; may repeat.
        executor: reads the base files of several slices at once.
        check_key: called with each base file and its first key, to raise where the keys are made in another way.
    """
    encoded = keys.dictionary_encode()
    wanted = _Keys(encoded.dictionary)
    codes = encoded.indices.to_numpy().astype(np.int64)
    with_base = [(slice_, slice_.base_file) for slice_ in slices if slice_.base_file is not None]

    def look_up(base: BaseFile) -> npt.NDArray[np.bool_]:
        return _find(storage, base, wanted, settings, check_key)

    bases = [base for _, base in with_base]
    hits = list(executor.map(look_up, bases) if executor is not None and len(bases) > 1 else map(look_up, bases))
    known = np.zeros(len(wanted.keys), np.bool_)
    found = []
    for (slice_, _), hit in zip(with_base, hits, strict=True):
        if hit.any():
            known |= hit
            found.append((slice_, np.flatnonzero(hit[codes])))
    return Tagging(tuple(found), np.flatnonzero(~known[codes]))


class _Keys:
    """Distinct incoming keys and their range."""

    def __init__(self, keys: pa.StringArray) -> None:
        self.keys = keys
        bounds = pc.min_max(keys)
        self.low, self.high = bounds["min"].as_py(), bounds["max"].as_py()
        # Java's footers hold the range by UTF-16 units, Arrow orders by UTF-8 bytes: alike below the surrogates only
        self.ascii = bool(pc.all(pc.string_is_ascii(keys)).as_py())

    def in_range(self, footer: BaseFileFooter) -> pa.Array | None:
        """Mask of the keys within a file's key range; None when the file does not say, so all are."""
        low, high = footer.min_key, footer.max_key
        if low is None or high is None or not self.ascii or not (low.isascii() and high.isascii()):
            return None
        return pc.and_(pc.greater_equal(self.keys, low), pc.less_equal(self.keys, high))


def _find(
    storage: Storage,
    base: BaseFile,
    wanted: _Keys,
    settings: IndexSettings,
    check_key: Callable[[BaseFile, str], None] | None,
) -> npt.NDArray[np.bool_]:
    """For each distinct key whether the base file holds it."""
    hit = np.zeros(len(wanted.keys), np.bool_)
    if not len(hit):
        return hit
    with open_parquet(storage, base.path) as file:
        footer = footer_of(file, base.path)
        if check_key is not None and footer.min_key:
            check_key(base, footer.min_key)
        candidates = np.arange(len(hit), dtype=np.int64)
        if settings.prune_by_ranges or settings.type == SIMPLE:
            mask = wanted.in_range(footer)
            if mask is not None:
                candidates = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
        if settings.type == BLOOM and len(candidates) and footer.bloom is not None:
            might = footer.bloom.might_contain(wanted.keys.take(pa.array(candidates)))
            candidates = candidates[might]
        if not len(candidates):
            return hit
        look_for = wanted.keys if len(candidates) == len(hit) else wanted.keys.take(pa.array(candidates))
        for batch in batches_of(file, [RECORD_KEY], batch_rows=_LOOKUP_ROWS):
            place = pc.index_in(batch.column(0), value_set=look_for).drop_null()
            hit[candidates[place.to_numpy()]] = True
        return hit
