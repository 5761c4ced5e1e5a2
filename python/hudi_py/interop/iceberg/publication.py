"""Publishes a Hudi table as an Iceberg table: metadata that names its files, so that engines can read its rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from hudi_py.config import Options, Scope, incremental
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, HudiError, UnsupportedTableError, first_line
from hudi_py.interop.iceberg.columns import IcebergColumns, Json, PublishedColumns, evolve
from hudi_py.interop.iceberg.index import Group, Index, read_index
from hudi_py.interop.iceberg.metadata import (
    FIXED_PROPERTIES,
    MAIN,
    Specs,
    current_schema,
    current_snapshot,
    hidden_columns,
    new_metadata,
    properties,
    schema_json,
    snapshots,
    values_of,
)
from hudi_py.interop.iceberg.slices import Partition, Publishing
from hudi_py.interop.iceberg.snapshot import (
    Base,
    Made,
    SnapshotFiles,
    expire,
    load_groups,
    load_state,
    make_snapshot,
    new_id,
)
from hudi_py.interop.iceberg.target import INDEX as INDEX_FILE
from hudi_py.interop.iceberg.target import (
    MARK,
    OURS,
    PREFIX,
    IcebergTarget,
    MetadataFiles,
    Published,
    SupersededError,
    delete_all,
    dropped_on_failure,
    named,
)
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.read.planning.plan import plan_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.snapshot import Snapshot, open_snapshot
from hudi_py.read.split import Split
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.state import load_state as load_table_state
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms, table_zone

_log = logging.getLogger(__name__)
INSTANT: Final = "hudi.instant"
"""Member of a snapshot's summary: requested time of the newest completed commit."""
CLEANED: Final = "hudi.deleted-up-to"
"""The newest clean, rollback or restore; files of earlier snapshots may be gone since."""
VIEW: Final = "hudi.view"
"""`snapshot`, or `read_optimized`: base files only."""
INDEX: Final = "hudi.index"
"""Location of the stored state of a publication (`Index`)."""
_ATTEMPTS: Final = 10
_DELETING: Final = frozenset((Action.CLEAN, Action.ROLLBACK, Action.RESTORE))
_CHOOSING: Final = (
    read_config.QUERY_TYPE,
    read_config.AS_OF_INSTANT,
    read_config.FILTER,
    read_config.COLUMNS,
    read_config.KEYS,
    read_config.MERGE_TYPE,
    read_config.CHANGELOG,
    incremental.BEGIN,
    incremental.END,
)
"""Options that make a read return other rows than the table's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a publication."""

    base_files_only: bool = False
    location: str | None = None
    """The table's path as engines know it; None if it is its URI."""
    max_snapshots: int = 100

    def __post_init__(self) -> None:
        if self.max_snapshots < 1:
            raise ConfigError(f"Cannot keep {self.max_snapshots} Iceberg snapshots: max_snapshots must be at least 1")


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """The result of a publication."""

    location: str
    """The Iceberg table's metadata file."""
    instant: str | None
    """Requested time of the newest commit that it shows; None if the table has none."""
    snapshot_id: int | None
    changed: bool
    """Whether it made a new snapshot."""
    added_files: int = 0
    removed_files: int = 0
    delete_files: int = 0
    """Number of position delete files of the snapshot: those of slices with logs."""
    expired_snapshots: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return asdict(self)

    def __str__(self) -> str:
        state = f"commit {self.instant}" if self.instant else "a table without commits"
        if not self.changed:
            return f"{state} was published before: {self.location}"
        changes = f"{counted(self.added_files, 'file')} added, {self.removed_files} removed"
        gone = f", {counted(self.expired_snapshots, 'snapshot')} expired" if self.expired_snapshots else ""
        return f"published {state}: {self.location} ({changes}{gone})"


def publish_table(
    storage: Storage, target: IcebergTarget, settings: Settings, given: Mapping[str, Any]
) -> PublishedSnapshot:
    """Brings an Iceberg table up to date with a Hudi table.

    Args:
        given: options of reads.

    Raises:
        UnsupportedTableError: Iceberg cannot express the table, or would read a file in another way.
        ConflictError: other publications came first, again and again.
    """
    if isinstance(storage, MemoryStorage):
        raise ConfigError(f"Cannot publish {storage.uri} to Iceberg: no other program can read a table in memory")
    resolved = Options.resolve(given, Scope.READ).without(*_CHOOSING)
    kind = "read_optimized" if settings.base_files_only else "snapshot"
    request = replace(ScanRequest.of(resolved, ScanArguments(query_type=kind)), limit=None)
    for _ in range(_ATTEMPTS):
        try:
            return _Attempt(storage, target, settings, request).run()
        except SupersededError:
            continue
    raise ConflictError(
        f"Cannot publish {storage.uri} to Iceberg: other publications came first {_ATTEMPTS} times; publish it again"
    )


def unpublish_table(storage: Storage, target: IcebergTarget) -> int:
    """Removes a publication: the Iceberg table, its metadata and side files, but no file of Hudi.

    Returns:
        The number of files that were deleted; 0 if nothing was published.
    """
    try:
        published = target.load()
    except CorruptFileError:  # its files are found by name
        paths = target.drop(Published({}, None)) + named(storage, PREFIX)
    else:
        if published is None:
            return 0
        files = MetadataFiles(storage, published.metadata["location"], published.metadata["table-uuid"])
        paths = target.drop(published) + files.own()
    delete_all(storage, paths)
    return len(paths)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A publication that is complete except for the change to the metadata."""

    publication: PublishedSnapshot
    updates: tuple[Json, ...] = ()
    needless: tuple[str, ...] = ()
    """Locations of files to delete afterwards."""


class _Attempt:
    """One attempt to publish the table."""

    def __init__(self, storage: Storage, target: IcebergTarget, settings: Settings, request: ScanRequest) -> None:
        self._storage = storage
        self._target = target
        self._settings = settings
        self._request = request

    def run(self) -> PublishedSnapshot:
        """Publishes. Raises SupersededError, and what `publish_table` raises."""
        # load it before the timeline: whatever is published meanwhile makes the commit fail, so no older state follows
        # a newer one
        published = self._target.load()
        state = load_table_state(self._storage)
        _check_table(state.config, self._storage.uri)
        snapshot = open_snapshot(state)
        created: Published | None = None
        if published is None:
            columns = self._columns(snapshot, new_metadata("", (), 0, 0), ())
            created = published = self._target.create(self._first(snapshot, columns))
        with dropped_on_failure(self._target, created):
            self._check_location(published.metadata)
            files = MetadataFiles(self._storage, published.metadata["location"], published.metadata["table-uuid"])
            try:
                ready = self._prepared(published, files, snapshot)
            except BaseException:
                files.withdraw()
                raise
            return self._committed(published, files, ready)

    def _prepared(self, published: Published, files: MetadataFiles, snapshot: Snapshot) -> _Ready:
        """Writes all files except the metadata."""
        metadata, parent = published.metadata, current_snapshot(published.metadata)
        timeline = snapshot.timeline
        columns = self._columns(snapshot, metadata, current_schema(metadata)["fields"])
        state, splits = self._compared(files, snapshot, parent, columns)
        specs, partitions = _partition_specs(metadata, snapshot, splits, columns)
        if parent is not None and specs.added:  # the default one depends on all partitions
            state, splits = load_state(files, parent), plan_scan(snapshot, self._request).splits
            specs, partitions = _partition_specs(metadata, snapshot, splits, columns)
        live = {entry.path: entry for entry in state.entries()}
        number = new_id()
        publishing = Publishing(files, snapshot.config, timeline, columns, partitions, live, number)
        wanted = publishing.wanted(splits)
        gone = live.keys() - wanted.kept
        last = None if timeline.last_completed is None else timeline.last_completed.time
        changes = _column_changes(metadata, wanted.columns)
        facts = {
            VIEW: self._request.query_type,
            # archived instants are not on the timeline
            CLEANED: max(_deleted_up_to(timeline), "" if parent is None else parent["summary"].get(CLEANED, "")),
            **({} if last is None else {INSTANT: last}),
        }
        if parent is not None and not wanted.added and not gone and not changes and not self._is_due(parent, facts):
            return _Ready(PublishedSnapshot(published.location or "", last, parent["snapshot-id"], False))
        schema = next(
            (change["schema"] for change in changes if change["action"] == "add-schema"), current_schema(metadata)
        )
        base = Base(
            files=files,
            schema=schema,
            specs={spec["spec-id"]: spec for spec in (*specs.known, *specs.added)},
            number=number,
            sequence=metadata["last-sequence-number"] + 1,
            parent=None if parent is None else parent["snapshot-id"],
        )
        made = make_snapshot(base, state, wanted.added, gone, facts, _timestamp_ms(snapshot, metadata))
        index = Index.of(snapshot.config, timeline, made.ranges)
        made.snapshot["summary"][INDEX] = files.write(INDEX_FILE, index.encode())
        expiry = expire(
            files,
            snapshots(metadata),
            made,
            most=self._settings.max_snapshots,
            may_be_gone=parent is not None and parent["summary"].get(CLEANED) != facts[CLEANED],
            all_former=columns.reassigned,
        )
        updates = [*changes, *_spec_changes(specs, partitions.values()), *_snapshot_changes(made, expiry.snapshot_ids)]
        publication = PublishedSnapshot(
            "",
            last,
            number,
            True,
            added_files=len(wanted.added),
            removed_files=len(gone),
            delete_files=int(made.snapshot["summary"]["total-delete-files"]),
            expired_snapshots=len(expiry.snapshot_ids),
        )
        former = None if parent is None else parent["summary"].get(INDEX)
        return _Ready(publication, tuple(updates), (*expiry.locations, *([] if former is None else [former])))

    def _compared(
        self, files: MetadataFiles, snapshot: Snapshot, parent: Json | None, columns: IcebergColumns
    ) -> tuple[SnapshotFiles, tuple[Split, ...]]:
        """Returns files of the newest Iceberg snapshot, and the slices to compare them with: those that commits have
        changed since, or all if that is unknown."""
        groups = index = None
        if parent is not None and not columns.reassigned:
            summary = parent["summary"]
            index = read_index(files, summary.get(INDEX))
            if index is not None and summary.get(VIEW) == self._request.query_type:
                groups = index.changed_groups(snapshot)
        if parent is None or index is None or groups is None:
            return load_state(files, parent), plan_scan(snapshot, self._request).splits
        return load_groups(files, parent, index, groups), self._splits_of(snapshot, groups)

    def _splits_of(self, snapshot: Snapshot, groups: frozenset[Group]) -> tuple[Split, ...]:
        """Returns the existing slices of some file groups."""
        if not groups:
            return ()
        partitions = tuple(sorted({str(partition) for partition, _ in groups}))
        try:
            plan = plan_scan(snapshot, replace(self._request, partitions=partitions))
        except ConfigError:  # a partition is gone
            plan = plan_scan(snapshot, self._request)
        return tuple(split for split in plan.splits if (split.partition, split.file_id) in groups)

    def _committed(self, published: Published, files: MetadataFiles, ready: _Ready) -> PublishedSnapshot:
        """Commits the new snapshot, then deletes files that are no longer needed."""
        if not ready.publication.changed:
            return ready.publication
        try:
            location, former = self._target.commit(published, ready.updates)
        except SupersededError:
            files.withdraw()
            raise  # after any other error the new metadata may exist, and refer to the files
        try:
            delete_all(self._storage, [files.path(item) for item in (*ready.needless, *former)])
        except (OSError, HudiError) as error:
            _log.warning("files of the Iceberg metadata of %s stay: %s", self._storage.uri, first_line(error))
        return replace(ready.publication, location=location)

    def _is_due(self, parent: Json, facts: Mapping[str, str]) -> bool:
        """Returns whether to make a snapshot without changes, so that snapshots whose files were deleted expire."""
        return any(parent["summary"].get(key) != facts[key] for key in (CLEANED, VIEW))

    def _columns(self, snapshot: Snapshot, metadata: Json, before: Sequence[Json]) -> IcebergColumns:
        parent = current_snapshot(metadata)
        instant = None if parent is None else parent["summary"].get(INSTANT)
        published = PublishedColumns(before, metadata["last-column-id"], properties(metadata), instant)
        hidden = hidden_columns(snapshot.config)
        return evolve(snapshot.schema, snapshot.history, published, hidden=hidden, table=self._storage.uri)

    def _first(self, snapshot: Snapshot, columns: IcebergColumns) -> Json:
        location = self._settings.location or self._storage.uri
        metadata = new_metadata(location.rstrip("/"), columns.fields, columns.last_id, 0)
        metadata["last-updated-ms"] = _timestamp_ms(snapshot, metadata)
        metadata["properties"] = {MARK: OURS, **FIXED_PROPERTIES}
        return metadata

    def _check_location(self, metadata: Json) -> None:
        wanted = (self._settings.location or self._storage.uri).rstrip("/")
        if metadata["location"].rstrip("/") != wanted:
            raise ConfigError(
                f"Cannot publish {self._target.name} with the location {wanted}: it was published with "
                f"{metadata['location']}; give that location, or unpublish it first (it does not move with its files)"
            )


def _check_table(config: TableConfig, uri: str) -> None:
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"Cannot publish {uri} to Iceberg: its base files are {config.base_file_format}; supported: Parquet files",
            key="hoodie.table.base.file.format",
        )


def _partition_specs(
    metadata: Json, snapshot: Snapshot, splits: Sequence[Split], columns: IcebergColumns
) -> tuple[Specs, dict[Any, Partition]]:
    specs = Specs(tuple(metadata["partition-specs"]))
    result: dict[Any, Partition] = {}
    ids = columns.ids()
    for path in dict.fromkeys(split.partition for split in splits):
        if path == "metadata" or path.startswith("metadata/"):
            raise UnsupportedTableError(
                f"Cannot publish {snapshot.storage.uri} to Iceberg: its partition {path!r} is in the folder "
                "reserved for Iceberg's metadata",
                path=path,
            )
        values = values_of(snapshot.config, snapshot.schema, path, snapshot.storage.uri)
        specs, spec = specs.with_columns(values, ids)
        names = {field["source-id"]: field["name"] for field in spec["fields"]}
        by_field = {names[ids[name]]: value for name, value in values.items()}
        result[path] = Partition(spec["spec-id"], by_field)
    return specs, result


def _column_changes(metadata: Json, columns: IcebergColumns) -> list[Json]:
    changes: list[Json] = []
    if list(columns.fields) != current_schema(metadata)["fields"]:
        number = max(schema["schema-id"] for schema in metadata["schemas"]) + 1
        schema = schema_json(number, columns.fields)
        changes.append({"action": "add-schema", "schema": schema, "last-column-id": columns.last_id})
        changes.append({"action": "set-current-schema", "schema-id": number})
    wanted = columns.properties()
    if wanted.items() - properties(metadata).items():
        changes.append({"action": "set-properties", "updates": wanted})
    return changes


def _spec_changes(specs: Specs, partitions: Any) -> list[Json]:
    changes: list[Json] = [{"action": "add-spec", "spec": spec} for spec in specs.added]
    if specs.added:
        used = {partition.spec_id for partition in partitions}
        every = [spec for spec in (*specs.known, *specs.added) if spec["spec-id"] in used]
        best = max(every, key=lambda spec: (len(spec["fields"]), -spec["spec-id"]))
        changes.append({"action": "set-default-spec", "spec-id": best["spec-id"]})
    return changes


def _snapshot_changes(made: Made, expired: tuple[int, ...]) -> list[Json]:
    number = made.snapshot["snapshot-id"]
    changes: list[Json] = [
        {"action": "add-snapshot", "snapshot": made.snapshot},
        {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": number},
    ]
    if expired:
        changes.append({"action": "remove-snapshots", "snapshot-ids": list(expired)})
    return changes


def _deleted_up_to(timeline: Timeline) -> str:
    return max((item.time for item in timeline.completed if item.action in _DELETING), default="")


def _timestamp_ms(snapshot: Snapshot, metadata: Json) -> int:
    """Returns when the newest commit completed, for time travel, adjusted so that a table's snapshots are in order."""
    times = [item.completion_time or item.time for item in snapshot.timeline.write_completed]
    newest = int(time.time() * 1000)
    if times:
        newest = epoch_ms(max(times), table_zone(snapshot.config))
    return max(newest, int(metadata["last-updated-ms"]))
