"""Parquet base files under another name: their rows name them, so a plain copy counts as damage."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


def renamed(content: bytes, name: str) -> bytes:
    """A base file as it would be with another name: the rows and the footer's pairs are the same."""
    rows, sink = pq.read_table(io.BytesIO(content)), io.BytesIO()
    at = rows.schema.get_field_index("_hoodie_file_name")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.repeat(name, rows.num_rows)), sink)
    return sink.getvalue()
