"""Options of Apache Hudi 1.2.0 that are accepted without effect: they tune something that hudi-py does not have, or
belong to a feature that is off."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_py.config import clustering
from hudi_py.config.option import Option, Scope, harmless


@dataclass(frozen=True, slots=True)
class Prefix:
    """A family of keys with a common prefix. All are harmless except those that are declared otherwise."""

    prefix: str
    help: str


PREFIXES = (
    Prefix("hoodie.datasource.hive_sync.batching.", "How the Java implementation registers partitions by HiveQL."),
    *(
        Prefix(f"hoodie.metrics.{reporter}.", "Parameters of a reporter that is refused by its own name.")
        for reporter in ("cloudwatch", "datadog", "graphite", "jmx", "m3")
    ),
    Prefix("hoodie.write.commit.callback.kafka.", "Parameters of a class that is refused by its own name."),
    Prefix("hoodie.write.commit.callback.pulsar.", "Parameters of a class that is refused by its own name."),
    Prefix("hoodie.gcp.bigquery.sync.", "How to sync with BigQuery, which is off."),
    Prefix("hoodie.datahub.", "How to sync with DataHub, which is off."),
    Prefix("hoodie.onehouse.", "How to sync with a service, which is off."),
    Prefix("hoodie.aws.", "Access of the Java implementation to AWS services."),
    Prefix("hoodie.metaserver.", "How to reach the metaserver, which is off."),
    Prefix("hoodie.errortable.", "How error tables are written, which is off."),
    Prefix("hoodie.table.service.manager.", "How to reach the table service manager, which is off."),
    Prefix("hoodie.precommit.validators.", "Parameters of validators, of which there are none."),
    Prefix("hoodie.bootstrap.", "How Spark carries a bootstrap out."),
    Prefix("hoodie.deltastreamer.", "Options of another program, Hudi Streamer."),
    Prefix("hoodie.streamer.", "Options of another program, Hudi Streamer."),
    Prefix("hoodie.bucket.index.", "Parameters of the bucket index."),
    Prefix("hoodie.record.index.", "How the Java implementation looks up keys in the record index."),
    Prefix("hoodie.index.hbase.", "Parameters of the HBase index, which is refused by its own name."),
    Prefix("hoodie.hbase.", "Parameters of the HBase index, which is refused by its own name."),
    Prefix("hoodie.rollback.", "How the Java implementation rolls back."),
    Prefix("hoodie.markers.", "How the Java implementation deletes markers."),
    Prefix("hoodie.write.markers.timeline_server_based.", "The timeline server, which hudi-py does not need."),
    Prefix("hoodie.embed.timeline.", "The timeline server, which hudi-py does not need."),
    Prefix("hoodie.filesystem.", "How the Java implementation lists files and retries."),
    Prefix("hoodie.file.index.", "How the Java implementation plans a query."),
    Prefix("hoodie.datasource.read.file.index.", "How the Java implementation plans a query."),
    Prefix("hoodie.datasource.read.streaming.", "Parameters of streaming reads."),
    Prefix("hoodie.datasource.read.table.valued.function.", "Parameters of Apache Hudi's table functions."),
    Prefix("hoodie.datasource.streaming.", "Parameters of streaming reads."),
    Prefix("hoodie.spark.", "How the Java implementation runs SQL statements."),
    Prefix("hoodie.sql.", "How the Java implementation runs SQL statements."),
    Prefix("hoodie.consistency.check.", "Waiting for object stores that were not consistent."),
    Prefix("hoodie.optimistic.consistency.guard.", "Waiting for object stores that were not consistent."),
    Prefix("hoodie.memory.", "Memory of the Java implementation."),
    Prefix("hoodie.common.", "Memory of the Java implementation."),
    Prefix("hoodie.write.buffer.", "How the Java implementation hands rows between threads."),
    Prefix("hoodie.write.executor.", "How the Java implementation hands rows between threads."),
    Prefix("hoodie.write.lock.hivemetastore.", "Parameters of a lock provider which is refused by its own name."),
    Prefix(
        "hoodie.write.concurrency.",
        "When Apache Hudi's timeline server looks for conflicts; hudi-py looks before each file.",
    ),
    Prefix("hoodie.hfile.", "Parameters of HFile files."),
    Prefix("hoodie.orc.", "How stripes are aligned with the blocks of HDFS."),
    Prefix("hoodie.lance.", "Memory that the Java implementation takes for Lance files."),
    Prefix("hoodie.record.size.", "How the Java implementation estimates the size of a row."),
    Prefix("hoodie.simple.index.", "How the Java implementation runs the simple index."),
    Prefix("hoodie.global.", "How the Java implementation runs indexes over all partitions."),
    Prefix("hoodie.bloom.index.", "How the Java implementation runs the bloom index."),
    Prefix("hoodie.metadata.range.repartition.", "How the Java implementation spreads index records over its tasks."),
    Prefix("hoodie.metadata.repartition.", "How the Java implementation spreads index records over its tasks."),
    Prefix("hoodie.metadata.streaming.write.", "In which order the Java implementation writes to the metadata table."),
    Prefix("hoodie.metadata.table.service.manager.", "How to reach the table service manager, which is off."),
    Prefix("hoodie.metadata.bloom.filter.", "Bloom filters in files of the metadata table, which readers ignore."),
    Prefix("_hoodie.", "Internal to the Java implementation."),
    Prefix("_.hoodie.", "Internal to the Java implementation."),
)


def _all(help: str, scope: Scope, *keys: str) -> tuple[Option[str], ...]:
    return tuple(harmless(key, help, scope) for key in keys)


OPTIONS = (
    *clustering.IGNORED,
    harmless(
        "hoodie.metadata.column.stats.enable",
        "A page of Apache Hudi's documentation names it; no release reads it.",
        Scope.BOTH,
    ),
    harmless(
        "hoodie.payload.combined.schema.validate",
        "Whether the Java implementation compares schemas within MERGE; its tests set it.",
        Scope.BOTH,
    ),
    # catalogs and metrics
    harmless("hoodie.datasource.hive_sync.jdbcurl", "The metastore is reached by its Thrift service.", Scope.SERVICE),
    harmless("hoodie.datasource.hive_sync.username", "The metastore sees the user's own name.", Scope.SERVICE),
    harmless("hoodie.datasource.hive_sync.password", "The metastore is reached without a password.", Scope.SERVICE),
    harmless("hoodie.datasource.hive_sync.base_file_format", "It is a property of the table.", Scope.SERVICE),
    harmless(
        "hoodie.datasource.hive_sync.filter_pushdown_enabled",
        "How the Java implementation requests the partitions that a catalog knows.",
        Scope.SERVICE,
        "hoodie.datasource.hive_sync.filter_pushdown_max_size",
    ),
    harmless(
        "hoodie.datasource.hive_sync.bucket_sync",
        "Java's mode `hms` registers no buckets.",
        Scope.SERVICE,
        "hoodie.datasource.hive_sync.bucket_sync_spec",
    ),
    harmless("hoodie.datasource.meta.sync.base.path", "A table is registered with its own path.", Scope.SERVICE),
    harmless(
        "hoodie.meta.sync.decode_partition",
        "Partitions are found by their values, not by a name that must be decoded.",
        Scope.SERVICE,
    ),
    harmless(
        "hoodie.meta.sync.metadata_file_listing",
        "Partitions are listed from the metadata table where it is valid.",
        Scope.SERVICE,
    ),
    harmless(
        "hoodie.datasource.meta.sync.glue.partition_index_fields",
        "Partition indexes are refused by their own name.",
        Scope.SERVICE,
    ),
    harmless(
        "hoodie.datasource.meta.sync.glue.all_partitions_read_parallelism",
        "How many requests the Java implementation sends at once.",
        Scope.SERVICE,
        "hoodie.datasource.meta.sync.glue.changed_partitions_read_parallelism",
        "hoodie.datasource.meta.sync.glue.partition_change_parallelism",
    ),
    harmless(
        "hoodie.metrics.pushgateway.report.period.seconds",
        "Metrics are pushed after each action.",
        Scope.SERVICE,
    ),
    harmless("hoodie.metrics.executor.enable", "Tasks report no metrics of their own.", Scope.SERVICE),
    *_all(
        "Parallelism of the Java implementation; in hudi-py the data, or Spark, determines it.",
        Scope.WRITE,
        "hoodie.insert.shuffle.parallelism",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.bulkinsert.shuffle.parallelism",
        "hoodie.finalize.write.parallelism",
        "hoodie.file.listing.parallelism",
    ),
    *_all(
        "Parameters of a partitioner class, which is refused by its own name.",
        Scope.WRITE,
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
    ),
    harmless(
        "hoodie.clean.async.enabled",
        "Whether the clean runs in parallel with the write; hudi-py runs it after the commit, once the table lock is "
        "free.",
        Scope.SERVICE,
        "hoodie.clean.async",
        "clean.async.enabled",
    ),
    harmless(
        "hoodie.clean.multiple.enabled",
        "Whether a clean may be planned while another is pending; hudi-py finishes the pending one first.",
        Scope.SERVICE,
        "hoodie.clean.allow.multiple",
    ),
    *_all(
        "Where the Java implementation plans a clean.",
        Scope.SERVICE,
        "hoodie.clean.optimize.using.local.engine.context",
    ),
    *_all(
        "How the Java implementation deletes what it has archived.", Scope.SERVICE, "hoodie.archive.delete.parallelism"
    ),
    *_all(
        "An instant that cannot be archived stays on the active timeline, and archiving fails.",
        Scope.SERVICE,
        "hoodie.fail.on.timeline.archiving",
    ),
    *_all("Services which hudi-py does not run after a write.", Scope.SERVICE, "hoodie.auto.adjust.lock.configs"),
    *_all(
        "How the Java implementation reads logs and writes files when it compacts.",
        Scope.SERVICE,
        "hoodie.compaction.lazy.block.read",
        "hoodie.compaction.reverse.log.read",
        "hoodie.optimized.log.blocks.scan.enable",  # until 0.15
    ),
    *_all(
        "As in Apache Hudi, `hoodie.log.compaction.inline` controls log compaction, and "
        "`hoodie.metadata.log.compaction.enable` that of the metadata table.",
        Scope.SERVICE,
        "hoodie.log.compaction.enable",
    ),
    *_all(
        "How the Java implementation writes and reads the metadata table.",
        Scope.BOTH,
        "hoodie.metadata.clean.async",
        "hoodie.metadata.cleaner.commits.retained",
        "hoodie.metadata.enable.full.scan.log.files",
        "hoodie.metadata.fallback.enable",
        "hoodie.metadata.file.cache.max.size.mb",
        "hoodie.metadata.index.bloom.filter.column.list",
        "hoodie.metadata.index.bloom.filter.parallelism",
        "hoodie.metadata.index.column.stats.inMemory.projection.threshold",
        "hoodie.metadata.index.column.stats.parallelism",
        "hoodie.metadata.index.column.stats.processing.mode.override",
        "hoodie.metadata.index.expression.parallelism",
        "hoodie.metadata.index.partition.stats.parallelism",
        "hoodie.metadata.index.secondary.parallelism",
        "hoodie.metadata.insert.parallelism",
        "hoodie.metadata.keep.max.commits",
        "hoodie.metadata.keep.min.commits",
        "hoodie.metadata.max.init.parallelism",
        "hoodie.metadata.max.logfile.size",
        "hoodie.metadata.max.reader.buffer.size",
        "hoodie.metadata.max.reader.memory",
        "hoodie.metadata.optimized.log.blocks.scan.enable",
        "hoodie.metadata.populate.meta.fields",
        "hoodie.metadata.record.index.enable.validation.on.initialization",
        "hoodie.metadata.record.preparation.parallelism",
        "hoodie.metadata.spillable.map.path",
        "hoodie.metadata.sync.enable",
        "hoodie.metadata.validate",
        "hoodie.metadata.write.concurrency.mode",
        "hoodie.metadata.write.fail.on.table.service.failures",
    ),
    *_all(
        "`partition_stats` goes with `column_stats`, as in Apache Hudi 1.2.0.",
        Scope.BOTH,
        "hoodie.metadata.index.partition.stats.enable",
    ),
    *_all(
        "How the Java implementation reads files.",
        Scope.READ,
        "hoodie.file.group.reader.enabled",
        "hoodie.merge.use.record.positions",
        "hoodie.cdc.file.group.iterator.memory.spill.bytes",
    ),
    *_all("hudi-py writes markers as files.", Scope.WRITE, "hoodie.write.markers.type"),
    *_all(
        "Caching of the Java implementation.",
        Scope.WRITE,
        "hoodie.write.status.storage.level",
        "hoodie.write.tagged.record.storage.level",
        "hoodie.release.resource.on.completion.enable",
    ),
    *_all(
        "Which of its writers the Java implementation uses.",
        Scope.WRITE,
        "hoodie.write.merge.handle.fallback",
        "hoodie.datasource.write.row.writer.enable",
    ),
    harmless(
        "hoodie.datasource.partition_extractor_class",
        "The table's partitioning determines how Apache Hudi takes partition values from paths.",
        Scope.TABLE,
        "hoodie.table.partition_extractor_class",
        unless=("",),
    ),
    *_all(
        "The file system determines this.",
        Scope.WRITE,
        "hoodie.fs.atomic_creation.support",
        "hoodie.time.generator.type",
        "hoodie.write.lock.heartbeat_interval_ms",
        "hoodie.write.lock.num_retries",
        "hoodie.write.lock.wait_time_ms_between_retry",
        "hoodie.write.lock.max_wait_time_ms_between_retry",
    ),
    *_all(
        "Checks and records of the Java implementation.",
        Scope.WRITE,
        "hoodie.base.path",
        "hoodie.avro.schema.validate",
        "hoodie.block.writes.on.speculative.execution",
        "hoodie.fail.job.on.duplicate.data.file.detection",
        "hoodie.merge.data.validation.enabled",
        "hoodie.sensitive.config.keys",
        "hoodie.write.application.id",
        "hoodie.write.can.ignore.post.commit.failures",
        "hoodie.post.commit.failures.ignored",
        "hoodie.write.rolling.metadata.timeline.lookback.commits",
        "hoodie.payload.event.time.field",
    ),
    harmless(
        "hoodie.write.ignore.failed", "A row that cannot be written fails the write.", Scope.WRITE, unless=("", "false")
    ),
    *_all(
        "The size of a row is measured.",
        Scope.WRITE,
        "hoodie.parquet.compression.ratio",
        "hoodie.logfile.to.parquet.compression.ratio",
    ),
    harmless(
        "hoodie.logfile.max.size",
        "A write appends one log file to a file group, regardless of its size.",
        Scope.WRITE,
        unless=("", "1073741824"),
    ),
    # `HoodieRowParquetWriteSupport`, 1.2.0: the schema of the table decides this
    harmless(
        "hoodie.parquet.outputtimestamptype",
        "Timestamps are written in the precision of the table's schema, as by Apache Hudi 1.2.0.",
        Scope.WRITE,
        unless=("", "timestamp_micros"),
    ),
    harmless(
        "hoodie.parquet.writelegacyformat.enabled",
        "Lists have Parquet's current format. The legacy one, which Apache Hudi bulk inserts, breaks its upserts.",
        Scope.WRITE,
        unless=("", "false"),
    ),
    harmless(
        "hoodie.parquet.field_id.write.enabled",
        "Field ids of Spark's columns are not written; readers find columns by their names.",
        Scope.WRITE,
        unless=("", "false"),
    ),
    *_all(
        "Only Flink's writers use it.",
        Scope.WRITE,
        "hoodie.parquet.flink.rowdata.write.support.class",
    ),
    *_all(
        "Where releases make different keys, hudi-py makes keys like those in the table.",
        Scope.WRITE,
        "hoodie.write.complex.keygen.validation.enable",
    ),
    *_all("AWS Glue passes it on to name its connector.", Scope.BOTH, "className", "connectionName"),
)
