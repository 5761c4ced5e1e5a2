"""Catalogs, with which tables are registered as Apache Hudi registers them: so that Spark, Trino, Hive and Athena find
them by name, with their columns and partitions.

```python
from hudi_py.interop.catalogs import sync

sync("/data/trips", "hms", options={"hoodie.datasource.hive_sync.metastore.uris": "thrift://metastore:9083"})
```
"""

from __future__ import annotations

from hudi_py.interop.catalogs.entry import CatalogError, Registered, SyncReport
from hudi_py.interop.catalogs.run import sync

__all__ = ["CatalogError", "Registered", "SyncReport", "sync"]
