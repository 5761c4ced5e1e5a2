"""Apache Hudi and hudi-py at work on one table at the same time.

Apache Hudi writes with optimistic concurrency control and the file-system lock, which is ours, too. Who waits for whom
is told by the files of the timeline and by the lock: one side stands still at a chosen place until the other is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.settings import LockSettings
from hudi_py.wiring import service_target
from hudi_py.write.api import write_rows
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE_S = 400.0
LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
BESIDE_OTHERS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": LOCK,
    "hoodie.write.lock.wait_time_ms": "300000",
    # longer than what we do once the lock is free
    "hoodie.write.lock.wait_time_ms_between_retry": "8000",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "8000",
    "hoodie.metadata.streaming.write.enabled": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "100",
}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])


def rows(keys: range, ts: int) -> pa.Table:
    listed = [{"id": f"k{key}", "ts": ts, "city": "ab"[key % 2]} for key in keys]
    return pa.Table.from_pylist(listed, SCHEMA)


def options(version: int, kind: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.write.lock.provider": LOCK,
        "hoodie.clean.automatic": "false",
        "hoodie.py.write.threads": "1",  # one file after the other
    }


def made(path: Path, version: int, kind: str) -> dict[str, int]:
    """A table of three commits; its rows."""
    for keys, ts in ((range(20), 1), (range(6), 2), (range(3, 9), 3)):
        hudi_py.write(str(path), rows(keys, ts), "upsert", options(version, kind))
    return read(path)


def read(path: Path) -> dict[str, int]:
    found = hudi_py.open_table(str(path)).scan(["id", "ts"]).to_table()
    by_key = dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))
    assert len(by_key) == found.num_rows
    return by_key


def instants(path: Path, ending: str) -> set[str]:
    """Requested times of the files of the timeline with such a name."""
    folder = path / ".hoodie" / "timeline"
    folder = folder if folder.is_dir() else path / ".hoodie"
    return {name[:17] for name in os.listdir(folder) if name[:1] == "2" and name.endswith(ending)}


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


class Aside:
    """A call in a thread."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self.error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> Exception | None:
        self._thread.join(PATIENCE_S)
        assert self.over
        return self.error


class Halting(LocalStorage):
    """A table on which one data file is published, and the next one is not until it may go."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.published = 0
        self.reached = threading.Event()
        self.go = threading.Event()

    def rename(self, src: str, dst: str) -> None:
        if not dst.startswith(".hoodie"):
            if self.published == 1:
                self.reached.set()
                assert self.go.wait(PATIENCE_S)
            self.published += 1
        super().rename(src, dst)


def held_up(oracle: Oracle, path: Path, data: pa.Table, given: dict[str, str]) -> Aside | None:
    """Apache Hudi as it writes: its data files are there, and it waits for the lock, which is free again. None where
    it was done before the lock was had here."""
    known, before = read(path), instants(path, "inflight")
    began = time.monotonic()
    writing = Aside(lambda: oracle.write(path, data, options=given))
    until(lambda: writing.over or bool(instants(path, "inflight") - before))
    assert writing.error is None
    (own,) = instants(path, "inflight") - before
    with FileLock(LocalStorage(str(path)), LockSettings(), purpose="hold Apache Hudi up"):
        late = own in instants(path, "commit")
        if not late:
            # its files come after the inflight one: two logs of its own, or two base files
            until(
                lambda: (
                    sum(own in name for city in "ab" for name in os.listdir(path / city) if name[-4:] != ".crc") >= 2
                )
            )
            # so that it has asked for the lock: it takes the longer the more the machine has to do
            time.sleep(max(1, (time.monotonic() - began) / 3))
            assert read(path) == known
    if not late:
        return writing
    assert writing.wait() is None
    return None


def apache_hudi_at_its_commit(
    oracle: Oracle, path: Path, data: pa.Table, given: dict[str, str] = BESIDE_OTHERS
) -> Aside:
    """The same; what is written once more are the same rows."""
    found = next(filter(None, (held_up(oracle, path, data, given) for _ in range(5))), None)
    assert found is not None
    return found


def check(oracle: Oracle, path: Path, expected: dict[str, int]) -> None:
    assert read(path) == expected
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(path))
    report = hudi_py.open_table(str(path)).metadata.verify()
    assert report.ok, report
    assert oracle.check(path, keys=1)["problems"] == []
    assert not (path / ".hoodie" / "lock").exists()


@in_turn("at once", 0, 2)
@pytest.mark.parametrize(("version", "kind"), cases([(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")], "our services", 1))
def test_our_services_while_apache_hudi_writes(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """It writes to the metadata table, too, meanwhile: nothing of that is undone."""
    path = tmp_path / "t"
    expected = made(path, version, kind)
    own = {"hoodie.write.lock.provider": LOCK}
    planned = hudi_py.open_table(str(path)).compaction.schedule() if kind == "MERGE_ON_READ" else None
    after = expected | {f"k{key}": 4 for key in range(10, 14)}
    writing = apache_hudi_at_its_commit(oracle, path, rows(range(10, 14), 4))
    table = hudi_py.open_table(str(path))
    if planned is not None:
        assert table.compaction.run(planned, options=own).instant == planned
    else:
        assert table.clean(options={**own, "hoodie.clean.commits.retained": "1"}).num_files
    assert read(path) in (expected, after)
    assert writing.wait() is None
    check(oracle, path, after)


@in_turn("at once", 1, 2)
@pytest.mark.parametrize(("version", "kind"), cases([(6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")], "the same keys", 1))
def test_apache_hudi_writes_the_same_keys_while_we_do(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """It is done first: ours fails, and nothing of it is left, nor of its files in the metadata table."""
    path = tmp_path / "t"
    expected = made(path, version, kind)
    storage = Halting(str(path))
    chosen = Options.resolve(options(version, kind), Scope.WRITE)
    ours = Aside(lambda: write_rows(service_target(storage, chosen), rows(range(6), 9), "upsert"))
    assert storage.reached.wait(PATIENCE_S), ours.error
    try:
        (pending,) = instants(path, "inflight") - instants(path, "commit")
        oracle.write(path, rows(range(4), 8), options=BESIDE_OTHERS)
        expected |= {f"k{key}": 8 for key in range(4)}
        assert read(path) == expected
        assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(path))
    finally:
        storage.go.set()
    error = ours.wait()
    assert isinstance(error, ConflictError), error
    assert "has been completed" in str(error)
    assert pending not in instants(path, "inflight")
    assert read(path) == expected
    hudi_py.write(str(path), rows(range(2), 10), "upsert", options(version, kind))
    check(oracle, path, expected | {"k0": 10, "k1": 10})


DYING = """
import sys, time
from hudi_py.config import Options, Scope
from hudi_py.wiring import service_target
from hudi_py.write.api import write_rows
from tests.oracle.test_at_once import Halting, options, rows
class Dying(Halting):
    def rename(self, src, dst):
        super(Halting, self).rename(src, dst)
        if not dst.startswith(".hoodie"):
            print("published", flush=True)
            time.sleep(3600)
path, version, kind = sys.argv[1:]
chosen = Options.resolve(options(int(version), kind), Scope.WRITE)
write_rows(service_target(Dying(path), chosen), rows(range(6), 9), "upsert")
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), cases([(9, "MERGE_ON_READ"), (6, "COPY_ON_WRITE")], "heartbeats", 1))
def test_apache_hudi_undoes_our_killed_write_when_its_heartbeat_has_expired(
    oracle: Oracle, tmp_path: Path, version: int, kind: str
) -> None:
    path = tmp_path / "t"
    expected = made(path, version, kind)
    child = subprocess.Popen(
        [sys.executable, "-c", DYING, str(path), str(version), kind], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "published\n"
    finally:
        child.kill()
        child.communicate()
    (pending,) = instants(path, "inflight") - instants(path, "commit")
    cleaning = {**BESIDE_OTHERS, "hoodie.clean.automatic": "true"}
    beat = path / ".hoodie" / ".heartbeat" / pending
    os.utime(beat)
    oracle.write(path, rows(range(10, 12), 4), options={**cleaning, "hoodie.client.heartbeat.interval_in_ms": "600000"})
    assert pending in instants(path, "inflight")
    expected |= {"k10": 4, "k11": 4}
    assert read(path) == expected
    os.utime(beat, (0, 0))
    oracle.write(path, rows(range(10, 12), 5), options=cleaning)
    assert pending not in instants(path, "inflight")
    check(oracle, path, expected | {"k10": 5, "k11": 5})
