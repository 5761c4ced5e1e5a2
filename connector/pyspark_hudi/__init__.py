"""Apache Hudi tables for PySpark, without a JAR.

```python
spark.read.format("hudi-py").load("/data/trips")
df.write.format("hudi-py").options(**hudi_options).mode("append").save("/data/trips")
```

Spark finds `DefaultSource` by itself where this package is installed in the Python environment that PYSPARK_PYTHON
names. Where it was shipped with a job instead (`--py-files`, artifacts), call `register(spark)` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_failure: Exception | None = None
# Spark imports every package whose name begins with `pyspark_` when it looks for data sources, and finds none at all
# when one of them fails, whatever the error: an environment with an older Spark, or none, must not be broken by this.
try:
    from pyspark_hudi.source import DefaultSource
except Exception as error:
    _failure = error
else:
    __all__ += ["DefaultSource"]


def register(spark: SparkSession) -> None:
    """Make the format `hudi-py` known to a session whose Spark did not find it by itself.

    Raises:
        ImportError: this Python environment lacks what the data source needs; the cause tells what.
    """
    if _failure is not None:
        raise ImportError(f"The data source hudi-py cannot be used in this environment: {_failure}") from _failure
    spark.dataSource.register(DefaultSource)
