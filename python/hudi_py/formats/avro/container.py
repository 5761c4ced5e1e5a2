"""Avro object container files: timeline instants since table version 8, plans and metadata records, archived timelines.

These hold a few records, so they go through fastavro, which is imported on first use.
"""

from __future__ import annotations

import copy
import io
from typing import Any

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError

_MAGIC = b"Obj\x01"


def read_container(data: bytes, *, context: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Writer schema and records of an Avro object container file; logical types as Python values.

    Raises CorruptFileError naming `context`, UnsupportedTableError for a compression that needs another package.
    """
    import fastavro

    where = f" {context}" if context else ""
    if not data.startswith(_MAGIC):
        raise CorruptFileError(
            f"cannot read the Avro file{where}: it begins with {bytes(data[:4])!r} instead of {_MAGIC!r}"
        )
    try:
        reader = fastavro.reader(io.BytesIO(data))
        records = list(reader)
        schema = reader.writer_schema
    except Exception as error:  # corrupt bytes end in whatever they meet first in fastavro
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "need to install" in why:
            raise UnsupportedTableError(f"cannot read the Avro file{where}: {why}") from error
        raise CorruptFileError(f"cannot read the Avro file{where}: {why}; the file is torn or corrupt") from error
    if not isinstance(schema, dict) or not all(isinstance(record, dict) for record in records):
        raise CorruptFileError(f"cannot read the Avro file{where}: its schema is not a record")
    return schema, records  # type: ignore[return-value]  # checked above


def write_container(schema: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    """An Avro object container file without compression. Raises SchemaMismatchError for records that do not fit."""
    import fastavro

    out = io.BytesIO()
    try:
        fastavro.writer(out, fastavro.parse_schema(copy.deepcopy(schema)), records, codec="null")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SchemaMismatchError(f"cannot write an Avro file of {schema.get('name')!r}: {why}") from error
    return out.getvalue()
