"""Apache Hudi tables in Python, without a JAR: Arrow in, Arrow out.

```python
import hudi_py

table = hudi_py.open_table("/data/trips")
rows = table.scan(columns=["id", "fare"], filter="city = 'Rome'").to_table()
```
"""

from __future__ import annotations

from hudi_py.errors import (
    ConfigError,
    ConflictError,
    CorruptFileError,
    DuplicateKeyError,
    HistoryCleanedError,
    HudiError,
    LockError,
    RolledBackError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_py.health import Diagnosis, Finding, doctor, forget_repair, repair, repair_plan, undo_repair
from hudi_py.read import Scan, Split, read_split
from hudi_py.table import Table, create_table, open_table, write
from hudi_py.write.result import WriteResult

__all__ = [
    "ConfigError",
    "ConflictError",
    "CorruptFileError",
    "Diagnosis",
    "DuplicateKeyError",
    "Finding",
    "HistoryCleanedError",
    "HudiError",
    "LockError",
    "RolledBackError",
    "Scan",
    "SchemaMismatchError",
    "Split",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "UnsupportedTableError",
    "WriteResult",
    "create_table",
    "doctor",
    "forget_repair",
    "open_table",
    "read_split",
    "repair",
    "repair_plan",
    "undo_repair",
    "write",
]
