"""The main job on real data: TPC-H as a Hudi table through Spark, plain Python and DuckDB, with no JAR.

`make demo` runs it. Every step checks its own result and the run fails when one is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from pyspark_hudi import run_service

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "data" / "v9_mor_ops"
BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 4

LINEITEM = {
    "hoodie.table.name": "lineitem",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "l_orderkey,l_linenumber",
    "hoodie.datasource.write.partitionpath.field": "l_shipyear",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.precombine.field": "l_version",
}
ORDERS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "o_orderkey",
    "hoodie.datasource.write.partitionpath.field": "o_orderyear",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.precombine.field": "o_version",
}


class Check:
    """Prints what was compared, and ends the run at the first difference."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            raise SystemExit(f"demo: {what}: found {found!r}, expected {expected!r}")
        self.count += 1
        print(f"  {GREEN}✓{RESET} {what}: {found}")


@contextmanager
def step(title: str) -> Iterator[None]:
    """Prints a heading, then how long the step took."""
    print(f"\n{BOLD}{title}{RESET}", flush=True)
    started = time.perf_counter()
    yield
    print(f"  {DIM}{time.perf_counter() - started:.1f} s{RESET}", flush=True)


def generate(folder: Path, scale: float) -> None:
    """TPC-H lineitem and orders as Parquet files."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run(
        [str(program), "parquet", "-s", str(scale), "--tables=lineitem,orders", f"--output-dir={folder}"], check=True
    )


def save(frame: DataFrame, path: str, options: dict[str, str], operation: str) -> None:
    frame.write.format("hudi-py").options(**options).option("hoodie.datasource.write.operation", operation).mode(
        "append"
    ).save(path)


def show_timeline(table: hudi_py.Table) -> None:
    """The table's instants as a terminal table."""
    rows = table.instants().to_pylist()
    print(f"  {'instant':<19}{'completed':<19}{'action':<14}state")
    for row in rows:
        print(f"  {row['instant']:<19}{row['completion_time'] or '-':<19}{row['action']:<14}{row['state']}")


def sorted_rows(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of some columns, by record key."""
    rows: list[dict[str, Any]] = table.select(columns).sort_by("_hoodie_record_key").to_pylist()
    return rows


def run(spark: SparkSession, work: Path, scale: float) -> int:
    check = Check()
    raw = work / "tpch"
    lineitem_path, orders_path = str(work / "lineitem"), str(work / "orders")

    with step(f"TPC-H data, scale factor {scale}"):
        generate(raw, scale)
        lines = pq.read_metadata(raw / "lineitem.parquet").num_rows
        orders = pq.read_metadata(raw / "orders.parquet").num_rows
        print(f"  lineitem {lines:,} rows, orders {orders:,} rows")

    lineitem = spark.read.parquet(str(raw / "lineitem.parquet")).selectExpr(
        "*", "year(l_shipdate) as l_shipyear", "cast(1 as bigint) as l_version"
    )
    order = spark.read.parquet(str(raw / "orders.parquet")).selectExpr(
        "*", "year(o_orderdate) as o_orderyear", "cast(1 as bigint) as o_version"
    )

    with step("Write both as partitioned merge-on-read tables: df.write.format('hudi-py')"):
        save(lineitem, lineitem_path, LINEITEM, "bulk_insert")
        save(order, orders_path, ORDERS, "bulk_insert")
        table = hudi_py.open_table(lineitem_path)
        check("table version", table.version, 9)
        check("lineitem rows", table.scan().count(), lines)
        check("orders rows", hudi_py.open_table(orders_path).scan().count(), orders)
        first = table.instants().to_pylist()[-1]["instant"]

    # The refresh functions of TPC-H: RF1 inserts new orders with their lines, RF2 deletes old ones.
    size = max(1, orders // 1000)
    keys = sorted(pq.read_table(raw / "orders.parquet", columns=["o_orderkey"])["o_orderkey"].to_pylist())
    new_keys, old_keys, shift = keys[:size], keys[-size:], keys[-1] + 1
    new_filter = f"l_orderkey <= {new_keys[-1]}"
    old_filter = f"l_orderkey >= {old_keys[0]}"
    with step(f"TPC-H refresh: RF1 inserts {size} orders, RF2 deletes {size} orders, with their lines"):
        rf1_lines = lineitem.where(new_filter).selectExpr(
            f"l_orderkey + {shift} as l_orderkey", *[name for name in lineitem.columns if name != "l_orderkey"]
        )
        rf1_orders = order.where(f"o_orderkey <= {new_keys[-1]}").selectExpr(
            f"o_orderkey + {shift} as o_orderkey", *[name for name in order.columns if name != "o_orderkey"]
        )
        added, removed = lineitem.where(new_filter).count(), lineitem.where(old_filter).count()
        save(rf1_lines, lineitem_path, LINEITEM, "upsert")
        save(rf1_orders, orders_path, ORDERS, "upsert")
        save(lineitem.where(old_filter), lineitem_path, LINEITEM, "delete")
        save(order.where(f"o_orderkey >= {old_keys[0]}"), orders_path, ORDERS, "delete")
        check("lineitem rows after the refresh", table.scan().count(), lines + added - removed)
        check("orders rows after the refresh", hudi_py.open_table(orders_path).scan().count(), orders)

    before = table.scan(columns=["l_quantity"]).to_table()["l_quantity"]
    with step("Update 5 % of the lines: upsert with a higher ordering value"):
        update = (
            lineitem.where(f"(l_orderkey * 7 + l_linenumber) % 20 = 0 and not ({old_filter})")
            .drop("l_quantity", "l_version")
            .selectExpr("*", "cast(1000 as decimal(15,2)) as l_quantity", "cast(2 as bigint) as l_version")
            .select(*lineitem.columns)
        )
        stale = lineitem.where(f"l_orderkey % 100 = 1 and not ({old_filter})").selectExpr(
            *[name for name in lineitem.columns if name not in ("l_quantity", "l_version")],
            "cast(-1 as decimal(15,2)) as l_quantity",
            "cast(0 as bigint) as l_version",
        )
        updated = update.count()
        save(update, lineitem_path, LINEITEM, "upsert")
        save(stale.select(*lineitem.columns), lineitem_path, LINEITEM, "upsert")
        print(f"  {updated:,} rows updated; {stale.count():,} late rows with a lower ordering value sent after them")

    with step("Spark SQL: snapshot, read-optimized, time travel"):
        reader = spark.read.format("hudi-py")
        reader.load(lineitem_path).createOrReplaceTempView("lineitem")
        spark.read.format("hudi-py").option("hoodie.datasource.query.type", "read_optimized").load(
            lineitem_path
        ).createOrReplaceTempView("lineitem_ro")
        spark.read.format("hudi-py").option("as.of.instant", first).load(lineitem_path).createOrReplaceTempView(
            "lineitem_first"
        )
        q1 = """select l_returnflag, l_linestatus, sum(l_quantity) as quantity, count(*) as lines
                from {} where l_shipdate <= date'1998-09-02' group by 1, 2 order by 1, 2"""
        snapshot = spark.sql(q1.format("lineitem")).collect()
        for row in snapshot:
            print(f"    {row.l_returnflag} {row.l_linestatus} {row.quantity:>16} {row.lines:>10,}")
        found = spark.sql(
            "select sum(if(l_quantity = 1000, 1, 0)), sum(if(l_quantity < 0, 1, 0)), count(*) from lineitem"
        ).first()
        assert found is not None
        check("updated rows, late rows, all rows in the snapshot", tuple(found), (updated, 0, lines + added - removed))
        rows = spark.sql("select count(*), sum(if(l_quantity = 1000, 1, 0)) from lineitem_ro").first()
        assert rows is not None
        check("read-optimized: updates and deletes are still in the logs", tuple(rows), (lines + added, 0))
        then = [tuple(row) for row in spark.sql(q1.format("lineitem_first")).collect()]
        lineitem.createOrReplaceTempView("lineitem_raw")
        source = [tuple(row) for row in spark.sql(q1.format("lineitem_raw")).collect()]
        check("time travel to the first commit equals the source data", then == source, True)

    with step("The same table from plain Python: Arrow and DuckDB"):
        arrow = table.scan(columns=["l_quantity", "l_version"]).to_table()
        check("Arrow rows", arrow.num_rows, lines + added - removed)
        check("rows of version 2 in Arrow", pc.sum(pc.equal(arrow["l_version"], 2)).as_py(), updated)
        old_quantity = pc.sum(before).as_py()
        check("quantity rose", pc.sum(arrow["l_quantity"]).as_py() > old_quantity, True)
        scan = table.scan(
            columns=["l_returnflag", "l_linestatus", "l_quantity"], filter="l_shipdate <= date '1998-09-02'"
        )
        relation = scan.to_duckdb(duckdb.connect())
        answer = relation.aggregate("l_returnflag, l_linestatus, sum(l_quantity), count(*)").order("1, 2").fetchall()
        theirs_sql = [(row.l_returnflag, row.l_linestatus, row.quantity, row.lines) for row in snapshot]
        check("DuckDB agrees with Spark SQL", [(a, b, Decimal(c), d) for a, b, c, d in answer] == theirs_sql, True)
        one = table.scan(filter="l_orderkey = 1 and l_linenumber = 1").to_table()
        position = one.schema.get_field_index("l_version")
        result = table.upsert(one.set_column(position, "l_version", pa.array([3], pa.int64())))
        check("one row updated from Arrow", (result.num_updated, result.num_inserted), (1, 0))

    with step("Table services: a savepoint, and a compaction in Spark's tasks"):
        with_logs = [row for row in table.files().to_pylist() if row["log_files"]]
        saved = run_service(spark, lineitem_path, "savepoint", comment="before the compaction")["savepoint"]
        compacted = run_service(spark, lineitem_path, "compaction")
        print(f"  {compacted['num_file_groups']} file groups, {compacted['num_log_files']} log files merged")
        check("file groups compacted", compacted["num_file_groups"], len(with_logs))
        everything = lines + added - removed
        check("rows of base files alone", table.scan(query_type="read_optimized").count(), everything)
        check("rows as of the savepoint", table.scan(as_of=saved).count(), everything)
        check("the metadata table says what the files do", table.metadata.verify().ok, True)

    with step("The timeline"):
        show_timeline(hudi_py.open_table(lineitem_path))

    with step("A table which Apache Hudi wrote: read it, upsert it"):
        with tarfile.open(GOLDEN / "table.tar.gz") as archive:
            archive.extractall(work, filter="data")
        theirs = hudi_py.open_table(str(work / "v9_mor_ops"))
        expected = pq.read_table(GOLDEN / "expected" / "snapshot.parquet")
        rows_before = theirs.scan().to_table()
        check("rows as Apache Hudi reads them", rows_before.num_rows, expected.num_rows)
        columns = ["_hoodie_record_key", "_hoodie_commit_time", "ts", "rider", "fare", "city"]
        same = sorted_rows(rows_before, columns) == sorted_rows(expected, columns)
        check("every key, commit time and value as Apache Hudi reads them", same, True)
        one = rows_before.slice(0, 1)
        newer = one.set_column(one.schema.get_field_index("ts"), "ts", pa.array([10**9], pa.int64())).set_column(
            one.schema.get_field_index("rider"), "rider", pa.array(["demo"])
        )
        theirs.upsert(newer)
        after = theirs.scan(filter="rider = 'demo'").to_table()
        check("the upserted row", after["uuid"].to_pylist(), one["uuid"].to_pylist())
        check("rows after the upsert", theirs.scan().count(), expected.num_rows)
        show_timeline(theirs)
    return check.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--keep", help="a folder to work in and to keep; a temporary one by default")
    arguments = parser.parse_args()
    work = Path(arguments.keep or tempfile.mkdtemp(prefix="hudi-py-demo-")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    started = datetime.now()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("hudi-py demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        checks = run(spark, work, arguments.scale)
    finally:
        spark.stop()
        if not arguments.keep:
            shutil.rmtree(work, ignore_errors=True)
    print(f"\n{BOLD}{GREEN}All {checks} checks hold{RESET} ({(datetime.now() - started).seconds} s)")


if __name__ == "__main__":
    main()
