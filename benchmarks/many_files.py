"""Tables of many files: does what concerns a few of them cost more the more there are?

    python -m benchmarks files --files 10000 100000 1000000 --plot many_files.svg --out figures.json

Merge-on-read tables with 100 files in each partition: 80 file groups, ten of them with a log, ten with an older base
file. Only the metadata table knows them: its partition `files` has all, its statistics a tenth. Each step runs in a
process of its own, which reports seconds, CPU seconds, the bytes it read and its peak memory.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import pyarrow as pa

import hudi_py
from benchmarks.made import METAFILE, OPTIONS, SCHEMA, instant_time, put_commit
from hudi_py.config import Options
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.ranges import ColumnRanges, Range
from hudi_py.metadata.keys import partition_stats_key
from hudi_py.metadata_write.encoding.records import PARTITION_STATS_RECORD, MetadataRecords
from hudi_py.metadata_write.encoding.stats_values import stats_values
from hudi_py.metadata_write.maintenance.verify import source_of
from hudi_py.metadata_write.partitions.column_stats import ColumnStats, KeptStatistics, stats_records
from hudi_py.metadata_write.partitions.files import FilesIndex
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.table.create import create_metadata_table, initialise
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action
from hudi_py.read.engines.planned import pin_table
from hudi_py.services.clean import Cleaning, plan_clean
from hudi_py.services.compaction import Compaction
from hudi_py.services.planned.service import run
from hudi_py.storage import open_storage
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.plans import CompactionPlan, encode_compaction_plan
from hudi_py.timeline.properties import load_table_config
from hudi_py.wiring import service_context

GROUPS = 80
OLDER = 10
LOGS = 10
IN_PARTITION = GROUPS + OLDER + LOGS
BYTES = 120 << 20
"""Size of a file that does not exist."""
REAL = 10
"""Partitions that commits write to; their files exist and hold one byte."""
FIRST, SECOND, LOGGED = "20230101000000000", "20230601000000000", "20230701000000000"
"""Archived instants of the older base files, the newer ones and the logs."""
COMMITS = 20
COMPACTION = 12
"""Number of the commit that is a compaction."""
COMMITTED = 10
"""Log files of each commit on the active timeline."""
WITH_STATISTICS = 0.1
"""Partitions with statistics."""
MADE = {
    **OPTIONS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.index.column.stats.column.list": "id,value",
}
WRITE = {
    "hoodie.metadata.index.column.stats.column.list": "id,value",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "1000",
}


def partition_name(number: int) -> str:
    return f"p{number:05}"


class ManyFiles:
    """Creates a table of `count` files, which do not exist, and its metadata table."""

    def __init__(self, path: Path, count: int) -> None:
        hudi_py.create_table(str(path), SCHEMA, MADE)
        self.storage = open_storage(str(path))
        self.layout = layout_for(load_table_config(self.storage))
        self.partitions = count // IN_PARTITION
        self.random = Random(count)
        self.groups: dict[str, list[str]] = {}
        """File ids by partition."""
        files = {partition_name(number): self._files(number) for number in range(self.partitions)}
        for number in range(COMMITS):
            if number == COMPACTION:
                self._compaction(number)
            else:
                self._commit(number, files)
        self._put_metadata(files)

    def _files(self, number: int) -> dict[str, int]:
        """Returns the files of a partition, with their sizes."""
        partition = partition_name(number)
        ids = self.groups[partition] = [f"{uuid.UUID(int=self.random.getrandbits(128))}-0" for _ in range(GROUPS)]
        names = [f"{each}_{at}-1-2_{SECOND}.parquet" for at, each in enumerate(ids)]
        names += [f"{each}_{at}-1-2_{FIRST}.parquet" for at, each in enumerate(ids[:OLDER])]
        names += [f".{each}_{LOGGED}.log.1_{at}-1-2" for at, each in enumerate(ids[-LOGS:])]
        if number >= REAL:
            return {name: BYTES + self.random.randrange(1 << 20) for name in names}
        for name in names:
            self.storage.put(f"{partition}/{name}", b"x")
        return dict.fromkeys(names, 1)

    def _commit(self, number: int, files: dict[str, dict[str, int]]) -> None:
        """Writes a delta commit that adds logs to file groups of one partition."""
        partition = partition_name(number % REAL)
        stats = []
        for at, file_id in enumerate(self.groups[partition][:COMMITTED]):
            name = f".{file_id}_{instant_time(number)}.log.1_{at}-1-2"
            path = f"{partition}/{name}"
            self.storage.put(path, b"x")
            files[partition][name] = 1
            stats.append(WriteStat(file_id, path, partition, SECOND, num_writes=1, num_updates=1, file_size=1))
        put_commit(self.storage, self.layout, number, stats, Action.DELTA_COMMIT)

    def _compaction(self, number: int) -> None:
        """Writes a compaction that has left out no partition."""
        time = instant_time(number)
        name = self.layout.requested_name(time, Action.COMPACTION)
        put_commit(self.storage, self.layout, number, [])
        self.storage.delete(self.layout.path(self.layout.requested_name(time, Action.COMMIT)))
        self.storage.put(self.layout.path(name), encode_compaction_plan(CompactionPlan(()), log_compaction=False))

    def _put_metadata(self, files: Mapping[str, Mapping[str, int]]) -> None:
        names = list(files)[: int(len(files) * WITH_STATISTICS)]
        for name in names:
            self.storage.put(f"{name}/.hoodie_partition_metadata", METAFILE)
        context = service_context(self.storage, WRITE, "make")
        with context.locked("make the metadata table") as table:
            session = table.session
            own = create_metadata_table(session)
            described = {name: files[name] for name in names}
            for made in (MadeFiles(files), MadeColumnStats(described), MadePartitionStats(names)):
                source = source_of(session, table.timeline, context.options)
                session = session.at(initialise(own, source, made))


@dataclass(frozen=True)
class MadeFiles(FilesIndex):
    """`files`, from a listing in memory."""

    listing: Mapping[str, Mapping[str, int]]

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        return self.differences(self.listing, {})


@dataclass(frozen=True)
class MadeColumnStats(ColumnStats):
    """`column_stats` of the files in a listing: file n has the values from n to n + 1."""

    listing: Mapping[str, Mapping[str, int]]

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        kept = KeptStatistics.of(source)
        for partition, sizes in self.listing.items():
            files = [DataFile(partition, name, size) for name, size in sizes.items()]
            found = [(file, _ranges(kept, at, at + 1)) for at, file in enumerate(files)]
            yield stats_records(found, index_version=kept.version)


@dataclass(frozen=True)
class MadePartitionStats(PartitionStats):
    """`partition_stats` of partitions with the files of `MadeColumnStats`."""

    partitions: Sequence[str]

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        kept = KeptStatistics.of(source)
        rows = pa.Table.from_batches([_ranges(kept, 0, IN_PARTITION).rows])
        for path in self.partitions:
            keys = [partition_stats_key(column.name, path) for column in kept.columns]
            names = pa.repeat(pa.scalar(path), rows.num_rows)
            values = stats_values(PARTITION_STATS_RECORD, rows, names, index_version=kept.version, tight=True)
            yield MetadataRecords(self.name, pa.array(keys, pa.string()), values)


def _ranges(kept: KeptStatistics, low: int, high: int) -> ColumnRanges:
    return ColumnRanges.of(
        [
            Range(column, low, high, 100) if column.name == "value" else Range(column, f"{low:05}", f"{high:05}", 100)
            for column in kept.columns
        ]
    )


# -- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """The cost of a step."""

    seconds: float
    cpu: float
    read: int
    """Bytes."""
    peak: int
    """Bytes of memory, including Python and its libraries."""
    found: int
    """Splits, bytes, files or file groups, depending on the step."""


def plan(path: str, condition: str | None = None) -> int:
    return len(hudi_py.open_table(path).scan(filter=condition).splits())


def bytes_to_tasks(path: str) -> int:
    """Returns the bytes per split that go from the driver to the tasks of a scan of all partitions."""
    options = Options.resolve({})
    pinned = pin_table(path, options, None)
    return sum(len(pickle.dumps(task)) for task in pinned.tasks(options)) // len(pinned.splits)


def commit(path: str, **more: str) -> int:
    """Returns the new files in partitions with statistics."""
    names = [partition_name(at) for at in range(REAL)]
    ids = [uuid.uuid4().hex for _ in names]
    data = pa.table({"id": ids, "part": names, "value": list(range(len(ids)))}, SCHEMA)
    return hudi_py.write(path, data, "bulk_insert", {**WRITE, **more}).num_files


def clean(path: str, **more: str) -> int:
    context = service_context(open_storage(path), {**WRITE, **more}, "clean")
    found = plan_clean(context, context.state(), context.options, now_ms=wall_clock_ms()).plan
    return 0 if found is None else sum(map(len, found.files.values()))


def carry_out_clean(path: str) -> int:
    context = service_context(open_storage(path), {**WRITE, RETAINED: "10"}, "clean")
    instant = Cleaning().schedule(context).instant
    assert instant is not None
    return run(Cleaning(), context, instant).num_files


def compaction(path: str, *, always: bool) -> int:
    context = service_context(open_storage(path), {**WRITE, "hoodie.compact.inline": "true"}, "compaction")
    return len(Compaction(always=always).preview(context).rows)


RETAINED = "hoodie.clean.commits.retained"
STEPS: Mapping[str, Callable[[str], int]] = {
    "open": lambda path: len(hudi_py.open_table(path).schema),
    "plan one partition": lambda path: plan(path, "part = 'p00007'"),
    "plan one partition and value": lambda path: plan(path, "part = 'p00007' and value = 5"),
    "plan all partitions": plan,
    "bytes to tasks, a split": bytes_to_tasks,
    "commit of ten files": commit,
    "plan compaction": lambda path: compaction(path, always=False),
    "plan compaction of all partitions": lambda path: compaction(path, always=True),
    "plan first clean": lambda path: clean(path, **{RETAINED: "10"}),
    "first clean": carry_out_clean,
    "next commit of ten files": commit,
    "plan next clean": lambda path: clean(path, **{RETAINED: "10", "hoodie.clean.trigger.max.commits": "0"}),
    "commit with compaction of the metadata table": lambda path: commit(
        path, **{"hoodie.metadata.compact.max.delta.commits": "1"}
    ),
}
"""The steps, in this order."""
SHOWN = {
    "plan one partition": "#1f6f8b",
    "commit of ten files": "#c05621",
    "plan compaction": "#2f855a",
    "plan next clean": "#805ad5",
    "plan all partitions": "#1a365d",
    "plan first clean": "#97266d",
}
"""The lines of the chart and their colours: first what concerns a few files, then what concerns all."""


def measured(step: str, path: str, small: str) -> Figure:
    """Runs a step in this process, after other steps with a small table, so that no module is imported meanwhile."""
    plan(small, "part = 'p00007' and value = 5"), commit(small), clean(small), compaction(small, always=True)
    read, started, cpu = _bytes_read(), time.perf_counter(), time.process_time()
    found = STEPS[step](path)
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Figure(seconds, used, _bytes_read() - read, peak, found)


def _bytes_read() -> int:
    """Returns the bytes read by this process so far (Linux); 0 elsewhere."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except OSError:
        return 0


def in_process(step: str, path: Path, small: Path) -> Figure:
    command = [sys.executable, "-m", "benchmarks.many_files", "--step", step, "--table", str(path)]
    command += ["--small", str(small)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--plot", type=Path, help="draw the CPU seconds as SVG")
    parser.add_argument(
        "--keep", type=Path, help="make the tables in this folder, unless they are there, and keep them"
    )
    parser.add_argument("--step", choices=STEPS, help="run one step with --table, and print its figures as JSON")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--small", type=Path, help="a table with which --step warms up")
    parser.add_argument("--make", type=int, help="only make --table, of so many files")
    given = parser.parse_args(arguments)
    if given.make:
        ManyFiles(given.table, given.make)
        return
    if given.step:
        print(json.dumps(asdict(measured(given.step, str(given.table), str(given.small)))))
        return
    figures: dict[int, dict[str, Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="hudi-py-bench-") as temporary:
        small = Path(temporary) / "small"
        ManyFiles(small, 10 * REAL * IN_PARTITION)
        for count in given.files:
            table = (given.keep or Path(temporary)) / f"files-{count}"
            make = ["--make", str(count), "--table", str(table)]
            if not table.exists():
                subprocess.run([sys.executable, "-m", "benchmarks.many_files", *make], check=True)
            print(f"{count} files, {_size(table)} bytes of metadata table", flush=True)
            for step in STEPS:
                figure = figures.setdefault(count, {})[step] = in_process(step, table, small)
                print(
                    f"  {step:<45}{figure.seconds:9.2f} s {figure.cpu:9.2f} s CPU {figure.read / 1e6:9.2f} MB read "
                    f"{figure.peak / 1e6:7.0f} MB peak {figure.found:9}",
                    flush=True,
                )
    if given.out:
        found = {count: {step: asdict(figure) for step, figure in of.items()} for count, of in figures.items()}
        given.out.write_text(json.dumps(found, indent=1))
    if given.plot:
        given.plot.write_text(plot(figures))


def _size(table: Path) -> int:
    return sum(each.stat().st_size for each in (table / ".hoodie" / "metadata").rglob("*") if each.is_file())


def plot(figures: Mapping[int, Mapping[str, Figure]]) -> str:
    """Draws CPU seconds over the number of files, both logarithmic, as SVG."""
    width, height, left, top = 560, 300, 64, 30
    counts = sorted(figures)
    low, high = math.log10(counts[0]), max(math.log10(counts[-1]), math.log10(counts[0]) + 1)
    found = [figure[step].cpu for figure in figures.values() for step in SHOWN]
    least, most = math.floor(math.log10(max(min(found), 1e-3))), math.ceil(math.log10(max(found)))

    def x(count: float) -> float:
        return left + width * (math.log10(count) - low) / (high - low)

    def y(seconds: float) -> float:
        return top + height * (most - math.log10(max(seconds, 1e-3))) / (most - least)

    box = f"0 0 {width + left + 220} {height + top + 50}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="Helvetica, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{left}" y="{top - 12}" font-weight="bold">CPU seconds</text>',
    ]
    for power in range(least, most + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e2e2e2"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#666">{10.0**power:g}</text>')
    for count in counts:
        parts.append(
            f'<text x="{x(count):.1f}" y="{top + height + 20}" text-anchor="middle" fill="#666">{count:,}</text>'
        )
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">files</text>')
    below = 0.0
    for step, colour in sorted(SHOWN.items(), key=lambda each: -figures[counts[-1]][each[0]].cpu):
        points = " ".join(f"{x(count):.1f},{y(figures[count][step].cpu):.1f}" for count in counts)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        below = max(y(figures[counts[-1]][step].cpu) + 4, below + 15)  # labels must not overlap
        parts.append(f'<text x="{left + width + 8}" y="{below:.1f}" fill="{colour}">{step}</text>')
    parts.append("</svg>")
    return "\n".join(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
