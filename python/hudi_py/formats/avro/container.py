"""Avro object container files: instants since table version 8, plans, metadata records and archived timelines.

They have few records, so fastavro reads and writes them. It is imported on first use.
"""

from __future__ import annotations

import io
import json
import os
from functools import lru_cache
from typing import Any

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError, first_line
from hudi_py.formats.varint import varint

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MAX_SHIFT = 63


def read_container(data: bytes, *, context: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writer schema and records of an Avro object container file; logical types as Python values.

    Raises CorruptFileError naming `context`, UnsupportedTableError for a compression that needs another package.
    """
    import fastavro

    where = f" {context}" if context else ""
    if not data.startswith(_MAGIC):
        raise CorruptFileError(
            f"cannot read the Avro file{where}: it starts with {bytes(data[:4])!r} instead of {_MAGIC!r}"
        )
    try:
        quick = _read_uncompressed(data)
        if quick is not None:
            return quick
        reader = fastavro.reader(io.BytesIO(data))
        records = list(reader)
        schema = reader.writer_schema
    except Exception as error:  # fastavro raises anything for corrupt bytes
        why = first_line(error)
        if "need to install" in why:
            raise UnsupportedTableError(f"cannot read the Avro file{where}: {why}") from error
        raise CorruptFileError(f"cannot read the Avro file{where}: {why}; the file is torn or corrupt") from error
    if not isinstance(schema, dict) or not all(isinstance(record, dict) for record in records):
        raise CorruptFileError(f"cannot read the Avro file{where}: its schema is not a record")
    return schema, records  # type: ignore[return-value]  # checked above


def _read_uncompressed(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Reads an uncompressed container like fastavro, but parses each schema once, as a timeline has few of them.

    Returns None if the file is damaged or more complex than a timeline's files: fastavro then reports any error.
    """
    import fastavro

    stream = io.BytesIO(data)
    stream.seek(len(_MAGIC))
    header: dict[str, bytes] = {}
    while count := _long(stream):
        if count < 0:
            return None
        for _ in range(count):
            key = _sized(stream)
            value = _sized(stream)
            if key is None or value is None:
                return None
            header[key.decode()] = value
    if header.get("avro.codec", b"null") != b"null" or "avro.schema" not in header:
        return None
    schema = _parsed(header["avro.schema"])
    if schema is None:
        return None
    sync = stream.read(_SYNC_BYTES)
    records: list[dict[str, Any]] = []
    while stream.tell() < len(data):
        count, size = _long(stream), _long(stream)
        end = stream.tell() + size
        if count < 0 or size < 0 or data[end : end + _SYNC_BYTES] != sync or len(sync) < _SYNC_BYTES:
            return None
        if count > size:  # every record has at least a byte
            return None
        records += [fastavro.schemaless_reader(stream, schema) for _ in range(count)]  # type: ignore[misc]
        if stream.tell() != end:
            return None
        stream.seek(end + _SYNC_BYTES)
    return (schema, records) if all(isinstance(record, dict) for record in records) else None


def _long(stream: io.BytesIO) -> int:
    """A zigzag varint; 0 at the end of the stream."""
    value = shift = 0
    while byte := stream.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            break
        shift += 7
        if shift > _MAX_SHIFT:
            raise ValueError("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1)


def _sized(stream: io.BytesIO) -> bytes | None:
    size = _long(stream)
    found = stream.read(size) if size >= 0 else b""
    return found if len(found) == size else None


@lru_cache(maxsize=64)
def _parsed(text: bytes) -> dict[str, Any] | None:
    """A record's schema as parsed by fastavro; must not be modified."""
    import fastavro

    schema = fastavro.parse_schema(json.loads(text))
    return schema if isinstance(schema, dict) and schema.get("type") == "record" else None


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
        """A file with these records. Raises SchemaMismatchError for records that do not fit the schema."""
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
def _writer(schema: str) -> ContainerWriter:
    return ContainerWriter(json.loads(schema))


def write_container(schema: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    """An uncompressed container file. Raises SchemaMismatchError for records that do not fit the schema."""
    return _writer(json.dumps(schema)).write(records)
