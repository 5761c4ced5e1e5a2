"""Turns Hudi's file slices into Iceberg files: base files, position deletes, and rows of logs."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.formats.base.parquet_writer import fill_required, plain_writer
from hudi_py.interop.iceberg.columns import IcebergColumns, Json
from hudi_py.interop.iceberg.footers import Reading, counts_and_bounds, why_not_read
from hudi_py.interop.iceberg.index import group_name
from hudi_py.interop.iceberg.manifests import ADDED, DATA, POSITION_DELETES, ManifestEntry, data_file
from hudi_py.interop.iceberg.target import MetadataFiles
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.slices.parts import CHUNK_ROWS, added_rows, replaced_rows
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.split import Split
from hudi_py.read.support import missing_file
from hudi_py.storage import Storage
from hudi_py.storage.threads import default_threads, in_threads, when_remote
from hudi_py.timeline.timeline import Timeline

ROWS: Final = "rows"
DELETES: Final = "deletes"
FILE_PATH_ID: Final = 2147483546
POSITION_ID: Final = 2147483545
"""Reserved ids of the columns of position delete files (specification, reserved field ids)."""
_ROW_GROUP: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class SideFile:
    """A Parquet file that was written for a slice."""

    path: str
    """Relative to the table."""
    rows: int
    size: int
    metadata: pq.FileMetaData


def side_name(slice_prefix: str, kind: str) -> str:
    """Returns a new path for a side file; `kind` is `ROWS` or `DELETES`."""
    return f"{slice_prefix}-{secrets.token_hex(4)}-{kind}.parquet"


def write_rows(storage: Storage, split: Split, path: str, columns: IcebergColumns) -> SideFile | None:
    """Writes the rows of a slice that its base file lacks; None if there are none."""
    batches = read_split_on(storage, split) if split.base_file is None else added_rows(storage, split)
    return _write_side_file(storage, path, columns.arrow(split.output_schema), _with_constants(batches, split))


def replaced_positions(storage: Storage, split: Split) -> Any:
    """Returns ascending positions (NumPy, int64) of the rows in a slice's base file that its logs replace or delete."""
    result = []
    for batch in replaced_rows(storage, split):
        for chunk, words in zip(batch.column("chunk").to_pylist(), batch.column("bits"), strict=True):
            bits = np.unpackbits(words.values.to_numpy().astype("<i8").view(np.uint8), bitorder="little")
            result.append(np.flatnonzero(bits) + chunk * CHUNK_ROWS)
    return np.concatenate(result) if result else np.empty(0, np.int64)


def write_deletes(storage: Storage, positions: Any, base: str, path: str) -> SideFile:
    """Writes a position delete file for the base file at the location `base`."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(FILE_PATH_ID).encode()}),
            pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(POSITION_ID).encode()}),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(positions), _ROW_GROUP):
            part = pa.array(positions[start : start + _ROW_GROUP], pa.int64())
            yield pa.RecordBatch.from_arrays([pa.repeat(base, len(part)), part], schema=schema)

    made = _write_side_file(storage, path, schema, batches())
    assert made is not None
    return made


def _with_constants(batches: Iterator[pa.RecordBatch], split: Split) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name, value in split.partition_values:
            index = batch.schema.get_field_index(name)
            if index >= 0:
                batch = batch.set_column(index, batch.schema.field(index), pa.repeat(value, batch.num_rows))
        yield batch


def _write_side_file(
    storage: Storage, path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> SideFile | None:
    footers: list[pq.FileMetaData] = []
    first = next(batches, None)
    if first is None:
        return None
    with storage.open_output(path) as out, plain_writer(out, schema, footers, store_schema=False) as writer:
        batch: pa.RecordBatch | None = first
        while batch is not None:
            rows = pa.RecordBatch.from_arrays(_cast_columns(batch, schema), schema=schema)
            writer.write_batch(fill_required(rows), _ROW_GROUP)
            batch = next(batches, None)
    size = storage.stat(path)
    assert size is not None
    return SideFile(path, footers[0].num_rows, size.size, footers[0])


def _cast_columns(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Casts columns to types that differ only in names, ids and nullability of their members."""
    return [
        column if column.type.equals(field.type, check_metadata=True) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]


_MERGING = ("hoodie.record.merge", "hoodie.table.ordering", "hoodie.table.precombine", "hoodie.compaction.payload")
"""Prefixes of properties that decide which version of a row wins."""


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """The files that an Iceberg snapshot should have."""

    columns: IcebergColumns
    """The given columns, with ids for further names in the files."""

    kept: frozenset[str]
    """Locations of files that the table already has."""
    added: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as Iceberg knows it."""

    spec_id: int
    values: Mapping[str, Any]
    """By the names of the spec's fields."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """The shared state of all slices of a publication."""

    files: MetadataFiles
    config: TableConfig
    timeline: Timeline
    columns: IcebergColumns
    partitions: Mapping[PartitionPath, Partition]
    live: Mapping[str, ManifestEntry] = field(repr=False)
    """Files of the newest Iceberg snapshot by location; at least those of the slices."""
    snapshot_id: int = 0

    def wanted(self, splits: Sequence[Split]) -> WantedFiles:
        """Returns the files for some slices. Reads the footers of new base files first, then writes side files.

        Raises:
            UnsupportedTableError: Iceberg would not read a base file as Hudi does; nothing was written.
            HistoryCleanedError: a file was cleaned meanwhile.
        """
        kept: set[str] = set()
        sides_there = self._sides_there()
        new_bases: dict[str, Split] = {}
        to_merge: list[Split] = []
        for split in splits:
            known = sides_there.get(self._side(split)) if split.log_files else None
            if known is not None:
                kept.update(known)
            elif split.log_files:
                to_merge.append(split)
            if split.base_file is None:
                continue
            location = self.files.located(split.base_file.path)
            if location in self.live:
                kept.add(location)
            elif known is None:  # otherwise the logs replace all of its rows
                new_bases[location] = split
        to_check = dict(new_bases)
        if self.columns.reassigned:  # known files are now read by other names
            bases = ((split.base_file, split) for split in splits)
            to_check = {self.files.located(base.path): split for base, split in bases if base is not None}
        footers = dict(zip(to_check, when_remote(self.files.storage, self._footer, to_check.values()), strict=True))
        columns = self.columns.with_files(_distinct_schemas(footers.values()))
        readings = {location: self._reading(split, columns) for location, split in to_check.items()}
        for location, split in to_check.items():
            why = why_not_read(footers[location], readings[location])
            if why is not None:
                raise self._refused(split, why)
        sides = in_threads(self._sides, to_merge, default_threads())
        added: list[ManifestEntry] = []
        for split, (entries, whole) in zip(to_merge, sides, strict=True):
            added += entries
            if whole and split.base_file is not None:  # none of its rows is left
                location = self.files.located(split.base_file.path)
                kept.discard(location)
                new_bases.pop(location, None)
        for location, split in new_bases.items():
            assert split.base_file is not None
            footer = footers[location]
            more = counts_and_bounds(footer, readings[location])
            values, size = self.partitions[split.partition].values, split.base_file.size
            added.append(self._entry(split, data_file(location, DATA, values, footer.num_rows, size, **more)))
        added.sort(key=lambda entry: (entry.content, entry.path))
        return WantedFiles(columns, frozenset(kept), tuple(added))

    def _sides_there(self) -> dict[str, list[str]]:
        """Returns locations of the side files of the newest Iceberg snapshot by path prefix."""
        result: dict[str, list[str]] = defaultdict(list)
        for location in self.live:
            if self.files.is_side(location):
                result[self.files.path(location).rsplit("-", 2)[0]].append(location)
        return result

    def _side(self, split: Split) -> str:
        """Returns the path prefix of a slice's side files: unchanged as long as its rows are."""
        pending: list[str] = []
        if not self.config.logs_named_by_instant:  # blocks of a log may become valid without a change of the file
            pending = [instant.time for instant in self.timeline.pending]
        merging = sorted(item for item in self.config.properties.items() if item[0].startswith(_MERGING))
        base = None if split.base_file is None else split.base_file.path
        logs = [(log.path, log.size) for log in split.log_files]
        text = repr((split.partition, split.file_id, base, logs, pending, merging))
        group = group_name((split.partition, FileId(split.file_id)))
        return self.files.side_prefix + group + hashlib.sha256(text.encode()).hexdigest()[:20]

    def _footer(self, split: Split) -> pq.FileMetaData:
        assert split.base_file is not None
        base = split.base_file
        if base.name.extension != "parquet" or base.source is not None:
            kind = base.name.extension.upper() if base.source is None else "bootstrapped"
            raise self._refused(split, f"it is a {kind} file; Iceberg needs complete Parquet files")
        try:
            return read_metadata(self.files.storage, base.path)
        except FileNotFoundError as error:
            raise missing_file(self.files.storage, split, error) from error

    def _refused(self, split: Split, why: str) -> UnsupportedTableError:
        assert split.base_file is not None
        path = split.base_file.path
        return UnsupportedTableError(
            f"Cannot publish {self.files.location} to Iceberg: its engines would not read {path} as Hudi does: {why}; "
            "write that file anew with other settings, for example by an insert_overwrite of its partition",
            path=path,
        )

    def _reading(self, split: Split, columns: IcebergColumns) -> Reading:
        assert split.base_file is not None
        history = split.spec.history
        sources = None if history is None else history.sources(split.base_file.instant)
        constant = {name: value.as_py() for name, value in split.partition_values}
        return Reading(columns.fields, columns.mapping, sources, constant, columns.hidden)

    def _sides(self, split: Split) -> tuple[list[ManifestEntry], bool]:
        """Returns entries of the side files of a slice, and whether they make its base file needless."""
        storage, prefix = self.files.storage, self._side(split)
        entries: list[ManifestEntry] = []
        whole = False
        try:
            if split.base_file is not None:
                positions = replaced_positions(storage, split)
                with BaseFileReader(storage, split.base_file) as reader:
                    whole = len(positions) > 0 and len(positions) == reader.num_rows
                if len(positions) and not whole:
                    entries.append(self._deletes(split, positions, prefix))
            path = side_name(prefix, ROWS)
            self.files.note(path)
            rows = write_rows(storage, split, path, self.columns)
        except FileNotFoundError as error:
            raise missing_file(storage, split, error) from error
        if rows is not None:
            reading = Reading(self.columns.fields, self.columns.mapping, None, {})
            entries.append(self._side_entry(split, rows, DATA, counts_and_bounds(rows.metadata, reading)))
        return entries, whole

    def _deletes(self, split: Split, positions: Any, prefix: str) -> ManifestEntry:
        assert split.base_file is not None
        base = self.files.located(split.base_file.path)
        path = side_name(prefix, DELETES)
        self.files.note(path)
        made = write_deletes(self.files.storage, positions, base, path)
        # equal bounds show readers that it applies to this one file
        bounds = {FILE_PATH_ID: base.encode()}
        return self._side_entry(split, made, POSITION_DELETES, {"lower_bounds": bounds, "upper_bounds": bounds})

    def _side_entry(self, split: Split, made: SideFile, content: int, more: Mapping[str, Any]) -> ManifestEntry:
        values = self.partitions[split.partition].values
        file = data_file(self.files.located(made.path), content, values, made.rows, made.size, **more)
        return self._entry(split, file)

    def _entry(self, split: Split, file: Json) -> ManifestEntry:
        return ManifestEntry(ADDED, self.snapshot_id, None, self.partitions[split.partition].spec_id, file)


def _distinct_schemas(footers: Iterable[pq.FileMetaData]) -> list[pa.Schema]:
    """Returns the distinct schemas of files."""
    return list({str(schema): schema for schema in (footer.schema.to_arrow_schema() for footer in footers)}.values())
