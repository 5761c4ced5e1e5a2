"""Rows of a base file, whatever its format, as the table's schema has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_py.formats.parquet import iter_base_batches
from hudi_py.model.files import BaseFile
from hudi_py.schema import conform
from hudi_py.storage import Storage

BASE_ROWS = 131_072
"""Rows of a batch when nobody asks for another number."""


def read_base(
    storage: Storage,
    base_file: BaseFile,
    schema: pa.Schema,
    *,
    batch_rows: int = BASE_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """A base file's rows with the columns of `schema`."""
    path = base_file.path
    for batch in iter_base_batches(storage, path, schema.names, batch_rows=batch_rows, row_groups=row_groups):
        yield conform(batch, schema, context=path)
