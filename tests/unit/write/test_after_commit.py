"""What follows a commit, and a write that is redone after a conflict."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from hudi_py.errors import ConflictError
from hudi_py.storage import MemoryStorage
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.api import write_options, write_rows
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
    record_key="id",
    partition_by="p",
)


def test_all_that_follows_a_commit_learns_what_was_committed(storage):
    first, second = Noted("one", "two"), Noted("three")
    result = write_rows(storage, ROWS, "upsert", OPTIONS, after=[first, second])
    assert result.services == ("one", "two", "three")
    (committed,) = first.commits
    assert second.commits == [committed]
    assert (committed.instant, committed.completion_time) == (result.instant, result.completion_time)
    assert (committed.operation, committed.partitions) == ("UPSERT", ("a", "b"))
    assert len(committed.files) == result.num_files == 2
    assert all(storage.stat(path) is not None for path in committed.files)
    write_rows(storage, ROWS.slice(0, 1), "insert_overwrite_table", OPTIONS, after=[first])
    assert first.commits[-1].partitions == ("a", "b")  # one written, both replaced


def test_nothing_follows_where_nothing_was_committed(storage):
    after = Noted("one")
    options = OPTIONS.replace({})
    write_rows(storage, ROWS, "upsert", options)
    options = write_options({**OPTIONS.values, "hoodie.allow.empty.commit": "false"})
    assert write_rows(storage, ROWS.slice(0, 0), "upsert", options, after=[after]).services == ()
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


@pytest.mark.parametrize(("retries", "conflicts"), [(0, 1), (2, 2), (2, 3)])
def test_a_write_is_redone_whole_after_a_conflict(storage, monkeypatch, retries, conflicts):
    settings = TransactionSettings.of(OPTIONS)
    monkeypatch.setattr(
        TransactionSettings,
        "of",
        lambda options: TransactionSettings(
            lock=settings.lock, clock_skew_ms=settings.clock_skew_ms, conflict_retries=retries
        ),
    )
    monkeypatch.setattr(WriteTransaction, "commit", failing(conflicts))
    if conflicts > retries:
        with pytest.raises(ConflictError, match="another one came first"):
            write_rows(storage, ROWS, "upsert", OPTIONS)
    else:
        result = write_rows(storage, ROWS, "upsert", OPTIONS)
        assert (result.retries, result.num_inserted) == (conflicts, 3)
    data = [info for info in storage.walk() if info.name.endswith(".parquet")]
    assert len(data) == (0 if conflicts > retries else 2)


def test_a_stream_is_not_read_twice(storage, monkeypatch):
    monkeypatch.setattr(TransactionSettings, "of", lambda options: TransactionSettings(conflict_retries=3))
    monkeypatch.setattr(WriteTransaction, "commit", failing(1))
    with pytest.raises(ConflictError):
        write_rows(storage, ROWS.to_reader(), "upsert", OPTIONS)


def test_other_errors_end_the_write():
    calls = []

    def write():
        calls.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        redo_on_conflict(write, 5)
    assert len(calls) == 1
