"""The five meta columns that precede a row's own columns (`HoodieRecord.HOODIE_META_COLUMNS`, 1.2.0)."""

from __future__ import annotations

import pyarrow as pa

from hudi_py.model.names import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY

META_FIELDS: tuple[str, ...] = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The meta columns in file order; each is a nullable string."""

OPERATION = "_hoodie_operation"
"""The sixth meta column, only present in changelog mode: `I`, `-U`, `U` or `D`."""


def with_meta(schema: pa.Schema) -> pa.Schema:
    """The schema with the five meta columns first, replacing columns of these names."""
    meta = [pa.field(name, pa.string()) for name in META_FIELDS]
    return pa.schema(meta + [field for field in schema if field.name not in META_FIELDS], metadata=schema.metadata)


def with_operation(schema: pa.Schema) -> pa.Schema:
    """The schema with `_hoodie_operation` after the meta columns."""
    if OPERATION in schema.names:
        return schema
    return schema.insert(sum(name in META_FIELDS for name in schema.names), pa.field(OPERATION, pa.string()))


def without_meta(schema: pa.Schema) -> pa.Schema:
    """The schema without the five meta columns."""
    return pa.schema([field for field in schema if field.name not in META_FIELDS], metadata=schema.metadata)
