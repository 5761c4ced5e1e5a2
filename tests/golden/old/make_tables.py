"""Makes the sample tables with an old release of Apache Hudi, on the PySpark it is made for; see README.md.

python make_tables.py --release 0.9.0 --jars hudi-bundle.jar,spark-avro.jar --out FOLDER [--only NAME]
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

COMMON = {
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "20",
    "hoodie.index.type": "SIMPLE",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.simple.index.input.storage.level": "MEMORY_ONLY",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.rollback.using.markers": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.keep.min.commits": "40",
    "hoodie.keep.max.commits": "50",
}
PARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}
UNPARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
INLINE_COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLEAN = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
    "hoodie.cleaner.commits.retained": "1",
}
ARCHIVE = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}

ROWS = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("ts", T.LongType()),
        T.StructField("name", T.StringType()),
        T.StructField("price", T.DoubleType()),
        T.StructField("city", T.StringType()),
        T.StructField("_hoodie_is_deleted", T.BooleanType()),
    ]
)
FIRST = [
    ("a", 10, "Ada", 1.5, "oslo", False),
    ("b", 10, "Bo", 2.5, "oslo", False),
    ("c", 10, "Cy", None, "rome", False),
    ("d", 10, "Di", 4.5, "rome", False),
    ("e", 10, None, 5.5, None, False),
    ("f", 10, "Fay", 6.5, None, False),
    ("g", 10, "Gus", 7.5, "rome", False),
    ("h", 10, "Hal", 8.5, "oslo", False),
    ("i", 10, "Ida", 9.5, "oslo", False),
    ("j", 10, "Jo", 9.9, "oslo", False),
]


def changed(key: str, ts: int, name: str, city: str | None, deleted: bool = False) -> tuple[Any, ...]:
    return (key, ts, name, float(ts), city, deleted)


class Maker:
    """Writes one table, step by step, and notes the steps."""

    def __init__(self, spark: SparkSession, out: str, name: str, kind: str, schema: Any = ROWS, **options: str) -> None:
        self.spark = spark
        self.name = name
        self.folder = os.path.join(out, name)
        self.path = os.path.join(self.folder, name)
        self.schema = schema
        self.steps: list[str] = []
        self.options = {
            **COMMON,
            "hoodie.table.name": name,
            "hoodie.datasource.write.table.name": name,
            "hoodie.datasource.write.table.type": kind,
            **{key.replace("__", "."): value for key, value in options.items()},
        }
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def write(self, rows: list[Any], operation: str = "upsert", extra: dict[str, str] | None = None) -> None:
        time.sleep(1.1)  # instants of release 0.9 are whole seconds
        frame = self.spark.createDataFrame(rows, self.schema).coalesce(1)
        options = {**self.options, **(extra or {}), "hoodie.datasource.write.operation": operation}
        # Java before 0.14 tells the first write from the next ones by the mode
        mode = "append"
        frame.write.format("hudi").options(**options).mode(mode).save(self.path)
        self.steps.append(
            f"{operation} {json.dumps(rows, default=str)}" + (f" with {json.dumps(extra)}" if extra else "")
        )

    def client(self) -> Any:
        jvm = self.spark._jvm
        schema = json.dumps(
            {
                "type": "record",
                "name": "row",
                "fields": [
                    {"name": "id", "type": ["null", "string"], "default": None},
                    {"name": "ts", "type": ["null", "long"], "default": None},
                    {"name": "name", "type": ["null", "string"], "default": None},
                    {"name": "price", "type": ["null", "double"], "default": None},
                    {"name": "city", "type": ["null", "string"], "default": None},
                    {"name": "_hoodie_is_deleted", "type": ["null", "boolean"], "default": None},
                ],
            }
        )
        options = jvm.java.util.HashMap()
        given = {
            **self.options,
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.compaction.async.enable": "true",
        }
        for key, value in given.items():
            options.put(key, value)
        return jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
            self.spark.sparkContext._jsc, schema, self.path, self.name, options
        )

    def schedule_compaction(self) -> None:
        time.sleep(1.1)
        client = self.client()
        found = client.scheduleCompaction(self.spark._jvm.org.apache.hudi.common.util.Option.empty())
        assert found.isPresent(), "nothing to compact"
        client.close()
        self.steps.append("schedule a compaction (`SparkRDDWriteClient.scheduleCompaction`)")

    def savepoint(self) -> None:
        client = self.client()
        client.savepoint("tester", "kept")
        client.close()
        self.steps.append("savepoint (`SparkRDDWriteClient.savepoint`)")

    def layout_0(self) -> None:
        jvm = self.spark._jvm
        kind = self.options["hoodie.datasource.write.table.type"]
        (
            jvm.org.apache.hudi.common.table.HoodieTableMetaClient.withPropertyBuilder()
            .setTableType(kind)
            .setTableName(self.name)
            .setTimelineLayoutVersion(0)
            .setPartitionFields("city")
            .setRecordKeyFields("id")
            .setPreCombineField("ts")
            .setPayloadClassName("org.apache.hudi.common.model.OverwriteWithLatestAvroPayload")
            .initTable(self.spark.sparkContext._jsc.hadoopConfiguration(), self.path)
        )
        self.options["hoodie.timeline.layout.version"] = "0"
        self.steps.append("create with `HoodieTableMetaClient.withPropertyBuilder().setTimelineLayoutVersion(0)`")

    def sql(self, text: str) -> None:
        self.spark.sql(text.replace("{path}", self.path)).collect()
        self.steps.append(text)

    def instants(self) -> list[str]:
        found = set()
        for name in os.listdir(os.path.join(self.path, ".hoodie")):
            parts = name.split(".")
            if len(parts) == 2 and parts[1] in ("commit", "deltacommit", "replacecommit"):
                found.add(parts[0])
        return sorted(found)

    def finish(self, release: str) -> None:
        """Reads the table by every query type and writes what is expected beside it."""
        reads = [("snapshot", {})]
        if self.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
            reads.append(("read_optimized", {"hoodie.datasource.query.type": "read_optimized"}))
        instants = self.instants()
        for instant in instants:
            reads.append((f"time_travel_{instant}", {"as.of.instant": instant}))
        for begin in ["000", *instants[:-1]]:
            options = {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": begin,
            }
            reads.append((f"incremental_{begin}", options))
        answers: dict[str, Any] = {}
        for kind, options in reads:
            try:
                frame = self.spark.read.format("hudi").options(**options).load(self.path + self.glob())
                target = os.path.join(self.folder, "tmp")
                frame = frame.orderBy("_hoodie_partition_path", "_hoodie_record_key")
                frame.coalesce(1).write.mode("overwrite").parquet(target)
                (part,) = glob.glob(os.path.join(target, "part-*.parquet"))
                os.makedirs(os.path.join(self.folder, "own"), exist_ok=True)
                shutil.move(part, os.path.join(self.folder, "own", kind + ".parquet"))
                shutil.rmtree(target)
                answers[kind] = "rows"
            except Exception as error:
                answers[kind] = "error: " + str(error)[:300]
                print("READ", self.name, kind, str(error)[:6000], flush=True)
        with open(os.path.join(self.folder, "made.json"), "w") as file:
            made = {"name": self.name, "release": release, "options": self.options, "steps": self.steps, "own": answers}
            json.dump(made, file, indent=1)
        print("MADE", self.name, answers, flush=True)

    def glob(self) -> str:
        return ""


def copy_on_write(spark: SparkSession, out: str, name: str, layout: int = 1) -> Maker:
    table = Maker(spark, out, name, "COPY_ON_WRITE", **PARTITIONED)
    if layout == 0:
        table.layout_0()
    table.write(FIRST, "insert")
    table.write([changed("a", 20, "Ada 2", "oslo"), changed("c", 5, "Cy late", "rome"), changed("k", 20, "Kay", None)])
    table.write([FIRST[3], FIRST[4]], "delete")
    if layout == 1:
        table.savepoint()
    table.write([changed("b", 30, "gone", "oslo", True), changed("f", 30, "Fay 3", None)], extra=CLEAN)
    if layout == 1:
        table.write([changed("m", 40, "Max", "rome")], "insert_overwrite", extra={"hoodie.clean.automatic": "false"})
    table.write([changed("a", 50, "Ada 5", "oslo")], extra={**CLEAN, **ARCHIVE})
    table.write([changed("h", 60, "Hal 6", "oslo")], extra={**CLEAN, **ARCHIVE})
    return table


def merge_on_read(spark: SparkSession, out: str, name: str, layout: int = 1) -> Maker:
    """The last state has a base file, logs merged over it, deletes before and after, and a pending compaction."""
    table = Maker(spark, out, name, "MERGE_ON_READ", **PARTITIONED)
    if layout == 0:
        table.layout_0()
    table.write(FIRST, "insert")
    table.write([changed("a", 20, "Ada 2", "oslo"), changed("c", 5, "Cy late", "rome"), changed("e", 20, "Eve", None)])
    table.write([FIRST[1], FIRST[4]], "delete", extra=INLINE_COMPACTION)
    table.write(
        [changed("a", 30, "Ada 3", "oslo"), changed("g", 30, "Gus 3", "rome"), changed("h", 30, "Hal 3", "oslo")]
    )
    # deletes: of a row of the base file, of one in the log, with greater and lesser ordering values
    table.write([FIRST[3], changed("a", 30, "Ada 3", "oslo")], "delete")
    table.write(
        [
            changed("g", 20, "late delete", "rome", True),
            changed("f", 40, "delete", None, True),
            changed("h", 25, "late in log", "oslo"),
            changed("i", 5, "late to base", "oslo"),
        ]
    )
    table.schedule_compaction()
    # after a delete: a row with a lesser ordering value than it had
    table.write([changed("a", 7, "Ada again", "oslo"), changed("j", 50, "Jo 5", "oslo")])
    table.write([FIRST[7], FIRST[5]], "delete")
    return table


def merge_on_read_archived(spark: SparkSession, out: str, name: str) -> Maker:
    table = Maker(spark, out, name, "MERGE_ON_READ", **UNPARTITIONED)
    table.write(FIRST[:3], "insert")
    for turn in range(2, 8):
        extra = {**CLEAN, **ARCHIVE, **(INLINE_COMPACTION if turn % 3 == 0 else {})}
        table.write([changed("abc"[turn % 3], turn * 10, f"turn {turn}", "oslo")], extra=extra)
    table.write([FIRST[0]], "delete")
    return table


def with_metadata(spark: SparkSession, out: str, name: str) -> Maker:
    """A metadata table beside it."""
    table = Maker(spark, out, name, "MERGE_ON_READ", **PARTITIONED, **{"hoodie.metadata.enable": "true"})
    table.write(FIRST, "insert")
    table.write([changed("a", 20, "Ada 2", "oslo"), changed("c", 5, "Cy late", "rome")])
    table.write([FIRST[1]], "delete")
    return table


def orderings(spark: SparkSession, out: str, name: str) -> list[Maker]:
    """Small tables, one for each type of the ordering field: deletes which carry its values."""
    import datetime
    import decimal

    day = datetime.date(2024, 5, 17)
    moment = datetime.datetime(2024, 5, 17, 10, 20, 30, 456789)
    hour = datetime.timedelta(hours=1)
    kinds: list[tuple[str, Any, list[Any]]] = [
        ("int", T.IntegerType(), [-5, 100, 70000]),
        ("long", T.LongType(), [5, 2**40, -(2**50)]),
        ("float", T.FloatType(), [0.5, 1.25, -3.0]),
        ("double", T.DoubleType(), [0.1, 1e300, -7.5]),
        ("string", T.StringType(), ["b", "grün", "x" * 80]),
        ("decimal", T.DecimalType(20, 4), [decimal.Decimal(x) for x in ("1.5", "-123456789.0123", "9999999999999999")]),
        ("date", T.DateType(), [day, day.replace(year=1969), day.replace(day=18)]),
        ("timestamp", T.TimestampType(), [moment, moment + hour, moment.replace(year=1969)]),
        ("boolean", T.BooleanType(), [True, True, True]),
    ]
    made = []
    for kind, spark_type, values in kinds:
        schema = T.StructType(
            [
                T.StructField("id", T.StringType()),
                T.StructField("ts", spark_type),
                T.StructField("_hoodie_is_deleted", T.BooleanType()),
            ]
        )
        table = Maker(spark, out, f"{name}_{kind}", "MERGE_ON_READ", schema, **UNPARTITIONED)
        keys = [f"key {n}" for n in range(len(values))]
        pairs = list(zip(keys, values))  # noqa: B905 - Python 3.8 has no `strict`
        table.write([(key, value, False) for key, value in pairs] + [("kept", values[0], False)], "insert")
        table.write([(key, value, True) for key, value in pairs])
        made.append(table)
    return made


def upgraded(spark: SparkSession, out: str, source: str, name: str) -> Maker:
    """A table of release 0.10 in version 4, as release 0.12 upgrades it (0.11, which made version 4, is not needed)."""
    kind = "COPY_ON_WRITE" if "cow" in name else "MERGE_ON_READ"
    table = Maker(spark, out, name, kind, **PARTITIONED)
    shutil.copytree(os.path.join(out, source, source), table.path)
    table.steps.append(f"copy the table {source}")
    spark.sql(f"create table {name} using hudi location '{table.path}'")
    table.sql(f"call upgrade_table(table => '{name}', to_version => 'FOUR')")
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", args.jars)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.hadoop.spark.sql.legacy.parquet.nanosAsLong", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", os.path.join(args.out, "warehouse"))
    )
    number = tuple(int(part) for part in args.release.split("."))
    version = 2 if number < (0, 10) else 3 if number < (0, 11) else 5
    prefix = f"v{version}_" + ("" if version < 5 else f"{number[1]}_")
    if number >= (0, 12):
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    plans: list[tuple[str, Any]] = [
        ("cow", lambda name: copy_on_write(spark, args.out, name)),
        ("mor", lambda name: merge_on_read(spark, args.out, name)),
        ("mor_archived", lambda name: merge_on_read_archived(spark, args.out, name)),
    ]
    if version == 2:
        plans.append(("cow_layout_0", lambda name: copy_on_write(spark, args.out, name, layout=0)))
        plans.append(("mor_layout_0", lambda name: merge_on_read(spark, args.out, name, layout=0)))
    if version >= 3:
        plans.append(("mor_metadata", lambda name: with_metadata(spark, args.out, name)))
    if version == 5:
        plans.append(("mor_ordering", lambda name: orderings(spark, args.out, name)))
    if number[:2] == (0, 12):
        plans.append(("cow_from_v3", lambda name: upgraded(spark, args.out, "v3_cow", "v4_cow")))
        plans.append(("mor_from_v3", lambda name: upgraded(spark, args.out, "v3_mor", "v4_mor")))
    for suffix, make in plans:
        if args.only and args.only not in prefix + suffix:
            continue
        try:
            made = make(prefix + suffix)
        except Exception as error:
            print("FAILED", prefix + suffix, str(error)[:3000], flush=True)
            continue
        for table in made if isinstance(made, list) else [made]:
            table.finish(args.release)
    spark.stop()


if __name__ == "__main__":
    main()
