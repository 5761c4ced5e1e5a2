"""Distinguishes damage to committed log blocks from the torn tail of a failed write.

Apache Hudi skips both (`HoodieLogFileReader.createCorruptBlock`, 1.2.0) and so loses rows in the first case.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError
from hudi_py.formats.log import BlockType, LogBlock
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import LogFile
from hudi_py.model.instant import WRITE_ACTIONS, Action
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.metadata import UNKNOWN, decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.view.recorded import files_of


def damage_of(
    storage: Storage, file: LogFile, blocks: Sequence[LogBlock], committed: Container[str] | None
) -> CorruptFileError | None:
    """The error for a log file in which something that a completed commit wrote is unreadable; None: no such damage.

    Reads properties, timeline and commit metadata of the table, so call it only for suspicious blocks.

    Args:
        blocks: corrupt blocks and, from table version 8 on, blocks whose instant differs from the file name's.
        committed: instants whose blocks count; None: all completed ones.
    """
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    for block in blocks:
        if block.type is not BlockType.CORRUPT and config.version >= 8:
            instant = block.instant_time or ""
            if not timeline.is_committed(instant):
                found = f"a block of instant {instant}, which is not on the timeline"
                return _error(storage, file, f"a file of the commit {file.name.instant}, it has {found}")
    corrupt = [block for block in blocks if block.type is BlockType.CORRUPT]
    if not corrupt:
        return None
    known, recorded = False, []
    for time, action, metadata in _commits(storage, config, timeline, file, committed):
        known = known or (time == file.name.instant and metadata.operation != UNKNOWN)
        recorded += [each for each in files_of(time, action.value, metadata) if each.name == file.name]
    for block in corrupt:
        start, end = block.content_offset, block.content_offset + block.content_length
        owner = next((each for each in recorded if each.offset < end and each.size > start), None)
        if owner is not None:
            what = f"the completed {owner.action} {owner.commit} wrote {owner.size} bytes of it"
            return _error(storage, file, f"{what}, and those from {start} to {end} are missing or not a block")
        if config.version >= 8 and not known and timeline.is_committed(file.name.instant):
            # nothing is appended in these versions: without metadata, the whole file is assumed to be the commit's
            return _error(storage, file, f"its bytes from {start} to {end} are missing or not a block")
    return None


def _error(storage: Storage, file: LogFile, what: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot read log file {storage.uri}/{file.path}: {what}; restore the file from a copy, or undo the commit "
        f"(rollback, restore); {DAMAGED.key}=true reads what is left"
    )


def _commits(
    storage: Storage, config: TableConfig, timeline: Timeline, file: LogFile, committed: Container[str] | None
) -> Iterator[tuple[str, Action, CommitMetadata]]:
    """Completed commits from the instant in the file's name on, including archived ones if that instant is archived."""
    if config.version < 6:
        return
    first = file.name.instant

    def counts(time: str) -> bool:
        return time >= first and (committed is None or time in committed)

    for instant in timeline.write_completed:
        if counts(instant.time):
            try:
                metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
            except FileNotFoundError:  # archived since it was listed
                continue
            yield instant.time, instant.action.comparable, metadata
    if timeline.start is None or first >= timeline.start:
        return

    def chosen(instant: ArchivedInstant) -> bool:
        return instant.action in WRITE_ACTIONS and counts(instant.time)

    for entry in archived_instants(storage, config, since=first, chosen=chosen, metadata=True):
        metadata = decode_commit_metadata(entry.metadata or b"", f"the archived commit {entry.time} of {storage.uri}")
        yield entry.time, entry.action, metadata
