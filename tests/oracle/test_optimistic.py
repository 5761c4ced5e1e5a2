"""Apache Hudi and hudi-py as two writers with optimistic concurrency control, on one table with one file-system lock.

Tables, and the places at which one side stands still, are those of `test_at_once`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError
from hudi_py.wiring import service_target
from hudi_py.write.api import write_rows
from tests.oracle.client import Oracle, OracleError
from tests.oracle.test_at_once import (
    BESIDE_OTHERS,
    PATIENCE_S,
    SCHEMA,
    Aside,
    Halting,
    apache_hudi_at_its_commit,
    check,
    made,
    options,
    read,
)
from tests.support.choice import cases, in_turn

pytestmark = pytest.mark.slow

CASES = [(version, kind) for version in (6, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")]
RETRIES = "hoodie.write.num.retries.on.conflict.failures"


def optimistic(version: int, kind: str, **more: str) -> dict[str, str]:
    return {**options(version, kind), "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **more}


def rows(keys: list[int], ts: int) -> pa.Table:
    """Even keys are in the partition a, odd ones in b, those from 100 on in c."""
    listed = [{"id": f"k{key}", "ts": ts, "city": "c" if key >= 100 else "ab"[key % 2]} for key in keys]
    return pa.Table.from_pylist(listed, SCHEMA)


@in_turn("one began first", 0, 2, others="nightly")
@pytest.mark.parametrize(
    ("version", "kind", "retries"), cases([(*case, n) for case in CASES for n in ("0", "2")], "ours began first", 1)
)
def test_apache_hudi_commits_while_we_write(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, retries: str
) -> None:
    """Ours conflicts where both wrote to a file group, and is written again if so many retries are allowed."""
    path = tmp_path / "t"
    expected = made(path, version, kind)
    for theirs, ts, conflicts in (([1, 3], 10, False), ([2, 5], 20, True)):
        storage = Halting(str(path))
        storage.published = 1  # the first file is held back
        chosen = Options.resolve(optimistic(version, kind, **{RETRIES: retries}), Scope.WRITE)
        done = []

        def ours(storage: Halting = storage, chosen: Options = chosen, done: list[object] = done, ts: int = ts) -> None:
            data = rows([0, 2, 4], ts + 1)
            done.append(write_rows(service_target(storage, chosen), data, "upsert"))

        writing = Aside(ours)
        assert storage.reached.wait(PATIENCE_S), writing.error
        try:
            oracle.write(path, rows(theirs, ts), options=BESIDE_OTHERS)
        finally:
            storage.go.set()
        error = writing.wait()
        expected |= {f"k{key}": ts for key in theirs}
        if conflicts and retries == "0":
            assert isinstance(error, ConflictError), error
            assert RETRIES in str(error)
        else:
            assert error is None
            expected |= {f"k{key}": ts + 1 for key in (0, 2, 4)}
            assert done[0].retries == int(conflicts)  # type: ignore[attr-defined]
        assert read(path) == expected
    assert pending(path) == []
    check(oracle, path, expected)


# where its logs are named by its instant, so that it can be seen that they are there
@in_turn("one began first", 1, 2, others="nightly")
@pytest.mark.parametrize(
    ("version", "kind", "overlapping"),
    cases(
        [(*each, same) for each in CASES if each != (6, "MERGE_ON_READ") for same in (False, True)],
        "Apache Hudi began first",
        1,
    ),
)
def test_we_commit_while_apache_hudi_writes(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, overlapping: bool
) -> None:
    """Its write conflicts where both wrote to a file group."""
    path = tmp_path / "t"
    expected = made(path, version, kind)
    writing = apache_hudi_at_its_commit(oracle, path, rows([0, 1, 2], 8))
    ours = [1, 3] if overlapping else [100, 101]
    result = hudi_py.write(str(path), rows(ours, 9), options=optimistic(version, kind))
    assert result.retries == 0
    expected |= {f"k{key}": 9 for key in ours}
    error = writing.wait()
    if overlapping:
        assert isinstance(error, OracleError), error
        assert "overlapping writes" in str(error)
    else:
        assert error is None
        expected |= {f"k{key}": 8 for key in (0, 1, 2)}
    assert read(path) == expected
    # its own failed write is left to whoever comes when its heartbeat has expired
    impatient = optimistic(version, kind, **{"hoodie.client.heartbeat.interval_in_ms": "1000"})
    time.sleep(2.5)
    hudi_py.write(str(path), rows([1], 10), options=impatient)
    assert pending(path) == []
    check(oracle, path, expected | {"k1": 10})


EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}


@pytest.mark.nightly
# where its logs are named by its instant, so that it can be seen that they are there
@in_turn("two writers", 0, 2, chosen=None)
@pytest.mark.parametrize(
    ("version", "kind"), cases([each for each in CASES if each != (6, "MERGE_ON_READ")], "found early", 1)
)
def test_conflicts_are_found_early_by_the_markers_of_the_other(
    oracle: Oracle, tmp_path: Path, version: int, kind: str
) -> None:
    path = tmp_path / "t"
    expected = made(path, version, kind)
    writing = apache_hudi_at_its_commit(oracle, path, rows([0, 1, 2], 8))
    (theirs,) = pending(path)
    with pytest.raises(ConflictError, match=f"{theirs}, which began earlier, is also changing the file group"):
        hudi_py.write(str(path), rows([1, 3], 9), options=optimistic(version, kind, **EARLY))
    assert pending(path) in ([theirs], [])
    assert writing.wait() is None
    expected |= {f"k{key}": 8 for key in (0, 1, 2)}
    assert read(path) == expected

    storage = Halting(str(path))
    storage.published = 1  # the first file is held back
    chosen = Options.resolve(optimistic(version, kind), Scope.WRITE)
    ours = Aside(lambda: write_rows(service_target(storage, chosen), rows([1], 10), "upsert"))
    assert storage.reached.wait(PATIENCE_S), ours.error
    try:
        direct = {**BESIDE_OTHERS, **EARLY, "hoodie.write.markers.type": "DIRECT"}
        with pytest.raises(OracleError, match="Early conflict detected"):
            oracle.write(path, rows([1, 3], 9), options=direct)
    finally:
        storage.go.set()
    assert ours.wait() is None
    assert read(path) == expected | {"k1": 10}
    impatient = optimistic(version, kind, **EARLY, **{"hoodie.client.heartbeat.interval_in_ms": "1000"})
    time.sleep(2.5)
    hudi_py.write(str(path), rows([3], 11), options=impatient)
    assert pending(path) == []
    check(oracle, path, expected | {"k1": 10, "k3": 11})


def pending(path: Path) -> list[str]:
    return [instant.time for instant in hudi_py.open_table(str(path)).timeline.pending]


@in_turn("two writers", 1, 2, chosen=None)
@pytest.mark.parametrize(("version", "kind"), cases(CASES, "both at once", 1))
def test_both_write_at_once(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Each its own partition, some commits after another; the lock is all that they share."""
    path = tmp_path / "t"
    expected = made(path, version, kind)
    over = threading.Event()
    written: list[int] = []

    def ours() -> None:
        ts = 100
        while not over.is_set():
            ts += 1
            hudi_py.write(str(path), rows([1, 3], ts), options=optimistic(version, kind, **{RETRIES: "20"}))
            written.append(ts)
            time.sleep(0.5)  # its tries for the lock are few

    writing = Aside(ours)
    eager = {**BESIDE_OTHERS, "hoodie.write.lock.client.wait_time_ms_between_retry": "100"}
    try:
        for ts in range(8, 12):
            oracle.write(path, rows([0, 2], ts), options=eager)
            expected |= {"k0": ts, "k2": ts}
    finally:
        over.set()
        error = writing.wait()
    assert error is None
    assert len(written) >= 2
    check(oracle, path, expected | {"k1": written[-1], "k3": written[-1]})
