"""Rewrites file groups with some of their rows, as one commit that replaces them: without all but the winning row of
each key, or without what cannot be read."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.config import Options, Scope
from hudi_py.config.read import DAMAGED
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.arrays import combined
from hudi_py.formats.base.files import extension_of, iter_base_batches
from hudi_py.formats.base.orc import open_orc
from hudi_py.formats.base.orc_writer import readable_stripes
from hudi_py.formats.base.parquet import open_parquet
from hudi_py.formats.log import read_blocks
from hudi_py.merge import merge_settings, reduce_input
from hudi_py.merge.damage import check_first_rows
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.names import PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.read import make_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.slices.task import read_split_on
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.support import text_partition_columns
from hudi_py.schema import COMMIT_SEQNO, COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from hudi_py.storage import HeldStorage, Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.session import TableSession
from hudi_py.view import FileSystemView, load_view
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import write_rows
from hudi_py.write.operations.bulk_insert import write_new_file_groups
from hudi_py.write.rewrite import GroupsToReplace, rewrite_groups
from hudi_py.write.settings import settings_as_stored
from hudi_py.write.table.support import check_writable

Groups = Sequence[tuple[str, str]]
"""Partition path and file id."""
_METADATA = "hoodie.metadata.enable"


class _Held(HeldStorage):
    """A storage with some files in memory, which can be opened like others."""

    def open_input(self, path: str) -> pa.NativeFile:
        content = self._held.get(path)
        return super().open_input(path) if content is None else pa.BufferReader(content)


@dataclass(frozen=True, slots=True)
class Salvage:
    """The readable contents of file groups."""

    rows: pa.Table
    num_lost: int
    """Number of rows of base files that are not among `rows`, and of rows in logs, which may have been newer
    versions."""
    keys_lost: tuple[str, ...]


def check_can_rewrite(config: TableConfig, uri: str) -> None:
    """Refuses tables whose file groups cannot be rewritten with the same rows.

    Raises:
        UnsupportedTableError: the table cannot be written, merges by a custom class, or shows other partition
            values than it stores.
    """
    check_writable(config)
    if not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Cannot write file groups of {uri} again: it has hoodie.populate.meta.fields=false, so its rows record "
            "neither when they were written nor to which file group they belong; write the rows with hudi_py.write"
        )
    merge = merge_settings(config)
    if merge.folds:
        raise UnsupportedTableError(
            f"Cannot write file groups of {uri} again: its merges make rows of two versions ({merge.shown(config)}), "
            "so that none of two rows with one key is the right one; write the rows with hudi_py.write"
        )
    if text_partition_columns(config):
        raise UnsupportedTableError(
            f"Cannot write file groups of {uri} again: its key generator {config.keygen_class or config.keygen_type} "
            "makes partition paths of times; write the rows with Apache Hudi"
        )


def one_row_per_key(rows: pa.Table, config: TableConfig, *, across: bool) -> pa.Table:
    """Keeps the winning row of each key, as if the rows were written in commit order.

    Args:
        across: a key has one row in all partitions, not one in each.
    """
    settings = replace(merge_settings(config), payload=None)  # the payload class was applied when they were written
    keys = (RECORD_KEY,) if across else (PARTITION_PATH, RECORD_KEY)
    in_order = rows.sort_by([(COMMIT_TIME, "ascending"), (COMMIT_SEQNO, "ascending")])
    return reduce_input(in_order, settings, key_columns=keys)


def rows_of(session: TableSession, timeline: Timeline, groups: Groups) -> pa.Table:
    """Reads all columns of the rows of file groups, meta columns first. Raises CorruptFileError if any cannot be
    read."""
    return pa.concat_tables(rows_by_group(session, timeline, groups).values())


def rows_by_group(session: TableSession, timeline: Timeline, groups: Groups) -> dict[tuple[str, str], pa.Table]:
    """Reads the rows of file groups, each by itself; for the rest see `rows_of`."""
    request = _request(groups, {_METADATA: "false"})
    scan = make_scan(session.state(timeline), request)
    rows = dict.fromkeys(groups, scan.schema.empty_table())
    for split in scan.splits():
        group = (str(split.partition), str(split.file_id))
        if group in rows:
            batches = list(read_split_on(session.storage, split))
            rows[group] = pa.concat_tables([rows[group], pa.Table.from_batches(batches, scan.schema)])
    return rows


def salvaged(session: TableSession, timeline: Timeline, groups: Groups) -> Salvage:
    """Reads what is readable of file groups: whole row groups of base files, and whole blocks of logs."""
    state, storage = session.state(timeline), session.storage
    view = load_view(state, read_damaged=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is known that files are damaged
        scan = make_scan(state, _request(groups, {_METADATA: "false", DAMAGED.key: "true"}))
        spec = scan.plan().spec
        written = _rows_written(storage, timeline)
        salvages = [
            _salvage(storage, view, (PartitionPath(partition), file_id), spec, written) for partition, file_id in groups
        ]
    rows = pa.concat_tables([scan.schema.empty_table(), *(salvage.rows for salvage in salvages)])
    present = set(combined(rows[RECORD_KEY]).to_pylist())
    keys = {key for salvage in salvages for key in salvage.keys_lost} - present
    return Salvage(rows, sum(salvage.num_lost for salvage in salvages), tuple(sorted(keys)))


def _salvage(
    storage: Storage,
    view: FileSystemView,
    group: tuple[PartitionPath, str],
    spec: ReadSpec,
    written: Mapping[str, int],
) -> Salvage:
    partition, file_id = group
    missing = {file.path for file, _ in view.lost_files(partition) if file.name.file_id == file_id}
    slice_ = next((slice_ for slice_ in view.latest_slices(partition) if slice_.file_id == file_id), None)
    held: dict[str, bytes] = {}
    keys: list[str] = []
    base, logs = (slice_.base_file, slice_.log_files) if slice_ is not None else (None, ())
    newest = {path for path in missing if not path.rpartition("/")[2].startswith(".")}
    num_base = sum(written.get(path, 0) for path in newest)
    if base is not None and newest - {base.path}:
        base = None  # an older version, whose rows would reappear
    if base is not None:
        num_base = written.get(base.path, 0)
        base, held, num_rows, keys = _readable_part(storage, base)
        num_base = num_rows or num_base
    readable = tuple(log for log in logs if _begins_well(storage, log))
    lost_logs = {log.path for log in logs} - {log.path for log in readable} | (missing - newest)
    split = Split(spec, partition, file_id, base, readable)
    batches = list(read_split_on(_Held(storage, held), split)) if base is not None or readable else []
    rows = pa.Table.from_batches(batches, split.output_schema)
    lost = max(num_base - rows.num_rows, 0) + sum(written.get(path, 0) for path in lost_logs)
    return Salvage(rows, lost, tuple(keys))


def _readable_part(storage: Storage, base: BaseFile) -> tuple[BaseFile | None, dict[str, bytes], int, list[str]]:
    """Reduces a base file to its readable part, and returns its content by its path; otherwise as `_row_groups`."""
    content, num_rows, keys = _row_groups(storage, base.path)
    if content is None:
        return None, {}, num_rows, keys
    return replace(base, size=len(content)), {base.path: content}, num_rows, keys


def _begins_well(storage: Storage, log: LogFile) -> bool:
    """Returns whether a log exists, all of its blocks can be read, and its rows belong to its file group."""
    try:
        check_first_rows(storage, list(read_blocks(storage, log.path, log.size)))
    except (CorruptFileError, FileNotFoundError):
        return False
    return True


def _rows_written(storage: Storage, timeline: Timeline) -> Mapping[str, int]:
    """Returns the number of rows that active commits wrote, by path."""
    counts: dict[str, int] = {}
    for instant in timeline.write_completed:
        metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
        counts.update({stat.path: stat.num_writes for stat in metadata.stats})
    return counts


def _row_groups(storage: Storage, path: str) -> tuple[bytes | None, int, list[str]]:
    """Returns a base file reduced to its readable row groups or stripes (None if its footer cannot be read), its number
    of rows, and the keys of those left out."""
    sink = io.BytesIO()
    keys: list[str] = []
    try:
        extension = extension_of(path)
        if extension == "lance":  # has no parts that could be left out
            rows = sum(batch.num_rows for batch in iter_base_batches(storage, path, None))
            return storage.read(path), rows, []
        if extension == "orc":
            with open_orc(storage, path) as stripes:
                content, unreadable = readable_stripes(stripes, path)
                keys = [key for number in unreadable for key in _keys_of_stripe(stripes, number)]
                return content, int(stripes.nrows), keys
        with open_parquet(storage, path) as file:
            with pq.ParquetWriter(sink, file.schema_arrow) as writer:
                for number in range(file.metadata.num_row_groups):
                    try:
                        writer.write_table(file.read_row_group(number))
                    except (OSError, pa.ArrowException):
                        keys += _keys_in(file, number)
            return sink.getvalue(), file.metadata.num_rows, keys
    except (CorruptFileError, FileNotFoundError):
        return None, 0, []


def _keys_of_stripe(file: Any, number: int) -> list[str]:
    try:
        keys: list[str] = file.read_stripe(number, columns=[RECORD_KEY]).column(RECORD_KEY).to_pylist()
    except (OSError, pa.ArrowException):
        return []
    return keys


def _keys_in(file: pq.ParquetFile, number: int) -> list[str]:
    try:
        keys: list[str] = file.read_row_group(number, columns=[RECORD_KEY])[RECORD_KEY].to_pylist()
    except (OSError, pa.ArrowException):
        return []
    return keys


def replace_groups(
    session: TableSession, seen: Timeline, options: Options, groups: Groups, rows: pa.Table, progress: Progress
) -> str:
    """Writes rows to new file groups and replaces the given ones, as one commit. Returns its instant.

    Args:
        seen: the timeline with which the rows were read.

    Raises:
        ConflictError: another write has completed since, or a pending table service has one of the file groups.
        ConfigError: the table makes other keys or partitions of the rows than they have.
    """
    check_can_rewrite(session.config, session.storage.uri)
    replaced: dict[str, list[str]] = {}
    for partition, file_id in groups:
        replaced.setdefault(partition, []).append(file_id)

    def choose(view: FileSystemView) -> GroupsToReplace:
        if view.timeline.moved_since(seen):
            raise ConflictError(
                f"Cannot repair {session.storage.uri}: it was written after the plan was made; plan the repair again"
            )
        damaged = load_view(view.state, read_damaged=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the caller knows which file groups are damaged
            settings = settings_as_stored(damaged, Operation.BULK_INSERT, options, "repair")
        return GroupsToReplace(replaced, settings)

    def rewrite(context: WriteContext, plan: GroupsToReplace) -> list[WriteStat]:
        batches = list(_checked(context, rows))
        if context.buckets is None:
            return write_new_file_groups(context, batches)
        for partition, ids in replaced.items():
            context.buckets.replace(partition, ids)
        return write_rows(context, batches, Operation.INSERT_OVERWRITE)

    commit, _, _ = rewrite_groups(
        session, choose, rewrite, operation="INSERT_OVERWRITE", verb="rewrite", progress=progress
    )
    return commit.instant


def _checked(context: WriteContext, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields the columns of the table, after checking that they produce the same keys and partitions."""
    for batch in rows.to_batches():
        given = batch.select(context.settings.schema.arrow.names)
        keyed = context.keyed(given)
        same = keyed.rows[RECORD_KEY].equals(batch[RECORD_KEY].cast(pa.string()))
        if not same or not keyed.partitions.equals(batch[PARTITION_PATH].cast(pa.string())):
            raise ConfigError(
                f"Cannot write file groups of {context.transaction.storage.uri} again: the columns of some rows make "
                "another record key or partition path than the rows have; write the rows by hand"
            )
        yield given


def _request(groups: Groups, options: Mapping[str, str]) -> ScanRequest:
    partitions = sorted({partition for partition, _ in groups})
    return ScanRequest.of(Options.resolve(options, Scope.READ), ScanArguments(partitions=partitions))
