"""Times Spark jobs on request: one JSON object a line on stdin, its answer one line on stdout.

The same script serves both sides. In the project's environment the format is `hudi-py` (or `parquet`); in the
environment of Apache Hudi's bundle it is `hudi`. Seconds are measured around the Spark action alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def session(jar: str) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
    )
    if jar:
        builder = (
            builder.config("spark.jars" if os.path.exists(jar) else "spark.jars.packages", jar)
            .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
            .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        )
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def run(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    if request["format"] == "hudi-py":
        import pyspark_hudi

        (pyspark_hudi.enable if request.get("enabled") else pyspark_hudi.disable)(spark)
    if request["op"] == "write":
        source = spark.read.parquet(request["source"])
        started = time.perf_counter()
        source.write.format(request["format"]).options(**request["options"]).mode(request.get("mode", "append")).save(
            request["path"]
        )
        return {"seconds": time.perf_counter() - started}
    if request["op"] == "sql":
        spark.sql("DROP TABLE IF EXISTS measured")
        spark.sql(f"CREATE TABLE measured USING `{request['format']}` LOCATION '{request['path']}'")
        if request.get("source"):
            spark.read.parquet(request["source"]).createOrReplaceTempView("source")
        started = time.perf_counter()
        spark.sql(request["statement"].format(table="measured"))
        return {"seconds": time.perf_counter() - started}
    started = time.perf_counter()
    reader = spark.read.format(request["format"]).options(**request.get("options", {}))
    frame: DataFrame = reader.load(request.get("files") or request["path"])
    value: Any = None
    if request["op"] == "all":
        frame.write.format("noop").mode("overwrite").save()
    elif request["op"] == "plan":
        chosen = frame.where(request["where"]) if request.get("where") else frame
        value = chosen.rdd.getNumPartitions()
    elif request["op"] == "one":
        row = frame.selectExpr("sum(l_quantity)").first()
        value = None if row is None else str(row[0])
    elif request["op"] in ("count", "incremental"):
        value = frame.count()
    elif request["op"] == "partition":
        row = frame.where("l_shipyear = 1995").selectExpr("count(*)", "sum(l_quantity)").first()
        value = None if row is None else [str(part) for part in row]
    return {"seconds": time.perf_counter() - started, "value": value}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = session(sys.argv[1] if len(sys.argv) > 1 else "")
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "stop":
            break
        try:
            answer = run(spark, request)
        except Exception as error:  # the caller decides: an engine that cannot do a query is a row in the report
            answer = {"error": str(error).strip().split("\n")[0][:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
