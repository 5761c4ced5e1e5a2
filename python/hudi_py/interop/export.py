"""Copies a table, or its rows, to another place (`HoodieSnapshotExporter`, Apache Hudi 1.2.0).

A copy has the newest file slices as of a time, the commits of the active timeline up to then, and the archive. It has
no metadata table, which a write builds, and neither cleans nor savepoints, whose files it lacks. What makes it a table
comes last, so that nothing half written can be read: `hoodie.properties`, or for rows the file `_SUCCESS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, ConflictError, UnsupportedTableError
from hudi_py.formats.base.parquet_writer import fill_required, plain_writer
from hudi_py.formats.log import HeaderKey, read_blocks
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime, State
from hudi_py.model.layout import BUCKET_INDEX, PARTITION_METAFILE, SCHEMAS
from hudi_py.model.names import NULL_PARTITION, PartitionPath, join_path
from hudi_py.model.words import Spoken, counted, show_bytes
from hudi_py.progress import Progress
from hudi_py.read import make_scan
from hudi_py.read.request import Moment, ScanArguments, ScanRequest
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.snapshot import Snapshot, open_snapshot
from hudi_py.schema import META_FIELDS
from hudi_py.storage import Storage, StrPath, open_beside, open_storage, path_text
from hudi_py.storage.base import copy_file
from hudi_py.storage.threads import in_threads, write_threads
from hudi_py.storage.within import set_modified
from hudi_py.timeline.archived import archive_folder
from hudi_py.timeline.properties import create_table_config, make_table_folders
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms, table_zone

FORMATS: Final = ("hudi", "parquet")
_SUCCESS: Final = "_SUCCESS"
_OF_METADATA: Final = ("hoodie.table.metadata.partitions", "hoodie.table.index.defs.path")
"""Properties, and prefixes of some, about the metadata table."""
_KEPT_ACTIONS: Final = WRITE_ACTIONS | {Action.ROLLBACK, Action.RESTORE}


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(Spoken):
    """The result of an export, or what it would do."""

    uri: str
    """Where the copy is."""
    format: str
    as_of: str | None
    """The newest write that is in the copy; None if there is none."""
    num_files: int = 0
    """Data files."""
    num_bytes: int = 0
    """Their size. Of rows, that in the table if nothing was written yet."""
    num_partitions: int = 0
    num_instants: int = 0
    """Instants in the copied timeline."""
    num_rows: int | None = None
    """Rows; None for a copy of the table."""
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def _text(self) -> str:
        what = counted(self.num_files, "file") if self.num_rows is None else counted(self.num_rows, "row")
        done = "would be copied" if self.dry_run else "copied"
        more = f" in {counted(self.num_partitions, 'partition')}, {show_bytes(self.num_bytes)}"
        return f"{what}{more} {done} to {self.uri}, as of {self.as_of or 'the creation of the table'}"


@dataclass(frozen=True, slots=True)
class _Source:
    """What is exported: the file slices of a state."""

    snapshot: Snapshot
    slices: tuple[FileSlice, ...]
    resized: tuple[LogFile, ...]
    """Logs of the buckets that a pending clustering will make: commits name them, so readers expect them."""
    timeline: Timeline
    """The instants up to the state's."""

    @classmethod
    def of(cls, state: TableState, as_of: InstantTime | None) -> _Source:
        snapshot = open_snapshot(state, as_of)
        view = snapshot.view(by_metadata=True)
        partitions = view.partitions()
        slices = tuple(slice_ for path in partitions for slice_ in view.latest_slices(path, snapshot.as_of))
        logs = tuple(log for path in partitions for log in view.logs_of_pending_clustering(path))
        seen = snapshot.timeline
        if as_of is not None:
            files = tuple(file for file in seen.files if file.time <= as_of)
            seen = Timeline(seen.layout, files, seen.start)
            logs = tuple(log for log in logs if log.name.instant <= as_of)
        return cls(snapshot, slices, logs, seen)

    @property
    def newest(self) -> Instant | None:
        writes = self.timeline.write_completed
        return writes[-1] if writes else None

    @property
    def files(self) -> dict[str, int]:
        """Maps the paths of the data files to their sizes."""
        bases = [slice_.base_file for slice_ in self.slices if slice_.base_file is not None]
        logs = [log for slice_ in self.slices for log in slice_.log_files]
        files: list[BaseFile | LogFile] = [*bases, *logs, *self.resized]
        return {file.path: file.size for file in files}

    @property
    def partitions(self) -> list[str]:
        return sorted({str(slice_.partition) for slice_ in self.slices})


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export, and how."""

    format: str = "hudi"
    """`hudi`, a copy of the table, or `parquet`, files with its rows without meta columns."""
    as_of: InstantTime | None = None
    """The instant whose state is exported; None: the newest."""
    partition_by: str | None = None
    """The column whose values have a folder each, `column=value`; only of `parquet`."""
    dry_run: bool = False
    """Whether only to return what would be exported."""


def export_table(
    state: TableState, target: Storage, options: Mapping[str, Any], request: ExportRequest, progress: Progress
) -> ExportReport:
    """Copies a table or its rows to an empty place.

    Args:
        options: options of reads and writes.

    Raises:
        ConfigError: the target is not empty or lies in the table, or an argument is wrong.
        ConflictError: files were cleaned meanwhile.
        HistoryCleanedError: files of that time have been cleaned.
        UnsupportedTableError: a copy of the table would need files that lie elsewhere, or have later rows.
    """
    format, partition_by = request.format, request.partition_by
    if format not in FORMATS:
        raise ConfigError(f"Cannot export {state.storage.uri} as {format!r}; supported: {', '.join(FORMATS)}")
    if partition_by is not None and format == "hudi":
        raise ConfigError(
            f"Cannot export {state.storage.uri} as a table partitioned by '{partition_by}': a copy has the table's own "
            "partitions; leave partition_by out, or give format='parquet'"
        )
    inside = f"{target.uri.rstrip('/')}/"
    if inside.startswith(f"{state.storage.uri.rstrip('/')}/"):
        raise ConfigError(f"Cannot export {state.storage.uri} to {target.uri}: it lies in the table")
    if target.list(""):
        raise ConfigError(
            f"Cannot export {state.storage.uri} to {target.uri}: it is not empty; give another folder, or remove what "
            "an export that was killed left there"
        )
    source = _Source.of(state, request.as_of)
    try:
        if format == "hudi":
            return _copy_table(source, target, write_threads(Options.resolve(options)), progress, request.dry_run)
        return _write_rows(source, target, options, request, progress)
    except FileNotFoundError as error:
        raise ConflictError(
            f"Cannot export {state.storage.uri}: the file {error.filename} was cleaned meanwhile; remove what is at "
            f"{target.uri} and export again, after a savepoint if cleaning is frequent",
            path=error.filename,
        ) from error


# -- a copy of the table ----------------------------------------------------------------------------------------------


def _copy_table(source: _Source, target: Storage, threads: int, progress: Progress, dry_run: bool) -> ExportReport:
    storage, config = source.snapshot.storage, source.snapshot.config
    if any(slice_.base_file is not None and slice_.base_file.source is not None for slice_ in source.slices):
        raise UnsupportedTableError(
            f"Cannot export {storage.uri} as a table: rows of its bootstrapped files are in files elsewhere; give "
            "format='parquet', or write them first, by clustering"
        )
    if not config.is_mor and any(slice_.log_files for slice_ in source.slices):
        raise UnsupportedTableError(
            f"Cannot export {storage.uri} as a table as of {source.snapshot.as_of}: it was MERGE_ON_READ then, and its "
            "logs cannot be in a copy that is COPY_ON_WRITE; give a later time, or format='parquet'"
        )
    newest = source.newest
    if newest is None and source.slices:
        raise ConfigError(
            f"Cannot export {storage.uri} as a table as of {source.snapshot.as_of}: the writes up to then are "
            "archived; give a later time, or format='parquet'"
        )
    source = _without_later_logs(source, threads)
    instants, files = _kept_instants(source), source.files
    report = ExportReport(
        target.uri,
        "hudi",
        None if newest is None else newest.time,
        len(files),
        sum(files.values()),
        len(source.partitions),
        len({(exported.time, exported.action.comparable) for exported in instants}),
        dry_run=dry_run,
    )
    if dry_run:
        return report
    progress.phase("copying data files", len(files))
    in_threads(lambda path: copy_file(storage, path, target, path, files[path], progress.wrote), files, threads)
    progress.phase("copying the timeline")
    others = [
        *_metafiles_of(storage, source.partitions),
        *_files_below(storage, SCHEMAS),
        *_files_below(storage, BUCKET_INDEX),
    ]
    others += _files_below(storage, archive_folder(config))
    for path in dict.fromkeys(others):
        target.put(path, storage.read(path))
    zone = table_zone(config)
    for instant in instants:
        path = source.timeline.layout.path(instant.file_name)
        target.put(path, storage.read(path))
        if instant.completed and not source.timeline.layout.has_completion_times and instant.completion_time:
            set_modified(target, path, epoch_ms(instant.completion_time, zone))
    properties = {key: value for key, value in config.properties.items() if not key.startswith(_OF_METADATA)}
    make_table_folders(target, properties)
    target.sync()
    if not create_table_config(target, properties):
        raise ConflictError(f"Cannot export {storage.uri} to {target.uri}: another process has made a table there")
    return report


def _without_later_logs(source: _Source, threads: int) -> _Source:
    """Leaves out logs that have only blocks of later instants, which readers of the copy would take for committed: logs
    of version 6, which an upgrade leaves as they are, do not have their instants in their names.

    Raises:
        UnsupportedTableError: a log has blocks of earlier and later instants.
    """
    storage, config, as_of = source.snapshot.storage, source.snapshot.config, source.snapshot.as_of
    if as_of is None or not config.has_completion_times:
        return source

    def is_later(log: LogFile) -> bool:
        instants = {block.header.get(HeaderKey.INSTANT_TIME, "") for block in read_blocks(storage, log.path, log.size)}
        later = sorted(instant for instant in instants if instant > as_of)
        if later and len(later) < len(instants):
            raise UnsupportedTableError(
                f"Cannot export {storage.uri} as a table as of {as_of}: the log file {log.path}, of before the upgrade "
                f"from version 6, also has rows of {later[0]}; give a later time, or format='parquet'"
            )
        return bool(later)

    logs = [log for slice_ in source.slices for log in slice_.log_files]
    left_out = {log for log, later in zip(logs, in_threads(is_later, logs, threads), strict=True) if later}
    slices = (
        replace(slice_, log_files=tuple(log for log in slice_.log_files if log not in left_out))
        for slice_ in source.slices
    )
    return replace(source, slices=tuple(slice_ for slice_ in slices if slice_.base_file or slice_.log_files))


def _kept_instants(source: _Source) -> list[Instant]:
    """Returns the state files of the active timeline that say what rows there are, and plans of compactions and of
    clusterings that logs may be named after."""
    timeline = source.timeline
    clusterings = {log.name.instant for log in source.resized}
    kept = [instant for instant in timeline.completed if instant.action.comparable in _KEPT_ACTIONS]
    result = [file for instant in kept for file in timeline.states_of(instant)]
    result += (
        file
        for pending in timeline.pending
        if pending.action is Action.COMPACTION or pending.time in clusterings
        for file in timeline.states_of(pending)
        if file.state is State.REQUESTED
    )
    return result


def _metafiles_of(storage: Storage, partitions: Iterable[str]) -> Iterator[str]:
    for partition in partitions:
        for name in storage.names(partition):
            if name.startswith(PARTITION_METAFILE):
                yield join_path(PartitionPath(partition), name)


def _files_below(storage: Storage, folder: str) -> list[str]:
    return [info.path for info in storage.walk(folder)]


# -- rows --------------------------------------------------------------------------------------------------------------


def _write_rows(
    source: _Source,
    target: Storage,
    options: Mapping[str, Any],
    request: ExportRequest,
    progress: Progress,
) -> ExportReport:
    snapshot, partition_by = source.snapshot, request.partition_by
    columns = [name for name in snapshot.schema.names if name not in META_FIELDS]
    if partition_by is not None and partition_by not in columns:
        raise ConfigError(
            f"Cannot export {snapshot.storage.uri} partitioned by '{partition_by}': columns are {', '.join(columns)}"
        )
    if partition_by is not None:
        type_ = snapshot.schema.field(partition_by).type
        if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
            raise ConfigError(
                f"Cannot export {snapshot.storage.uri} partitioned by '{partition_by}' of type {type_}: its values do "
                "not name folders; give a column of texts, numbers, booleans, dates or times"
            )
        if columns == [partition_by]:
            raise ConfigError(
                f"Cannot export {snapshot.storage.uri} partitioned by '{partition_by}': it is the only column, and the "
                "files would have none; leave partition_by out"
            )
    arguments = ScanArguments(columns=columns, as_of=None if snapshot.as_of is None else str(snapshot.as_of))
    scan = make_scan(
        TableState(snapshot.storage, snapshot.config, snapshot.timeline),
        ScanRequest.of(Options.resolve(options, Scope.READ), arguments),
    )
    splits = scan.splits()
    newest = source.newest
    time = None if newest is None else newest.time
    if request.dry_run:
        size, rows = sum(part.size for part in splits), scan.count()
        return ExportReport(target.uri, "parquet", time, len(splits), size, len(source.partitions), 0, rows, True)
    progress.phase("writing rows", len(splits))
    written = _Written(target, partition_by, progress)
    for number, split in enumerate(splits):
        written.add(number, scan.schema, read_split_on(snapshot.storage, split))
    if not written.num_files:
        written.add_empty(scan.schema)
    target.sync()
    target.put(_SUCCESS, b"")
    target.sync()
    return ExportReport(
        target.uri, "parquet", time, written.num_files, written.num_bytes, len(written.folders), 0, written.num_rows
    )


class _Written:
    """Writes rows to Parquet files, those of a split to files of their own, and of each value to its folder."""

    def __init__(self, target: Storage, partition_by: str | None, progress: Progress) -> None:
        self._target = target
        self._partition_by = partition_by
        self._progress = progress
        self.num_files = self.num_rows = self.num_bytes = 0
        self.folders: set[str] = set()

    def add(self, number: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes the rows of a split."""
        kept = schema if self._partition_by is None else schema.remove(schema.get_field_index(self._partition_by))
        streams: dict[str, Any] = {}
        writers: dict[str, pq.ParquetWriter] = {}
        paths: dict[str, str] = {}
        try:
            for batch in batches:
                for folder, rows in self._by_folder(batch):
                    if folder not in writers:
                        paths[folder] = f"{folder}/part-{number:05}.parquet" if folder else f"part-{number:05}.parquet"
                        streams[folder] = self._target.open_output(paths[folder])
                        writers[folder] = plain_writer(streams[folder], kept)
                    writers[folder].write_batch(fill_required(rows.select(kept.names)))
                    self.num_rows += rows.num_rows
                    self._progress.read(rows.num_rows)
        finally:
            for folder, writer in writers.items():
                writer.close()
                streams[folder].close()
        self._finished(paths.values())
        self.folders |= paths.keys()

    def add_empty(self, schema: pa.Schema) -> None:
        """Writes a file without rows, so that readers find the columns."""
        path = "part-00000.parquet"
        with self._target.open_output(path) as sink:
            plain_writer(sink, schema).close()
        self._finished([path])

    def _finished(self, paths: Iterable[str]) -> None:
        for path in paths:
            info = self._target.stat(path)
            self.num_bytes += 0 if info is None else info.size
            self.num_files += 1

    def _by_folder(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields the rows of each folder."""
        name = self._partition_by
        if name is None:
            if batch.num_rows:
                yield "", batch
            return
        # by the codes of a dictionary: no comparison finds NaN
        values = pc.dictionary_encode(batch[name].cast(pa.string()), null_encoding="encode")
        for code, text in enumerate(values.dictionary.to_pylist()):
            # as Spark and Hive, which do not read `name=`
            folder = f"{name}={quote(text, safe='') if text else NULL_PARTITION}"
            yield folder, batch.filter(pc.equal(values.indices, code))


class ExportMethods(ABC):
    """Exports of a table."""

    _storage: Storage
    _options: Mapping[str, Any]

    def export(
        self,
        target: StrPath,
        *,
        format: str = "hudi",
        as_of: Moment | None = None,
        partition_by: str | None = None,
        dry_run: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> ExportReport:
        """Copies the table or its rows to another place, with only what is needed. Nothing can be read there until all
        is copied.

        Args:
            target: path or URI of an empty folder.
            format: `hudi`: a table with the newest file slices, which Apache Hudi reads, too, without metadata table
                and earlier versions; `parquet`: files with the rows, without meta columns.
            as_of: the state of an earlier time, see `scan`.
            partition_by: of `parquet`: the column whose values have a folder each, `column=value`; nulls and empty
                texts have that of Hive's default partition.
            dry_run: only returns what would be copied.
            storage_options: of the target; None: as for the table.

        Raises:
            ConfigError: the target is not empty or lies in the table, or an argument is wrong.
            ConflictError: files were cleaned meanwhile.
            HistoryCleanedError: files of that time have been cleaned.
            UnsupportedTableError: the files of a bootstrapped table lie elsewhere, or logs from before an upgrade
                from version 6 have later rows, too; export the rows.
        """
        state, instant = self._state_as_of(as_of)
        if storage_options is None:
            storage = open_beside(self._storage, path_text(target))
        else:
            storage = open_storage(target, storage_options)
        with Progress.on_terminal("export") as progress:
            request = ExportRequest(format, instant, partition_by, dry_run)
            return export_table(state, storage, self._options, request, progress)

    @abstractmethod
    def _state_as_of(self, as_of: Moment | None) -> tuple[TableState, InstantTime | None]:
        """Returns the table's state, and the instant that a time means."""
