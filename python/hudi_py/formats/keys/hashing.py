"""Hash functions of Java, Hadoop and xxHash over Arrow strings, all rows at once.

Sources: `java.lang.String.hashCode`; `org.apache.hudi.common.util.hash.MurmurHash` 1.2.0, which is Hadoop's; XXH32 and
XXH64 of the xxHash specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.formats.arrays import combined


@dataclass(frozen=True, slots=True)
class Texts:
    """Byte spans of strings within one buffer; selecting rows is cheap."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    """Bytes."""

    @classmethod
    def of(cls, strings: pa.Array | pa.ChunkedArray) -> Texts:
        """Returns the UTF-8 bytes of a string, large string or binary column. Spans of nulls are meaningless."""
        strings = combined(strings)
        if pa.types.is_string_view(strings.type) or pa.types.is_dictionary(strings.type):
            strings = strings.cast(pa.large_string())
        large = pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type)
        _, offsets, data = strings.buffers()
        if offsets is None or not len(strings):
            return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        bounds = np.frombuffer(offsets, np.int64 if large else np.int32)
        bounds = bounds[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
        content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        # only the bytes of these rows: a slice keeps its parent's whole buffer
        content = content[bounds[0] : bounds[-1]]
        return cls(content, bounds[:-1] - bounds[0], np.diff(bounds))

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Texts:
        """Selects rows, over the same buffer."""
        return Texts(self.data, self.starts[rows], self.lengths[rows])


def java_string_hash(strings: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Computes `String.hashCode` of every string, over UTF-16 units; 0 for nulls.

    Raises:
        CorruptFileError: a string is not UTF-8.
    """
    texts = Texts.of(strings)
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] = texts.data
    starts, lengths = texts.starts, texts.lengths
    if (texts.data & 0x80).any():
        try:
            units = np.frombuffer(texts.data.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16)
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"Cannot hash {len(texts)} strings: not UTF-8 ({error})") from error
        # a character's first byte adds 1 to the UTF-16 length, or 2 beyond U+FFFF
        added = ((texts.data & 0xC0) != 0x80).astype(np.int64) + (texts.data >= 0xF0)
        before = np.zeros(len(texts.data) + 1, np.int64)
        np.cumsum(added, out=before[1:])
        starts, lengths = before[starts], before[starts + lengths] - before[starts]
    return _polynomial_hash(units, starts, lengths, strings)


def avro_utf8_hash(strings: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Computes `org.apache.avro.util.Utf8.hashCode` of every string, over signed bytes; 0 for nulls."""
    texts = Texts.of(strings)
    return _polynomial_hash(texts.data.view(np.int8), texts.starts, texts.lengths, strings)


def _polynomial_hash(
    units: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], strings: pa.Array
) -> npt.NDArray[np.int32]:
    """Sums each string's units times powers of 31, as Java computes hashes; 0 for nulls."""
    hashes = np.zeros(len(starts), np.uint32)
    shared = int(lengths.min()) if len(lengths) else 0
    for index in range(shared):
        hashes *= np.uint32(31)
        hashes += units[starts + index].astype(np.uint32)
    live = np.flatnonzero(lengths > shared)
    index = shared
    while len(live):
        hashes[live] = hashes[live] * np.uint32(31) + units[starts[live] + index].astype(np.uint32)
        index += 1
        live = live[lengths[live] > index]
    if strings.null_count:
        hashes[np.asarray(strings.is_null())] = 0
    return hashes.view(np.int32)


class Murmur:
    """Hadoop's MurmurHash of many texts, prepared for hashing with several seeds.

    It differs from standard Murmur2 in the tail: the last of up to three bytes is xored unshifted, the one before it
    shifted by 8, the third last by 16, each sign-extended like Java's bytes.
    """

    def __init__(self, texts: Texts) -> None:
        data, starts, lengths = texts.data, texts.starts, texts.lengths
        self._lengths = lengths.astype(np.uint32)
        words = _unaligned_view(data, np.dtype("<u4"))
        count = lengths >> 2
        shared = int(count.min()) if len(count) else 0
        # mixing a word does not depend on the seed, so it is done once
        self._shared = [_scrambled_words(words[starts + 4 * index]) for index in range(shared)]
        self._some: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.uint32]]] = []
        live = np.flatnonzero(count > shared)
        offset = shared
        while len(live):
            self._some.append((live, _scrambled_words(words[starts[live] + 4 * offset])))
            offset += 1
            live = live[count[live] > offset]
        rest = lengths & 3
        self._rows = np.flatnonzero(rest)
        last = (starts + lengths - 1)[self._rows]
        signed = data.view(np.int8)
        tail = signed[last].astype(np.int32)
        for back, shift in ((1, 8), (2, 16)):
            some = np.flatnonzero(rest[self._rows] > back)
            tail[some] ^= signed[last[some] - back].astype(np.int32) << shift
        self._tail = tail.view(np.uint32)

    def hash(self, seed: int | npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Returns the hash of each text, with one seed for all or one for each."""
        seeds = seed.view(np.uint32) if isinstance(seed, np.ndarray) else np.uint32(seed & 0xFFFFFFFF)
        hashes: npt.NDArray[np.uint32] = seeds ^ self._lengths
        for words in self._shared:
            hashes *= _M
            hashes ^= words
        for rows, words in self._some:
            hashes[rows] = (hashes[rows] * _M) ^ words
        if len(self._rows) == len(hashes):
            hashes = (hashes ^ self._tail) * _M
        elif len(self._rows):
            hashes[self._rows] = (hashes[self._rows] ^ self._tail) * _M
        hashes ^= hashes >> np.uint32(13)
        hashes *= _M
        hashes ^= hashes >> np.uint32(15)
        return hashes.view(np.int32)


_M = np.uint32(0x5BD1E995)


def _scrambled_words(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words


def xx_hash32(strings: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """Computes XXH32 with seed 0 of the UTF-8 bytes of every string. Nulls have meaningless hashes."""
    texts = Texts.of(strings)
    words, offset, lengths = _unaligned_view(texts.data, np.dtype("<u4")), texts.starts.copy(), texts.lengths
    hashes = np.full(len(texts), _P5, np.uint32)
    stripes = lengths >> 4
    live = np.flatnonzero(stripes)
    lanes = np.empty((4, len(live)), np.uint32)
    lanes.T[:] = _STARTS
    left = stripes[live]
    while len(left) and (some := np.flatnonzero(left > 0)).size:
        rows = live[some]
        for lane in range(4):
            lanes[lane, some] = _rotated_words(lanes[lane, some] + words[offset[rows] + 4 * lane] * _P2, 13) * _P1
        offset[rows] += 16
        left[some] -= 1
    hashes[live] = 0
    for number, bits in enumerate((1, 7, 12, 18)):
        hashes[live] += _rotated_words(lanes[number], bits)
    hashes += lengths.astype(np.uint32)
    for number in range(3):
        rows = np.flatnonzero((lengths >> 2) & 3 > number)
        hashes[rows] = _rotated_words(hashes[rows] + words[offset[rows]] * _P3, 17) * _P4
        offset[rows] += 4
    for number in range(3):
        rows = np.flatnonzero(lengths & 3 > number)
        hashes[rows] = _rotated_words(hashes[rows] + texts.data[offset[rows]].astype(np.uint32) * _P5, 11) * _P1
        offset[rows] += 1
    hashes ^= hashes >> np.uint32(15)
    hashes *= _P2
    hashes ^= hashes >> np.uint32(13)
    hashes *= _P3
    hashes ^= hashes >> np.uint32(16)
    return hashes


_P1, _P2, _P3, _P4, _P5 = map(np.uint32, (2654435761, 2246822519, 3266489917, 668265263, 374761393))
_STARTS = np.array([0x24234428, 2246822519, 0, 0x61C8864F], np.uint32)
"""Initial values of the four lanes: the sum of the first two primes, the second, 0, and minus the first."""


def _rotated_words(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return rotated


def xx_hash64(strings: pa.Array | pa.ChunkedArray, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Computes XXH64 of the UTF-8 bytes of every string. Nulls have meaningless hashes. With the seed 42 it is
    `xxhash64` of Spark SQL."""
    texts = Texts.of(strings)
    words, halves = _unaligned_view(texts.data, np.dtype("<u8")), _unaligned_view(texts.data, np.dtype("<u4"))
    offset, lengths = texts.starts.copy(), texts.lengths
    starts = [(seed + start) % (1 << 64) for start in (_Q1 + _Q2, _Q2, 0, -_Q1)]
    hashes = np.full(len(texts), (seed + _Q5) % (1 << 64), np.uint64)
    stripes = lengths >> 5
    live = np.flatnonzero(stripes)
    lanes = np.empty((4, len(live)), np.uint64)
    lanes.T[:] = np.array(starts, np.uint64)
    for number in range(int(stripes.max(initial=0))):
        some = np.flatnonzero(stripes[live] > number)
        rows = live[some]
        for lane in range(4):
            lanes[lane, some] = _round64(lanes[lane, some], words[offset[rows] + 8 * lane])
        offset[rows] += 32
    hashes[live] = 0
    for lane, bits in enumerate((1, 7, 12, 18)):
        hashes[live] += _rotated64(lanes[lane], bits)
    for lane in range(4):
        hashes[live] = (hashes[live] ^ _round64(np.zeros(len(live), np.uint64), lanes[lane])) * _U1 + _U4
    hashes += lengths.astype(np.uint64)
    for number in range(3):
        rows = np.flatnonzero((lengths >> 3) & 3 > number)
        hashes[rows] ^= _round64(np.zeros(len(rows), np.uint64), words[offset[rows]])
        hashes[rows] = _rotated64(hashes[rows], 27) * _U1 + _U4
        offset[rows] += 8
    rows = np.flatnonzero(lengths & 4)
    hashes[rows] = _rotated64(hashes[rows] ^ (halves[offset[rows]].astype(np.uint64) * _U1), 23) * _U2 + _U3
    offset[rows] += 4
    for number in range(3):
        rows = np.flatnonzero(lengths & 3 > number)
        hashes[rows] = _rotated64(hashes[rows] ^ (texts.data[offset[rows]].astype(np.uint64) * _U5), 11) * _U1
        offset[rows] += 1
    for shift, factor in ((33, _U2), (29, _U3)):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= factor
    hashes ^= hashes >> np.uint64(32)
    return hashes


_Q1, _Q2, _Q5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
_U1, _U2, _U3, _U4, _U5 = map(np.uint64, (_Q1, _Q2, 1609587929392839161, 9650029242287828579, _Q5))


def _round64(lane: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed: npt.NDArray[np.uint64] = _rotated64(lane + words * _U2, 31) * _U1
    return mixed


def _rotated64(values: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    rotated: npt.NDArray[np.uint64] = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated


def _unaligned_view(data: npt.NDArray[np.uint8], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns the number of that type at every offset, without a copy."""
    count = max(len(data) - kind.itemsize + 1, 0)
    view: npt.NDArray[Any] = np.ndarray((count,), kind, np.ascontiguousarray(data), strides=(1,))
    return view
