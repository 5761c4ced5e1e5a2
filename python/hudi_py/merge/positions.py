"""Matches log records with base rows by the record positions in log blocks (format reference, section 7.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hudi_py.errors import CorruptFileError
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_positions
from hudi_py.merge.reduce import Rows, Winners
from hudi_py.merge.versions import LogVersions

_IN_ORDER = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)
"""Blocks whose records have the order of their positions; those of HFile blocks are ordered by key."""


def have_positions(blocks: Sequence[LogBlock], base_instant: str) -> bool:
    """Whether the headers of all blocks have positions for the base file of that instant
    (`PositionBasedFileGroupRecordBuffer.extractRecordPositions`, 1.2.0)."""
    return all(
        block.type in _IN_ORDER
        and HeaderKey.RECORD_POSITIONS in block.header
        and block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) == base_instant
        for block in blocks
    )


def base_rows(versions: LogVersions, winners: Winners, blocks: Sequence[LogBlock], base_instant: str) -> Rows | None:
    """For each key its row number in the base file; None if the blocks have no positions, or ambiguous ones.

    Java merges by position here, which equals merging by key only if keys and positions correspond one to one; a key
    has several positions if the base file holds it more than once.

    Args:
        versions: all versions in the blocks.
        winners: the winners of the versions.
        blocks: the blocks of the log that count, in order.
        base_instant: instant of the slice's base file.
    """
    if not have_positions(blocks, base_instant) or len(versions.block_records) != len(blocks):
        return None
    try:
        positions = [
            decode_positions(block.header[HeaderKey.RECORD_POSITIONS], count, context=block.path)
            for block, count in zip(blocks, versions.block_records, strict=True)
        ]
    except CorruptFileError:
        return None  # merging by key gives the same result
    rows = np.concatenate(positions)[versions.places()]
    found = np.full(len(winners.keys), -1, np.int64)
    found[winners.ids] = rows
    # sorting takes a tenth of the time of np.unique
    if (found[winners.ids] != rows).any() or not np.diff(np.sort(found)).all():
        return None
    return found
