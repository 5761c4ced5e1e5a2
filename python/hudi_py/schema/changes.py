"""Changes to the columns of a table, and the schema that they lead to.

The rules are those of `TableChanges`, `SchemaChangeUtils` and `AlterTableCommand` (1.2.0). Columns have dotted paths,
in which `element` and `value` stand for the members of lists and maps. Upper and lower case do not matter, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.formats.avro import avro_schema, is_avro_name
from hudi_py.formats.hudi_types import declaration, declared
from hudi_py.schema.ids import UNSAVED, DecimalName, is_opaque, last_id, new_type, value_type
from hudi_py.schema.internal import (
    InternalArray,
    InternalField,
    InternalMap,
    InternalRecord,
    InternalSchema,
    InternalType,
)
from hudi_py.schema.meta import META_FIELDS

_WIDER: Final[Mapping[str, Collection[str]]] = {
    "int": ("long", "float", "double", "string", "decimal"),
    "long": ("float", "double", "string", "decimal"),
    "float": ("double", "string", "decimal"),
    "double": ("string", "decimal"),
    "date": ("string",),
    "binary": ("string",),
    "string": ("date", "binary", "decimal"),
    "decimal": ("string", "a decimal of more digits"),
}
"""`SchemaChangeUtils.isTypeUpdateAllow`."""
_SAME_ORDER: Final = frozenset({("int", "long"), ("int", "double"), ("float", "double"), ("decimal", "decimal")})
"""Types whose change keeps the order of values."""
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class DropColumn:
    path: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: str
    name: str
    """The new last part of the path."""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column after the others, or a new member of a struct. Always nullable."""

    path: str
    type: pa.DataType
    comment: str | None = None
    custom: str | None = None
    """Its `hudi_type`, of a VECTOR, VARIANT or BLOB."""


@dataclass(frozen=True, slots=True)
class ChangeType:
    path: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class SetComment:
    path: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetNullable:
    path: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class MoveColumn:
    path: str
    place: str
    """`first`, `after` or `before`."""
    other: str = ""
    """The last part of the neighbouring column's path; empty if `first`."""


ColumnChange: TypeAlias = DropColumn | RenameColumn | AddColumn | ChangeType | SetComment | SetNullable | MoveColumn
_CHANGES: Final[Mapping[str, Any]] = {
    "drop": DropColumn,
    "rename": RenameColumn,
    "add": AddColumn,
    "type": ChangeType,
    "comment": SetComment,
    "nullable": SetNullable,
    "move": MoveColumn,
}


def changes_of(items: Sequence[Mapping[str, Any]], types: pa.Schema) -> list[ColumnChange]:
    """Parses the changes of a statement in SQL.

    Args:
        items: in order, each with `change` (`drop`, `rename`, `add`, `type`, `comment`, `nullable` or `move`) and the
            members of the change of that kind. `type` names a column of `types`.

    Raises:
        ConfigError: an old column would get a type that a column keeps from its beginning.
    """
    made = []
    for item in items:
        members = {key: value for key, value in item.items() if key != "change"}
        if "type" in members:
            column = types.field(members["type"])
            members["type"] = column.type
            if item["change"] == "add":
                members["custom"] = declared(column)
            elif declared(column) is not None:
                raise ConfigError(
                    f"Cannot change the type of '{item['path']}' to {declared(column)}, which a column keeps from its "
                    "beginning; add a column of that type"
                )
        made.append(_CHANGES[item["change"]](**members))
    return made


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table that is about to change."""

    schema: InternalSchema
    table: str
    """Name of the table, for messages."""
    fixed: Mapping[str, str]
    """Columns that may not be dropped, renamed or retyped, with the reason for messages."""
    ordered: Collection[str] = ()
    """Columns of `fixed` that may become wider numbers."""
    stored: bool = True
    """Whether ids are stored with the table."""

    def after(self, change: ColumnChange) -> Columns:
        """Returns the columns after a change.

        Raises:
            SchemaMismatchError: it is not possible; the message names the column and what is.
            UnsupportedTableError: a type that has no ids.
        """
        match change:
            case DropColumn():
                return self._dropped(change)
            case RenameColumn():
                return self._renamed(change)
            case AddColumn():
                return self._added(change)
            case ChangeType():
                return self._retyped(change)
            case SetComment():
                path = self._path(change.path, f"comment on '{change.path}'")
                return self._with(_edited(self.schema.record, path, lambda field: replace(field, doc=change.comment)))
            case SetNullable():
                path = self._path(change.path, f"change '{change.path}'")
                return self._with(_edited(self.schema.record, path, lambda field: self._relaxed(change, field)))
            case MoveColumn():
                return self._moved(change)

    # -- one kind of change each

    def _dropped(self, change: DropColumn) -> Columns:
        path = self._path(change.path, f"drop '{change.path}'")
        self._check_free(path, "drop")
        if path[-1] in ("element", "value") and not isinstance(self._parent(path), InternalRecord):
            raise self._refused(f"drop '{change.path}'", "a list or map without it is no type; drop the column")
        if len(_own(self._parent(path))) == 1:
            raise self._refused(f"drop '{change.path}'", "nothing would be left; drop the column that it is in")
        return self._with(_edited(self.schema.record, path, lambda _: None))

    def _renamed(self, change: RenameColumn) -> Columns:
        what = f"rename '{change.path}' to '{change.name}'"
        path = self._path(change.path, what)
        self._check_free(path, "rename")
        parent = self._parent(path)
        if not isinstance(parent, InternalRecord):
            raise self._refused(what, "the members of lists and maps have no other names")
        if "." in change.name:
            raise self._refused(what, "it cannot move to another struct; give the new name without the path")
        self._check_new(parent, change.name, what)
        return self._with(_edited(self.schema.record, path, lambda field: replace(field, name=change.name)))

    def _added(self, change: AddColumn) -> Columns:
        *above, name = change.path.split(".")
        what = f"add '{change.path}'"
        path = self._path(".".join(above), what) if above else ()
        parent = _at(self.schema.record, path)
        if not isinstance(parent, InternalRecord):
            raise self._refused(what, f"'{'.'.join(above)}' is no struct, but {_shown(parent)}")
        self._check_new(parent, name, what)
        free = last_id(self.schema) + 1
        avro = self._avro(change.path, change.type, change.custom)
        kind, following = new_type(avro, free + 1, self._named, change.path)
        field = InternalField(free, name, _plain_decimals(kind), doc=change.comment)
        record = _with_members(self.schema.record, path, lambda fields: (*fields, field))
        return replace(self, schema=InternalSchema(UNSAVED, record, following - 1))

    def _retyped(self, change: ChangeType) -> Columns:
        path = self._path(change.path, f"change the type of '{change.path}'")
        old = _at(self.schema.record, path)
        new, _ = new_type(self._avro(change.path, change.type), 0, self._named, change.path)
        new = _plain_decimals(new)
        if _same_kind(old, new):
            return self
        what = f"change '{change.path}' from {_shown(old)} to {_shown(new)}"
        if not isinstance(old, str):
            raise self._refused(what, "only columns without members get another type; name a member by its path")
        source, target = _family(old), _family(new) if isinstance(new, str) else ""
        reason = next((why for name, why in self.fixed.items() if _covers(".".join(path), name)), None)
        if reason is not None and (".".join(path) not in self.ordered or (source, target) not in _SAME_ORDER):
            raise self._refused(what, f"it is {reason}")
        if not _widens(old, new):
            possible = ", ".join(_WIDER.get(source, ())) or "no other type"
            raise self._refused(what, f"{source} can become {possible}")
        return self._with(_edited(self.schema.record, path, lambda field: replace(field, type=new)))

    def _relaxed(self, change: SetNullable, field: InternalField) -> InternalField:
        if field.optional and not change.nullable:
            raise self._refused(
                f"make '{change.path}' not nullable", "rows may have nulls there; a column can only become nullable"
            )
        return replace(field, optional=change.nullable)

    def _moved(self, change: MoveColumn) -> Columns:
        what = f"move '{change.path}' {change.place} {change.other}".strip()
        path = self._path(change.path, what)
        parent = self._parent(path)
        if not isinstance(parent, InternalRecord):
            raise self._refused(what, "lists and maps have no order of members")
        if change.place not in ("first", "after", "before"):
            raise self._refused(what, "supported positions: 'first', or 'after' or 'before' another column")
        other = ""
        if change.place != "first":
            prefix = ".".join(path[:-1])
            other = self._path(f"{prefix}.{change.other}" if prefix else change.other, what)[-1]
            if other == path[-1]:
                raise self._refused(what, "it is the same column")

        def moved(fields: tuple[InternalField, ...]) -> tuple[InternalField, ...]:
            (field,) = (field for field in fields if field.name == path[-1])
            left = [other for other in fields if other is not field]
            if change.place == "first":
                index = sum(item.name in META_FIELDS for item in left)
            else:
                index = [item.name for item in left].index(other) + (change.place == "after")
            return (*left[:index], field, *left[index:])

        return self._with(_with_members(self.schema.record, path[:-1], moved))

    # -- checking and looking up columns

    @property
    def _named(self) -> str:
        return self.table if self.stored else ""

    def _with(self, record: InternalType) -> Columns:
        assert isinstance(record, InternalRecord)
        if record == self.schema.record:
            return self
        return replace(self, schema=InternalSchema(UNSAVED, record, last_id(self.schema)))

    def _parent(self, path: tuple[str, ...]) -> InternalType:
        return _at(self.schema.record, path[:-1])

    def _path(self, path: str, what: str) -> tuple[str, ...]:
        """Splits a path into parts, in the schema's spelling. `what` completes the error message."""
        kind: InternalType = self.schema.record
        result: list[str] = []
        for part in path.split("."):
            names = _names(kind)
            match = part if part in names else next((name for name in names if name.lower() == part.lower()), None)
            if not result and match in META_FIELDS:
                raise self._refused(what, "columns that Hudi adds cannot be changed")
            if match is None:
                inside = f"'{'.'.join(result)}'" if result else "it"
                own = [name for name in names if name not in META_FIELDS]
                there = ", ".join(own[:_SHOWN]) + (", ..." if len(own) > _SHOWN else "")
                raise self._refused(what, f"{inside} has no '{part}'; it has {there or 'no members'}")
            result.append(match)
            kind = _at(kind, (match,))
        return tuple(result)

    def _check_free(self, path: tuple[str, ...], verb: str) -> None:
        own = ".".join(path)
        for name, why in self.fixed.items():
            if _covers(own, name):
                raise self._refused(f"{verb} '{own}'", f"it is {why}" if own == name else f"'{name}' is {why}")

    def _check_new(self, parent: InternalRecord, name: str, what: str) -> None:
        if not is_avro_name(name):
            raise self._refused(what, "names consist of letters, _ and digits, and do not begin with a digit")
        same = next((field.name for field in parent.fields if field.name.lower() == name.lower()), None)
        if same is not None:
            case = "" if same == name else ", and upper and lower case do not differ in Spark"
            raise self._refused(what, f"there is '{same}' already{case}")
        if name.lower().startswith("_hoodie_"):
            raise self._refused(what, "names that begin with _hoodie_ are Hudi's own")

    def _avro(self, path: str, kind: pa.DataType, custom: str | None = None) -> object:
        if pa.types.is_null(kind):
            raise self._refused(f"give '{path}' the type {kind}", "a column needs a type with values")
        *above, name = path.split(".")
        made = pa.field(name, kind, metadata=declaration(custom))
        for item in reversed(above):  # a vector may not be in a struct
            made = pa.field(item, pa.struct([made]))
        record: Any = avro_schema(pa.schema([made]), "record", "")
        for _ in (*above, name):
            record = value_type(record["fields"][0]["type"])
        return record

    def _refused(self, what: str, why: str) -> SchemaMismatchError:
        return SchemaMismatchError(f"Cannot {what} in the table '{self.table}': {why}")


def _covers(path: str, name: str) -> bool:
    """Returns whether a column is `name`, or a struct that contains it."""
    return f"{name}.".startswith(f"{path}.")


def _own(kind: InternalType) -> list[str]:
    return [name for name in _names(kind) if name not in META_FIELDS]


def _names(kind: InternalType) -> list[str]:
    if isinstance(kind, InternalRecord):
        return [field.name for field in kind.fields]
    if isinstance(kind, InternalArray):
        return ["element"]
    return ["value"] if isinstance(kind, InternalMap) else []


def _at(kind: InternalType, path: tuple[str, ...]) -> InternalType:
    """Returns the type at an existing path."""
    for part in path:
        if isinstance(kind, InternalRecord):
            kind = next(field.type for field in kind.fields if field.name == part)
        elif isinstance(kind, InternalArray):
            kind = kind.element
        else:
            assert isinstance(kind, InternalMap)
            kind = kind.value
    return kind


def _edited(
    kind: InternalType, path: tuple[str, ...], change: Callable[[InternalField], InternalField | None]
) -> InternalType:
    """Returns the type with the column or member at a path replaced or removed."""
    head, rest = path[0], path[1:]

    def inside(field: InternalField) -> InternalField | None:
        return replace(field, type=_edited(field.type, rest, change)) if rest else change(field)

    if isinstance(kind, InternalRecord):
        fields = (inside(field) if field.name == head else field for field in kind.fields)
        return InternalRecord(tuple(field for field in fields if field is not None))
    if isinstance(kind, InternalArray):
        made = inside(InternalField(kind.element_id, head, kind.element, kind.element_optional))
        assert made is not None
        return replace(kind, element=made.type, element_optional=made.optional)
    assert isinstance(kind, InternalMap)
    made = inside(InternalField(kind.value_id, head, kind.value, kind.value_optional))
    assert made is not None
    return replace(kind, value=made.type, value_optional=made.optional)


def _with_members(
    kind: InternalRecord,
    path: tuple[str, ...],
    change: Callable[[tuple[InternalField, ...]], tuple[InternalField, ...]],
) -> InternalRecord:
    """Returns the record with other members in the struct at a path."""

    def changed(field: InternalField) -> InternalField:
        assert isinstance(field.type, InternalRecord)
        return replace(field, type=InternalRecord(change(field.type.fields)))

    if not path:
        return InternalRecord(change(kind.fields))
    edited = _edited(kind, path, changed)
    assert isinstance(edited, InternalRecord)
    return edited


# -- types


def _plain_decimals(kind: InternalType) -> InternalType:
    """Renames decimals as Apache Hudi's DDL does."""
    if isinstance(kind, InternalRecord):
        return InternalRecord(tuple(replace(field, type=_plain_decimals(field.type)) for field in kind.fields))
    if isinstance(kind, InternalArray):
        return replace(kind, element=_plain_decimals(kind.element))
    if isinstance(kind, InternalMap):
        return replace(kind, value=_plain_decimals(kind.value))
    decimal = DecimalName.of(kind)
    return kind if decimal is None else f"decimal({decimal.precision}, {decimal.scale})"


def _family(kind: str) -> str:
    return "decimal" if DecimalName.of(kind) is not None else kind


def _shown(kind: InternalType) -> str:
    if isinstance(kind, str):
        decimal = DecimalName.of(kind)
        if decimal is None:
            return "its Avro type" if is_opaque(kind) else kind
        return f"decimal({decimal.precision}, {decimal.scale})"
    return {InternalRecord: "a struct", InternalArray: "a list", InternalMap: "a map"}[type(kind)]


def _same_kind(one: InternalType, other: InternalType) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        if is_opaque(one) or is_opaque(other):
            return one == other
        return _shown(one) == _shown(other)
    return False


def _widens(old: str, new: InternalType) -> bool:
    if not isinstance(new, str):
        return False
    before, after = DecimalName.of(old), DecimalName.of(new)
    if before is not None and after is not None:
        wider = after.precision - after.scale >= before.precision - before.scale and after.scale > before.scale
        return wider or (after.scale == before.scale and after.precision >= before.precision)
    return _family(new) in _WIDER.get(_family(old), ())
