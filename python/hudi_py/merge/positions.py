"""Rows of the base file which a log's records belong to, where its blocks tell them (format reference, section 7.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hudi_py.errors import CorruptFileError
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_positions
from hudi_py.merge.reduce import Rows, Winners
from hudi_py.merge.versions import LogVersions

_IN_ORDER = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)
"""Blocks whose records lie in the order of their positions; those of HFile blocks lie in the order of their keys."""


def tell_positions(blocks: Sequence[LogBlock], base_instant: str) -> bool:
    """Whether all blocks have positions of the base file of that instant, by their headers
    (`PositionBasedFileGroupRecordBuffer.extractRecordPositions`, 1.2.0)."""
    return all(
        block.type in _IN_ORDER
        and HeaderKey.RECORD_POSITIONS in block.header
        and block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) == base_instant
        for block in blocks
    )


def base_rows(versions: LogVersions, winners: Winners, blocks: Sequence[LogBlock], base_instant: str) -> Rows | None:
    """For each key its row in the base file.

    Java keeps its records by position here. That is the same as by key where every key has one position and every
    position one key; a key has several where the base file holds it more than once.

    Args:
        versions: all that the blocks hold.
        winners: those of the versions.
        blocks: those of the log that count, in order.
        base_instant: of the slice's base file.

    Returns:
        None where the blocks do not tell the rows, or leave a doubt.
    """
    if not tell_positions(blocks, base_instant) or len(versions.block_records) != len(blocks):
        return None
    try:
        told = [
            decode_positions(block.header[HeaderKey.RECORD_POSITIONS], count, context=block.path)
            for block, count in zip(blocks, versions.block_records, strict=True)
        ]
    except CorruptFileError:
        return None  # the keys tell the same
    rows = np.concatenate(told)[versions.places()]
    found = np.full(len(winners.keys), -1, np.int64)
    found[winners.ids] = rows
    # sorting takes a tenth of the time of np.unique
    if (found[winners.ids] != rows).any() or not np.diff(np.sort(found)).all():
        return None
    return found
