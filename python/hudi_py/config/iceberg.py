"""Options of the Iceberg metadata that is published after a commit."""

from __future__ import annotations

from hudi_py.config.option import Scope, declared, flag, integer, names, optional_text

ENABLED = flag(
    "hoodie.py.iceberg.enable",
    "Whether the table is published as an Iceberg table after each commit and after services that run on demand. A "
    "publication that fails logs a warning; the next one makes up for it.",
    Scope.SERVICE,
    False,
)
CATALOG = optional_text(
    "hoodie.py.iceberg.catalog",
    "Name of the pyiceberg catalog to publish to, as in `.pyiceberg.yaml` or `PYICEBERG_CATALOG__<NAME>__...`, which "
    "also have its credentials. Not set: no catalog; the metadata is found by the table's path.",
    Scope.SERVICE,
)
CATALOG_PROPERTIES = names(
    "hoodie.py.iceberg.catalog.properties",
    "Further properties of that catalog, `key=value,...`. Not for credentials: options may be logged by others.",
    Scope.SERVICE,
)
TABLE = optional_text(
    "hoodie.py.iceberg.table",
    "Name of the table in that catalog, `namespace.table`. The namespace must exist.",
    Scope.SERVICE,
)
BASE_FILES_ONLY = flag(
    "hoodie.py.iceberg.base.files.only",
    "Whether Iceberg sees only the base files of merge-on-read tables, that is the rows of a read-optimized query. "
    "Otherwise what logs change is published too, which copies the rows in logs.",
    Scope.SERVICE,
    False,
)
LOCATION = optional_text(
    "hoodie.py.iceberg.location",
    "The table's path as Iceberg engines know it, if it is not the one it is written by, such as "
    "`abfss://container@account.dfs.core.windows.net/trips`.",
    Scope.SERVICE,
)
SNAPSHOTS = integer(
    "hoodie.py.iceberg.snapshots.max",
    "Snapshots that are kept for time travel, if their files have not been cleaned.",
    Scope.SERVICE,
    100,
    minimum=1,
)

OPTIONS = declared(globals())
