"""Bootstraps of many small files: how long they take, and what reads and a write take afterwards.

    python -m benchmarks bootstrap --files 10000

CPU and wall-clock seconds, the files and bytes of the table, and the most memory of the process so far.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hudi_py

FILES_IN_FOLDER = 100
ROWS = 100


def made(folder: Path, files: int) -> None:
    """A folder of small files, 100 in each partition."""
    for number in range(files):
        day = folder / f"day={number // FILES_IN_FOLDER:04}"
        day.mkdir(parents=True, exist_ok=True)
        keys = [f"k{number * ROWS + row}" for row in range(ROWS)]
        pq.write_table(
            pa.table({"id": keys, "ts": [1] * ROWS, "value": [float(number)] * ROWS}), day / f"{number}.parquet"
        )


def measured(what: str, work: Callable[[], Any]) -> Any:
    began, cpu = time.monotonic(), time.process_time()
    found = work()
    seconds, used = time.monotonic() - began, time.process_time() - cpu
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {used:.1f} CPU s, {seconds:.1f} s; at most {most:.0f} MB so far", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "source"
        made(folder, given.files)
        for mode in ("metadata_only", "full_record"):
            path = Path(work) / "t"
            new: dict[str, Any] = {"record_key": "id", "partition_by": "day", "ordering_by": "ts"}
            measured(mode, lambda mode=mode, path=path, new=new: hudi_py.bootstrap(path, folder, mode, **new))  # type: ignore[misc]
            sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names]
            print(f"  {len(sizes):,} files, {sum(sizes):,} bytes", flush=True)
            table = hudi_py.open_table(path)
            assert measured("  all rows", lambda table=table: table.scan().to_table().num_rows) == given.files * ROWS  # type: ignore[misc]
            measured("  a partition", lambda table=table: table.scan(partitions="day=0000").to_table())  # type: ignore[misc]
            row = pa.table({"id": ["k5"], "ts": [2], "value": [0.5], "day": ["0000"]})
            measured("  an upsert of a row", lambda path=path, row=row: hudi_py.write(path, row))  # type: ignore[misc]
            shutil.rmtree(path)
