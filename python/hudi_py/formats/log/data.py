"""Encodes data blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hudi_py.formats.avro import encode_log_pieces
from hudi_py.formats.log.blocks import BlockType, HeaderKey, encode_block_pieces
from hudi_py.formats.parquet_writer import encode_parquet


def encode_data_block(
    rows: pa.Table, avro: dict[str, Any], header: Mapping[HeaderKey, str], *, parquet_codec: str | None = None
) -> list[bytes | pa.Buffer]:
    """Return a complete data block, in pieces.

    Args:
        rows: with all columns of `avro`.
        avro: the schema of the records, which the block's header gets.
        header: other entries of the header.
        parquet_codec: of a Parquet block; None: an Avro block.

    Raises:
        SchemaMismatchError: the rows do not fit the schema.
    """
    text = json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
    whole = {**header, HeaderKey.SCHEMA: text}
    if parquet_codec is None:
        return encode_block_pieces(BlockType.AVRO, whole, encode_log_pieces(rows, avro))
    return encode_block_pieces(BlockType.PARQUET, whole, [encode_parquet(rows, text, parquet_codec)])
