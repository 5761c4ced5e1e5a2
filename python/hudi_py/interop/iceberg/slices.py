"""Turns Hudi's file slices into Iceberg files: base files, position deletes, and rows of logs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.base.parquet import read_metadata
from hudi_py.interop.iceberg.columns import IcebergColumns, Json
from hudi_py.interop.iceberg.footers import Reading, counts_and_bounds, why_not_read
from hudi_py.interop.iceberg.index import group_name
from hudi_py.interop.iceberg.manifests import ADDED, DATA, POSITION_DELETES, ManifestEntry, data_file
from hudi_py.interop.iceberg.rows import (
    DELETES,
    FILE_PATH_ID,
    ROWS,
    SideFile,
    replaced_positions,
    side_name,
    write_deletes,
    write_rows,
)
from hudi_py.interop.iceberg.target import MetadataFiles
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.split import Split
from hudi_py.read.support import missing_file
from hudi_py.storage.threads import default_threads, in_threads, when_remote
from hudi_py.timeline.timeline import Timeline

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
