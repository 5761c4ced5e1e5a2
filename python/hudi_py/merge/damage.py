"""Distinguishes damage to committed log blocks from the torn tail of a failed write.

Apache Hudi skips both (`HoodieLogFileReader.createCorruptBlock`, 1.2.0) and so loses rows in the first case.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.origin import check_partition
from hudi_py.formats.base.parquet import block_batches
from hudi_py.formats.log import BlockType, Deletes, LogBlock, decode_deletes, read_content
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import LogFile
from hudi_py.model.instant import WRITE_ACTIONS, Action, State
from hudi_py.schema.meta import META_FIELDS
from hudi_py.storage import Storage
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.history import ArchiveQuery, made_in_layout_2
from hudi_py.timeline.metadata import UNKNOWN, decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.state import TableState, load_state
from hudi_py.view.recorded import RecordedFile, files_of, recorded_files

_WITH_ORIGIN: Final = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)
_MAX_LOOKED_AT: Final = 1 << 26


def damage_of(
    storage: Storage, file: LogFile, blocks: Sequence[LogBlock], committed: Container[str] | None
) -> CorruptFileError | None:
    """Returns the error for a log file in which something that a completed commit wrote is unreadable; None if there is
    no such damage.

    Reads properties, timeline and commit metadata of the table, so call it only for suspicious blocks.

    Args:
        blocks: corrupt blocks, and blocks of instants that do not count and are not the one in the file's name.
        committed: instants whose blocks count; None: all completed ones.
    """
    state = load_state(storage)
    config, timeline = state.config, state.timeline
    corrupt = [block for block in blocks if block.type is BlockType.CORRUPT]
    strange = [
        block for block in blocks if block not in corrupt and not timeline.is_committed(block.instant_time or "")
    ]
    if config.logs_named_by_instant:
        if strange and made_in_layout_2(config):
            contradiction = f"a block of instant {strange[0].instant_time}, which is not on the timeline"
            return _error(storage, file, f"it belongs to the commit {file.name.instant} but has {contradiction}")
        instant = _another_file(state, file, blocks)
        if instant is not None:
            contradiction = f"it has blocks of {instant}, which wrote other files: one has taken its place"
            return _error(storage, file, contradiction)
    # blocks of writes that are pending or failed are normal before version 8, and in files from before an upgrade
    strange = [block for block in strange if timeline.find(block.instant_time or "") is None]
    if not corrupt and not strange:
        return None
    known, recorded = _recorded(state, file, committed)
    return _strange_block(storage, file, strange, recorded) or _corrupt_block(
        state, file, corrupt, recorded, unknown=not known
    )


def _recorded(state: TableState, file: LogFile, committed: Container[str] | None) -> tuple[bool, list[RecordedFile]]:
    """Returns whether the commit in a log file's name has metadata, and what commits recorded for the file."""
    known, recorded = False, []
    for time, action, metadata in _commits(state, file, committed):
        known = known or (time == file.name.instant and metadata.operation != UNKNOWN)
        recorded += [written for written in files_of(time, action.value, metadata) if written.name == file.name]
    return known, recorded


def _strange_block(
    storage: Storage, file: LogFile, strange: Sequence[LogBlock], recorded: Sequence[RecordedFile]
) -> CorruptFileError | None:
    """Returns the error for a block of an unknown instant that a commit claims to have written."""
    for block in strange:
        end = block.content_offset + block.content_length
        owner = next((write for write in recorded if write.offset == 0 and write.size >= end), None)
        if owner is not None:
            contradiction = (
                f"the block at byte {block.content_offset} is of instant {block.instant_time}, which is unknown"
            )
            return _error(storage, file, f"the completed {owner.action} {owner.commit} wrote it, but {contradiction}")
    return None


def _corrupt_block(
    state: TableState,
    file: LogFile,
    corrupt: Sequence[LogBlock],
    recorded: Sequence[RecordedFile],
    *,
    unknown: bool,
) -> CorruptFileError | None:
    """Returns the error for bytes that are no block, where a commit claims to have written some. `unknown`: whether the
    commit that the file is named after has no metadata."""
    storage = state.storage
    for block in corrupt:
        start, end = block.content_offset, block.content_offset + block.content_length
        owner = next((write for write in recorded if write.offset < end and write.size > start), None)
        if owner is not None:
            what = f"the completed {owner.action} {owner.commit} wrote {owner.size} bytes of it"
            return _error(storage, file, f"{what}, and those from {start} to {end} are missing or not a block")
        if state.config.logs_named_by_instant and unknown and state.timeline.is_committed(file.name.instant):
            # nothing is appended in these versions: without metadata, the whole file is assumed to be the commit's
            return _error(storage, file, f"its bytes from {start} to {end} are missing or not a block")
    return None


def _another_file(state: TableState, file: LogFile, blocks: Sequence[LogBlock]) -> str | None:
    """Returns the instant of blocks in a log file that its commit did not write; None if there are none.

    Since version 8 a file's blocks have the instant in its name, except in files from before an upgrade, and in files
    that writers add to the new file groups of a pending resizing; for these the commit metadata decides. Archived
    commits are not read.
    """
    if state.config.is_metadata_table:  # upgraded with its table, and rebuilt when in doubt
        return None
    instants = {block.instant_time for block in blocks if block.instant_time not in (None, file.name.instant)}
    for time in sorted(filter(None, instants)):
        instant = state.timeline.find(time)
        if instant is None or not instant.completed:
            continue
        written = recorded_files(state, instant)
        if written and all(other.name != file.name for other in written):
            return time
    return None


def check_first_rows(storage: Storage, blocks: Iterable[LogBlock]) -> None:
    """Checks by the rows of its first block that a log file is the one its name says. Reading rows includes this check.

    Skips blocks of more than 64 MiB.

    Raises:
        CorruptFileError: the rows or deletes are those of another file group, or the block cannot be read.
    """
    for block in blocks:
        if block.type not in _WITH_ORIGIN or block.content_length > _MAX_LOOKED_AT:
            continue
        content = read_content(storage, block)
        if block.type is BlockType.PARQUET:
            next(block_batches(content, (), block.path, block.content_offset), None)
        elif block.type is BlockType.DELETE:
            checked_deletes(content, block.path)
        return


def checked_deletes(content: bytes, path: str) -> Deletes:
    """Decodes the entries of a delete block. Raises CorruptFileError, also if they belong to another partition."""
    deletes = decode_deletes(content, context=path)
    if len(deletes.partitions):
        check_partition(deletes.partitions[0].as_py(), path)
    return deletes


def check_column_names(storage: Storage, block: LogBlock, schema: str, wanted: Iterable[str]) -> None:
    """Refuses a data block in whose schema a bit of a column's name has flipped: its values would be read as nulls.

    A block's header has no checksum, but the block's commit also recorded the schema. It is read only if a wanted
    column is missing and a similar name exists.

    Args:
        schema: the block's Avro schema, as JSON.
        wanted: names that the columns to read have in the block.

    Raises:
        CorruptFileError: the commit recorded a wanted column, and not the similar one.
    """
    names = _field_names(schema)
    pairs = [(name, other) for name in wanted if name not in names for other in names if _differ_by_a_bit(name, other)]
    if not pairs:
        return
    timeline = load_state(storage).timeline
    instant = timeline.find(block.instant_time or "")
    recorded: frozenset[str] = frozenset()
    if instant is not None and instant.state is State.COMPLETED:
        recorded = _field_names(read_commit_metadata(storage, timeline.layout, instant).extra.get("schema", ""))
    for name, other in pairs:
        if (name in recorded and other not in recorded) or name in META_FIELDS:
            raise CorruptFileError(
                f"Cannot read the block at byte {block.content_offset} of {storage.uri}/{block.path}: its schema has "
                f"the column {other!r}, where the commit {block.instant_time} wrote {name!r}; restore the file from a "
                "copy, or undo the commit (rollback, restore)"
            )


@lru_cache(maxsize=256)
def _field_names(schema: str) -> frozenset[str]:
    """Returns the column names of an Avro schema in JSON; empty if it is not one."""
    try:
        fields = json.loads(schema)["fields"]
        return frozenset(str(field["name"]) for field in fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()


def _differ_by_a_bit(name: str, other: str) -> bool:
    ours, theirs = name.encode(), other.encode()
    if len(ours) != len(theirs):
        return False
    return (int.from_bytes(ours, "big") ^ int.from_bytes(theirs, "big")).bit_count() == 1


def _error(storage: Storage, file: LogFile, what: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot read log file {storage.uri}/{file.path}: {what}; restore the file from a copy, or undo the commit "
        f"(rollback, restore); {DAMAGED.key}=true reads what is left"
    )


def _commits(
    state: TableState, file: LogFile, committed: Container[str] | None
) -> Iterator[tuple[str, Action, CommitMetadata]]:
    """Yields completed commits from the instant in the file's name on, including archived ones if that instant is
    archived."""
    if state.config.version < 6:
        return
    first = file.name.instant

    def counts(time: str) -> bool:
        return time >= first and (committed is None or time in committed)

    for instant in state.timeline.write_completed:
        if counts(instant.time):
            try:
                metadata = read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
            except FileNotFoundError:  # archived since the listing
                continue
            yield instant.time, instant.action.comparable, metadata
    if state.timeline.start is None or first >= state.timeline.start:
        return

    def chosen(instant: ArchivedInstant) -> bool:
        return instant.action in WRITE_ACTIONS and counts(instant.time)

    for entry in archived_instants(
        state.storage, state.config, ArchiveQuery(since=first, chosen=chosen, metadata=True)
    ):
        metadata = decode_commit_metadata(
            entry.metadata or b"", f"the archived commit {entry.time} of {state.storage.uri}"
        )
        yield entry.time, entry.action, metadata
