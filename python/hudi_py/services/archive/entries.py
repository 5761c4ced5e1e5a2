"""Archive entries of timeline layout 1: one for each state of an instant (`MetadataConversionUtils`, 1.2.0)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.formats.avro import arrow_schema, encode_values
from hudi_py.model.instant import Action, Instant
from hudi_py.timeline.archived import named_types
from hudi_py.timeline.records import decode_record, is_container, record_schema

SCHEMA_NAME: Final = "HoodieArchivedMetaEntry"
_BLOCK_VERSION: Final = 3
_COMMITS: Final = "hoodieCommitMetadata"
_COMPACTION: Final = "hoodieCompactionPlan"
# The field for an instant's content in each of the three states; None if the entry does not store it
_FIELDS: Final[Mapping[Action, tuple[str | None, str | None, str | None]]] = {
    Action.COMMIT: (_COMMITS, _COMMITS, _COMMITS),
    Action.DELTA_COMMIT: (_COMMITS, _COMMITS, _COMMITS),
    Action.COMPACTION: (_COMPACTION, None, None),
    Action.LOG_COMPACTION: (_COMPACTION, None, None),
    Action.REPLACE_COMMIT: (
        "hoodieRequestedReplaceMetadata",
        "HoodieInflightReplaceMetadata",
        "hoodieReplaceCommitMetadata",
    ),
    Action.CLEAN: ("hoodieCleanerPlan", "hoodieCleanerPlan", "hoodieCleanMetadata"),
    Action.ROLLBACK: (None, None, "hoodieRollbackMetadata"),
}
_STAT: Final = "HoodieWriteStat"
# Numbers that Java's class may leave out of a write stat; all others are 0 if the JSON lacks them
_OPTIONAL_NUMBERS: Final = frozenset({"totalLogFiles", "logVersion", "logOffset", "minEventTime", "maxEventTime"})


def needs_content(instant: Instant) -> bool:
    """Whether the entry of this state stores the content of its file."""
    return _field_of(instant) is not None


def archive_entry(instant: Instant, transition: str, content: bytes, context: str) -> dict[str, Any]:
    """The entry for one state of an instant.

    Args:
        transition: when the state's file was written, as an instant time.
        content: content of the file; may be empty.
        context: name of the file, for errors.

    Raises:
        CorruptFileError: the content does not have the expected form.
    """
    entry: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": transition,
    }
    field = _field_of(instant)
    if field is not None and content:
        entry[field] = _Fit(context, defaults=is_container(content)).value(
            _types()[1][field], _parsed(content, context)
        )
    return entry


def encode_entries(entries: Sequence[Mapping[str, Any]], batch_size: int) -> Iterator[bytes]:
    """The contents of Avro blocks of at most `batch_size` entries each (`HoodieAvroDataBlock`, version 3)."""
    arrow = _types()[2]
    columns = [pa.array([entry.get(field.name) for entry in entries], field.type) for field in arrow]
    values = encode_values(pa.RecordBatch.from_arrays(columns, schema=arrow), record_schema(SCHEMA_NAME)).to_pylist()
    for at in range(0, len(values), batch_size):
        block = values[at : at + batch_size]
        parts = [struct.pack(">ii", _BLOCK_VERSION, len(block))]
        for value in block:
            parts += (struct.pack(">i", len(value)), value)
        yield b"".join(parts)


def _field_of(instant: Instant) -> str | None:
    return _FIELDS.get(instant.action, (None, None, None))[instant.state]


@cache
def _types() -> tuple[dict[str, Any], dict[str, Any], pa.Schema]:
    """Records by name, the entry's fields by name, and the entry's columns."""
    schema = record_schema(SCHEMA_NAME)
    return named_types(schema), {field["name"]: field["type"] for field in schema["fields"]}, arrow_schema(schema)


def _parsed(content: bytes, context: str) -> dict[str, Any]:
    if is_container(content):
        return decode_record(content, context)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot archive {context}: expected JSON or an Avro container; {error}") from None
    if not isinstance(values, dict):
        raise CorruptFileError(f"Cannot archive {context}: expected a JSON object, found {type(values).__name__}")
    return values


class _Fit:
    """Fits values to a schema, leaving out fields that it does not have.

    Fields missing from JSON become null, except the numbers of write stats; fields missing from an Avro record of an
    older schema get their default. Maps become lists of pairs, as Arrow expects them.
    """

    def __init__(self, context: str, *, defaults: bool) -> None:
        self._context = context
        self._defaults = defaults

    def value(self, schema: Any, value: Any) -> Any:
        if isinstance(schema, list):
            return None if value is None else self.value(next(branch for branch in schema if branch != "null"), value)
        if isinstance(schema, str):
            known = _types()[0].get(schema.rpartition(".")[2])
            return self.value(known, value) if known is not None else _primitive(schema, value, self._context)
        kind = schema["type"]
        if kind == "record":
            if not isinstance(value, dict):
                raise _mismatch(schema["name"], value, self._context)
            stat = schema["name"] == _STAT
            return {field["name"]: self._field(field, value, stat) for field in schema["fields"]}
        if kind == "map":
            if not isinstance(value, dict):
                raise _mismatch("a map", value, self._context)
            return [(key, self.value(schema["values"], item)) for key, item in value.items()]
        if kind == "array":
            if not isinstance(value, list):
                raise _mismatch("a list", value, self._context)
            return [self.value(schema["items"], item) for item in value]
        return _primitive(kind, value, self._context)

    def _field(self, field: Mapping[str, Any], record: Mapping[str, Any], stat: bool) -> Any:
        value = record.get(field["name"])
        nullable = isinstance(field["type"], list) and "null" in field["type"]
        if value is None and stat and "long" in field["type"] and field["name"] not in _OPTIONAL_NUMBERS:
            value = 0
        elif value is None and (not nullable or (self._defaults and field["name"] not in record)):
            value = field.get("default")
        return self.value(field["type"], value)


def _primitive(kind: str, value: Any, context: str) -> Any:
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind in ("int", "long") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind in ("float", "double") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise _mismatch(f"a {kind}", value, context)


def _mismatch(expected: str, value: Any, context: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot archive {context}: expected {expected}, found {str(value)[:60]!r}")
