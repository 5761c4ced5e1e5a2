"""What follows a commit, and a write that is redone after a conflict."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from hudi_py.config import concurrency as concurrency_config
from hudi_py.errors import ConflictError, HistoryCleanedError
from hudi_py.storage import MemoryStorage
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.api import TableArguments, write_options, write_rows
from hudi_py.write.retry import redo_on_conflict

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})


class Noted:
    """Notes the commits it was called after."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.commits: list[Committed] = []

    def check(self, config) -> None:
        pass

    def run(self, session, committed: Committed) -> tuple[str, ...]:
        assert session.storage.stat(".hoodie/lock") is None
        self.commits.append(committed)
        return self.names


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return MemoryStorage(re.sub(r"\W+", "-", request.node.nodeid))


OPTIONS = write_options(
    {"hoodie.table.name": "t", "hoodie.time.generator.max_expected_clock_skew_ms": 1},
    TableArguments(record_key="id", partition_by="p"),
)


def test_all_that_follows_a_commit_learns_what_was_committed(storage):
    first, second = Noted("one", "two"), Noted("three")
    result = write_rows(
        WriteTarget(
            storage,
            OPTIONS,
            after=(
                first,
                second,
            ),
        ),
        ROWS,
        "upsert",
    )
    assert result.services == ("one", "two", "three")
    (committed,) = first.commits
    assert second.commits == [committed]
    assert (committed.instant, committed.completion_time) == (result.instant, result.completion_time)
    assert (committed.operation, committed.partitions) == ("UPSERT", ("a", "b"))
    assert len(committed.files) == result.num_files == 2
    assert all(storage.stat(path) is not None for path in committed.files)
    write_rows(WriteTarget(storage, OPTIONS, after=(first,)), ROWS.slice(0, 1), "insert_overwrite_table")
    assert first.commits[-1].partitions == ("a", "b")  # one written, both replaced


def test_nothing_follows_where_nothing_was_committed(storage):
    after = Noted("one")
    options = OPTIONS.replace({})
    write_rows(WriteTarget(storage, options), ROWS, "upsert")
    options = write_options({**OPTIONS.values, "hoodie.allow.empty.commit": "false"})
    assert write_rows(WriteTarget(storage, options, after=(after,)), ROWS.slice(0, 0), "upsert").services == ()
    assert after.commits == []


def failing(times: int, commit=WriteTransaction.commit):
    """`WriteTransaction.commit`, which meets a conflict the first few times."""
    left = [times]

    def run(self, *arguments, **keywords):
        if left[0]:
            left[0] -= 1
            raise ConflictError("Cannot commit the write: another one came first", instant="20260101000000000")
        return commit(self, *arguments, **keywords)

    return run


def optimistic(retries: int):
    return write_options(
        {
            **OPTIONS.values,
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": concurrency_config.FILE_SYSTEM_LOCK,
            "hoodie.write.num.retries.on.conflict.failures": retries,
        }
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("retries", "conflicts"), [(0, 1), (2, 2), (2, 3)])
def test_a_write_is_redone_whole_after_a_conflict(storage, monkeypatch, retries, conflicts, stream):
    """Also one whose rows can be read only once."""
    monkeypatch.setattr(WriteTransaction, "commit", failing(conflicts))
    data = ROWS.to_reader() if stream else ROWS
    if conflicts > retries:
        with pytest.raises(ConflictError, match="another one came first"):
            write_rows(WriteTarget(storage, optimistic(retries)), data, "upsert")
    else:
        result = write_rows(WriteTarget(storage, optimistic(retries)), data, "upsert")
        assert (result.retries, result.num_inserted) == (conflicts, 3)
    files = [info for info in storage.walk() if info.name.endswith(".parquet")]
    assert len(files) == (0 if conflicts > retries else 2)


def test_one_writer_at_a_time_does_not_write_again(storage, monkeypatch):
    """As in Apache Hudi, where the option counts in the modes of several writers."""
    monkeypatch.setattr(WriteTransaction, "commit", failing(1))
    options = write_options({**OPTIONS.values, "hoodie.write.num.retries.on.conflict.failures": 3})
    with pytest.raises(ConflictError):
        write_rows(WriteTarget(storage, options), ROWS, "upsert")


def test_a_file_that_was_cleaned_meanwhile_is_a_conflict():
    errors = [HistoryCleanedError("Cannot read"), ConflictError("Cannot commit")]

    def write():
        if errors:
            raise errors.pop()
        return "done"

    assert redo_on_conflict(write, 2, sleep=lambda seconds: None) == ("done", 2)


def test_retries_wait_longer_and_longer():
    def write():
        raise ConflictError("Cannot", instant="20260101000000000")

    pauses: list[float] = []
    with pytest.raises(ConflictError):
        redo_on_conflict(write, 12, sleep=pauses.append)
    assert len(pauses) == 12
    assert pauses[0] <= 0.05
    assert all(pause <= 5 for pause in pauses)
    assert max(pauses[8:]) > 0.5


def test_other_errors_end_the_write():
    calls = []

    def write():
        calls.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        redo_on_conflict(write, 5)
    assert len(calls) == 1
