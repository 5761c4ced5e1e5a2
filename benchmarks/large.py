"""A table larger than memory: bulk insert, upserts, snapshot and compaction by `pyspark_hudi.write_table` at SF10.

    python -m benchmarks large --scale 10 --heap 2g --out figures.json

TPC-H lineitem, 60 million rows, merge on read, by years of shipping. Each step is a job of one Spark session with two
cores, whose driver has so much heap. Seconds, CPU seconds and peak memory (the proportional set size, which counts a
shared page once) are those of the step: of all of Spark's processes together, of the JVM, and of the largest Python
worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, pmod, xxhash64, year

import pyspark_hudi
from benchmarks.tpch import table_options

KEYS: Final = ("l_orderkey", "l_linenumber")
OPTIONS: Final = {
    **{key: value for key, value in table_options("MERGE_ON_READ", "").items() if value},
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
SHARES: Final = {"1/60": 60, "5 %": 20, "1/12": 12, "1/3": 3}
"""An upsert rewrites one of this many rows."""
EVERY_S: Final = 0.5


@dataclass(frozen=True)
class Figures:
    step: str
    seconds: float
    cpu_seconds: float
    rows: int
    peak_gib: float
    """Peak of all processes together."""
    peak_jvm_gib: float
    peak_python_gib: float
    """Peak of the largest Python process."""


class Processes:
    """Samples memory and CPU time of this process and all that it has started."""

    def __init__(self) -> None:
        self.peaks = [0, 0, 0]
        self._cpu: dict[int, float] = {}
        """CPU time of each process, including ended ones."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(EVERY_S):
            processes = _descendants(os.getpid())
            self._cpu |= {each: used for each in processes if (used := _cpu_seconds(each))}
            found = [(_is_java(each), _proportional_bytes(each)) for each in processes]
            java = [size for is_java, size in found if is_java]
            python = [size for is_java, size in found if not is_java]
            now = [sum(java) + sum(python), sum(java), max(python, default=0)]
            self.peaks = [max(pair) for pair in zip(self.peaks, now, strict=True)]

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())


def _descendants(root: int) -> list[int]:
    found, at = [root], 0
    while at < len(found):
        try:
            children = Path(f"/proc/{found[at]}/task").glob("*/children")
            found += [int(child) for each in children for child in each.read_text("ascii").split()]
        except OSError:  # it has just ended
            pass
        at += 1
    return found


def _is_java(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text("ascii").strip() == "java"
    except OSError:
        return False


def _proportional_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _cpu_seconds(process: int) -> float:
    """Returns user and system time, without that of others."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("ascii", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, text[text.rindex(")") + 2 :].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def generated(folder: Path, scale: float, parts: int) -> Path:
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    arguments = ["-s", f"{scale:g}", "--tables=lineitem", f"--parts={parts}", f"--output-dir={folder}"]
    subprocess.run([str(program), "parquet", *arguments], check=True)
    return folder / "lineitem"


def session(heap: str, folder: Path) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": heap,
        "spark.local.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "32",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def lineitem(spark: SparkSession, source: Path, version: int, one_in: int = 1) -> DataFrame:
    rows = spark.read.parquet(str(source))
    if one_in > 1:
        rows = rows.where(pmod(xxhash64(*KEYS), lit(one_in)) == 0)
    return rows.select("*", year(col("l_shipdate")).alias("l_shipyear"), lit(version).cast("long").alias("l_version"))


def run(given: argparse.Namespace, folder: Path, processes: Processes) -> list[Figures]:
    source = generated(folder / "source", given.scale, given.parts)
    spark = session(given.heap, folder / "spark")
    table = str(folder / "table")
    found: list[Figures] = []

    def step(name: str, work: Callable[[], int]) -> None:
        begun, cpu = time.perf_counter(), processes.cpu_seconds
        processes.peaks = [0, 0, 0]
        rows = work()
        seconds, cpu = time.perf_counter() - begun, processes.cpu_seconds - cpu
        found.append(Figures(name, seconds, cpu, rows, *(peak / 2**30 for peak in processes.peaks)))
        print(json.dumps(asdict(found[-1])), flush=True)

    def write(rows: DataFrame, operation: str) -> int:
        result = pyspark_hudi.write_table(rows, table, operation=operation, options=OPTIONS)
        return (result.num_inserted or 0) + (result.num_updated or 0)

    def counted() -> int:
        """Counts all rows, reading all columns, and checks that none was lost."""
        frame = pyspark_hudi.read_table(spark, table)
        frame.write.format("noop").mode("overwrite").save()
        return frame.count()

    step("bulk insert", lambda: write(lineitem(spark, source, 1), "bulk_insert"))
    step("snapshot without logs", counted)
    for version, (name, one_in) in enumerate(SHARES.items(), start=2):
        step(f"upsert of {name}", partial(write, lineitem(spark, source, version, one_in), "upsert"))
        if name == "5 %":
            step("snapshot with logs", counted)
    step("compaction", lambda: pyspark_hudi.run_service(spark, table, "compaction")["num_file_groups"])
    step("snapshot after compaction", counted)
    counts = {each.rows for each in found if each.step.startswith("snapshot")}
    if counts != {found[0].rows}:
        raise RuntimeError(f"{found[0].rows} rows were written and {sorted(counts)} read")
    spark.stop()
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks large", description=__doc__)
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--parts", type=int, default=20, help="files of the source")
    parser.add_argument("--heap", default="2g", help="of Spark's driver, whose threads are its executor")
    parser.add_argument("--folder", type=Path, help="where the tables are made; 15 GB at scale 10")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hudi-py-large-", dir=given.folder) as folder, Processes() as processes:
        found = run(given, Path(folder), processes)
    print(f"\n| {' | '.join(Figures.__dataclass_fields__)} |\n|{'---|' * len(Figures.__dataclass_fields__)}")
    for each in found:
        print("| " + " | ".join(f"{v:,.1f}" if isinstance(v, float) else f"{v}" for v in asdict(each).values()) + " |")
    if given.out:
        given.out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", "utf-8")
