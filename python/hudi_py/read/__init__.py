"""Reading: plan, prune, split, and one split to record batches."""

from hudi_py.read.counting import count_splits, is_counted_by_footer
from hudi_py.read.expressions import parse_condition, parse_expression
from hudi_py.read.filter import Filter, parse_filter
from hudi_py.read.lexer import Lexeme, lexemes
from hudi_py.read.literals import literal, text_constants, text_value
from hudi_py.read.parts import CHUNK_ROWS, REPLACED_SCHEMA, have_distinct_hashes
from hudi_py.read.pin import PlanPin
from hudi_py.read.plan import check_columns
from hudi_py.read.planned import Pinned, PlannedScan, pin_table, plan_table, read_replaced, read_splits, tasks_of
from hudi_py.read.procedures import SHOWN, procedure_report
from hudi_py.read.relations import relation, relation_schema
from hudi_py.read.reports import split_report, table_report
from hudi_py.read.scan import Scan, make_scan
from hudi_py.read.snapshot import table_schema
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.task import read_split

__all__ = [
    "CHUNK_ROWS",
    "REPLACED_SCHEMA",
    "SHOWN",
    "Filter",
    "Lexeme",
    "Pinned",
    "PlanPin",
    "PlannedScan",
    "ReadSpec",
    "Scan",
    "Split",
    "check_columns",
    "count_splits",
    "have_distinct_hashes",
    "is_counted_by_footer",
    "lexemes",
    "literal",
    "make_scan",
    "parse_condition",
    "parse_expression",
    "parse_filter",
    "pin_table",
    "plan_table",
    "procedure_report",
    "read_replaced",
    "read_split",
    "read_splits",
    "relation",
    "relation_schema",
    "split_report",
    "table_report",
    "table_schema",
    "tasks_of",
    "text_constants",
    "text_value",
]
