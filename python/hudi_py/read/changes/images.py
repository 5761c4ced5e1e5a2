"""Looks up rows before and after a change, as text, by record key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, last_of_each
from hudi_py.formats.lookup import TextSet
from hudi_py.read.changes.row_text import row_text
from hudi_py.schema import RECORD_KEY

ROWS = 16_384
_BYTES = 1 << 26
"""Bytes of rows converted to text at once: an Arrow string array holds 2 GiB, and escaping may need 6 times as much."""


@dataclass(frozen=True, slots=True)
class Images:
    """Rows of distinct record keys."""

    rows: pa.Table
    keys: pa.Array
    texts: pa.ChunkedArray

    def at(self, keys: pa.Array) -> pa.Array:
        """The image of each key, string; null where there is no such row."""
        return combined(self.texts.take(pc.index_in(keys, value_set=self.keys)))


def images_of(rows: Iterable[pa.RecordBatch], schema: pa.Schema, keys: pa.Array | None = None) -> Images:
    """The images of rows; of a repeated key, the last row counts.

    Args:
        rows: batches of `schema`, with the record key.
        keys: only rows of these record keys; None: all.
    """
    if keys is not None:
        wanted = TextSet(keys)
        rows = (batch.filter(wanted.has(batch.column(RECORD_KEY))) for batch in rows)
    table = pa.Table.from_batches(list(rows), schema)
    encoded = combined(table[RECORD_KEY]).dictionary_encode()
    if len(encoded.dictionary) < table.num_rows:
        last = last_of_each(encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary))
        table = table.take(pa.array(np.sort(last)))
    texts = [row_text(part) for batch in table.to_batches() for part in small_batches(batch)]
    return Images(table, combined(table[RECORD_KEY]), pa.chunked_array(texts, pa.string()))


def small_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts small enough to be converted to text."""
    if not batch.num_rows:
        return
    each = max(1, min(ROWS, _BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, each):
        yield batch.slice(start, each)
