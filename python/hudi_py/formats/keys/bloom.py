"""Bloom filters of record keys, bit for bit equal to Java's.

Sources: `SimpleBloomFilter`, `HoodieDynamicBoundedBloomFilter`, `InternalDynamicBloomFilter`, `BloomFilterUtils` 1.2.0.

A simple filter is `int32 -1, int32 hashes, byte hash type, int32 bits`, then the bits. A dynamic one has the same first
13 bytes, then `int32 keys a row, int32 keys in the current row, int32 rows`, then each row as a simple filter. Footers
hold it as base64.

Apache Hudi sizes every filter for 60,000 keys, 435 kB, even for a file with one row. The bytes contain the filter's
size, and readers rely on that, so a filter of fewer keys may be smaller (`BloomConfig.sized`).
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.keys.hashing import Murmur, Texts

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"

_VERSION = -1
_MURMUR = 1
_HEADER = struct.Struct(">iibi")
_DYNAMIC_HEADER = struct.Struct(">iii")
_ROWS_AT_ONCE = 1 << 14
_SAMPLED_KEYS = 1000
"""Keys hashed at once, few enough to stay in the processor's cache."""
_MAX_BITS = 1 << 31
_MAX_HASHES = 1 << 10


@dataclass(frozen=True, slots=True)
class BloomConfig:
    """Size of a new filter; the defaults are Apache Hudi's."""

    num_entries: int = 60000
    """Number of keys, in each row of a dynamic filter, for which the rate below holds."""
    fpp: float = 1e-9
    """False positive rate."""
    max_entries: int = 100000
    """Number of keys beyond which a dynamic filter no longer grows."""
    type: str = DYNAMIC
    sized: bool = False
    """Whether the size of a filter with fewer than `num_entries` keys follows from its keys. For the same rate it
    takes 5.4 bytes a key. `BloomFilter.or`, which Apache Hudi calls when it clusters files by binary copy, needs
    filters of one size. A few sizes in steps would not help: files of two steps, and those of its own writers, would
    still differ."""

    def __post_init__(self) -> None:
        if self.type not in (SIMPLE, DYNAMIC):
            raise ConfigError(f"Cannot build a bloom filter of type {self.type!r}; supported: {SIMPLE}, {DYNAMIC}")
        if self.num_entries < 1 or not 0 < self.fpp < 1:
            raise ConfigError(
                f"Cannot build a bloom filter for {self.num_entries} entries and a false positive rate of {self.fpp}; "
                "expected at least one entry and a rate between 0 and 1"
            )
        if self.bits >= _MAX_BITS:
            raise ConfigError(
                f"Cannot build a bloom filter of {self.bits} bits ({self.num_entries} entries, rate {self.fpp}); "
                f"the format allows {_MAX_BITS - 1}"
            )

    @property
    def bits(self) -> int:
        """`BloomFilterUtils.getBitSize`."""
        return math.ceil(self.num_entries * (-math.log(self.fpp) / (math.log(2) * math.log(2))))

    @property
    def hashes(self) -> int:
        """`BloomFilterUtils.getNumHashes`."""
        return math.ceil(math.log(2) * self.bits / self.num_entries)


class BloomFilter:
    """A bloom filter over the UTF-8 bytes of record keys."""

    def __init__(self, config: BloomConfig) -> None:
        self._type = config.type
        self._config = config
        self._few: list[pa.Array] | None = [] if config.sized else None
        """The keys, as long as they are few enough for a smaller filter."""
        self._num_few = 0
        self._lay_out(config)

    def _lay_out(self, config: BloomConfig) -> None:
        self._bits = config.bits
        self._hashes = config.hashes
        self._row_entries = config.num_entries
        self._max_entries = config.max_entries
        self._in_row = 0
        self._full = 0
        self._rows = [self._empty_row()]

    @classmethod
    def from_keys(cls, keys: pa.Array | pa.ChunkedArray, config: BloomConfig) -> BloomFilter:
        """Builds a filter over a key column."""
        bloom = cls(config)
        bloom.add(keys)
        return bloom

    @classmethod
    def decode(cls, text: str, type_code: str | None, *, context: str = "") -> BloomFilter:
        """Decodes a filter from a footer.

        Args:
            text: value of `org.apache.hudi.bloomfilter`.
            type_code: value of `hoodie_bloom_filter_type_code`; None means `SIMPLE`.
            context: the file, for errors.

        Raises:
            CorruptFileError: the text is not a bloom filter.
            UnsupportedTableError: the filter is of another type, version or hash.
        """
        kind = type_code or SIMPLE
        if kind not in (SIMPLE, DYNAMIC):
            raise UnsupportedTableError(
                f"Cannot read the bloom filter of {context}: type {kind!r}; supported: {SIMPLE} and {DYNAMIC}"
            )
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError(f"Cannot read the bloom filter of {context}: {error}") from error
        try:
            return cls._from_bytes(data, kind, context)
        except struct.error as error:
            raise CorruptFileError(
                f"Cannot read the bloom filter of {context}: it ends after {len(data)} bytes"
            ) from error

    @classmethod
    def _from_bytes(cls, data: bytes, kind: str, context: str) -> BloomFilter:
        bloom = cls.__new__(cls)
        bloom._type = kind
        bloom._few = None
        bloom._hashes, bloom._bits = _filter_sizes(data, 0, context)
        bloom._full = 0
        rows = 1
        offset = 0
        bloom._row_entries = bloom._in_row = bloom._max_entries = 0
        if kind == DYNAMIC:
            bloom._row_entries, bloom._in_row, rows = _DYNAMIC_HEADER.unpack_from(data, _HEADER.size)
            offset = _HEADER.size + _DYNAMIC_HEADER.size
            # the maximum is not stored; as in Java it is 0 after decoding, so that the filter does not grow
        size = (bloom._bits + 7) // 8
        if rows < 1 or len(data) != offset + rows * (_HEADER.size + size):
            raise CorruptFileError(
                f"Cannot read the bloom filter of {context}: {rows} rows of {bloom._bits} bits in {len(data)} bytes"
            )
        bloom._rows = []
        for row in range(rows):
            start = offset + row * (_HEADER.size + size)
            if _filter_sizes(data, start, context) != (bloom._hashes, bloom._bits):
                raise CorruptFileError(f"Cannot read the bloom filter of {context}: row {row} differs in size")
            packed = np.frombuffer(data, np.uint8, size, start + _HEADER.size)
            bloom._rows.append(np.unpackbits(packed, count=bloom._bits, bitorder="little").view(np.bool_))
        return bloom

    @property
    def type_code(self) -> str:
        """`SIMPLE` or `DYNAMIC_V0`."""
        return self._type

    @property
    def row_bits(self) -> int:
        """Returns the number of bits of each row, which shows the number of keys that the filter is made for."""
        return self._bits

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Adds the keys of a string column, in order, ignoring nulls."""
        keys = keys.drop_null() if keys.null_count else keys
        if self._few is None:
            self._set(keys)
            return
        self._few += keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        self._num_few += len(keys)
        if self._num_few > self._config.num_entries:
            self._settle()

    def _settle(self) -> None:
        """Sets the bits of the buffered keys; from now on the filter has a fixed size."""
        few, self._few = self._few, None
        if few is None:
            return
        if self._num_few < self._config.num_entries:
            self._lay_out(replace(self._config, num_entries=max(self._num_few, 1)))
        for keys in few:
            self._set(keys)

    def _set(self, keys: pa.Array | pa.ChunkedArray) -> None:
        texts = Texts.of(keys)
        offset = 0
        while offset < len(texts):
            if self._type == SIMPLE:
                targets, count = [self._rows[0]], len(texts) - offset
            else:
                targets, count = self._next_rows(len(texts) - offset)
            for k in range(0, count, _ROWS_AT_ONCE):
                part = texts.take(slice(offset + k, offset + min(k + _ROWS_AT_ONCE, count)))
                positions = self._positions(part)
                if len(targets) == 1:
                    targets[0][positions.reshape(-1)] = True
                else:
                    for n, target in enumerate(targets):
                        target[positions[:, (n - k) % len(targets) :: len(targets)].reshape(-1)] = True
            offset += count

    def _next_rows(self, left: int) -> tuple[list[npt.NDArray[np.bool_]], int]:
        """Returns the rows that take the next keys in turn, and the number of keys for which that holds.

        `InternalDynamicBloomFilter.getActiveStandardBF`: once full, the first key goes to row 0, and later ones to the
        rows in turn, starting at row 0 again.
        """
        if self._full:
            turn = (self._full - 1) % len(self._rows)
            self._full += left
            self._in_row += left
            return self._rows[turn:] + self._rows[:turn], left
        if self._in_row >= self._row_entries:
            if len(self._rows) * self._row_entries >= self._max_entries:
                self._full = 1
                self._in_row += 1
                return self._rows[:1], 1
            self._rows.append(self._empty_row())
            self._in_row = 0
        count = min(left, self._row_entries - self._in_row)
        self._in_row += count
        return self._rows[-1:], count

    def _empty_row(self) -> npt.NDArray[np.bool_]:
        # one byte per bit while building, as setting bits of packed bytes is slower
        return np.zeros(self._bits, np.bool_)

    def _positions(self, texts: Texts) -> npt.NDArray[np.intp]:
        """Returns the keys' bit positions, one row per hash; each hash is the seed of the next (`HashFunction`)."""
        out = np.empty((self._hashes, len(texts)), np.intp)
        murmur = Murmur(texts)
        seed: int | npt.NDArray[np.int32] = 0
        for turn in range(self._hashes):
            seed = murmur.hash(seed)
            out[turn] = self._position(seed)
        return out

    def _position(self, hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
        # Math.abs(hash % bits): Java's remainder has the sign of the hash. NumPy's division is vectorised, but its
        # remainder is not, and the absolute value of the least number is right as an unsigned number
        positions: npt.NDArray[np.uint32] = np.abs(hashes).view(np.uint32)
        positions -= positions // np.uint32(self._bits) * np.uint32(self._bits)
        return positions

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Returns False for keys that are certainly absent, and for nulls."""
        self._settle()
        texts = Texts.of(keys)
        present = np.zeros(len(texts), np.bool_)
        for start in range(0, len(texts), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            present[some] = self._might_contain(texts.take(some))
        if keys.null_count:
            present[np.asarray(keys.is_null())] = False
        return present

    def might_contain_any(self, keys: pa.Array) -> bool:
        """Returns whether any of the keys may be present."""
        few = keys[
            :: max(len(keys) // _SAMPLED_KEYS, 1)
        ]  # spread over all keys: a file with keys in this range has many of them
        return bool(self.might_contain(few).any() or self.might_contain(keys).any())

    def _might_contain(self, texts: Texts) -> npt.NDArray[np.bool_]:
        result = np.zeros(len(texts), np.bool_)
        live = np.arange(len(texts))
        alive = np.ones((len(self._rows), len(texts)), np.bool_)
        murmur = Murmur(texts)
        seed: int | npt.NDArray[np.int32] = 0
        for _ in range(self._hashes):
            seed = murmur.hash(seed)
            position = self._position(seed)
            for row, bits in enumerate(self._rows):
                alive[row] &= bits[position]
            keep = np.flatnonzero(alive.any(axis=0))
            if len(keep) < 0.7 * len(live):  # narrowing costs about one round; most absent keys fail in the first two
                live, texts, seed, alive = live[keep], texts.take(keep), seed[keep], alive[:, keep]
                if not len(live):
                    break
                murmur = Murmur(texts)
        result[live[alive.any(axis=0)]] = True
        return result

    def encode(self) -> str:
        """Encodes the filter as text for a footer."""
        self._settle()
        header = _HEADER.pack(_VERSION, self._hashes, _MURMUR, self._bits)
        parts = []
        if self._type == DYNAMIC:
            parts += [header, _DYNAMIC_HEADER.pack(self._row_entries, self._in_row, len(self._rows))]
        for row in self._rows:
            parts += [header, np.packbits(row, bitorder="little").tobytes()]
        return base64.b64encode(b"".join(parts)).decode()


def _filter_sizes(data: bytes, offset: int, context: str) -> tuple[int, int]:
    """Reads the number of hashes and bits of the simple filter at an offset."""
    version, hashes, hash_type, bits = _HEADER.unpack_from(data, offset)
    if version != _VERSION or hash_type != _MURMUR:
        raise UnsupportedTableError(
            f"Cannot read the bloom filter of {context}: version {version} with hash {hash_type}; "
            f"supported: version {_VERSION} with hash {_MURMUR} (Murmur)"
        )
    if not 0 < hashes <= _MAX_HASHES or bits < 1:
        raise CorruptFileError(f"Cannot read the bloom filter of {context}: {hashes} hashes, {bits} bits")
    return hashes, bits
