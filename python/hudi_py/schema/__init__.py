"""Arrow schemas of tables: meta columns, and conforming batches to a schema."""

from hudi_py.formats.hudi_types import (
    BLOB,
    BLOB_TYPE,
    HUDI_TYPE,
    VARIANT,
    Vector,
    declaration,
    declared,
    parse_type,
)
from hudi_py.model.names import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from hudi_py.schema.conform import assigned_members, conform, conform_array
from hudi_py.schema.floats import java_float_texts
from hudi_py.schema.internal import SchemaHistory
from hudi_py.schema.meta import (
    META_FIELDS,
    OPERATION,
    StoredRows,
    with_meta,
    with_operation,
    without_meta,
)
from hudi_py.schema.paths import backticked

__all__ = [
    "BLOB",
    "BLOB_TYPE",
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "HUDI_TYPE",
    "META_FIELDS",
    "OPERATION",
    "PARTITION_PATH",
    "RECORD_KEY",
    "VARIANT",
    "SchemaHistory",
    "StoredRows",
    "Vector",
    "assigned_members",
    "backticked",
    "conform",
    "conform_array",
    "declaration",
    "declared",
    "java_float_texts",
    "parse_type",
    "with_meta",
    "with_operation",
    "without_meta",
]
