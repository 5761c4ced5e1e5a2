"""Generates the page of options that jobs on Glue and EMR commonly set, and their effect here: `make docs-pages`.

The keys are chosen by hand, from the vendors' guides and users' questions; each description comes from the declaration.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from hudi_py.config import harmless
from hudi_py.config.docs import default_of
from hudi_py.config.option import Option, Policy
from hudi_py.config.options import ALL

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "from-glue-emr.md"
_DATASOURCE: Final = "hoodie.datasource."
_SYNC: Final = "hoodie.datasource.hive_sync."

COMMON: Final[dict[str, tuple[str, ...]]] = {
    "The table": (
        "hoodie.table.name",
        "hoodie.database.name",
        _DATASOURCE + "write.table.name",
        _DATASOURCE + "write.table.type",
        _DATASOURCE + "write.storage.type",
        "hoodie.table.type",
        "hoodie.write.table.version",
        "hoodie.write.auto.upgrade",
        _DATASOURCE + "write.recordkey.field",
        _DATASOURCE + "write.partitionpath.field",
        _DATASOURCE + "write.precombine.field",
        "hoodie.table.precombine.field",
        "hoodie.table.ordering.fields",
        _DATASOURCE + "write.keygenerator.class",
        _DATASOURCE + "write.keygenerator.type",
        _DATASOURCE + "write.hive_style_partitioning",
        _DATASOURCE + "write.partitionpath.urlencode",
        "hoodie.keygen.timebased.timestamp.type",
        "hoodie.deltastreamer.keygen.timebased.timestamp.type",
        "hoodie.deltastreamer.keygen.timebased.output.dateformat",
        "hoodie.keygen.timebased.input.dateformat",
        "hoodie.keygen.timebased.output.dateformat",
        "hoodie.keygen.timebased.timezone",
        _DATASOURCE + "write.payload.class",
        "hoodie.compaction.payload.class",
        "hoodie.write.record.merge.mode",
        "hoodie.table.base.file.format",
        "hoodie.table.cdc.enabled",
        "hoodie.table.cdc.supplemental.logging.mode",
        "hoodie.table.timeline.timezone",
        "hoodie.populate.meta.fields",
        _DATASOURCE + "write.drop.partition.columns",
    ),
    "Writing": (
        _DATASOURCE + "write.operation",
        _DATASOURCE + "write.insert.drop.duplicates",
        _DATASOURCE + "insert.dup.policy",
        "hoodie.combine.before.insert",
        "hoodie.combine.before.upsert",
        "hoodie.combine.before.delete",
        "hoodie.merge.allow.duplicate.on.inserts",
        _DATASOURCE + "overwrite.mode",
        _DATASOURCE + "write.partitions.to.delete",
        _DATASOURCE + "write.row.writer.enable",
        _DATASOURCE + "write.reconcile.schema",
        _DATASOURCE + "write.schema.allow.auto.evolution.column.drop",
        "hoodie.schema.on.read.enable",
        "hoodie.avro.schema.validate",
        "hoodie.write.set.null.for.missing.columns",
        "hoodie.allow.empty.commit",
        "hoodie.bulkinsert.sort.mode",
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
        "hoodie.bulkinsert.shuffle.parallelism",
        "hoodie.insert.shuffle.parallelism",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.finalize.write.parallelism",
        "hoodie.rollback.parallelism",
        "hoodie.write.markers.type",
        "hoodie.rollback.using.markers",
        "hoodie.embed.timeline.server",
        "hoodie.consistency.check.enabled",
        "hoodie.fail.on.timeline.archiving",
        "hoodie.write.status.storage.level",
        _DATASOURCE + "write.commitmeta.key.prefix",
        _DATASOURCE + "write.streaming.retry.count",
        _DATASOURCE + "write.streaming.ignore.failed.batch",
    ),
    "Files": (
        "hoodie.parquet.max.file.size",
        "hoodie.parquet.small.file.limit",
        "hoodie.parquet.block.size",
        "hoodie.parquet.page.size",
        "hoodie.parquet.compression.codec",
        "hoodie.parquet.compression.ratio",
        "hoodie.parquet.dictionary.enabled",
        "hoodie.logfile.max.size",
        "hoodie.logfile.data.block.format",
        "hoodie.copyonwrite.insert.split.size",
        "hoodie.copyonwrite.record.size.estimate",
        "hoodie.memory.merge.max.size",
        "hoodie.memory.spillable.map.path",
    ),
    "Index and metadata table": (
        "hoodie.index.type",
        "hoodie.bloom.index.update.partition.path",
        "hoodie.simple.index.update.partition.path",
        "hoodie.bloom.index.parallelism",
        "hoodie.bloom.index.prune.by.ranges",
        "hoodie.bloom.index.use.caching",
        "hoodie.bucket.index.num.buckets",
        "hoodie.bucket.index.hash.field",
        "hoodie.index.bucket.engine",
        "hoodie.index.hbase.zkquorum",
        "hoodie.metadata.enable",
        "hoodie.metadata.index.column.stats.enable",
        "hoodie.metadata.index.column.stats.column.list",
        "hoodie.metadata.index.bloom.filter.enable",
        "hoodie.metadata.record.index.enable",
        "hoodie.metadata.compact.max.delta.commits",
        "hoodie.metadata.index.async",
        "hoodie.enable.data.skipping",
    ),
    "Table services": (
        "hoodie.clean.automatic",
        "hoodie.clean.async",
        "hoodie.cleaner.policy",
        "hoodie.cleaner.commits.retained",
        "hoodie.cleaner.hours.retained",
        "hoodie.cleaner.fileversions.retained",
        "hoodie.cleaner.policy.failed.writes",
        "hoodie.cleaner.parallelism",
        "hoodie.keep.min.commits",
        "hoodie.keep.max.commits",
        "hoodie.archive.automatic",
        "hoodie.archive.async",
        "hoodie.compact.inline",
        "hoodie.compact.inline.max.delta.commits",
        "hoodie.compact.inline.max.delta.seconds",
        "hoodie.compact.inline.trigger.strategy",
        "hoodie.compact.schedule.inline",
        _DATASOURCE + "compaction.async.enable",
        "hoodie.compaction.strategy",
        "hoodie.compaction.target.io",
        "hoodie.clustering.inline",
        "hoodie.clustering.async.enabled",
        "hoodie.clustering.inline.max.commits",
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        "hoodie.clustering.plan.strategy.sort.columns",
        "hoodie.layout.optimize.strategy",
    ),
    "Several writers": (
        "hoodie.write.concurrency.mode",
        "hoodie.write.lock.provider",
        "hoodie.write.lock.dynamodb.table",
        "hoodie.write.lock.dynamodb.partition_key",
        "hoodie.write.lock.dynamodb.region",
        "hoodie.write.lock.dynamodb.endpoint_url",
        "hoodie.write.lock.dynamodb.billing_mode",
        "hoodie.write.lock.zookeeper.url",
        "hoodie.write.lock.zookeeper.port",
        "hoodie.write.lock.zookeeper.lock_key",
        "hoodie.write.lock.zookeeper.base_path",
        "hoodie.write.lock.wait_time_ms",
        "hoodie.write.lock.num_retries",
        "hoodie.aws.access.key",
    ),
    "Reading": (
        _DATASOURCE + "query.type",
        _DATASOURCE + "view.type",
        "as.of.instant",
        _DATASOURCE + "read.begin.instanttime",
        _DATASOURCE + "read.end.instanttime",
        _DATASOURCE + "query.incremental.format",
        _DATASOURCE + "read.incr.path.glob",
        _DATASOURCE + "merge.type",
        "hoodie.file.index.enable",
    ),
    "Catalogs, metrics and the rest": (
        _SYNC + "enable",
        _SYNC + "mode",
        _SYNC + "database",
        _SYNC + "table",
        _SYNC + "partition_fields",
        _SYNC + "partition_extractor_class",
        _SYNC + "use_jdbc",
        _SYNC + "jdbcurl",
        _SYNC + "support_timestamp",
        _DATASOURCE + "meta.sync.enable",
        "hoodie.meta.sync.client.tool.class",
        "hoodie.metrics.on",
        "hoodie.metrics.reporter.type",
        "hoodie.write.commit.callback.on",
        "hoodie.write.commit.callback.http.url",
    ),
}
_BY_KEY: Final = {key: option for option in ALL for key in option.keys}
_HEAD: Final = """# From Glue and EMR

<!-- Written by `make docs-pages`; keys are in tools/known_options.py, their meanings in python/hudi_py/config/. -->

Jobs on AWS Glue and Amazon EMR, and most examples for Apache Hudi, give the options below. **Honoured**: it does what
it does in Apache Hudi; the link leads to its description. **No effect**: it is accepted and changes nothing, so it can
stay. **Refused**: the job fails, before it writes, until the option is removed or has a value that is accepted.

Settings of Spark and of the platform change as follows:

| setting | with hudi-py |
|---|---|
| `--datalake-formats hudi` of a Glue job | remove it; `--additional-python-modules hudi-py[s3]` instead |
| `hudi-defaults.conf`, EMR's classification `hudi-defaults` | read from `HUDI_CONF_DIR`, and from `/etc/hudi/conf` |
| `spark.serializer=org.apache.spark.serializer.KryoSerializer` | not needed, harmless |
| `spark.sql.extensions`, `spark.sql.catalog.spark_catalog` and `spark.kryo.registrator` with classes of Apache Hudi | \
remove them: their classes are in the JAR |
| `spark.sql.hive.convertMetastoreParquet=false` | not needed, harmless |
| `--jars`, `--packages` with Apache Hudi's bundle | remove them |
| `connection_options` of a Glue DynamicFrame | `df.write.format("hudi-py").options(**connection_options).save(path)` |
| `from_catalog`, `getSink` with a catalog's table | name the path: [Platforms](platforms/glue.md) |
"""


def page() -> str:
    """Renders the page as Markdown."""
    parts = [_HEAD]
    for title, keys in COMMON.items():
        parts += [f"## {title}\n", "| option | here | meaning |", "|---|---|---|", *map(row, keys), ""]
    return "\n".join(parts)


def row(key: str) -> str:
    """Renders one row of a table.

    Raises:
        ValueError: no option and no family of options has this key.
    """
    option = _BY_KEY.get(key)
    if option is None:
        family = max(
            (each for each in harmless.PREFIXES if key.startswith(each.prefix)), key=lambda each: len(each.prefix)
        )
        return f"| `{key}` | no effect | {_cell(family.help)} |"
    if option.policy is Policy.HARMLESS:
        return f"| `{key}` | no effect | {_cell(option.help)} |"
    if option.policy is Policy.REFUSED:
        taken = ", ".join(f"`{value}`" for value in option.accepts if value)
        return f"| `{key}` | refused{f', unless {taken}' if taken else ''} | {_cell(option.why)} |"
    default = default_of(option)
    told = "" if default == "not set" else f" Default: {default}."
    return f"| [`{key}`](options.md#{anchor(option)}) | honoured | {_summary(option)}{told} |"


def anchor(option: Option[Any]) -> str:
    """Returns the anchor of an option in docs/options.md."""
    return re.sub(r"[^\w-]", "", option.key.lower())


def _summary(option: Option[Any]) -> str:
    first = re.match(r".+?[.](?=\s|$)", option.help.replace("\n", " "))
    return _cell(first[0] if first else option.help)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
