"""Compaction of TPC-H lineitem with 5 % of its rows in logs, by hudi-py and by Apache Hudi, in one run.

    python -m benchmarks compaction --scale 0.5 --out figures.json

Both compact copies of the same table, which hudi-py wrote with its metadata table on; both plan, carry out and commit.
Apache Hudi runs in one JVM that has compacted a copy before, so that nothing of its start is counted. The limit is what
reading the base files into memory and writing the merged rows with pyarrow takes, in the same codec, on all cores. Peak
memory is that of a process which does nothing but compact. Compare ratios, never seconds between machines.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

import hudi_py
from benchmarks.tpch import Figures, median, prepare, report, table_options, timed
from tests.oracle.client import Oracle
from tests.oracle.environment import locate

ROW = "compaction, 5 % of the rows in logs"
MEMORY = """
import sys
import hudi_py
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
before = peak()
hudi_py.open_table(sys.argv[1]).compact()
print(peak(), before)
"""


def make(work: Path, scale: float) -> Path:
    """Creates a merge-on-read table with logs in every file group."""
    source, update = prepare(work, scale)
    path = work / "table"
    for folder, operation in ((source, "bulk_insert"), (update, "upsert")):
        options = table_options("MERGE_ON_READ", operation)
        options.pop("hoodie.datasource.write.operation")
        hudi_py.write(str(path), pq.read_table(folder), operation, options)
    return path


def copy_of(table: Path) -> Path:
    """Makes a fresh copy, replacing the previous one."""
    copy = table.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy)
    return copy


def ours(table: Path) -> float:
    copy = copy_of(table)
    return timed(lambda: hudi_py.open_table(str(copy)).compact())


def theirs(table: Path, oracle: Oracle) -> float:
    copy = copy_of(table)
    options = "hoodie.compact.inline.max.delta.commits=1"
    call = f"run_compaction(op => 'scheduleAndExecute', table => '{{table}}', options => '{options}')"
    return timed(lambda: oracle.call(str(copy), call))


def limit(table: Path) -> float:
    """Reads base files and writes them with pyarrow alone."""
    files = sorted(table.glob("*/*.parquet"))
    target = table.with_name("plain")
    target.mkdir(exist_ok=True)

    def one(file: Path) -> None:
        rows = pq.ParquetFile(file).read(use_threads=False)
        pq.write_table(rows, target / file.name, compression="gzip", compression_level=4)

    def act() -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(one, files))

    return timed(act)


def peak_memory(table: Path) -> tuple[int, int]:
    """Returns the peak MB of a process that compacts, and the MB before it begins."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(copy_of(table))], check=True, capture_output=True, text=True
    )
    most, before = done.stdout.split()[-2:]
    return int(most), int(before)


def run(scale: float, runs: int, work: Path) -> Figures:
    table = make(work, scale)
    row: dict[str, float | None] = {"hudi-py (core)": median(runs, ours, table)}
    row["pyarrow, base files alone"] = median(runs, limit, table)
    most, before = peak_memory(table)
    largest = max(file.stat().st_size for file in table.glob("*/*.parquet")) >> 20
    print(f"  peak memory {most} MB ({before} MB before the first row); the largest base file has {largest} MB")
    if locate() is None:
        print("  Apache Hudi's environment is not set up (make oracle): left out", file=sys.stderr)
        return {ROW: row}
    oracle = Oracle(timeout=3600)
    try:
        theirs(table, oracle)  # warms the JVM up
        row["Apache Hudi"] = median(runs, theirs, table, oracle)
    finally:
        oracle.close()
    return {ROW: row}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor; 1 is 6 million rows")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where to store the figures as JSON")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hudi-py-bench-") as folder:
        figures = run(given.scale, given.runs, Path(folder))
    print(report(figures))
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
