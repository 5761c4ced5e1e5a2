"""Change data capture queries: the rows each commit inserted, updated or deleted, before and after the change."""

from hudi_py.read.changes.rows import change_rows
from hudi_py.read.changes.split import CHANGE_SCHEMA, ChangeSplit

__all__ = ["CHANGE_SCHEMA", "ChangeSplit", "change_rows"]
