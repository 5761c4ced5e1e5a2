"""Options of Apache Hudi 1.2.0 which are accepted and change nothing: they tune machinery which hudi-py does not have,
or parameters of a feature that is off."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_py.config.option import Option, Scope, harmless


@dataclass(frozen=True, slots=True)
class Prefix:
    """A family of keys, all of them harmless unless a key of it is declared otherwise."""

    prefix: str
    help: str


PREFIXES = (
    Prefix("hoodie.datasource.hive_sync.", "How to sync with the Hive metastore, which is off."),
    Prefix("hoodie.datasource.meta_sync.", "How to sync with catalogs, which is off."),
    Prefix("hoodie.datasource.meta.sync.", "How to sync with catalogs, which is off."),
    Prefix("hoodie.meta.sync.", "How to sync with catalogs, which is off."),
    Prefix("hoodie.meta_sync.", "How to sync with catalogs, which is off."),
    Prefix("hoodie.gcp.bigquery.sync.", "How to sync with BigQuery, which is off."),
    Prefix("hoodie.datahub.", "How to sync with DataHub, which is off."),
    Prefix("hoodie.onehouse.", "How to sync with a service, which is off."),
    Prefix("hoodie.aws.", "Access of the Java implementation to AWS services."),
    Prefix("hoodie.metrics.", "Where metrics are reported to, which is off."),
    Prefix("hoodie.metricscompaction.", "Where metrics are reported to, which is off."),
    Prefix("hoodie.metaserver.", "How to reach the metaserver, which is off."),
    Prefix("hoodie.errortable.", "How error tables are written, which is off."),
    Prefix("hoodie.table.service.manager.", "How to reach the table service manager, which is off."),
    Prefix("hoodie.write.commit.callback.", "Where commits are reported to, which is off."),
    Prefix("hoodie.precommit.validators.", "Parameters of validators, of which there are none."),
    Prefix("hoodie.bootstrap.", "How a table is bootstrapped, which is off."),
    Prefix("hoodie.deltastreamer.", "Options of another program, Hudi Streamer."),
    Prefix("hoodie.streamer.", "Options of another program, Hudi Streamer."),
    Prefix("hoodie.keygen.timebased.", "Parameters of the timestamp key generator, which is refused by its own name."),
    Prefix("hoodie.bucket.index.", "Parameters of the bucket index, which is refused by its own name."),
    Prefix("hoodie.index.bucket.", "Parameters of the bucket index, which is refused by its own name."),
    Prefix("hoodie.record.index.", "How the Java implementation looks keys up in the record index."),
    Prefix("hoodie.index.hbase.", "Parameters of the HBase index, which is refused by its own name."),
    Prefix("hoodie.hbase.", "Parameters of the HBase index, which is refused by its own name."),
    Prefix("hoodie.expression.index.", "Parameters of expression indexes, which are refused by their own name."),
    Prefix("hoodie.clustering.", "Parameters of clustering, which is off."),
    Prefix("hoodie.layout.optimize.", "Parameters of clustering, which is off."),
    Prefix("hoodie.partition.ttl.", "Parameters of dropping old partitions, which is off."),
    Prefix("hoodie.rollback.", "How the Java implementation rolls back."),
    Prefix("hoodie.markers.", "How the Java implementation deletes markers."),
    Prefix("hoodie.write.markers.timeline_server_based.", "The timeline server, which hudi-py does not need."),
    Prefix("hoodie.embed.timeline.", "The timeline server, which hudi-py does not need."),
    Prefix("hoodie.filesystem.", "How the Java implementation lists files and tries again."),
    Prefix("hoodie.file.index.", "How the Java implementation plans a query."),
    Prefix("hoodie.datasource.read.file.index.", "How the Java implementation plans a query."),
    Prefix("hoodie.datasource.read.streaming.", "Parameters of streaming reads."),
    Prefix("hoodie.datasource.read.table.valued.function.", "Parameters of Apache Hudi's table functions."),
    Prefix("hoodie.datasource.streaming.", "Parameters of streaming reads."),
    Prefix("hoodie.datasource.write.streaming.", "Parameters of streaming writes."),
    Prefix("hoodie.spark.", "How the Java implementation runs SQL statements."),
    Prefix("hoodie.sql.", "How the Java implementation runs SQL statements."),
    Prefix("hoodie.consistency.check.", "Waiting for object stores which were not consistent."),
    Prefix("hoodie.optimistic.consistency.guard.", "Waiting for object stores which were not consistent."),
    Prefix("hoodie.memory.", "Memory of the Java implementation."),
    Prefix("hoodie.common.", "Memory of the Java implementation."),
    Prefix("hoodie.write.buffer.", "How the Java implementation hands rows between threads."),
    Prefix("hoodie.write.executor.", "How the Java implementation hands rows between threads."),
    Prefix("hoodie.write.lock.zookeeper.", "Parameters of a lock provider which is refused by its own name."),
    Prefix("hoodie.write.lock.hivemetastore.", "Parameters of a lock provider which is refused by its own name."),
    Prefix("hoodie.write.lock.dynamodb.", "Parameters of a lock provider which is refused by its own name."),
    Prefix("hoodie.write.lock.storage.", "Parameters of a lock provider which is refused by its own name."),
    Prefix(
        "hoodie.write.concurrency.", "Parameters of several writers at a time, which are refused by their own name."
    ),
    Prefix("hoodie.hfile.", "Parameters of HFile files."),
    Prefix("hoodie.orc.", "Parameters of ORC files."),
    Prefix("hoodie.lance.", "Parameters of Lance files."),
    Prefix("hoodie.record.size.", "How the Java implementation estimates the size of a row."),
    Prefix("hoodie.simple.index.", "How the Java implementation runs the simple index."),
    Prefix("hoodie.global.", "How the Java implementation runs indexes over all partitions."),
    Prefix("hoodie.bloom.index.", "How the Java implementation runs the bloom index."),
    Prefix(
        "hoodie.metadata.",
        "How the Java implementation works on the metadata table, which speeds queries up and changes no result.",
    ),
    Prefix("_hoodie.", "Internal to the Java implementation."),
    Prefix("_.hoodie.", "Internal to the Java implementation."),
)
_PARALLELISM = "Parallelism of the Java implementation; here it is that of the rows given, or of Spark."
_STORAGE_LEVEL = "Caching of the Java implementation."
_HANDLE = "A class of the Java implementation."


def _all(help: str, scope: Scope, *keys: str) -> tuple[Option[str], ...]:
    return tuple(harmless(key, help, scope) for key in keys)


OPTIONS = (
    *_all(
        _PARALLELISM,
        Scope.WRITE,
        "hoodie.insert.shuffle.parallelism",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.bulkinsert.shuffle.parallelism",
        "hoodie.finalize.write.parallelism",
        "hoodie.file.listing.parallelism",
    ),
    *_all(
        "How the Java implementation sorts a bulk insert; here rows stay in their order.",
        Scope.WRITE,
        "hoodie.bulkinsert.sort.mode",
        "hoodie.bulkinsert.sort.suffix.record_key",
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
    ),
    harmless(
        "hoodie.clean.async.enabled",
        "Whether the clean runs beside the write; here it runs after the commit, once the table lock is free.",
        Scope.SERVICE,
        "hoodie.clean.async",
        "clean.async.enabled",
    ),
    harmless(
        "hoodie.clean.multiple.enabled",
        "Whether a clean may be planned while another is pending; here the pending one is finished first.",
        Scope.SERVICE,
        "hoodie.clean.allow.multiple",
    ),
    *_all(
        "Where the Java implementation plans a clean.",
        Scope.SERVICE,
        "hoodie.clean.optimize.using.local.engine.context",
    ),
    *_all(
        "How the Java implementation deletes what it has archived.",
        Scope.SERVICE,
        "hoodie.archive.delete.parallelism",
    ),
    *_all(
        "An instant that cannot be archived stays on the active timeline, and archiving fails.",
        Scope.SERVICE,
        "hoodie.fail.on.timeline.archiving",
    ),
    *_all(
        "Services which hudi-py does not run after a write.",
        Scope.SERVICE,
        "hoodie.auto.adjust.lock.configs",
    ),
    *_all(
        "How the Java implementation reads logs and writes files when it compacts.",
        Scope.SERVICE,
        "hoodie.compact.merge.handle.class",
        "hoodie.compaction.lazy.block.read",
        "hoodie.compaction.reverse.log.read",
    ),
    *_all(
        "Log compaction follows `hoodie.log.compaction.inline`, that of the metadata table "
        "`hoodie.metadata.log.compaction.enable`, as in Apache Hudi.",
        Scope.SERVICE,
        "hoodie.log.compaction.enable",
    ),
    *_all(
        "How the Java implementation reads files.",
        Scope.READ,
        "hoodie.file.group.reader.enabled",
        "hoodie.merge.use.record.positions",
        "hoodie.cdc.file.group.iterator.memory.spill.bytes",
    ),
    *_all(
        "hudi-py writes markers as files.",
        Scope.WRITE,
        "hoodie.write.markers.type",
    ),
    *_all(
        _STORAGE_LEVEL,
        Scope.WRITE,
        "hoodie.write.status.storage.level",
        "hoodie.write.tagged.record.storage.level",
        "hoodie.release.resource.on.completion.enable",
    ),
    *_all(
        _HANDLE,
        Scope.BOTH,
        "hoodie.avro.write.support.class",
        "hoodie.io.factory.class",
        "hoodie.storage.class",
        "hoodie.writestatus.class",
        "hoodie.write.concat.handle.class",
        "hoodie.write.merge.handle.class",
        "hoodie.write.merge.handle.fallback",
        "hoodie.parquet.flink.rowdata.write.support.class",
        "hoodie.parquet.spark.row.write.support.class",
        "hoodie.keygen.datetime.parser.class",
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.datasource.partition_extractor_class",
        "hoodie.table.partition_extractor_class",
    ),
    *_all(
        "The file system's own means decide.",
        Scope.WRITE,
        "hoodie.fs.atomic_creation.support",
        "hoodie.time.generator.type",
        "hoodie.write.lock.heartbeat_interval_ms",
        "hoodie.write.lock.num_retries",
        "hoodie.write.lock.wait_time_ms_between_retry",
        "hoodie.write.lock.max_wait_time_ms_between_retry",
        "hoodie.write.lock.conflict.resolution.strategy",
        "hoodie.write.num.retries.on.conflict.failures",
    ),
    *_all(
        "Checks and notes of the Java implementation.",
        Scope.WRITE,
        "hoodie.base.path",
        "hoodie.avro.schema.validate",
        "hoodie.block.writes.on.speculative.execution",
        "hoodie.fail.job.on.duplicate.data.file.detection",
        "hoodie.merge.data.validation.enabled",
        "hoodie.sensitive.config.keys",
        "hoodie.skip.default.partition.validation",
        "hoodie.write.application.id",
        "hoodie.write.can.ignore.post.commit.failures",
        "hoodie.post.commit.failures.ignored",
        "hoodie.write.ignore.failed",
        "hoodie.write.rolling.metadata.timeline.lookback.commits",
        "hoodie.payload.event.time.field",
        "hoodie.index.name",
        "hoodie.table.cdc.supplemental.logging.mode",
    ),
    *_all(
        "Log blocks carry no row positions: the Java implementation then finds rows by key.",
        Scope.WRITE,
        "hoodie.write.record.positions",
    ),
    *_all(
        "Base files are written with dictionaries, and with pages of Arrow's size.",
        Scope.WRITE,
        "hoodie.parquet.dictionary.enabled",
        "hoodie.parquet.page.size",
    ),
    *_all(
        "The size of a row is measured.",
        Scope.WRITE,
        "hoodie.parquet.compression.ratio",
    ),
    *_all(
        "A write appends one log file to a file group.",
        Scope.WRITE,
        "hoodie.logfile.max.size",
    ),
    *_all(
        "Where releases differ in the keys they make, keys are made as those which the table holds.",
        Scope.WRITE,
        "hoodie.write.complex.keygen.validation.enable",
    ),
    *_all(
        "Spark's field ids are not written.",
        Scope.WRITE,
        "hoodie.parquet.field_id.write.enabled",
        "hoodie.logfile.to.parquet.compression.ratio",
    ),
)
