"""Reads Lance base files with the library pylance (the extra `lance`).

In Apache Hudi a base file is one Lance file (`HoodieBaseLanceWriter`, 1.2.0); its schema metadata corresponds to the
footer of a Parquet base file. The Lance version that it writes does not store null structs: as in Apache Hudi, they are
read as structs of nulls. `lance_writer` writes them so that they are read as nulls.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_py.errors import CorruptFileError, UnsupportedTableError, first_line, is_panic
from hudi_py.formats.base_reader import (
    BaseFileFooter,
    OpenBaseFile,
    canonical_type,
    empty_columns,
    footer_with,
)
from hudi_py.formats.origin import check_origin
from hudi_py.model.names import FILE_NAME
from hudi_py.storage.base import missing
from hudi_py.storage.local import LocalStorage

if TYPE_CHECKING:
    from hudi_py.storage import Storage

_COPIED_AT_ONCE = 1 << 22
_MAGIC = b"LANC"
_FOOTER_BYTES = 40


def check_lance(uri: str, verb: str = "read") -> None:
    """Raises UnsupportedTableError if pylance is not installed. `verb`: what was attempted with the table."""
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
        """Open the file.

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
        found: pa.Schema = self._metadata.schema
        schema = pa.schema([pa.field(each.name, canonical_type(each.type)) for each in found])
        texts = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
        return footer_with(self.path, int(self._metadata.num_rows), 0, schema, texts)

    def _batches(
        self, columns: Collection[str] | None, batch_rows: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        held, rows = self._metadata.schema.names, int(self._metadata.num_rows)
        names = held if columns is None else [each for each in columns if each in held]
        if not names:
            yield from empty_columns(rows, batch_rows)
            return
        if FILE_NAME in held and rows:
            first = _reader(self._name, [FILE_NAME]).read_range(0, 1).to_table()[FILE_NAME][0].as_py()
            check_origin(first, None, self.path, exact=True)
        for batch in _reader(self._name, names).read_all(batch_size=batch_rows).to_batches():
            batch = batch.select(names)
            fields = [pa.field(each.name, canonical_type(each.type)) for each in batch.schema]
            yield batch.cast(pa.schema(fields))


def _check_end(name: str) -> None:
    """Raises ValueError for what is no whole Lance file: pylance prints a stack for an empty one."""
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
    """Name of a local file with the content: pylance opens files itself, and would use its own credentials."""
    if isinstance(storage, LocalStorage):
        name = os.path.join(storage.root, path)
        if not os.path.exists(name):  # pylance would report it like damage
            raise missing(storage.uri, path)
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="hudi-py-") as folder:
        name = os.path.join(folder, "base.lance")
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
