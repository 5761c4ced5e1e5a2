"""Writes Lance base files with the library pylance (the extra `lance`).

Like Apache Hudi (`HoodieBaseLanceWriter`, `HoodieSparkLanceWriter`, 1.2.0) it writes one Lance file of version 2.0,
with the bloom filter and range of the record keys in the schema metadata, and no Avro schema. That version does not
store null structs, which Apache Hudi loses. Version 2.1 stores them, but the library of Apache Hudi 1.2.0 (lance-core
4.0.0) fails to read some of its files. So tables with struct columns are refused (`unwritable_to_lance`); the writer
itself takes version 2.1 for them.
"""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.avro.schema import Array, Choice, Map, Node, Nullable, Record
from hudi_py.formats.base_rows import BaseFileSummary, BaseWriter
from hudi_py.formats.lance import check_lance

if TYPE_CHECKING:
    from hudi_py.formats.bloom import BloomConfig
    from hudi_py.storage import Storage

_VERSION: Final = "2.0"
_WITH_STRUCTS: Final = "2.1"
_COPIED_AT_ONCE: Final = 1 << 22
_CACHE_BYTES: Final = 64 << 20
"""Bytes cached for all columns of a file being written."""


class LanceFileWriter(BaseWriter):
    """Writes one Lance file; after an exception there is none.

    pylance writes to names of local files only, or with credentials of its own, so the file is made in a temporary
    folder and copied to the storage when it is complete.
    """

    def __init__(self, storage: Storage, path: str, schema: pa.Schema, *, bloom: BloomConfig | None) -> None:
        """
        Args:
            path: the file, created or replaced by `close`.
            schema: columns, including meta columns.
            bloom: size of the filter over the record keys; None: no filter and no key range.

        Raises:
            ConfigError: there is no record key column.
            UnsupportedTableError: pylance is not installed.
        """
        check_lance(storage.uri, "write")
        from lance.file import LanceFileWriter as FileWriter

        super().__init__(path, schema, bloom, batch_bytes=_CACHE_BYTES)
        self._storage = storage
        self._bytes = 0
        self._folder = tempfile.TemporaryDirectory(prefix="hudi-py-")
        self._name = os.path.join(self._folder.name, "base.lance")
        self._nested = frozenset(at for at, each in enumerate(self._schema) if _has_struct(each.type))
        version = _WITH_STRUCTS if self._nested else _VERSION
        try:
            self._writer: Any = FileWriter(self._name, self._schema, version=version, data_cache_bytes=_CACHE_BYTES)
        except BaseException:  # nobody else knows of the folder yet
            self._folder.cleanup()
            raise

    def _estimate(self) -> int:
        """Return the bytes of the rows in Arrow, by which Apache Hudi estimates the size of a Lance file."""
        return self._bytes

    def _add(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write_batch(self._whole(batch))
        except (ValueError, NotImplementedError) as error:  # as pylance raises them for types it lacks
            raise SchemaMismatchError(f"Cannot write rows to base file {self._path}: pylance says {error}") from error
        self._bytes += batch.nbytes

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with copies of its nested columns: pylance (14) panics at slices of structs with nulls."""
        numbers = pa.array(np.arange(batch.num_rows)) if self._nested else None
        columns = [column.take(numbers) if at in self._nested else column for at, column in enumerate(batch.columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _complete(self) -> BaseFileSummary:
        for key, value in self._keys.pairs().items():
            self._writer.add_schema_metadata(key, value)
        self._writer.close()
        size = os.path.getsize(self._name)
        with open(self._name, "rb") as made, self._storage.open_output(self._path) as sink:
            while block := made.read(_COPIED_AT_ONCE):
                sink.write(block)
        self._folder.cleanup()
        return self._summarized(size)

    def _abandon(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer = None
        self._folder.cleanup()


def unwritable_to_lance(node: Node) -> str:
    """Why Lance files cannot have a column of an Avro type; empty if they can."""
    if isinstance(node, Map):
        return "it has a map, at which Apache Hudi 1.2.0 crashes"
    if isinstance(node, Record) or (isinstance(node, Choice) and node.number is None):
        return "it has a struct, whose nulls Apache Hudi 1.2.0 loses or cannot read"
    if isinstance(node, Nullable):
        return unwritable_to_lance(node.value)
    return unwritable_to_lance(node.item) if isinstance(node, Array) else ""


def _has_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or any(_has_struct(kind.field(at).type) for at in range(kind.num_fields))
