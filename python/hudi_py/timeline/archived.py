"""Reads archived instants: the archive of layout 1, and one entry point for both layouts.

Layout 1 keeps log files `.commits_.archive.<n>_<token>` whose Avro blocks hold `HoodieArchivedMetaEntry` records, one
for each state of an instant (`ArchivedTimelineLoaderV1`, 1.2.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_py.errors import CorruptFileError, SchemaMismatchError
from hudi_py.formats.avro import decode_log_content, write_container
from hudi_py.formats.log import BlockType, HeaderKey, read_blocks, read_content
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, InstantTime, State
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.names import join_path
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import REQUESTS, in_threads
from hudi_py.timeline.history import (
    EVERYTHING,
    VERSION_FILE,
    ArchivedInstant,
    ArchiveQuery,
    archived_action,
    made_in_layout_2,
    manifest_numbers,
    read_history,
    read_manifest,
    read_version,
    run_range,
)
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline

__all__ = [
    "ArchivedCompletions",
    "ArchivedInstant",
    "archive_files",
    "archive_folder",
    "archived_instants",
    "archived_states",
    "check_history",
    "named_types",
]

_LOG = re.compile(r"\.commits_\.archive\.(\d{1,18})(?:_.*)?", re.ASCII)
_GROUP_BYTES = 8 << 20
_HEAD = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_STATES = {state.name: state for state in State}
_METADATA = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTA_COMMIT: "hoodieCommitMetadata",
    Action.REPLACE_COMMIT: "hoodieReplaceCommitMetadata",
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
    Action.SAVEPOINT: "hoodieSavePointMetadata",
    Action.INDEXING: "hoodieIndexCommitMetadata",
}
_PLANS = {
    Action.COMMIT: "hoodieCompactionPlan",
    Action.DELTA_COMMIT: "hoodieCompactionPlan",
    Action.REPLACE_COMMIT: "hoodieRequestedReplaceMetadata",
    Action.CLEAN: "hoodieCleanerPlan",
}


def archive_folder(config: TableConfig) -> str:
    """Returns the folder of the archived timeline, relative to the base path."""
    if config.layout >= 2:
        name = config.properties.get("hoodie.timeline.history.path", "").strip().strip("/") or "history"
        return join_path(config.timeline_folder, name)
    name = config.properties.get("hoodie.archivelog.folder", "archived").strip().strip("/")
    return join_path(META_FOLDER, name)


def archived_instants(
    storage: Storage,
    config: TableConfig,
    query: ArchiveQuery = EVERYTHING,
) -> list[ArchivedInstant]:
    """Returns completed instants of the archived timeline, sorted by requested time; empty if nothing was archived.

    Raises:
        CorruptFileError: the archive contradicts the format.
    """
    folder = archive_folder(config)
    if config.layout < 2:
        if not any(archive_files(storage, place) for place in (folder, META_FOLDER)):
            _check_nothing_archived(storage, config, folder)
        return _read_archive(storage, folder, query)
    if not check_history(storage, config):
        _check_nothing_archived(storage, config, folder)
    return read_history(storage, folder, query, sorted_runs=made_in_layout_2(config))


class ArchivedCompletions:
    """Completion times of the writes that a timeline has archived (`CompletionTimeQueryViewV2`, 1.2.0). Can be pickled.

    Since table version 8 the completion time decides to which slice a log belongs. A writer may begin before a
    compaction and complete after it, so the requested time alone is not enough. The archive is read only if it makes a
    difference, from the first requested instant on, and further back for older ones.
    """

    def __init__(self, state: TableState) -> None:
        self._storage, self._config, self._timeline = state.storage, state.config, state.timeline
        self._since: str | None = None
        self._times: dict[str, CompletionTime] = {}

    def of(self, instant_time: str, bases: Iterable[str]) -> str | None:
        """Returns a time that orders like the write's completion time among the base instants; None if the write is
        pending or unknown.

        Raises:
            CorruptFileError: the archive cannot be read.
        """
        timeline = self._timeline
        if not timeline.is_archived(instant_time) or not any(base > instant_time for base in bases):
            return timeline.completion_time(instant_time)
        if self._since is None or instant_time < self._since:
            instants = archived_instants(
                self._storage, self._config, ArchiveQuery(since=instant_time, until=self._since)
            )
            self._times.update(
                {instant.time: instant.completion_time for instant in instants if instant.action in WRITE_ACTIONS}
            )
            self._since = instant_time
        return self._times.get(instant_time, instant_time)


def _check_nothing_archived(storage: Storage, config: TableConfig, folder: str) -> None:
    """Raises CorruptFileError if an active write names a previous commit that is older than the active timeline, so
    must have been archived."""
    timeline = load_timeline(storage, config)
    active = {instant.time for instant in timeline.files}
    for instant in timeline.write_completed:
        try:
            metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
        except (FileNotFoundError, CorruptFileError):
            continue
        for stat in metadata.stats:
            before = stat.prev_commit
            if before.isdecimal() and before not in active and before < (timeline.start or ""):
                raise CorruptFileError(
                    f"Cannot read the archived timeline {storage.uri}/{folder}: it does not exist, although the "
                    f"{instant.action.comparable.value} {instant.time} follows {before}, which is older than the "
                    "active timeline; restore the folder from a copy, or correct its path in hoodie.properties"
                )


def check_history(storage: Storage, config: TableConfig) -> bool:
    """Layout 2: tells whether there is a history. Checks that `_version_` was not reset to the number of an older
    manifest.

    A writer deletes instants from the active timeline after `_version_` names the manifest that lists them. So the
    instants of a newer manifest, which a writer left when it died, are all active.

    Raises:
        CorruptFileError: the newest manifest, which `_version_` does not name, lists instants that are not active.
    """
    folder = archive_folder(config)
    files = {info.name for info in storage.list(folder)}
    numbers = manifest_numbers(files)
    if numbers:
        _check_version(storage, config, folder, numbers[-1])
    return bool(numbers) or VERSION_FILE in files


def _check_version(storage: Storage, config: TableConfig, folder: str, newest: int) -> None:
    named = read_version(storage, folder)
    if named is None or named >= newest:
        return
    try:
        before = read_manifest(storage, folder, named).runs
        after = read_manifest(storage, folder, newest).runs
        # after an upgrade the newest instant is not the one in the name
        last = max((run_range(storage, folder, run)[1] for run in before), default="")
    except (FileNotFoundError, CorruptFileError):  # reading the named one reports the error, the other may be torn
        return
    names = {run.name for run in before}
    active = {instant.time for instant in load_timeline(storage, config).files}
    lost = [
        run for run in after if run.name not in names and run.last not in active and (not run.level or run.last > last)
    ]
    if lost and read_version(storage, folder) == named:
        path = f"{storage.uri}/{join_path(folder, VERSION_FILE)}"
        raise CorruptFileError(
            f"Cannot read the archived timeline: {path} names manifest_{named}, but manifest_{newest} lists "
            f"{lost[0].name}, whose instants are no longer active; correct the number in {VERSION_FILE}",
            path=path,
            expected=newest,
            found=named,
        )


def archive_files(storage: Storage, folder: str) -> list[tuple[int, FileInfo]]:
    """Layout 1: lists the archive files of a folder with their numbers, oldest first."""
    files = [
        (int(match[1]), info)
        for info in storage.list(folder)
        if not info.is_dir and (match := _LOG.fullmatch(info.name))
    ]
    return sorted(files, key=lambda numbered: (numbered[0], numbered[1].name))


def archived_states(
    storage: Storage, file: FileInfo, *, since: str, until: str
) -> set[tuple[InstantTime, Action, State]]:
    """Layout 1: returns the instants and states in an archive file within a range of requested times, both inclusive.

    Raises:
        CorruptFileError: the file contradicts the format.
    """
    result: set[tuple[InstantTime, Action, State]] = set()
    for records in _grouped(_blocks(storage, file), f"{storage.uri}/{file.path}", since, until):
        result.update((instant.time, instant.action, instant.state) for _, instant in records.instants())
    return result


def _read_archive(storage: Storage, folder: str, query: ArchiveQuery) -> list[ArchivedInstant]:
    result: dict[tuple[str, Action], ArchivedInstant] = {}
    plan_of: dict[tuple[str, Action], bytes] = {}
    # Releases before 0.10 wrote to `.hoodie` itself and ignored the property
    files = [file for place in dict.fromkeys((META_FOLDER, folder)) for file in archive_files(storage, place)]
    ordered = [info for _, info in sorted(files, key=lambda numbered: (numbered[0], numbered[1].name))]
    for records in _grouped(_all_blocks(storage, ordered), f"{storage.uri}/{folder}", query.since, query.until):
        for row, instant in records.instants():
            key = (instant.time, instant.action)
            if not query.wants(instant):
                continue
            plan = records.value(row, instant.action, _PLANS) if query.plans else None
            if plan is not None:
                plan_of[key] = plan
            if instant.state is State.COMPLETED:
                content = records.value(row, instant.action, _METADATA) if query.metadata else None
                result[key] = replace(instant, metadata=content) if content is not None else instant
    return [
        replace(instant, plan=plan_of[key]) if key in plan_of else instant
        for key, instant in sorted(result.items(), key=lambda item: (item[0][0], item[0][1].value))
    ]


@dataclass(frozen=True, slots=True)
class _Block:
    """An Avro block of an archive file."""

    schema: str | None
    """The schema in its header."""
    content: bytes
    context: str


def _blocks(storage: Storage, file: FileInfo) -> list[_Block]:
    """Reads the complete blocks of a file. Raises FileNotFoundError."""
    # The next writer archived the content of a torn block again; Java skips it too
    return [
        _Block(block.header.get(HeaderKey.SCHEMA), read_content(storage, block), f"{storage.uri}/{file.path}")
        for block in read_blocks(storage, file.path, file.size)
        if block.type is BlockType.AVRO
    ]


def _all_blocks(storage: Storage, files: Sequence[FileInfo]) -> Iterator[_Block]:
    def read(file: FileInfo) -> list[_Block]:
        try:
            return _blocks(storage, file)
        except FileNotFoundError:  # merged into another file since the listing
            return []

    at_once = 1 if storage.is_local else REQUESTS
    for start in range(0, len(files), at_once):
        for blocks in in_threads(read, files[start : start + at_once]):
            yield from blocks


def _grouped(blocks: Iterable[_Block], context: str, since: str | None, until: str | None) -> Iterator[_Records]:
    """Groups blocks of one schema to decode them together, since archives have thousands of small blocks."""
    group: list[_Block] = []
    size = 0
    for block in blocks:
        if group and (block.schema != group[0].schema or size > _GROUP_BYTES):
            yield _Records(group, context, since, until)
            group, size = [], 0
        group.append(block)
        size += len(block.content)
    if group:
        yield _Records(group, context, since, until)


class _Records:
    """The entries of blocks of one schema. Metadata and plans are decoded when they are first needed."""

    def __init__(self, blocks: Sequence[_Block], context: str, since: str | None, until: str | None) -> None:
        self._blocks = blocks
        self._context = context if len({block.context for block in blocks}) > 1 else blocks[0].context
        self._schema = _parsed_schema(blocks[0].schema, self._context)
        self._since, self._until = since, until
        self._columns: dict[str, pa.Array] = {}
        self._heads = self._decode(_HEAD)

    def instants(self) -> Iterator[tuple[int, ArchivedInstant]]:
        """Yields row number and instant (without metadata and plan) of each state within the range."""
        heads: list[list[str | None]] = [
            self._heads.column(name).to_pylist() if name in self._heads.schema.names else [None] * self._heads.num_rows
            for name in _HEAD
        ]
        for row, (time, action, state, transition) in enumerate(zip(*heads, strict=True)):
            if not time or not action or (state is not None and state not in _STATES):
                raise CorruptFileError(
                    f"Cannot read {self._context}: an archived instant has time {time!r}, action {action!r}, state "
                    f"{state!r}"
                )
            if (self._since is not None and time < self._since) or (self._until is not None and time > self._until):
                continue
            # Entries of old releases have no state; their instants are completed
            yield (
                row,
                ArchivedInstant(
                    InstantTime(time),
                    CompletionTime(transition or time),
                    archived_action(action, self._context),
                    State.COMPLETED if state is None else _STATES[state],
                ),
            )

    def value(self, row: int, action: Action, columns: Mapping[Action, str]) -> bytes | None:
        """Returns an entry's value in the column for its action: commit metadata as JSON, others as an Avro
        container."""
        name = columns.get(action)
        if name is None:
            return None
        if name not in self._columns:
            batch = self._decode((name,))
            if name not in batch.schema.names:
                return None
            self._columns[name] = batch.column(name)
        array = self._columns[name]
        scalar = array[row]
        if not scalar.is_valid:
            return None
        record = _avro_value(scalar.as_py(), array.type)
        if action in WRITE_ACTIONS and columns is _METADATA:
            return json.dumps(record).encode()
        return write_container(_field_schema(self._schema, name), [record])

    def _decode(self, names: tuple[str, ...]) -> pa.RecordBatch:
        try:
            contents = [block.content for block in self._blocks]
            return decode_log_content(contents, self._schema, names, context=self._context)
        except SchemaMismatchError as error:
            raise CorruptFileError(f"Cannot read {self._context}: {error}") from error
        except CorruptFileError:
            for block in self._blocks:  # so that the error names the file of the first corrupt block
                decode_log_content([block.content], self._schema, names, context=block.context)
            raise


def _parsed_schema(text: str | None, context: str) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {context}: a block's Avro schema is not JSON ({error!r})") from None


def _avro_value(value: Any, kind: pa.DataType) -> Any:
    """Converts an Arrow value to a Python object with maps as dictionaries, as Avro and JSON need it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _avro_value(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {key: _avro_value(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_avro_value(item, kind.value_type) for item in value]
    return value


def _field_schema(schema: Any, name: str) -> dict[str, Any]:
    """Returns the self-contained schema of a field's record: named types that the archive defines elsewhere are
    inlined."""
    named = named_types(schema)
    field = next(field for field in schema["fields"] if field["name"] == name)
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    record = next(branch for branch in branches if branch != "null")
    completed: dict[str, Any] = _complete(record, named, set())
    return {"namespace": schema.get("namespace", ""), **completed}


def named_types(schema: Any) -> dict[str, Any]:
    """Returns the records that a schema defines, by name without namespace."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    return named


def _collect(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named)
    elif isinstance(schema, dict):
        if schema.get("type") == "record":
            named.setdefault(schema["name"], schema)
            for field in schema["fields"]:
                _collect(field["type"], named)
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), (dict, list)):
                _collect(schema[part], named)


def _complete(schema: Any, named: Mapping[str, Any], seen: set[str]) -> Any:
    if isinstance(schema, str):
        full = named.get(schema.rpartition(".")[2])
        return schema if full is None or full["name"] in seen else _complete(full, named, seen)
    if isinstance(schema, list):
        return [_complete(branch, named, seen) for branch in schema]
    result = dict(schema)
    if schema.get("type") == "record":
        seen.add(schema["name"])
        result["fields"] = [{**field, "type": _complete(field["type"], named, seen)} for field in schema["fields"]]
        return result
    for part in ("items", "values", "type"):
        if isinstance(result.get(part), (dict, list)) or (part != "type" and isinstance(result.get(part), str)):
            result[part] = _complete(result[part], named, seen)
    return result
