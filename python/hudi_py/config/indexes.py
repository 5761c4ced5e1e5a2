"""Options of reads which say what of the metadata table is used (`HoodieMetadataConfig`, `DataSourceReadOptions`)."""

from __future__ import annotations

from hudi_py.config.option import Scope, flag

_SINCE = "0.1.0"

METADATA_ENABLE = flag(
    "hoodie.metadata.enable",
    "Whether a read lists files from the table's metadata table, where there is one. Results are the same without; on "
    "any doubt the storage is listed. Writes take no notice: what hudi-py does not keep up to date is dropped in the "
    "same commit.",
    Scope.READ,
    True,
    since=_SINCE,
)
DATA_SKIPPING = flag(
    "hoodie.enable.data.skipping",
    "Whether a read leaves out files by the statistics and indexes of the metadata table. Results are the same "
    "without.",
    Scope.READ,
    True,
    since=_SINCE,
)

OPTIONS = (METADATA_ENABLE, DATA_SKIPPING)
