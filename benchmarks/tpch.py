"""hudi-py, Apache Hudi, hudi-rs and Spark's Parquet reader on the same TPC-H lineitem, in one run.

    python -m benchmarks.tpch --scale 0.1 --out figures.json

Writes: bulk insert; an upsert of 5 % of the rows into a copy-on-write and a merge-on-read table. Reads: all columns,
one column, count, one partition, and what the upsert wrote. Each engine reads the same table, the one hudi-py wrote,
so that only readers differ; Spark's Parquet reader reads the base files of the copy-on-write table, and its own.
hudi-py reads through its format as it is, and after `enable`. Seconds are medians of `--runs`; compare ratios within
one run, never seconds between machines.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hudi_py
from tests.oracle.environment import locate

WORKER = Path(__file__).with_name("spark_worker.py")
READS = ("all", "one", "count", "partition", "incremental")
# The columns that a query needs are passed with the load: Spark passes them to Java's sources, but to no Python source.
# After `enable` this is left out.
LOAD_OPTIONS = {
    "one": {"columns": "l_quantity"},
    "count": {"columns": "_hoodie_record_key"},
    "partition": {"columns": "l_quantity,l_shipyear", "filter": "l_shipyear = 1995"},
}
Figures = dict[str, dict[str, float | None]]


def table_options(kind: str, operation: str, codec: str = "") -> dict[str, str]:
    """Returns the options of a table. Without `codec`, each engine takes its default: zstd, and gzip for Apache
    Hudi."""
    return {
        **({"hoodie.parquet.compression.codec": codec} if codec else {}),
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "l_orderkey,l_linenumber",
        "hoodie.datasource.write.partitionpath.field": "l_shipyear",
        "hoodie.datasource.write.precombine.field": "l_version",
    }


class SparkWorker:
    """A Spark session in a process of its own, in the environment of the given Python."""

    def __init__(self, python: str, form: str, jar: str = "", *, cpu: bool = False) -> None:
        """Starts the session. With `cpu`, calls return CPU seconds of all its processes."""
        self.form = form
        self.cpu = cpu
        self.enabled = False
        environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        self.process = subprocess.Popen(
            [python, str(WORKER), *([jar] if jar else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def __call__(
        self, op: str, path: Path, options: dict[str, str] | None = None, files: list[str] | None = None, **members: Any
    ) -> float | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request: dict[str, Any] = {"op": op, "path": str(path), "format": self.form, "enabled": self.enabled}
        request |= {"options": options or {}, "files": files, **members}
        if self.form == "hudi-py" and op in LOAD_OPTIONS and not self.enabled:
            request["options"] = {**request["options"], **LOAD_OPTIONS[op]}
        before = cpu_seconds(self.process.pid) if self.cpu else 0.0
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Spark process for format {self.form} ended during {op}")
        answer = json.loads(line)
        if "error" in answer:
            print(f"  {self.form} {op}: {answer['error']}", file=sys.stderr)
            return None
        return cpu_seconds(self.process.pid) - before if self.cpu else float(answer["seconds"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write('{"op": "stop"}\n')
        self.process.stdin.close()
        self.process.wait(timeout=60)


def cpu_seconds(root: int) -> float:
    """Returns user and system time of a process and all its descendants, including ended ones (Linux)."""
    parents: dict[int, int] = {}
    times: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                text = (each / "stat").read_text()
            except OSError:  # it has just ended
                continue
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(each.name)] = int(fields[1])
            times[int(each.name)] = sum(map(int, fields[11:15]))
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(times.get(each, 0) for each in found) / os.sysconf("SC_CLK_TCK")


def generated(work: Path, scale: float) -> Path:
    """Creates the lineitem file."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([str(program), "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={work}"], check=True)
    return work / "lineitem.parquet"


def prepare(work: Path, scale: float) -> tuple[Path, Path]:
    """Writes lineitem with a ship year and a version, and an update of 5 % of it over all its files."""
    table = pq.read_table(generated(work, scale))
    plain = pa.schema([(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in table.schema])
    table = table.cast(plain)
    table = table.append_column("l_shipyear", pc.cast(pc.year(table["l_shipdate"]), pa.int32()))
    table = table.append_column("l_version", pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))
    source, update = work / "source", work / "update"
    source.mkdir()
    update.mkdir()
    half = table.num_rows // 2  # two files: both cores read the source
    pq.write_table(table.slice(0, half), source / "0.parquet")
    pq.write_table(table.slice(half), source / "1.parquet")
    chosen = table.take(pa.array(range(0, table.num_rows, 20), pa.int64()))
    position = chosen.schema.get_field_index("l_version")
    pq.write_table(
        chosen.set_column(position, "l_version", pa.repeat(pa.scalar(2, pa.int64()), chosen.num_rows)),
        update / "0.parquet",
    )
    return source, update


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def core_write(path: Path, source: Path, options: dict[str, str]) -> float:
    """Times `hudi_py.write` without Spark, from the same Parquet files."""
    operation = options.pop("hoodie.datasource.write.operation")
    return timed(lambda: hudi_py.write(str(path), pq.read_table(source), operation, options))


def incremental_options(path: Path) -> dict[str, str]:
    """Returns the options for reading what was written after the first commit."""
    first = hudi_py.open_table(str(path)).history()["completion_time"][0].as_py()
    return {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": first,
    }


def core_read(path: Path, op: str) -> float:
    def act() -> object:
        if op == "incremental":
            begin = incremental_options(path)["hoodie.datasource.read.begin.instanttime"]
            return hudi_py.open_table(str(path)).scan(query_type="incremental", begin=begin).count()
        scan = hudi_py.open_table(str(path)).scan
        if op == "all":
            return sum(batch.num_rows for batch in scan().to_batches())
        if op == "count":
            return scan().count()
        if op == "one":
            return pc.sum(scan(columns=["l_quantity"]).to_table()["l_quantity"])
        return pc.sum(scan(columns=["l_quantity"], filter="l_shipyear = 1995").to_table()["l_quantity"])

    return timed(act)


def hudi_rs_read(path: Path, op: str) -> float | None:
    """Times a snapshot read by hudi-rs; None, with the reason on stderr, if it cannot read the table."""
    from hudi import HudiReadOptions, HudiTableBuilder

    def act() -> object:
        options = HudiReadOptions()
        if op == "partition":
            options = options.with_filters([("l_shipyear", "=", "1995")])
        if op != "all":
            options = options.with_projection(["l_quantity"])
        batches = HudiTableBuilder.from_base_uri(str(path)).build().read(options)
        return sum(batch.num_rows if op in ("all", "count") else batch["l_quantity"].nbytes for batch in batches)

    try:
        return timed(act)
    except Exception as error:  # a gap in the report, not a failure of this benchmark
        print(f"  hudi-rs {op}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
        return None


def median(runs: int, action: Callable[..., float | None], *arguments: object) -> float | None:
    """Returns the median of the seconds that `action(*arguments)` returns; None if it fails."""
    found = [seconds for seconds in (action(*arguments) for _ in range(runs)) if seconds is not None]
    return statistics.median(found) if found else None


def run(given: argparse.Namespace, work: Path) -> Figures:
    scale, runs, cpu = given.scale, given.runs, given.cpu
    source, update = prepare(work, scale)
    oracle = locate()
    workers = {"hudi-py (Spark)": SparkWorker(sys.executable, "hudi-py", cpu=cpu)}
    if oracle is not None:
        workers["Apache Hudi"] = SparkWorker(oracle[0], "hudi", oracle[1], cpu=cpu)
    else:
        print("  Apache Hudi's environment is not set up (make oracle): left out", file=sys.stderr)
    figures: Figures = {}

    def note(row: str, engine: str, seconds: float | None) -> None:
        figures.setdefault(row, {})[engine] = seconds
        print(f"  {row:<34}{engine:<18}{'-' if seconds is None else f'{seconds:8.2f} s'}", flush=True)

    try:
        for worker in workers.values():  # the first job of a JVM pays for its start
            warm = work / f"warm-{id(worker)}"
            worker("write", warm, source=str(update), options=table_options("COPY_ON_WRITE", "bulk_insert"))
            worker("all", warm)
        spark = workers["hudi-py (Spark)"]
        for kind, short in (("COPY_ON_WRITE", "cow"), ("MERGE_ON_READ", "mor")):
            engines: list[tuple[str, SparkWorker | None]] = [("hudi-py (core)", None)]
            if not given.reads_only:
                engines = [*workers.items(), ("hudi-py (enabled)", spark), *engines]
            for engine, at in engines:
                spark.enabled = engine == "hudi-py (enabled)"
                path = work / f"{short}-{'core' if at is None else 'enabled' if spark.enabled else at.form}"
                for row, data, operation in (
                    ("bulk insert", source, "bulk_insert"),
                    ("upsert of 5 %", update, "upsert"),
                ):
                    options = table_options(kind, operation, given.codec)
                    if at is None:
                        seconds: float | None = core_write(path, data, options)
                    else:
                        seconds = at("write", path, source=str(data), options=options)
                    note(f"{row}, {short}", engine, seconds)
        plain = work / "plain"
        spark.form, spark.enabled = "parquet", False
        codec = {"compression": given.codec or "zstd"}
        seconds = spark("write", plain, source=str(source), options=codec, mode="overwrite")
        note("bulk insert, cow", "Spark Parquet", seconds)
        spark.form = "hudi-py"
        for name, path in {"mor, 5 % in logs": work / "mor-core", "cow": work / "cow-core"}.items():
            for op in READS:
                row = f"{op}, {name}"
                options = incremental_options(path) if op == "incremental" else {}
                for engine, worker in workers.items():
                    note(row, engine, median(runs, worker, op, path, options))
                spark.enabled = True
                note(row, "hudi-py (enabled)", median(runs, spark, op, path, options))
                spark.enabled = False
                if not cpu:
                    note(row, "hudi-py (core)", median(runs, core_read, path, op))
                if op != "incremental" and not cpu:
                    note(row, "hudi-rs", median(runs, hudi_rs_read, path, op))
        spark.form = "parquet"
        files = hudi_py.open_table(str(work / "cow-core")).files().to_pylist()
        same = [str(work / "cow-core" / file["partition"] / file["base_file"]) for file in files]
        for op in READS[:-1]:
            note(f"{op}, cow", "Spark Parquet", median(runs, spark, op, plain, {}))
            note(f"{op}, cow", "Spark Parquet, same files", median(runs, spark, op, plain, {}, same))
    finally:
        for worker in workers.values():
            worker.close()
    return figures


def report(figures: Figures) -> str:
    """Formats a table of seconds, with each engine's ratio to Apache Hudi (below 1: faster)."""
    engines = list(dict.fromkeys(engine for row in figures.values() for engine in row))
    lines = ["| operation | " + " | ".join(engines) + " |", "|---|" + "---|" * len(engines)]
    for row, cells in figures.items():
        reference = cells.get("Apache Hudi")
        shown = []
        for engine in engines:
            seconds = cells.get(engine)
            if seconds is None:
                shown.append("-")
            elif reference and engine != "Apache Hudi":
                shown.append(f"{seconds:.2f} ({seconds / reference:.2f}x)")
            else:
                shown.append(f"{seconds:.2f}")
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--reads-only", action="store_true", help="write with the core alone")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of all of Spark's processes, not elapsed ones")
    parser.add_argument("--codec", default="", help="of all engines' Parquet files, instead of each one's own")
    parser.add_argument("--out", help="write the figures as JSON")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="hudi-py-bench-"))
    try:
        figures = run(arguments, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("\n" + report(figures))
    if arguments.out:
        Path(arguments.out).write_text(json.dumps({"scale": arguments.scale, "seconds": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
