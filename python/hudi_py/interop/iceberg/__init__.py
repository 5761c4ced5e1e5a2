"""Hudi tables as Iceberg tables.

`publish` writes Iceberg metadata that names the files of a Hudi table, next to the table or through a catalog of
pyiceberg, so that Iceberg's engines read its rows. No data is copied but the rows in logs.
"""

from __future__ import annotations

from hudi_py.interop.iceberg.publication import PublishedSnapshot
from hudi_py.interop.iceberg.run import publish, unpublish

__all__ = ["PublishedSnapshot", "publish", "unpublish"]
