"""Converts between Avro and Arrow column by column, and reads and writes Avro object container files."""

from hudi_py.formats.avro.container import ContainerWriter, read_container, write_container
from hudi_py.formats.avro.decode import decode_log_batches, decode_log_content, decode_values
from hudi_py.formats.avro.encode import encode_log_content, encode_log_pieces, encode_values
from hudi_py.formats.avro.schema import AvroSchema, Record, resolve_record
from hudi_py.formats.avro.types import (
    arrow_schema,
    arrow_type,
    avro_schema,
    is_avro_name,
    minimal_fixed_size,
    record_name,
)

__all__ = [
    "AvroSchema",
    "ContainerWriter",
    "Record",
    "arrow_schema",
    "arrow_type",
    "avro_schema",
    "decode_log_batches",
    "decode_log_content",
    "decode_values",
    "encode_log_content",
    "encode_log_pieces",
    "encode_values",
    "is_avro_name",
    "minimal_fixed_size",
    "read_container",
    "record_name",
    "resolve_record",
    "write_container",
]
