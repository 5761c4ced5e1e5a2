"""Options of writes (`DataSourceWriteOptions`, `HoodieWriteConfig`, `HoodieIndexConfig`, `HoodieStorageConfig`,
1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, declared, flag, integer, names, number, optional_choice, text
from hudi_py.model.operation import BOOTSTRAP, Operation

_MB = 1024 * 1024

OPERATION = choice(
    "hoodie.datasource.write.operation",
    "What to do with the rows. `insert_overwrite` replaces the partitions that it writes to, `insert_overwrite_table` "
    "the whole table, as mode `overwrite` does with any of the first three (see `hoodie.datasource.overwrite.mode`). "
    "`delete_partition` deletes the partitions of the rows, or of `hoodie.datasource.write.partitions.to.delete`. "
    "`bootstrap` takes no rows: it makes a table of the files of `hoodie.bootstrap.base.path`.",
    Scope.WRITE,
    "upsert",
    (*(operation.value for operation in Operation), BOOTSTRAP),
    not_built={
        "ALTER_SCHEMA": "change the schema with Table.alter, `hudi-py alter` or ALTER TABLE",
    },
)
OVERWRITE_MODE = choice(
    "hoodie.datasource.overwrite.mode",
    "What mode `overwrite` of `df.write` replaces unless the operation is one that overwrites: with STATIC the whole "
    "table, with DYNAMIC the partitions that it writes to.",
    Scope.WRITE,
    "STATIC",
    ("STATIC", "DYNAMIC"),
)
OVERWRITTEN_PARTITIONS = names(
    "hoodie.static.overwrite.partition.paths",
    "Paths of the partitions that `insert_overwrite` replaces, instead of those that it writes to.",
    Scope.WRITE,
    example="city=oslo,city=lima",
)
DELETED_PARTITIONS = names(
    "hoodie.datasource.write.partitions.to.delete",
    "Paths of the partitions that `delete_partition` deletes, instead of those of the rows; `*` matches any text.",
    Scope.WRITE,
    example="city=oslo,city=l*",
)
COMBINE_BEFORE_INSERT = flag(
    "hoodie.combine.before.insert",
    "Whether an insert keeps only one row per key of the data.",
    Scope.WRITE,
    False,
)
COMBINE_BEFORE_UPSERT = flag(
    "hoodie.combine.before.upsert",
    "Whether an upsert keeps only one row per key of the data.",
    Scope.WRITE,
    True,
)
COMBINE_BEFORE_DELETE = flag(
    "hoodie.combine.before.delete",
    "Whether a delete keeps only one row per key of the data.",
    Scope.WRITE,
    True,
)
ALLOW_DUPLICATES_ON_INSERT = flag(
    "hoodie.merge.allow.duplicate.on.inserts",
    "Whether an insert that fills a small file may add a key that the file already holds; otherwise it updates the "
    "row.",
    Scope.WRITE,
    True,
)
INSERT_DUPLICATES = choice(
    "hoodie.datasource.insert.dup.policy",
    "What an insert does with rows whose key the table has: keep them (none), leave them out (drop) or fail with a "
    "DuplicateKeyError (fail). With drop and fail the keys are looked up, and `upsert` becomes `insert`. Rows of the "
    "data with equal keys are all kept unless `hoodie.combine.before.insert` is set. `bulk_insert` looks up no keys: "
    "drop is refused, fail has no effect, as in Apache Hudi.",
    Scope.WRITE,
    "none",
    ("none", "drop", "fail"),
)
DROP_DUPLICATES = flag(
    "hoodie.datasource.write.insert.drop.duplicates",
    "The older form of `hoodie.datasource.insert.dup.policy=drop`, unless that is `fail`. Also turns "
    "`hoodie.combine.before.insert` on, unless that is given.",
    Scope.WRITE,
    False,
)
ALLOW_EMPTY_COMMIT = flag(
    "hoodie.allow.empty.commit", "Whether a write without rows makes a commit.", Scope.WRITE, True
)
SET_NULL_FOR_MISSING_COLUMNS = flag(
    "hoodie.write.set.null.for.missing.columns",
    "Whether columns of the table that the data lacks become null; otherwise such data is refused. Key and partition "
    "columns, and columns that are not nullable, must always be there.",
    Scope.WRITE,
    False,
)
PARTIAL_UPSERT = flag(
    "hoodie.py.write.partial.updates",
    "Whether an upsert sets only the columns of the data, and known rows keep the values of the others. In new rows "
    "these are null. The data needs the columns of the record key, the partition and, if the greatest ordering value "
    "wins, the ordering fields. Same as `Table.upsert(..., partial=True)`.",
    Scope.WRITE,
    False,
)
MERGE_INTO_PARTIAL_UPDATES = flag(
    "hoodie.spark.sql.merge.into.partial.updates",
    "Whether a merge that updates some columns of a merge-on-read table of version 8 or 9 logs only these. Not with a "
    "global index, nor in tables that merge by partial updates or a payload class; there it logs whole rows. The "
    "default of Apache Hudi is `true`, whose queries with filters lose rows after such merges.",
    Scope.WRITE,
    False,
)
RECONCILE_SCHEMA = flag(
    "hoodie.datasource.write.reconcile.schema",
    "As `hoodie.write.set.null.for.missing.columns`. Together with `hoodie.schema.on.read.enable`, a write makes the "
    "table's schema evolve on read.",
    Scope.WRITE,
    False,
)
SCHEMA_ON_READ = flag(
    "hoodie.schema.on.read.enable",
    "Whether `Table.alter`, and `ALTER TABLE`, may make the schema of a table evolve on read: its columns then have "
    "ids, so that they can be renamed and dropped. There is no way back, and Apache Hudi reads such a table correctly "
    "only with this option. Tables whose schema evolves on read are read and written as such without it.",
    Scope.WRITE,
    False,
)
BULK_INSERT_SORT_MODE = choice(
    "hoodie.bulkinsert.sort.mode",
    "Whether a bulk insert sorts the rows of each partition by record key: GLOBAL_SORT and PARTITION_SORT do, the "
    "other modes keep the order. `df.write` sorts only within each task; `write_table` first shuffles the rows, by "
    "ranges of partition and key, or for the PARTITION_PATH modes by partition.",
    Scope.WRITE,
    "NONE",
    ("NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"),
)
WIDEN_COLUMNS = flag(
    "hoodie.py.write.widen.columns",
    "Whether a column of the table becomes floating point, or text, if the data has such values, as in Apache Hudi. "
    "The change is permanent, and digits of large integers may be lost. Otherwise values are converted to the table's "
    "type if that is exact, and refused if not. Widening within integers, within floating-point types and within "
    "decimals needs no option.",
    Scope.WRITE,
    False,
)
COMMIT_METADATA_PREFIX = text(
    "hoodie.datasource.write.commitmeta.key.prefix",
    "Options whose keys begin with this prefix are stored in the commit's extra metadata.",
    Scope.WRITE,
    "_",
    example="job.",
)
INDEX_TYPE = choice(
    "hoodie.index.type",
    "How to find the file group of a key. SIMPLE and BLOOM look into the base files of the row's partition, "
    "RECORD_LEVEL_INDEX into the record index of that partition. GLOBAL_SIMPLE and GLOBAL_BLOOM look into the base "
    "files of all partitions, GLOBAL_RECORD_LEVEL_INDEX (or RECORD_INDEX) into the record index over all partitions, "
    "and they find a key in any of them; see `hoodie.simple.index.update.partition.path`. With BUCKET nothing is "
    "looked up: the hash of a key chooses one of `hoodie.bucket.index.num.buckets` file groups in the row's partition; "
    "give both options for every write of such a table.",
    Scope.WRITE,
    "SIMPLE",
    (
        *("SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM"),
        *("GLOBAL_RECORD_LEVEL_INDEX", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "BUCKET"),
    ),
    not_built=dict.fromkeys(
        ("INMEMORY", "FLINK_STATE", "HBASE"), "it belongs to another engine or to a removed service"
    ),
)
SIMPLE_INDEX_UPDATE_PARTITION = flag(
    "hoodie.simple.index.update.partition.path",
    "With GLOBAL_SIMPLE: whether an upserted row moves to its own partition if its key is in another one; otherwise it "
    "is written where the key is.",
    Scope.WRITE,
    True,
)
BLOOM_INDEX_UPDATE_PARTITION = flag(
    "hoodie.bloom.index.update.partition.path",
    "With GLOBAL_BLOOM: whether an upserted row moves to its own partition if its key is in another one; otherwise it "
    "is written where the key is.",
    Scope.WRITE,
    True,
)
RECORD_INDEX_UPDATE_PARTITION = flag(
    "hoodie.record.index.update.partition.path",
    "With GLOBAL_RECORD_LEVEL_INDEX: whether an upserted row moves to its own partition if its key is in another one; "
    "otherwise it is written where the key is.",
    Scope.WRITE,
    False,
)
BLOOM_FPP = number(
    "hoodie.index.bloom.fpp",
    "False-positive rate of the bloom filter in a base file's footer.",
    Scope.WRITE,
    1e-9,
    low=1e-15,
    high=0.5,
)
BLOOM_NUM_ENTRIES = integer(
    "hoodie.index.bloom.num_entries",
    "Initial number of keys that the bloom filter of a base file is sized for. Left out, one of fewer keys is as "
    "large as these need. Apache Hudi's clustering by binary copy needs the same number in all files.",
    Scope.WRITE,
    60000,
    minimum=1,
    unit="keys",
)
BLOOM_MAX_ENTRIES = integer(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    "Number of keys up to which a dynamic bloom filter grows.",
    Scope.WRITE,
    100000,
    minimum=1,
    unit="keys",
)
BLOOM_TYPE = choice(
    "hoodie.bloom.index.filter.type",
    "Type of the bloom filter in a base file's footer.",
    Scope.WRITE,
    "DYNAMIC_V0",
    ("DYNAMIC_V0", "SIMPLE"),
)
BLOOM_ENABLED = flag(
    "hoodie.parquet.bloom.filter.enabled",
    "Whether base files have a bloom filter of their keys; with the bloom index they always do.",
    Scope.WRITE,
    True,
)
BLOOM_PRUNE_BY_RANGES = flag(
    "hoodie.bloom.index.prune.by.ranges",
    "Whether the bloom index looks only into files whose key range contains the key.",
    Scope.WRITE,
    True,
)
SMALL_FILE_LIMIT = integer(
    "hoodie.parquet.small.file.limit",
    "Base files smaller than this take inserts of the next write; 0: none do.",
    Scope.WRITE,
    100 * _MB,
    unit="bytes",
)
MAX_FILE_SIZE = integer(
    "hoodie.parquet.max.file.size",
    "Size at which a base file is full.",
    Scope.WRITE,
    120 * _MB,
    minimum=1,
    unit="bytes",
)
BLOCK_SIZE = integer(
    "hoodie.parquet.block.size",
    "Size of a base file's row groups.",
    Scope.WRITE,
    120 * _MB,
    minimum=1,
    unit="bytes",
)
PAGE_SIZE = integer(
    "hoodie.parquet.page.size",
    "Size of a base file's pages, which are compressed and decoded as a whole, and of its dictionaries.",
    Scope.WRITE,
    _MB,
    minimum=1,
    unit="bytes",
)
DICTIONARY = flag(
    "hoodie.parquet.dictionary.enabled",
    "Whether base files have dictionaries for columns with few distinct values.",
    Scope.WRITE,
    True,
)
COMPRESSION_CODEC = choice(
    "hoodie.parquet.compression.codec",
    "Compression of base files. Apache Hudi's default is `gzip`, which takes twice as long to write and to read.",
    Scope.WRITE,
    "zstd",
    ("gzip", "snappy", "zstd", "brotli", "lz4_raw", "uncompressed"),
    not_built=dict.fromkeys(("LZO", "LZ4"), "Arrow writes no such files; lz4_raw is the form that replaced lz4"),
)
ORC_MAX_FILE_SIZE = integer(
    "hoodie.orc.max.file.size",
    "Size at which an ORC base file is full.",
    Scope.WRITE,
    120 * _MB,
    minimum=1,
    unit="bytes",
)
ORC_STRIPE_SIZE = integer(
    "hoodie.orc.stripe.size",
    "Size of the stripes of ORC base files, which is also about the memory that writing one takes.",
    Scope.WRITE,
    64 * _MB,
    minimum=1,
    unit="bytes",
)
ORC_CODEC = choice(
    "hoodie.orc.compression.codec",
    "Compression of ORC base files.",
    Scope.WRITE,
    "ZLIB",
    ("ZLIB", "SNAPPY", "ZSTD", "LZ4", "NONE"),
    not_built={"LZO": "Arrow writes no such files"},
)
LANCE_MAX_FILE_SIZE = integer(
    "hoodie.lance.max.file.size",
    "Size of the rows in memory at which a Lance base file is full.",
    Scope.WRITE,
    120 * _MB,
    minimum=1,
    unit="bytes",
)
LOG_BLOCK_MAX_SIZE = integer(
    "hoodie.logfile.data.block.max.size",
    "Size at which a log block is full.",
    Scope.WRITE,
    256 * _MB,
    minimum=1,
    unit="bytes",
)
RECORD_POSITIONS = flag(
    "hoodie.write.record.positions",
    "Whether log blocks record which rows of the base file they change, so that readers merge several times as fast. "
    "They do so in table versions 8 and 9 with the index SIMPLE or BLOOM.",
    Scope.WRITE,
    True,
)
LOG_BLOCK_FORMAT = optional_choice(
    "hoodie.logfile.data.block.format",
    "Format of the data blocks in log files: Avro, the default, or Parquet, compressed as base files are.",
    Scope.WRITE,
    ("avro", "parquet"),
    not_built={"HFILE": "Apache Hudi reads such blocks in metadata tables only"},
)
RECORD_SIZE_ESTIMATE = integer(
    "hoodie.copyonwrite.record.size.estimate",
    "Assumed size of a row in a base file, until a commit shows the real one.",
    Scope.WRITE,
    1024,
    minimum=1,
    unit="bytes",
)
RECORD_SIZE_THRESHOLD = number(
    "hoodie.record.size.estimation.threshold",
    "A commit counts for the size of a row if it wrote more than this fraction of the small-file limit.",
    Scope.WRITE,
    1.0,
    low=0.0,
    high=1000.0,
)
INSERT_AUTO_SPLIT = flag(
    "hoodie.copyonwrite.insert.auto.split",
    "Whether new base files are sized by the observed size of a row, instead of by `insert.split.size`.",
    Scope.WRITE,
    True,
)
INSERT_SPLIT_SIZE = integer(
    "hoodie.copyonwrite.insert.split.size",
    "Rows per new base file if files are not sized automatically.",
    Scope.WRITE,
    500000,
    minimum=1,
    unit="rows",
)
SMALL_FILE_CANDIDATES = integer(
    "hoodie.merge.small.file.group.candidates.limit",
    "Merge-on-read: maximum number of small file groups per partition that take inserts; 0: none.",
    Scope.WRITE,
    1,
    unit="file groups",
)
DROP_INDEXES = flag(
    "hoodie.py.drop.indexes",
    "Whether a write may drop indexes: those that hudi-py cannot keep up to date, or all if it drops the metadata "
    "table. Otherwise such a write is refused.",
    Scope.WRITE,
    False,
)
LOCAL_MAX_BYTES = integer(
    "hoodie.py.local.max.bytes",
    "Through Spark, one process does a write by `write_table` (or by `df.write` after `enable`), an update, delete or "
    "merge if its rows, with what it reads and rewrites of the table, take no more than this: the steps between tasks "
    "would take longer. Otherwise Spark's tasks do it.",
    Scope.WRITE,
    256 * _MB,
    minimum=0,
    unit="bytes",
    aliases=("hoodie.py.statement.local.max.bytes",),
)
STAGING_MAX_BYTES = integer(
    "hoodie.py.staging.max.bytes",
    "Through `df.write` one process merges the rows that Spark's tasks stage for it. If they take more than this, it "
    "merges them part by part through its local disk, and warns that `write_table` would spread the work.",
    Scope.WRITE,
    2048 * _MB,
    minimum=1,
    unit="bytes",
)
DURABLE = flag(
    "hoodie.py.write.durable",
    "Local file systems: whether a write or table service returns only once everything that it wrote is on disk. Its "
    "files get there before the file that completes it, so that a power failure leaves the table as it was before or "
    "after. `false` is faster for many small commits, but a power failure may then damage the table.",
    Scope.WRITE,
    True,
)
WRITE_THREADS = integer(
    "hoodie.py.write.threads",
    "Number of threads that write file groups in parallel; 0: one per core.",
    Scope.WRITE,
    0,
    unit="threads",
    example="8",
)
WRITE_MEMORY = integer(
    "hoodie.py.write.memory.max.bytes",
    "Memory that a write in one process takes for rows. Inserts, upserts and statements keep half of it for rows that "
    "wait for their files, and spill the others to the local disk. A bulk insert collects row groups in it; if rows of "
    "so many partitions come at once that their row groups would take more, it makes smaller ones. What the data is "
    "read with, the files of the table that an upsert reads, and Python with its libraries (150 MB) come on top. A "
    "task of Spark takes at most 512 MB.",
    Scope.WRITE,
    1024 * _MB,
    minimum=1,
    unit="bytes",
)

OPTIONS = declared(globals())
