"""Base files of either format that is written, Parquet and ORC; a file's format is its extension."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudi_py.formats.bloom import BloomConfig
from hudi_py.formats.orc import open_orc, orc_batches, orc_footer
from hudi_py.formats.orc_writer import OrcFileWriter
from hudi_py.formats.parquet import BATCH_ROWS, BaseFileFooter, batches_of, footer_of, open_parquet
from hudi_py.formats.parquet_writer import ROW_GROUP_BYTES, BaseFileWriter
from hudi_py.model.zones import local_zone_name

if TYPE_CHECKING:
    from hudi_py.storage import Storage

PARQUET: Final = "parquet"
ORC: Final = "orc"
WRITTEN_FORMATS: Final = (PARQUET, ORC)
"""Extensions of the base files that are written."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How base files are written."""

    extension: str = PARQUET
    codec: str = "zstd"
    row_group_bytes: int = ROW_GROUP_BYTES
    """Arrow bytes of a row group; bytes of a stripe of ORC."""


def base_file_writer(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    avro_schema_json: str,
    *,
    bloom: BloomConfig | None,
    layout: FileLayout,
) -> BaseFileWriter | OrcFileWriter:
    """A writer of one base file; for arguments and errors see `BaseFileWriter` and `OrcFileWriter`. The timestamps of
    an ORC file are wall-clock times in the zone of this process, which is also the one they are read in."""
    if layout.extension == ORC:
        return OrcFileWriter(
            storage,
            path,
            schema,
            avro_schema_json,
            bloom=bloom,
            codec=layout.codec,
            stripe_bytes=layout.row_group_bytes,
            zone=local_zone_name(),
        )
    return BaseFileWriter(
        storage,
        path,
        schema,
        avro_schema_json,
        bloom=bloom,
        codec=layout.codec,
        row_group_bytes=layout.row_group_bytes,
    )


@dataclass(frozen=True, slots=True)
class OpenBaseFile:
    """A base file being read."""

    path: str
    file: Any
    """A `pyarrow.parquet.ParquetFile` or `pyarrow.orc.ORCFile`."""

    @property
    def footer(self) -> BaseFileFooter:
        """Raises CorruptFileError."""
        return orc_footer(self.file, self.path) if is_orc(self.path) else footer_of(self.file, self.path)

    @property
    def num_rows(self) -> int:
        """Rows, from the footer."""
        return int(self.file.nrows if is_orc(self.path) else self.file.metadata.num_rows)

    def batches(self, columns: Collection[str] | None, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """As `formats.parquet.iter_base_batches`."""
        if is_orc(self.path):
            return orc_batches(self.file, columns, batch_rows=batch_rows, zone=local_zone_name())
        return batches_of(self.file, columns, batch_rows=batch_rows)


@contextmanager
def open_base_file(storage: Storage, path: str) -> Iterator[OpenBaseFile]:
    """Opens a Parquet or ORC base file. Arrow's errors in the context become `CorruptFileError`.

    Raises:
        CorruptFileError: the file has another format, or is damaged.
        FileNotFoundError: the file does not exist.
        UnsupportedTableError: ORC, with a build of pyarrow without it or a timestamp out of its range.
    """
    with (open_orc if is_orc(path) else open_parquet)(storage, path) as file:
        yield OpenBaseFile(path, file)


def iter_base_rows(
    storage: Storage, path: str, columns: Collection[str] | None, *, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """A base file's rows in order, as `formats.parquet.iter_base_batches`. Raises what `open_base_file` raises."""
    with open_base_file(storage, path) as file:
        yield from file.batches(columns, batch_rows=batch_rows)


def read_base_footer(storage: Storage, path: str) -> BaseFileFooter:
    """Reads only the footer of a base file. Raises what `open_base_file` raises."""
    with open_base_file(storage, path) as file:
        return file.footer


def is_orc(path: str) -> bool:
    """Whether a base file is ORC, by its name."""
    return path.endswith(".orc")
