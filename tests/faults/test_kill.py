"""A write killed at every call that changes the storage: the table reads as before, and the next write recovers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hudi_py
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import KINDS, check_recovered, data_files, leftovers, make_table, read, recover, rows, write
from tests.support.choice import cases, every

UPDATE = rows(range(2, 14), 3)  # updates ids 2 to 9 and inserts 10 to 13
OPERATIONS = {"upsert": UPDATE, "delete": rows(range(3), 9), "insert_overwrite_table": rows(range(5, 8), 7)}

ALL_KINDS = pytest.mark.parametrize(
    ("version", "kind"),
    # version 8 has the files of version 9
    [pytest.param(*pair, marks=[pytest.mark.slow] if pair[0] == 8 else []) for pair in KINDS],
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """`tables(version, kind)` is a table with two commits; made once."""
    made: dict[object, Path] = {}

    def table(version: int, kind: str, metadata_table: bool = False) -> Path:
        key = (version, kind, metadata_table)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("faults") / "table"
            make_table(made[key], version, kind, metadata_table=metadata_table)
        return made[key]

    return table


def record_calls(table: Path, scratch: Path, operation: str, version: int, kind: str) -> tuple[list[str], list]:
    """Calls that the write makes, and the rows after it."""
    shutil.copytree(table, scratch)
    storage = KillingStorage(str(scratch))
    write(storage, OPERATIONS[operation], operation, version, kind)
    assert leftovers(scratch) == set()
    return storage.calls, read(scratch)


def kill_everywhere(
    table: Path, tmp_path: Path, operation: str, version: int, kind: str, *, torn: bool, step: int = 1
) -> None:
    before, files = read(table), data_files(table)
    calls, after = record_calls(table, tmp_path / "whole", operation, version, kind)
    assert len(calls) > 15
    assert before != after
    outcomes = []
    for call in every(12 * step, len(calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        storage = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            write(storage, OPERATIONS[operation], operation, version, kind)
        assert read(root) in (before, after), storage.calls[-1]
        published = check_recovered(root, before, after, files, version, kind)
        outcomes.append(published)
        if not published:
            write(LocalStorage(str(root)), OPERATIONS[operation], operation, version, kind)
            assert read(root) == after
        shutil.rmtree(root)
    # the instant of publication divides the calls: never both ways
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@ALL_KINDS
def test_upsert(tables, tmp_path, version, kind, torn):
    kill_everywhere(tables(version, kind), tmp_path, "upsert", version, kind, torn=torn)


@pytest.mark.sampled(2)
@ALL_KINDS
def test_overwrite(tables, tmp_path, version, kind):
    kill_everywhere(tables(version, kind), tmp_path, "insert_overwrite_table", version, kind, torn=True, step=2)


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow"), (9, "mor")])
def test_delete(tables, tmp_path, version, kind):
    kill_everywhere(tables(version, kind), tmp_path, "delete", version, kind, torn=False, step=2)


@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("version", [6, 9])
def test_upsert_that_drops_the_metadata_table(tables, tmp_path, version, torn):
    table = tables(version, "cow", True)
    kill_everywhere(table, tmp_path, "upsert", version, "cow", torn=torn)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@ALL_KINDS
def test_the_rollback_is_killed_too(tables, tmp_path, version, kind, torn):
    table = tables(version, kind)
    before, files = read(table), data_files(table)
    calls, after = record_calls(table, tmp_path / "whole", "upsert", version, kind)
    dead = tmp_path / "dead"
    released = "delete .hoodie/.hudi_py"
    # all files are in place, the completed one is not
    for late in sorted(range(len(calls)), key=lambda call: not calls[call].startswith(released)):
        shutil.copytree(table, dead)
        storage = KillingStorage(str(dead), late)
        with pytest.raises(Killed):
            write(storage, UPDATE, "upsert", version, kind)
        if storage.calls[-1].startswith(released) and data_files(dead) > files:
            break
        shutil.rmtree(dead)
    else:
        raise AssertionError("the write has no such call")
    trial = tmp_path / "trial"
    shutil.copytree(dead, trial)
    storage = KillingStorage(str(trial))
    recover(storage)
    assert len(storage.calls) > 10
    for call in every(12, len(storage.calls)):
        shutil.rmtree(trial)
        shutil.copytree(dead, trial)
        with pytest.raises(Killed):
            recover(KillingStorage(str(trial), call, torn=torn))
        assert read(trial) == before
        assert not check_recovered(trial, before, after, files, version, kind)
    write(LocalStorage(str(trial)), UPDATE, "upsert", version, kind)
    assert read(trial) == after


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_the_first_write_of_a_table(tmp_path, version, kind):
    whole = KillingStorage(str(tmp_path / "whole"))
    write(whole, UPDATE, "insert", version, kind)
    after = read(tmp_path / "whole")
    for call in every(12, len(whole.calls)):
        root = tmp_path / f"{call}"
        with pytest.raises(Killed):
            write(KillingStorage(str(root), call), UPDATE, "insert", version, kind)
        storage = LocalStorage(str(root))
        there = storage.stat(".hoodie/hoodie.properties") is not None
        if there and load_timeline(storage, load_table_config(storage)).write_completed:
            recover(storage)
        else:
            write(storage, UPDATE, "insert", version, kind)
        assert read(root) == after
        assert leftovers(root) == set()
        shutil.rmtree(root)


@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (9, "mor")])
def test_a_table_overwritten_from_itself_reads_whole_at_every_kill(tables, tmp_path, version, kind):
    table = tables(version, kind)
    before, files = read(table), data_files(table)

    def overwrite(root: Path, storage) -> None:
        source = hudi_py.open_table(str(root)).scan(columns=["id", "name", "ts", "p"], filter="id < 6")
        write(storage, source, "insert_overwrite_table", version, kind)

    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    storage = KillingStorage(str(whole))
    overwrite(whole, storage)
    after = read(whole)
    assert after == [row for row in before if row["id"] < 6]
    for call in every(9, len(storage.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        with pytest.raises(Killed):
            overwrite(root, KillingStorage(str(root), call))
        check_recovered(root, before, after, files, version, kind)
        shutil.rmtree(root)


SCRIPT = """
import sys
from tests.faults.killing import KillingStorage, kill_process
from tests.faults.test_kill import OPERATIONS
from tests.faults.tables import write
root, call, version, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
write(KillingStorage(root, call, die=kill_process), OPERATIONS["upsert"], "upsert", version, kind)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "really killed", 1))
def test_a_process_that_is_really_killed(tables, tmp_path, version, kind):
    """The dead process left identity, heartbeat and lock: the next write recovers at once all the same."""
    table = tables(version, kind)
    before, files = read(table), data_files(table)
    calls, after = record_calls(table, tmp_path / "whole", "upsert", version, kind)
    count = len(calls)
    for call in sorted({1, count // 2, count - 2}):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        arguments = [sys.executable, "-c", SCRIPT, str(root), str(call), str(version), kind]
        done = subprocess.run(arguments, cwd=Path(__file__).parents[2], capture_output=True, check=False)
        assert done.returncode == -9, done.stderr.decode()
        assert read(root) in (before, after)
        if not check_recovered(root, before, after, files, version, kind):
            write(LocalStorage(str(root)), UPDATE, "upsert", version, kind)
        assert read(root) == after
