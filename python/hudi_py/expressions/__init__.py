"""SQL expressions: text becomes lexemes, a syntax tree and bound nodes, which evaluate record batches.

Filters and assigned values share one grammar and one binder. `functions` has the functions of expression indexes;
`dates` and `calendar` implement Java's date patterns.
"""

from hudi_py.expressions.assigned import parse_condition, parse_expression
from hudi_py.expressions.filter import Filter, parse_filter
from hudi_py.expressions.literals import Lexeme, lexemes, literal, text_constants, text_value
from hudi_py.expressions.predicate import (
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

__all__ = [
    "Column",
    "Comparison",
    "Filter",
    "IsNull",
    "Lexeme",
    "Like",
    "Literal",
    "Logical",
    "Membership",
    "Node",
    "Not",
    "kind_of",
    "lexemes",
    "literal",
    "parse_condition",
    "parse_expression",
    "parse_filter",
    "text_constants",
    "text_value",
]
