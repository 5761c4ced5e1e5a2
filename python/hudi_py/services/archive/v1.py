"""Archives on timeline layout 1: log files of entries, one for each state of an instant, and the merge of small files.

Sources: `MetadataConversionUtils` and `TimelineArchiverV1`, 1.2.0, which writes a new file each time, and
`HoodieTimelineArchiver`, 0.15.0, for the merge, which 1.2.0 no longer has. The table lock must be held.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import cache
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.formats.avro import arrow_schema, encode_values
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, read_blocks, read_content
from hudi_py.model.instant import Action, Instant, State
from hudi_py.model.names import join_path
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import archive_files, archive_folder, archived_states, named_types
from hudi_py.timeline.records import Fields, decode_record, encode_record, is_container, record_schema
from hudi_py.timeline.state import TableState
from hudi_py.timeline.times import format_instant

SCHEMA_NAME: Final = "HoodieArchivedMetaEntry"
_BLOCK_VERSION: Final = 3
_COMMITS: Final = "hoodieCommitMetadata"
_COMPACTION: Final = "hoodieCompactionPlan"
# The field for an instant's content in each of the three states; None if the entry does not store it
_FIELDS: Final[Mapping[Action, tuple[str | None, str | None, str | None]]] = {
    Action.COMMIT: (_COMMITS, _COMMITS, _COMMITS),
    Action.DELTA_COMMIT: (_COMMITS, _COMMITS, _COMMITS),
    Action.COMPACTION: (_COMPACTION, None, None),
    Action.LOG_COMPACTION: (_COMPACTION, None, None),
    Action.REPLACE_COMMIT: (
        "hoodieRequestedReplaceMetadata",
        "HoodieInflightReplaceMetadata",
        "hoodieReplaceCommitMetadata",
    ),
    Action.CLEAN: ("hoodieCleanerPlan", "hoodieCleanerPlan", "hoodieCleanMetadata"),
    Action.ROLLBACK: (None, None, "hoodieRollbackMetadata"),
}
_STAT: Final = "HoodieWriteStat"
# Numbers that Java's class may leave out of a write stat; all others are 0 if the JSON lacks them
_OPTIONAL_NUMBERS: Final = frozenset({"totalLogFiles", "logVersion", "logOffset", "minEventTime", "maxEventTime"})


def needs_content(instant: Instant) -> bool:
    """Returns whether the archive entry of this state stores the content of its file."""
    return _field_of(instant) is not None


def archive_entry(instant: Instant, transition: str, content: bytes, context: str) -> dict[str, Any]:
    """Builds the entry for one state of an instant.

    Args:
        transition: when the state's file was written, as an instant time.
        content: content of the file; may be empty.
        context: name of the file, for errors.

    Raises:
        CorruptFileError: the content does not have the expected form.
    """
    entry: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": transition,
    }
    field = _field_of(instant)
    if field is not None and content:
        entry[field] = _Fit(context, defaults=is_container(content)).value(
            _avro_types()[1][field], _parse_content(content, context)
        )
    return entry


def encode_entries(entries: Sequence[Mapping[str, Any]], batch_size: int) -> Iterator[bytes]:
    """Yields the contents of Avro blocks of at most `batch_size` entries each (`HoodieAvroDataBlock`, version 3)."""
    arrow = _avro_types()[2]
    columns = [pa.array([entry.get(field.name) for entry in entries], field.type) for field in arrow]
    values = encode_values(pa.RecordBatch.from_arrays(columns, schema=arrow), record_schema(SCHEMA_NAME)).to_pylist()
    for start in range(0, len(values), batch_size):
        block = values[start : start + batch_size]
        parts = [struct.pack(">ii", _BLOCK_VERSION, len(block))]
        for value in block:
            parts += (struct.pack(">i", len(value)), value)
        yield b"".join(parts)


def _field_of(instant: Instant) -> str | None:
    return _FIELDS.get(instant.action, (None, None, None))[instant.state]


@cache
def _avro_types() -> tuple[dict[str, Any], dict[str, Any], pa.Schema]:
    """Returns the records by name, the entry's fields by name, and the entry's columns."""
    schema = record_schema(SCHEMA_NAME)
    return named_types(schema), {field["name"]: field["type"] for field in schema["fields"]}, arrow_schema(schema)


def _parse_content(content: bytes, context: str) -> dict[str, Any]:
    if is_container(content):
        return decode_record(content, context)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot archive {context}: expected JSON or an Avro container; {error}") from None
    if not isinstance(values, dict):
        raise CorruptFileError(f"Cannot archive {context}: expected a JSON object, found {type(values).__name__}")
    return values


class _Fit:
    """Fits values to a schema, leaving out fields that it does not have.

    Fields missing from JSON become null, except the numbers of write stats; fields missing from an Avro record of an
    older schema get their default. Maps become lists of pairs, as Arrow expects them.
    """

    def __init__(self, context: str, *, defaults: bool) -> None:
        self._context = context
        self._defaults = defaults

    def value(self, schema: Any, value: Any) -> Any:
        if isinstance(schema, list):
            return None if value is None else self.value(next(branch for branch in schema if branch != "null"), value)
        if isinstance(schema, str):
            known = _avro_types()[0].get(schema.rpartition(".")[2])
            return self.value(known, value) if known is not None else _fit_primitive(schema, value, self._context)
        kind = schema["type"]
        if kind == "record":
            if not isinstance(value, dict):
                raise _mismatch_error(schema["name"], value, self._context)
            stat = schema["name"] == _STAT
            return {field["name"]: self._fit_field(field, value, stat) for field in schema["fields"]}
        if kind == "map":
            if not isinstance(value, dict):
                raise _mismatch_error("a map", value, self._context)
            return [(key, self.value(schema["values"], item)) for key, item in value.items()]
        if kind == "array":
            if not isinstance(value, list):
                raise _mismatch_error("a list", value, self._context)
            return [self.value(schema["items"], item) for item in value]
        return _fit_primitive(kind, value, self._context)

    def _fit_field(self, field: Mapping[str, Any], record: Mapping[str, Any], stat: bool) -> Any:
        value = record.get(field["name"])
        nullable = isinstance(field["type"], list) and "null" in field["type"]
        if value is None and stat and "long" in field["type"] and field["name"] not in _OPTIONAL_NUMBERS:
            value = 0
        elif value is None and (not nullable or (self._defaults and field["name"] not in record)):
            value = field.get("default")
        return self.value(field["type"], value)


def _fit_primitive(kind: str, value: Any, context: str) -> Any:
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind in ("int", "long") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind in ("float", "double") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise _mismatch_error(f"a {kind}", value, context)


def _mismatch_error(expected: str, value: Any, context: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot archive {context}: expected {expected}, found {str(value)[:60]!r}")


_WRITE_TOKEN: Final = "1-0-1"
# Token of merged files. Apache Hudi 1.2.0, which does not merge, never uses it for a new file: `finish_merge` could not
# distinguish such a file from the merged one
_MERGED_TOKEN: Final = "2-0-1"
MERGE_PLAN: Final = "mergeArchivePlan"
_PLAN_SCHEMA: Final = "HoodieMergeArchiveFilePlan"
Key = tuple[str, Action]
"""Requested time and comparable action."""


def archived_keys(storage: Storage, folder: str, instants: Sequence[Instant]) -> set[Key]:
    """Returns those of some instants, sorted by time, that are already archived.

    Only a process that died before it deleted what it had archived leaves such instants; they are in the newest files.
    """
    first, last = instants[0].time, instants[-1].time
    keys: set[Key] = set()
    for _, file in reversed(archive_files(storage, folder)):
        states = archived_states(storage, file, since=first, until=last)
        if not states:
            break
        keys.update((time, action) for time, action, state in states if state is State.COMPLETED)
    return keys


def add_to_archive(
    state: TableState,
    states: Mapping[Key, Sequence[Instant]],
    instants: Sequence[Instant],
    *,
    batch_size: int,
    zone: tzinfo,
    threads: int,
) -> FileInfo:
    """Writes a new archive file with every state of some instants.

    Args:
        batch_size: entries per block.
        zone: time zone of the table's instants.
    """
    storage, timeline, folder = state.storage, state.timeline, archive_folder(state.config)
    written = {info.name: info.modified_ms for info in storage.list(timeline.layout.folder)}
    files = [file for instant in instants for file in states[instant.time, instant.action.comparable]]

    def entry(file: Instant) -> dict[str, Any]:
        path = timeline.layout.path(file.file_name)
        content = storage.read(path) if needs_content(file) else b""
        if not content and file.action is Action.CLEAN and file.state is State.INFLIGHT:
            # Since 1.1 only the requested file has the plan
            requested = states[file.time, file.action][0]
            content = storage.read(timeline.layout.path(requested.file_name)) if requested is not file else b""
        transition = format_instant(written.get(file.file_name, 0), zone)
        return archive_entry(file, transition, content, f"{storage.uri}/{path}")

    return write_entries(storage, folder, when_remote(storage, entry, files, threads), batch_size=batch_size)


def write_entries(storage: Storage, folder: str, entries: Sequence[Mapping[str, Any]], *, batch_size: int) -> FileInfo:
    """Writes a new archive file. `batch_size`: entries per block."""
    header = {HeaderKey.SCHEMA: json.dumps(record_schema(SCHEMA_NAME), separators=(",", ":"))}
    data = b"".join(encode_block(BlockType.AVRO, header, content) for content in encode_entries(entries, batch_size))
    path = join_path(folder, _next_name(storage, folder))
    storage.put(path, data)
    return FileInfo(path, len(data), 0)


def is_merging(storage: Storage, folder: str) -> bool:
    """Returns whether there is an unfinished merge of archive files."""
    return storage.stat(join_path(folder, MERGE_PLAN)) is not None


def finish_merge(storage: Storage, folder: str) -> int:
    """Completes or undoes a merge of archive files that a dead process began.

    While all files of the plan exist, the merged file may be incomplete and is deleted. If one is missing, the merged
    file is complete.

    Returns:
        Number of files deleted.
    """
    plan_path = join_path(folder, MERGE_PLAN)
    try:
        data = storage.read(plan_path)
    except FileNotFoundError:
        return 0
    deleted = 0
    plan = _decoded_plan(data, f"{storage.uri}/{plan_path}")
    if plan is not None:
        candidates, merged = plan
        existing = {file.name for _, file in archive_files(storage, folder)}
        if existing.issuperset(candidates):
            deleted += storage.delete(join_path(folder, merged))
        elif merged in existing:
            for name in candidates:
                deleted += storage.delete(join_path(folder, name))
    storage.sync()
    storage.delete(plan_path)
    return deleted


def merge_small_files(storage: Storage, folder: str, *, limit_bytes: int, batch: int) -> int:
    """Merges the archive files newer than the newest large one if there are at least `batch`. Returns their number."""
    candidates: list[FileInfo] = []
    for _, file in reversed(archive_files(storage, folder)):
        if file.size > limit_bytes:
            break
        candidates.insert(0, file)
    if len(candidates) < batch:
        return 0
    name = _next_name(storage, folder, _MERGED_TOKEN)
    plan = {
        "version": 1,
        "candidate": [f"{storage.uri}/{file.path}" for file in candidates],
        "mergedArchiveFileName": name,
    }
    storage.put(join_path(folder, MERGE_PLAN), encode_record(_PLAN_SCHEMA, plan))
    with storage.open_output(join_path(folder, name)) as out:
        for block in _read_blocks(storage, candidates):
            out.write(block)
    for file in candidates:
        storage.delete(file.path)
    storage.sync()
    storage.delete(join_path(folder, MERGE_PLAN))
    return len(candidates)


def _read_blocks(storage: Storage, files: Sequence[FileInfo]) -> Iterator[bytes]:
    """Yields the complete blocks of archive files; truncated ones are left out."""
    for file in files:
        for block in read_blocks(storage, file.path, file.size):
            if block.type is BlockType.AVRO:
                yield encode_block(block.type, block.header, read_content(storage, block))


def _decoded_plan(data: bytes, context: str) -> tuple[list[str], str] | None:
    """Returns the names of the files to merge and of the merged file; None if the plan is truncated."""
    try:
        plan = Fields(decode_record(data, context), context)
        return [path.rpartition("/")[2] for path in plan.texts("candidate")], plan.text("mergedArchiveFileName")
    except CorruptFileError:
        return None


def _next_name(storage: Storage, folder: str, token: str = _WRITE_TOKEN) -> str:
    number = max((number for number, _ in archive_files(storage, folder)), default=0) + 1
    return f".commits_.archive.{number}_{token}"
