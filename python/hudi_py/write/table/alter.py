"""Changes the columns of a table by a commit without rows.

Source: `AlterTableCommand`, `BaseHoodieWriteClient.commitTableChange` and, for tables whose schema evolves on write,
`AlterHoodieTableAddColumnsCommand` (1.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.formats.avro import arrow_schema
from hudi_py.formats.hudi_types import declared, shared_names
from hudi_py.metadata.definitions import index_definitions
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.schema.changes import (
    AddColumn,
    ChangeType,
    ColumnChange,
    Columns,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
)
from hudi_py.schema.conform import promotable
from hudi_py.schema.ids import avro_with_ids, reconciled, with_ids
from hudi_py.schema.internal import InternalSchema
from hudi_py.schema.meta import compact_json
from hudi_py.schema.paths import type_at
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import SCHEMA_KEY, SCHEMA_OF_PLAN, newest_history, resolve_table_schema
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.column_ids import ColumnIds
from hudi_py.transaction.conflicts.policy import ALTER_SCHEMA
from hudi_py.transaction.session import WriteTarget
from hudi_py.view import FileSystemView
from hudi_py.write.api import existing_table
from hudi_py.write.result import WriteResult, result_of
from hudi_py.write.retry import NothingToDoError, begin_planned, redo_on_conflict
from hudi_py.write.table.evolution import SchemaChange
from hudi_py.write.table.support import check_types

_WITH_IDS = (
    f"{write_config.SCHEMA_ON_READ.key}=true allows for it: it gives columns ids for good, and other engines need that "
    "option to read the table"
)
_ORDERING = "an ordering column (hoodie.table.ordering.fields)"
_DELETE_MARKERS = ("hoodie.payload.delete.field", "hoodie.record.merge.property.hoodie.payload.delete.field")

Types: TypeAlias = Mapping[str, pa.DataType | pa.Field] | pa.Schema
"""Types by the dotted paths of columns."""


@dataclass(frozen=True, slots=True)
class Altered:
    """A table's schema before and after."""

    avro_json: str
    """Avro record without meta columns."""
    ids: ColumnIds | None
    """None: the schema continues to evolve on write."""
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True, slots=True)
class AlterArguments:
    """The arguments of `Table.alter`."""

    drop: str | Iterable[str] = ()
    rename: Mapping[str, str] | None = None
    add: Types | None = None
    type: Types | None = None
    comment: Mapping[str, str | None] | None = None
    nullable: Mapping[str, bool] | None = None
    move: Mapping[str, str] | None = None


def column_changes(given: AlterArguments) -> tuple[ColumnChange, ...]:
    """Returns the changes that the arguments of `Table.alter` describe, in order.

    Raises:
        ConfigError: an argument is not valid.
    """
    dropped = [given.drop] if isinstance(given.drop, str) else given.drop
    changes: list[ColumnChange] = [DropColumn(path) for path in dropped]
    changes += [RenameColumn(path, name) for path, name in (given.rename or {}).items()]
    changes += [
        AddColumn(path, field.type, _comment_of(field), declared(field))
        for path, field in _check_types("add", given.add)
    ]
    changes += [ChangeType(path, field.type) for path, field in _check_types("type", given.type)]
    changes += [SetComment(path, text) for path, text in (given.comment or {}).items()]
    changes += [SetNullable(path, flag) for path, flag in (given.nullable or {}).items()]
    for path, place in (given.move or {}).items():
        word, _, other = place.strip().partition(" ")
        if (word == "first") is bool(other) or word not in ("first", "after", "before"):
            raise ConfigError(
                f"Argument move={{{path!r}: {place!r}}} is not valid; expected 'first', 'after <column>' or "
                "'before <column>'"
            )
        changes.append(MoveColumn(path, word, other.strip()))
    if not changes:
        raise ConfigError(
            "Cannot alter a table without a change; give at least one of drop, rename, add, type, comment, nullable "
            "and move"
        )
    return tuple(changes)


def _check_types(argument: str, types: Types | None) -> list[tuple[str, pa.Field]]:
    given = {field.name: field for field in types} if isinstance(types, pa.Schema) else types or {}
    fields = []
    for path, kind in given.items():
        if isinstance(kind, pa.Field):
            if not kind.nullable and argument == "add":
                raise ConfigError(
                    f"Argument add={{{path!r}: ...}} is a column without nulls; the rows that are there have none in a "
                    "new column: make the field nullable"
                )
            if argument == "type" and declared(kind) is not None:
                raise ConfigError(
                    f"Argument type={{{path!r}: ...}} is the type {declared(kind)}, which a column keeps from its "
                    "beginning; add a column of that type"
                )
            fields.append((path, kind))
        elif isinstance(kind, pa.DataType):
            fields.append((path, pa.field(path, kind)))
        else:
            raise ConfigError(
                f"Argument {argument}={{{path!r}: {kind!r}}} is not valid; expected an Arrow type, such as pa.int64()"
            )
    return fields


def _comment_of(field: pa.Field) -> str | None:
    note = (field.metadata or {}).get(b"comment")
    return note.decode("utf-8", "replace") if note else None


def alter_table(target: WriteTarget, changes: Sequence[ColumnChange]) -> WriteResult:
    """Changes columns of a table in one commit; rows and files stay as they are.

    Args:
        changes: applied in order.

    Returns:
        `instant` is None if the columns already are as asked.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError, SchemaMismatchError, UnsupportedTableError: nothing was changed.
        ConflictError: another write is pending, or completed meanwhile.
    """
    storage, options = target.durable, target.options
    config = existing_table(storage)
    if config is None:
        raise TableNotFoundError(f"Cannot alter the table at {storage.uri}: there is no table; check the path")
    session = target.session(config)

    def plan(view: FileSystemView) -> Altered:
        planned = altered(view.state, changes, options)
        if planned is None:
            raise NothingToDoError("the columns are like that already")
        return planned

    def attempt() -> WriteResult:
        action = Action.DELTA_COMMIT if config.is_mor else Action.COMMIT
        try:
            with begin_planned(session, plan, action=action, operation=ALTER_SCHEMA) as (transaction, planned):
                commit = transaction.commit(
                    OperationResult(()), schema_json=planned.avro_json, extra=options.commit_metadata, ids=planned.ids
                )
        except NothingToDoError:
            return result_of(ALTER_SCHEMA.lower(), None, None, ())
        return result_of(ALTER_SCHEMA.lower(), commit.instant, commit.completion_time, (), planned.changes)

    result, retries = redo_on_conflict(attempt, session.settings.conflict_retries)
    return replace(result, retries=retries)


def altered(state: TableState, changes: Sequence[ColumnChange], options: Options) -> Altered | None:
    """Returns the schema of a table after changes; None if it is the same.

    Raises:
        ConfigError, SchemaMismatchError, UnsupportedTableError: the changes are not possible.
    """
    config = state.config
    stored = resolve_table_schema(state, writes=True)
    if stored is None:
        raise ConfigError(
            f"Cannot alter the table '{config.name}': it has no columns yet; write rows to it, which may have any"
        )
    check_types(config, stored.avro)
    latest = stored.history.query if stored.history is not None else None
    has_ids = latest is not None or options.get(write_config.SCHEMA_ON_READ)
    versions: tuple[InternalSchema, ...] = ()
    if latest is None and has_ids:
        versions = _versions_so_far(state) or (with_ids(stored.avro, config.name),)
        latest = reconciled(versions[-1], stored.avro, config.name)
    elif latest is None:
        latest = with_ids(stored.avro)
    fixed = _fixed_columns(state.storage, config)
    ordered = {name for name, what in fixed.items() if what == _ORDERING}
    columns = Columns(latest, config.name, fixed, ordered, stored=bool(has_ids))
    done = []
    for change in changes:
        if not has_ids:
            _check_by_name(config, change)
        then = columns.after(change)
        if then.schema.record != columns.schema.record:
            done.append(_describe_change(change, stored.arrow))
        columns = then
    if columns.schema.record == latest.record:
        return None
    avro = shared_names(avro_with_ids(columns.schema, latest, stored.avro), stored.avro)
    text = compact_json(stored.stored.own_avro(avro))
    arrow = arrow_schema(avro)
    if not has_ids:
        _check_types_by_name(config, stored.arrow, arrow)
    ids = ColumnIds(columns.schema, versions) if has_ids else None
    return Altered(text, ids, tuple(done))


def _versions_so_far(state: TableState) -> tuple[InternalSchema, ...]:
    """Returns the versions that the schema of a table without ids has had, oldest first, according to the commits that
    are not archived.

    Apache Hudi begins with the newest one only, and then cannot read files in which a column has a narrower type.
    """
    stored = newest_history(state.storage, state.timeline)  # a write without ids may have followed
    versions = list(stored.versions) if stored is not None else []
    for instant in state.timeline.write_completed:
        if versions and int(instant.time) <= versions[-1].version_id:
            continue
        commit = read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
        text = commit.extra.get(SCHEMA_KEY)
        if not text or commit.operation in SCHEMA_OF_PLAN:
            continue
        avro = json.loads(text)
        if not versions:
            versions.append(with_ids(avro, state.config.name))
        elif (made := reconciled(versions[-1], avro, state.config.name)) is not versions[-1]:
            versions.append(replace(made, version_id=int(instant.time)))
    return tuple(versions)


def _fixed_columns(storage: Storage, config: TableConfig) -> dict[str, str]:
    """Returns the columns on which files, keys or indexes rely."""
    fixed = dict.fromkeys(config.ordering_fields, _ORDERING)
    there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
    for definition in index_definitions(storage, config):
        if definition.name in there and definition.is_named:
            what = f"the source of the index {definition.name}; drop the index first"
            fixed.update(dict.fromkeys(definition.source_fields, what))
    for key in _DELETE_MARKERS:
        if name := config.properties.get(key, "").strip():
            fixed[name] = f"the delete marker ({key})"
    fixed.update(dict.fromkeys(config.partition_fields, "a partition column (hoodie.table.partition.fields)"))
    fixed.update(dict.fromkeys(config.record_key_fields, "a record key column (hoodie.table.recordkey.fields)"))
    return fixed


def _check_by_name(config: TableConfig, change: ColumnChange) -> None:
    """Refuses changes that readers that match columns by name would get wrong."""
    if isinstance(change, (DropColumn, RenameColumn)):
        what = "drop" if isinstance(change, DropColumn) else "rename"
        raise ConfigError(
            f"Cannot {what} '{change.path}' in the table '{config.name}': its columns are matched by name, and files "
            f"keep the old ones; {_WITH_IDS}"
        )


def _check_types_by_name(config: TableConfig, before: pa.Schema, after: pa.Schema) -> None:
    """Refuses type changes that readers that match columns by name do not apply (`HoodieSchemaCompatibility`,
    1.2.0)."""
    for path, old, new in _retyped_columns(before, after):
        number = pa.types.is_integer(old) or pa.types.is_floating(old) or pa.types.is_decimal(old)
        if not number or not promotable(old, new) or (pa.types.is_decimal(old) and not pa.types.is_decimal(new)):
            raise ConfigError(
                f"Cannot change '{path}' from {old} to {new} in the table '{config.name}': its columns are matched by "
                f"name, which allows for wider numbers, and integers and floats as text; {_WITH_IDS}"
            )


def _retyped_columns(before: pa.Schema, after: pa.Schema) -> list[tuple[str, pa.DataType, pa.DataType]]:
    """Returns the columns and members of both schemas whose types differ: path, old and new type."""
    retyped: list[tuple[str, pa.DataType, pa.DataType]] = []

    def walk(path: str, old: pa.DataType, new: pa.DataType) -> None:
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            for member in old:
                place = new.get_field_index(member.name)
                if place >= 0:
                    walk(f"{path}.{member.name}", member.type, new.field(place).type)
        elif pa.types.is_list(old) and pa.types.is_list(new):
            walk(f"{path}.element", old.value_type, new.value_type)
        elif pa.types.is_map(old) and pa.types.is_map(new):
            walk(f"{path}.value", old.item_type, new.item_type)
        elif not old.equals(new):
            retyped.append((path, old, new))

    for field in before:
        at = after.get_field_index(field.name)
        if at >= 0:
            walk(field.name, field.type, after.field(at).type)
    return retyped


def _describe_change(change: ColumnChange, before: pa.Schema) -> SchemaChange:
    """Describes a change. `before`: the columns before all changes."""
    old = type_at(before, change.path)
    shown = None if old is None else str(old)
    match change:
        case AddColumn():
            return SchemaChange(change.path, None, change.custom or str(change.type))
        case ChangeType():
            return SchemaChange(change.path, shown, str(change.type))
        case DropColumn():
            return SchemaChange(change.path, shown, "dropped")
        case RenameColumn():
            return SchemaChange(change.path, shown, f"renamed to {change.name}")
        case SetComment():
            return SchemaChange(change.path, shown, "commented")
        case SetNullable():
            return SchemaChange(change.path, shown, "nullable")
        case MoveColumn():
            return SchemaChange(change.path, shown, f"moved {change.place} {change.other}".strip())
