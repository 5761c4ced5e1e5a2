"""Reading beyond whole tables: planning many files, many logs in a slice, and the rows of one commit.

    python -m benchmarks reading --out figures.json

- planning: a fabricated table of 10,000 small files and 2,000 instants, its metadata table made by one write of Apache
  Hudi; the time until the files of all partitions, and of one, are known, with the metadata table and without.
- logs: a merge-on-read table with 1, 5 and 20 log files in each slice, read whole and counted.
- incremental: the rows of the newest commit of a large table.

Each engine reads the same table in the same run. Compare ratios, never seconds between machines.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hudi_py
from benchmarks.tpch import Figures, SparkWorker, hudi_rs_read, median, prepare, report, table_options, timed
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.storage import open_storage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.properties import load_table_config
from tests.oracle.environment import locate

PARTITIONS = 100
FILES = 100
INSTANTS = 2_000
LOGS = (1, 5, 20)
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.compact.inline": "false"}
Note = Callable[[str, str, float | None], None]


def fabricate(path: Path) -> None:
    """Creates a copy-on-write table of small valid files, and a long timeline that names them all."""
    options = {
        "hoodie.table.name": "many",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.timeline.timezone": "UTC",
    }
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
    hudi_py.create_table(str(path), schema, options)
    seed = path.with_name("seed")
    hudi_py.write(str(seed), pa.table({"id": ["a"], "part": ["p"], "value": [1]}, schema), "bulk_insert", options)
    content = next(seed.glob("p/*.parquet")).read_bytes()
    record = json.loads(_schema_of(seed))
    storage = open_storage(str(path))
    config: TableConfig = load_table_config(storage)
    layout = layout_for(config)
    stats: list[WriteStat] = []
    for number in range(INSTANTS):
        instant = f"202401{1 + number // 1440:02}{number // 60 % 24:02}{number % 60:02}00000"
        completed = instant[:-4] + "5000"
        own: list[WriteStat] = []
        for at in range(number * PARTITIONS * FILES // INSTANTS, (number + 1) * PARTITIONS * FILES // INSTANTS):
            partition = f"p{at % PARTITIONS:03}"
            folder = path / partition
            if not folder.exists():
                folder.mkdir()
                (folder / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
            file_id = f"{uuid.UUID(int=at)}-0"
            name = f"{file_id}_0-1-2_{instant}.parquet"
            (folder / name).write_bytes(content)
            size = len(content)
            own.append(
                WriteStat(
                    file_id,
                    f"{partition}/{name}",
                    partition,
                    num_writes=1,
                    num_inserts=1,
                    file_size=size,
                    total_write_bytes=size,
                )
            )
        stats += own
        metadata = CommitMetadata("UPSERT", tuple(own), {"schema": json.dumps(record)})
        for state in (layout.requested_name(instant, Action.COMMIT), layout.inflight_name(instant, Action.COMMIT)):
            storage.put(layout.path(state), b"")
        storage.put(
            layout.path(layout.completed_name(instant, Action.COMMIT, completed)),
            encode_commit_metadata(metadata, layout, action=Action.COMMIT, completed=True),
        )


def _schema_of(path: Path) -> str:
    from hudi_py.timeline.metadata import read_commit_metadata

    table = hudi_py.open_table(str(path))
    storage = open_storage(str(path))
    metadata = read_commit_metadata(storage, table.timeline.layout, table.timeline.write_completed[-1])
    return metadata.extra["schema"]


def planning(work: Path, workers: dict[str, SparkWorker], runs: int, note: Note) -> None:
    path = work / "many"
    fabricate(path)
    java = workers.get("Apache Hudi")
    if java is not None:
        source = work / "one"
        source.mkdir()
        pq.write_table(pa.table({"id": ["new"], "part": ["p000"], "value": [2]}), source / "0.parquet")
        options = {
            "hoodie.table.name": "many",
            "hoodie.datasource.write.operation": "insert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            **QUIET,
        }
        seconds = java("write", path, source=str(source), options=options)
        print(f"  the write that makes the metadata table took Apache Hudi {seconds or 0:.0f} s", flush=True)
    for metadata in ("true", "false"):
        options = {"hoodie.metadata.enable": metadata}
        for row, condition in (("all partitions", None), ("one partition", "part = 'p007'")):
            title = f"plan {row}, metadata {'on' if metadata == 'true' else 'off'}"
            note(title, "hudi-py (core)", median(runs, core_plan, path, options, condition))
            for engine, worker in workers.items():
                given = {**options, "filter": condition} if condition and worker.form == "hudi-py" else options
                plan = partial(worker, options=given, where=condition)
                note(title, engine, median(runs, plan, "plan", path))


def core_plan(path: Path, options: dict[str, str], condition: str | None) -> float:
    return timed(lambda: hudi_py.open_table(str(path), options).scan(filter=condition).splits())


def logs(work: Path, source: Path, workers: dict[str, SparkWorker], runs: int, note: Note) -> None:
    rows = pq.read_table(source)
    version = rows.schema.get_field_index("l_version")
    for count in LOGS:
        path = work / f"logs-{count}"
        options = {**table_options("MERGE_ON_READ", "bulk_insert"), **QUIET}
        options.pop("hoodie.datasource.write.operation")
        hudi_py.write(str(path), rows, "bulk_insert", options)
        for number in range(count):
            chosen = rows.take(pa.array(range(number, rows.num_rows, 100), pa.int64()))
            newer = pa.repeat(pa.scalar(number + 2, pa.int64()), chosen.num_rows)
            hudi_py.write(str(path), chosen.set_column(version, "l_version", newer), "upsert", options)
        for op in ("all", "count"):
            title = f"{op}, {count} logs a slice of 1 % each"

            def read(op: str = op, path: Path = path) -> float:
                scan = hudi_py.open_table(str(path)).scan()
                return timed(scan.count if op == "count" else lambda: sum(b.num_rows for b in scan.to_batches()))

            note(title, "hudi-py (core)", median(runs, read))
            for engine, worker in workers.items():
                note(title, engine, median(runs, worker, op, path))
            note(title, "hudi-rs", median(runs, hudi_rs_read, path, op))


def incremental(work: Path, workers: dict[str, SparkWorker], runs: int, note: Note) -> None:
    path = work / f"logs-{LOGS[0]}"
    begin = hudi_py.open_table(str(path)).timeline.write_completed[-2].completion_time or ""
    title = "rows of the newest commit"

    def read() -> object:
        scan = hudi_py.open_table(str(path)).scan(query_type="incremental", begin=begin)
        return pc.sum(scan.to_table()["l_quantity"])

    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
    note(title, "hudi-py (core)", median(runs, lambda: timed(read)))
    for engine, worker in workers.items():
        note(title, engine, median(runs, partial(worker, options=options), "one", path))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("planning", "logs", "incremental"), help="one of the three")
    parser.add_argument("--out", help="write the figures as JSON")
    given = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="hudi-py-bench-"))
    oracle = locate()
    workers = {"hudi-py (Spark)": SparkWorker(sys.executable, "hudi-py")}
    if oracle is not None:
        workers["Apache Hudi"] = SparkWorker(oracle[0], "hudi", oracle[1])
    figures: Figures = {}

    def note(row: str, engine: str, seconds: float | None) -> None:
        figures.setdefault(row, {})[engine] = seconds
        print(f"  {row:<40}{engine:<18}{'-' if seconds is None else f'{seconds:8.2f} s'}", flush=True)

    try:
        if given.only in (None, "planning"):
            planning(work, workers, given.runs, note)
        if given.only in (None, "logs", "incremental"):
            source, _ = prepare(work, given.scale)
            logs(work, source, workers, given.runs, note)
            incremental(work, workers, given.runs, note)
    finally:
        for worker in workers.values():
            worker.close()
        shutil.rmtree(work, ignore_errors=True)
    print("\n" + report(figures))
    if given.out:
        Path(given.out).write_text(json.dumps({"scale": given.scale, "seconds": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
