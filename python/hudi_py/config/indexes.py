"""Options of reads about indexes (`HoodieMetadataConfig`, `DataSourceReadOptions`, `HoodieIndexConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, flag, integer, names

_SINCE = "0.1.0"

METADATA_ENABLE = flag(
    "hoodie.metadata.enable",
    "Whether a read lists files from the table's metadata table, where there is one. Results are the same without; on "
    "any doubt the storage is listed. Also whether a write makes the metadata table and keeps it up to date; with "
    "`false` it drops it.",
    Scope.BOTH,
    True,
    since=_SINCE,
)
DATA_SKIPPING = flag(
    "hoodie.enable.data.skipping",
    "Whether a read leaves out files by the statistics and indexes of the metadata table. Results are the same without "
    "it, as long as no key is twice in a table with a record index.",
    Scope.READ,
    True,
    since=_SINCE,
)

BUCKETS = integer(
    "hoodie.bucket.index.num.buckets",
    "Buckets of each partition of a table with a simple bucket index, which no property of the table tells. Given with "
    "`hoodie.index.type=BUCKET`, a read by record keys opens their buckets only. 0: not known.",
    Scope.READ,
    0,
    since=_SINCE,
)
BUCKET_FIELDS = names(
    "hoodie.bucket.index.hash.field",
    "Columns by which rows are put into buckets; those of the record key unless given.",
    Scope.READ,
    since=_SINCE,
)

BUCKET_ENGINE = choice(
    "hoodie.index.bucket.engine",
    "How the buckets of a bucket index are laid out; a read by record keys opens all of them unless it is SIMPLE.",
    Scope.READ,
    "SIMPLE",
    ("SIMPLE", "CONSISTENT_HASHING"),
    since=_SINCE,
)

OPTIONS = (METADATA_ENABLE, DATA_SKIPPING, BUCKETS, BUCKET_FIELDS, BUCKET_ENGINE)
