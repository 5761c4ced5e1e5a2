"""Value expressions for updates and merges: the filter grammar with arithmetic, casts and functions.

Types and results are Spark's in ANSI mode; expressions that would differ for some values are refused.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from hudi_py.expressions.calls import Call, Case, Cast, castable, values_of
from hudi_py.expressions.coercion import common_type, number
from hudi_py.expressions.grammar import SUPPORTED, Binder, syntax_tree
from hudi_py.expressions.predicate import Column, Literal, Node, kind_of
from hudi_py.formats.arrays import is_instant, is_number, is_text

VALUES = (
    f"{SUPPORTED}; values also: + - * of decimals, /, %, DIV, ||, CAST, CASE, IF, COALESCE, NVL, NULLIF, CONCAT, "
    "LOWER, UPPER, TRIM, LENGTH, ABS, GREATEST and LEAST"
)

_OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "DIV"}
_TEXTS = {"Lower": "LOWER", "Upper": "UPPER", "Trim": "TRIM", "Length": "LENGTH"}
_EXTREMES = {"Greatest": "GREATEST", "Least": "LEAST"}
_ARGUMENTS = {
    "Coalesce": {"this", "expressions"},
    "Nullif": {"this", "expression"},
    "Case": {"this", "ifs", "default"},
    "If": {"this", "true", "false"},
    "Concat": {"expressions", "safe", "coalesce"},
    "DPipe": {"this", "expression", "safe"},
    "Cast": {"this", "to"},
    "TryCast": {"this", "to"},
    "Abs": {"this"},
    **{name: {"this", "expression", "typed", "safe"} for name in _OPERATORS},
    **{name: {"this"} for name in _TEXTS},
    **{name: {"this", "expressions", "ignore_nulls"} for name in _EXTREMES},
}
"""Arguments of the nodes that are bound here; any other argument would silently change their meaning."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression with one value for each row. Picklable."""

    text: str
    node: Node
    depends: frozenset[str] = frozenset()
    """Session settings that its meaning in Spark depends on; see `Binder.depends`."""

    @property
    def kind(self) -> pa.DataType:
        return kind_of(self.node)

    def columns(self) -> frozenset[tuple[str, ...]]:
        """Returns the paths of the columns that it reads."""
        return frozenset(node.path for node in self.node.walk() if isinstance(node, Column))

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluates to one value for each row, of type `kind`.

        Raises:
            ConfigError: a value overflows, a text cannot be cast, or a divisor is zero.
        """
        try:
            return values_of(self.node, batch)
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"Expression {self.text!r} cannot be evaluated ({first_line(error)}), an error in Spark's ANSI mode "
                "too; leave such rows out by a condition, or CASE"
            ) from error


def parse_expression(given: object, schema: pa.Schema, *, aliases: Sequence[str] = ()) -> Expression:
    """Parses a value expression over `schema`.

    Args:
        given: text in the supported subset of Spark SQL; anything else is a constant.
        aliases: struct columns of `schema` whose members may be named without the column if the name is unique.

    Raises:
        ConfigError: the text is outside the subset, or the constant has a type that no column has.
        SchemaMismatchError: it names an unknown column, or one of several.
    """
    if isinstance(given, str):
        binder = _ValueBinder(given, schema, tuple(aliases))
        node = binder.bind(syntax_tree(given, "Expression"), 0)
        return Expression(given, node, frozenset(binder.depends))
    return Expression(repr(given), _constant_node(given))


def parse_condition(text: str, schema: pa.Schema, *, aliases: Sequence[str] = ()) -> Expression:
    """Parses a condition, with the functions of value expressions; for arguments and errors see `parse_expression`."""
    result = parse_expression(text, schema, aliases=aliases)
    if pa.types.is_null(result.kind):
        return Expression(text, Literal(None, pa.bool_()), result.depends)
    if not pa.types.is_boolean(result.kind):
        raise ConfigError(f"Expression {text!r} is a {result.kind}, not a condition; {VALUES}")
    return result


def _constant_node(given: object) -> Literal:
    if isinstance(given, pa.Scalar):
        return Literal(given.as_py(), given.type)
    if isinstance(given, int) and not isinstance(given, bool):
        return Literal(*number(str(given)))
    known = (bool, float, decimal.Decimal, bytes, datetime.date)
    if given is None or isinstance(given, known):
        made = pa.scalar(given)
        kind = pa.timestamp("us", "UTC" if made.type.tz else None) if pa.types.is_timestamp(made.type) else made.type
        return Literal(given, kind)
    raise ConfigError(
        f"The constant {given!r} is of type {type(given).__name__}; supported: None, bool, int, float, Decimal, "
        "bytes, date, datetime and Arrow scalars; text is an expression, in which constants are in quotes"
    )


class _ValueBinder(Binder):
    """Binds value expressions."""

    what = "Expression"
    supported = VALUES
    applies = False

    def __init__(self, text: str, schema: pa.Schema, aliases: tuple[str, ...]) -> None:
        super().__init__(text, schema)
        self.aliases = aliases

    def bind(self, tree: Any, depth: int) -> Node:
        name = type(tree).__name__
        known = _ARGUMENTS.get(name)
        if known is None:
            return super().bind(tree, depth)
        self.check_depth(depth)
        given = {key for key, value in tree.args.items() if value not in (None, False, [])}
        if given - known:
            raise self.refuse(tree.sql(dialect="spark"))
        return self.value(tree, name, depth + 1)

    def value(self, tree: Any, name: str, depth: int) -> Node:
        if name in _OPERATORS:
            return self.operation(_OPERATORS[name], tree, depth)
        if name in ("Cast", "TryCast"):
            return self.cast_of(tree, depth)
        if name == "Case":
            return self.case(tree, depth)
        if name == "If":
            return self.chosen([tree.this], [tree.args["true"], tree.args.get("false")], depth)
        if name == "Nullif":
            left, right = self.bind(tree.this, depth), self.bind(tree.expression, depth)
            return Case(kind_of(left), (self.compare("=", left, right),), (Literal(None, pa.null()), left))
        if name == "Coalesce" or name in _EXTREMES:
            operands = [self.bind(part, depth) for part in (tree.this, *tree.expressions)]
            kind = self.one_kind(operands)
            if name in _EXTREMES and pa.types.is_floating(kind):
                raise self.refuse(f"{name.upper()} of {kind}, where NaN counts as the greatest")
            return self.call(_EXTREMES.get(name, "COALESCE"), kind, operands)
        if name == "Abs":
            operand = self.bind(tree.this, depth)
            if not is_number(kind_of(operand)):
                raise self.refuse(f"ABS of {kind_of(operand)}")
            return Call(kind_of(operand), "ABS", (operand,), (kind_of(operand),))
        parts = [tree.this, tree.expression] if name == "DPipe" else tree.expressions or [tree.this]
        return self.of_texts(_TEXTS.get(name, "CONCAT"), [self.bind(part, depth) for part in parts])

    def of_texts(self, name: str, operands: list[Node]) -> Node:
        for node in operands:
            if not is_text(kind_of(node)) and not pa.types.is_null(kind_of(node)):
                raise self.refuse(f"{name} of {kind_of(node)}; cast it to STRING")
        kind = pa.int32() if name == "LENGTH" else pa.string()
        return Call(kind, name, tuple(operands), (pa.string(),) * len(operands))

    def call(self, name: str, kind: pa.DataType, operands: list[Node]) -> Call:
        folded = tuple(self.fold(node, kind) for node in operands)
        return Call(kind, name, folded, (kind,) * len(folded))

    def one_kind(self, operands: Sequence[Node]) -> pa.DataType:
        """Returns the common type of several operands."""
        common = kind_of(operands[0])
        for node in operands[1:]:
            kind = kind_of(node)
            if pa.types.is_null(kind) or common.equals(kind):
                continue
            shared = kind if pa.types.is_null(common) else common_type(common, kind)
            texts = is_text(common) != is_text(kind) and not pa.types.is_null(common)
            if shared is None or texts:
                raise self.refuse(f"{common} and {kind} as values of one expression; cast one of them")
            common = shared
        self.note(operands, common)
        return common

    def case(self, tree: Any, depth: int) -> Node:
        import sqlglot.expressions

        conditions = [arg.this for arg in tree.args["ifs"]]
        if tree.this is not None:
            conditions = [sqlglot.expressions.EQ(this=tree.this, expression=condition) for condition in conditions]
        values = [arg.args["true"] for arg in tree.args["ifs"]]
        return self.chosen(conditions, [*values, tree.args.get("default")], depth)

    def chosen(self, conditions: Sequence[Any], values: Sequence[Any], depth: int) -> Node:
        bound = [Literal(None, pa.null()) if value is None else self.bind(value, depth) for value in values]
        kind = self.one_kind(bound)
        folded = tuple(self.fold(node, kind) for node in bound)
        return Case(kind, tuple(self.condition(condition, depth) for condition in conditions), folded)

    def cast_of(self, tree: Any, depth: int) -> Node:
        named = str(getattr(tree.to.this, "name", tree.to.this)).upper()
        plain = not tree.to.args.get("expressions")
        kind = pa.string() if named in ("TEXT", "VARCHAR") and plain else self.target(tree)
        operand = self.bind(tree.this, depth)
        if is_instant(kind_of(operand)) and not is_instant(kind):
            self.depends.add("zone")
        elif is_instant(kind):
            self.note([operand], kind)
        if isinstance(operand, Literal) and not is_text(kind):
            return self.converted(operand, kind)
        if not castable(kind_of(operand), kind):
            raise self.refuse(f"a cast of {kind_of(operand)} to {kind}")
        return Cast(kind, operand)

    def operation(self, operator: str, tree: Any, depth: int) -> Node:
        left, right = self.bind(tree.this, depth), self.bind(tree.expression, depth)
        kinds = [kind_of(left), kind_of(right)]
        kind = common_type(*kinds)
        self.note([left, right], kind or pa.null())
        if kind is None or not all(is_number(kind) or pa.types.is_null(kind) for kind in kinds):
            raise self.refuse(f"{operator} of {kinds[0]} and {kinds[1]}")
        if pa.types.is_null(kind):
            return Literal(None, pa.null())
        if pa.types.is_decimal(kind):
            return self.of_decimals(operator, [left, right])
        if operator == "/":
            return self.call(operator, pa.float64(), [left, right])
        if operator in ("%", "DIV") and not pa.types.is_integer(kind):
            raise self.refuse(f"{operator} of {kind}")
        if operator == "DIV":
            return self.call(operator, pa.int64(), [left, right])
        # a product of FLOATs is a FLOAT, although FLOATs are compared as DOUBLE
        exact = kinds[0] if kinds[0].equals(kinds[1]) else kind
        return self.call(operator, exact, [left, right])

    def of_decimals(self, operator: str, operands: list[Node]) -> Node:
        """Binds arithmetic with decimals. Source of the result's digits: `DecimalPrecision`, Spark 4."""
        if operator not in ("+", "-", "*") or any(pa.types.is_null(kind_of(node)) for node in operands):
            raise self.refuse(f"{operator} of decimals; cast them to DOUBLE")
        kinds = [_decimal_kind(node) for node in operands]
        (left, right), scales = kinds, [kind.scale for kind in kinds]
        if operator == "*":
            precision, scale = left.precision + right.precision + 1, sum(scales)
        else:
            scale = max(scales)
            precision = max(kind.precision - kind.scale for kind in kinds) + scale + 1
        if precision > _MAX_PRECISION:
            raise self.refuse(f"{operator} of {left} and {right}, with more than {_MAX_PRECISION} digits; cast them")
        folded = [self.fold(node, kind) for node, kind in zip(operands, kinds, strict=True)]
        cast = [
            node if kind_of(node).equals(kind) else Cast(kind, node) for node, kind in zip(folded, kinds, strict=True)
        ]
        return Call(pa.decimal128(precision, scale), operator, tuple(cast), tuple(kinds))

    def minus(self, tree: Any, depth: int) -> Node:
        operand = self.bind(tree.this, depth)
        kind = kind_of(operand)
        if pa.types.is_decimal(kind) or not is_number(kind):
            raise self.refuse(f"- of {kind}")
        return self.call("*", kind, [self.converted(Literal(-1, pa.int32()), kind), operand])

    def resolve(self, parts: list[str]) -> Column:
        if not self.aliases or parts[0].lower() in {alias.lower() for alias in self.aliases}:
            return super().resolve(parts)
        owners = [
            alias
            for alias in self.aliases
            if parts[0].lower() in {member.name.lower() for member in self.schema.field(alias).type}
        ]
        if len(owners) > 1:
            named = " or ".join(f"{alias}.{'.'.join(parts)}" for alias in owners)
            raise SchemaMismatchError(
                f"Expression {self.text!r} names column '{'.'.join(parts)}', which may be {named}"
            )
        return super().resolve([owners[0] if owners else self.aliases[0], *parts])


def _decimal_kind(node: Node) -> pa.DataType:
    """Returns the DECIMAL type that a whole number or decimal has in arithmetic."""
    kind = kind_of(node)
    if pa.types.is_decimal(kind):
        return kind
    # a constant has the precision of its digits, except TINYINT (`DecimalType.fromLiteral`)
    if isinstance(node, Literal) and isinstance(node.value, int) and not pa.types.is_int8(kind):
        return pa.decimal128(len(str(abs(node.value))), 0)
    return pa.decimal128(_DIGITS[kind.bit_width], 0)
