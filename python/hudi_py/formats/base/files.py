"""Opens and writes base files of any format, by the extension of their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from hudi_py.formats.base.lance import LanceBaseFile, LanceFileWriter
from hudi_py.formats.base.orc import OrcBaseFile
from hudi_py.formats.base.orc_writer import OrcFileWriter, OrcLayout
from hudi_py.formats.base.parquet import ParquetBaseFile
from hudi_py.formats.base.parquet_writer import BaseFileWriter, FileLayout
from hudi_py.formats.base.reader import BATCH_ROWS, BaseFileFooter, OpenBaseFile
from hudi_py.formats.base.rows import BaseWriter
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.model.zones import local_zone_name

if TYPE_CHECKING:
    from hudi_py.storage import Storage

WRITTEN = ("PARQUET", "ORC", "LANCE")
"""Formats of base files that can be written, as spelt in `hoodie.table.base.file.format`."""


def extension_of(path: str) -> str:
    """Returns the extension of a file's name, without the dot and in lower case."""
    return path.rpartition(".")[2].lower()


def open_base_file(storage: Storage, path: str) -> OpenBaseFile:
    """Opens a base file of any format; a file without a known extension counts as Parquet. Timestamps of ORC files are
    wall-clock times in the zone of this process.

    Raises:
        CorruptFileError: the file is damaged, or of another format than its name says.
        FileNotFoundError: the file does not exist.
        UnsupportedTableError: a library for the format is missing.
    """
    extension = extension_of(path)
    if extension == "lance":
        return LanceBaseFile(storage, path)
    return OrcBaseFile(storage, path, local_zone_name()) if extension == "orc" else ParquetBaseFile(storage, path)


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """Reads the footer of a base file. Raises what `open_base_file` raises."""
    with open_base_file(storage, path) as file:
        return file.footer


def iter_base_batches(
    storage: Storage, path: str, columns: Collection[str] | None, *, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a base file of any format in order, see `OpenBaseFile.batches`.

    Raises what `open_base_file` raises.
    """
    with open_base_file(storage, path) as file:
        yield from file.batches(columns, batch_rows=batch_rows)


def base_writer(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    avro_schema_json: str,
    *,
    bloom: BloomConfig | None,
    layout: FileLayout,
) -> BaseWriter:
    """Opens a writer of a base file.

    Args:
        path: the file, created or replaced; its extension says the format, one of `WRITTEN`.
        schema: columns, including meta columns.
        avro_schema_json: the same as an Avro schema, for footers that have one.
        bloom: size of the filter over the record keys; None: the file says nothing of its keys.
    """
    if extension_of(path) == "lance":
        return LanceFileWriter(storage, path, schema, bloom=bloom)
    if extension_of(path) == "orc":
        stripes = OrcLayout(layout.codec, layout.row_group_bytes, local_zone_name())
        return OrcFileWriter(storage, path, schema, avro_schema_json, bloom=bloom, layout=stripes)
    return BaseFileWriter(storage, path, schema, avro_schema_json, bloom=bloom, layout=layout)
