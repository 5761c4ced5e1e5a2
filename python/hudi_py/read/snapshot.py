"""One state of a table for reading: properties, pinned timeline and schema."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import pyarrow as pa

from hudi_py.errors import HistoryCleanedError, HudiError, StorageError, UnsupportedTableError
from hudi_py.merge import CommittedInstants
from hudi_py.metadata.files import MetadataLister, warn_unused
from hudi_py.metadata.table import MetadataTable, open_metadata
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import FileId, PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.read.support import check_schema, check_table, text_partition_columns
from hudi_py.schema import SchemaHistory, with_meta, with_operation
from hudi_py.timeline.records import decode_record
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import NewestCommits, has_operation_column, resolve_table_schema
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.timeline.times import parse_instant, table_zone
from hudi_py.view import FileSystemView, Lister, StorageLister, load_view


@dataclass(frozen=True)
class Snapshot(TableState):
    """The state of a table that a scan reads. Its timeline is pinned: it has no later completions.

    Its metadata table and its file slices are opened when they are first needed, and only once.
    """

    schema: pa.Schema
    """All columns of rows, meta columns first."""
    pin: Pin
    as_of: InstantTime | None = None
    history: SchemaHistory | None = None
    """Maps columns of base files and log blocks to those of `schema`; None: by name."""
    _views: dict[tuple[bool, bool], FileSystemView] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def committed(self) -> CommittedInstants | None:
        """See `CommittedInstants.of`."""
        return CommittedInstants.of(self.config, self.timeline)

    def with_deletes(self, emitted: bool) -> Snapshot:
        """Returns this state, with the column `_hoodie_operation` if deletes are returned as rows."""
        return replace(self, schema=with_operation(self.schema)) if emitted else self

    def metadata(self, instead: str) -> MetadataTable | None:
        """Returns the metadata table. If it is damaged, returns None, and warns what happens `instead`."""
        if isinstance(self._opened, Exception):
            warn_unused(self.storage.uri, self._opened, instead)
            return None
        return self._opened

    def view(self, *, by_metadata: bool, read_damaged: bool = False) -> FileSystemView:
        """Returns the file slices; for `read_damaged` see `load_view`.

        `by_metadata`: whether the metadata table lists files; the storage does if there is none, or it is damaged.
        """
        value = self._views.get((by_metadata, read_damaged))
        if value is None:
            lister: Lister = StorageLister(self.storage, self.config)
            if by_metadata and (metadata := self.metadata("files are listed instead")) is not None:
                lister = MetadataLister(metadata, lister)
            value = load_view(self, lister, read_damaged=read_damaged)
            self._views[by_metadata, read_damaged] = value
        return value

    @cached_property
    def _opened(self) -> MetadataTable | Exception | None:
        try:
            return open_metadata(self)
        except StorageError:  # not a sign of damage
            raise
        except (HudiError, FileNotFoundError) as error:
            return error


def open_snapshot(
    state: TableState,
    as_of: str | int | date | None = None,
    *,
    schema_as_of: InstantTime | None = None,
) -> Snapshot:
    """Opens the newest state of a table, or its state as of an instant.

    Args:
        schema_as_of: use the columns that the table had at this instant.

    Raises:
        UnsupportedTableError: the table has an unsupported feature.
        ConfigError: `as_of` is not a time.
        HistoryCleanedError: files of that time have been cleaned.
    """
    check_table(state.config, state.storage.uri)
    pin = state.timeline.pin()
    instant = None if as_of is None else parse_instant(as_of, table_zone(state.config))
    if instant is not None:
        _check_not_cleaned(state, instant)
    schema, history = _schema_as_of(state, schema_as_of or instant)
    timeline = state.timeline.at(pin)
    return Snapshot(state.storage, state.config, timeline, schema, pin, instant, history, bootstrap=state.bootstrap)


def table_schema(state: TableState) -> pa.Schema:
    """Returns all columns of the newest state; see `open_snapshot`."""
    return _schema_as_of(state, None)[0]


def _schema_as_of(state: TableState, as_of: str | None) -> tuple[pa.Schema, SchemaHistory | None]:
    seen = state.timeline
    if as_of is not None:
        # the schema of that time, as in Apache Hudi (`TableSchemaResolver.getTableSchema(timestamp)`)
        earlier = tuple(instant for instant in state.timeline.files if instant.time <= as_of)
        then = Timeline(state.timeline.layout, earlier, state.timeline.start)
        seen = then if then.write_completed else state.timeline
    commits = NewestCommits(state.at(seen))
    try:
        resolved = resolve_table_schema(state.at(seen), commits)
    except UnsupportedTableError as error:
        # the Avro layer does not know the table
        raise UnsupportedTableError(f"Table at {state.storage.uri} is not supported: {error}") from error
    if resolved is None:
        return (with_meta(pa.schema([])) if state.config.populates_meta_fields else pa.schema([])), None
    check_schema(resolved.avro, state.storage.uri)
    schema: pa.Schema = resolved.arrow
    for name in text_partition_columns(state.config):
        index = schema.get_field_index(name)
        if index >= 0 and not pa.types.is_string(schema.field(index).type):
            schema = schema.set(index, schema.field(index).with_type(pa.string()))
    if has_operation_column(state.storage, state.config, commits):
        schema = with_operation(schema)
    return schema, resolved.history


def earliest_retained(state: TableState) -> str | None:
    """Returns the requested time of the first commit whose state is complete after the last clean; None if nothing was
    cleaned.

    Source: `TimelineUtils.validateTimestampAsOf`, 1.2.0: the clean records it; for cleans that retain a number of file
    versions, it is the first active write.
    """
    cleans = [instant for instant in state.timeline.completed if instant.action is Action.CLEAN]
    if not cleans:
        return None
    metadata = clean_metadata(state, cleans[-1])
    if not metadata:
        return None
    earliest: str | None = metadata.get("earliestCommitToRetain")
    return earliest or (state.timeline.write_completed[0].time if state.timeline.write_completed else None)


def _check_not_cleaned(state: TableState, as_of: str) -> None:
    """Checks the time against the last clean, as Apache Hudi does, but allows states that a savepoint keeps."""
    earliest = earliest_retained(state)
    if earliest is None or _is_savepoint(state.timeline, as_of):
        return
    if as_of < earliest:
        raise HistoryCleanedError(
            f"Table at {state.storage.uri} cannot be read as of {as_of}: versions before {earliest} have been cleaned; "
            "choose a later time"
        )
    _check_versions(state, as_of)


def _check_versions(state: TableState, as_of: str) -> None:
    """Checks cleans that retain a number of file versions: they may have removed a version that is also current at a
    later time, and an earlier clean may have retained less than the last one."""
    removed = _removed_versions(state, as_of)
    if not removed:
        return
    view = load_view(state)
    for partition, groups in removed.items():
        path = PartitionPath(partition)
        # oldest first, so that the newest until then remains
        newest = {
            slice_.file_id: slice_.base_instant for slice_ in view.every_slice(path) if slice_.base_instant <= as_of
        }
        for file_id, instant_time in groups.items():
            replaced_at = view.replaced.get((partition, file_id))
            is_replaced = replaced_at is not None and replaced_at <= as_of
            if not is_replaced and newest.get(FileId(file_id), "") < instant_time:
                raise HistoryCleanedError(
                    f"Table at {state.storage.uri} cannot be read as of {as_of}: the version {instant_time} of file "
                    f"group {file_id} in partition '{partition}' has been cleaned; choose a later time"
                )


def _removed_versions(state: TableState, as_of: str) -> dict[str, dict[str, str]]:
    """Returns the instant of the newest version until a time that later cleans have removed, by partition and file
    id."""
    removed: dict[str, dict[str, str]] = defaultdict(dict)
    for clean in state.timeline.completed:
        if clean.action is not Action.CLEAN or clean.time < as_of:
            continue
        metadata = clean_metadata(state, clean)
        retained = (metadata or {}).get("earliestCommitToRetain")
        if not metadata or (retained and retained <= as_of):
            continue
        for partition, cleaned in (metadata.get("partitionMetadata") or {}).items():
            for path in cleaned.get("successDeleteFiles") or ():
                file = path.rpartition("/")[2]
                name = parse_base_file_name(file) or parse_log_file_name(file)  # groups may consist of logs only
                if name is not None and name.instant <= as_of:
                    removed[partition][name.file_id] = max(removed[partition].get(name.file_id, ""), name.instant)
    return removed


def clean_metadata(state: TableState, clean: Instant) -> dict[str, Any] | None:
    """Reads the metadata of a completed clean, `{}` if its file is empty; None if it was archived since the listing."""
    path = state.timeline.layout.path(clean.file_name)
    try:
        data = state.storage.read(path)
    except FileNotFoundError:
        return None
    return decode_record(data, f"{state.storage.uri}/{path}") if data else {}


def _is_savepoint(timeline: Timeline, as_of: str) -> bool:
    """Returns whether the state as of a time belongs to a savepoint, whose files are never cleaned."""
    last = max((instant.time for instant in timeline.write_completed if instant.time <= as_of), default=None)
    if last is None or (last != as_of and (timeline.start is None or last < timeline.start)):
        return False  # commits after the savepoint may have been archived
    return any(i.completed and i.time == last for i in timeline.instants if i.action is Action.SAVEPOINT)
