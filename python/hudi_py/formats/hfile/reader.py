"""Reads HFiles completely, by keys or by prefixes, fetching only the necessary blocks (format reference 10.4).

Written by HBase (Apache Hudi 0.x and 1.0) or by Apache Hudi itself (1.1 and later). Source: `HFileReaderImpl`, 1.2.0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.bloom import BloomFilter
from hudi_py.formats.hfile.blocks import DATA, FILE_INFO, META, ROOT_INDEX, ByteSource, MemorySource, read_block
from hudi_py.formats.hfile.entries import Entries, parse_entries
from hudi_py.formats.hfile.index import IndexEntry, blocks_of_keys, blocks_of_prefixes, data_blocks, parse_root
from hudi_py.formats.hfile.trailer import TRAILER_LENGTH, parse_file_info, read_trailer

if TYPE_CHECKING:
    from hudi_py.storage import Storage

BLOOM_FILTER: Final = "bloomFilter"
SCHEMA: Final = "schema"
_MEMORY_VERSION: Final = "MAX_MEMSTORE_TS_KEY"
_NO_VERSION: Final = frozenset({b"", bytes(8)})
_LOAD_AHEAD: Final = TRAILER_LENGTH + (1 << 15)
"""Bytes at the end of the file fetched at once: trailer, file info and most indexes fit."""
_GAP: Final = 1 << 17
"""Blocks with less than this between them are fetched with one request."""
_REQUEST: Final = 1 << 23
_SMALL: Final = 1 << 14
"""Bytes of a file or log block up to which its entries stay in memory."""


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
        """Avro schema of the values as JSON; None if the file does not have it (log blocks)."""
        text = self.info.get(SCHEMA)
        return None if text is None else text.decode("utf-8", "replace")

    def meta_block(self, name: str) -> bytes | None:
        """Content of a meta block; None if there is none of this name."""
        entry = self._meta.get(name.encode())
        if entry is None:
            return None
        return read_block(self._source, entry.offset, META, self._trailer.codec, entry.size).payload

    def bloom_filter(self) -> BloomFilter | None:
        """The filter of the file's keys, if it has one."""
        content = self.meta_block(BLOOM_FILTER)
        if content is None:
            return None
        code = self.info.get("bloomFilterTypeCode")
        text = content.decode("ascii", "replace")
        return BloomFilter.decode(text, None if code is None else code.decode(), context=self._source.context)

    def scan(self) -> Entries:
        """All entries, in order of their keys."""
        found = Entries.concat(list(self._read(self._data_blocks())))
        if len(found) != self.num_entries:
            raise self._source.corrupt(f"it has {len(found)} entries, but its trailer says {self.num_entries}")
        return found

    def batches(self) -> Iterator[Entries]:
        """All entries in order of their keys, a block at a time; blocks are fetched a few at once."""
        return self._read(self._data_blocks())

    def lookup(self, keys: Iterable[bytes]) -> Entries:
        """The entries with these keys; reads only blocks that can hold them."""
        wanted = sorted(set(keys))
        if not wanted:
            return Entries.empty()
        value_set = pa.array(wanted, pa.binary())
        blocks = blocks_of_keys(self._data_blocks(), wanted)
        found = []
        for entries in self._read(blocks):
            # only the keys in the block's range: hashing all keys for each block would be quadratic
            low = bisect_left(wanted, entries.keys[0].as_py())
            high = bisect_right(wanted, entries.keys[-1].as_py())
            found.append(entries.with_keys(value_set.slice(low, high - low)))
        return Entries.concat(found)

    def lookup_prefixes(self, prefixes: Iterable[bytes]) -> Entries:
        """The entries whose key starts with one of these; reads only blocks that can hold them, each once."""
        wanted = sorted(set(prefixes))
        blocks = blocks_of_prefixes(self._data_blocks(), wanted)
        return Entries.concat([entries.with_prefixes(wanted) for entries in self._read(blocks)])

    def _data_blocks(self) -> list[IndexEntry]:
        if self._blocks is None:
            trailer = self._trailer
            self._blocks = data_blocks(self._root, trailer.index_levels, trailer.codec, self._source)
        return self._blocks

    def _read(self, blocks: Sequence[IndexEntry]) -> Iterator[Entries]:
        at = 0
        last: bytes | None = None
        while at < len(blocks):
            behind = at + 1
            while behind < len(blocks) and self._near(blocks[at], blocks[behind - 1], blocks[behind]):
                behind += 1
            start, end = blocks[at].offset, blocks[behind - 1].offset + blocks[behind - 1].size
            if start < 0 or any(b.size < 0 for b in blocks[at:behind]) or end > self._source.length:
                raise self._source.corrupt(f"its index names a block from byte {start} to {end}")
            self._source.hold(start, end - start)
            for block in blocks[at:behind]:
                entries = self._entries(block)
                if len(entries):
                    first = entries.keys[0].as_py()
                    if last is not None and first <= last:
                        raise self._source.corrupt("its keys do not ascend")
                    last = entries.keys[-1].as_py()
                    yield entries
            at = behind

    def _entries(self, block: IndexEntry) -> Entries:
        found = self._kept.get(block.offset) if self._kept is not None else None
        if found is None:
            payload = read_block(self._source, block.offset, DATA, self._trailer.codec, block.size).payload
            found = parse_entries(payload, self._source)
            if self._kept is not None:
                self._kept[block.offset] = found
        return found

    @staticmethod
    def _near(first: IndexEntry, before: IndexEntry, after: IndexEntry) -> bool:
        end = before.offset + before.size
        return after.offset - end < _GAP and after.offset + after.size - first.offset < _REQUEST


def open_hfile(storage: Storage, path: str, size: int, *, offset: int = 0) -> HFile:
    """An HFile of `size` bytes in a file, from `offset` on (a log block).

    Raises:
        CorruptFileError, UnsupportedTableError: see `HFile`.
        FileNotFoundError: the file does not exist.
    """
    source = ByteSource(storage, path, offset, size)
    content = source.whole if size <= _SMALL else None
    return HFile(source) if content is None else _small(content, source.context)


@lru_cache(maxsize=128)  # each commit reads the log blocks of the last few again
def _small(content: bytes, context: str) -> HFile:
    return HFile(MemorySource(content, context), keep=True)


def read_hfile(data: bytes, context: str = "in memory") -> HFile:
    """An HFile in memory. Raises as `HFile`."""
    return HFile(MemorySource(data, context))
