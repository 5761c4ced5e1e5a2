"""Change data capture queries: which rows each commit inserted, updated and deleted, as they were before and after.

They are planned by `hudi_py.read.changes.plan`, which stands above the reading of splits.
"""

from hudi_py.read.changes.rows import change_rows
from hudi_py.read.changes.split import CHANGE_SCHEMA, ChangeSplit

__all__ = ["CHANGE_SCHEMA", "ChangeSplit", "change_rows"]
