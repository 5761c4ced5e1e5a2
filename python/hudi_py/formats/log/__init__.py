"""Log files: blocks of data, deletes and commands, appended to a file slice."""

from __future__ import annotations

from hudi_py.formats.log.blocks import (
    BlockType,
    HeaderKey,
    LogBlock,
    encode_block,
    encode_data_block,
    encode_rollback_block,
)
from hudi_py.formats.log.delete_decoding import Deletes, decode_deletes
from hudi_py.formats.log.delete_encoding import encode_deletes
from hudi_py.formats.log.positions import decode_positions, encode_positions
from hudi_py.formats.log.reader import read_blocks, read_content

__all__ = [
    "BlockType",
    "Deletes",
    "HeaderKey",
    "LogBlock",
    "decode_deletes",
    "decode_positions",
    "encode_block",
    "encode_data_block",
    "encode_deletes",
    "encode_positions",
    "encode_rollback_block",
    "read_blocks",
    "read_content",
]
