"""Writes HFiles like Apache Hudi 1.1 and later (`HFileWriterImpl` 1.2.0).

A file has data blocks, meta blocks, the root index, the meta index, the file info, and a trailer of 4096 bytes. For the
same entries, creation time and compression library, the bytes equal those of Apache Hudi.
"""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.hfile.blocks import (
    DATA,
    FILE_INFO,
    GZIP,
    HEADER,
    HEADER_LENGTH,
    MAX_BLOCK_BYTES,
    META,
    NO_COMPRESSION,
    ROOT_INDEX,
    TRAILER_LENGTH,
)
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.formats.varint import varint

Compression = Literal["GZ", "NONE"]
BLOCK_BYTES: Final = 1 << 20
"""Apache Hudi's default (`hoodie.hfile.block.size`)."""

_BYTES_PER_CHECKSUM: Final = 16384
_CHECKSUM_BYTES: Final = 4
_GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""As in Java 16 and later: no time, unknown operating system."""
_LEVEL: Final = 6
_KEY_SUFFIX: Final = b"\x00" + struct.pack(">q", 0x7FFFFFFFFFFFFFFF) + b"\x04"
"""No column family, the newest timestamp, Put."""
_HEAD: Final = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_AROUND: Final = 21
"""Bytes of an entry besides row and value."""
_MAX_KEY_BYTES: Final = (1 << 15) - 1
_STEP_BYTES: Final = 1 << 26
"""Size of keys and values assembled at once."""
_COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
CREATED: Final = "hfile.CREATE_TIME_TS"
"""The entry of the file info with the time of creation, in milliseconds since the epoch."""
_LONG: Final = struct.Struct(">q")
_INFO_ORDER: Final = (
    "schema",
    "bloomFilterTypeCode",
    "hfile.LASTKEY",
    "hfile.AVG_VALUE_LEN",
    "minRecordKey",
    "hfile.AVG_KEY_LEN",
    "maxRecordKey",
    "KEY_VALUE_VERSION",
    "MAX_MEMSTORE_TS_KEY",
    "INDEX_INFO",
    CREATED,
)
"""Possible names in the file info, in the order of Java's hash map."""


class HFileWriter:
    """Writes an HFile to a stream, batch by batch; holds at most a batch and a block in memory.

    Attributes:
        num_entries: entries added so far.
        num_bytes: bytes written so far; after `close`, the file's size.
    """

    def __init__(
        self,
        sink: BinaryIO,
        *,
        schema_json: str | None = None,
        info: Mapping[str, bytes] | None = None,
        compression: Compression = "GZ",
        block_bytes: int = BLOCK_BYTES,
        bloom: BloomConfig | None = None,
    ) -> None:
        """
        Args:
            sink: the output; `close` leaves it open.
            schema_json: Avro schema of the values, stored in the file info; None: values that have their own.
            info: what else the file info has, such as another time of creation than now.
            block_bytes: maximum size of a data block, unless a single entry is larger.
            bloom: size of the filter over the keys, for base files, which name their smallest and greatest key as
                well; None for log blocks.
        """
        self.num_entries = 0
        self.num_bytes = 0
        self._sink = sink
        self._more = dict(info or {})
        if schema_json is not None:
            self._more["schema"] = schema_json.encode()
        self._codec = GZIP if compression == "GZ" else NO_COMPRESSION
        self._block_bytes = block_bytes
        self._bloom = BloomFilter(bloom) if bloom is not None else None
        self._block = bytearray()
        self._block_key = b""
        self._index: list[tuple[bytes, int, int]] = []
        self._first_key: bytes | None = None
        self._last_key = b""
        self._key_bytes = 0
        self._value_bytes = 0

    def add(self, keys: pa.Array, values: pa.Array) -> None:
        """Appends entries.

        Args:
            keys: string or binary without nulls; ascending bytewise, greater than all previous keys.
            values: binary without nulls, of the same length.

        Raises:
            CorruptFileError: keys do not ascend, or a key or value is null.
            UnsupportedTableError: a key has more than 32767 bytes, or an entry is too large for the format.
        """
        keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
        if not len(keys):
            return
        self._check_order(keys, values)
        lengths = _lengths(keys), _lengths(values)
        if (longest := int(lengths[0].max())) > _MAX_KEY_BYTES:
            raise UnsupportedTableError(
                f"Cannot write a key of {longest} bytes into an HFile; supported: keys of up to {_MAX_KEY_BYTES} bytes"
            )
        sizes = lengths[0] + lengths[1] + _AROUND
        if (largest := int(sizes.max())) > MAX_BLOCK_BYTES:
            raise UnsupportedTableError(
                f"Cannot write an entry of {largest} bytes into an HFile; supported: up to {MAX_BLOCK_BYTES} bytes"
            )
        if self._bloom is not None:
            self._bloom.add(keys.cast(pa.string()))
        self.num_entries += len(keys)
        self._key_bytes += int(lengths[0].sum())
        self._value_bytes += int(lengths[1].sum())
        ends = np.cumsum(sizes)
        start = 0
        while start < len(keys):
            done = int(ends[start - 1]) if start else 0
            end = max(int(np.searchsorted(ends, done + _STEP_BYTES, "right")), start + 1)
            part = slice(start, end)
            self._append(keys[part], values[part], lengths[0][part], lengths[1][part], ends[part] - done)
            start = end

    def close(self) -> int:
        """Writes the rest of the file; returns its size in bytes."""
        self._flush()
        metas: list[tuple[bytes, int, int]] = []
        if self._bloom is not None:
            offset, size = self._put(META, self._bloom.encode().encode())
            metas.append((b"bloomFilter", offset, size))
        load_on_open, _ = self._put(ROOT_INDEX, b"".join(_index_entry(_row(k), o, s) for k, o, s in self._index))
        self._put(ROOT_INDEX, b"".join(_index_entry(*meta) for meta in metas))
        info, _ = self._put(FILE_INFO, _file_info(self._info()))
        data = self._key_bytes + self._value_bytes + _AROUND * self.num_entries
        fields = [
            (1, info),
            (2, load_on_open),
            (3, data),
            (5, len(self._index)),
            (6, len(metas)),
            (7, self.num_entries),
            (8, 1),
            (9, self._index[0][1] if self._index else (1 << 64) - 1),
            (10, self._index[-1][1] if self._index else 0),
        ]
        message = b"".join(varint(number << 3) + varint(value) for number, value in fields)
        message += _field(11, _COMPARATOR) + varint(12 << 3) + varint(self._codec)
        trailer = b'TRABLK"$' + varint(len(message)) + message
        self._write(trailer.ljust(TRAILER_LENGTH - 4, b"\0") + b"\0\0\0\x03")
        return self.num_bytes

    def _check_order(self, keys: pa.Array, values: pa.Array) -> None:
        if keys.null_count or values.null_count or len(keys) != len(values):
            raise CorruptFileError(
                f"Cannot write an HFile of {len(keys)} keys and {len(values)} values, {keys.null_count} and "
                f"{values.null_count} of them null; expected a value for each key"
            )
        first: bytes = keys[0].as_py()
        if len(keys) > 1 and pc.any(pc.less_equal(keys[1:], keys[:-1])).as_py():
            raise CorruptFileError("Cannot write an HFile: its keys do not ascend, or one occurs twice")
        if self._first_key is None:
            self._first_key = first
        elif first <= self._last_key:
            raise CorruptFileError(f"Cannot write an HFile: the key {first!r} follows {self._last_key!r}")
        self._last_key = keys[-1].as_py()

    def _append(
        self,
        keys: pa.Array,
        values: pa.Array,
        key_lengths: npt.NDArray[np.int64],
        value_lengths: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> None:
        """Appends entries to blocks; `ends` has the end of each entry."""
        head = np.empty(len(keys), _HEAD)
        head["key"] = key_lengths + 2 + len(_KEY_SUFFIX)
        head["value"] = value_lengths
        head["row"] = key_lengths
        heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_HEAD.itemsize), len(keys), [None, pa.py_buffer(head)])
        entries = pc.binary_join_element_wise(
            heads.cast(pa.binary()), keys, pa.scalar(_KEY_SUFFIX), values, pa.scalar(b"\0"), pa.scalar(b"")
        )
        data = memoryview(entries.buffers()[2])
        start = done = 0
        while start < len(keys):
            room = self._block_bytes - len(self._block)
            end = int(np.searchsorted(ends, done + room, "right"))
            if end <= start:  # the block is full
                self._flush()
                end = max(int(np.searchsorted(ends, done + self._block_bytes, "right")), start + 1)
            if not self._block:
                self._block_key = keys[start].as_py()
            until = int(ends[end - 1])
            self._block += data[done:until]
            start, done = end, until

    def _flush(self) -> None:
        if not self._block:
            return
        # Apache Hudi writes a block's own offset as the offset of the previous block, except in the first block
        offset, size = self._put(DATA, bytes(self._block), self.num_bytes if self._index else -1)
        self._index.append((self._block_key, offset, size))
        self._block.clear()

    def _put(self, magic: bytes, payload: bytes, previous: int = -1) -> tuple[int, int]:
        """Writes a block; returns its offset and its size on disk."""
        packed = _gzip(payload) if self._codec == GZIP else payload
        chunks = -(-(HEADER_LENGTH + len(packed)) // _BYTES_PER_CHECKSUM)
        sums = bytes(chunks * _CHECKSUM_BYTES)
        header = HEADER.pack(
            magic, len(packed) + len(sums), len(payload), previous, 0, _BYTES_PER_CHECKSUM, HEADER_LENGTH + len(packed)
        )
        offset = self.num_bytes
        self._write(header + packed + sums)
        return offset, self.num_bytes - offset

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self.num_bytes += len(data)

    def _info(self) -> dict[str, bytes]:
        count = max(self.num_entries, 1)
        info = {
            CREATED: _LONG.pack(time.time_ns() // 1_000_000),
            **self._more,
            "hfile.LASTKEY": _row(self._last_key) if self.num_entries else b"",
            "hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // count),
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // count),
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
            "MAX_MEMSTORE_TS_KEY": bytes(8),
        }
        if self._bloom is not None:
            info["bloomFilterTypeCode"] = self._bloom.type_code.encode()
            info["minRecordKey"] = self._first_key or b""
            info["maxRecordKey"] = self._last_key
        return info


def write_hfile(keys: pa.Array, values: pa.Array, *, schema_json: str | None = None, **settings: Any) -> bytes:
    """Encodes a complete HFile in memory, for log blocks. For arguments, `settings` and errors see `HFileWriter`."""
    sink = io.BytesIO()
    writer = HFileWriter(sink, schema_json=schema_json, **settings)
    writer.add(keys, values)
    writer.close()
    return sink.getvalue()


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _gzip(payload: bytes) -> bytes:
    """Compresses the payload as a gzip member, even if it is empty."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    tail = struct.pack("<II", zlib.crc32(payload), len(payload))
    return b"".join([_GZIP_HEAD, packer.compress(payload), packer.flush(), tail])


def _row(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key


def _index_entry(key: bytes, offset: int, size: int) -> bytes:
    return struct.pack(">qi", offset, size) + _hadoop_vint(len(key)) + key


def _file_info(info: dict[str, bytes]) -> bytes:
    pairs = (_field(1, name.encode()) + _field(2, info[name]) for name in _INFO_ORDER if name in info)
    message = b"".join(_field(1, pair) for pair in pairs)
    return b"PBUF" + varint(len(message)) + message


def _field(number: int, data: bytes) -> bytes:
    """Encodes a length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def _hadoop_vint(value: int) -> bytes:
    """Encodes a non-negative number as Hadoop does (`WritableUtils.writeVInt`)."""
    if value <= 127:
        return bytes([value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(data)]) + data
