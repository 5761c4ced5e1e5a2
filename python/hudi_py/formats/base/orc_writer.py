"""Writes ORC base files that Apache Hudi reads (`HoodieAvroOrcWriter`, 1.2.0).

Types are those of `formats.base.orc_values`. The footer has the Avro schema and the bloom filter and range of the
record keys. Unlike `AvroOrcUtils`, which drops the milliseconds of timestamps, this writer keeps all digits.

Arrow's writer cannot write key-value pairs into the footer, so they are added here. A file ends with its footer (a
protocol buffers message in a series of compressed chunks), the postscript, which has the footer's length, and a byte
with the postscript's length. A message may be written in parts: fields in a further chunk are added to the earlier
ones. So pairs are added by a chunk after the footer and a new postscript; everything before is neither read again nor
kept in memory (ORC specification v1, "File Tail" and "Compression").
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro.schema import resolve_record
from hudi_py.formats.base.orc import AVRO_SCHEMA
from hudi_py.formats.base.orc_values import stored_type, to_orc, unwritable
from hudi_py.formats.base.rows import BaseFileSummary, BaseWriter, estimated_bytes
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.formats.varint import read_varint, varint

try:
    from pyarrow import orc
except ImportError:  # some builds of pyarrow lack it
    orc = None

if TYPE_CHECKING:
    from hudi_py.storage import Storage

STRIPE_BYTES = 64 << 20
CODECS = {"zlib": "zlib", "snappy": "snappy", "zstd": "zstd", "lz4": "lz4", "none": "uncompressed"}
"""Codecs by their name in `hoodie.orc.compression.codec`, in lower case, with Arrow's name."""
_STEP_BYTES = 8 << 20
"""Arrow bytes passed to Arrow's writer at a time; it starts a new stripe only between rows of one call."""
_BUFFER_SIZES = (64 << 10, 128 << 10, 256 << 10)
"""Supported buffer sizes. Java also has smaller ones, which Arrow lacks."""
_DICTIONARY_THRESHOLD = 0.8
"""A text column with a smaller share of distinct values is dictionary-encoded (`orc.dictionary.key.threshold`)."""
MAX_TAIL_BYTES: Final = 256
"""Maximum size of the postscript and the byte after it."""
_FOOTER_LENGTH: Final = 1
_COMPRESSION: Final = 2
_BLOCK_SIZE: Final = 3
_MAGIC: Final = 8000
_USER_METADATA: Final = 5
_VARINT, _BYTES = 0, 2
_CODECS: Final = {0: None, 1: "zlib", 2: "snappy", 4: "lz4_raw", 5: "zstd"}
_MAX_CHUNK: Final = 1 << 22
"""Maximum size of a chunk, whose header has 23 bits for its length."""


@dataclass(frozen=True, slots=True)
class OrcLayout:
    """How an ORC file is written."""

    codec: str = "zlib"
    """zlib, snappy, zstd, lz4 or none, in upper or lower case."""
    stripe_bytes: int = STRIPE_BYTES
    """Bytes of a stripe, which is about the memory used."""
    zone: str = "UTC"
    """Zone in which timestamps become wall-clock time, a name in the time zone database."""


class OrcFileWriter(BaseWriter):
    """Writes one ORC file, a stripe at a time; after an exception it has no footer."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        avro_schema_json: str,
        *,
        bloom: BloomConfig | None,
        layout: OrcLayout = OrcLayout(),
    ) -> None:
        """
        Args:
            path: the file, created or truncated.
            schema: columns, including meta columns.
            avro_schema_json: the same as an Avro schema, for the footer.
            bloom: size of the filter over the record keys; None: no filter and no key range, for tables without meta
                columns.

        Raises:
            ConfigError: the codec is unknown, or there is no record key column.
            UnsupportedTableError: pyarrow was built without ORC, or a column has a type that ORC files cannot have.
        """
        if orc is None:
            raise UnsupportedTableError(
                f"Cannot write base file {path}: this build of pyarrow has no ORC; install pyarrow from PyPI"
            )
        codec, stripe_bytes = layout.codec, layout.stripe_bytes
        if codec.lower() not in CODECS:
            raise ConfigError(f"Cannot write base file {path} with the codec {codec!r}; supported: {', '.join(CODECS)}")
        self._nodes = dict(resolve_record(json.loads(avro_schema_json)).fields)
        super().__init__(path, schema, bloom, batch_bytes=4 * _STEP_BYTES)
        self._stored = pa.schema([pa.field(item.name, stored_type(item.type)) for item in self._schema])
        for name in self._schema.names:
            why = unwritable(self._nodes[name])
            if why:
                raise UnsupportedTableError(f"Cannot write column {name!r} to the ORC file {path}: {why}")
        self._avro_json = avro_schema_json
        self._zone = layout.zone
        self._taken_bytes = 0
        """Arrow bytes passed to the writer."""
        self._flushed_bytes = 0
        """Arrow bytes that the writer had when it last wrote a stripe."""
        with ExitStack() as undo:
            self._output = undo.enter_context(storage.open_output(path))
            self._open = undo.pop_all()
        self._sink = _HeldEnd(self._output)
        self._writer = orc.ORCWriter(
            pa.PythonFile(self._sink, mode="w"),
            compression=CODECS[codec.lower()],
            compression_block_size=_buffer_size(stripe_bytes, len(self._stored)),
            stripe_size=stripe_bytes,
            dictionary_key_size_threshold=_DICTIONARY_THRESHOLD,
        )

    def _add(self, batch: pa.RecordBatch) -> None:
        # refuses a timestamp that is out of range, or whose wall-clock time occurs twice
        columns = [
            to_orc(batch.column(index), self._nodes[item.name], self._zone, item.name)
            for index, item in enumerate(self._schema)
        ]
        before = self._sink.written
        self._writer.write(pa.Table.from_arrays(columns, schema=self._stored))
        self._taken_bytes += batch.nbytes
        if before and self._sink.written > before:
            self._flushed_bytes = self._taken_bytes

    def _estimate(self) -> int:
        return estimated_bytes(self._sink.written, self._flushed_bytes, self._taken_bytes - self._flushed_bytes)

    def _complete(self) -> BaseFileSummary:
        if not self._rows:  # otherwise Arrow writes no file at all
            self._writer.write(self._stored.empty_table())
        self._writer.close()
        self._sink.finish(self._keys.pairs() | {AVRO_SCHEMA: self._avro_json}, self._path)
        size = self._sink.written
        self._open.close()
        return self._summarized(size)

    def _abandon(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.is_open = False  # otherwise garbage collection would complete the file
        # the storage gets the exception, so that it can abort the upload
        self._open.__exit__(kind, error, trace)


class _HeldEnd(io.RawIOBase):
    """Passes a file on except for its last bytes, which may still change."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self._held = b""
        self.written = 0
        """Bytes so far, including those not passed on yet."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        whole = self._held + part
        end = max(len(whole) - MAX_TAIL_BYTES, 0)
        if end:
            self._output.write(whole[:end])
        self._held = whole[end:]
        self.written += len(part)
        return len(part)

    def tell(self) -> int:
        return self.written

    def finish(self, pairs: Mapping[str, str], path: str) -> None:
        """Writes the last bytes, with key-value pairs in the footer."""
        end = tail_with_pairs(self._held, pairs, path)
        self._output.write(end)
        self.written += len(end) - len(self._held)


def _buffer_size(stripe_bytes: int, columns: int) -> int:
    """Returns the size of compressed blocks (`WriterImpl.getEstimatedBufferSize` of ORC for Java): 20 buffers per
    column must fit in a stripe."""
    item = stripe_bytes // (20 * max(columns, 1))
    return next((size for size in _BUFFER_SIZES if item <= size), _BUFFER_SIZES[-1])


def readable_stripes(file: Any, path: str) -> tuple[bytes, list[int]]:
    """Returns a base file that `open_orc` opened with only its readable stripes, and the numbers of the others.

    Raises what `open_orc` raises for its footer.
    """
    unreadable: list[int] = []
    sink = io.BytesIO()
    held = _HeldEnd(sink)
    with orc.ORCWriter(pa.PythonFile(held, mode="w"), compression="zlib") as writer:
        writer.write(file.schema.empty_table())
        for number in range(file.nstripes):
            try:
                writer.write(pa.Table.from_batches([file.read_stripe(number)]))
            except (OSError, pa.ArrowException):
                unreadable.append(number)
    held.finish({name.decode(): value.decode() for name, value in dict(file.metadata or {}).items()}, path)
    return sink.getvalue(), unreadable


def tail_with_pairs(end: bytes, pairs: Mapping[str, str], path: str) -> bytes:
    """Returns the bytes that replace the end of a file to add key-value pairs to its footer.

    Args:
        end: the last bytes of the file, `MAX_TAIL_BYTES` or all of it.
        path: the file, for messages.

    Raises:
        CorruptFileError: the bytes are not the end of an ORC file.
    """
    length = end[-1] if end else 0
    if not length or length + 1 > len(end):
        raise _damaged_error(path, f"its last byte gives a postscript of {length} bytes")
    postscript = end[-1 - length : -1]
    fields = _message_fields(postscript, path)
    if fields.get(_MAGIC) != b"ORC":
        raise _damaged_error(path, "its postscript does not end in ORC")
    codec, size, before = fields.get(_COMPRESSION, 0), fields.get(_BLOCK_SIZE, 0), fields.get(_FOOTER_LENGTH)
    if codec not in _CODECS or not isinstance(codec, int) or not isinstance(size, int) or not isinstance(before, int):
        raise _damaged_error(path, f"its postscript names the compression {codec!r} in blocks of {size!r} bytes")
    chunks = _compressed_chunks(_pair_items(pairs), _CODECS[codec], min(size, _MAX_CHUNK), path)
    offset = _start_of(postscript, _FOOTER_LENGTH, path)
    after = postscript[offset + 1 + len(varint(before)) :]
    changed = postscript[:offset] + _field_tag(_FOOTER_LENGTH, _VARINT) + varint(before + len(chunks)) + after
    if len(changed) >= MAX_TAIL_BYTES:
        raise _damaged_error(path, f"its postscript has {len(postscript)} bytes")
    return end[: -1 - length] + chunks + changed + bytes([len(changed)])


def _pair_items(pairs: Mapping[str, str]) -> bytes:
    result = []
    for name, value in pairs.items():
        item = _encode_field(1, name.encode()) + _encode_field(2, value.encode())
        result.append(_encode_field(_USER_METADATA, item))
    return b"".join(result)


def _compressed_chunks(content: bytes, codec: str | None, size: int, path: str) -> bytes:
    """Splits bytes into the file's compressed chunks; without compression they stay as they are."""
    if codec is None:
        return content
    if size <= 0:
        raise _damaged_error(path, f"its postscript names compressed blocks of {size} bytes")
    result = []
    for start in range(0, len(content), size):
        part = content[start : start + size]
        packed = _pack_part(part, codec)
        plain = len(packed) >= len(part)
        kept = part if plain else packed
        result.append((len(kept) << 1 | plain).to_bytes(3, "little") + kept)
    return b"".join(result)


def _pack_part(part: bytes, codec: str) -> bytes:
    if codec == "zlib":  # without zlib's header
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(part) + deflate.flush()
    packed: bytes = pa.compress(part, codec=codec, asbytes=True)
    return packed


def _message_fields(message: bytes, path: str) -> dict[int, int | bytes]:
    """Returns the fields of a message by number; the last one wins."""
    return {number: value for number, value, _ in _walk_fields(message, path)}


def _start_of(message: bytes, wanted: int, path: str) -> int:
    """Returns the offset at which a field begins."""
    return next(offset for number, _, offset in _walk_fields(message, path) if number == wanted)


def _walk_fields(message: bytes, path: str) -> list[tuple[int, int | bytes, int]]:
    """Lists number, value and start of each field of a message."""
    result: list[tuple[int, int | bytes, int]] = []
    offset = 0
    while offset < len(message):
        start = offset
        tag, offset = _read_varint(message, offset, path)
        number, offset = _read_varint(message, offset, path)
        value: int | bytes = number
        if tag & 7 == _BYTES:
            value, offset = message[offset : offset + number], offset + number
        elif tag & 7 != _VARINT:
            raise _damaged_error(path, f"its postscript has a field of the kind {tag & 7}")
        if offset > len(message):
            raise _damaged_error(path, "its postscript ends within a field")
        result.append((tag >> 3, value, start))
    return result


def _read_varint(message: bytes, offset: int, path: str) -> tuple[int, int]:
    try:
        return read_varint(message, offset)
    except ValueError:
        raise _damaged_error(path, "its postscript ends within a number") from None


def _encode_field(number: int, value: bytes) -> bytes:
    return _field_tag(number, _BYTES) + varint(len(value)) + value


def _field_tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _damaged_error(path: str, why: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot complete the ORC file {path}: {why}")
