"""Care for many tables: what finding and looking at them takes, and doing what is due.

    python -m benchmarks tend --tables 1000 --files 100000 --delay-ms 20 --out figures.json

A lake of small merge-on-read tables, all with a metadata table and every tenth with a compaction due, on a local disk
and on a storage that answers each call after a delay, as an object store does; and one table of very many files, most
of which only its metadata table knows (`many_files`). Seconds, calls of the storage and bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py
from benchmarks.many_files import ManyFiles
from hudi_py.config import Options
from hudi_py.storage import FileInfo, FolderStorage, LocalStorage, Storage
from hudi_py.tending import Budget, TendReport
from hudi_py.tending.run import TendRun
from hudi_py.tending.survey import Surroundings

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.table.services.enabled": "false",
}
ROWS = 100
DUE_EVERY = 10


class Delayed(FolderStorage):
    """A storage that answers over a network: each call that reads takes a while."""

    def __init__(self, storage: Storage, seconds: float) -> None:
        super().__init__(storage, "")
        self._seconds = seconds

    @property
    def uri(self) -> str:
        return self._storage.uri

    @property
    def is_local(self) -> bool:
        return False

    def read(self, path: str) -> bytes:
        time.sleep(self._seconds)
        return super().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        time.sleep(self._seconds)
        return super().read_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        time.sleep(self._seconds)
        return super().open_input(path)

    def names(self, path: str = "") -> list[str]:
        time.sleep(self._seconds)
        return super().names(path)

    def list(self, path: str = "") -> list[FileInfo]:
        time.sleep(self._seconds)
        return super().list(path)

    def stat(self, path: str) -> FileInfo | None:
        time.sleep(self._seconds)
        return super().stat(path)


def make_lake(root: Path, tables: int) -> None:
    """Tables in folders of a hundred: copies of two, one of which is due for a compaction."""
    models = {}
    for due, writes in ((False, 2), (True, 6)):
        model = root / f"_model_{due}"
        for ts in range(writes):
            rows = pa.table({"id": [f"{n}" for n in range(ROWS)], "ts": [ts] * ROWS, "value": list(range(ROWS))})
            hudi_py.write(model, rows, options=OPTIONS, table_type="mor", record_key="id", ordering_by="ts")
        models[due] = model
    for number in range(tables):
        shutil.copytree(models[number % DUE_EVERY == 0], root / f"db{number // 100:03}" / f"t{number:05}")


def run(root: Path, *, dry_run: bool, jobs: int = 1, delay_s: float = 0.0) -> TendReport:
    """One run over what is at and below a folder."""

    def opens(uri: str, _: Mapping[str, str] | None) -> Storage:
        storage = LocalStorage(uri.removeprefix("file://"))
        return Delayed(storage, delay_s) if delay_s else storage

    tending = TendRun(Surroundings(Options.resolve(OPTIONS), None, None, opens=opens), Budget(), jobs=jobs)
    places, deep = tending.find([str(root)], None)
    return tending.carry_out(places, deep, dry_run=dry_run)


def figures(report: TendReport) -> dict[str, Any]:
    counts = {state: report.count(state) for state in ("due", "done", "left", "busy", "failed")}
    return {
        "tables": len(report.tables),
        **{state: count for state, count in counts.items() if count},
        "seconds": round(report.seconds, 2),
        **asdict(report.used),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tend", description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--files", type=int, nargs="*", default=[100_000])
    parser.add_argument("--delay-ms", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=16, help="tables at a time on the slow storage")
    parser.add_argument("--out", help="file for the figures as JSON")
    given = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = {}

    def note(name: str, report: TendReport) -> None:
        found[name] = figures(report)
        print(f"{name}: {json.dumps(found[name])}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tend-") as folder:
        lake = Path(folder) / "lake"
        make_lake(lake, given.tables)
        note("looking at all", run(lake, dry_run=True))
        delay = given.delay_ms / 1000
        note(f"looking, {given.delay_ms:g} ms a call", run(lake, dry_run=True, jobs=given.jobs, delay_s=delay))
        note("caring for all", run(lake, dry_run=False))
        note("looking again", run(lake, dry_run=True))
        for count in given.files:
            path = Path(folder) / f"files{count}"
            ManyFiles(path, count)
            note(f"a table of {count:,} files", run(path, dry_run=True))
            shutil.rmtree(path)
    if given.out:
        Path(given.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
