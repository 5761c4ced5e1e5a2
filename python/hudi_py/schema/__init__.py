"""Arrow schemas of tables: meta columns, and conforming batches to a schema."""

from hudi_py.schema.conform import conform, conform_array
from hudi_py.schema.floats import java_float_texts
from hudi_py.schema.internal import SchemaHistory
from hudi_py.schema.meta import (
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta,
    with_operation,
    without_meta,
)
from hudi_py.schema.stored import StoredRows

__all__ = [
    "COMMIT_TIME",
    "FILE_NAME",
    "META_FIELDS",
    "OPERATION",
    "PARTITION_PATH",
    "RECORD_KEY",
    "SchemaHistory",
    "StoredRows",
    "conform",
    "conform_array",
    "java_float_texts",
    "with_meta",
    "with_operation",
    "without_meta",
]
