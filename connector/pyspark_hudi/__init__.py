"""Apache Hudi tables for PySpark, without a JAR.

```python
spark.read.format("hudi-py").load("/data/trips")
read_table(spark, "/data/trips", columns=["id"], filter="city = 'oslo'")
df.write.format("hudi-py").options(**hudi_options).mode("append").save("/data/trips")
```

Spark finds `DefaultSource` without registration where this package is installed in the Python environment that
PYSPARK_PYTHON names. Where it was shipped with a job instead (`--py-files`, artifacts), call `register(spark)` first.
That also checks the environment, makes the table functions known to Spark SQL as `register_sql(spark)` does, and lets
the calling thread write.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark_hudi.catalog import register_sql
    from pyspark_hudi.dialect.run import sql
    from pyspark_hudi.hooks import disable, enable
    from pyspark_hudi.services import run_service
    from pyspark_hudi.session import register
    from pyspark_hudi.statements import delete_from, merge_into, update
    from pyspark_hudi.table import read_table
    from pyspark_hudi.table_writer import write_table

__all__ = [
    "delete_from",
    "disable",
    "enable",
    "merge_into",
    "read_table",
    "register",
    "register_sql",
    "run_service",
    "sql",
    "update",
    "write_table",
]

_MODULES: Final = {
    "delete_from": "statements",
    "disable": "hooks",
    "enable": "hooks",
    "merge_into": "statements",
    "read_table": "table",
    "register": "session",
    "register_sql": "catalog",
    "run_service": "services",
    "sql": "dialect.run",
    "update": "statements",
    "write_table": "table_writer",
}
"""The modules of the functions. They are imported when a function is first asked for: Spark imports this package
whenever it looks up a data source, of any format."""

_failure: Exception | None = None
# Spark imports every package named `pyspark_*` when it looks for data sources. If one import fails, Spark finds no data
# source at all, so this one must not fail, not even with an older Spark or none.
try:
    from pyspark_hudi.source import DefaultSource
except Exception as error:  # raised by the first use of a function, see `__getattr__`
    _failure = error
else:
    __all__ += ["DefaultSource"]


def __getattr__(name: str) -> Any:
    """Return a function of the package.

    Raises:
        ImportError: this Python environment lacks what the data source needs.
    """
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _failure is not None:
        raise ImportError(f"The data source hudi-py cannot be used in this environment: {_failure}") from _failure
    function = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
