"""Shows a table's contents and history: reports, relations, and SQL procedures that show something."""

from hudi_py.inspect.procedures import SHOWN, procedure_report
from hudi_py.inspect.relations import relation, relation_schema
from hudi_py.inspect.reports import split_report, table_report

__all__ = ["SHOWN", "procedure_report", "relation", "relation_schema", "split_report", "table_report"]
