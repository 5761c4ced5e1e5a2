"""Record keys and partition paths of rows, exactly as Apache Hudi forms them."""

from hudi_py.write.rows.keygen.generator import (
    KeyGenerator,
    KeyGeneratorType,
    check_fields,
    field_type,
    infer_keygen_type,
    key_generator,
    parse_keygen,
)

__all__ = [
    "KeyGenerator",
    "KeyGeneratorType",
    "check_fields",
    "field_type",
    "infer_keygen_type",
    "key_generator",
    "parse_keygen",
]
