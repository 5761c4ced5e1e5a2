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
from itertools import chain

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
    threads: int = 1,
    check_key: Callable[[BaseFile, str], None] | None = None,
) -> Tagging:
    """Looks up the keys of one partition's incoming rows.

    Args:
        slices: the latest slices of the partition; ones without base file are passed over.
        keys: one per row, without nulls; may repeat.
        executor: reads base files side by side.
        threads: how many the executor has.
        check_key: called with each base file and its first key, to raise where the keys are made in another way.
    """
    encoded = keys.dictionary_encode()
    wanted = _Keys(encoded.dictionary)
    codes = encoded.indices.to_numpy().astype(np.int64)
    with_base = [(slice_, slice_.base_file) for slice_ in slices if slice_.base_file is not None]

    def look_up(bases: Sequence[BaseFile]) -> list[Rows]:
        return _find(storage, bases, wanted, settings, check_key)

    bases = [base for _, base in with_base]
    each = max(-(-len(bases) // (2 * threads)), 1)
    parts = [bases[at : at + each] for at in range(0, len(bases), each)]
    hits = list(executor.map(look_up, parts) if executor is not None and len(parts) > 1 else map(look_up, parts))
    known = np.zeros(len(wanted.keys), np.bool_)
    found = []
    for (slice_, _), hit in zip(with_base, chain.from_iterable(hits), strict=True):
        if len(hit):
            known[hit] = True
            found.append((slice_, _rows_with(hit, codes, len(wanted.keys))))
    return Tagging(tuple(found), np.flatnonzero(~known[codes]))


def _rows_with(keys: Rows, codes: Rows, distinct: int) -> Rows:
    """Numbers of the rows with some of the distinct keys, ascending."""
    if len(codes) == distinct:  # keys are numbered as they first appear
        return keys
    hit = np.zeros(distinct, np.bool_)
    hit[keys] = True
    return np.flatnonzero(hit[codes])


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
    bases: Sequence[BaseFile],
    wanted: _Keys,
    settings: IndexSettings,
    check_key: Callable[[BaseFile, str], None] | None,
) -> list[Rows]:
    """For each base file the numbers of the distinct keys that it holds, ascending.

    A search makes a hash table of all keys that are sought. Files smaller than that are searched many at a time.
    """
    found = [np.empty(0, np.int64) for _ in bases]
    if not len(wanted.keys):
        return found
    most = max(_LOOKUP_ROWS, len(wanted.keys))
    waiting: list[tuple[int, pa.ChunkedArray]] = []
    rows = 0
    for at, base in enumerate(bases):
        with open_parquet(storage, base.path) as file:
            footer = footer_of(file, base.path)
            if check_key is not None and footer.min_key:
                check_key(base, footer.min_key)
            candidates = _candidates(wanted, footer, settings)
            if not len(candidates):
                continue
            batches = batches_of(file, [RECORD_KEY], batch_rows=_LOOKUP_ROWS)
            keys = pa.chunked_array([batch.column(0) for batch in batches], wanted.keys.type)
        if len(candidates) > len(keys):
            waiting.append((at, keys))
            rows += len(keys)
            if rows >= most:
                _search(waiting, wanted.keys, found)
                waiting, rows = [], 0
        else:
            _search([(at, keys)], wanted.keys.take(pa.array(candidates)), found)
            found[at] = candidates[found[at]]
    _search(waiting, wanted.keys, found)
    return found


def _candidates(wanted: _Keys, footer: BaseFileFooter, settings: IndexSettings) -> Rows:
    """Numbers of the distinct keys that a base file may hold, ascending."""
    candidates = np.arange(len(wanted.keys), dtype=np.int64)
    if settings.prune_by_ranges or settings.type == SIMPLE:
        mask = wanted.in_range(footer)
        if mask is not None:
            candidates = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    if settings.type == BLOOM and len(candidates) and footer.bloom is not None:
        candidates = candidates[footer.bloom.might_contain(wanted.keys.take(pa.array(candidates)))]
    return candidates


def _search(files: Sequence[tuple[int, pa.ChunkedArray]], keys: pa.StringArray, found: list[Rows]) -> None:
    """Puts the numbers of `keys` that some files hold where `found` has those of each file."""
    if not files:
        return
    chunks = [chunk for _, held in files for chunk in held.chunks]
    places = pc.index_in(pa.chunked_array(chunks, keys.type), value_set=keys).fill_null(-1).to_numpy()
    start = 0
    for at, held in files:
        some = np.unique(places[start : start + len(held)])
        found[at] = some[some >= 0].astype(np.int64)
        start += len(held)
