"""Writes of the core from a stream of batches, beside pyarrow's dataset writer: seconds and peak memory.

    python -m benchmarks stream --scale 1 --rounds 3

TPC-H lineitem by years of shipping: a bulk insert, and an upsert of 5 % of the rows, in a process each, of which the
peak is the largest resident set. pyarrow's dataset writer writes the same rows to a folder for each year with the same
codec, in turns with them; the ratios are to it, in the same round.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import hudi_py.table
from benchmarks.tpch import generated, table_options

STEPS = ("pyarrow", "bulk_insert", "upsert")
BATCH_ROWS = 65_536
EVERY = 20
"""One of this many rows is updated."""


def prepare(work: Path, scale: float) -> None:
    """Writes lineitem with a ship year and a version, and an update of 5 % of it, a batch at a time."""
    file = pq.ParquetFile(generated(work, scale))
    with pa.OSFile(str(work / "source.parquet"), "wb") as source, pa.OSFile(str(work / "update.parquet"), "wb") as some:
        writers: list[pq.ParquetWriter] = []
        for batch in file.iter_batches(BATCH_ROWS):
            table = pa.Table.from_batches([batch])
            types = [pa.string() if each.type == pa.string_view() else each.type for each in table.schema]
            table = table.cast(pa.schema(list(zip(table.schema.names, types, strict=True))))
            table = table.append_column("l_shipyear", pc.cast(pc.year(table["l_shipdate"]), pa.int32()))
            update = table.take(pa.array(range(0, table.num_rows, EVERY), pa.int64()))
            for number, (rows, sink) in enumerate(((table, source), (update, some))):
                version = pa.repeat(pa.scalar(number + 1, pa.int64()), rows.num_rows)
                rows = rows.append_column("l_version", version)
                if len(writers) == number:
                    writers.append(pq.ParquetWriter(sink, rows.schema, compression="zstd"))
                writers[number].write_table(rows)
        for writer in writers:
            writer.close()


def batches(path: Path) -> pa.RecordBatchReader:
    file = pq.ParquetFile(path, pre_buffer=False)  # which would keep all that has been read
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(BATCH_ROWS))


def run(step: str, work: Path) -> dict[str, float]:
    """Runs one step in this process."""
    before, started = cpu_time(), time.perf_counter()
    if step == "pyarrow":
        form = ds.ParquetFileFormat()
        ds.write_dataset(
            batches(work / "source.parquet"),
            work / "plain",
            format=form,
            partitioning=["l_shipyear"],
            partitioning_flavor="hive",
            file_options=form.make_write_options(compression="zstd", compression_level=3),
            existing_data_behavior="delete_matching",
        )
    else:
        options = table_options("MERGE_ON_READ", step)
        data = batches(work / ("update.parquet" if step == "upsert" else "source.parquet"))
        hudi_py.table.write(str(work / "table"), data, step, options)
    seconds, cpu = time.perf_counter() - started, cpu_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "peak": peak}


def cpu_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks stream", description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step", choices=STEPS, help="run one step in this process, in the folder --work")
    parser.add_argument("--work", type=Path)
    given = parser.parse_args(arguments)
    if given.step:
        print(json.dumps(run(given.step, given.work)))
        return
    with tempfile.TemporaryDirectory(prefix="hudi-py-bench-") as folder:
        prepare(Path(folder), given.scale)
        found: dict[str, list[dict[str, float]]] = {step: [] for step in STEPS}
        for _ in range(given.rounds):
            shutil.rmtree(Path(folder) / "table", ignore_errors=True)
            for step in STEPS:
                command = [sys.executable, "-m", "benchmarks", "stream", "--step", step, "--work", folder]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[step].append(json.loads(text.splitlines()[-1]))
    print("| | seconds | CPU seconds | peak, MB |\n|---|---|---|---|")
    for step, rounds in found.items():
        cells = [step.replace("_", " ")]
        for figure in ("seconds", "cpu", "peak"):
            ratios = [mine[figure] / its[figure] for mine, its in zip(rounds, found["pyarrow"], strict=True)]
            middle = statistics.median(each[figure] for each in rounds)
            cells.append(f"{middle:.1f} ({statistics.median(ratios):.2f}x, {min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {' | '.join(cells)} |")
