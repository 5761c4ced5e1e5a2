"""The functions of expression indexes, evaluated by column, with the results of Spark 3.5 with ANSI mode off.

Source: `ExpressionIndexSparkFunctions`, 1.2.0.
"""

from hudi_py.expressions.functions.function import EXPR, FILTER_SIZES, IDENTITY, NAMES, IndexFunction, filter_texts
from hudi_py.expressions.functions.times import check_zone

__all__ = [
    "EXPR",
    "FILTER_SIZES",
    "IDENTITY",
    "NAMES",
    "IndexFunction",
    "check_zone",
    "filter_texts",
]
