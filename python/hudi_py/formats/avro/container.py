"""Avro object container files: instants since table version 8, plans, metadata records and archived timelines.

They have few records, so fastavro reads and writes them. It is imported on first use.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import os
import zlib
from functools import lru_cache
from typing import Any

import pyarrow as pa

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError, first_line
from hudi_py.formats.avro.schema import (
    Array,
    Choice,
    Decimal,
    FixedVector,
    FixedWidth,
    Map,
    Node,
    Null,
    Nullable,
    Record,
    resolve_record,
)
from hudi_py.formats.varint import varint
from hudi_py.model.limits import UNPACKED, limit, parse_json

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MAX_SHIFT = 63


def read_container(data: bytes, *, context: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Reads the writer schema and the records of an Avro object container file; logical types become Python values.

    Raises CorruptFileError naming `context`, UnsupportedTableError for an unknown compression.
    """

    where = f" {context}" if context else ""
    if not data.startswith(_MAGIC):
        raise CorruptFileError(
            f"cannot read the Avro file{where}: it starts with {bytes(data[:4])!r} instead of {_MAGIC!r}"
        )
    try:
        return _read_fast(data)
    except UnsupportedTableError as error:
        raise UnsupportedTableError(f"cannot read the Avro file{where}: {error}") from error
    except Exception as error:  # fastavro raises anything for corrupt bytes
        raise CorruptFileError(
            f"cannot read the Avro file{where}: {first_line(error)}; the file is torn or corrupt"
        ) from error


def _read_fast(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Reads a container as fastavro does, but parses each schema once, since a timeline has few, and limits its size:
    fastavro would expand six bytes to 2^31 nulls."""
    import fastavro

    stream = io.BytesIO(data)
    stream.seek(len(_MAGIC))
    header = _read_header(stream)
    codec = header.get("avro.codec", b"null").decode()
    schema, least = _parse_schema(header["avro.schema"])
    sync = stream.read(_SYNC_BYTES)
    records: list[dict[str, Any]] = []
    left = limit(UNPACKED)
    while stream.tell() < len(data):
        count, size = _read_long(stream), _read_long(stream)
        end = stream.tell() + size
        if count < 0 or size < 0 or data[end : end + _SYNC_BYTES] != sync or len(sync) < _SYNC_BYTES:
            raise ValueError("a block does not end where it says")
        packed = stream.read(size)
        block = packed if codec == "null" else _unpack_block(codec, packed, left)
        left -= len(block)
        if count * least > len(block) or (not least and count > 1):
            raise ValueError(f"a block claims {count} records in {len(block)} bytes")
        rows = io.BytesIO(block)
        records += [fastavro.schemaless_reader(rows, schema) for _ in range(count)]  # type: ignore[misc]
        if rows.tell() != len(block):
            raise ValueError("the records of a block do not end where it ends")
        stream.seek(end + _SYNC_BYTES)
    return schema, records


def _read_header(stream: io.BytesIO) -> dict[str, bytes]:
    header: dict[str, bytes] = {}
    while count := _read_long(stream):
        if count < 0:
            count = -count
            _read_long(stream)  # size of the map's block in bytes
        for _ in range(count):
            key, value = _read_sized(stream), _read_sized(stream)
            if not key or value is None:  # also at the end of the file, whatever count it claims
                raise ValueError("its header is incomplete")
            header[key.decode()] = value
    return header


def _unpack_block(codec: str, packed: bytes, most: int) -> bytes:
    """Decompresses a block to at most `most` bytes. Raises ValueError, UnsupportedTableError."""
    if codec == "deflate":
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most + 1)
    elif codec == "bzip2":
        unpacked = bz2.BZ2Decompressor().decompress(packed, most + 1)
    elif codec == "xz":
        unpacked = lzma.LZMADecompressor(memlimit=1 << 27).decompress(packed, most + 1)
    elif codec == "zstandard":
        unpacked = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(most + 1)
    elif codec == "snappy":  # followed by a checksum
        body = io.BytesIO(packed[:-4])
        size = _read_raw_varint(body)
        unpacked = bytes(pa.decompress(packed[:-4], size, codec="snappy")) if size <= most else bytes(0)
        if size > most or int.from_bytes(packed[-4:], "big") != zlib.crc32(unpacked):
            raise ValueError(_too_large(most) if size > most else "the checksum of a block is wrong")
    else:
        kind = UnsupportedTableError if codec == "lz4" else ValueError
        raise kind(f"its compression is {codec[:40]!r}; supported: null, deflate, bzip2, xz, zstandard and snappy")
    if len(unpacked) > most:
        raise ValueError(_too_large(most))
    return unpacked


def _too_large(most: int) -> str:
    return f"it unpacks to more than {most} bytes ({UNPACKED} in the environment)"


def _read_long(stream: io.BytesIO) -> int:
    """Reads a zigzag varint; 0 at the end of the stream."""
    value = _read_raw_varint(stream)
    return (value >> 1) ^ -(value & 1)


def _read_raw_varint(stream: io.BytesIO) -> int:
    value = shift = 0
    while byte := stream.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            break
        shift += 7
        if shift > _MAX_SHIFT:
            raise ValueError("a number has more than 64 bits")
    return value


def _read_sized(stream: io.BytesIO) -> bytes | None:
    size = _read_long(stream)
    data = stream.read(size) if size >= 0 else b""
    return data if len(data) == size else None


@lru_cache(maxsize=64)
def _parse_schema(text: bytes) -> tuple[dict[str, Any], int]:
    """Returns fastavro's parsed form of a record's schema, which must not be modified, and the minimum size of a
    record.

    Raises ValueError for types that contain themselves and for lists of items without bytes: no timeline has them, and
    fastavro would follow them until memory or stack run out.
    """
    import fastavro

    plain = parse_json(text)
    record = resolve_record(plain)  # limits the number of fields and levels
    least = _least_bytes(record, {})
    schema = fastavro.parse_schema(plain)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its schema is not a record")
    return schema, least


def _least_bytes(node: Node, known: dict[int, int | None]) -> int:
    """Returns the minimum size of a value in bytes. Raises ValueError, see `_parse_schema`."""
    if isinstance(node, Record):
        if id(node) not in known:
            known[id(node)] = None
            known[id(node)] = sum(_least_bytes(child, known) for _, child in node.fields)
        size = known[id(node)]
        if size is None:
            raise ValueError(f"its record {node.name!r} contains itself")
        return size
    if isinstance(node, Array) and not _least_bytes(node.item, known):
        raise ValueError("its schema has a list of items without bytes")
    if isinstance(node, (Map, Nullable)):
        _least_bytes(node.value, known)
    if isinstance(node, Choice):
        for branch in node.branches:
            _least_bytes(branch, known)
    if isinstance(node, (FixedWidth, FixedVector)):
        return node.size
    if isinstance(node, Decimal) and node.size is not None:
        return node.size
    return 0 if isinstance(node, Null) else 1


class ContainerWriter:
    """Writes Avro object container files of one schema, without compression."""

    def __init__(self, schema: dict[str, Any]) -> None:
        import fastavro

        self._name = schema.get("name")
        self._schema = fastavro.parse_schema(schema)
        empty = io.BytesIO()
        fastavro.writer(empty, self._schema, [], codec="null")
        self._header = empty.getvalue()[:-_SYNC_BYTES]

    def write(self, records: list[dict[str, Any]]) -> bytes:
        """Encodes a file with these records. Raises SchemaMismatchError for records that do not fit the schema."""
        import fastavro

        block = io.BytesIO()
        try:
            for record in records:
                fastavro.schemaless_writer(block, self._schema, record)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            why = first_line(error)
            raise SchemaMismatchError(f"cannot write an Avro file of {self._name!r}: {why}") from error
        sync, data = os.urandom(_SYNC_BYTES), block.getvalue()
        if not records:
            return self._header + sync
        return b"".join((self._header, sync, varint(len(records) << 1), varint(len(data) << 1), data, sync))


@lru_cache(maxsize=64)
def _cached_writer(schema: str) -> ContainerWriter:
    return ContainerWriter(json.loads(schema))


def write_container(schema: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    """Encodes an uncompressed container file. Raises SchemaMismatchError for records that do not fit the schema."""
    return _cached_writer(json.dumps(schema)).write(records)
