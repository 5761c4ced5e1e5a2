"""Determines the schema of the table after a write, from the table's own and that of the incoming rows.

The rules are those of Apache Hudi 1.2.0, checked on its writes. Columns are matched by name, and
new ones are added at the end. Incoming values are converted to the type of the table's column, or, if that is the
narrower one, the column is widened. A missing column is an error, or null if an option allows it.

Two things differ. Values are converted exactly or refused. And a column widens automatically among integers, among
floating point numbers and among decimals only; an option lets numbers become text, or integers floating point
(`hoodie.py.write.widen.columns`).

VECTOR, VARIANT and BLOB columns, and data for them, follow `HoodieSchema.Vector`, `Variant` and `Blob` (1.2.0).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import write as write_config
from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.arrays import is_number
from hudi_py.formats.avro import arrow_schema, avro_schema, record_name
from hudi_py.formats.hudi_types import (
    BLOB,
    BLOB_KINDS,
    ELEMENT_TYPES,
    Vector,
    declared,
    parse_type,
    shared_names,
    vector_numbers,
)
from hudi_py.schema import SchemaHistory, conform
from hudi_py.schema.conform import promotable, promote, readable
from hudi_py.schema.ids import UNSAVED, reconciled, with_ids
from hudi_py.schema.meta import compact_json
from hudi_py.timeline.table_schema import TableSchema
from hudi_py.transaction.column_ids import ColumnIds


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A column that a write added to its table, or whose type it changed."""

    column: str
    """Dotted path; `element` and `value` are the members of lists and maps."""
    before: str | None
    """The previous type; None for a new column."""
    after: str
    """The new type; or another change by `Table.alter`, such as `dropped` or `renamed to fare`."""

    def __str__(self) -> str:
        return f"{self.column}: {self.before or 'new'} -> {self.after}"


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The schema in which rows are written. Pickles."""

    avro_json: str
    """Avro record without meta columns, for the commit."""
    arrow: pa.Schema
    """The same as Arrow, without meta columns."""
    changes: tuple[SchemaChange, ...] = ()
    """Differences from the previous schema; none for a new table."""
    ids: ColumnIds | None = None
    """The ids of the columns, if the table's schema evolves on read."""
    history: SchemaHistory | None = None
    """Maps columns of the table's files to these; None: by name."""

    @property
    def avro(self) -> dict[str, Any]:
        """The parsed record."""
        result: dict[str, Any] = json.loads(self.avro_json)
        return result

    def conform_some(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Returns only the named columns of an incoming batch, in the types of this schema; columns that the batch
        lacks are left out.

        Raises:
            SchemaMismatchError: a value does not fit.
        """
        wanted = set(names) & set(batch.schema.names)
        fields = [field for field in self.arrow if field.name in wanted]
        return conform(batch.select([field.name for field in fields]), pa.schema(fields), convert=cast_exactly)

    def conform(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Converts an incoming batch to this schema, or to the types of some of its columns.

        Raises:
            SchemaMismatchError: a value does not fit, or is null in a column that may not be null, or a vector has
                another length than its column.
        """
        target = self.arrow if names is None else pa.schema([self.arrow.field(name) for name in names])
        result = conform(batch, target, convert=cast_exactly)
        for field, column in zip(target, result.columns, strict=True):
            if not field.nullable and column.null_count:
                raise SchemaMismatchError(
                    f"Column '{field.name}' of the data has {column.null_count} nulls in {batch.num_rows} rows, but "
                    "the table's column may not be null; fill the column or leave the rows out"
                )
        check_values(result)
        return result


@dataclass(frozen=True, slots=True)
class EvolutionRules:
    """How a write may change the schema of its table."""

    fixed: tuple[str, ...] = ()
    """Dotted names of record key and partition fields, which are always needed, and keep their type: their text would
    change."""
    numeric_only: tuple[str, ...] = ()
    """Columns that may be widened among numbers only: ordering fields."""
    set_null: bool = False
    """Whether other columns and members of structs that the data lacks become null; otherwise they are required."""
    partial: bool = False
    """Whether the data may lack whole columns, except `fixed` ones and those that may not be null."""
    widen: bool = False
    """Whether columns may get any wider type that Apache Hudi gives them (`hoodie.py.write.widen.columns`)."""


def write_schema(
    table_avro: Mapping[str, Any] | None,
    incoming: pa.Schema,
    table_name: str,
    rules: EvolutionRules | None = None,
) -> WriteSchema:
    """Returns the schema with which to write `incoming`.

    Args:
        table_avro: the table's Avro record without meta columns; None for a table without any.
        incoming: normalised schema of the data (`read_input`).
        table_name: names the record of a new table's schema.
        rules: how the schema may change; by default the data has all columns, and none is widened.

    Raises:
        SchemaMismatchError: names the column, both types and what to do.
    """
    if table_avro is None:
        _check_no_nulls(incoming)
        avro = avro_schema(incoming, *record_name(table_name))
        return WriteSchema(compact_json(avro), arrow_schema(avro))
    table = arrow_schema(dict(table_avro))
    merge = _Merge(rules or EvolutionRules(), [])
    merged = merge.fields(list(table), list(incoming), "")
    if not merge.changes:
        return WriteSchema(compact_json(table_avro), table)
    name, namespace = str(table_avro["name"]), str(table_avro.get("namespace", ""))
    whole = avro_schema(pa.schema(merged), name, namespace)
    fields = list(table_avro["fields"])  # unchanged columns keep their JSON
    for position, (field, made) in enumerate(zip(merged, whole["fields"], strict=True)):
        if position >= len(fields):
            fields.append(made)
        elif not field.type.equals(table.field(position).type):
            fields[position] = {**fields[position], "type": made["type"]}
    avro = shared_names({**table_avro, "fields": fields})
    return WriteSchema(compact_json(avro), arrow_schema(avro), tuple(merge.changes))


def check_spelling(table: Sequence[pa.Field], incoming: Sequence[pa.Field], path: str = "") -> None:
    """Refuses a new column whose name is much like that of a missing one: a typo would stay in the table.

    Args:
        table: the table's columns before the write, or members of a struct at `path`.

    Raises:
        SchemaMismatchError: names both columns.
    """
    own, given = {field.name: field for field in table}, {field.name: field for field in incoming}
    new = [field for name, field in given.items() if name not in own]
    for name, field in own.items():
        near = None if name in given else _nearest_name(field, new)
        if near is not None:
            raise SchemaMismatchError(
                f"Column '{path}{near}' of the data is not in the table, whose column '{path}{name}' the data lacks: "
                "rename it; if it is meant as a new column, add it first (Table.alter, ALTER TABLE), or write with "
                f"{write_config.RECONCILE_SCHEMA.key}=true"
            )
        if name in given and pa.types.is_struct(field.type) and pa.types.is_struct(given[name].type):
            check_spelling(list(field.type), list(given[name].type), f"{path}{name}.")


def with_column_ids(schema: WriteSchema, stored: TableSchema | None, table: str, *, begins: bool) -> WriteSchema:
    """Returns the schema of a write with the ids of its columns, in a table whose schema evolves on read.

    Args:
        stored: the table's schema so far.
        table: its name.
        begins: whether a table whose schema does not evolve on read yet begins to with this write.

    Raises:
        UnsupportedTableError: a column has a type that cannot have an id.
    """
    history = None if stored is None else stored.history
    if history is not None and history.query is not None:
        made = reconciled(history.query, schema.avro, table)
        return replace(schema, ids=ColumnIds(made), history=replace(history, query=made))
    if begins:
        return replace(schema, ids=ColumnIds(replace(with_ids(schema.avro, table), version_id=UNSAVED)))
    return schema


def existing_schema(table_avro: Mapping[str, Any]) -> WriteSchema:
    """Returns the table's schema as it is, for a write that adds no rows."""
    return WriteSchema(compact_json(table_avro), arrow_schema(dict(table_avro)))


@dataclass(frozen=True, slots=True)
class _Merge:
    """Merges the columns of a table with those of the data."""

    rules: EvolutionRules
    changes: list[SchemaChange]

    def fields(self, table: list[pa.Field], incoming: list[pa.Field], path: str) -> list[pa.Field]:
        """Returns the table's columns, or members of a struct at `path`, then new ones."""
        by_name = {field.name: field for field in incoming}
        new = [field for field in incoming if all(field.name != own.name for own in table)]
        result = []
        for field in table:
            counterpart = by_name.get(field.name)
            where = f"{path}{field.name}"
            if counterpart is not None and (declared(field) or declared(counterpart)):
                check_type(field, counterpart, where)
                result.append(field)
            elif counterpart is not None:
                result.append(field.with_type(self._merge_type(field.type, counterpart.type, where)))
            elif self._may_lack(field, path, where):
                result.append(field)
            else:
                raise SchemaMismatchError(
                    f"Column '{where}' of the table is missing in the data; {self._advice_for(field, where, path, new)}"
                )
        for field in new:
            _check_no_nulls([field], path)
            self.changes.append(SchemaChange(f"{path}{field.name}", None, declared(field) or str(field.type)))
            result.append(field.with_nullable(True))  # existing rows have no value
        return result

    def _may_lack(self, field: pa.Field, path: str, where: str) -> bool:
        """Returns whether the data may lack a column, or a member of a struct, of the table."""
        lacks = self.rules.set_null or (self.rules.partial and not path)
        return lacks and field.nullable and not self._is_fixed(where)

    def _is_fixed(self, column: str) -> bool:
        return any(f"{name}.".startswith(f"{column}.") for name in self.rules.fixed)

    def _advice_for(self, field: pa.Field, where: str, path: str, new: Sequence[pa.Field]) -> str:
        close = _nearest_name(field, new)
        if close is not None:
            return f"the data has '{path}{close}': rename it"
        unknown = ", ".join(f"'{path}{other.name}'" for other in new[:5])
        hint = f"the data has {unknown}, which the table lacks: rename it if it is meant; " if new else ""
        if self._is_fixed(where):
            return f"{hint}rows need it for their record key or partition: add it to the data"
        if not field.nullable:
            return f"{hint}it may not be null: add it to the data"
        return (
            f"{hint}add it to the data, with nulls where there is no value; "
            f"{write_config.SET_NULL_FOR_MISSING_COLUMNS.key}=true does so, key and partition columns apart"
        )

    def _merge_type(self, table: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        if incoming.equals(table) or pa.types.is_null(incoming):
            return table
        if pa.types.is_struct(table) and pa.types.is_struct(incoming):
            return pa.struct(self.fields(list(table), list(incoming), f"{path}."))
        if pa.types.is_list(table) and pa.types.is_list(incoming):
            item = table.value_field
            return pa.list_(item.with_type(self._merge_type(item.type, incoming.value_type, f"{path}.element")))
        if pa.types.is_map(table) and pa.types.is_map(incoming):
            item = table.item_field
            return pa.map_(
                table.key_type, item.with_type(self._merge_type(item.type, incoming.item_type, f"{path}.value"))
            )
        return self._merge_scalar(table, incoming, path)

    def _merge_scalar(self, table: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        if takes(table, incoming):
            return table
        # dates and decimals do not become text: Apache Hudi 1.2.0 cannot merge into files with the old type
        widens = takes(incoming, table) and (pa.types.is_decimal(incoming) or not _is_day_or_decimal(table))
        role = (
            "key or partition"
            if self._is_fixed(path)
            else "ordering"
            if path in self.rules.numeric_only and not (is_number(table) and is_number(incoming))
            else None
        )
        if widens and role is None and (self.rules.widen or holds_exactly(incoming, table)):
            self.changes.append(SchemaChange(path, str(table), str(incoming)))
            return incoming
        if may_hold(table, incoming):
            return table
        said = f"Column '{path}' is {table} in the table and {incoming} in the data"
        if widens and role is not None:
            raise SchemaMismatchError(f"{said}; the type of a {role} column cannot change: cast the data")
        if widens:
            raise SchemaMismatchError(
                f"{said}; cast the data, or make the table's column {incoming} for good with "
                f"{write_config.WIDEN_COLUMNS.key}=true"
            )
        raise SchemaMismatchError(f"{said}, and neither can be converted to the other; cast the data to {table}")


def _nearest_name(field: pa.Field, others: Sequence[pa.Field]) -> str | None:
    """Finds the name that differs from a column's only by a typo or in case."""
    by_name = {other.name.lower(): other.name for other in others}
    near = difflib.get_close_matches(field.name.lower(), by_name, 1, cutoff=0.75)
    return by_name[near[0]] if near else None


def _is_day_or_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_decimal(kind))


def _check_no_nulls(fields: Sequence[pa.Field] | pa.Schema, path: str = "") -> None:
    for field in fields:
        if _holds_null(field.type):
            raise SchemaMismatchError(
                f"Column '{path}{field.name}' of the data has type {field.type}, all null, and the table has no such "
                "column to take a type from; cast it to the type that it should have"
            )


def _holds_null(kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    return any(_holds_null(kind.field(index).type) for index in range(kind.num_fields))


def check_type(table: pa.Field, incoming: pa.Field, path: str) -> None:
    """Refuses data that a VECTOR, VARIANT or BLOB column cannot take, and such data for other columns: their types
    never change. For structs and lists without a declared type, the values count."""
    own, given = declared(table), declared(incoming)
    kind = None if own is None else parse_type(own, path)
    if given is not None and (kind is None or parse_type(given, path) != kind):
        raise SchemaMismatchError(
            f"Column '{path}' is {own or table.type} in the table and {given} in the data; the type cannot change: "
            f"write it as {own or table.type}, or under another name"
        )
    if pa.types.is_null(incoming.type):
        return
    if isinstance(kind, Vector):
        element = ELEMENT_TYPES[kind.element]
        item = incoming.type.value_type if pa.types.is_list(incoming.type) else None
        if item is None or not (pa.types.is_null(item) or takes(element, item) or may_hold(element, item)):
            raise SchemaMismatchError(
                f"Column '{path}' is {own} in the table and {incoming.type} in the data; cast the data to "
                f"list<{element}>"
            )
    elif not _same_members(table.type, incoming.type):
        raise SchemaMismatchError(
            f"Column '{path}' is {own} in the table and {incoming.type} in the data; cast the data to {table.type}"
        )


def _same_members(table: pa.DataType, incoming: pa.DataType) -> bool:
    """Returns whether types are equal except for nullability and the order of members."""
    if pa.types.is_null(incoming):
        return True
    if not pa.types.is_struct(table) or not pa.types.is_struct(incoming):
        return bool(table.equals(incoming))
    given = {member.name: member.type for member in incoming}
    return given.keys() == {member.name for member in table} and all(
        _same_members(member.type, given[member.name]) for member in table
    )


def check_values(batch: pa.RecordBatch) -> None:
    """Refuses values that a column cannot hold although they have the type of the table.

    Args:
        batch: rows in the table's types, with their `hudi_type`.

    Raises:
        SchemaMismatchError: a vector has another length than its column, or a null in it, or a blob has no known type.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        _check_values(field, column, field.name)


def _check_values(field: pa.Field, array: pa.Array, path: str) -> None:
    kind, text = field.type, declared(field)
    custom = None if text is None else parse_type(text, path)
    if isinstance(custom, Vector):
        vector_numbers(array, ELEMENT_TYPES[custom.element], custom.dimension, path)
    elif custom == BLOB:
        types = array.filter(array.is_valid()).field("type")
        unknown = pc.invert(pc.is_in(types, pa.array(BLOB_KINDS))).to_numpy(zero_copy_only=False)
        if unknown.any():
            first = types[int(np.flatnonzero(unknown)[0])].as_py()
            raise SchemaMismatchError(
                f"Column '{path}' is a BLOB, and {int(unknown.sum())} of its values have the type {first!r} or another "
                f"unknown one; supported: {' and '.join(BLOB_KINDS)}"
            )
    elif pa.types.is_struct(kind) and _has_blobs(kind):
        rows = array.filter(array.is_valid())
        for index, member in enumerate(kind):
            _check_values(member, rows.field(index), f"{path}.{member.name}")
    elif pa.types.is_list(kind) and _has_blobs(kind):
        _check_values(kind.value_field, array.flatten(), f"{path}.element")
    elif pa.types.is_map(kind) and _has_blobs(kind):
        entries = array.filter(array.is_valid())
        first, last = (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)
        _check_values(kind.item_field, entries.items.slice(first, last - first), f"{path}.value")


def _has_blobs(kind: pa.DataType) -> bool:
    """Returns whether a type contains a blob."""
    members = [kind.field(index) for index in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(declared(member) == BLOB or _has_blobs(member.type) for member in members)


_DIGITS: Final = {32: 6, 64: 15}
"""Decimal digits that floating-point numbers with this many bits keep."""


def holds_exactly(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether `target` is the wider of two types of one kind: integers, floating point numbers or decimals."""
    types = pa.types
    if types.is_decimal(target) and types.is_decimal(source):
        digits = target.precision - target.scale
        return bool(target.scale >= source.scale and digits >= source.precision - source.scale)
    same = (types.is_integer(target) and types.is_integer(source)) or (
        types.is_floating(target) and types.is_floating(source)
    )
    return bool(same and target.bit_width >= source.bit_width)


def takes(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether a column of type `target` takes every value of type `source`."""
    if pa.types.is_integer(target) and pa.types.is_integer(source):
        return bool(source.bit_width <= target.bit_width)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
        return (target.tz is None) == (source.tz is None)  # an instant is not a wall-clock time
    return promotable(source, target)


def may_hold(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether `cast_exactly` tries to convert values of a type whose values may not all fit `target`."""
    types = pa.types
    if types.is_integer(target):
        return bool(types.is_integer(source) or types.is_floating(source) or types.is_decimal(source))
    if types.is_floating(target):
        # DuckDB's constants such as 2.5: a number with this many digits has one nearest float, which prints the same
        return bool(types.is_decimal(source) and source.precision <= _DIGITS.get(target.bit_width, 0))
    return bool(types.is_decimal(target) and (types.is_integer(source) or types.is_decimal(source)))


def cast_exactly(array: pa.Array, target: pa.DataType, path: str, _: str = "") -> pa.Array:
    """Converts values to `target` without loss. Numbers become text as Java prints them.

    Args:
        path: names the column, in errors.

    Raises:
        SchemaMismatchError: the type cannot be converted, or a value cannot be held.
    """
    source = array.type
    try:
        if may_hold(target, source):
            if pa.types.is_integer(source) and pa.types.is_decimal(target):
                array = array.cast(pa.decimal256(76, target.scale))  # Arrow requires room for all possible integers
            return array.cast(target)
        if pa.types.is_integer(source) and pa.types.is_floating(target):
            return array.cast(target)
    except pa.ArrowInvalid as error:
        wider = f", or make the table's column {source} for good with {write_config.WIDEN_COLUMNS.key}=true"
        raise SchemaMismatchError(
            f"Column '{path}' is {target} in the table and {source} in the data, which has a value that {target} "
            f"cannot hold exactly ({error}); cast the data{wider if promotable(target, source) else ''}"
        ) from error
    if not readable(source, target):
        raise SchemaMismatchError(f"Column '{path}' is {source} in the data, which cannot be written as {target}")
    return promote(array, target, path, "")
