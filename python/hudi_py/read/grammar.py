"""The filter grammar: a subset of Spark SQL, parsed by sqlglot and bound to a schema."""

from __future__ import annotations

import datetime
import decimal
import difflib
from typing import Any

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from hudi_py.read.coercion import cast, is_text, literal_type, parse_temporal
from hudi_py.read.predicate import (
    Arithmetic,
    Column,
    Comparison,
    IsNull,
    Like,
    Literal,
    Logical,
    Membership,
    Node,
    Not,
    comparable,
    kind_of,
)

SUPPORTED = (
    "supported are comparisons (=, ==, <>, !=, <, <=, >, >=, <=>), AND, OR, NOT, IN (constants), BETWEEN, "
    "IS [NOT] NULL, IS [NOT] TRUE/FALSE, LIKE, ILIKE, +, -, * of numbers, columns and struct members (a.b), and "
    "constants: numbers, 'text', TRUE, FALSE, NULL, DATE '...', TIMESTAMP '...', X'...'"
)

_OPERATORS = {
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_MAX_DEPTH = 200
_ARGUMENTS = {
    "Between": {"low", "high"},
    "Column": {"table", "db", "catalog"},
    "Literal": {"is_string"},
    "Cast": {"to"},
    "TryCast": {"to"},
    "Concat": {"safe", "coalesce"},
}
"""What a syntax node may carry besides its operands; anything else would change its meaning unseen."""


def parse(text: str, schema: pa.Schema) -> Node:
    """The predicate which a filter's text means over `schema`.

    Raises:
        ConfigError: the text is no predicate of the supported subset.
        SchemaMismatchError: it names a column which the schema lacks.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(text, read="spark")
    except (SqlglotError, RecursionError) as error:
        reason = first_line(error)
        raise ConfigError(f"Filter {text!r} cannot be parsed ({reason}); {SUPPORTED}") from error
    if len(trees) != 1 or trees[0] is None:
        raise ConfigError(f"Filter {text!r} is not one condition; {SUPPORTED}")
    node = _Binder(text, schema).bind(trees[0], 0)
    if not pa.types.is_boolean(kind_of(node)) and not pa.types.is_null(kind_of(node)):
        raise ConfigError(f"Filter {text!r} is a {kind_of(node)}, not a condition; {SUPPORTED}")
    return node


class _Binder:
    """Turns a syntax tree into nodes, resolving columns and types."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text = text
        self.schema = schema

    def refuse(self, what: str) -> ConfigError:
        return ConfigError(f"Filter {self.text!r} uses {what}; {SUPPORTED}")

    def bind(self, tree: Any, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise ConfigError(f"Filter {self.text[:200]!r}... nests deeper than {_MAX_DEPTH}; use IN for long lists")
        name = type(tree).__name__
        given = {key for key, value in tree.args.items() if value not in (None, False, [])}
        if given - _ARGUMENTS.get(name, set()) - {"this", "expression", "expressions", "negate"}:
            raise self.refuse(tree.sql(dialect="spark"))
        if tree.args.get("negate"):
            plain = tree.copy()
            plain.set("negate", None)
            return Not(self.condition(plain, depth + 1))
        if name == "Paren":
            return self.bind(tree.this, depth + 1)
        if name in ("And", "Or"):
            # chains lean to the left; flattened so that their length costs no depth
            parts, rest = [], tree
            while type(rest).__name__ == name:
                parts.append(rest.expression)
                rest = rest.this
            parts.append(rest)
            return Logical(name.upper(), tuple(self.condition(part, depth + 1) for part in reversed(parts)))
        if name == "Not":
            return Not(self.condition(tree.this, depth + 1))
        if name in _OPERATORS:
            return self.compare(
                _OPERATORS[name], self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
            )
        if name == "Between":
            value = self.bind(tree.this, depth + 1)
            low, high = self.bind(tree.args["low"], depth + 1), self.bind(tree.args["high"], depth + 1)
            return Logical("AND", (self.compare(">=", value, low), self.compare("<=", value, high)))
        if name == "In":
            return self.membership(tree, depth)
        if name == "Is":
            return self.is_(tree, depth)
        if name in ("Like", "ILike"):
            return self.like(tree, name == "ILike", depth)
        if name == "Neg" and type(tree.this).__name__ not in ("Literal", "Neg"):
            return self.minus(tree, depth)
        if name in _ARITHMETIC:
            return self.arithmetic(_ARITHMETIC[name], tree, depth)
        if name in ("Column", "Dot"):
            return self.column(tree)
        return self.constant(tree)

    def condition(self, tree: Any, depth: int) -> Node:
        node = self.bind(tree, depth)
        if pa.types.is_null(kind_of(node)):
            return Literal(None, pa.bool_())
        if not pa.types.is_boolean(kind_of(node)):
            raise self.refuse(f"{tree.sql()} ({kind_of(node)}) as a condition")
        return node

    def compare(self, operator: str, left: Node, right: Node) -> Node:
        kind = comparable(left, right)
        if kind is None:
            raise self.refuse(f"a comparison of {kind_of(left)} with {kind_of(right)}")
        return Comparison(operator, self.fold(left, kind), self.fold(right, kind), kind)

    def fold(self, node: Node, kind: pa.DataType) -> Node:
        """A constant as the type it is compared in."""
        if not isinstance(node, Literal) or node.kind.equals(kind):
            return node
        try:
            value = cast(pa.array([node.value], node.kind), kind)[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self.refuse(f"{node.value!r} as a {kind}") from error
        if value is None and node.value is not None:
            raise self.refuse(f"{node.value!r}, which is no {kind}")
        return Literal(value, kind)

    def membership(self, tree: Any, depth: int) -> Node:
        operand = self.bind(tree.this, depth + 1)
        if not tree.expressions:
            raise self.refuse("IN without a list of constants")
        items = [self.bind(item, depth + 1) for item in tree.expressions]
        constants = [item for item in items if isinstance(item, Literal)]
        if len(constants) != len(items):
            return Logical("OR", tuple(self.compare("=", operand, item) for item in items))
        present = [item for item in constants if item.value is not None]
        kinds = {str(comparable(operand, item)): comparable(operand, item) for item in present}
        kind = next(iter(kinds.values())) if len(kinds) == 1 else None
        if not present or (len(kinds) == 1 and kind is not None and not pa.types.is_floating(kind)):
            kind = kind or kind_of(operand)
            values = tuple(item.value for node in present if isinstance(item := self.fold(node, kind), Literal))
            return Membership(operand, values, kind, len(present) < len(constants))
        return Logical("OR", tuple(self.compare("=", operand, item) for item in items))

    def is_(self, tree: Any, depth: int) -> Node:
        operand, right = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        if isinstance(right, Literal) and right.value is None:
            return IsNull(operand)
        if isinstance(right, Literal) and isinstance(right.value, bool) and pa.types.is_boolean(kind_of(operand)):
            return Comparison("<=>", operand, right, pa.bool_())
        raise self.refuse(tree.sql())

    def like(self, tree: Any, ignore_case: bool, depth: int) -> Node:
        operand, pattern = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self.refuse("LIKE without a constant pattern")
        if not is_text(kind_of(operand)):
            raise self.refuse(f"LIKE on {kind_of(operand)}")
        return Like(operand, pattern.value, ignore_case)

    def arithmetic(self, operator: str, tree: Any, depth: int) -> Node:
        left, right = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        kind = comparable(left, right)
        if kind is None or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or is_text(kind_of(left)):
            raise self.refuse(f"{operator} of {kind_of(left)} and {kind_of(right)}")
        return Arithmetic(operator, left, right, kind)

    def minus(self, tree: Any, depth: int) -> Node:
        operand = self.bind(tree.this, depth + 1)
        kind = kind_of(operand)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise self.refuse(f"- of {kind}")
        return Arithmetic("*", Literal(-1, pa.int32()), operand, kind)

    def column(self, tree: Any) -> Node:
        parts: list[str] = []
        rest = tree
        while type(rest).__name__ == "Dot":
            if type(rest.expression).__name__ != "Identifier":
                raise self.refuse(tree.sql())
            parts.insert(0, rest.expression.name)
            rest = rest.this
        if type(rest).__name__ != "Column":
            raise self.refuse(tree.sql())
        own = [rest.args.get(part) for part in ("catalog", "db", "table", "this")]
        if any(type(part).__name__ != "Identifier" for part in own if part is not None):
            raise self.refuse(tree.sql())
        return self.resolve([part.name for part in own if part is not None] + parts)

    def resolve(self, parts: list[str]) -> Column:
        kind: pa.DataType = pa.struct(list(self.schema))
        path: list[str] = []
        for part in parts:
            if not pa.types.is_struct(kind):
                raise self.refuse(f"{'.'.join(parts)}: {'.'.join(path)} is a {kind}, not a struct")
            names = [field.name for field in kind]
            found = [name for name in names if name == part] or [n for n in names if n.lower() == part.lower()]
            if len(found) != 1:
                near = difflib.get_close_matches(part, names, 1)
                hint = f"; did you mean '{'.'.join([*path, near[0]])}'?" if near else f"; there are {', '.join(names)}"
                raise SchemaMismatchError(
                    f"Filter {self.text!r} names column '{'.'.join(parts)}', which is not there{hint}"
                )
            path.append(found[0])
            kind = kind.field(found[0]).type
        return Column(tuple(path), kind)

    def constant(self, tree: Any) -> Literal:
        name = type(tree).__name__
        if name == "Literal":
            return self.literal(tree)
        if name == "Null":
            return Literal(None, pa.null())
        if name == "Boolean":
            return Literal(bool(tree.this), pa.bool_())
        if name == "Neg":
            operand = self.constant(tree.this)
            if isinstance(operand.value, int | float | decimal.Decimal) and not isinstance(operand.value, bool):
                return Literal(-operand.value, literal_type(-operand.value))
        if name == "HexString":
            return Literal(bytes.fromhex(str(tree.this)), pa.binary())
        if name == "Concat" and all(type(part).__name__ == "Literal" and part.is_string for part in tree.expressions):
            return Literal("".join(part.this for part in tree.expressions), pa.string())
        if name in ("Cast", "TryCast") and type(tree.this).__name__ in ("Literal", "Neg"):
            return self.cast(tree)
        raise self.refuse(tree.sql(dialect="spark"))

    def literal(self, tree: Any) -> Literal:
        if tree.is_string:
            return Literal(str(tree.this), pa.string())
        text = str(tree.this)
        value: int | float | decimal.Decimal
        if "e" in text.lower():
            value = float(text)
        elif "." in text:
            value = decimal.Decimal(text)
        else:
            value = int(text)
        return Literal(value, literal_type(value))

    def cast(self, tree: Any) -> Literal:
        """`DATE '...'`, `TIMESTAMP '...'`, typed numbers (`10L`) and casts of constants to these types."""
        operand = self.constant(tree.this)
        target = str(tree.to.this.name if hasattr(tree.to.this, "name") else tree.to.this).upper()
        value = operand.value
        if target in ("DATE", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"):
            zone = None if target in ("TIMESTAMPNTZ", "DATETIME") else "UTC"
            kind = pa.date32() if target == "DATE" else pa.timestamp("us", zone)
            parsed = parse_temporal(value, kind) if isinstance(value, str) else None
            if parsed is None:
                raise self.refuse(f"{value!r}, which is no {target}")
            if isinstance(parsed, datetime.datetime) and zone is None:
                parsed = parsed.replace(tzinfo=None)
            return Literal(parsed, kind)
        if target in ("BIGINT", "INT", "SMALLINT", "TINYINT") and isinstance(value, int):
            kinds = {"BIGINT": pa.int64(), "INT": pa.int32(), "SMALLINT": pa.int16(), "TINYINT": pa.int8()}
            return Literal(value, kinds[target])
        if target in ("DOUBLE", "FLOAT") and isinstance(value, int | float | decimal.Decimal):
            return Literal(float(value), pa.float64() if target == "DOUBLE" else pa.float32())
        if target == "DECIMAL" and isinstance(value, str | int | decimal.Decimal):
            exact = decimal.Decimal(value)
            return Literal(exact, literal_type(exact))
        raise self.refuse(tree.sql(dialect="spark"))
