#!/usr/bin/env python3
"""Apache Hudi (Java) as an oracle: reads, writes, services and checks tables. See README.md in this folder.

Every command is a request: a dict with "op" and that op's arguments. The command line makes one request; `serve`
takes many, one JSON object a line on stdin, and answers each with one JSON line on stdout.

Runs in an environment of its own (PySpark 3.5, which the bundle is built for) under Python 3.9 or later, and imports
nothing from hudi-py: what it says comes from Apache Hudi alone.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter

VERSION = os.environ.get("HUDI_ORACLE_VERSION", "1.2.0")
CACHE = os.environ.get("HUDI_ORACLE_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hudi-py", "oracle"
)
ARTIFACT = "hudi-spark3.5-bundle_2.12"
COORDINATES = f"org.apache.hudi:{ARTIFACT}:{VERSION}"
WRITE = "hoodie.datasource.write."
READ = "hoodie.datasource.read."
QUERY = "hoodie.datasource.query."
# Queries that are run as one job: with more of them its plan costs more than the jobs saved.
AT_ONCE = 24
TABLE_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def bundle():
    """The bundle's file: the one named by HUDI_ORACLE_JAR, else the cached one; None where Spark is to resolve it."""
    jar = os.environ.get("HUDI_ORACLE_JAR") or os.path.join(CACHE, f"{ARTIFACT}-{VERSION}.jar")
    return jar if os.path.exists(jar) else None


def start_spark(scratch):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(os.environ.get("HUDI_ORACLE_MASTER", "local[2]")).appName("hudi-oracle")
    jar = bundle()
    builder = builder.config("spark.jars", jar) if jar else builder.config("spark.jars.packages", COORDINATES)
    for key, value in {
        "spark.jars.ivy": os.path.join(CACHE, "ivy"),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        # The zone of the JVM decides the instants of a table whose hoodie.table.timeline.timezone is LOCAL.
        # Requests are many and short: the JVM's optimising compiler would cost more than it gains. Apache Hudi makes a
        # buffer of 16 MB for each log file it opens: a large young generation spares hundreds of collections.
        # Kryo looks into a lock where the bloom index goes by the metadata table.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1536m -Xmn1000m "
        "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED -Duser.timezone="
        + os.environ.get("HUDI_ORACLE_TIMEZONE", "UTC"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Arrays with null elements, and arrays of arrays.
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        # Apache Hudi 1.2.0 cannot read ORC base files otherwise.
        "spark.sql.orc.enableVectorizedReader": "false",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
    }.items():
        builder = builder.config(key, value)
    for pair in filter(None, os.environ.get("HUDI_ORACLE_CONF", "").split(";")):
        builder = builder.config(*pair.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("HUDI_ORACLE_LOG", "ERROR"))
    if not VERSION.startswith("0."):
        shrink_buffers(spark._jvm.org.apache.hudi.common.config)
    return spark


def shrink_buffers(config):
    """Log files are read through buffers of 64 kB instead of 16 MB.

    To clear those of 16 MB, one for each file of each query, costs half of a query of a small table. Readers of the
    metadata table take the size from no option, but from the default.
    """
    for option in (
        config.HoodieMemoryConfig.MAX_DFS_STREAM_BUFFER_SIZE,
        config.HoodieMetadataConfig.MAX_READER_BUFFER_SIZE_PROP,
    ):
        field = option.getClass().getDeclaredField("defaultValue")
        field.setAccessible(True)
        field.set(option, 1 << 16)


def table_properties(path):
    properties = {}
    with open(os.path.join(path, ".hoodie", "hoodie.properties"), encoding="utf-8") as lines:
        for line in lines:
            if "=" in line and not line.startswith("#"):
                key, value = line.rstrip("\n").split("=", 1)
                properties[key] = re.sub(r"\\([:=#! ])", r"\1", value)
    return properties


def split(text):
    return [part for part in (text or "").split(",") if part]


def is_nan_or_zero(value):
    return isinstance(value, float) and (value != value or value == 0)


def same_range(name, value):
    """The condition that a column has a value, as two bounds; or that it is null."""
    from pyspark.sql.functions import col, lit

    column = col(f"`{name}`")
    return column.isNull() if value is None else (column >= lit(value)) & (column <= lit(value))


def first_line(error):
    return str(error).strip().split("\n")[0][:400]


class Oracle:
    def __init__(self):
        self.scratch = tempfile.mkdtemp(prefix="hudi-oracle-")
        self._spark = None

    @property
    def spark(self):
        if self._spark is None:
            self._spark = start_spark(self.scratch)
        return self._spark

    def close(self):
        if self._spark is not None:
            self._spark.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def handle(self, request):
        request = dict(request)
        op = request.pop("op").replace("-", "_")
        method = getattr(self, "op_" + op, None)
        if method is None:
            raise ValueError("unknown op " + op)
        return method(**request)

    # ---- operations

    def op_version(self):
        java = self.spark._jvm.java.lang.System.getProperty("java.version")
        return {"spark": self.spark.version, "hudi": VERSION, "java": java}

    def op_read(
        self,
        path,
        as_of=None,
        begin=None,
        end=None,
        query_type="snapshot",
        options=None,
        where=None,
        columns=None,
        drop_meta=False,
        out=None,
        limit=None,
    ):
        """Reads a table; `begin`/`end` make the read incremental. Without `out` the rows are in the answer."""
        options = dict(options or {})
        if query_type == "cdc":
            options[QUERY + "incremental.format"] = "cdc"
            begin = begin or "000"
        if begin is not None:
            options[QUERY + "type"] = "incremental"
            options[READ + "begin.instanttime"] = begin
            if end is not None:
                options[READ + "end.instanttime"] = end
        elif query_type != "snapshot":
            options[QUERY + "type"] = query_type
        if as_of is not None:
            options["as.of.instant"] = as_of
        frame = self.spark.read.format("hudi").options(**options).load(path)
        if where:
            frame = frame.where(where)
        if drop_meta:
            meta = [name for name in frame.columns if name.startswith("_hoodie_") and name != "_hoodie_is_deleted"]
            frame = frame.drop(*meta)
        if columns:
            frame = frame.select(*split(columns) if isinstance(columns, str) else columns)
        return self._answer(frame, out, limit)

    def op_sql(self, text, path=None, options=None, out=None, ordered=False):
        """Runs statements separated by ';' at the end of a line. With `path`, {table} names that table.

        `ordered`: rows stay in the order in which they come.
        """
        named = self._registered(path) if path else contextlib.nullcontext()
        with named as name, self._session_options(options):
            frame = None
            for part in re.split(r";\s*(?:\n|$)", text):
                statement = re.sub(r"^\s*--.*$", "", part, flags=re.MULTILINE).strip()
                if statement:
                    frame = self.spark.sql(statement.replace("{table}", name) if name else statement)
            has_rows = frame is not None and frame.columns
            return self._answer(frame, out, ordered=ordered) if has_rows else {"rows": []}

    def op_cases(self, names=None):
        """What each of the cases of `statement_cases.py` gives, or of those named, in one session."""
        from statement_cases import read_cases, run_case  # type: ignore[import-not-found]

        found = {}
        for number, case in enumerate(read_cases()):
            if names is None or case.name in names:
                folder = tempfile.mkdtemp(dir=self.scratch)
                with self._session_options(case.java_settings):
                    found[case.name] = run_case(self.spark.sql, case, folder, number)
                shutil.rmtree(folder, ignore_errors=True)
        return {"answers": found}

    def op_call(self, path, procedure, options=None, ordered=False):
        """Runs a procedure, e.g. run_compaction(op => 'scheduleAndExecute', table => '{table}')."""
        return self.op_sql("call " + procedure, path=path, options=options, ordered=ordered)

    def op_write(
        self,
        path,
        input,
        operation="upsert",
        name=None,
        key=None,
        ordering=None,
        partition=None,
        type=None,
        table_version=None,
        mode=None,
        schema=None,
        options=None,
        types=None,
    ):
        """Writes a parquet, JSON-lines, csv or orc file into a table. An existing table keeps its settings.

        `types`: the hudi_type of columns, by name; values within a vector or variant are then never null.
        """
        form = os.path.splitext(input)[1].lstrip(".").replace("jsonl", "json")
        reader = self.spark.read.schema(schema) if schema else self.spark.read
        frame = reader.format(form).load(input)
        if types:
            frame = self._declared(frame, types)
        if mode is None and "://" in path:
            raise ValueError(f"whether {path} is a table is not known here: say mode='append' or mode='overwrite'")
        exists = os.path.exists(os.path.join(path, ".hoodie", "hoodie.properties"))
        kept = table_properties(path) if exists else {}
        chosen = {
            "hoodie.table.name": name or kept.get("hoodie.table.name") or os.path.basename(path.rstrip("/")),
            WRITE + "operation": operation,
            "hoodie.embed.timeline.server": "false",
            WRITE + "recordkey.field": key or kept.get("hoodie.table.recordkey.fields"),
            WRITE + "precombine.field": ordering
            or kept.get("hoodie.table.ordering.fields")
            or kept.get("hoodie.table.precombine.field"),
            WRITE + "partitionpath.field": partition
            if partition is not None
            else kept.get("hoodie.table.partition.fields", ""),
            WRITE + "table.type": TABLE_TYPES.get(type, type) or kept.get("hoodie.table.type"),
        }
        if not VERSION.startswith("0."):
            chosen["hoodie.write.table.version"] = str(table_version or kept.get("hoodie.table.version", "")) or None
            # Never change the version of an existing table unless the caller's options say so.
            chosen["hoodie.write.auto.upgrade"] = "false"
        chosen.update(options or {})
        given = {key: value for key, value in chosen.items() if value is not None}
        frame.write.format("hudi").options(**given).mode(mode or ("append" if exists else "overwrite")).save(path)
        return {"instants": self._instants(path)[-3:]}

    def op_stream(self, path, source, schema, checkpoint, options=None):
        """Streams a folder of JSON lines into a table, one file a batch, to the end."""
        frame = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(source)
        writer = frame.writeStream.format("hudi").options(**(options or {})).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(path)
        query.awaitTermination()
        return {"instants": self._instants(path)}

    def op_keys(self, generator, properties, schema, rows):
        """Record key and partition path that a key generator makes of each row (Avro's JSON), or its error."""
        jvm, gateway = self.spark._jvm, self.spark.sparkContext._gateway
        given = jvm.org.apache.hudi.common.config.TypedProperties()
        for key, value in properties.items():
            given.setProperty(key, value)
        # through reflection: py4j finds no constructor that takes a subclass of Properties
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        types, values = gateway.new_array(jvm.java.lang.Class, 1), gateway.new_array(jvm.java.lang.Object, 1)
        types[0], values[0] = given.getClass(), given
        try:
            made = loader.loadClass("org.apache.hudi.keygen." + generator).getConstructor(types).newInstance(values)
        except Exception as error:
            return {"refused": str(error)[:500]}
        avro = jvm.org.apache.avro
        parsed = avro.Schema.Parser().parse(schema)
        reader = avro.generic.GenericDatumReader(parsed)
        found = []
        for row in rows:
            record = reader.read(None, avro.io.DecoderFactory.get().jsonDecoder(parsed, row))
            try:
                key = made.getKey(record)
                found.append([key.getRecordKey(), key.getPartitionPath()])
            except Exception as error:
                found.append(str(error)[:500])
        return {"keys": found}

    def op_index(self, path, types, phase=None, instant=None, options=None):
        """Plans (`schedule`) or runs (`execute`) the building of indexes, by its types of partitions; or both."""
        jvm = self.spark._jvm
        properties = jvm.java.util.Properties()
        given = {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.async": "true",
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
            "hoodie.write.auto.upgrade": "false",
            "hoodie.write.table.version": self._table_version(path),
            **(options or {}),
        }
        for key, value in given.items():
            properties.setProperty(key, value)
        config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withPath(path).withProperties(properties)
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)
        client = jvm.org.apache.hudi.client.SparkRDDWriteClient(context, config.forTable("t").build())
        try:
            if phase != "execute":
                chosen = jvm.java.util.ArrayList()
                for name in types:
                    chosen.add(jvm.org.apache.hudi.metadata.MetadataPartitionType.valueOf(name.upper()))
                made = client.scheduleIndexing(chosen, jvm.java.util.ArrayList())
                instant = made.get() if made.isPresent() else None
            done = False
            if phase != "schedule" and instant is not None:
                done = client.index(instant).isPresent()
        finally:
            client.close()
        return {"instant": instant, "done": done}

    def _table_version(self, path):
        with open(os.path.join(path, ".hoodie", "hoodie.properties")) as properties:
            found = [line.partition("=")[2].strip() for line in properties if line.startswith("hoodie.table.version=")]
        return found[0]

    def op_timeline(self, path):
        return {"instants": self._instants(path)}

    def op_check(self, path, keys=1, deep=False, by_key=True):
        """Opens a table in several ways which must agree. The answer's "problems" is empty when they do.

        `deep`: the ranges of every column, the listing and the record index are compared with the rows themselves.
        `by_key`: whether filters name the key. Over logs of partial updates they must not: Apache Hudi 1.2.0 reads no
        base row that such a filter leaves out, takes the updates for whole rows, and reads beyond them.
        """
        properties = table_properties(path)
        report = {
            "table": properties.get("hoodie.table.name"),
            "type": properties.get("hoodie.table.type"),
            "version": properties.get("hoodie.table.version"),
            "metadata_partitions": split(properties.get("hoodie.table.metadata.partitions")),
        }
        with_metadata = self._load(path, **{"hoodie.metadata.enable": "true"})
        without = self._load(path, **{"hoodie.metadata.enable": "false"})
        problems = []
        rows, other = sorted(with_metadata.toJSON().collect()), sorted(without.toJSON().collect())
        report["rows"] = len(rows)
        if rows != other:
            problems.append(
                f"snapshot differs: {len(rows)} rows with the metadata table, {len(other)} without; "
                f"{len(set(rows) ^ set(other))} rows are in one only"
            )
        if "_hoodie_record_key" in with_metadata.columns and properties.get("hoodie.populate.meta.fields") != "false":
            found = [json.loads(row) for row in rows]
            times = Counter((row.get("_hoodie_partition_path"), row.get("_hoodie_record_key")) for row in found)
            twice = sum(count > 1 for count in times.values())
            if twice:
                problems.append(f"{twice} record keys occur more than once in a partition")
        if properties.get("hoodie.table.type") == "MERGE_ON_READ":
            report["read_optimized_rows"] = self._load(path, **{QUERY + "type": "read_optimized"}).count()
        key_fields = split(properties.get("hoodie.table.recordkey.fields"))
        report["filters_compared"], differing = self._compare_filters(path, without, keys, key_fields, by_key)
        problems += differing
        if deep:
            left_out = [] if by_key else ["_hoodie_record_key", *key_fields]
            report["ranges_compared"], differing = self._compare_ranges(path, without, left_out)
            problems += differing
            if "record_index" in report["metadata_partitions"]:
                report["locations_compared"], differing = self._compare_locations(path, without)
                problems += differing
        if "files" in report["metadata_partitions"]:
            report["validate_metadata_table_files"], differing = self._compare_listing(path)
            problems += differing
        report["instants"] = self._instants(path)
        report["problems"] = problems
        return report

    # ---- helpers

    def _declared(self, frame, types):
        """The rows with columns of Hudi's own types: files give Spark neither their metadata nor what is never null."""
        from pyspark.sql import DataFrame

        schema = json.loads(frame.schema.json())
        for field in schema["fields"]:
            kind = types.get(field["name"])
            if kind is None:
                continue
            field["metadata"] = {"hudi_type": kind}
            if kind.startswith("VECTOR"):
                field["type"]["containsNull"] = False
            elif kind == "VARIANT":
                for member in field["type"]["fields"]:
                    member["nullable"] = False
        made = self.spark._jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(schema))
        return DataFrame(self.spark._jsparkSession.createDataFrame(frame._jdf.toJavaRDD(), made), self.spark)

    def _load(self, path, **options):
        return self.spark.read.format("hudi").options(**options).load(path)

    def _compare_filters(self, path, without, keys, key_fields, by_key):
        """A row must be found by all of its values together, with data skipping as without it.

        The rows are of the first file and the last: one whose statistics leave out the value of its row, in whichever
        column, is skipped, and the row is lost. Key fields are asked for by themselves: another index may answer.
        """
        from pyspark.sql.functions import col, lit

        types = ("integer", "long", "string", "double", "date", "timestamp", "boolean", "decimal")
        simple = [
            field.name
            for field in without.schema.fields
            if not field.name.startswith("_hoodie_") and field.dataType.typeName() in types
        ]
        file = "_hoodie_file_name" if "_hoodie_file_name" in without.columns else None
        rows = without.select(*[f"`{name}`" for name in [*simple, file] if name]).collect() if simple else []
        files = {}
        for row in rows:
            files.setdefault(row[file] if file else None, []).append(row)
        of_files = list(files.values())
        chosen = [row for each in [*of_files[:1], *of_files[1:][-1:]] for row in each[:keys]]
        conditions, expected = [], []
        for number, row in enumerate(chosen):
            # Spark's Parquet reader finds no NaN by its value, and not every zero: its two signs are equal.
            given = [name for name in simple if row[name] is not None and not is_nan_or_zero(row[name])]
            key = [name for name in given if name in key_fields]
            for names in (key if by_key and not number else [], [name for name in given if name not in key]):
                if names:
                    text = " and ".join(f"{name} = {row[name]!r}" for name in names)
                    same = [col(f"`{name}`") == lit(row[name]) for name in names]
                    conditions.append((text, functools.reduce(lambda one, other: one & other, same)))
                    expected.append(sum(all(other[name] == row[name] for name in names) for other in rows))
        return len(conditions), self._compare_counts(path, conditions, expected, without)

    def _compare_ranges(self, path, without, left_out):
        """Rows with the least or greatest value of a column, or with its null, with data skipping as without.

        Statistics of files and partitions which are too narrow, or count nulls wrongly, lose rows here. Each query asks
        for one row by the ranges of all its columns (equality would be answered by another index), and there are as
        many as every file needs that has such a value: two queries of each column take several times as long.
        """
        from pyspark.sql import functions

        types = ("integer", "long", "float", "double", "string", "date", "timestamp", "boolean", "decimal")
        columns = [
            field.name
            for field in without.schema.fields
            if field.dataType.typeName().split("(")[0] in types and field.name not in ("_hoodie_file_name", *left_out)
        ]
        if not columns:
            return 0, []
        bounds = [function(f"`{name}`") for name in columns for function in (functions.min, functions.max)]
        least_and_greatest = without.agg(*bounds).collect()[0]
        conditions, wanted = [], {}
        for number, name in enumerate(columns):
            column, low, high = functions.col(f"`{name}`"), *least_and_greatest[2 * number : 2 * number + 2]
            wanted[name] = [None, low, high]
            for known, text, condition in (
                (low, f"{name} <= least", column <= functions.lit(low)),
                (high, f"{name} >= greatest", column >= functions.lit(high)),
            ):
                if is_nan_or_zero(known):  # which has no place in the conditions of a row
                    conditions.append((text, condition))
        file = "_hoodie_file_name" if "_hoodie_file_name" in without.columns else None
        left = {}
        for row in without.select(*[f"`{name}`" for name in [*columns, file] if name]).collect():
            values = {name: row[name] for name in columns if not is_nan_or_zero(row[name])}
            left[row] = {
                (name, str(value), row[file] if file else None)
                for name, value in values.items()
                if value in wanted[name]
            }
        while any(left.values()):
            chosen, shown = max(left.items(), key=lambda item: len(item[1]))
            values = {name: chosen[name] for name in columns if not is_nan_or_zero(chosen[name])}
            condition = functools.reduce(lambda one, other: one & other, map(same_range, values, values.values()))
            conditions.append((f"the ranges of {values}", condition))
            left = {row: others - shown for row, others in left.items()}
        return len(conditions), self._compare_counts(path, conditions, self._counts(without, conditions))

    def _counts(self, frame, conditions):
        """For each condition the number of rows it holds for, all rows being read."""
        from pyspark.sql import functions

        sums = [functions.sum(functions.when(condition, 1).otherwise(0)) for _, condition in conditions]
        return [count or 0 for count in frame.agg(*sums).collect()[0]]

    def _compare_counts(self, path, conditions, expected, without=None, **options):
        """Each condition must hold for as many rows when files are skipped by it as when all are read.

        With `without`, rows that a query of the condition does not find there either are not missed.

        Every condition is a query of its own, which skips files for itself; all of them are run as one job, since a
        job costs more than such a query does.
        """
        from pyspark.sql import functions

        skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true", **options}
        found = Counter()
        for start in range(0, len(conditions), AT_ONCE):
            queries = [
                self._load(path, **skipping).where(condition).select(functions.lit(number).alias("number"))
                for number, (_, condition) in enumerate(conditions[start : start + AT_ONCE], start)
            ]
            together = functools.reduce(lambda one, other: one.unionAll(other), queries)
            found.update({row["number"]: row["count"] for row in together.groupBy("number").count().collect()})
        return [
            f"filter {text}: {found[number]} rows with data skipping, {known} without"
            for number, ((text, _), known) in enumerate(zip(conditions, expected, strict=True))
            if found[number] != known
            and (without is None or found[number] != without.where(conditions[number][1]).count())
        ]

    def _compare_locations(self, path, without):
        """The record index has each key of the table once, in its partition, and no other key; looked up, it finds the
        row."""
        from pyspark.sql.functions import col, lit

        with self._registered(path) as name:
            found = self.spark.sql(
                f"select key, recordIndexMetadata.partitionName as partition from hudi_metadata('{name}') "
                "where type = 5"
            ).collect()
        indexed = Counter((row["key"], row["partition"]) for row in found)
        stored = without.select("_hoodie_record_key", "_hoodie_partition_path").distinct().collect()
        rows = Counter((row["_hoodie_record_key"], row["_hoodie_partition_path"]) for row in stored)
        problems = [
            f"record index {what}: {sum(keys.values())} keys, such as {next(iter(keys))}"
            for what, keys in (
                ("lacks rows of the table", rows - indexed),
                ("has rows which the table has not", indexed - rows),
            )
            if keys
        ]
        probes = [*[key for key, _ in list(rows)[:5]], "no such key"]
        conditions = [(f"record key {key!r}", col("_hoodie_record_key") == lit(key)) for key in probes]
        use = {"hoodie.metadata.record.index.enable": "true"}
        return sum(indexed.values()), problems + self._compare_counts(
            path, conditions, self._counts(without, conditions), without, **use
        )

    def _compare_listing(self, path):
        try:
            found = self.op_call(path, "validate_metadata_table_files(table => '{table}')")["rows"]
        except Exception as error:  # the procedure is missing in some releases
            return "not run: " + first_line(error), []
        bad = [
            row
            for row in found
            if row.get("is_present_in_fs") != row.get("is_present_in_metadata")
            or row.get("fs_size") != row.get("metadata_size")
        ]
        return found, [f"metadata table and storage disagree: {json.dumps(row)}" for row in bad]

    def _answer(self, frame, out=None, limit=None, ordered=False):
        frame = frame.coalesce(1)
        keys = [field.name for field in frame.schema.fields if "map" not in field.dataType.simpleString()]
        first = [k for k in ("_hoodie_partition_path", "_hoodie_record_key", "_hoodie_commit_time") if k in keys]
        order = first + [k for k in keys if k not in first]
        if order and not ordered:
            frame = frame.sortWithinPartitions(*[f"`{k}`" for k in order])
        if limit:
            frame = frame.limit(limit)
        schema = frame.schema.simpleString()
        if out and out.endswith(".parquet"):
            folder = tempfile.mkdtemp(dir=self.scratch)
            frame.write.mode("overwrite").parquet(folder)
            shutil.move(glob.glob(os.path.join(folder, "*.parquet"))[0], out)
            shutil.rmtree(folder)
            return {"out": out, "schema": schema}
        self.spark.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "false")
        lines = frame.toJSON().collect()
        if out:
            with open(out, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines)
            return {"out": out, "count": len(lines), "schema": schema}
        return {"count": len(lines), "schema": schema, "rows": [json.loads(line) for line in lines]}

    @contextlib.contextmanager
    def _registered(self, path):
        """The table's name, in the catalog for as long as the block runs.

        It must not stay there: Apache Hudi takes the schema to write with from the catalog's table of that name,
        wherever that one lies.
        """
        name = table_properties(path).get("hoodie.table.name") or "t"
        # This forgets the table only: one with a location keeps its files.
        forget = f"drop table if exists `{name}`"
        self.spark.sql(forget)
        self.spark.sql(f"create table `{name}` using hudi location '{path}'")
        try:
            yield name
        finally:
            self.spark.sql(forget)

    def _instants(self, path):
        """The timeline, the archived part included, oldest first."""
        jvm = self.spark._jvm
        storage = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(self.spark._jsc.hadoopConfiguration())
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        client = client.setConf(storage).setBasePath(path).build()
        old, found = VERSION.startswith("0."), {}
        for archived, timeline in ((True, client.getArchivedTimeline()), (False, client.getActiveTimeline())):
            for instant in list(timeline.getInstants()):
                requested = instant.getTimestamp() if old else instant.requestedTime()
                completed = instant.getStateTransitionTime() if old else instant.getCompletionTime()
                found[(requested, instant.getAction())] = {
                    "requested": requested,
                    "completed": completed,
                    "action": instant.getAction(),
                    "state": instant.getState().toString(),
                    "archived": archived,
                }
        return [found[key] for key in sorted(found)]

    @contextlib.contextmanager
    def _session_options(self, options):
        settings = {"hoodie.write.auto.upgrade": "false", **(options or {})}
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)


def serve(oracle, answers):
    for line in sys.stdin:
        if not line.strip():
            continue
        ident = None
        try:
            request = json.loads(line)
            ident = request.pop("id", None)
            if request.get("op") == "stop":
                break
            answer = {"id": ident, "ok": True, **oracle.handle(request)}
        except Exception as error:  # whatever went wrong is the answer to this request; the next one may do well
            trace = traceback.format_exc()[-6000:]
            answer = {"id": ident, "ok": False, "error": first_line(error), "trace": trace}
        answers.write(json.dumps(answer, default=str, ensure_ascii=False) + "\n")
        answers.flush()


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="op", required=True)

    def command(name, *positional, **kw):
        sub = commands.add_parser(name, **kw)
        for arg in positional:
            sub.add_argument(arg)
        sub.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", dest="options")
        return sub

    read = command("read", "path", help="dump the rows a query returns")
    read.add_argument("--as-of")
    read.add_argument("--incremental", nargs="+", metavar=("BEGIN", "END"))
    read.add_argument("--query-type", default="snapshot", choices=["snapshot", "read_optimized", "incremental", "cdc"])
    read.add_argument("--where")
    read.add_argument("--columns")
    read.add_argument("--drop-meta", action="store_true")
    read.add_argument("--limit", type=int)
    read.add_argument("--out")
    sql = command("sql", "file", help="run the statements of a file ('-' for stdin)")
    sql.add_argument("--path", help="register the table at this path; {table} names it")
    sql.add_argument("--out")
    command("call", "path", "procedure", help="run a procedure on the table at PATH")
    write = command("write", "path", "input", help="write a file's rows into a table")
    write.add_argument("--operation", default="upsert")
    for name in ("name", "key", "ordering", "partition", "mode", "schema"):
        write.add_argument("--" + name)
    write.add_argument("--type", choices=["cow", "mor"])
    write.add_argument("--table-version", type=int)
    command("timeline", "path", help="list the instants")
    command("check", "path", help="compare the ways to read a table")
    command("version", help="start Spark and show versions")
    command("serve", help="answer requests, one JSON object a line")
    args = {k: v for k, v in vars(parser.parse_args(argv)).items() if v is not None and v is not False}
    options = dict(pair.split("=", 1) for pair in args.pop("options"))
    if options:
        args["options"] = options
    if "incremental" in args:
        args["begin"], *rest = args.pop("incremental")
        if rest:
            args["end"] = rest[0]
    if args.get("query_type") == "incremental":
        args.pop("query_type")
        args.setdefault("begin", "000")
    if args["op"] == "sql":
        file = args.pop("file")
        if file == "-":
            args["text"] = sys.stdin.read()
        else:
            with open(file, encoding="utf-8") as statements:
                args["text"] = statements.read()
    for name in ("path", "input", "out"):
        if name in args and "://" not in args[name]:
            args[name] = os.path.abspath(args[name])
    return args


def main(argv):
    request = parse(argv)
    # stdout carries answers only: whatever Spark and Apache Hudi print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    oracle = Oracle()
    try:
        if request["op"] == "serve":
            serve(oracle, answers)
            return 0
        answer = oracle.handle(request)
        answers.write(json.dumps(answer, indent=1, default=str, ensure_ascii=False) + "\n")
        answers.flush()
        return 1 if answer.get("problems") else 0
    finally:
        oracle.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
