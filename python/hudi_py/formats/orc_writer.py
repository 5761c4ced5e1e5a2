"""Writes ORC base files that Apache Hudi reads (`HoodieAvroOrcWriter`, 1.2.0).

Types are those of `formats.orc_values`. The footer has the Avro schema and the bloom filter and range of the record
keys. Unlike `AvroOrcUtils`, which leaves out the milliseconds of timestamps, this writer keeps all digits.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.avro.schema import resolve_record
from hudi_py.formats.base_rows import BaseFileSummary, BaseWriter, estimated_bytes
from hudi_py.formats.bloom import BloomConfig
from hudi_py.formats.orc import AVRO_SCHEMA
from hudi_py.formats.orc_tail import MAX_TAIL_BYTES, tail_with_pairs
from hudi_py.formats.orc_values import stored_type, to_orc, unwritable

try:
    from pyarrow import orc
except ImportError:  # some builds of pyarrow lack it
    orc = None

if TYPE_CHECKING:
    from hudi_py.storage import Storage

STRIPE_BYTES = 64 << 20
CODECS = {"zlib": "zlib", "snappy": "snappy", "zstd": "zstd", "lz4": "lz4", "none": "uncompressed"}
"""Names of codecs in `hoodie.orc.compression.codec`, in lower case, and Arrow's for them."""
_STEP_BYTES = 8 << 20
"""Arrow bytes handed to Arrow's writer at a time; it starts a new stripe only between rows of one call."""
_BUFFER_SIZES = (64 << 10, 128 << 10, 256 << 10)
"""Java has smaller ones too, Arrow has not."""
_DICTIONARY_THRESHOLD = 0.8
"""A text column with a smaller share of distinct values gets a dictionary (`orc.dictionary.key.threshold`)."""


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
        codec: str = "zlib",
        stripe_bytes: int = STRIPE_BYTES,
        zone: str = "UTC",
    ) -> None:
        """
        Args:
            path: the file, created or truncated.
            schema: columns, including meta columns.
            avro_schema_json: the same as an Avro schema, for the footer.
            bloom: size of the filter over the record keys; None: no filter and no key range, for tables without meta
                columns.
            codec: zlib, snappy, zstd, lz4 or none, in upper or lower case.
            stripe_bytes: bytes of a stripe, which is about the memory used.
            zone: zone in which timestamps become wall-clock time, a name in the time zone database.

        Raises:
            ConfigError: the codec is unknown, or there is no record key column.
            UnsupportedTableError: pyarrow was built without ORC, or a column has a type that ORC files cannot have.
        """
        if orc is None:
            raise UnsupportedTableError(
                f"Cannot write base file {path}: this build of pyarrow has no ORC; install pyarrow from PyPI"
            )
        if codec.lower() not in CODECS:
            raise ConfigError(f"Cannot write base file {path} with the codec {codec!r}; supported: {', '.join(CODECS)}")
        self._nodes = dict(resolve_record(json.loads(avro_schema_json)).fields)
        super().__init__(path, schema, bloom, batch_bytes=4 * _STEP_BYTES)
        self._stored = pa.schema([pa.field(each.name, stored_type(each.type)) for each in self._schema])
        for name in self._schema.names:
            why = unwritable(self._nodes[name])
            if why:
                raise UnsupportedTableError(f"Cannot write column {name!r} to the ORC file {path}: {why}")
        self._avro_json = avro_schema_json
        self._zone = zone
        self._taken_bytes = 0
        """Arrow bytes handed to the writer."""
        self._flushed_bytes = 0
        """Those of them that were in it when it last wrote a stripe."""
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
            to_orc(batch.column(at), self._nodes[each.name], self._zone, each.name)
            for at, each in enumerate(self._schema)
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
        self._writer.is_open = False  # otherwise it would complete the file when it is collected
        # the storage gets the exception, so that it can abort the upload
        self._open.__exit__(kind, error, trace)


class _HeldEnd(io.RawIOBase):
    """Passes a file on, but for its last bytes, which may still change."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self._held = b""
        self.written = 0
        """Bytes so far, including those held."""

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
    """Size of compressed blocks (`WriterImpl.getEstimatedBufferSize` of ORC for Java): 20 buffers a column must fit in
    a stripe."""
    each = stripe_bytes // (20 * max(columns, 1))
    return next((size for size in _BUFFER_SIZES if each <= size), _BUFFER_SIZES[-1])


def readable_stripes(file: Any, path: str) -> tuple[bytes, list[int]]:
    """A base file that `open_orc` opened, with only the stripes that can be read, and the numbers of the others.

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
