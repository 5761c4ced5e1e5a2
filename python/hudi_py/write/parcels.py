"""Rows on their way between the tasks of an engine: whole batches as bytes, in the types of the table, whatever types
the engine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

PARCELS = pa.schema([("to", pa.string()), ("kind", pa.string()), ("rows", pa.binary())])
"""`to`: parcels with the same one must come to one task. `kind`: what rows they have, where there are several kinds."""
_BYTES = 64 * 1024
"""Bytes of the rows in a parcel: Spark's JVM holds up to 10,000 parcels at a time."""


def parcels(to: str, kind: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows as `PARCELS` for one task."""
    step = max(_BYTES * rows.num_rows // max(rows.nbytes, 1), 1)
    for batch in rows.combine_chunks().to_batches(max_chunksize=step):
        yield pa.RecordBatch.from_arrays(
            [pa.array([each]) for each in (to, kind, batch.serialize().to_pybytes())], schema=PARCELS
        )


def unpacked(parcels: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of parcels of one kind, which have a schema, and where they go."""
    for batch in parcels:
        for to, rows in zip(batch.column("to").to_pylist(), batch.column("rows"), strict=True):  # each has many rows
            yield to, pa.ipc.read_record_batch(rows.as_buffer(), schema)
