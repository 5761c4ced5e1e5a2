"""Writers in several processes on one table."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConflictError, HudiError, LockError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.transaction import WriteTransaction
from tests.faults.tables import data_files, leftovers, make_table, read, rows, write
from tests.support.hand_writes import IMPATIENT, SETTINGS, commit, first_write, new_table, write_base
from tests.support.sessions import lock_settings, session_of

SPAWN = multiprocessing.get_context("spawn")  # as engines start their workers: nothing is inherited
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pool():
    """Processes for all tests: to start one takes longer than what it does in a test."""
    with SPAWN.Pool(4) as processes:
        yield processes


@pytest.fixture(scope="module")
def in_processes(pool):
    """Calls a function so many times at once, and gives the results.

    As all calls wait for each other at the barrier, no process takes two of them.
    """
    with SPAWN.Manager() as manager:

        def run(work: Callable[..., object], arguments: list[tuple[object, ...]]) -> list[object]:
            barrier = manager.Barrier(len(arguments))
            pending = [pool.apply_async(work, (barrier, *args)) for args in arguments]
            return [result.get(600) for result in pending]

        yield run


def take_part(barrier, handle_bytes: bytes, token: str) -> str:
    handle = pickle.loads(handle_bytes)
    barrier.wait()
    try:
        with WriteTransaction.attach(handle) as tx:
            write_base(tx, "a", f"f{token[0]}", token=token)
    except HudiError as error:
        return type(error).__name__
    return "written"


def upsert(barrier, root: str, first: int) -> str:
    barrier.wait()
    try:
        write(LocalStorage(root), rows(range(first, first + 4), 5), "upsert", 9, "cow")
    except ConflictError:
        return "conflict"
    return "written"


def hold(barrier, root: str, times: int) -> list[tuple[int, int]]:
    storage = LocalStorage(root)
    barrier.wait()
    held: list[tuple[int, int]] = []
    for _ in range(times):
        with FileLock(storage, lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRY_WAIT_MS=20), purpose="test") as lock:
            since = time.monotonic_ns()
            time.sleep(0.002)
            lock.check()
            held.append((since, time.monotonic_ns()))
    return held


@pytest.mark.slow
def test_two_writers_with_the_same_instant_one_fails_before_any_data_file(tmp_path, in_processes):
    storage = LocalStorage(str(tmp_path))
    config = new_table(storage)
    first_write(storage, config)
    files = data_files(tmp_path)
    session = session_of(storage, settings=SETTINGS)
    one = WriteTransaction.plan(session, action=Action.COMMIT, operation="INSERT")
    two = WriteTransaction.plan(session, action=Action.COMMIT, operation="INSERT", instant=one.instant)
    outcomes = in_processes(take_part, [(pickle.dumps(one), "1-1-0"), (pickle.dumps(two), "2-1-0")])
    assert sorted(map(str, outcomes)) == ["ConflictError", "written"]
    winner = one if outcomes[0] == "written" else two
    loser = two if winner is one else one
    written = data_files(tmp_path) - files
    assert len(written) == 1
    assert f"f{1 if winner is one else 2}_" in written.pop()
    WriteTransaction.attach(loser).abort()
    assert len(data_files(tmp_path) - files) == 1
    WriteTransaction.attach(winner).abort()
    assert data_files(tmp_path) == files
    assert leftovers(tmp_path) == set()


def test_tasks_of_one_write_in_many_processes(tmp_path, in_processes):
    storage = LocalStorage(str(tmp_path))
    config = new_table(storage)
    session = session_of(storage, settings=SETTINGS)
    handle = WriteTransaction.plan(session, action=Action.COMMIT, operation="INSERT")
    data = pickle.dumps(handle)
    outcomes = in_processes(take_part, [(data, f"{task}-1-0") for task in range(4)])
    assert outcomes == ["written"] * 4
    assert len(data_files(tmp_path)) == 4
    commit(WriteTransaction.attach(handle), [])  # none of them reported
    assert data_files(tmp_path) == set()
    assert [i.time for i in load_timeline(storage, config).completed] == [handle.instant]


def test_writers_at_once_are_told_and_none_is_lost(tmp_path, in_processes):
    make_table(tmp_path, 9, "cow")
    before = len(load_timeline(LocalStorage(str(tmp_path)), load_table_config(LocalStorage(str(tmp_path)))).completed)
    outcomes = in_processes(upsert, [(str(tmp_path), 100 * n) for n in range(1, 4)])
    counts = Counter(outcomes)
    assert set(counts) <= {"written", "conflict"}
    assert counts["written"] >= 1
    storage = LocalStorage(str(tmp_path))
    timeline = load_timeline(storage, load_table_config(storage))
    assert len(timeline.completed) == before + counts["written"]
    assert timeline.pending == ()
    assert leftovers(tmp_path) == set()
    found = read(tmp_path)
    written = [n for n, outcome in zip(range(1, 4), outcomes, strict=True) if outcome == "written"]
    expected = {100 * n + i for n in written for i in range(4)}
    assert {row["id"] for row in found if row["id"] >= 100} == expected


def test_the_lock_excludes_processes(tmp_path, in_processes):
    results = in_processes(hold, [(str(tmp_path), 10) for _ in range(3)])
    held = sorted(span for spans in results for span in spans)  # type: ignore[attr-defined]
    assert len(held) == 30
    assert all(end <= following for (_, end), (following, _) in itertools.pairwise(held))


HOLDER = """
import sys, time
from hudi_py.storage import LocalStorage
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.settings import LockSettings
with FileLock(LocalStorage(sys.argv[1]), LockSettings(), purpose="hold"):
    print("held", flush=True)
    sys.stdin.read()
"""

WRITER = """
import sys
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from hudi_py.transaction.transaction import WriteTransaction
from tests.support.hand_writes import write_base
from tests.support.sessions import lock_settings, session_of
storage = LocalStorage(sys.argv[1])
with WriteTransaction.begin(session_of(storage), action=Action.COMMIT, operation="INSERT") as tx:
    write_base(tx, "a", "late")
    print(tx.instant, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start():
    started: list[subprocess.Popen[str]] = []

    def run(script: str, root: Path) -> tuple[subprocess.Popen[str], str]:
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(root)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        assert child.stdout is not None
        return child, child.stdout.readline().strip()

    yield run
    for child in started:
        child.kill()
        child.communicate()


def test_a_lock_held_by_a_living_process_is_refused_and_taken_over_when_it_is_killed(tmp_path, start):
    holder, said = start(HOLDER, tmp_path)
    assert said == "held"
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(LockError, match=f"process {holder.pid} on "):
        FileLock(storage, IMPATIENT.lock, purpose="commit").acquire()
    holder.kill()
    holder.wait()
    with FileLock(storage, IMPATIENT.lock, purpose="commit") as lock:
        lock.check()


def test_a_beating_write_of_another_process_is_named_and_rolled_back_when_it_is_killed(tmp_path, start):
    storage = LocalStorage(str(tmp_path))
    config = new_table(storage)
    writer, instant = start(WRITER, tmp_path)
    assert len(data_files(tmp_path)) == 1
    session = session_of(storage, settings=SETTINGS)
    with pytest.raises(ConflictError, match=rf"commit {instant} of writer .*process {writer.pid} on .* is under way"):
        WriteTransaction.begin(session, action=Action.COMMIT, operation="INSERT")
    assert len(data_files(tmp_path)) == 1
    writer.kill()
    writer.wait()
    started = time.monotonic()
    first_write(storage, config)
    assert time.monotonic() - started < 100  # not the two minutes of a heartbeat
    assert {path.partition("/")[2][:4] for path in data_files(tmp_path)} == {"f-a_", "f-b_"}
    timeline = load_timeline(storage, config)
    assert timeline.find(InstantTime(instant)) is None
    assert [i.action for i in timeline.completed] == [Action.ROLLBACK, Action.COMMIT]


def test_reading_while_it_is_written(tmp_path, pool):
    """Every reader sees a whole commit, whenever it looks."""
    make_table(tmp_path, 9, "mor")
    writing = pool.apply_async(write_some, (str(tmp_path), 4))
    seen = set()
    while not writing.ready():
        table = hudi_py.open_table(str(tmp_path)).scan(columns=["id", "ts"]).to_table()
        updated = {row["ts"] for row in table.to_pylist() if row["id"] < 8 and row["ts"] >= 10}
        assert len(updated) <= 1
        seen |= updated
    writing.get()
    assert max(seen, default=0) <= 13


def write_some(root: str, count: int) -> None:
    for n in range(count):
        write(LocalStorage(root), rows(range(8), 10 + n), "upsert", 9, "mor")
