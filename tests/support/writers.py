"""Writers in processes of their own, with optimistic concurrency control on one table, and what must come of it.

What each commit writes follows from the name of its writer and a number, and the commit notes both. Writers read, too,
and note what they asked and were answered; `History` proves that it is serialisable.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py
from hudi_py.config import concurrency, lock
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, RolledBackError
from hudi_py.read.scan import Scan
from hudi_py.storage import LocalStorage
from hudi_py.table import Table
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.faults.tables import leftovers
from tests.support.choice import SEED
from tests.support.history import Answer, Commit, History

KEYS = 24
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("writer", pa.string())])
RETRIES = "200"


def options(version: int, kind: str, more: dict[str, str] | None = None) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
        "hoodie.time.generator.max_expected_clock_skew_ms": "2",
        "hoodie.archive.automatic": "false",  # the timeline tells what to expect
        "hoodie.py.write.durable": "false",
        "hoodie.py.write.threads": "1",
        concurrency.MODE.key: concurrency.OPTIMISTIC,
        concurrency.RETRIES.key: RETRIES,
        lock.LOCK_PROVIDER.key: lock.FILE_SYSTEM_LOCK,
        **(more or {}),
    }


def rows(writer: str, number: int, *, overlapping: bool) -> pa.Table:
    """The rows of a commit: some of the keys that are there from the first, or keys of the writer's own."""
    chance = random.Random(f"{writer} {number}")
    lineage = int(writer.partition("-")[0])
    if overlapping:
        ids = chance.sample(range(KEYS), 4)
        partitions = ["ab"[key % 2] for key in ids]
    else:
        ids = [1000 * (lineage + 1) + chance.randrange(40) for _ in range(4)]
        ids = sorted(set(ids))
        partitions = [f"p{lineage}"] * len(ids)
    listed = [
        {"id": key, "p": partition, "ts": 1, "writer": f"{writer} {number}"}
        for key, partition in zip(ids, partitions, strict=True)
    ]
    return pa.Table.from_pylist(listed, SCHEMA)


def make(root: str, version: int, kind: str) -> None:
    """A table with the keys that overlapping writers update."""
    first = [{"id": key, "p": "ab"[key % 2], "ts": 0, "writer": ""} for key in range(KEYS)]
    hudi_py.write(root, pa.Table.from_pylist(first, SCHEMA), options=options(version, kind))


@dataclass(frozen=True)
class Work:
    root: str
    version: int
    kind: str
    overlapping: bool
    commits: int
    reports: str
    """Folder; each writer notes what it does in a file of its name, a line of JSON for each."""
    clock_steps: bool = False
    """Whether the clocks of the writers are set forward and back, by up to a second and a half."""
    more: tuple[tuple[str, str], ...] = ()
    """Options besides those of every writer."""

    def options(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return options(self.version, self.kind, {**dict(self.more), **(more or {})})


def write_all(work: Work, writer: str) -> None:
    """What a writer's process does: its commits, each until it is confirmed, and some queries between them."""
    logging.getLogger("hudi_py").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    chance = random.Random(f"{SEED} {writer}")
    steps, right = [0], time.time_ns
    if work.clock_steps:
        time.time_ns = lambda: right() + steps[0]
    since = _newest(hudi_py.open_table(work.root))
    with open(os.path.join(work.reports, writer), "a", buffering=1, encoding="ascii") as file:

        def note(asked_ns: int, **what: object) -> None:
            file.write(json.dumps({**what, "asked": asked_ns, "answered": time.monotonic_ns()}) + "\n")

        for number in range(work.commits):
            steps[0] = chance.choice([0, 0, 0, -1_500_000_000, 700_000_000, 1_500_000_000])
            asked_ns = time.monotonic_ns()
            while True:
                try:
                    result = hudi_py.write(
                        work.root,
                        rows(writer, number, overlapping=work.overlapping),
                        options=work.options({"_writer": f"{writer} {number}"}),
                    )
                    break
                except (RolledBackError, ConflictError, ConfigError) as error:
                    # overtaken while it stood still, or with a clock that is behind those of others
                    if isinstance(error, ConfigError) and "ahead of this machine's clock" not in str(error):
                        raise
                    note(asked_ns, failed=type(error).__name__)
                    time.sleep(0.1)
            note(asked_ns, commit=number, instant=result.instant, retries=result.retries)
            if chance.random() < 0.3:
                asked_ns = time.monotonic_ns()
                note(asked_ns, read=_rows_of(hudi_py.open_table(work.root).scan(columns=["id", "writer"])))
            if chance.random() < 0.2 and work.version >= 8:
                asked_ns, table = time.monotonic_ns(), hudi_py.open_table(work.root)
                until = _newest(table)
                scan = table.scan(columns=["id", "writer"], query_type="incremental", begin=since, end=until)
                with suppress(HistoryCleanedError):
                    note(asked_ns, read=_rows_of(scan), since=since, until=until)
                since = until


def _newest(table: Table) -> str:
    return max(each.completion_time or "" for each in table.timeline.write_completed)


def _rows_of(scan: Scan) -> list[list[object]]:
    found = scan.to_table()
    return [list(row) for row in zip(found["id"].to_pylist(), found["writer"].to_pylist(), strict=True)]


@dataclass(frozen=True)
class Outcome:
    commits: int
    """Those on the timeline, without the first."""
    retries: int
    """Of confirmed commits."""
    failures: int
    """Writes that failed altogether, and were asked for anew."""
    answers: int


def check(work: Work) -> Outcome:
    """Checks the history, the rows that are there at the end, and that nothing is left over. Failed writes are rolled
    back first, by one more write."""
    warnings.simplefilter("ignore")
    if work.clock_steps:
        time.sleep(2)  # until this clock has passed the instants of those that were set forward
    last = rows("99", 0, overlapping=False)
    asked_ns = time.monotonic_ns()
    hudi_py.write(work.root, last, options=work.options({"_writer": "99 0"}))
    storage = LocalStorage(work.root)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert leftovers(Path(work.root)) == set()
    lines = {name: noted(work, name) for name in sorted(os.listdir(work.reports))}
    asked = {f"{name} {line['commit']}": line for name, listed in lines.items() for line in listed if "commit" in line}
    asked["99 0"] = {"asked": asked_ns, "answered": time.monotonic_ns(), "retries": 0}
    commits = []
    for instant in timeline.write_completed:
        metadata = read_commit_metadata(storage, timeline.layout, instant)
        name = metadata.extra.get("_writer")
        if name is None:
            continue
        writer, number = name.split()
        keys = last if writer == "99" else rows(writer, int(number), overlapping=work.overlapping)
        line = asked.get(name, {"asked": 0, "answered": None})
        assert line.get("instant", instant.time) == instant.time
        assert instant.completion_time is not None  # without one in its name, that of the file
        commits.append(
            Commit(name, instant.completion_time, frozenset(keys["id"].to_pylist()), line["asked"], line["answered"])
        )
    for name, listed in lines.items():
        # of a writer that was killed one commit more may be there
        ours = sum(commit.name.split()[0] == name for commit in commits)
        assert ours - sum("commit" in line for line in listed) in (0, 1)
    answers = [
        Answer(name, dict(line["read"]), line["asked"], line["answered"], line.get("since"), line.get("until", ""))
        for name, listed in lines.items()
        for line in listed
        if "read" in line
    ]
    history = History(dict.fromkeys(range(KEYS), ""), commits, answers, list(asked))
    history.check()
    for listing in ("true", "false"):
        found = hudi_py.open_table(work.root, {"hoodie.metadata.enable": listing}).scan(columns=["id", "writer"])
        assert sorted(_rows_of(found)) == sorted(map(list, history.states[-1].items()))
    report = hudi_py.open_table(work.root).metadata.verify()
    assert report.ok, report
    retries = sum(line["retries"] for line in asked.values())
    failures = sum("failed" in line for listed in lines.values() for line in listed)
    return Outcome(len(commits), retries, failures, len(answers))


def noted(work: Work, writer: str) -> list[dict[str, Any]]:
    """What a writer has noted, without a line that it was killed at."""
    lines = Path(work.reports, writer).read_text("ascii").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def end(process: BaseProcess) -> None:
    """Kills a writer at once, as a failing machine does."""
    process.kill()
    process.join()


def stand_still(process: BaseProcess, seconds: float) -> None:
    """Stops a writer for a while, as a machine that is overloaded or suspended does."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(process.pid, signal.SIGCONT)
