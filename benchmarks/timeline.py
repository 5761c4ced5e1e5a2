"""Long timelines: opening a table of 10,000 commits and planning a scan, reading its archive, and archiving.

    python -m benchmarks timeline --commits 10000 --out figures.json

Each table has 100 file groups in 10 partitions, of which the commits rewrite one after the other; older files have been
cleaned. `active`: no commit was archived. `archived`: all but the newest 20 were, ten at a time, as inline archiving
does. Every figure is the median of some runs, in seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa

import hudi_py
from benchmarks.made import METAFILE, OPTIONS, SCHEMA, instant_time, put_commit
from benchmarks.tpch import timed
from hudi_py.config import Options
from hudi_py.model.commit import WriteStat
from hudi_py.services.archive import archive
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget

GROUPS = 100
PARTITIONS = 10
ROUND = 10


class LongTable:
    """A table created commit by commit; its data files are written once, at the end."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        options = OPTIONS | {"hoodie.write.table.version": str(version)}
        hudi_py.create_table(str(path), SCHEMA, options)
        seed = path.with_name("seed")
        hudi_py.write(str(seed), pa.table({"id": ["a"], "part": ["p"], "value": [1]}, SCHEMA), "bulk_insert", options)
        self.content = next(seed.glob("p/*.parquet")).read_bytes()
        shutil.rmtree(seed)
        self.storage: Storage = open_storage(str(path))
        self.layout = layout_for(load_table_config(self.storage))
        self.newest: dict[int, str] = {}

    def commit(self, number: int) -> None:
        time, group = instant_time(number), number % GROUPS
        partition = f"p{group % PARTITIONS}"
        file_id = f"{uuid.UUID(int=(0xFACE << 112) + group)}-0"
        name = f"{partition}/{file_id}_0-1-2_{time}.parquet"
        stat = WriteStat(file_id, name, partition, num_writes=1, num_updates=1, file_size=len(self.content))
        self.newest[group] = name
        put_commit(self.storage, self.layout, number, [stat])

    def finish(self) -> None:
        for name in self.newest.values():
            partition = name.partition("/")[0]
            self.storage.put(f"{partition}/.hoodie_partition_metadata", METAFILE)
            self.storage.put(name, self.content)

    def archive(self) -> float:
        context = ServiceContext.of(WriteTarget(self.storage, Options.resolve({}), NoMetadata()))
        return timed(lambda: archive(context))


def measure(path: Path, runs: int, commits: int) -> dict[str, float]:
    actions = {
        "open": lambda: hudi_py.open_table(str(path)).schema,
        "open and plan": lambda: hudi_py.open_table(str(path)).scan().splits(),
        "open and plan one partition": lambda: hudi_py.open_table(str(path)).scan(filter="part = 'p7'").splits(),
        "plan the newest 10 commits": lambda: (
            hudi_py.open_table(str(path))
            .scan(query_type="incremental", begin=instant_time(commits - 11, 6000))
            .splits()
        ),
        "all instants": lambda: hudi_py.open_table(str(path)).instants(archived=True),
        "history of all instants": lambda: hudi_py.open_table(str(path)).history(archived=True),
    }
    figures: dict[str, float] = {}
    for name, action in actions.items():
        seconds = sorted(timed(action) for _ in range(runs))
        figures[name] = seconds[len(seconds) // 2]
    return figures


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--versions", type=int, nargs="+", default=[6, 9])
    parser.add_argument("--out", help="write the figures as JSON")
    given = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="hudi-py-bench-"))
    figures: dict[str, dict[str, float]] = {}
    try:
        for version in given.versions:
            active = LongTable(work / f"active{version}", version)
            for number in range(given.commits):
                active.commit(number)
            active.finish()
            figures[f"version {version}, active"] = measure(active.path, given.runs, given.commits)
            at_once = active.archive()
            archived = LongTable(work / f"archived{version}", version)
            rounds: list[float] = []
            for number in range(given.commits):
                archived.commit(number)
                if number % ROUND == ROUND - 1:
                    rounds.append(archived.archive())
            archived.finish()
            row = measure(archived.path, given.runs, given.commits)
            row["archive all at once"] = at_once
            row["archive ten, median of the last 100 times"] = sorted(rounds[-100:])[len(rounds[-100:]) // 2]
            row["archive ten, longest of the last 100 times"] = max(rounds[-100:])
            row["archive ten, median of the first 100 times"] = sorted(rounds[:100])[len(rounds[:100]) // 2]
            figures[f"version {version}, archived"] = row
    finally:
        shutil.rmtree(work)
    for title, cells in figures.items():
        print(title)
        for name, seconds in cells.items():
            print(f"  {seconds * 1000:10.1f} ms  {name}")
    if given.out:
        Path(given.out).write_text(json.dumps(figures, indent=2))
