"""Column ranges of data files, from their sidecars or else from the files themselves.

Sources: `HoodieTableMetadataUtil.readColumnRangeMetadataFrom`, `getLogFileColumnRangeMetadata`, 1.2.0.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.file_stats.columns import IndexedColumn, named_columns
from hudi_py.file_stats.footers import footer_ranges
from hudi_py.file_stats.ranges import ColumnRanges, column_ranges
from hudi_py.file_stats.sidecar import read_sidecar
from hudi_py.formats.avro import decode_log_content, decode_values
from hudi_py.formats.base.parquet import block_batches
from hudi_py.formats.hfile import read_hfile
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks, read_content
from hudi_py.merge import scan_log
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.names import PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.model.words import visible
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads, when_remote
from hudi_py.view.bootstrap import METADATA_INSTANT


@dataclass(frozen=True, slots=True)
class DataFile:
    """A base or log file."""

    partition: str
    name: str
    size: int
    """Bytes."""

    @classmethod
    def of(cls, file: BaseFile | LogFile) -> DataFile:
        return cls(file.partition, str(file.name), file.size)


def ranges_of_files(
    storage: Storage, files: Iterable[DataFile], columns: Sequence[IndexedColumn], *, sidecars: str = ""
) -> Iterator[tuple[DataFile, ColumnRanges | None]]:
    """Yields each file with its ranges, in order; reads in parallel, except local sidecars.

    The ranges are None for ORC, HFile and bootstrapped base files, for change data files, and, with a warning, for
    files that cannot be read.

    Args:
        sidecars: folder of the files' sidecars.
    """

    def one(file: DataFile) -> ColumnRanges | None:
        try:
            return ranges_of_file(storage, file, columns, sidecars=sidecars)
        except FileNotFoundError:
            return None
        except (CorruptFileError, UnsupportedTableError, SchemaMismatchError) as error:
            warnings.warn(f"No statistics for the file {visible(file.name)}: {error}", UserWarning, stacklevel=2)
            return None

    listed = list(files)
    sizes = when_remote(storage, one, listed) if sidecars else in_threads(one, listed)
    yield from zip(listed, sizes, strict=True)


def ranges_of_file(
    storage: Storage, file: DataFile, columns: Sequence[IndexedColumn], *, sidecars: str = ""
) -> ColumnRanges | None:
    """Computes ranges as `ranges_of_files`, for one file.

    Raises:
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: the file cannot be read.
        FileNotFoundError: there is no such file.
    """
    path = join_path(PartitionPath(file.partition), file.name)
    sidecar = read_sidecar(storage, sidecars, path)
    rows = None if sidecar is None else sidecar.ranges
    if rows is not None:
        return ColumnRanges(rows)
    log = parse_log_file_name(file.name)
    if log is not None:
        return None if log.cdc else log_ranges(storage, LogFile(PartitionPath(file.partition), log, file.size), columns)
    base = parse_base_file_name(file.name)
    if base is None or base.extension != "parquet" or base.instant == METADATA_INSTANT:
        return None  # the rows of bootstrapped files are in another file
    return footer_ranges(storage, path, columns)


def log_ranges(storage: Storage, file: LogFile, columns: Sequence[IndexedColumn]) -> ColumnRanges:
    """Computes the ranges of the unmerged records of a log file, without deletes.

    Raises:
        CorruptFileError: a block cannot be decoded.
    """
    blocks = scan_log(storage, [file], committed=None)
    if not blocks:  # the blocks of a log compaction replace those of other files
        blocks = [b for b in read_blocks(storage, file.path, file.size) if HeaderKey.COMPACTED_BLOCK_TIMES in b.header]
    parts = [
        part
        for block in blocks
        if block.type is not BlockType.DELETE
        for part in _block_ranges(storage, block, columns)
    ]
    return ColumnRanges.merged(parts, columns) if parts else column_ranges((), columns)


def _block_ranges(storage: Storage, block: LogBlock, columns: Sequence[IndexedColumn]) -> Iterator[ColumnRanges]:
    content = read_content(storage, block)
    schema_json = block.header.get(HeaderKey.SCHEMA)
    if not schema_json:
        raise CorruptFileError(f"Data block at byte {block.content_offset} of {block.path} has no SCHEMA")
    # the types in which the records were written; for missing columns the type does not matter
    written = {column.name: column for column in named_columns(schema_json, [column.name for column in columns])}
    stored = [written.get(column.name, column) for column in columns]
    heads = {column.name.partition(".")[0] for column in columns}
    schema = json.loads(schema_json)
    batches: Iterable[pa.RecordBatch] = ()
    if block.type is BlockType.AVRO:
        batches = [decode_log_content([content], schema, columns=heads, context=block.path)]
    elif block.type is BlockType.HFILE:
        batches = decode_values(
            read_hfile(content, context=block.path).scan().values, schema, heads, context=block.path
        )
    elif block.type is BlockType.PARQUET:
        batches = block_batches(content, sorted(heads), block.path, block.content_offset)
    for batch in batches:
        if batch.num_rows:
            yield column_ranges(batch, stored)
