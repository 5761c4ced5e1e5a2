"""Options of the metadata table, its indexes, and bucket indexes.

`HoodieMetadataConfig`, `HoodieIndexConfig` and `DataSourceReadOptions`, 1.2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.config.option import Scope, choice, declared, flag, integer, names, number, optional_text, pairs, text
from hudi_py.errors import ConfigError

if TYPE_CHECKING:
    from hudi_py.config.options import Options

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

READ_OPTIONS = declared(globals())


METADATA_AUTO_INITIALIZE = flag(
    "hoodie.metadata.auto.initialize",
    "Whether a metadata table that is created for an existing table lists its files. With `false` it starts empty, "
    "which is refused for a table that has commits, because readers would miss their files.",
    Scope.WRITE,
    True,
)
METADATA_DIRECTORY_FILTER = text(
    "hoodie.metadata.dir.filter.regex",
    "Folders whose path below the table matches this regular expression are left out when the metadata table is built "
    "from a listing of the storage.",
    Scope.WRITE,
    "",
    example="staging.*",
)
METADATA_AUTO_DELETE_PARTITIONS = flag(
    "hoodie.metadata.auto.delete.partitions",
    "Whether a write drops an index whose option it sets to `false`, and the metadata table with "
    "`hoodie.metadata.enable=false`. An index whose option is not set stays up to date. With `false` here, indexes "
    "stay up to date until they are dropped by name.",
    Scope.WRITE,
    True,
)

INDEX_ASYNC = flag(
    "hoodie.metadata.index.async",
    "Whether writes leave the building of indexes to the service `indexing`, which builds them beside writers. Writes "
    "keep indexes up to date that exist or are being built. The listing of files is still made by the first write.",
    Scope.WRITE,
    False,
)
INDEX_CHECK_TIMEOUT = integer(
    "hoodie.metadata.index.check.timeout.seconds",
    "How many seconds the service `indexing` waits until no write of Apache Hudi is under way, which may not know of a "
    "new index, before it gives up. Writes of hudi-py are not waited for.",
    Scope.SERVICE,
    900,
    minimum=0,
)

COLUMN_STATS = flag(
    "hoodie.metadata.index.column.stats.enable",
    "Whether the metadata table has the ranges of the columns of each file (`column_stats`) and, in partitioned "
    "tables of version 8 and later, of each partition (`partition_stats`).",
    Scope.WRITE,
    True,
)
COLUMN_STATS_FILE_GROUPS = integer(
    "hoodie.metadata.index.column.stats.file.group.count",
    "Number of file groups of `column_stats` when it is created.",
    Scope.WRITE,
    2,
    minimum=1,
)
COLUMN_STATS_COLUMNS = names(
    "hoodie.metadata.index.column.stats.column.list",
    "Columns whose ranges are stored, besides the meta columns. Default: the table's first columns.",
    Scope.WRITE,
    example="ts,fare",
)
COLUMN_STATS_MAX_COLUMNS = integer(
    "hoodie.metadata.index.column.stats.max.columns.to.index",
    "How many of the table's first columns have their ranges stored if no columns are named.",
    Scope.WRITE,
    32,
)
PARTITION_STATS_FILE_GROUPS = integer(
    "hoodie.metadata.index.partition.stats.file.group.count",
    "Number of file groups of `partition_stats` when it is created.",
    Scope.WRITE,
    1,
    minimum=1,
)
BLOOM_FILTERS = flag(
    "hoodie.metadata.index.bloom.filter.enable",
    "Whether the metadata table has the bloom filters of the base files (`bloom_filters`).",
    Scope.WRITE,
    False,
)
BLOOM_FILTERS_FILE_GROUPS = integer(
    "hoodie.metadata.index.bloom.filter.file.group.count",
    "Number of file groups of `bloom_filters` when it is created.",
    Scope.WRITE,
    4,
    minimum=1,
)
GLOBAL_RECORD_INDEX = flag(
    "hoodie.metadata.global.record.level.index.enable",
    "Whether the metadata table has the location of every record by its key (`record_index`), over all partitions.",
    Scope.WRITE,
    False,
    aliases=("hoodie.metadata.record.index.enable",),
)
RECORD_INDEX = flag(
    "hoodie.metadata.record.level.index.enable",
    "Whether the metadata table has the location of every record by its partition and key (`record_index`).",
    Scope.WRITE,
    False,
)
SECONDARY_INDEX = flag(
    "hoodie.metadata.index.secondary.enable",
    "With `false`, a write drops the secondary indexes of the table; otherwise it keeps them up to date.",
    Scope.WRITE,
    True,
)
SECONDARY_INDEX_COLUMN = text(
    "hoodie.metadata.index.secondary.column",
    "A column, or `struct.field`, for which writes make a secondary index once the table has a commit and a record "
    "index. `hoodie.index.name` names it; by default it has the name of the column.",
    Scope.WRITE,
    "",
    example="driver",
)
EXPRESSION_INDEX = flag(
    "hoodie.metadata.index.expression.enable",
    "With `false`, a write drops the expression indexes of the table; otherwise it keeps them up to date.",
    Scope.WRITE,
    True,
)
EXPRESSION_INDEX_FILE_GROUPS = integer(
    "hoodie.metadata.index.expression.file.group.count",
    "Number of file groups of an expression index when it is created.",
    Scope.WRITE,
    2,
    minimum=1,
)
EXPRESSION_INDEX_COLUMN = text(
    "hoodie.metadata.index.expression.column",
    "A column, or `struct.field`, for which writes make an expression index once the table has a commit, unless it "
    "already has one with the function that `hoodie.metadata.index.expression.options` names. `hoodie.index.name` "
    "names it; by default it has the name of the column.",
    Scope.WRITE,
    "",
    example="ts",
)
EXPRESSION_INDEX_OPTIONS = pairs(
    "hoodie.metadata.index.expression.options",
    "The function and the options of the index that `hoodie.metadata.index.expression.column` requests.",
    Scope.WRITE,
    example="expr=from_unixtime,format=yyyy-MM-dd",
)
EXPRESSION_INDEX_TYPE = choice(
    "hoodie.expression.index.type",
    "Whether that index has ranges or bloom filters.",
    Scope.WRITE,
    "COLUMN_STATS",
    ("COLUMN_STATS", "BLOOM_FILTERS"),
)
EXPRESSION_INDEX_ZONE = optional_text(
    "hoodie.py.expression.index.timezone",
    "The time zone for times in functions of expression indexes. It must be that of the Spark sessions that write the "
    "table, because neither the table nor the index stores it. By default writes use UTC, and reads use no index "
    "whose values depend on the zone. Reads use them if it is `UTC`, the zone of filters.",
    Scope.BOTH,
    example="UTC",
)
INDEX_NAME = text(
    "hoodie.index.name",
    "The name of the index that `hoodie.metadata.index.secondary.column` requests.",
    Scope.WRITE,
    "",
    example="by_driver",
)
DROP_INDEX = text(
    "hoodie.metadata.index.drop",
    "The partition of the metadata table that a write drops, such as `secondary_index_city` or `record_index`, with "
    "those that depend on it.",
    Scope.WRITE,
    "",
    example="secondary_index_by_driver",
)
GLOBAL_RECORD_INDEX_MIN_GROUPS = integer(
    "hoodie.metadata.global.record.level.index.min.filegroup.count",
    "Minimum number of file groups of a global record index when it is created.",
    Scope.WRITE,
    10,
    minimum=1,
    aliases=("hoodie.metadata.record.index.min.filegroup.count",),
)
GLOBAL_RECORD_INDEX_MAX_GROUPS = integer(
    "hoodie.metadata.global.record.level.index.max.filegroup.count",
    "Maximum number of file groups of a global record index when it is created.",
    Scope.WRITE,
    10000,
    minimum=1,
    aliases=("hoodie.metadata.record.index.max.filegroup.count",),
)
RECORD_INDEX_MIN_GROUPS = integer(
    "hoodie.metadata.record.level.index.min.filegroup.count",
    "Minimum number of file groups for each partition of a partitioned record index; new partitions get this many.",
    Scope.WRITE,
    1,
    minimum=1,
    aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
)
RECORD_INDEX_MAX_GROUPS = integer(
    "hoodie.metadata.record.level.index.max.filegroup.count",
    "Maximum number of file groups for each partition of a partitioned record index when it is created.",
    Scope.WRITE,
    10,
    minimum=1,
    aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
)
RECORD_INDEX_MAX_GROUP_BYTES = integer(
    "hoodie.metadata.record.index.max.filegroup.size",
    "Target maximum size of a file group of the record index; larger indexes get more file groups.",
    Scope.WRITE,
    1024 * 1024 * 1024,
    minimum=1,
    unit="bytes",
)
RECORD_INDEX_GROWTH = number(
    "hoodie.metadata.record.index.growth.factor",
    "Expected growth of the number of records, for choosing the number of file groups of the record index.",
    Scope.WRITE,
    2.0,
    low=0.001,
    high=1e9,
)
DEFER_RECORD_INDEX = flag(
    "hoodie.metadata.record.level.index.defer.init",
    "Whether the record index of a table without commits is created by the second write, when its size can be "
    "estimated better.",
    Scope.WRITE,
    False,
)

METADATA_COMPACT_DELTA_COMMITS = integer(
    "hoodie.metadata.compact.max.delta.commits",
    "Number of commits after which the metadata table is compacted.",
    Scope.WRITE,
    10,
    minimum=1,
)
METADATA_COMPACT_DELTA_SECONDS = integer(
    "hoodie.metadata.compact.max.delta.seconds",
    "Time after which the metadata table is compacted, if its trigger strategy uses the time.",
    Scope.WRITE,
    7200,
    minimum=1,
    unit="seconds",
)
METADATA_COMPACT_TRIGGER = choice(
    "hoodie.metadata.compact.trigger.strategy",
    "When a compaction of the metadata table is due.",
    Scope.WRITE,
    "NUM_COMMITS",
    (
        "NUM_COMMITS",
        "NUM_COMMITS_AFTER_LAST_REQUEST",
        "TIME_ELAPSED",
        "NUM_AND_TIME",
        "NUM_OR_TIME",
    ),
)
METADATA_LOG_COMPACTION = flag(
    "hoodie.metadata.log.compaction.enable",
    "Whether small log blocks of the metadata table are merged between compactions.",
    Scope.WRITE,
    False,
)
METADATA_LOG_COMPACTION_BLOCKS = integer(
    "hoodie.metadata.log.compaction.blocks.threshold",
    "Number of log blocks from which a file group of the metadata table is log-compacted.",
    Scope.WRITE,
    5,
    minimum=1,
)
METADATA_DERIVE_CLEAN_POLICY = flag(
    "hoodie.metadata.derive.from.datatable.clean.policy",
    "Whether the metadata table cleans its old files by the table's own cleaning policy.",
    Scope.WRITE,
    True,
)
METADATA_MAX_DELTA_COMMITS_WHEN_PENDING = integer(
    "hoodie.metadata.max.deltacommits.when_pending",
    "Maximum number of commits that the metadata table may have without a compaction while a write or table service "
    "is pending.",
    Scope.WRITE,
    1000,
    minimum=1,
)

METADATA_OPTIONS = declared(globals(), READ_OPTIONS)


def check_metadata(options: Options) -> None:
    """Raises ConfigError if the options ask for both kinds of record index, or if limits contradict each other."""
    if options.get(GLOBAL_RECORD_INDEX) and options.get(RECORD_INDEX):
        raise ConfigError(
            f"Cannot keep two record indexes: {GLOBAL_RECORD_INDEX.key} and {RECORD_INDEX.key} are both true; set only "
            "one of them"
        )
    for fewest, most in (
        (GLOBAL_RECORD_INDEX_MIN_GROUPS, GLOBAL_RECORD_INDEX_MAX_GROUPS),
        (RECORD_INDEX_MIN_GROUPS, RECORD_INDEX_MAX_GROUPS),
    ):
        if options.get(fewest) > options.get(most):
            raise ConfigError(
                f"Cannot size the record index: the minimum of {options.get(fewest)} file groups exceeds the maximum "
                f"of {options.get(most)}"
            )
