"""What a table shows of itself: reports, relations, and the procedures of SQL that show something."""

from hudi_py.inspect.procedures import SHOWN, procedure_report
from hudi_py.inspect.relations import relation, relation_schema
from hudi_py.inspect.reports import split_report, table_report

__all__ = ["SHOWN", "procedure_report", "relation", "relation_schema", "split_report", "table_report"]
