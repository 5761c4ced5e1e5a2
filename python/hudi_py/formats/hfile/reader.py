"""Reads HFiles completely, by keys or by prefixes, and fetches only the blocks it needs.

The block index has the position of each data block and the range of its keys. Files are written by HBase (Apache Hudi
0.x and 1.0) or by Apache Hudi itself (1.1 and later). Source: `HFileReaderImpl`, 1.2.0.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.hfile.blocks import (
    DATA,
    FILE_INFO,
    INTERMEDIATE_INDEX,
    LEAF_INDEX,
    META,
    ROOT_INDEX,
    TRAILER_LENGTH,
    ByteSource,
    MemorySource,
    parse_file_info,
    read_block,
    read_trailer,
)
from hudi_py.formats.hfile.entries import Entries, parse_entries
from hudi_py.formats.keys.bloom import BloomFilter

if TYPE_CHECKING:
    from hudi_py.storage import Storage

BLOOM_FILTER: Final = "bloomFilter"
SCHEMA: Final = "schema"
_MEMORY_VERSION: Final = "MAX_MEMSTORE_TS_KEY"
_NO_VERSION: Final = frozenset({b"", bytes(8)})
_LOAD_AHEAD: Final = TRAILER_LENGTH + (1 << 15)
"""Bytes at the end of the file to fetch at once; trailer, file info and most indexes fit."""
_GAP: Final = 1 << 17
"""Blocks with a smaller gap between them are fetched with one request."""
_REQUEST: Final = 1 << 23
_SMALL: Final = 1 << 14
"""Maximum size of a file or log block whose entries stay in memory."""
_ENTRY: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_SUFFIX: Final = 10
"""Bytes after the row in a complete key: family length, timestamp, type."""


class HFile:
    """An open HFile. Opening reads only its end.

    Attributes:
        num_entries: number of entries, from the trailer.
        info: the file info, by name.
    """

    def __init__(self, source: ByteSource, *, keep: bool = False) -> None:
        """`keep`: whether to hold on to the entries of blocks that were read.

        Raises CorruptFileError, or UnsupportedTableError for an unsupported version, codec or content.
        """
        self._source = source
        self._kept: dict[int, Entries] | None = {} if keep else None
        source.hold(max(0, source.length - _LOAD_AHEAD), min(source.length, _LOAD_AHEAD))
        self._trailer = trailer = read_trailer(source)
        source.hold(trailer.load_on_open_offset, source.length - trailer.load_on_open_offset)
        root = read_block(source, trailer.load_on_open_offset, ROOT_INDEX, trailer.codec)
        meta = read_block(source, root.end, ROOT_INDEX, trailer.codec)
        info = read_block(source, trailer.file_info_offset, FILE_INFO, trailer.codec)
        self.info: Mapping[str, bytes] = parse_file_info(info.payload, source)
        self.num_entries = trailer.entry_count
        self._root = parse_root(root.payload, trailer.data_index_count, source)
        self._meta = {
            entry.key: entry for entry in parse_root(meta.payload, trailer.meta_index_count, source, rows=False)
        }
        self._blocks: list[IndexEntry] | None = None
        if self.info.get(_MEMORY_VERSION, b"") not in _NO_VERSION:
            raise UnsupportedTableError(
                f"Cannot read the HFile {source.context}: its entries have versions ({_MEMORY_VERSION}="
                f"{self.info[_MEMORY_VERSION].hex()}); only files without are supported"
            )

    @property
    def schema(self) -> str | None:
        """Returns the Avro schema of the values as JSON; None if the file does not have it (log blocks)."""
        text = self.info.get(SCHEMA)
        return None if text is None else text.decode("utf-8", "replace")

    def meta_block(self, name: str) -> bytes | None:
        """Returns the content of a meta block; None if there is none of this name."""
        entry = self._meta.get(name.encode())
        if entry is None:
            return None
        return read_block(self._source, entry.offset, META, self._trailer.codec, entry.size).payload

    def bloom_filter(self) -> BloomFilter | None:
        """Returns the filter of the file's keys, if it has one."""
        content = self.meta_block(BLOOM_FILTER)
        if content is None:
            return None
        code = self.info.get("bloomFilterTypeCode")
        text = content.decode("ascii", "replace")
        return BloomFilter.decode(text, None if code is None else code.decode(), context=self._source.context)

    def scan(self) -> Entries:
        """Reads all entries, in order of their keys."""
        entries = Entries.concat(list(self._read(self._data_blocks())))
        if len(entries) != self.num_entries:
            raise self._source.corrupt(f"it has {len(entries)} entries, but its trailer records {self.num_entries}")
        return entries

    def batches(self) -> Iterator[Entries]:
        """Yields all entries in order of their keys, a block at a time; fetches several blocks at once."""
        return self._read(self._data_blocks())

    def lookup(self, keys: Iterable[bytes]) -> Entries:
        """Returns the entries with these keys; reads only blocks that can hold them."""
        wanted = sorted(set(keys))
        if not wanted:
            return Entries.empty()
        value_set = pa.array(wanted, pa.binary())
        blocks = blocks_of_keys(self._data_blocks(), wanted)
        result = []
        for entries in self._read(blocks):
            # only the keys in the block's range: hashing all keys for each block would be quadratic
            low = bisect_left(wanted, entries.keys[0].as_py())
            high = bisect_right(wanted, entries.keys[-1].as_py())
            result.append(entries.with_keys(value_set.slice(low, high - low)))
        return Entries.concat(result)

    def lookup_prefixes(self, prefixes: Iterable[bytes]) -> Entries:
        """Returns the entries whose key starts with one of these; reads each block that can hold them once."""
        wanted = sorted(set(prefixes))
        blocks = blocks_of_prefixes(self._data_blocks(), wanted)
        return Entries.concat([entries.with_prefixes(wanted) for entries in self._read(blocks)])

    def _data_blocks(self) -> list[IndexEntry]:
        if self._blocks is None:
            trailer = self._trailer
            self._blocks = data_blocks(self._root, trailer.index_levels, trailer.codec, self._source)
        return self._blocks

    def _read(self, blocks: Sequence[IndexEntry]) -> Iterator[Entries]:
        offset = 0
        last: bytes | None = None
        while offset < len(blocks):
            behind = offset + 1
            while behind < len(blocks) and self._near(blocks[offset], blocks[behind - 1], blocks[behind]):
                behind += 1
            start, end = blocks[offset].offset, blocks[behind - 1].offset + blocks[behind - 1].size
            if start < 0 or any(b.size < 0 for b in blocks[offset:behind]) or end > self._source.length:
                raise self._source.corrupt(f"its index names a block from byte {start} to {end}")
            self._source.hold(start, end - start)
            for block in blocks[offset:behind]:
                entries = self._entries(block)
                if len(entries):
                    first = entries.keys[0].as_py()
                    if last is not None and first <= last:
                        raise self._source.corrupt("its keys do not ascend")
                    last = entries.keys[-1].as_py()
                    yield entries
            offset = behind

    def _entries(self, block: IndexEntry) -> Entries:
        value = self._kept.get(block.offset) if self._kept is not None else None
        if value is None:
            payload = read_block(self._source, block.offset, DATA, self._trailer.codec, block.size).payload
            value = parse_entries(payload, self._source)
            if self._kept is not None:
                self._kept[block.offset] = value
        return value

    @staticmethod
    def _near(first: IndexEntry, before: IndexEntry, after: IndexEntry) -> bool:
        end = before.offset + before.size
        return after.offset - end < _GAP and after.offset + after.size - first.offset < _REQUEST


def open_hfile(storage: Storage, path: str, size: int, *, offset: int = 0) -> HFile:
    """Opens an HFile of `size` bytes in a file, from `offset` on (a log block).

    Raises:
        CorruptFileError, UnsupportedTableError: see `HFile`.
        FileNotFoundError: the file does not exist.
    """
    source = ByteSource(storage, path, offset, size)
    content = source.whole if size <= _SMALL else None
    return HFile(source) if content is None else _small_file(content, source.context)


@lru_cache(maxsize=128)  # each commit reads the last few log blocks again
def _small_file(content: bytes, context: str) -> HFile:
    return HFile(MemorySource(content, context), keep=True)


def read_hfile(data: bytes, context: str = "in memory") -> HFile:
    """Opens an HFile in memory. Raises as `HFile`."""
    return HFile(MemorySource(data, context))


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A data block or a lower index block, with a lower bound of its keys."""

    key: bytes
    """Only the row. At most the block's first key, but greater than all keys before the block."""
    offset: int
    size: int
    """Bytes on disk, including header and checksums."""


def parse_root(payload: bytes, count: int, source: ByteSource, *, rows: bool = True) -> list[IndexEntry]:
    """Parses the entries of a root index. With `rows` a key is a length and a row, otherwise a name.

    Raises:
        CorruptFileError: the block ends before `count` entries.
    """
    result: list[IndexEntry] = []
    at = 0
    try:
        # one entry for each block of up to 1 MiB, with Hadoop's variable-length numbers
        for _ in range(count):
            offset, size = _ENTRY.unpack_from(payload, at)
            length, at = _hadoop_vint(payload, at + _ENTRY.size)
            key = payload[at : at + length]
            if length < 0 or len(key) != length:
                raise source.corrupt("a key of its index runs past the end")
            at += length
            result.append(IndexEntry(_row_of_key(key, source) if rows else key, offset, size))
    except (struct.error, IndexError):
        raise source.corrupt(f"its index ends before {count} entries") from None
    return result


def data_blocks(root: list[IndexEntry], levels: int, codec: int, source: ByteSource) -> list[IndexEntry]:
    """Collects the data blocks in order of their keys, from all levels of the index.

    Raises:
        CorruptFileError: an index block cannot be read, or is referenced twice.
    """
    blocks = root
    seen: set[int] = set()
    for level in range(levels, 1, -1):
        magic = LEAF_INDEX if level == 2 else INTERMEDIATE_INDEX
        below: list[IndexEntry] = []
        for entry in blocks:
            if entry.offset in seen:
                raise source.corrupt(f"its index names the block at byte {entry.offset} twice")
            seen.add(entry.offset)
            block = read_block(source, entry.offset, magic, codec, entry.size)
            below += _parse_lower(block.payload, source)
        blocks = below
    keys = [entry.key for entry in blocks]
    offsets = [entry.offset for entry in blocks]
    if any(b <= a for a, b in pairwise(keys)) or any(b <= a for a, b in pairwise(offsets)):
        raise source.corrupt("the keys of its index do not ascend")
    return blocks


def blocks_of_keys(blocks: list[IndexEntry], keys: list[bytes]) -> list[IndexEntry]:
    """Returns the blocks that can hold any of `keys` (ascending)."""
    starts = [entry.key for entry in blocks]
    chosen: list[IndexEntry] = []
    offset = 0
    while offset < len(keys):
        block = bisect_right(starts, keys[offset]) - 1
        if block < 0:  # before the first key
            offset = bisect_left(keys, starts[0], offset) if starts else len(keys)
            continue
        chosen.append(blocks[block])
        offset = bisect_left(keys, starts[block + 1], offset) if block + 1 < len(starts) else len(keys)
    return chosen


def blocks_of_prefixes(blocks: list[IndexEntry], prefixes: list[bytes]) -> list[IndexEntry]:
    """Returns the blocks that can hold keys with any of `prefixes`."""
    starts = [entry.key for entry in blocks]
    chosen: set[int] = set()
    for prefix in prefixes:
        offset = bisect_right(starts, prefix)
        if offset:
            chosen.add(offset - 1)
        while offset < len(starts) and starts[offset].startswith(prefix):
            chosen.add(offset)
            offset += 1
    return [blocks[offset] for offset in sorted(chosen)]


def _parse_lower(payload: bytes, source: ByteSource) -> list[IndexEntry]:
    """Parses a leaf or intermediate index: a count, the entries' offsets, and the entries."""
    try:
        (count,) = _INT.unpack_from(payload)
        if not 0 <= count <= len(payload) // (_INT.size + _ENTRY.size):
            raise source.corrupt(f"an index block claims {count} entries in {len(payload)} bytes")
        offsets = struct.unpack_from(f">{count + 1}i", payload, _INT.size)
        start = _INT.size * (count + 2)
        result: list[IndexEntry] = []
        for here, behind in pairwise(offsets):
            if not 0 <= here <= behind - _ENTRY.size or start + behind > len(payload):
                raise source.corrupt("an entry of an index block runs past the end")
            offset, size = _ENTRY.unpack_from(payload, start + here)
            result.append(
                IndexEntry(_row_of_key(payload[start + here + _ENTRY.size : start + behind], source), offset, size)
            )
    except struct.error:
        raise source.corrupt("an index block ends too early") from None
    return result


def _row_of_key(key: bytes, source: ByteSource) -> bytes:
    """Returns the row of a key; Apache Hudi's own writer omits the rest of HBase's keys."""
    if len(key) < _SHORT.size:
        raise source.corrupt("a key of its index has no length")
    (length,) = _SHORT.unpack_from(key)
    if length < 0 or len(key) not in (_SHORT.size + length, _SHORT.size + length + _SUFFIX):
        raise source.corrupt(f"a key of its index has {len(key)} bytes and a row of {length}")
    return key[_SHORT.size : _SHORT.size + length]


def _hadoop_vint(data: bytes, offset: int) -> tuple[int, int]:
    """Reads Hadoop's variable-length number (`WritableUtils.readVInt`): one byte, or a length and the bytes."""
    first = data[offset] - 256 if data[offset] > 127 else data[offset]
    offset += 1
    if first >= -112:
        return first, offset
    negative = first < -120
    size = -120 - first if negative else -112 - first
    if offset + size > len(data):
        raise IndexError
    value = int.from_bytes(data[offset : offset + size], "big")
    return ~value if negative else value, offset + size
