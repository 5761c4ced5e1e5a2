"""Chooses the log blocks of a slice that count (format reference, section 7.1).

Source of the rules: `BaseHoodieLogRecordReader.scanInternalV2` (1.2.0).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from hudi_py.errors import CorruptFileError, first_line
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_blocks
from hudi_py.merge.damage import damage_of
from hudi_py.model.files import LogFile
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """The write instants whose log blocks count, as of the plan."""

    start: str
    """Older instants have been archived, hence are committed; empty: there are none."""
    completed: frozenset[str]

    @classmethod
    def of(cls, config: TableConfig, timeline: Timeline, own: str | None = None) -> CommittedInstants | None:
        """The write instants of a timeline, and `own`, which is about to complete.

        None since table version 8, where log files are named by their instants and only committed ones are listed.
        """
        if config.logs_named_by_instant:
            return None
        completed = {instant.time for instant in timeline.write_completed}
        return cls(timeline.start or "", frozenset(completed if own is None else {*completed, own}))

    def __contains__(self, instant: object) -> bool:
        return isinstance(instant, str) and (instant in self.completed or instant < self.start)


def scan_log(
    storage: Storage,
    files: Sequence[LogFile],
    *,
    committed: CommittedInstants | None,
    as_of: str | None = None,
    read_damaged: bool = False,
) -> list[LogBlock]:
    """The data and delete blocks of a file slice that count, oldest first.

    Args:
        files: the slice's log files in order.
        committed: instants whose blocks count; None if the log files themselves were chosen by their instants (table
            versions 8 and 9).
        as_of: blocks of later instants are ignored.
        read_damaged: whether to warn, instead of raising an error, if committed blocks cannot be read.

    Raises:
        CorruptFileError: there are bytes that are neither a block nor the torn tail of a failed write.
    """
    blocks: dict[str, list[LogBlock]] = {}
    for file in files:
        suspicious: list[LogBlock] = []
        for block in read_blocks(storage, file.path, file.size):
            if block.type is BlockType.CORRUPT:
                suspicious.append(block)
                continue
            if block.type is BlockType.COMMAND:
                # a rollback undoes what its target wrote so far; a later attempt may reuse the instant
                blocks.pop(block.header.get(HeaderKey.TARGET_INSTANT_TIME, ""), None)
                continue
            instant = block.header.get(HeaderKey.INSTANT_TIME)
            if instant is None:
                raise CorruptFileError(f"Log block at byte {block.content_offset} of {block.path} has no INSTANT_TIME")
            if instant != file.name.instant and (committed is None or instant not in committed):
                suspicious.append(block)
            if (as_of is not None and instant > as_of) or (committed is not None and instant not in committed):
                continue
            if block.type is BlockType.CDC:
                continue
            blocks.setdefault(instant, []).append(block)
        damage = damage_of(storage, file, suspicious, committed) if suspicious else None
        if damage is not None and not read_damaged:
            raise damage
        if damage is not None:
            warnings.warn(f"Rows are missing or old: {first_line(damage)}", stacklevel=2)
    return _place_log_compactions(blocks)


def _place_log_compactions(blocks: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """Blocks in merge order, with a log-compacted block in the place of those it replaces."""
    newest_first: list[list[LogBlock]] = []
    replaced_by: dict[str, str] = {}
    placed: set[str] = set()
    for instant in reversed(blocks):
        times = blocks[instant][0].header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        if times is not None:
            for original in times.split(","):
                replaced_by[original.strip()] = replaced_by.get(instant, instant)
            continue
        final = replaced_by.get(instant, instant)
        if final not in placed:
            placed.add(final)
            newest_first.append(blocks[final])
    return [block for group in reversed(newest_first) for block in group]
