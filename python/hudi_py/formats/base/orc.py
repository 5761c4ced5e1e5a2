"""Reads ORC base files.

Apache Hudi (`AvroOrcUtils`, 1.2.0) writes timestamps with a zone as ORC's TIMESTAMP: wall-clock time in the writer's
zone, without the milliseconds, which it loses; timestamps without a zone are longs. Like its reader, this module
interprets the wall-clock time in the reading process's zone. `formats.base.orc_values` has the types.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro.schema import Node, resolve_record
from hudi_py.formats.base.orc_values import from_orc, read_type
from hudi_py.formats.base.origin import check_origin
from hudi_py.formats.base.reader import BaseFileFooter, OpenBaseFile, empty_columns, footer_with
from hudi_py.model.limits import EXTREME, UNPACKED, limit
from hudi_py.model.names import FILE_NAME

try:
    from pyarrow import orc
except ImportError:  # some builds of pyarrow lack it
    orc = None

if TYPE_CHECKING:
    from hudi_py.storage import Storage

AVRO_SCHEMA = "orc.avro.schema"
_VALUE_BYTES: Final = 8
"""Size of a number in memory."""


class OrcBaseFile(OpenBaseFile):
    """An ORC base file, open for reading; its stripes count as row groups, and are read as a whole."""

    def __init__(self, storage: Storage, path: str, zone: str = "UTC") -> None:
        """Opens the file.

        Args:
            zone: zone of the file's wall-clock timestamps, a name in the time zone database.

        Raises:
            CorruptFileError: the file is not an ORC file, or is damaged, or names other columns than its Avro schema.
            FileNotFoundError: the file does not exist.
            UnsupportedTableError: pyarrow was built without ORC, or a timestamp is out of range for Arrow's ORC reader.
        """
        if orc is None:
            raise UnsupportedTableError(
                f"Cannot read base file {path}: this build of pyarrow has no ORC; install pyarrow from PyPI"
            )
        with ExitStack() as opened:
            source = opened.enter_context(storage.open_input(path))
            with _damage_named(path):
                self.orc = orc.ORCFile(source)
                _check_rows(self.orc, path)
                _check_names(self.orc, path)
            super().__init__(path, opened.pop_all())
        self._zone = zone

    def _damage_named(self) -> AbstractContextManager[None]:
        return _damage_named(self.path)

    def _read_footer(self) -> BaseFileFooter:
        file = self.orc
        schema = _canonical_schema(file.schema, _column_nodes(file))
        return footer_with(self.path, int(file.nrows), int(file.nstripes), schema, _footer_pairs(file, self.path))

    def _batches(
        self, columns: Collection[str] | None, batch_rows: int, stripes: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        file = self.orc
        result: pa.Schema = file.schema
        nodes = _column_nodes(file)
        schema = _canonical_schema(result, nodes)
        names = schema.names if columns is None else [name for name in columns if name in schema.names]
        if not names and stripes is None:
            yield from empty_columns(file.nrows, batch_rows)
            return
        output = pa.schema([schema.field(name) for name in names])
        read = names or result.names[:1]
        owned = FILE_NAME in result.names
        for stripe in range(file.nstripes) if stripes is None else stripes:
            # the first stripe is read under the name of the file, which its footer does not contain
            batch = file.read_stripe(stripe, columns=[*read, FILE_NAME] if owned and FILE_NAME not in read else read)
            if isinstance(batch, pa.Table):
                batch = batch.combine_chunks().to_batches()[0]
            if owned and batch.num_rows:
                check_origin(batch.column(FILE_NAME)[0].as_py(), None, self.path)
                owned = False
            if not names:
                yield from empty_columns(batch.num_rows, batch_rows)
                continue
            arrays = [
                from_orc(batch.column(name), output.field(name).type, nodes.get(name), self._zone) for name in names
            ]
            whole = pa.RecordBatch.from_arrays(arrays, schema=output)
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)

    def row_group_sizes(self) -> list[int]:
        """Returns approximate sizes of the stripes: Arrow does not expose them, so all are equal."""
        count = int(self.orc.nstripes)
        return [int(self.orc.content_length) // count] * count if count else []


@contextmanager
def open_orc(storage: Storage, path: str) -> Iterator[Any]:
    """Opens a base file as a `pyarrow.orc.ORCFile`. Arrow's errors in the context become `CorruptFileError`.

    Raises what `OrcBaseFile` raises.
    """
    with closing(OrcBaseFile(storage, path)) as file, _damage_named(path):
        yield file.orc


def _canonical_schema(schema: pa.Schema, nodes: Mapping[str, Node]) -> pa.Schema:
    return pa.schema([pa.field(field.name, read_type(field.type, nodes.get(field.name))) for field in schema])


def _footer_pairs(file: Any, path: str) -> dict[str, str]:
    pairs: dict[bytes, bytes] = dict(file.metadata or {})
    try:
        return {key.decode(): value.decode() for key, value in pairs.items()}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"Cannot read the footer of {path}: {error}") from error


def _column_nodes(file: Any) -> Mapping[str, Node]:
    """Returns the columns' types in the file's Avro schema; empty if it has no readable one."""
    return _fields_of(dict(file.metadata or {}).get(AVRO_SCHEMA.encode(), b""))


@functools.lru_cache(maxsize=16)
def _fields_of(avro: bytes) -> Mapping[str, Node]:
    """Parses an Avro schema. Cached, since opening and reading a file both call it, and a table's files have few
    schemas."""
    try:
        return dict(resolve_record(json.loads(avro)).fields) if avro else {}
    except (ValueError, RecursionError, SchemaMismatchError, UnsupportedTableError):
        return {}


def _check_rows(file: Any, path: str) -> None:
    """Raises CorruptFileError if the file claims far more rows than its bytes can hold: a stripe is unpacked as a
    whole."""
    unpacked = int(file.nrows) * _VALUE_BYTES
    if unpacked > limit(UNPACKED) and unpacked > int(file.file_length) * EXTREME:
        raise CorruptFileError(
            f"Cannot read base file {path}: it claims {file.nrows} rows in {file.file_length} bytes; if the file is "
            f"sound, set {UNPACKED} in the environment to more than {unpacked}",
            path=path,
        )


def _check_names(file: Any, path: str) -> None:
    """Checks the names of columns. ORC has no checksums, so a column with a damaged name would count as missing and be
    all null."""
    names, expected = file.schema.names, list(_column_nodes(file))
    if expected and names != expected:
        raise CorruptFileError(
            f"Cannot read base file {path}: its footer names the columns {', '.join(names)}, but its Avro schema "
            f"{', '.join(expected)}; restore the file from a copy"
        )


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        text = str(error)
        if "out of range for nanosecond" in text:
            raise UnsupportedTableError(
                f"Cannot read base file {path}: {text}; supported: timestamps of the years 1678 to 2262 in ORC files"
            ) from error
        raise CorruptFileError(f"Cannot read base file {path}: {text}") from error
    except OSError as error:
        # Arrow reports damage as an OSError without an errno
        if error.errno is not None:
            raise
        raise CorruptFileError(f"Cannot read base file {path}: {error}") from error
