"""Writers in processes of their own, with optimistic concurrency control on one table, and what must come of it.

What each commit writes follows from the name of its writer and a number, and the commit notes both. Writers read, too,
and note what they asked and were answered; `History` proves that it is serialisable.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import hudi_py
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import incremental
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, RolledBackError
from hudi_py.read.scan import Scan
from hudi_py.storage import Storage, open_storage
from hudi_py.table import Table
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.write.result import WriteResult
from tests.faults.tables import leftovers
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import SEED
from tests.support.history import Answer, Commit, History

KEYS = 24
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("writer", pa.string())])
RETRIES = "200"
HEARTBEAT_MS = "hoodie.client.heartbeat.interval_in_ms"
BESIDE_APACHE_MS = "8000"
"""Heartbeats of writers beside Apache Hudi's: what is left of a conflict of its is rolled back after three of them."""
SPAWN = multiprocessing.get_context("spawn")
EXACT: Final = {incremental.FALLBACK.key: "false"}
"""Of incremental queries: what the cleaner has removed is an error."""
DISTURBED = ("killed", "stopped", "clock steps")
"""Writers are killed and replaced; stand still for longer than their heartbeat lasts; have clocks that are set."""


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
        concurrency_config.MODE.key: concurrency_config.OPTIMISTIC,
        concurrency_config.RETRIES.key: RETRIES,
        concurrency_config.LOCK_PROVIDER.key: concurrency_config.FILE_SYSTEM_LOCK,
        **(more or {}),
    }


def rows(writer: str, number: int, *, overlapping: bool) -> pa.Table:
    """The rows of a commit: some of the keys that are there from the first, or keys of the writer's own."""
    chance = random.Random(f"{writer} {number}")
    lineage = _lineage(writer)
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
    Work(root, version, kind, overlapping=True, commits=0, reports="").make()


@dataclass(frozen=True)
class Where:
    """Where the table is, and who writes to it besides writers of ours with the file lock."""

    root: str = ""
    """Empty: a local folder."""
    storage_options: tuple[tuple[str, str], ...] = ()
    lock: tuple[tuple[str, str], ...] = ()
    apache: tuple[int, ...] = ()
    """The writers that are Apache Hudi's."""


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
    where: Where = Where()

    def options(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return options(self.version, self.kind, {**dict(self.where.lock), **dict(self.more), **(more or {})})

    @property
    def storage_options(self) -> dict[str, str] | None:
        return dict(self.where.storage_options) or None

    @property
    def storage(self) -> Storage:
        return open_storage(self.root, self.storage_options)

    def open(self, more: dict[str, str] | None = None) -> Table:
        return hudi_py.open_table(self.root, more, storage_options=self.storage_options)

    def write(self, rows: pa.Table, more: dict[str, str] | None = None) -> WriteResult:
        return hudi_py.write(self.root, rows, options=self.options(more), storage_options=self.storage_options)

    def make(self) -> None:
        """Makes the table, with the keys that overlapping writers update."""
        first = [{"id": key, "p": "ab"[key % 2], "ts": 0, "writer": ""} for key in range(KEYS)]
        self.write(pa.Table.from_pylist(first, SCHEMA))


def begun(
    folder: Path,
    version: int,
    kind: str,
    overlapping: bool,
    commits: int,
    trouble: str = "",
    where: Where = Where(),
) -> Work:
    """The work of writers on a new table, whose reports are in a folder."""
    noted = folder / "reports"
    noted.mkdir()
    more = {
        "stopped": ((HEARTBEAT_MS, "1000"),),
        # a clean after a commit may find that the clock has been set back
        "clock steps": (("hoodie.fail.writes.on.inline.table.service.exception", "false"),),
    }.get(trouble, ())
    if where.apache:
        more = (*more, (HEARTBEAT_MS, BESIDE_APACHE_MS))
    root = where.root or str(folder / "t")
    work = Work(root, version, kind, overlapping, commits, str(noted), trouble == "clock steps", more, where)
    work.make()
    return work


Note = Callable[..., None]
"""Notes when something was asked for, and what came of it just now."""


@contextmanager
def _noting(work: Work, writer: str) -> Iterator[Note]:
    with open(os.path.join(work.reports, writer), "a", buffering=1, encoding="ascii") as file:

        def note(asked_ns: int, **what: object) -> None:
            file.write(json.dumps({**what, "asked": asked_ns, "answered": time.monotonic_ns()}) + "\n")

        yield note


def write_all(work: Work, writer: str) -> None:
    """What a writer's process does: its commits, each until it is confirmed, and some queries between them."""
    logging.getLogger("hudi_py").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    with _noting(work, writer) as note:
        if _lineage(writer) in work.where.apache:
            _write_as_apache_hudi(work, writer, note)
        else:
            _write(work, writer, note)


def _lineage(writer: str) -> int:
    return int(writer.partition("-")[0])


_AS_OURS: Final = {
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.streaming.write.enabled": "true",
    "hoodie.datasource.write.commitmeta.key.prefix": "_",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "1000",
    "hoodie.write.lock.wait_time_ms": "20000",
    "hoodie.write.lock.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.num_retries": "1000",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "100",
    "hoodie.write.num.retries.on.conflict.failures": "0",
}
"""Options of Apache Hudi's writers besides ours. They leave table services to ours, and each conflict is an error."""


_CONFLICTS: Final = ("overlapping writes", "eartbeat")
"""What its errors say of a conflict, and of a write that has stood still for too long."""


def _write_as_apache_hudi(work: Work, writer: str, note: Note) -> None:
    oracle = Oracle()
    try:
        for number in range(work.commits):
            given = {**work.options(), **_AS_OURS, "_writer": f"{writer} {number}"}
            data = rows(writer, number, overlapping=work.overlapping)
            asked_ns = time.monotonic_ns()
            while True:
                try:
                    oracle.write(work.root, data, options=given)
                    break
                except OracleError as error:
                    if not any(word in str(error) for word in _CONFLICTS):
                        raise
                    note(asked_ns, failed="HoodieWriteConflictException")
            note(asked_ns, commit=number, retries=0)
    finally:
        oracle.close()


def _write(work: Work, writer: str, note: Note) -> None:
    chance = random.Random(f"{SEED} {writer}")
    steps, right = [0], time.time_ns
    if work.clock_steps:
        time.time_ns = lambda: right() + steps[0]
    since = _newest(work.open())
    for number in range(work.commits):
        steps[0] = chance.choice([0, 0, 0, -1_500_000_000, 700_000_000, 1_500_000_000])
        asked_ns = time.monotonic_ns()
        while True:
            try:
                data = rows(writer, number, overlapping=work.overlapping)
                result = work.write(data, {"_writer": f"{writer} {number}"})
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
            note(asked_ns, read=_rows_of(work.open().scan(columns=["id", "writer"])))
        if chance.random() < 0.2 and work.version >= 8:
            asked_ns, table = time.monotonic_ns(), work.open()
            until = _newest(table)
            scan = table.scan(columns=["id", "writer"], query_type="incremental", begin=since, end=until, options=EXACT)
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
    work.write(last, {"_writer": "99 0"})
    storage = work.storage
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    assert timeline.pending == ()
    assert leftovers(storage) == set()
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
        found = work.open({"hoodie.metadata.enable": listing}).scan(columns=["id", "writer"])
        assert sorted(_rows_of(found)) == sorted(map(list, history.states[-1].items()))
    report = work.open().metadata.verify()
    assert report.ok, report
    retries = sum(line["retries"] for line in asked.values())
    failures = sum("failed" in line for listed in lines.values() for line in listed)
    return Outcome(len(commits), retries, failures, len(answers))


def noted(work: Work, writer: str) -> list[dict[str, Any]]:
    """What a writer has noted, without a line that it was killed at."""
    lines = Path(work.reports, writer).read_text("ascii").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run(work: Work, writers: int, trouble: str = "", pause_s: float = 4) -> Outcome:
    """Lets so many writers do their commits, with one kind of trouble, and checks the history."""
    started = time.monotonic()
    write_together(work, writers, trouble, pause_s)
    seconds = time.monotonic() - started
    if work.where.apache:
        time.sleep(3 * int(BESIDE_APACHE_MS) / 1000)
    outcome = check(work)
    case = f"{work.version} {work.kind} overlapping={work.overlapping} {trouble or 'undisturbed'}"
    print(f"{case}, {seconds:.0f} s: {outcome}")
    assert outcome.commits >= writers * work.commits + 1
    if trouble != "killed":
        assert outcome.commits == writers * work.commits + 1
    return outcome


def write_together(work: Work, writers: int, trouble: str = "", pause_s: float = 4) -> None:
    """Args:
    pause_s: writers of ours that are stopped stand still for up to so many seconds.
    """
    chance = random.Random(f"{SEED} {work.version} {work.kind} {work.overlapping} {trouble}")
    lives = [0] * writers
    processes = [_started(work, f"{number}-0") for number in range(writers)]
    for _ in range(work.commits if trouble in ("killed", "stopped") else 0):
        time.sleep(chance.uniform(0.5, 2))
        victim = chance.randrange(writers)
        if not processes[victim].is_alive():
            continue
        if trouble == "killed":
            _end(processes[victim])
            lives[victim] += 1
            processes[victim] = _started(work, f"{victim}-{lives[victim]}")
        elif victim not in work.where.apache:
            _stand_still(processes[victim], chance.uniform(0.5, pause_s))
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * writers


def _started(work: Work, writer: str) -> BaseProcess:
    process = SPAWN.Process(target=write_all, args=(work, writer))
    process.start()
    return process


def _end(process: BaseProcess) -> None:
    """Kills a writer at once, with its JVM, as a failing machine does."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    groups = [int(child) for child in children.read_text("ascii").split()] if children.exists() else []
    process.kill()
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    process.join()


def _stand_still(process: BaseProcess, seconds: float) -> None:
    """Stops a writer for a while, as a machine that is overloaded or suspended does."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(process.pid, signal.SIGCONT)
