"""Apache Hudi tables in Python, without a JAR: Arrow in, Arrow out.

```python
import hudi_py

table = hudi_py.open_table("/data/trips")
rows = table.scan(columns=["id", "fare"], filter="city = 'Rome'").to_table()
```
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
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
        StorageDeniedError,
        StorageError,
        TableExistsError,
        TableNotFoundError,
        UnsupportedTableError,
    )
    from hudi_py.health import Diagnosis, Finding, doctor, forget_repair, repair, repair_plan, repairs, undo_repair
    from hudi_py.read import Scan, Split, read_split
    from hudi_py.table import Table, create_table, open_table, write
    from hudi_py.tending import Budget, TendedService, TendedTable, TendReport, tend
    from hudi_py.wiring import bootstrap
    from hudi_py.write.result import WriteResult

__all__ = [
    "Budget",
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
    "StorageDeniedError",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "TendReport",
    "TendedService",
    "TendedTable",
    "UnsupportedTableError",
    "WriteResult",
    "bootstrap",
    "create_table",
    "doctor",
    "forget_repair",
    "open_table",
    "read_split",
    "repair",
    "repair_plan",
    "repairs",
    "tend",
    "undo_repair",
    "write",
]

_ELSEWHERE = {
    **dict.fromkeys(
        ("Diagnosis", "Finding", "doctor", "forget_repair", "repair", "repair_plan", "repairs", "undo_repair"),
        "hudi_py.health",
    ),
    **dict.fromkeys(("Scan", "Split", "read_split"), "hudi_py.read"),
    **dict.fromkeys(("Table", "create_table", "open_table", "write"), "hudi_py.table"),
    **dict.fromkeys(("Budget", "TendReport", "TendedService", "TendedTable", "tend"), "hudi_py.tending"),
    "WriteResult": "hudi_py.write.result",
    "bootstrap": "hudi_py.wiring",
}
"""Module of each public name, except errors."""


class _Facade(ModuleType):
    """Loads the public names on first use: PyArrow takes half a second to import, and the command line's help does not
    need it."""

    def __setattr__(self, name: str, value: object) -> None:
        # an import of the package hudi_py.write would hide the function of this name
        if not (name == "write" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_ELSEWHERE.get(name, "hudi_py.errors")), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark's workers receive functions that refer to this module, and pickle handles only plain modules by name
        return import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        return __all__


sys.modules[__name__].__class__ = _Facade
