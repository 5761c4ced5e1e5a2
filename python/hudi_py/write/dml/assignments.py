"""Assignments of value expressions to columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.assigned import Expression, parse_expression
from hudi_py.expressions.coercion import convert
from hudi_py.expressions.predicate import Literal
from hudi_py.formats.arrays import combined, empty_batch
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS, assigned_members, conform_array
from hudi_py.write.table.evolution import cast_exactly


@dataclass(frozen=True, slots=True)
class Assignment:
    """An expression whose values are assigned to a column."""

    field: pa.Field
    expression: Expression

    def evaluate(self, rows: pa.RecordBatch) -> pa.Array:
        """Computes the column's values, converted exactly; for members of structs see `assigned_members`.

        Raises:
            SchemaMismatchError: a value does not fit the column.
            ConfigError: the expression cannot be evaluated.
        """
        node, kind = self.expression.node, self.field.type
        if isinstance(node, Literal):
            try:
                return pa.repeat(pa.scalar(convert(node.value, kind), kind), rows.num_rows)
            except ValueError:
                pass  # evaluated as a column of such values
        values = combined(self.expression.evaluate(rows))
        if pa.types.is_null(values.type):
            return pa.nulls(rows.num_rows, kind)
        sources = assigned_members(values.type, kind, self.field.name)
        return conform_array(values, kind, path=self.field.name, convert=cast_exactly, sources=sources)


def parse_assignments(
    given: Mapping[str, object],
    table: pa.Schema,
    inputs: pa.Schema,
    *,
    aliases: Sequence[str] = (),
    alias: str | None = None,
) -> tuple[Assignment, ...]:
    """Parses assignments to columns of `table`.

    Args:
        given: expressions, or constants other than text, by column.
        inputs: what expressions may name; see `parse_expression` for `aliases`.
        alias: the table's, which may precede the columns that are set.

    Raises:
        ConfigError, SchemaMismatchError: an expression or column is not valid, or their types do not go together.
    """
    made: dict[str, Assignment] = {}
    for name, value in given.items():
        field = column_named(name, table, alias)
        if field.name in made:
            raise ConfigError(f"Column '{field.name}' is set twice; give one of the values")
        made[field.name] = Assignment(field, parse_expression(value, inputs, aliases=aliases))
        made[field.name].evaluate(empty_batch(inputs))  # raises type errors before any row is read
    return tuple(made.values())


def column_named(name: str, table: pa.Schema, alias: str | None) -> pa.Field:
    """Returns the column of a table by its name in a statement.

    Raises:
        SchemaMismatchError: there is none, or it is a meta column.
        ConfigError: it is a member of a struct.
    """
    start, dot, rest = name.partition(".")
    bare = rest if dot and alias is not None and start.lower() == alias.lower() else name
    if bare in META_FIELDS:
        raise SchemaMismatchError(f"Cannot set the column '{bare}': Hudi keeps it itself; leave it out")
    fields = [field for field in table if field.name == bare] or [
        field for field in table if field.name.lower() == bare.lower()
    ]
    if len(fields) == 1:
        return fields[0]
    if bare.partition(".")[0] in table.names:
        raise ConfigError(f"Cannot set '{bare}', a member of a struct: only whole columns can be set")
    raise SchemaMismatchError(f"Cannot set the column '{bare}', which the table lacks; it has {', '.join(table.names)}")


def check_changeable(names: Iterable[str], config: TableConfig) -> None:
    """Refuses to set columns that decide where a row is stored (`UpdateHoodieTableCommand`, 1.2.0).

    Raises:
        ConfigError: names a record key or partition column.
    """
    roles = ((config.record_key_fields, "record key field"), (config.partition_fields, "partition field"))
    for name in names:
        for fields, role in roles:
            if any(f"{field}.".startswith(f"{name}.") for field in fields):  # also the struct of a field
                raise ConfigError(
                    f"Detected disallowed assignment clause in UPDATE statement for {role} '{name}' for table "
                    f"'{config.name}': a row cannot change its key or partition; delete it, and insert another one"
                )
