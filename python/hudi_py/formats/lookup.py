"""Looks texts up in a set that is hashed once; `pyarrow.compute.index_in` hashes its set again for each batch."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.keys.hashing import Murmur, Texts

_AT_ONCE = 1 << 17
_SPARE_BITS = 1
"""Makes twice as many buckets as texts."""


class _Hashed(NamedTuple):
    """The hashes of a set in ascending order."""

    hashes: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.int64]
    """Index of the text with each hash."""
    starts: npt.NDArray[np.int64]
    """Index of the first hash of each bucket, by the highest bits; one item more than buckets."""
    shift: np.uint64


class TextSet:
    """Distinct texts. Threads may share one."""

    def __init__(self, texts: pa.StringArray) -> None:
        """
        Args:
            texts: without nulls.
        """
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, wanted: pa.StringArray | pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """Returns the index of each text in the set; -1 for texts that it lacks, and for nulls."""
        hashed = None if len(self.texts) <= len(wanted) else self._hashed
        if hashed is None:
            codes = pc.index_in(wanted, value_set=self.texts).fill_null(-1)
            return codes.to_numpy(zero_copy_only=False).astype(np.int64) if len(codes) else np.empty(0, np.int64)
        wanted = combined(wanted)
        numbers = np.full(len(wanted), -1, np.int64)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted.slice(start, _AT_ONCE)
            numbers[start : start + len(some)] = self._find(some, hashed)
        return numbers

    def places(self, wanted: pa.StringArray | pa.ChunkedArray) -> pa.Int64Array:
        """Finds texts as `find`, with nulls instead of -1, for Arrow's `take`."""
        numbers = self.find(wanted)
        return pa.array(numbers, mask=numbers < 0)

    def has(self, wanted: pa.StringArray | pa.ChunkedArray) -> pa.BooleanArray:
        """Tells for each text whether it is in the set; nulls are not."""
        return pa.array(self.find(wanted) >= 0)

    def _find(self, wanted: pa.StringArray, hashed: _Hashed) -> npt.NDArray[np.int64]:
        hashes = _text_hashes(wanted)
        bucket = (hashes >> hashed.shift).astype(np.int64)
        offset, end = hashed.starts[bucket], hashed.starts[bucket + 1]
        numbers = np.full(len(wanted), -1, np.int64)
        rows = np.flatnonzero(offset < end)
        while len(rows):  # as many rounds as the fullest bucket has hashes, which are few
            same = hashed.hashes[offset[rows]] == hashes[rows]
            numbers[rows[same]] = hashed.numbers[offset[rows[same]]]
            rows = rows[~same]
            offset[rows] += 1
            rows = rows[offset[rows] < end[rows]]
        hits = np.flatnonzero(numbers >= 0)
        same = true_where(pc.equal(self.texts.take(pa.array(numbers[hits])), wanted.take(pa.array(hits))))
        numbers[hits[~same]] = -1
        return numbers

    @cached_property
    def _hashed(self) -> _Hashed | None:
        """Hashes the set; None if two texts have the same hash."""
        parts = [_text_hashes(self.texts.slice(start, _AT_ONCE)) for start in range(0, len(self.texts), _AT_ONCE)]
        hashes = np.concatenate(parts)
        order = np.argsort(hashes)
        hashes = hashes[order]
        if (hashes[1:] == hashes[:-1]).any():
            return None
        bits = len(hashes).bit_length() + _SPARE_BITS
        shift = np.uint64(64 - bits)
        starts = np.searchsorted(hashes >> shift, np.arange((1 << bits) + 1, dtype=np.uint64))
        return _Hashed(hashes, order, starts.astype(np.int64), shift)


def _text_hashes(texts: pa.StringArray) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each string; undefined for nulls."""
    murmur = Murmur(Texts.of(texts))
    high = murmur.hash(0)
    hashes: npt.NDArray[np.uint64] = high.view(np.uint32).astype(np.uint64) << np.uint64(32)
    hashes |= murmur.hash(high).view(np.uint32)
    return hashes
