"""Planning a clean of a table with many files.

    python -m benchmarks clean --files 100000 --out figures.json

100 partitions of 100 file groups each, of which a commit rewrites those of one partition; nothing was cleaned yet.
Listed by the storage (a local disk) and by the metadata table. Every figure is the median of some runs, in seconds.
`incremental` is the plan of the clean that follows one more commit after a clean.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import hudi_py
from benchmarks.made import METAFILE, OPTIONS, SCHEMA, instant_time, put_commit
from benchmarks.tpch import timed
from hudi_py.model.commit import WriteStat
from hudi_py.services.clean import Cleaning, plan_clean
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run
from hudi_py.storage import open_storage
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.properties import load_table_config
from hudi_py.wiring import service_context

PARTITIONS = 100
GROUPS = 100
RETAINED = 100
"""Number of commits."""
RETAINED_KEY = "hoodie.clean.commits.retained"
FILES_ONLY = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.record.index.enable": "false",
}
"""The metadata table indexes files only: these hold no rows."""


class WideTable:
    """A table whose files hold one byte each: planning reads only their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        hudi_py.create_table(str(path), SCHEMA, OPTIONS)
        self.storage = open_storage(str(path))
        self.layout = layout_for(load_table_config(self.storage))
        self.commits = 0
        for partition in range(PARTITIONS):
            self.storage.put(f"p{partition:02}/.hoodie_partition_metadata", METAFILE)

    def commit(self) -> None:
        number, self.commits = self.commits, self.commits + 1
        time, before, partition = instant_time(number), instant_time(number - PARTITIONS), f"p{number % PARTITIONS:02}"
        stats = []
        for group in range(GROUPS):
            file_id = f"{uuid.UUID(int=(0xFACE << 112) + number % PARTITIONS * GROUPS + group)}-0"
            name = f"{partition}/{file_id}_{group}-1-2_{time}.parquet"
            with open(self.path / name, "wb") as out:
                out.write(b"x")
            previous = before if number >= PARTITIONS else "null"
            stats.append(WriteStat(file_id, name, partition, previous, num_writes=1, file_size=1))
        put_commit(self.storage, self.layout, number, stats)

    def context(self, options: Mapping[str, str]) -> ServiceContext:
        return service_context(self.storage, {RETAINED_KEY: str(RETAINED), **FILES_ONLY, **options}, "clean")

    def plan(self, context: ServiceContext) -> int:
        """Returns the files that a clean would delete."""
        plan = plan_clean(context, context.state(), context.options, now_ms=wall_clock_ms()).plan
        return 0 if plan is None else sum(map(len, plan.files.values()))


def measure(table: WideTable, runs: int) -> dict[str, float]:
    ways = {
        "by commits, everything": {"hoodie.clean.incremental.enabled": "false"},
        "by file versions": {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"},
    }
    figures: dict[str, float] = {}
    for name, options in ways.items():
        context = table.context(options)
        files, seconds = planned(table, context, runs)
        figures[f"{name}, {files} files to delete"] = seconds
    return figures


def planned(table: WideTable, context: ServiceContext, runs: int) -> tuple[int, float]:
    """Returns the files that a clean would delete, and the median of the planning seconds."""
    files = table.plan(context)
    return files, statistics.median(timed(lambda: table.plan(context)) for _ in range(runs))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", help="write the figures as JSON")
    given = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="hudi-py-bench-"))
    figures: dict[str, dict[str, float]] = {}
    try:
        table = WideTable(work / "wide")
        for _ in range(given.files // GROUPS):
            table.commit()
        figures["listed by the storage"] = measure(table, given.runs)
        context = table.context({})
        assert context.session.metadata is not None
        with context.locked("make the metadata table") as locked:
            context.session.metadata.prepare(locked.session, locked.timeline)
        figures["listed by the metadata table"] = measure(table, given.runs)
        scheduled = Cleaning().schedule(context)
        assert scheduled.instant is not None
        figures["carried out"] = {"one clean": timed(lambda: run(Cleaning(), context, scheduled.instant))}
        later = table.context({RETAINED_KEY: str(RETAINED - 1), "hoodie.clean.trigger.max.commits": "0"})
        files, seconds = planned(table, later, given.runs)
        figures["incremental"] = {f"one commit later, {files} files to delete": seconds}
    finally:
        shutil.rmtree(work)
    print(f"{given.files} files, {os.cpu_count()} cores")
    for title, cells in figures.items():
        print(title)
        for name, seconds in cells.items():
            print(f"  {seconds * 1000:10.1f} ms  {name}")
    if given.out:
        Path(given.out).write_text(json.dumps(figures, indent=2))
