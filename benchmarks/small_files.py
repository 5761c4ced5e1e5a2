"""Tables of few rows: how many files and bytes they take, and how long writing them, beside deltalake.

    pip install deltalake
    python -m benchmarks small

Each case is written three times in turn: with bloom filters for 60,000 keys in every base file and for 10,000 in every
file of the metadata table, as Apache Hudi makes them; with those for the keys of each file; and by deltalake, if it is
installed. CPU seconds, files, and bytes below the table's folder. Then what a single small commit, and opening and
reading a small table, take while commits go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import pyarrow as pa

import hudi_py
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter

OPTIONS: Final = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
KEYED: Final[dict[str, Any]] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
Reader: TypeAlias = Callable[[], pa.Table]
FIXED, SIZED, DELTA = "filters of one size", "filters by their keys", "deltalake"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a table."""

    seconds: float
    files: int
    bytes: int
    metadata_bytes: int
    """Bytes of the metadata table among them."""


@contextmanager
def one_size() -> Iterator[None]:
    """Sizes filters for the configured number of keys, whatever they hold."""
    real = BloomFilter.__init__

    def init(self: BloomFilter, config: BloomConfig) -> None:
        real(self, replace(config, sized=False))

    with mock.patch.object(BloomFilter, "__init__", init):
        yield


def rows(numbers: Sequence[int], partitions: int, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "p": [f"p{number % partitions:04}" for number in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "value": [f"{number}-{ts}" for number in numbers],
        }
    )


def hudi_partitions(path: Path, count: int) -> None:
    """Writes one commit of `count` rows, each in a partition of its own."""
    hudi_py.write(path, rows(range(count), count, 0), "insert", OPTIONS, **KEYED)


def hudi_commits(path: Path, count: int, kind: str) -> None:
    """Writes `count` commits of one row each, which is new in the copy-on-write table and one of ten in the other."""
    merging = kind == "mor"
    hudi_py.write(path, rows(range(10), 1, 0), "insert", OPTIONS, table_type=kind, **KEYED)
    for ts in range(1, count):
        number = ts % 10 if merging else 10 + ts
        hudi_py.write(path, rows([number], 1, ts), "upsert", OPTIONS, table_type=kind, **KEYED)


def delta_partitions(path: Path, count: int) -> None:
    deltalake = import_module("deltalake")
    deltalake.write_deltalake(str(path), rows(range(count), count, 0), partition_by=["p"])


def delta_commits(path: Path, count: int, kind: str) -> None:
    deltalake = import_module("deltalake")
    deltalake.write_deltalake(str(path), rows(range(10), 1, 0), partition_by=["p"])
    for ts in range(1, count):
        if kind == "cow":
            deltalake.write_deltalake(str(path), rows([10 + ts], 1, ts), mode="append")
            continue
        merge = deltalake.DeltaTable(str(path)).merge(
            rows([ts % 10], 1, ts), "t.id = s.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def cost(write: Callable[[Path], None], path: Path) -> Cost:
    """Measures writing one table, and removes it."""
    began = time.process_time()
    write(path)
    seconds = time.process_time() - began
    sizes = {
        os.path.join(folder, name): os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    }
    metadata = sum(size for name, size in sizes.items() if f"{os.sep}.hoodie{os.sep}metadata{os.sep}" in name)
    shutil.rmtree(path)
    return Cost(seconds, len(sizes), sum(sizes.values()), metadata)


def measure(work: Path, partitions: int, commits: int, runs: int) -> dict[str, dict[str, Cost]]:
    """Returns the costs of each case by each way; medians of the seconds."""
    ways = [FIXED, SIZED, DELTA] if find_spec("deltalake") else [FIXED, SIZED]
    cases: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
        f"{partitions:,} partitions of one row": (
            lambda path: hudi_partitions(path, partitions),
            lambda path: delta_partitions(path, partitions),
        ),
        f"{commits:,} commits that add a row": (
            lambda path: hudi_commits(path, commits, "cow"),
            lambda path: delta_commits(path, commits, "cow"),
        ),
        f"{commits:,} commits that change a row, merge on read": (
            lambda path: hudi_commits(path, commits, "mor"),
            lambda path: delta_commits(path, commits, "mor"),
        ),
    }
    cost(lambda path: hudi_partitions(path, 2), work / "warm")
    figures: dict[str, dict[str, Cost]] = {}
    for name, (by_hudi, by_delta) in cases.items():
        found: dict[str, list[Cost]] = {way: [] for way in ways}
        for _ in range(runs):
            for way in ways:
                with one_size() if way == FIXED else nullcontext():
                    found[way].append(cost(by_delta if way == DELTA else by_hudi, work / "t"))
        figures[name] = {
            way: replace(costs[-1], seconds=statistics.median(each.seconds for each in costs))
            for way, costs in found.items()
        }
        for way, each in figures[name].items():
            print(f"{name}, {way}: {told(each, figures[name].get(DELTA))}", flush=True)
    return figures


def batch(start: int, count: int, ts: int) -> pa.Table:
    return rows(range(start, start + count), 1, ts)


def hudi_small(path: Path, kind: str, operation: str, options: dict[str, str]) -> tuple[Callable[[int], Any], Reader]:
    """Returns a function that makes commit `n` of a table of 1,000 rows, and one that opens and reads it."""
    hudi_py.write(path, batch(0, 1000, 0), "insert", options, table_type=kind, **KEYED)

    def commit(number: int) -> None:
        start, count = (1000 * number, 1000) if operation == "insert" else (0, 100)
        hudi_py.write(path, batch(start, count, number), operation, options)

    return commit, lambda: hudi_py.open_table(path, options).scan().to_table()


def delta_small(path: Path, operation: str) -> tuple[Callable[[int], Any], Reader]:
    """Returns functions as `hudi_small`: an append for an insert, and a merge for an upsert."""
    deltalake = import_module("deltalake")
    deltalake.write_deltalake(str(path), batch(0, 1000, 0), partition_by=["p"])

    def append(number: int) -> None:
        deltalake.write_deltalake(str(path), batch(1000 * number, 1000, number), mode="append")

    def merge(number: int) -> None:
        table = deltalake.DeltaTable(str(path))
        merged = table.merge(batch(0, 100, number), "t.id = s.id", source_alias="s", target_alias="t")
        merged.when_matched_update_all().when_not_matched_insert_all().execute()

    return append if operation == "insert" else merge, lambda: deltalake.DeltaTable(str(path)).to_pyarrow_table()


def single_commits(work: Path, commits: int) -> dict[str, dict[str, float]]:
    """Returns the median CPU milliseconds of the first and the last ten of some commits, of all of them, and of opening
    and reading the table after them, ten times."""
    plain, kept = {**OPTIONS, "hoodie.metadata.enable": "false"}, OPTIONS
    cases: dict[str, Callable[[Path], tuple[Callable[[int], Any], Reader]]] = {}
    for name, options in (("metadata table", kept), ("without", plain)):
        for kind, operation in (("cow", "insert"), ("cow", "upsert"), ("mor", "upsert")):
            cases[f"{operation}, {kind}, {name}"] = partial(hudi_small, kind=kind, operation=operation, options=options)
    if find_spec("deltalake"):
        cases |= {f"{name}, {DELTA}": partial(delta_small, operation=name) for name in ("insert", "upsert")}
    figures: dict[str, dict[str, float]] = {}
    for name, make in cases.items():
        path = work / "t"
        commit, read = make(path)
        written = [_milliseconds(partial(commit, number)) for number in range(1, commits + 1)]
        read_again = [_milliseconds(read) for _ in range(10)]
        parts = {"first ten": written[:10], "last ten": written[-10:], "all": written, "open and scan": read_again}
        figures[name] = {part: statistics.median(each) for part, each in parts.items()}
        print(f"{name}: " + ", ".join(f"{part} {each:.0f} ms" for part, each in figures[name].items()), flush=True)
        shutil.rmtree(path)
    return figures


def _milliseconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def told(each: Cost, other: Cost | None) -> str:
    """Formats a cost, with its ratios to deltalake's in brackets."""

    def ratio(ours: float, theirs: float) -> str:
        return "" if other in (None, each) else f" ({ours / theirs:.2g}x)"

    base = other or each
    parts = [
        f"{each.seconds:.2f} s{ratio(each.seconds, base.seconds)}",
        f"{each.files:,} files{ratio(each.files, base.files)}",
        f"{each.bytes / 1e6:.2f} MB{ratio(each.bytes, base.bytes)}",
    ]
    return ", ".join([*parts, f"{each.metadata_bytes / 1e6:.2f} MB of them the metadata table"])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--single", type=int, default=60, help="commits of each case that are measured one by one")
    parser.add_argument("--runs", type=int, default=3, help="0: only those")
    parser.add_argument("--out", type=Path, help="keep the figures as JSON")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="small-files-") as folder:
        figures = measure(Path(folder), chosen.partitions, chosen.commits, chosen.runs) if chosen.runs else {}
        single = single_commits(Path(folder), chosen.single)
    if chosen.out is not None:
        kept = {name: {way: asdict(each) for way, each in ways.items()} for name, ways in figures.items()}
        chosen.out.write_text(json.dumps({"tables": kept, "single commits": single}, indent=1))
