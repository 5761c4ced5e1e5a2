"""A merge as given by the caller, and bound to the columns of table and source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.assigned import Expression, parse_condition, parse_expression
from hudi_py.expressions.calls import Cast
from hudi_py.expressions.grammar import syntax_tree
from hudi_py.expressions.predicate import Column, kind_of
from hudi_py.formats.arrays import empty_batch, is_same_kind, true_where
from hudi_py.model.properties import TableConfig
from hudi_py.schema import PARTITION_PATH, RECORD_KEY
from hudi_py.schema.paths import backticked, column_of, type_at
from hudi_py.write.dml.assignments import Assignment, column_named, parse_assignments
from hudi_py.write.dml.matching import Matching, has_text
from hudi_py.write.settings import WriteSettings

When = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "insert", "delete"]


@dataclass(frozen=True, slots=True)
class Clause:
    """A `WHEN` clause, as given."""

    when: When
    action: Action
    condition: str | None = None
    values: Mapping[str, object] | None = None
    """Values by column; None with `update` and `insert` means all columns, taken from the columns of the source with
    the same name."""

    def __str__(self) -> str:
        return f"WHEN {self.when.upper()} THEN {self.action.upper()}"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge without its source."""

    on: tuple[str, ...]
    """One condition, or columns that table and source share."""
    clauses: tuple[Clause, ...]
    source_alias: str = "s"
    target_alias: str = "t"


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause over rows in which table and source are structs."""

    action: Action
    condition: Expression | None
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class BoundMerge:
    """A merge over the columns of table and source."""

    plan: MergePlan
    matching: Matching
    partitions: tuple[Assignment, ...]
    """The table's partition columns, if ON compares all of them; else empty."""
    rest: Expression | None
    """The conditions of ON besides those in `matching`."""
    completed: tuple[str, ...] = ()
    """Record key columns that ON does not compare; the source's columns of the same names are used."""
    matched: tuple[BoundClause, ...] = ()
    not_matched: tuple[BoundClause, ...] = ()
    by_source: tuple[BoundClause, ...] = ()
    target_columns: tuple[str, ...] = field(default=())
    """Columns of the table that are read."""
    updated_columns: tuple[str, ...] | None = None
    """Columns of the table that updates set, in the table's order, with the ordering fields; None: all."""
    ordering: tuple[Assignment, ...] = ()
    """The table's ordering fields, if the source has values for all of them; else empty."""
    own_partitions: tuple[Assignment, ...] = ()
    """The table's partition columns, if the source has all of them; else empty."""


def bind_merge(
    plan: MergePlan, source: pa.Schema, config: TableConfig, settings: WriteSettings, *, partial: bool = False
) -> BoundMerge:
    """Binds a merge to its table and source.

    Args:
        partial: whether updates may set some columns only.

    Raises:
        ConfigError, SchemaMismatchError: the merge is not valid, or does not fit table or source.
    """
    _check_plan(plan, config.name)
    table = settings.schema.arrow
    ordering = settings.merge.ordering_fields if settings.merge.by_event_time else ()
    target = pa.field(plan.target_alias, pa.struct(list(table)))
    given = pa.field(plan.source_alias, pa.struct(list(source)))
    inputs = {"matched": (target, given), "not matched": (given,), "not matched by source": (target,)}
    bound: dict[str, tuple[BoundClause, ...]] = {
        when: tuple(
            _bind_clause(plan, clause, pa.schema(fields), source, settings, ordering)
            for clause in plan.clauses
            if clause.when == when
        )
        for when, fields in inputs.items()
    }
    made = _bind_on(plan, pa.schema([target, given]), settings, config.name)
    if bound["not matched"] and made.matching.by == "record key" and not settings.keygen.generates_keys:
        raise ConfigError(
            f"Cannot merge into the table '{config.name}' with INSERT on the record key: whether the table has the key "
            f"of a new row is not known; compare the key columns {', '.join(settings.keygen.key_fields)} in ON"
        )
    made = replace(
        made,
        matched=bound["matched"],
        not_matched=bound["not matched"],
        by_source=bound["not matched by source"],
        updated_columns=_updated_columns(bound, table, ordering) if partial else None,
    )
    setting = [assignment for clause in (*made.matched, *made.not_matched) for assignment in clause.assignments]
    return replace(
        made,
        target_columns=_target_columns(made, table, ordering if config.is_mor else ()),
        ordering=_of_source(plan, config.ordering_fields, table, source, setting),
        own_partitions=_of_source(plan, settings.keygen.partition_fields, table, source, ()),
    )


def _check_plan(plan: MergePlan, name: str) -> None:
    if not plan.clauses:
        raise ConfigError(
            f"Cannot merge into the table '{name}' without a clause; add one, as when_matched_update_all()"
        )
    if plan.source_alias.lower() == plan.target_alias.lower():
        raise ConfigError(f"Cannot merge: source_alias and target_alias are both {plan.source_alias!r}; change one")
    final: set[str] = set()
    for clause in plan.clauses:
        if clause.when in final:
            raise ConfigError(f"Clause {clause} never applies: an earlier one has no condition; put it last")
        if clause.condition is None:
            final.add(clause.when)


def _target_columns(bound: BoundMerge, table: pa.Schema, ordering: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of the table that a merge reads. `ordering`: the fields whose values decide over deletes."""
    changing = (*bound.matched, *bound.by_source)
    expressions = [*bound.matching.target, bound.rest, *(clause.condition for clause in changing)]
    expressions += [assignment.expression for clause in changing for assignment in clause.assignments]
    needed = {
        path[1]
        for expression in expressions
        if expression is not None
        for path in expression.columns()
        if path[0] == bound.plan.target_alias
    }
    if any(clause.action == "update" for clause in changing):
        needed |= set(table.names if bound.updated_columns is None else bound.updated_columns)
    if any(clause.action == "delete" for clause in bound.matched):
        needed |= {column_of(column, table) for column in ordering}
    return tuple(column for column in table.names if column in needed)


def _of_source(
    plan: MergePlan, names: Sequence[str], table: pa.Schema, source: pa.Schema, setting: Sequence[Assignment]
) -> tuple[Assignment, ...]:
    """Returns fields of the table as computed from rows of the source; empty if one is missing.

    The value is the column of the same name, or else the expression to which a clause sets the field, if it uses only
    the source (`MergeIntoHoodieTableCommand.resolveFieldAssociationsBetweenSourceAndTarget`, 1.2.0).
    """
    inputs = pa.schema([pa.field(plan.source_alias, pa.struct(list(source)))])
    values = []
    for name in names:
        kind, own = type_at(table, name), _column_of_source(plan, name, source)
        candidates = [] if own is None else [parse_expression(own, inputs, aliases=(plan.source_alias,))]
        candidates += [
            assignment.expression
            for assignment in setting
            if assignment.field.name == name
            and {path[0] for path in assignment.expression.columns()} == {plan.source_alias}
        ]
        for expression in candidates:
            with suppress(ConfigError, SchemaMismatchError):  # its type differs from that of the field
                given = Assignment(pa.field(name, kind), expression)
                given.evaluate(empty_batch(inputs))
                values.append(given)
                break
        else:
            return ()
    return tuple(values)


def _column_of_source(plan: MergePlan, name: str, source: pa.Schema) -> str | None:
    """Finds the column of the source, or a field of a struct, that corresponds to a column of the table by name; None
    if there is none."""
    for column in source.names:
        for own, rest in ((name, ""), (name.partition(".")[0], name.partition(".")[2])):
            whole = f"{column}.{rest}" if rest else column
            if column.lower() == own.lower() and type_at(source, whole) is not None:
                return ".".join(
                    map(backticked, (plan.source_alias, *([column, *rest.split(".")] if rest else [column])))
                )
    return None


def _updated_columns(
    bound: Mapping[str, Sequence[BoundClause]], table: pa.Schema, ordering: Sequence[str]
) -> tuple[str, ...] | None:
    """Returns the columns that updates set, with the ordering fields; None: all columns, or no update."""
    changing = (*bound["matched"], *bound["not matched by source"])
    updates = [clause for clause in changing if clause.action == "update"]
    wanted = {assignment.field.name for clause in updates for assignment in clause.assignments}
    wanted |= {part for name in ordering for part in (name, name.partition(".")[0])}
    updated = tuple(name for name in table.names if name in wanted)
    return updated if updates and len(updated) < len(table) else None


def _bind_clause(
    plan: MergePlan,
    clause: Clause,
    inputs: pa.Schema,
    source: pa.Schema,
    settings: WriteSettings,
    ordering: Sequence[str],
) -> BoundClause:
    aliases, table = tuple(inputs.names), settings.schema.arrow
    condition = None if clause.condition is None else parse_condition(clause.condition, inputs, aliases=aliases)
    if clause.action == "delete":
        return BoundClause("delete", condition, ())
    values = clause.values
    if values is None:
        values = _all_columns(plan, clause, table, source)
    assignments = parse_assignments(values, table, inputs, aliases=aliases, alias=plan.target_alias)
    if clause.action == "insert":
        given = {assignment.field.name for assignment in assignments}
        keygen = settings.keygen
        for needed, role in (
            *((name, "record key field") for name in keygen.key_fields),
            *((column, "ordering field") for column in ordering),
        ):
            if column_of(needed, table) not in given:
                raise SchemaMismatchError(
                    f"No matching assignment found for target table {role} '{needed}' in the clause {clause}; add it"
                )
    return BoundClause(clause.action, condition, assignments)


def _all_columns(plan: MergePlan, clause: Clause, table: pa.Schema, source: pa.Schema) -> dict[str, object]:
    names = {name.lower(): name for name in source.names}
    missing = [name for name in table.names if name.lower() not in names]
    if missing:
        raise SchemaMismatchError(
            f"Clause {clause} of all columns needs the column '{missing[0]}', which the source lacks; it has "
            f"{', '.join(source.names)}: name the columns to set"
        )
    return {name: f"{backticked(plan.source_alias)}.{backticked(names[name.lower()])}" for name in table.names}


def _bind_on(plan: MergePlan, inputs: pa.Schema, settings: WriteSettings, name: str) -> BoundMerge:
    table, keygen = settings.schema.arrow, settings.keygen
    condition = _join_conditions(plan, inputs)
    equal: dict[str, Assignment] = {}
    pairs: list[tuple[Expression, Assignment]] = []
    trees: list[tuple[Any, Assignment | None]] = []
    compared = (*keygen.key_fields, *keygen.partition_fields)
    for tree in _split_conjuncts(syntax_tree(condition, "Expression")):
        meta = _equal_meta(plan, tree, inputs)
        if meta is not None:
            equal[meta.field.name] = meta
            continue
        equality = _bind_equality(plan, tree, inputs, table, compared)
        if equality is not None:
            equal.setdefault(equality.field.name, equality)
        pair = _bind_pair(plan, tree, inputs) if keygen.generates_keys else None
        if pair is not None:
            pairs.append(pair)
        else:
            trees.append((tree, equality))
    equalities = all(_is_equality(plan, tree, inputs) for tree, _ in trees)
    completed = _complete_keys(plan, settings, equal, inputs) if equalities else ()
    matching = _bind_matching(plan, settings, equal, pairs, name)
    used = matching.source if matching.by == "key columns" else ()
    rest = [
        f"({tree.sql(dialect='spark')})" for tree, equality in trees if all(equality is not other for other in used)
    ]
    all_partitions = bool(keygen.partition_fields) and all(column in equal for column in keygen.partition_fields)
    return BoundMerge(
        plan,
        matching,
        tuple(equal[column] for column in keygen.partition_fields) if all_partitions else (),
        parse_condition(" AND ".join(rest), inputs, aliases=tuple(inputs.names)) if rest else None,
        completed,
    )


def _is_equality(plan: MergePlan, tree: Any, inputs: pa.Schema) -> bool:
    """Returns whether a condition says that a column of the table is equal to an expression of the source."""
    return any(isinstance(_without_casts(*sides)[0].node, Column) for sides in _bind_sides(plan, tree, inputs))


def _complete_keys(
    plan: MergePlan, settings: WriteSettings, equal: dict[str, Assignment], inputs: pa.Schema
) -> tuple[str, ...]:
    """Adds record key columns that ON, if it consists of equalities only, leaves out, as the source has them: Apache
    Hudi merges by whole record keys (`MergeIntoHoodieTableCommand`, 1.2.0). Returns their names."""
    keygen, table = settings.keygen, settings.schema.arrow
    missing = [name for name in keygen.key_fields if name not in equal]
    if keygen.generates_keys or RECORD_KEY in equal or not missing:
        return ()
    completed = _of_source(plan, missing, table, pa.schema(list(inputs.field(1).type)), ())
    if not all(is_same_kind(equality.field.type, equality.expression.kind) for equality in completed):
        return ()
    equal.update({equality.field.name: equality for equality in completed})
    return tuple(equality.field.name for equality in completed)


def _bind_matching(
    plan: MergePlan,
    settings: WriteSettings,
    equal: Mapping[str, Assignment],
    pairs: Sequence[tuple[Expression, Assignment]],
    name: str,
) -> Matching:
    """Determines how ON finds rows, from the equalities in it: columns, and expressions of tables with generated
    keys."""
    keygen = settings.keygen
    if not settings.stored.has_meta and not {RECORD_KEY, PARTITION_PATH}.isdisjoint(equal):
        raise ConfigError(
            f"Cannot merge into the table '{name}' on {_condition_text(plan)!r}: it has no meta columns "
            f"(hoodie.populate.meta.fields=false); compare the record key columns {', '.join(keygen.key_fields)}"
        )
    if RECORD_KEY in equal:
        return Matching(
            "record key", tuple(equal[column] for column in (PARTITION_PATH, RECORD_KEY) if column in equal)
        )
    if PARTITION_PATH in equal:
        raise ConfigError(
            f"Cannot merge into the table '{name}' on {PARTITION_PATH} without {RECORD_KEY}; compare the partition "
            "columns"
        )
    if keygen.generates_keys:
        return Matching("values", tuple(side for _, side in pairs), tuple(side for side, _ in pairs))
    for key in keygen.key_fields:
        if key not in equal:
            raise ConfigError(
                f"Cannot merge into the table '{name}' on {_condition_text(plan)!r}: Hudi tables are required to match "
                f"on all record key columns, and column '{key}' is not compared with an expression of the source; add "
                f"{plan.target_alias}.{key} = {plan.source_alias}.{key}"
            )
    return Matching("key columns", tuple(equal[column] for column in keygen.key_fields))


def _join_conditions(plan: MergePlan, inputs: pa.Schema) -> str:
    """Returns ON as one condition."""
    fields = inputs.field(0).type
    names = {member.name.lower(): member.name for member in fields}
    if len(plan.on) == 1 and plan.on[0].lower() not in names:
        return plan.on[0]
    for name in plan.on:
        column_named(name, pa.schema(list(fields)), None)
    target, source = backticked(plan.target_alias), backticked(plan.source_alias)
    return " AND ".join(f"{target}.{backticked(name)} = {source}.{backticked(name)}" for name in plan.on)


def _condition_text(plan: MergePlan) -> str:
    return ", ".join(plan.on)


def _split_conjuncts(tree: Any) -> list[Any]:
    kind = type(tree).__name__
    if kind == "Paren" and type(tree.this).__name__ in ("And", "Paren"):
        return _split_conjuncts(tree.this)
    return _split_conjuncts(tree.this) + _split_conjuncts(tree.expression) if kind == "And" else [tree]


def _bind_equality(
    plan: MergePlan, tree: Any, inputs: pa.Schema, table: pa.Schema, compared: Sequence[str]
) -> Assignment | None:
    """Returns the expression of the source that is equal to one of the columns `compared`, or to fields of structs, as
    an assignment; None if the condition is something else.

    Raises:
        ConfigError: their types differ.
    """
    paths = {(name,) if name in table.names else tuple(name.split(".")): name for name in compared}
    for sides in _bind_sides(plan, tree, inputs):
        column, value = _without_casts(*sides)
        node = column.node
        if not isinstance(node, Column) or node.path[1:] not in paths:
            continue
        if not is_same_kind(column.kind, value.kind):
            raise ConfigError(
                f"Invalid MERGE INTO matching condition {tree.sql(dialect='spark')!r}: it compares {column.kind} with "
                f"{value.kind}; cast the column of the source"
            )
        assignment = Assignment(pa.field(paths[node.path[1:]], column.kind), value)
        assignment.evaluate(empty_batch(inputs))
        return assignment
    return None


def _without_casts(column: Expression, value: Expression) -> tuple[Expression, Expression]:
    """Strips casts that keep equal values equal and others different from both sides of an equality, as in `CAST(t.id
    AS STRING) = CAST(s.id AS STRING)` (`MergeIntoHoodieTableCommand.doCasting`, 1.2.0)."""
    own = column.node
    if not isinstance(own, Cast) or not _is_distinct(kind_of(own.operand), own.kind):
        return column, value
    bare = replace(column, node=own.operand)
    given = value.node
    if is_same_kind(bare.kind, value.kind):
        return bare, value
    if isinstance(given, Cast) and given.kind.equals(own.kind) and _is_distinct(kind_of(given.operand), given.kind):
        inner = replace(value, node=given.operand)
        if is_same_kind(bare.kind, inner.kind):
            return bare, inner
    return column, value


def _is_distinct(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a cast maps different values to different values."""
    types = pa.types
    if types.is_integer(source):
        if types.is_integer(target):
            return bool(target.bit_width >= source.bit_width)
        return bool(types.is_string(target) or (types.is_float64(target) and source.bit_width <= 32))
    of_text = types.is_string(target) and (types.is_date32(source) or types.is_boolean(source))
    return bool(source.equals(target) or of_text)


def _equal_meta(plan: MergePlan, tree: Any, inputs: pa.Schema) -> Assignment | None:
    """Returns the expression of the source that is equal to the table's `_hoodie_record_key` or
    `_hoodie_partition_path`."""
    if type(tree).__name__ != "EQ" or not any(
        meta_column in tree.sql() for meta_column in (RECORD_KEY, PARTITION_PATH)
    ):
        return None
    own = [*inputs.field(0).type, *(pa.field(meta_column, pa.string()) for meta_column in (RECORD_KEY, PARTITION_PATH))]
    for column, value in _bind_sides(
        plan, tree, pa.schema([pa.field(inputs.field(0).name, pa.struct(own)), inputs.field(1)])
    ):
        node = column.node
        if isinstance(node, Column) and node.path[-1] in (RECORD_KEY, PARTITION_PATH):
            if not pa.types.is_string(value.kind):
                raise ConfigError(
                    f"Invalid MERGE INTO matching condition {tree.sql(dialect='spark')!r}: it compares string with "
                    f"{value.kind}; cast the column of the source"
                )
            return Assignment(pa.field(node.path[-1], pa.string()), value)
    return None


def _bind_pair(plan: MergePlan, tree: Any, inputs: pa.Schema) -> tuple[Expression, Assignment] | None:
    """Returns expressions of table and source that are equal, if equal values have the same text."""
    for ours, theirs in _bind_sides(plan, tree, inputs):
        if has_text(ours.kind, theirs.kind):
            return ours, Assignment(pa.field("value", theirs.kind), theirs)
        return None
    return None


def _bind_sides(plan: MergePlan, tree: Any, inputs: pa.Schema) -> Iterator[tuple[Expression, Expression]]:
    """Yields both sides of an equality, the table's first; nothing unless one belongs to the table and the other to the
    source."""
    if type(tree).__name__ != "EQ":
        return
    sides = [
        parse_expression(side.sql(dialect="spark"), inputs, aliases=tuple(inputs.names))
        for side in tree.iter_expressions()
    ]
    for ours, theirs in (sides, sides[::-1]):
        of_ours, of_theirs = ({path[0] for path in side.columns()} for side in (ours, theirs))
        if of_ours == {plan.target_alias} and of_theirs == {plan.source_alias}:
            yield ours, theirs


def choose(clauses: Sequence[BoundClause], rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns for each row the number of the first clause that applies; -1: none."""
    chosen = np.full(rows.num_rows, -1, np.int64)
    left = np.arange(rows.num_rows)
    for number, clause in enumerate(clauses):
        holds = np.ones(len(left), np.bool_)
        if clause.condition is not None and len(left):
            some = rows.take(pa.array(left)) if len(left) < rows.num_rows else rows
            holds = true_where(clause.condition.evaluate(some))
        chosen[left[holds]] = number
        left = left[~holds]
    return chosen
