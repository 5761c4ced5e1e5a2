"""Resolves the schema of a table's rows from its timeline (`TableSchemaResolver`, 1.2.0).

A schema that evolves on read has a history, in `.hoodie/.schema/<instant>.schemacommit`: every write to such a table
stores all versions again, under its own instant, and the newest file of a completed write counts
(`FileBasedInternalSchemaStorageManager`, 1.2.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hudi_py.errors import CorruptFileError, HudiError, StorageError
from hudi_py.formats.avro import arrow_schema, avro_schema, record_name
from hudi_py.formats.base.files import read_footer
from hudi_py.formats.base.orc import AVRO_SCHEMA as ORC_SCHEMA
from hudi_py.formats.base.parquet import AVRO_SCHEMA as FOOTER_SCHEMA
from hudi_py.formats.log import HeaderKey, read_blocks
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Instant
from hudi_py.model.layout import META_FOLDER, SCHEMAS
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.operation import REWRITING
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS, OPERATION, SchemaHistory, StoredRows, with_meta, without_meta
from hudi_py.schema.ids import inherited
from hudi_py.schema.internal import InternalSchema, parse_history, parse_internal_schema, timestamp_repairs
from hudi_py.storage import Storage
from hudi_py.storage.recent import Recent
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import UNKNOWN, read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

SCHEMA_KEY = "schema"
"""Key in `extraMetadata`: the table schema as Avro JSON."""
LATEST_SCHEMA_KEY = "latest_schema"
"""Key in `extraMetadata`: the internal schema, in tables with schema on read."""
CREATE_SCHEMA = "hoodie.table.create.schema"

SCHEMA_OF_PLAN = REWRITING | {"INDEX"}
"""Operations whose commits record the schema of their plan, which may be older
(`WriteOperationType.canUpdateSchema`)."""


_EMPTY = CommitMetadata(operation=UNKNOWN)
"""The metadata of an empty file."""
_NO_COLUMNS = frozenset({*META_FIELDS, OPERATION})
_ENTRY_BYTES = 256
_WITH_OPERATION: Recent[tuple[str, str], bool] = Recent(1024 * _ENTRY_BYTES)
"""Whether data files on remote storages have `_hoodie_operation`, by URI and path: finding out takes requests."""
_ACTION = "schemacommit"
# `<time>.schemacommit` in timeline layout 1, `<time>_<completion time>.schemacommit` in layout 2
_NAME = re.compile(
    r"(?P<time>\d+)(?:_(?P<completion>\d+))?\.schemacommit(?P<pending>\.requested|\.inflight)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's schema, as Avro and as Arrow."""

    avro: dict[str, Any]
    """The record, without the five meta columns; with `_hoodie_operation` if the table has it."""
    arrow: pa.Schema
    """All columns of a row, starting with the meta columns if the table populates them."""
    history: SchemaHistory | None = None
    """Maps columns of files to the table's; None if they are matched by name."""
    stored: StoredRows = field(default_factory=StoredRows)
    """The columns that base files have."""

    @property
    def stored_avro(self) -> dict[str, Any]:
        """Returns the record of the columns that base files have, without meta columns."""
        return self.stored.own_avro(self.avro)

    @property
    def evolves_on_read(self) -> bool:
        """Returns whether columns are identified by id (`hoodie.schema.on.read.enable`)."""
        return self.history is not None and self.history.query is not None


class NewestCommits:
    """Metadata of completed writes, newest first. Each is read once, when an iteration first reaches it.

    Raises:
        CorruptFileError: during iteration, if a commit cannot be read.
    """

    def __init__(self, state: TableState) -> None:
        self._read: list[CommitMetadata] = []
        self._rest = _newest_first(state)
        self.empty: list[Instant] = []
        """Commits read so far that have an empty file."""

    def __iter__(self) -> Iterator[CommitMetadata]:
        yield from self._read
        for instant, metadata in self._rest:
            self._read.append(metadata)
            if metadata == _EMPTY:
                self.empty.append(instant)
            yield metadata


def resolve_table_schema(
    state: TableState,
    commits: NewestCommits | None = None,
    *,
    writes: bool = False,
) -> TableSchema | None:
    """Resolves the schema that the newest completed write recorded, else the one of the table's creation, else a data
    file's.

    None for an empty table that was created without a schema.

    Args:
        commits: those of this timeline, if the caller needs them too.
        writes: whether files are written with the schema. It must be certain then: no commit with an empty file, of
            which nobody knows what it did, may be newer than the schema.

    Raises:
        CorruptFileError: a schema or a commit cannot be read, or the table has columns that no schema names.
    """
    commits = commits or NewestCommits(state)
    record, latest = _recorded(state.storage, commits)
    empty = tuple(commits.empty)
    _check_columns(state, commits, latest)
    if empty and writes:
        raise _empty_commit(state, empty[0], "write to", "what it did to the columns is not known")
    if record is None and state.config.properties.get(CREATE_SCHEMA):
        text = state.config.properties[CREATE_SCHEMA]
        record = _parse(text, f"{CREATE_SCHEMA} of the table at {state.storage.uri}")
    if record is None:
        record = _of_data_files(state.storage, state.config, commits)
    for instant in empty:
        _check_files_of_empty(state, instant, record)
    if record is None:
        return None
    schema = table_schema_of(record, state.config)
    repairs = timestamp_repairs(schema.avro)
    if latest is None:
        return replace(schema, history=SchemaHistory(repairs=repairs)) if repairs else schema
    stored = newest_history(state.storage, state.timeline)
    versions = {version.version_id: version for version in (stored.versions if stored is not None else ())}
    versions.setdefault(latest.version_id, latest)
    ordered = tuple(versions[number] for number in sorted(versions))
    return replace(schema, history=SchemaHistory(latest, ordered, repairs))


def has_operation_column(storage: Storage, config: TableConfig, commits: NewestCommits) -> bool:
    """Returns whether rows have `_hoodie_operation`. Commits do not record it, so this reads a file of the newest
    write.

    Source: `TableSchemaResolver.hasOperationField` (1.2.0). Costs a footer or block header.
    """
    if not config.populates_meta_fields:
        return False
    for metadata in commits:
        for stat in metadata.stats:
            key = (storage.uri, stat.path)
            known = None if storage.is_local else _WITH_OPERATION.get(key)
            if known is not None:
                return known
            try:
                record = _of_data_file(storage, config, stat.path)
            except StorageError:  # not a sign of damage
                raise
            except (FileNotFoundError, HudiError):  # cleaned, or damaged; reading the file reports it
                record = None
            if record is not None:
                present = any(field.get("name") == OPERATION for field in record["fields"])
                _WITH_OPERATION.put(key, present, _ENTRY_BYTES)
                return present
        if metadata.stats:
            return False
    return False


def table_schema_of(record: dict[str, Any], config: TableConfig) -> TableSchema:
    """Builds the table schema from an Avro record without meta columns; includes partition columns that files lack."""
    fields = [field for field in record["fields"] if field.get("name") not in META_FIELDS]
    if config.drops_partition_columns:
        names = {field.get("name") for field in fields}
        missing = [name for name in config.partition_fields if name not in names]
        fields += [{"name": name, "type": ["null", "string"], "default": None} for name in missing]
    own = {**record, "fields": fields}
    arrow = arrow_schema(own)
    return TableSchema(own, with_meta(arrow) if config.populates_meta_fields else arrow, stored=StoredRows.of(config))


def _recorded(storage: Storage, commits: NewestCommits) -> tuple[dict[str, Any] | None, InternalSchema | None]:
    """Returns the schema in the newest write, and its internal schema if the schema evolves on read."""
    service: tuple[dict[str, Any], InternalSchema | None] | None = None
    for metadata in commits:
        text = metadata.extra.get(SCHEMA_KEY)
        if not text:
            continue
        context = f"in a commit of the table at {storage.uri}"
        latest = metadata.extra.get(LATEST_SCHEMA_KEY)
        internal = parse_internal_schema(latest, f"{LATEST_SCHEMA_KEY} {context}") if latest else None
        schema = _parse(text, f"the schema {context}"), internal
        if schema_of_write(metadata):
            return schema
        service = service or schema
    return service or (None, None)


def schema_of_write(metadata: CommitMetadata) -> str:
    """Returns the table schema that a write recorded; empty if there is none, as for services."""
    return "" if metadata.operation in SCHEMA_OF_PLAN else metadata.extra.get(SCHEMA_KEY) or ""


def _check_columns(state: TableState, commits: NewestCommits, latest: InternalSchema | None) -> None:
    """Raises CorruptFileError if the newest change of columns by id was in a commit whose file is empty: the schema
    history has it, but the commits that were read do not."""
    if not commits.empty:
        return
    stored = newest_history(state.storage, state.timeline)
    newest = max((version.version_id for version in stored.versions), default=0) if stored is not None else 0
    readable = latest.version_id if latest is not None else 0
    if newest > readable:
        raise CorruptFileError(
            f"Cannot determine the columns of the table at {state.storage.uri}: the file of a completed commit is "
            f"empty, and the history of schemas has version {newest} of them, while commits that can be read have "
            f"{readable or 'none'}; restore the file"
        )


def _check_files_of_empty(state: TableState, instant: Instant, record: dict[str, Any] | None) -> None:
    """Raises CorruptFileError if files of a commit, whose own file is empty, have columns that a schema lacks, or wider
    types; also if there are no such files, as after a statement that added a column. Apache Hudi takes the commit for
    one without a schema (`TableSchemaResolver`, 1.2.0): its queries lose such columns, and so does each file that it
    writes afterwards."""
    known = pa.schema([]) if record is None else arrow_schema(record)
    path = None
    for path in _files_of(state.storage, state.config, instant):
        columns = _of_data_file(state.storage, state.config, path)
        if columns is None:
            continue
        own = {**columns, "fields": [field for field in columns["fields"] if field.get("name") not in _NO_COLUMNS]}
        if not own["fields"]:
            why = f"{path}, which it wrote, has meta columns only: it is a skeleton of a bootstrapped file"
            raise _empty_commit(state, instant, "read", why)
        lost = next((field for field in arrow_schema(own) if _is_lost(field, known)), None)
        if lost is not None:
            why = (
                f"{path}, which it wrote, has the column '{lost.name}' of type {lost.type}, which no other commit names"
            )
            raise _empty_commit(state, instant, "read", why)
        return  # all files of a commit have the same schema
    if path is None:
        raise _empty_commit(state, instant, "read", "it left no files that tell whether it changed columns")


def _files_of(storage: Storage, config: TableConfig, instant: Instant) -> Iterator[str]:
    """Yields data files that a commit wrote, by their names and, in table version 6, the blocks of logs."""
    for info in storage.walk():
        name = info.path.rpartition("/")[2]
        base, log = parse_base_file_name(name), parse_log_file_name(name)
        named = base or log
        if named is None or (log is not None and log.cdc) or info.path.startswith(f"{META_FOLDER}/"):
            continue
        if named.instant == instant.time and (base is not None or config.logs_named_by_instant):
            yield info.path
        elif log is not None and not config.logs_named_by_instant and log.instant <= instant.time:
            blocks = read_blocks(storage, info.path, info.size)
            yield from (info.path for block in blocks if block.instant_time == instant.time)


def _is_lost(field: pa.Field, known: pa.Schema | pa.StructType) -> bool:
    """Returns whether a reader of the known columns loses values of a column: its name or a member's is missing, or its
    numbers lose digits."""
    index = known.get_field_index(field.name)
    return index < 0 or _loses(field.type, known.field(index).type)


def _loses(written: pa.DataType, known: pa.DataType) -> bool:
    if pa.types.is_struct(written) and pa.types.is_struct(known):
        return any(_is_lost(member, known) for member in written)
    if pa.types.is_map(written) and pa.types.is_map(known):
        return _loses(written.item_type, known.item_type)
    if pa.types.is_list(written) and pa.types.is_list(known):
        return _loses(written.value_type, known.value_type)
    return written != known and _wide(written) and _wide(known)


def _wide(kind: pa.DataType) -> bool:
    """Returns whether columns are widened to or from a type."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_string(kind))


def _empty_commit(state: TableState, instant: Instant, do: str, why: str) -> CorruptFileError:
    path = f"{state.storage.uri}/{state.timeline.layout.path(instant.file_name)}"
    return CorruptFileError(
        f"Cannot {do} the table at {state.storage.uri}: the file of the completed {instant.action.value} "
        f"{instant.time} is empty, and {why}; restore {path} from a copy, or, if its writer died before it wrote it, "
        "delete it: the next write then rolls the commit back",
        path=path,
        instant=instant.time,
    )


def _newest_first(state: TableState) -> Iterator[tuple[Instant, CommitMetadata]]:
    for instant in reversed(state.timeline.write_completed):
        try:
            yield instant, read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
        except FileNotFoundError:  # archived since the listing
            continue


def _of_data_files(storage: Storage, config: TableConfig, commits: NewestCommits) -> dict[str, Any] | None:
    for metadata in commits:
        for stat in metadata.stats:
            try:
                record = _of_data_file(storage, config, stat.path)
            except FileNotFoundError:  # cleaned
                continue
            if record is not None:
                return record
    return None


def _of_data_file(storage: Storage, config: TableConfig, path: str) -> dict[str, Any] | None:
    name = path.rpartition("/")[2]
    base_name = parse_base_file_name(name)
    if base_name is not None and base_name.extension in ("parquet", "orc", "lance"):
        footer = read_footer(storage, path)
        text = footer.metadata.get(ORC_SCHEMA if base_name.extension == "orc" else FOOTER_SCHEMA)
        if text is not None:
            return _parse(text, f"the schema in the footer of {storage.uri}/{path}")
        # Files of Spark's row writer and Lance files have no Avro schema
        return avro_schema(without_meta(footer.schema.remove_metadata()), *record_name(config.name))
    log_name = parse_log_file_name(name)
    info = storage.stat(path) if log_name is not None and not log_name.cdc else None
    if info is not None:
        for block in read_blocks(storage, path, info.size):
            if HeaderKey.SCHEMA in block.header:
                return _parse(block.header[HeaderKey.SCHEMA], f"the schema in {storage.uri}/{path}")
    return None


def _parse(text: str, context: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {context}: it is not JSON; {error}") from None
    if not isinstance(record, dict) or record.get("type") != "record" or not isinstance(record.get("fields"), list):
        raise CorruptFileError(f"Cannot read {context}: it is not an Avro record")
    if not all(isinstance(field, dict) for field in record["fields"]):
        raise CorruptFileError(f"Cannot read {context}: a field of its Avro record is not an object")
    return record


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """A history file that has been read."""

    instant: str
    text: str
    versions: tuple[InternalSchema, ...]
    """The versions, oldest first."""


def history_files(storage: Storage) -> list[tuple[str, str, bool]]:
    """Lists path and instant of each file of the history, and whether its name has a completion time, as in layout
    2."""
    names = ((info.path, _NAME.fullmatch(info.name)) for info in storage.list(SCHEMAS))
    return [
        (path, name["time"], name["completion"] is not None)
        for path, name in names
        if name is not None and name["pending"] is None
    ]


def history_path(layout: Layout, instant: str, completion: str) -> str:
    """Returns the path of the history that a write stores. `completion` is its completion time, which names of layout 1
    lack."""
    name = f"{instant}_{completion}" if layout.has_completion_times else instant
    return f"{SCHEMAS}/{name}.{_ACTION}"


def newest_history(storage: Storage, timeline: Timeline) -> StoredHistory | None:
    """Reads the newest file of a completed write; None if there is none.

    Raises:
        CorruptFileError: it cannot be read.
    """
    result = []
    for info in storage.list(SCHEMAS):
        name = _NAME.fullmatch(info.name)
        if name is not None and name["pending"] is None:
            result.append((name["time"], info.path))
    for time, path in sorted(result, reverse=True):
        if timeline.is_committed(time):
            text = storage.read(path).decode("utf-8", "replace")
            return StoredHistory(time, text, parse_history(text, f"the schema history {storage.uri}/{path}"))
    return None


def write_history(
    storage: Storage,
    timeline: Timeline,
    instant: str,
    completion: str,
    schema: InternalSchema,
    before: Sequence[InternalSchema] = (),
) -> None:
    """Stores the history of a table's schema for a write that is about to complete. The table lock must be held.

    Args:
        timeline: the current one.
        completion: a completion time for the file's name, which has none in timeline layout 1.
        schema: the schema that the write leaves. It is added unless the history has its `version_id`.
        before: further versions to add, oldest first, if the table had none in its newest commit.

    Raises:
        CorruptFileError: the newest history cannot be read.
    """
    newest = newest_history(storage, timeline)
    text = "" if newest is None else newest.text
    known = set() if newest is None else {version.version_id for version in newest.versions}
    for item in (*before, schema):
        if item.version_id not in known:
            text = inherited(item, text)
            known.add(item.version_id)
    _remove_failed(storage, timeline, keep="" if newest is None else newest.instant)
    for state in ("requested", "inflight"):
        storage.put(f"{SCHEMAS}/{instant}.{_ACTION}.{state}", b"")
    storage.put(history_path(timeline.layout, instant, completion), text.encode())


def _remove_failed(storage: Storage, timeline: Timeline, *, keep: str) -> None:
    """Removes files of writes that did not complete, and those of archived writes, as Apache Hudi does."""
    completed = {instant.time for instant in timeline.write_completed}
    for info in storage.list(SCHEMAS):
        name = _NAME.fullmatch(info.name)
        if name is not None and name["time"] != keep and name["time"] not in completed:
            storage.delete(info.path)
