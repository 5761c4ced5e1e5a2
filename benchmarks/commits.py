"""Many commits with the services that follow them: does a table stay as quick and as small as it was?

    python -m benchmarks commits --commits 1000 --plot commits.svg --out figures.json

A copy-on-write and a merge-on-read table are upserted over and over, always the same keys, with the metadata table, and
cleaning, archiving and (merge on read) compaction after each commit. For each commit: how long it took with what
followed it, how many instants are on the active timeline, and how many files there are (archive files apart). Those of
the last fifth must be within 1.2 times those of the second: nothing may grow with the number of commits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py

KEYS = 500
PARTITIONS = 4
LIMIT = 1.2
OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "5",
    "hoodie.parquet.compression.codec": "snappy",
}
COLOURS = {"cow": "#1f6f8b", "mor": "#c05621"}


@dataclass(frozen=True, slots=True)
class Point:
    """The table after one commit."""

    seconds: float
    instants: int
    files: int


def rows(number: int) -> pa.Table:
    """Returns the rows of one commit: a tenth of the keys."""
    keys = [(number * 37 + step * 11) % KEYS for step in range(KEYS // 10)]
    keys = list(dict.fromkeys(keys))
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "p": [f"p{key % PARTITIONS}" for key in keys],
            "ts": pa.array([number] * len(keys), pa.int64()),
            "value": [f"{key}-{number}" for key in keys],
        }
    )


def count_files(path: str) -> tuple[int, int]:
    """Counts instants on the active timeline, and files of data, active timeline and metadata table."""
    instants = {name.split(".")[0].split("_")[0] for name in os.listdir(f"{path}/.hoodie/timeline") if "." in name}
    files = 0
    for folder, names, found in os.walk(path):
        names[:] = [name for name in names if name != "history"]
        files += sum(not name.endswith(".crc") for name in found if "/.temp" not in folder)
    return len(instants), files


def run(path: str, kind: str, commits: int, metadata: bool = True) -> list[Point]:
    """Returns the table's figures after each commit."""
    options = {**OPTIONS, "hoodie.metadata.enable": str(metadata).lower()}
    keyed: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    points = []
    for number in range(commits):
        data = rows(number)
        started = time.perf_counter()
        hudi_py.write(path, data, "upsert", options, **keyed, table_type=kind)
        seconds = time.perf_counter() - started
        points.append(Point(seconds, *count_files(path)))
        if sys.stderr.isatty() and number % 10 == 9:
            print(f"\r{kind}: {number + 1} commits, {seconds:.2f} s", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return points


def growth(points: Sequence[Point]) -> dict[str, float]:
    """Compares the last fifth of the commits with the second: medians of seconds, instants and files."""
    fifth = len(points) // 5
    early, late = points[fifth : 2 * fifth], points[-fifth:]
    return {
        name: statistics.median(getattr(point, name) for point in late)
        / max(statistics.median(getattr(point, name) for point in early), 1e-9)
        for name in ("seconds", "instants", "files")
    }


def plot(series: dict[str, list[Point]]) -> str:
    """Draws three panels as SVG: seconds (running median of 15), instants and files over the number of commits."""
    width, height, gap, left = 720, 180, 52, 64
    panels = (("seconds a commit, with services", "seconds"), ("active instants", "instants"), ("files", "files"))
    box = f"0 0 {width + left + 24} {len(panels) * (height + gap) + 40}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="Helvetica, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, (title, name) in enumerate(panels):
        top = 34 + place * (height + gap)
        values = {kind: _smooth([getattr(point, name) for point in points]) for kind, points in series.items()}
        tick = _tick(max((max(line) for line in values.values()), default=1.0) / 4)
        most = 4 * tick
        parts.append(f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}</text>')
        for step in range(5):
            y = top + height - height * step / 4
            label = f"{tick * step:g}"
            parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e2e2"/>')
            parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{label}</text>')
        for at, (kind, line) in enumerate(values.items()):
            points = " ".join(
                f"{left + width * x / max(len(line) - 1, 1):.1f},{top + height - height * y / most:.1f}"
                for x, y in enumerate(line)
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[kind]}" stroke-width="1.5"/>')
            if not place:
                start = left + width - 190 + at * 100
                text = {"cow": "copy on write", "mor": "merge on read"}[kind]
                parts.append(f'<text x="{start}" y="{top - 10}" fill="{COLOURS[kind]}">{text}</text>')
    bottom = 34 + len(panels) * (height + gap) - gap + 18
    length = max(map(len, series.values()), default=0)
    for step in range(5):
        x = left + width * step / 4
        parts.append(f'<text x="{x:.0f}" y="{bottom}" text-anchor="middle" fill="#666">{length * step // 4}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{bottom + 16}" text-anchor="middle">commits</text></svg>')
    return "\n".join(parts)


def _tick(least: float) -> float:
    """Returns the next round number."""
    power = 10.0 ** math.floor(math.log10(least or 1.0))
    return next(round(power * times, 9) for times in (1, 1.5, 2, 2.5, 5, 10) if power * times >= least)


def _smooth(values: Sequence[float], window: int = 15) -> list[float]:
    half = window // 2
    return [statistics.median(values[max(at - half, 0) : at + half + 1]) for at in range(len(values))]


def main(arguments: Sequence[str]) -> None:
    """Runs, prints and stores the figures; exits with status 1 if something grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks commits", description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--types", default="cow,mor", help="cow, mor or both, separated by a comma")
    parser.add_argument("--without-metadata", action="store_true", help="compare with a table that has none, too")
    parser.add_argument("--out", type=Path, help="keep the figures of each commit as JSON")
    parser.add_argument("--plot", type=Path, help="draw them as SVG")
    given = parser.parse_args(arguments)
    series: dict[str, list[Point]] = {}
    grown = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.types.split(","):
            points = series[kind] = run(f"{folder}/{kind}", kind, given.commits)
            found = growth(points)
            grown |= max(found.values()) > LIMIT
            median = statistics.median(point.seconds for point in points)
            told = ", ".join(f"{name} {ratio:.2f}x" for name, ratio in found.items())
            print(f"{kind}: median {median * 1000:.0f} ms a commit; last fifth to second: {told}")
            if given.without_metadata:
                plain = run(f"{folder}/{kind}-plain", kind, given.commits, metadata=False)
                bare = statistics.median(point.seconds for point in plain)
                print(f"{kind}: {median / bare:.2f}x the time of a table without metadata table")
    if given.out:
        figures = {kind: [asdict(point) for point in points] for kind, points in series.items()}
        given.out.write_text(json.dumps(figures))
    if given.plot:
        given.plot.write_text(plot(series))
    if grown:
        sys.exit(f"something grows by more than {LIMIT}x")
