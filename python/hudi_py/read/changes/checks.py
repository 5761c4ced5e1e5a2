"""What records of change logs say twice: their blocks have no checksum, and a turned bit elsewhere is not noticed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.model.changes import AFTER, BEFORE, DELETE, INSERT, KEY, OP, UPDATE


def check_logged(records: pa.RecordBatch, key_fields: Sequence[str], path: str) -> None:
    """Checks that the operation is one, that images are where it has them (`HoodieCDCLogger.put`, 1.2.0), and that they
    have the same key.

    Args:
        records: `op`, and as far as the logging mode has them `record_key`, `before` and `after`, the images as
            structs.
        key_fields: columns of the record key.
        path: the log file, for errors.

    Raises:
        CorruptFileError: a record contradicts itself.
    """
    names, op = records.schema.names, records.column(OP)
    known = pa.array((INSERT, UPDATE, DELETE))  # not in the module: it would import pandas
    _refuse(pc.invert(pc.is_in(op, known)), records, "is none of i, u and d", path)
    for image, without in ((BEFORE, INSERT), (AFTER, DELETE)):
        if image in names:
            wrong = pc.equal(pc.equal(op, without), records.column(image).is_valid())
            _refuse(wrong, records, f"has or lacks the image {image!r} against its kind", path)
    differs = list(_key_differs(records, names, key_fields))
    if differs:
        _refuse(reduce(pc.or_, differs), records, "has images or a record key of different keys", path)


def _key_differs(records: pa.RecordBatch, names: Sequence[str], key_fields: Sequence[str]) -> Iterator[pa.Array]:
    """Whether records name different keys, by what can be compared: texts and whole numbers."""
    if BEFORE not in names:
        return
    before = records.column(BEFORE)
    for field in key_fields:
        if before.type.get_field_index(field) < 0 or not _is_plain(before.type.field(field).type):
            continue
        old = pc.struct_field(before, field)
        if AFTER in names:
            yield pc.fill_null(pc.not_equal(old, pc.struct_field(records.column(AFTER), field)), False)
        elif KEY in names and len(key_fields) == 1:
            key, text = records.column(KEY), old.cast(pa.string())
            named = pc.binary_join_element_wise(field, text, ":")
            # nulls and empty texts have placeholders
            known = pc.greater(pc.binary_length(text), 0)
            same = pc.or_(pc.equal(key, text), pc.equal(key, named))
            yield pc.fill_null(pc.and_(known, pc.invert(same)), False)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _refuse(wrong: pa.Array, records: pa.RecordBatch, what: str, path: str) -> None:
    place = pc.index(pc.fill_null(wrong, True), True).as_py()
    if place >= 0:
        raise CorruptFileError(
            f"Cannot read change log {path}: a record with the operation {records.column(OP)[place].as_py()!r} {what}; "
            "restore the file from a copy",
            path=path,
        )
