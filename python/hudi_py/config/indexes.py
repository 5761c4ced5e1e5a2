"""Options of reads about indexes (`HoodieMetadataConfig`, `DataSourceReadOptions`, `HoodieIndexConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, declared, flag, integer, names, number, text

METADATA_ENABLE = flag(
    "hoodie.metadata.enable",
    "Whether a read lists files from the table's metadata table, if there is one. Results are the same without it; if "
    "the metadata table is in doubt, the storage is listed. Also whether a write creates the metadata table and keeps "
    "it up to date; with `false` a write drops it.",
    Scope.BOTH,
    True,
)
DATA_SKIPPING = flag(
    "hoodie.enable.data.skipping",
    "Whether a read skips files by the statistics and indexes of the metadata table. Results are the same without it.",
    Scope.READ,
    True,
)
RECORD_INDEX_TRUST = flag(
    "hoodie.py.record.index.trust",
    "Whether reads and statements find rows by a global record index, and by secondary indexes over it, even where "
    "hudi-py does not know that each record key has one row in the table, as after writes by Apache Hudi. As there, "
    "only one row of a key that has several is found then.",
    Scope.BOTH,
    False,
)

BUCKETS = integer(
    "hoodie.bucket.index.num.buckets",
    "Number of buckets per partition of a table with a simple bucket index. The table's properties do not store it, "
    "and it cannot be changed. Together with `hoodie.index.type=BUCKET`, it lets a read by keys open only their "
    "buckets. 0: for a read, unknown; for a write, 256 as in Apache Hudi.",
    Scope.BOTH,
    0,
    example="16",
)
BUCKET_FIELDS = names(
    "hoodie.bucket.index.hash.field",
    "Columns that are hashed into buckets, some of the record key's. Default: all of them.",
    Scope.BOTH,
    example="id",
)

BUCKET_EXPRESSIONS = text(
    "hoodie.bucket.index.partition.expressions",
    "Rules for partitions that have another number of buckets than `hoodie.bucket.index.num.buckets`: "
    "`pattern,buckets;pattern,buckets`. The first regular expression found in the path of a partition counts. A table "
    "stores the rules that its first write has, and those of `Table.rescale_buckets`; they prevail over the options.",
    Scope.BOTH,
    "",
    example=r"^region=(us|eu),64;^region=,8",
)
BUCKET_RULE = choice(
    "hoodie.bucket.index.partition.rule.type",
    "Kind of the rules of `hoodie.bucket.index.partition.expressions`.",
    Scope.BOTH,
    "REGEX",
    ("REGEX",),
)
BUCKET_ENGINE = choice(
    "hoodie.index.bucket.engine",
    "Layout of the buckets of a bucket index. CONSISTENT_HASHING, for merge-on-read tables: the table stores the "
    "buckets of each partition, which `Table.resize_buckets` and clusterings of Apache Hudi split and merge; a read by "
    "record keys opens all of them.",
    Scope.BOTH,
    "SIMPLE",
    ("SIMPLE", "CONSISTENT_HASHING"),
)

MAX_BUCKETS = integer(
    "hoodie.bucket.index.max.num.buckets",
    "Maximum number of buckets per partition with consistent hashing: none are split beyond it. -1: "
    "`hoodie.bucket.index.num.buckets`.",
    Scope.SERVICE,
    -1,
    minimum=-1,
    example="128",
)
MIN_BUCKETS = integer(
    "hoodie.bucket.index.min.num.buckets",
    "Minimum number of buckets per partition with consistent hashing: none are merged below it. -1: "
    "`hoodie.bucket.index.num.buckets`.",
    Scope.SERVICE,
    -1,
    minimum=-1,
    example="8",
)
SPLIT_THRESHOLD = number(
    "hoodie.bucket.index.split.threshold",
    "With consistent hashing, `Table.resize_buckets` splits buckets whose files are larger than this times "
    "`hoodie.parquet.max.file.size`.",
    Scope.SERVICE,
    2.0,
    low=0,
    high=1000,
)
MERGE_THRESHOLD = number(
    "hoodie.bucket.index.merge.threshold",
    "With consistent hashing, `Table.resize_buckets` merges buckets whose files are smaller than this times "
    "`hoodie.parquet.max.file.size`.",
    Scope.SERVICE,
    0.2,
    low=0,
    high=1000,
)

OPTIONS = declared(globals())
