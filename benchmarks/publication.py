"""Publications to Iceberg after small commits: do they cost more the more files the table has?

    python -m benchmarks publication --files 10 1000 20000 --out figures.json

Copy-on-write tables with a bucket index and 100 files in each partition. The files of all partitions are links to
those of the first. Each commit updates five rows of one partition, and so replaces up to five files; the publication
after it is measured: medians over the commits, in CPU seconds, manifests that were opened, and calls of the storage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import hudi_py
from hudi_py.interop.iceberg import publish, snapshot
from hudi_py.interop.iceberg.manifests import read_manifest
from hudi_py.storage import open_storage
from hudi_py.storage.local import LocalStorage
from hudi_py.timeline.metadata import encode_commit_metadata, read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline

IN_PARTITION = 100
ROWS = 2000
CALLS = ("read", "put", "put_if_absent", "open_input", "open_output", "names", "list", "stat", "rename", "delete")
Figures = dict[str, float]


def make(path: Path, files: int) -> dict[str, str]:
    """Creates a table of that many files, and returns its write options."""
    buckets = min(files, IN_PARTITION)
    options = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(buckets),
        "hoodie.index.bloom.num_entries": "10",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    }
    rows = batch(range(ROWS), 1, 0)
    named: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "partition_by": "part"}
    hudi_py.write(path, rows, "insert", {**options, "hoodie.metadata.enable": "false"}, **named)
    names = os.listdir(path / "p000")
    for number in range(1, files // buckets):
        folder = path / f"p{number:03}"
        folder.mkdir()
        for name in names:
            os.link(path / "p000" / name, folder / name)
    storage = open_storage(path)
    timeline = load_timeline(storage, load_table_config(storage))
    (first,) = timeline.write_completed
    commit = read_commit_metadata(storage, timeline.layout, first)
    places = [f"p{number:03}" for number in range(files // buckets)]
    stats = [
        replace(stat, partition_path=place, path=stat.path.replace("p000", place))
        for place in places
        for stat in commit.stats
    ]
    content = encode_commit_metadata(
        replace(commit, stats=tuple(stats)), timeline.layout, action=first.action, completed=True
    )
    storage.put(timeline.layout.path(first.file_name), content)
    return options


def batch(numbers: Sequence[int], ts: int, part: int) -> pa.Table:
    count = len(numbers)
    keys = [f"k{number}" for number in numbers]
    return pa.table({"id": keys, "ts": [ts] * count, "part": [f"p{part:03}"] * count, "v": [float(ts)] * count})


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Counts calls of the storage, opened manifests and their entries."""
    counts = {"calls": 0, "manifests": 0, "entries": 0}

    def counting(real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            counts["calls"] += 1
            return real(*given, **more)

        return call

    real = read_manifest

    def read(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        counts["manifests"] += 1
        counts["entries"] += len(found)
        return found

    calls = {name: counting(getattr(LocalStorage, name)) for name in CALLS}
    with mock.patch.multiple(LocalStorage, **calls), mock.patch.object(snapshot, "read_manifest", read):
        yield counts


def measure(path: Path, files: int, commits: int) -> Figures:
    """Returns medians over publications after small commits, and the first publication."""
    options = make(path, files)
    parts = max(files // IN_PARTITION, 1)
    table = hudi_py.open_table(path, options)
    table.upsert(batch(range(0, 35, 7), 2, 0))
    began = time.process_time()
    publish(table)
    figures: Figures = {"first publication, CPU seconds": time.process_time() - began}
    found: list[Figures] = []
    for ts in range(3, 3 + commits):
        table.upsert(batch(range(0, 35, 7), ts, 7 * ts % parts))
        with counted() as counts:
            began = time.process_time()
            publish(table)
            found.append({"CPU seconds": time.process_time() - began, **counts})
    return figures | {name: statistics.median(each[name] for each in found) for name in found[0]}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks publication", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10, 1000, 20_000], help="multiples of 100, or less")
    parser.add_argument("--commits", type=int, default=12)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    figures: dict[int, Figures] = {}
    for files in chosen.files:
        path = Path(tempfile.mkdtemp(prefix="publication-", dir=chosen.work))
        try:
            figures[files] = measure(path / "t", files, chosen.commits)
        finally:
            shutil.rmtree(path)
        print(files, {name: round(value, 2) for name, value in figures[files].items()}, flush=True)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(figures, indent=1))
