"""Resolves schema changes by concurrent writes (`SimpleSchemaConflictResolutionStrategy`,
`AvroSchemaComparatorForSchemaEvolution`, 1.2.0)."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Instant
from hudi_py.schema import META_FIELDS
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.table_schema import SCHEMA_KEY, SCHEMA_OF_PLAN
from hudi_py.transaction.conflicts.policy import WriteScope

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


def schema_to_commit(
    table: LockedTable, scope: WriteScope, completed: Sequence[tuple[Instant, CommitMetadata]]
) -> str | None:
    """The schema to commit instead of the write's own because another write has changed it; None: its own.

    Args:
        completed: instants that completed since the write began.

    Raises:
        ConflictError: both writes change the schema, in different ways.
    """
    changes = [(instant, text) for instant, metadata in completed if (text := _schema_of(metadata))]
    if not changes or not scope.schema_json:
        return None
    newest, now = max(changes, key=lambda each: each[0].completion_time or each[0].time)
    own = _columns(scope.schema_json)
    if own == _columns(now):
        return None
    before = _schema_before(table, scope)
    if before is not None and own == _columns(before):
        return now
    if before is None or _columns(before) != _columns(now):
        raise _conflict(table, scope, newest, "changed the schema of the table in another way than this write")
    latest = max(changes, key=lambda each: each[0].time)[0]
    if latest.time > scope.instant:
        # The schema of a table is that of the write that began last, so this change would not be seen; Apache Hudi
        # commits it anyway
        raise _conflict(table, scope, latest, "began after this write, which changes the schema of the table")
    return None


def _columns(schema_json: str) -> Hashable:
    """A table's schema for comparison. Tables with schema on read store it with meta columns, others without."""
    record = json.loads(schema_json)
    return canonical({**record, "fields": [each for each in record["fields"] if each["name"] not in META_FIELDS]})


def canonical(schema: Any) -> Hashable:
    """An Avro schema (parsed JSON) in a form that is equal for equivalent schemas: without documentation, namespaces,
    aliases, custom properties and the order of unions."""
    if isinstance(schema, str):
        return schema.rpartition(".")[2]
    if isinstance(schema, list):
        return "union", frozenset(canonical(each) for each in schema)
    kind = schema["type"]
    if not isinstance(kind, str):
        return canonical(kind)
    logical = tuple(schema.get(key) for key in ("logicalType", "precision", "scale")) if "logicalType" in schema else ()
    name = str(schema.get("name", "")).rpartition(".")[2]
    match kind:
        case "record":
            return kind, logical, tuple(_field(each) for each in schema["fields"])
        case "enum":
            return kind, name, tuple(schema["symbols"])
        case "fixed":
            return kind, name, schema["size"], logical
        case "array":
            return kind, canonical(schema["items"])
        case "map":
            return kind, canonical(schema["values"])
        case _:
            return (kind, logical) if logical else canonical(kind)


def _field(field: dict[str, Any]) -> Hashable:
    default = json.dumps(field["default"], sort_keys=True) if "default" in field else None
    return field["name"], field.get("order", "ascending"), default, canonical(field["type"])


def _schema_before(table: LockedTable, scope: WriteScope) -> str | None:
    """The schema of the table when the write began."""
    seen = table.timeline.at(scope.pin).write_completed
    for instant in sorted(seen, key=lambda each: each.completion_time or each.time, reverse=True):
        text = _schema_of(
            read_commit_metadata(table.session.storage, table.timeline.layout, instant, may_be_empty=True)
        )
        if text:
            return text
    return None


def _schema_of(metadata: CommitMetadata) -> str:
    """The schema that a commit records; a table service records that of its plan, which may be older."""
    return "" if metadata.operation in SCHEMA_OF_PLAN else metadata.extra.get(SCHEMA_KEY, "")


def _conflict(table: LockedTable, scope: WriteScope, other: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {scope.instant} of {table.session.storage.uri}: the {other.action.value} "
        f"{other.time} {what}; nothing was published: write again ({concurrency.RETRIES.key} does so automatically), "
        f"or set {concurrency.RESOLVE_SCHEMAS.key}=false to commit this write's schema",
        instant=other.time,
    )
