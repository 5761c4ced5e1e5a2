"""The filter grammar: a subset of Spark SQL, parsed by sqlglot and bound to a schema."""

from __future__ import annotations

import decimal
import difflib
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError, first_line
from hudi_py.expressions.applied import OF_TIMES, Applied, call_of, dialect, expression_of
from hudi_py.expressions.coercion import common_type, convert, converts, decimal_type, names_zone, number
from hudi_py.expressions.literals import plain
from hudi_py.expressions.predicate import (
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
    kind_of,
)
from hudi_py.formats.arrays import is_instant, is_number, is_text
from hudi_py.schema import META_FIELDS

SUPPORTED = (
    "supported: comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, ILIKE, + - * of numbers, and functions "
    "such as lower, substring, year and to_date"
)
"""Summary of the grammar for errors; docs/reading.md has all of it."""

_OPERATORS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "<=>"}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*"}
_CASTS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "DATETIME": pa.timestamp("us"),
}
"""Types to which constants can be cast, by sqlglot's names, besides DECIMAL."""
_PREDICATES = {*_OPERATORS, "Between", "In", "Is", "Like", "ILike", "Not"}
_MAX_DEPTH = 200
_ARGUMENTS = {
    "Between": {"low", "high"},
    "Column": {"table", "db", "catalog"},
    "Literal": {"is_string"},
    "Cast": {"to"},
    "TryCast": {"to"},
    "Concat": {"safe", "coalesce"},
}
"""Arguments that a syntax node may have besides its operands; any other would silently change its meaning."""


def parse(text: str, schema: pa.Schema) -> tuple[Node, frozenset[str]]:
    """Parses a filter and binds it to `schema`. Also returns what its meaning in Spark depends on, see
    `Binder.depends`.

    Raises:
        ConfigError: the text is not a predicate of the supported subset.
        SchemaMismatchError: it names an unknown column.
    """
    binder = Binder(text, schema)
    node = binder.bind(syntax_tree(text, read=dialect()), 0)
    if not pa.types.is_boolean(kind_of(node)) and not pa.types.is_null(kind_of(node)):
        raise ConfigError(f"Filter {text!r} is a {kind_of(node)}, not a condition; {SUPPORTED}")
    return node, frozenset(binder.depends)


def syntax_tree(text: str, what: str = "Filter", read: Any = "spark") -> Any:
    """Parses one expression to its tree.

    Args:
        what: names it in errors.
        read: the dialect.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(plain(text), read=read)
    except (SqlglotError, RecursionError) as error:
        reason = first_line(error)
        raise ConfigError(f"{what} {text!r} cannot be parsed ({reason}); {SUPPORTED}") from error
    if len(trees) != 1 or trees[0] is None:
        raise ConfigError(f"{what} {text!r} is not one expression; {SUPPORTED}")
    return trees[0]


class Binder:
    """Binds a syntax tree: turns it into nodes, resolving columns and types."""

    what = "Filter"
    supported = SUPPORTED
    applies = True
    """Whether the functions of expression indexes are available."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text = text
        self.schema = schema
        self.depends: set[str] = set()
        """What the expression's meaning in Spark depends on: `zone`, the session's time zone, which is UTC here;
        `ansi`, ANSI mode, which is on here; `lenient`, a function that returns NULL here, as with ANSI mode off, but
        fails with ANSI mode on."""

    def refuse(self, what: str) -> ConfigError:
        return ConfigError(f"{self.what} {self.text!r} uses {what}; {self.supported}")

    def check_depth(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            start = self.text[:200]
            raise ConfigError(f"{self.what} {start!r}... nests deeper than {_MAX_DEPTH}; use IN for long lists")

    def bind(self, tree: Any, depth: int) -> Node:
        self.check_depth(depth)
        name = type(tree).__name__
        call = call_of(tree)
        if call is not None and self.applies:
            return self.applied(tree, *call, depth=depth)
        self.check_supported(tree, name)
        if tree.args.get("negate"):
            positive = tree.copy()
            positive.set("negate", None)
            return Not(self.condition(positive, depth + 1))
        if name == "Paren":
            return self.bind(tree.this, depth + 1)
        if name in ("And", "Or"):
            return self.chain(tree, name, depth)
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
        if name == "Neg" and type(tree.this).__name__ not in ("Literal", "Neg", "Cast", "TryCast"):
            return self.minus(tree, depth)
        if name in _ARITHMETIC:
            return self.arithmetic(_ARITHMETIC[name], tree, depth)
        if name in ("Column", "Dot"):
            return self.column(tree)
        return self.constant(tree)

    def check_supported(self, tree: Any, name: str) -> None:
        """Refuse an argument of an operator that it does not have here, and comparisons of comparisons."""
        given = {key for key, value in tree.args.items() if value not in (None, False, [])}
        if given - _ARGUMENTS.get(name, set()) - {"this", "expression", "expressions", "negate"}:
            raise self.refuse(tree.sql(dialect="spark"))
        within = {type(part).__name__ for part in tree.iter_expressions()}
        if name in _PREDICATES - {"Not"} and within & _PREDICATES and not tree.args.get("negate"):
            # sqlglot and Spark differ in precedence
            raise self.refuse(f"a comparison of comparisons without parentheses: {tree.sql(dialect='spark')}")

    def chain(self, tree: Any, name: str, depth: int) -> Node:
        """AND or OR of conditions. Chains are left-deep; flattened so that long ones do not nest deeply."""
        parts, rest = [], tree
        while type(rest).__name__ == name:
            parts.append(rest.expression)
            rest = rest.this
        parts.append(rest)
        return Logical(name.upper(), tuple(self.condition(part, depth + 1) for part in reversed(parts)))

    def condition(self, tree: Any, depth: int) -> Node:
        node = self.bind(tree, depth)
        if pa.types.is_null(kind_of(node)):
            return Literal(None, pa.bool_())
        if not pa.types.is_boolean(kind_of(node)):
            raise self.refuse(f"{tree.sql(dialect='spark')} ({kind_of(node)}) as a condition")
        return node

    def compare(self, operator: str, left: Node, right: Node, kind: pa.DataType | None = None) -> Node:
        """Compares in type `kind`; None: in the common type of both operands."""
        if kind is None:
            kind = self.common([_with_decimal(left, right), _with_decimal(right, left)], [left, right])
        if any(pa.types.is_null(kind_of(node)) for node in (left, right)):
            present = right if pa.types.is_null(kind_of(left)) else left
            return IsNull(present) if operator == "<=>" else Literal(None, pa.bool_())
        if operator in ("<", "<=", ">", ">=") and (_is_beyond(left, right) or _is_beyond(right, left)):
            raise self.refuse(
                f"a constant beyond BIGINT, which Spark treats as greater or less than NULL too ({operator})"
            )
        return Comparison(operator, self.fold(left, kind), self.fold(right, kind), kind)

    def common(self, kinds: list[pa.DataType], operands: list[Node]) -> pa.DataType:
        """Returns the type in which operands of these types are compared."""
        result = kinds[0]
        for kind in kinds[1:]:
            wider = common_type(result, kind)
            if wider is None:
                raise self.refuse(f"a comparison of {result} with {kind}")
            result = wider
        self.note(operands, result)
        texts = [node for node in operands if is_text(kind_of(node)) and not isinstance(node, Literal)]
        if texts and not is_text(result) and not pa.types.is_binary(result):
            raise self.refuse(f"a comparison of text in a column with {result}; quote the constant to compare texts")
        return result

    def note(self, operands: Sequence[Node], common: pa.DataType) -> None:
        """Records whether the implicit cast to a common type depends on the session's settings."""
        kinds = [kind_of(node) for node in operands]
        if any(map(pa.types.is_float32, kinds)) and any(pa.types.is_integer(kind) or is_text(kind) for kind in kinds):
            self.depends.add("ansi")  # with ANSI mode off, integers and text become FLOAT
        whole = [kind for kind in kinds if pa.types.is_integer(kind)]
        for node in operands:
            if is_instant(common) and not is_instant(kind_of(node)) and not _names_zone(node):
                self.depends.add("zone")
            text = node.value if isinstance(node, Literal) else None
            if isinstance(text, str) and any(not converts(text, kind) for kind in whole):
                self.depends.add("ansi")  # with ANSI mode off, the text becomes NULL

    def fold(self, node: Node, kind: pa.DataType) -> Node:
        """Casts constants to the type in which they are compared; returns other nodes unchanged."""
        if not isinstance(node, Literal) or node.kind.equals(kind):
            return node
        return self.converted(node, kind)

    def converted(self, node: Literal, kind: pa.DataType) -> Literal:
        try:
            return Literal(convert(node.value, kind), kind)
        except ValueError as error:
            raise self.refuse(f"{node.value!r} as a {kind} ({first_line(error)})") from None

    def membership(self, tree: Any, depth: int) -> Node:
        operand = self.bind(tree.this, depth + 1)
        if not tree.expressions:
            raise self.refuse("IN without a list of constants")
        items = [self.bind(item, depth + 1) for item in tree.expressions]
        kind = self.common([kind_of(operand), *map(kind_of, items)], [operand, *items])
        if len({is_text(kind_of(node)) for node in (operand, *items) if not pa.types.is_null(kind_of(node))}) > 1:
            self.depends.add("ansi")  # with ANSI mode off, all of them are text
        constants = [folded for item in items if isinstance(folded := self.fold(item, kind), Literal)]
        if len(constants) < len(items) or isinstance(operand, Literal):
            return Logical("OR", tuple(self.compare("=", operand, item, kind) for item in items))
        values = tuple(item.value for item in constants if item.value is not None)
        if not values:
            return Literal(None, pa.bool_())
        return Membership(operand, values, kind, len(values) < len(constants))

    def is_(self, tree: Any, depth: int) -> Node:
        operand, right = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        if isinstance(right, Literal) and right.value is None:
            return IsNull(operand)
        if isinstance(right, Literal) and isinstance(right.value, bool) and pa.types.is_boolean(kind_of(operand)):
            return Comparison("<=>", operand, right, pa.bool_())
        raise self.refuse(tree.sql(dialect="spark"))

    def like(self, tree: Any, ignore_case: bool, depth: int) -> Node:
        operand, pattern = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self.refuse("LIKE without a constant pattern")
        if not is_text(kind_of(operand)):
            raise self.refuse(f"LIKE on {kind_of(operand)}")
        if re.search(r"(?<!\\)(\\\\)*\\([^\\%_]|$)", pattern.value, re.DOTALL):
            raise self.refuse(f"the LIKE pattern {pattern.value!r}, where \\ is not followed by %, _ or \\")
        return Like(operand, pattern.value, ignore_case)

    def arithmetic(self, operator: str, tree: Any, depth: int) -> Node:
        left, right = self.bind(tree.this, depth + 1), self.bind(tree.expression, depth + 1)
        kind = common_type(kind_of(left), kind_of(right))
        self.note([left, right], kind or pa.null())
        numbers = all(is_number(kind_of(node)) or pa.types.is_null(kind_of(node)) for node in (left, right))
        if kind is None or not numbers or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise self.refuse(f"{operator} of {kind_of(left)} and {kind_of(right)}")
        return Arithmetic(operator, self.fold(left, kind), self.fold(right, kind), kind)

    def minus(self, tree: Any, depth: int) -> Node:
        operand = self.bind(tree.this, depth + 1)
        kind = kind_of(operand)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise self.refuse(f"- of {kind}")
        return Arithmetic("*", self.converted(Literal(-1, pa.int32()), kind), operand, kind)

    def applied(self, tree: Any, name: str, first: Any, others: Sequence[Any], *, depth: int) -> Node:
        """Binds a function of a column, or of another function, with constants."""
        operand = self.bind(first, depth + 1)
        constants = [self.bind(other, depth + 1) for other in others]
        texts = [
            str(constant.value)
            for constant in constants
            if isinstance(constant, Literal) and constant.value is not None
        ]
        expression = expression_of(name, texts) if len(texts) == len(constants) else None
        if expression is None or not isinstance(operand, Column | Applied):
            raise self.refuse(tree.sql(dialect="spark"))
        why = expression.check() or expression.check_column(kind_of(operand))
        if why:
            raise self.refuse(f"{tree.sql(dialect='spark')}, which is not supported: {why}")
        if expression.is_zoned(kind_of(operand)):
            self.depends.add("zone")
        if name in OF_TIMES and is_text(kind_of(operand)):
            self.depends.add("lenient")
        return Applied(expression.result(kind_of(operand)), operand, expression)

    def column(self, tree: Any) -> Node:
        parts: list[str] = []
        rest = tree
        while type(rest).__name__ == "Dot":
            if type(rest.expression).__name__ != "Identifier":
                raise self.refuse(tree.sql(dialect="spark"))
            parts.insert(0, rest.expression.name)
            rest = rest.this
        if type(rest).__name__ != "Column":
            raise self.refuse(tree.sql(dialect="spark"))
        own = [rest.args.get(part) for part in ("catalog", "db", "table", "this")]
        if any(type(part).__name__ != "Identifier" for part in own if part is not None):
            raise self.refuse(tree.sql(dialect="spark"))
        return self.resolve([part.name for part in own if part is not None] + parts)

    def resolve(self, parts: list[str]) -> Column:
        kind: pa.DataType = pa.struct(list(self.schema))
        path: list[str] = []
        for part in parts:
            if not pa.types.is_struct(kind):
                raise self.refuse(f"{'.'.join(parts)}: {'.'.join(path)} is a {kind}, not a struct")
            names = [field.name for field in kind]
            matching = [name for name in names if name == part] or [n for n in names if n.lower() == part.lower()]
            if len(matching) != 1:
                near = difflib.get_close_matches(part, names, 1)
                own = [name for name in names if name not in META_FIELDS]
                hint = f"; did you mean '{'.'.join([*path, near[0]])}'?" if near else f"; there are {', '.join(own)}"
                quoted = f"; to compare with a text, put it in quotes: '{part}'" if len(parts) == 1 else ""
                raise SchemaMismatchError(
                    f"{self.what} {self.text!r} names column '{'.'.join(parts)}', which does not exist{hint}{quoted}"
                )
            path.append(matching[0])
            kind = kind.field(matching[0]).type
        return Column(tuple(path), kind)

    def constant(self, tree: Any) -> Literal:
        name = type(tree).__name__
        if name == "Literal" and tree.is_string:
            return Literal(str(tree.this), pa.string())
        if name == "Literal":
            return self.number(str(tree.this))
        if name == "Null":
            return Literal(None, pa.null())
        if name == "Boolean":
            return Literal(bool(tree.this), pa.bool_())
        if name == "Neg":
            return self.negative(tree.this)
        if name == "HexString" and len(str(tree.this)) % 2 == 0:
            return Literal(bytes.fromhex(str(tree.this)), pa.binary())
        if name == "Concat" and all(type(part).__name__ == "Literal" and part.is_string for part in tree.expressions):
            return Literal("".join(part.this for part in tree.expressions), pa.string())
        if name in ("Cast", "TryCast"):
            return self.cast(tree)
        raise self.refuse(tree.sql(dialect="spark"))

    def number(self, text: str) -> Literal:
        try:
            return Literal(*number(text))
        except ValueError as error:
            raise self.refuse(f"the number {text} ({first_line(error)})") from None

    def negative(self, tree: Any) -> Literal:
        """Binds a signed number, which Spark parses as one literal: -2147483648 is an INT."""
        if type(tree).__name__ == "Literal" and not tree.is_string:
            return self.number(f"-{tree.this}")
        positive = self.constant(tree)
        if isinstance(positive.value, decimal.Decimal):
            return Literal(positive.value.copy_negate(), positive.kind)
        if isinstance(positive.value, int | float) and not isinstance(positive.value, bool):
            return self.converted(Literal(-positive.value, positive.kind), positive.kind)
        raise self.refuse(f"- of {positive.kind}")

    def cast(self, tree: Any) -> Literal:
        operand, kind = self.constant(tree.this), self.target(tree)
        self.note([operand], kind)
        return self.converted(operand, kind)

    def target(self, tree: Any) -> pa.DataType:
        """Returns the type of `DATE '...'`, `TIMESTAMP '...'`, typed numbers (`10L`, `0.1F`) and casts of constants to
        these types."""
        target = str(tree.to.this.name if hasattr(tree.to.this, "name") else tree.to.this).upper()
        kind = _decimal_of(tree.to) if target == "DECIMAL" else _CASTS.get(target)
        if kind is None:
            raise self.refuse(tree.sql(dialect="spark"))
        return kind


def _names_zone(node: Node) -> bool:
    """Returns whether a node is a constant that is the same moment in every zone, or NULL."""
    return isinstance(node, Literal) and (
        node.value is None or (isinstance(node.value, str) and names_zone(node.value))
    )


def _decimal_of(target: Any) -> pa.DataType | None:
    """Returns DECIMAL, DECIMAL(p) or DECIMAL(p,s) as an Arrow type."""
    try:
        given = [int(part.this.this) for part in target.expressions]
        precision, scale = (given + [10, 0][len(given) :])[:2]
        return pa.decimal128(precision, scale) if 0 <= scale <= precision else None
    except (AttributeError, ValueError):
        return None


def _is_beyond(node: Node, other: Node) -> bool:
    """Returns whether an integer is compared with a decimal constant outside the range of BIGINT."""
    if not isinstance(other, Literal) or not isinstance(other.value, decimal.Decimal):
        return False
    return pa.types.is_integer(kind_of(node)) and not -(2**63) <= other.value < 2**63


def _with_decimal(node: Node, other: Node) -> pa.DataType:
    """Returns the type of an operand; for an integer literal that is compared with a decimal, the DECIMAL of its
    digits."""
    value = node.value if isinstance(node, Literal) and pa.types.is_integer(node.kind) else None
    if isinstance(value, int) and pa.types.is_decimal(kind_of(other)):
        return decimal_type(decimal.Decimal(value))
    return kind_of(node)
