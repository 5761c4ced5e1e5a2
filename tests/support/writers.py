"""Writers in processes of their own, with optimistic concurrency control on one table, and what must come of it.

What each commit writes follows from the name of its writer and a number, and the commit notes both. So the rows to
expect follow from the timeline: the commits one after the other, in the order in which they completed.
"""

from __future__ import annotations

import json
import logging
import os
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa

import hudi_py
from hudi_py.config import concurrency, lock
from hudi_py.storage import LocalStorage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.faults.tables import leftovers

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
    """Folder; each writer notes its confirmed commits in a file of its name, a line for each."""


def write_all(work: Work, writer: str) -> None:
    """What a writer's process does."""
    logging.getLogger("hudi_py").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    with open(os.path.join(work.reports, writer), "a", buffering=1, encoding="ascii") as file:
        for number in range(work.commits):
            result = hudi_py.write(
                work.root,
                rows(writer, number, overlapping=work.overlapping),
                options=options(work.version, work.kind, {"_writer": f"{writer} {number}"}),
            )
            file.write(json.dumps([result.instant, number, result.retries]) + "\n")


@dataclass(frozen=True)
class Outcome:
    commits: int
    """Those on the timeline, without the first."""
    retries: int
    """Of confirmed commits."""


def check(work: Work) -> Outcome:
    """Checks that every confirmed commit is on the timeline once, and that the rows are those of the commits one after
    the other. Failed writes are rolled back first, by one more write."""
    warnings.simplefilter("ignore")
    hudi_py.write(work.root, rows("99", 0, overlapping=False), options=options(work.version, work.kind))
    storage = LocalStorage(work.root)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert leftovers(Path(work.root)) == set()
    by_completion = work.version >= 8
    last = rows("99", 0, overlapping=False)["id"].to_pylist()
    expected = dict.fromkeys(range(KEYS), "") | dict.fromkeys(last, "99 0")
    committed: dict[str, str] = {}
    for instant in sorted(
        timeline.write_completed, key=lambda each: (each.completion_time or "") if by_completion else each.time
    ):
        name = read_commit_metadata(storage, timeline.layout, instant).extra.get("_writer")
        if name is None:
            continue
        assert name not in committed.values(), name
        committed[instant.time] = name
        writer, number = name.split()
        expected |= dict.fromkeys(rows(writer, int(number), overlapping=work.overlapping)["id"].to_pylist(), name)
    retries = 0
    for writer, confirmed in reports(work):
        for instant_time, number, redone in confirmed:
            assert committed.get(instant_time) == f"{writer} {number}"
            retries += redone
        # of a writer that was killed one commit more may be there
        assert sum(name.split()[0] == writer for name in committed.values()) - len(confirmed) in (0, 1)
    for listed in ("true", "false"):
        table = hudi_py.open_table(work.root, {"hoodie.metadata.enable": listed})
        found = table.scan(columns=["id", "writer"]).to_table()
        assert found.num_rows == len(expected)
        assert dict(zip(found["id"].to_pylist(), found["writer"].to_pylist(), strict=True)) == expected
    report = hudi_py.open_table(work.root).metadata.verify()
    assert report.ok, report
    return Outcome(len(committed), retries)


def reports(work: Work) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """Name of a writer, and its confirmed commits: instant, number, retries."""
    for name in sorted(os.listdir(work.reports)):
        lines = Path(work.reports, name).read_text("ascii").splitlines(keepends=True)
        yield name, [tuple(json.loads(line)) for line in lines if line.endswith("\n")]


def end(process: BaseProcess) -> None:
    """Kills a writer at once, as a failing machine does."""
    process.kill()
    process.join()
