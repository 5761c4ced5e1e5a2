"""Reads and writes Lance base files with the library pylance (the extra `lance`).

A base file is one Lance file of version 2.0, as in Apache Hudi (`HoodieBaseLanceWriter`, `HoodieSparkLanceWriter`,
1.2.0). Its schema metadata corresponds to the footer of a Parquet base file: it has the bloom filter and range of the
record keys, but no Avro schema. Version 2.0 does not store null structs, which are read as structs of nulls, as in
Apache Hudi. Version 2.1 stores them, but the library of Apache Hudi 1.2.0 (lance-core 4.0.0) fails to read some of its
files. So tables with struct columns are refused (`unwritable_to_lance`); the writer itself takes version 2.1 for them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError, first_line, is_panic
from hudi_py.formats.avro.schema import Array, Choice, Map, Node, Nullable, Record
from hudi_py.formats.base.origin import check_origin
from hudi_py.formats.base.reader import BaseFileFooter, OpenBaseFile, canonical_type, empty_columns, footer_with
from hudi_py.formats.base.rows import BaseFileSummary, BaseWriter
from hudi_py.formats.temporary import TemporaryFiles
from hudi_py.model.names import FILE_NAME
from hudi_py.storage.base import missing
from hudi_py.storage.local import LocalStorage

if TYPE_CHECKING:
    from hudi_py.formats.keys.bloom import BloomConfig
    from hudi_py.storage import Storage

_COPIED_AT_ONCE = 1 << 22
_MAGIC = b"LANC"
_FOOTER_BYTES = 40
_VERSION: Final = "2.0"
_WITH_STRUCTS: Final = "2.1"
_CACHE_BYTES: Final = 64 << 20
"""Size of the cache for all columns of a file while it is written."""


def check_lance(uri: str, verb: str = "read") -> None:
    """Raises UnsupportedTableError if pylance is not installed. `verb` completes the message."""
    try:
        from lance.file import LanceFileReader  # noqa: F401
    except ImportError as error:
        raise UnsupportedTableError(
            f"Cannot {verb} the table at {uri}: its base files are in the Lance format, which needs the library "
            f"pylance ({error}); pip install 'hudi-py[lance]'"
        ) from error


class LanceBaseFile(OpenBaseFile):
    """A Lance base file, open for reading; it has no row groups."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Opens the file.

        Raises:
            CorruptFileError: the file is not a Lance file, or is damaged.
            FileNotFoundError: the file does not exist.
            UnsupportedTableError: pylance is not installed.
        """
        check_lance(f"{storage.uri}/{path}")
        with ExitStack() as opened:
            self._name = opened.enter_context(_local(storage, path))
            with _damage_named(path):
                _check_end(self._name)
                self._metadata = _reader(self._name, None).metadata()
            super().__init__(path, opened.pop_all())

    def _damage_named(self) -> AbstractContextManager[None]:
        return _damage_named(self.path)

    def _read_footer(self) -> BaseFileFooter:
        stored: pa.Schema = self._metadata.schema
        schema = pa.schema([pa.field(field.name, canonical_type(field.type)) for field in stored])
        texts = {key.decode(): value.decode() for key, value in (stored.metadata or {}).items()}
        return footer_with(self.path, int(self._metadata.num_rows), 0, schema, texts)

    def _batches(
        self, columns: Collection[str] | None, batch_rows: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        held, rows = self._metadata.schema.names, int(self._metadata.num_rows)
        names = held if columns is None else [column for column in columns if column in held]
        if not names:
            yield from empty_columns(rows, batch_rows)
            return
        if FILE_NAME in held and rows:
            first = _reader(self._name, [FILE_NAME]).read_range(0, 1).to_table()[FILE_NAME][0].as_py()
            check_origin(first, None, self.path, exact=True)
        for batch in _reader(self._name, names).read_all(batch_size=batch_rows).to_batches():
            batch = batch.select(names)
            fields = [pa.field(field.name, canonical_type(field.type)) for field in batch.schema]
            yield batch.cast(pa.schema(fields))


def _check_end(name: str) -> None:
    """Raises ValueError unless the file ends like a Lance file: pylance prints a stack trace for an empty one."""
    with open(name, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(_MAGIC), 0))
        if size < _FOOTER_BYTES or file.read() != _MAGIC:
            raise ValueError(f"its {size} bytes do not end as a Lance file does")


def _reader(name: str, columns: list[str] | None) -> Any:
    from lance.file import LanceFileReader

    return LanceFileReader(name, columns=columns)


@contextmanager
def _local(storage: Storage, path: str) -> Iterator[str]:
    """Yields the name of a local copy of the file: pylance opens files itself, and would use its own credentials."""
    if isinstance(storage, LocalStorage):
        name = os.path.join(storage.root, path)
        if not os.path.exists(name):  # pylance would report a missing file as a damaged one
            raise missing(storage.uri, path)
        yield name
        return
    with TemporaryFiles() as files:
        name = files.file("base.lance")
        with storage.open_input(path) as source, open(name, "wb") as copy:
            while block := source.read(_COPIED_AT_ONCE):
                copy.write(block)
        yield name


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    # pylance raises ValueError and OSError for most damage, and panics on the rest
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {first_line(error)}; it is damaged") from error


class LanceFileWriter(BaseWriter):
    """Writes one Lance file; after an exception there is none.

    pylance can only write to local files, or with credentials of its own. So the file is created in a temporary folder
    and copied to the storage once it is complete.
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
        self._files = TemporaryFiles()
        self._name = self._files.file("base.lance")
        self._nested = frozenset(index for index, field in enumerate(self._schema) if _has_struct(field.type))
        version = _WITH_STRUCTS if self._nested else _VERSION
        try:
            self._writer: Any = FileWriter(self._name, self._schema, version=version, data_cache_bytes=_CACHE_BYTES)
        except BaseException:  # nobody else knows of the folder yet
            self._files.close()
            raise

    def _estimate(self) -> int:
        """Returns the Arrow bytes of the rows, which Apache Hudi takes as the estimated size of a Lance file."""
        return self._bytes

    def _add(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write_batch(self._whole(batch))
        except (ValueError, NotImplementedError) as error:  # raised by pylance for unsupported types
            raise SchemaMismatchError(
                f"Cannot write rows to base file {self._path}: pylance refuses them: {error}"
            ) from error
        self._bytes += batch.nbytes

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Copies the nested columns of a batch: pylance (14) panics at slices of structs with nulls."""
        numbers = pa.array(np.arange(batch.num_rows)) if self._nested else None
        columns = [
            column.take(numbers) if index in self._nested else column for index, column in enumerate(batch.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _complete(self) -> BaseFileSummary:
        for key, value in self._keys.pairs().items():
            self._writer.add_schema_metadata(key, value)
        self._writer.close()
        size = os.path.getsize(self._name)
        with open(self._name, "rb") as made, self._storage.open_output(self._path) as sink:
            while block := made.read(_COPIED_AT_ONCE):
                sink.write(block)
        self._files.close()
        return self._summarized(size)

    def _abandon(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer = None
        self._files.close()


def unwritable_to_lance(node: Node) -> str:
    """Returns why Lance files cannot hold a column of an Avro type; empty if they can."""
    if isinstance(node, Map):
        return "it has a map, at which Apache Hudi 1.2.0 crashes"
    if isinstance(node, Record) or (isinstance(node, Choice) and node.number is None):
        return "it has a struct, whose nulls Apache Hudi 1.2.0 loses or cannot read"
    if isinstance(node, Nullable):
        return unwritable_to_lance(node.value)
    return unwritable_to_lance(node.item) if isinstance(node, Array) else ""


def _has_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or any(_has_struct(kind.field(index).type) for index in range(kind.num_fields))
