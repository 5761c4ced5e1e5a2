"""One state of a table for reading: properties, pinned timeline, schema, checks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pyarrow as pa

from hudi_py.errors import HistoryCleanedError, UnsupportedTableError
from hudi_py.merge import CommittedInstants
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import FileId, PartitionPath, parse_base_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.read.support import check_schema, check_table, text_partition_columns
from hudi_py.schema import SchemaHistory, with_meta, with_operation
from hudi_py.storage import Storage
from hudi_py.timeline.records import decode_record
from hudi_py.timeline.table_schema import NewestCommits, has_operation_column, resolve_table_schema
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.timeline.times import parse_instant, table_zone
from hudi_py.view import load_view


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a scan sees, fixed when the scan is made."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    """Without what completed after the pin."""
    schema: pa.Schema
    """All columns as rows show them, meta columns first."""
    pin: Pin
    as_of: InstantTime | None = None
    history: SchemaHistory | None = None
    """How columns of base files and log blocks become those of `schema`; None where names tell."""

    @property
    def committed(self) -> CommittedInstants | None:
        """Instants whose log blocks count; see `CommittedInstants.of`."""
        return CommittedInstants.of(self.config, self.timeline)

    def with_deletes(self, emitted: bool) -> Snapshot:
        """This state with `_hoodie_operation` among the columns, where deletes come out as rows."""
        return replace(self, schema=with_operation(self.schema)) if emitted else self


def open_snapshot(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    as_of: str | int | date | None = None,
    *,
    schema_as_of: InstantTime | None = None,
) -> Snapshot:
    """The state of a table, or its state as of an instant.

    Args:
        schema_as_of: take the columns which the table had at this instant.

    Raises:
        UnsupportedTableError: the table has a feature that would be read wrong.
        ConfigError: `as_of` is not a time.
        HistoryCleanedError: file versions of that time have been cleaned.
    """
    check_table(config, storage.uri)
    pin = timeline.pin()
    instant = None if as_of is None else parse_instant(as_of, table_zone(config))
    if instant is not None:
        _check_not_cleaned(storage, config, timeline, instant)
    schema, history = _schema(storage, config, timeline, schema_as_of or instant)
    return Snapshot(storage, config, timeline.at(pin), schema, pin, instant, history)


def table_schema(storage: Storage, config: TableConfig, timeline: Timeline) -> pa.Schema:
    """All columns of the newest state, as rows show them; see `open_snapshot`."""
    return _schema(storage, config, timeline, None)[0]


def _schema(
    storage: Storage, config: TableConfig, timeline: Timeline, as_of: str | None
) -> tuple[pa.Schema, SchemaHistory | None]:
    seen = timeline
    if as_of is not None:
        # the schema is that of the time, as in Apache Hudi (`TableSchemaResolver.getTableSchema(timestamp)`)
        earlier = tuple(instant for instant in timeline.files if instant.time <= as_of)
        then = Timeline(timeline.layout, earlier, timeline.start)
        seen = then if then.write_completed else timeline
    commits = NewestCommits(storage, seen)
    try:
        resolved = resolve_table_schema(storage, config, seen, commits)
    except UnsupportedTableError as error:
        # the Avro layer knows the type, not the table
        raise UnsupportedTableError(f"Table at {storage.uri} is not supported: {error}") from error
    if resolved is None:
        return (with_meta(pa.schema([])) if config.populates_meta_fields else pa.schema([])), None
    check_schema(resolved.avro, storage.uri)
    schema: pa.Schema = resolved.arrow
    for name in text_partition_columns(config):
        at = schema.get_field_index(name)
        if at >= 0 and not pa.types.is_string(schema.field(at).type):
            schema = schema.set(at, schema.field(at).with_type(pa.string()))
    if has_operation_column(storage, config, commits):
        schema = with_operation(schema)
    return schema, resolved.history


def earliest_retained(storage: Storage, timeline: Timeline) -> str | None:
    """Requested time of the first commit whose state is whole after the last clean; None where nothing was cleaned.

    Source: `TimelineUtils.validateTimestampAsOf`, 1.2.0: the clean says it, or, when it retains a number of file
    versions, the first active write stands for it.
    """
    cleans = [instant for instant in timeline.completed if instant.action is Action.CLEAN]
    if not cleans:
        return None
    metadata = _clean_metadata(storage, timeline, cleans[-1])
    if metadata is None:
        return None
    earliest: str | None = metadata.get("earliestCommitToRetain")
    return earliest or (timeline.write_completed[0].time if timeline.write_completed else None)


def _check_not_cleaned(storage: Storage, config: TableConfig, timeline: Timeline, as_of: str) -> None:
    """As Apache Hudi, by the last clean, but what a savepoint keeps can be read."""
    earliest = earliest_retained(storage, timeline)
    if earliest is None or _is_savepoint(timeline, as_of):
        return
    if as_of < earliest:
        raise HistoryCleanedError(
            f"Table at {storage.uri} cannot be read as of {as_of}: versions before {earliest} have been cleaned; "
            "choose a later time"
        )
    _check_versions(storage, config, timeline, as_of)


def _check_versions(storage: Storage, config: TableConfig, timeline: Timeline, as_of: str) -> None:
    """Cleans which retain a number of file versions may have taken one that counts as of a later time, too."""
    taken: dict[str, dict[str, str]] = defaultdict(dict)
    for clean in timeline.completed:
        if clean.action is not Action.CLEAN or clean.time < as_of:
            continue
        metadata = _clean_metadata(storage, timeline, clean)
        if metadata is None or metadata.get("earliestCommitToRetain"):
            continue
        for partition, cleaned in (metadata.get("partitionMetadata") or {}).items():
            for path in cleaned.get("successDeleteFiles") or ():
                name = parse_base_file_name(path.rpartition("/")[2])
                if name is not None and name.instant <= as_of:
                    taken[partition][name.file_id] = max(taken[partition].get(name.file_id, ""), name.instant)
    if not taken:
        return
    view = load_view(storage, config, timeline)
    for partition, groups in taken.items():
        path = PartitionPath(partition)
        found = {slice_.file_id: slice_.base_instant for slice_ in view.latest_slices(path, InstantTime(as_of))}
        for file_id, instant_time in groups.items():
            replaced_at = view.replaced.get((partition, file_id))
            gone = replaced_at is not None and replaced_at <= as_of
            if not gone and found.get(FileId(file_id), "") < instant_time:
                raise HistoryCleanedError(
                    f"Table at {storage.uri} cannot be read as of {as_of}: the version {instant_time} of file group "
                    f"{file_id} in partition '{partition}' has been cleaned; choose a later time"
                )


def _clean_metadata(storage: Storage, timeline: Timeline, clean: Instant) -> dict[str, Any] | None:
    """What a completed clean did; None when it was archived since it was listed, or tells nothing."""
    path = timeline.layout.path(clean.file_name)
    try:
        data = storage.read(path)
    except FileNotFoundError:
        return None
    return decode_record(data, f"{storage.uri}/{path}") if data else None


def _is_savepoint(timeline: Timeline, as_of: str) -> bool:
    """Whether the state as of a time is that of a savepoint, whose files no clean takes."""
    last = max((instant.time for instant in timeline.write_completed if instant.time <= as_of), default=None)
    if last is None or (last != as_of and (timeline.start is None or last < timeline.start)):
        return False  # behind a savepoint, commits may have been archived
    return any(i.completed and i.time == last for i in timeline.instants if i.action is Action.SAVEPOINT)
