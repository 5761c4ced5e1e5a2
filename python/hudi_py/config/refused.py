"""Options of Apache Hudi 1.2.0 whose behaviour is not implemented. Values that ask for it are refused."""

from __future__ import annotations

from hudi_py.config.option import Scope, refused

_WRITE, _READ, _SERVICE, _BOTH, _TABLE = Scope.WRITE, Scope.READ, Scope.SERVICE, Scope.BOTH, Scope.TABLE

_SYNC = (
    "tables are registered through the Thrift service of the metastore, see hoodie.datasource.hive_sync.metastore.uris"
)
_SCHEMA = "the schema of a write is that of its rows"
_OWN = "the table maintains it itself, so it cannot be set"
_CLASS = "classes of the Java implementation cannot be loaded"
_EMPTY = ("",)
_HUDIS = ("", "org.apache.hudi.*")

OPTIONS = (
    # table services
    refused(
        "hoodie.compaction.preserve.commit.metadata",
        "a compaction keeps the meta columns of its rows",
        _SERVICE,
        accepts=("", "true"),
    ),
    refused(
        "hoodie.clustering.async.enabled",
        "writes start no background threads; plan with hoodie.clustering.schedule.inline, and run the plans elsewhere",
        _SERVICE,
        "hoodie.datasource.clustering.async.enable",
    ),
    refused(
        "hoodie.clean.delete.bootstrap.base.file",
        "hudi-py never deletes files of the source that a table was bootstrapped from",
        _SERVICE,
        "hoodie.cleaner.delete.bootstrap.base.file",
    ),
    refused(
        "hoodie.rollback.instant.backup.enabled",
        "a rollback keeps no copies of the timeline's files; copy `.hoodie` before it",
        _SERVICE,
    ),
    refused("hoodie.table.service.manager.enabled", "the table service manager is not implemented", _SERVICE),
    refused("hoodie.metadata.table.service.manager.enabled", "the table service manager is not implemented", _SERVICE),
    # catalogs, metrics, callbacks
    refused("hoodie.datasource.hive_sync.use_jdbc", _SYNC, _SERVICE),
    refused("hoodie.datasource.hive_sync.use_spark_catalog", _SYNC, _SERVICE),
    refused(
        "hoodie.datasource.hive_sync.use_pre_apache_input_format",
        "the classes of com.uber.hoodie are not registered",
        _SERVICE,
    ),
    refused(
        "hoodie.datasource.meta.sync.glue.partition_index_fields.enable",
        "partition indexes are not implemented: make them in AWS Glue",
        _SERVICE,
    ),
    refused(
        "hoodie.datasource.meta.sync.glue.resource_tags", "tags are not set: tag in AWS Glue", _SERVICE, accepts=_EMPTY
    ),
    refused("hoodie.metadata.metrics.enable", "the metadata table reports no metrics of its own", _BOTH),
    refused("hoodie.metrics.lock.enable", "locks report no metrics", _BOTH),
    refused("hoodie.metrics.reporter.class", _CLASS, _BOTH, accepts=_EMPTY),
    refused("hoodie.metrics.configs.properties", "one reporter: hoodie.metrics.reporter.type", _BOTH, accepts=_EMPTY),
    refused("hoodie.client.init.callback.classes", _CLASS, _WRITE, accepts=_EMPTY),
    refused("hoodie.precommit.validators", "validating before a commit is not implemented yet", _WRITE, accepts=_EMPTY),
    refused("hoodie.prewrite.validators", "validating before a write is not implemented yet", _WRITE, accepts=_EMPTY),
    refused(
        "hoodie.prewrite.cleaner.policy", "cleaning before a write is not implemented yet", _WRITE, accepts=("", "none")
    ),
    refused("hoodie.metaserver.enabled", "the metaserver is not implemented", _BOTH),
    refused("hoodie.errortable.enable", "error tables are not implemented", _WRITE),
    # writing
    *(
        refused(key, _CLASS, _BOTH, accepts=_HUDIS)
        for key in (
            "hoodie.avro.write.support.class",
            "hoodie.compact.merge.handle.class",
            "hoodie.io.factory.class",
            "hoodie.keygen.datetime.parser.class",
            "hoodie.parquet.spark.row.write.support.class",
            "hoodie.storage.class",
            "hoodie.write.concat.handle.class",
            "hoodie.write.merge.handle.class",
            "hoodie.writestatus.class",
        )
    ),
    refused("hoodie.index.class", _CLASS, _WRITE, accepts=_EMPTY),
    refused("hoodie.bulkinsert.overwrite.operation.type", "use mode overwrite", _WRITE, accepts=_EMPTY),
    refused("hoodie.bulkinsert.user.defined.partitioner.class", _CLASS, _WRITE, accepts=_EMPTY),
    refused(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        "writes never drop columns: use Table.alter(drop=...)",
        _WRITE,
    ),
    refused("hoodie.avro.schema", _SCHEMA, _WRITE, accepts=_EMPTY),
    refused("hoodie.write.schema", _SCHEMA, _WRITE, accepts=_EMPTY),
    refused("hoodie.internal.schema", _SCHEMA, _WRITE, accepts=_EMPTY),
    refused("hoodie.bulkinsert.schema.ddl", _SCHEMA, _WRITE, accepts=_EMPTY),
    refused("hoodie.avro.schema.external.transformation", _SCHEMA, _WRITE, "hoodie.avro.schema.externalTransformation"),
    refused("hoodie.write.partial.update.schema", "use hoodie.py.write.partial.updates", _WRITE, accepts=_EMPTY),
    refused(
        "hoodie.write.record.merge.custom.implementation.classes",
        _CLASS,
        _TABLE,
        "hoodie.datasource.write.record.merger.impls",
        accepts=("", "org.apache.hudi.defaultsparkrecordmerger", "org.apache.hudi.common.model.hoodieavrorecordmerger"),
    ),
    # Apache Hudi's Spark writer fills the column with nulls, and loses values that such writes put into logs
    refused(
        "hoodie.allow.operation.metadata.field",
        "the column _hoodie_operation is not written: with it, Apache Hudi on Spark loses updates and deletes of "
        "merge-on-read tables; leave the option out",
        _WRITE,
    ),
    refused(
        "hoodie.datasource.write.secondarykey.column",
        "use hoodie.metadata.index.secondary.column",
        _TABLE,
        accepts=_EMPTY,
    ),
    refused("hoodie.payload.ordering.field", "use hoodie.table.ordering.fields", _WRITE, accepts=_EMPTY),
    refused("hoodie.write.track.event.time.watermark", "event-time bounds are not recorded yet", _WRITE),
    refused(
        "hoodie.write.rolling.metadata.keys", "rolling commit metadata is not implemented yet", _WRITE, accepts=_EMPTY
    ),
    refused(
        "hoodie.fileid.prefix.provider.class",
        _CLASS,
        _WRITE,
        accepts=("", "org.apache.hudi.table.randomfileidprefixprovider"),
    ),
    refused(
        "hoodie.storage.layout.partitioner.class",
        _CLASS,
        _WRITE,
        accepts=("", "org.apache.hudi.table.action.commit.sparkbucketindexpartitioner"),
    ),
    refused(
        "hoodie.storage.layout.type",
        "it follows from hoodie.index.type",
        _WRITE,
        accepts=("", "default", "bucket"),
    ),
    refused("hoodie.parquet.write.config.injector.class", _CLASS, _WRITE, accepts=_EMPTY),
    refused("hoodie.parquet.write.utc-timezone.enabled", "timestamps are written in UTC", _WRITE, accepts=("", "true")),
    refused("hoodie.table.multiple.base.file.formats.enable", "base files are Parquet", _TABLE),
    refused("hoodie.table.format", "only Hudi's own table format", _TABLE, accepts=("", "native")),
    refused(
        "hoodie.table.log.file.format",
        "only Hudi's log format",
        _TABLE,
        "hoodie.table.rt.file.format",
        accepts=("", "hoodie_log"),
    ),
    # properties that are derived from the table
    refused("hoodie.table.initial.version", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.legacy.payload.class", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.create.schema", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.checksum", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.index.defs.path", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.metadata.partitions", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.metadata.partitions.inflight", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.table.secondary.indexes.metadata", _OWN, _TABLE, accepts=_EMPTY),
    refused("hoodie.timeline.layout.version", "it follows from the table version", _TABLE, accepts=_EMPTY),
    refused("hoodie.timeline.path", "only the default folder", _TABLE, accepts=("", "timeline")),
    refused("hoodie.timeline.history.path", "only the default folder", _TABLE, accepts=("", "history")),
    refused("hoodie.archivelog.folder", "only the default folder", _TABLE, accepts=("", "archived")),
    refused("hoodie.assume.date.partitioning", "partitions are recognised by their metafiles", _BOTH),  # until 0.15
    # reading
    refused("hoodie.datasource.read.paths", "a load reads one table; give its base path", _READ, accepts=_EMPTY),
    refused(
        "hoodie.datasource.read.extract.partition.values.from.path",
        "partition values are read from the files, which hold them",
        _READ,
    ),
    refused(
        "hoodie.datasource.read.partition.value.extractor.enabled",
        "partition values are read from the files, which hold them",
        _READ,
    ),
    refused(
        "hoodie.datasource.read.create.filesystem.relation", "this view of the table is not implemented yet", _READ
    ),
    refused(
        "hoodie.datasource.read.table.valued.function.timeline.relation",
        "this view of the table is not implemented yet",
        _READ,
    ),
    refused(
        "hoodie.read.blob.inline.mode", "BLOB columns are read as they are stored", _READ, accepts=("", "descriptor")
    ),
)
