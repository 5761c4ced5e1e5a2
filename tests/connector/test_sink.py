"""The batches of `writeStream.format("hudi-py")`: planned, written and committed by hand. No JVM."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.config.concurrency import FILE_SYSTEM_LOCK
from hudi_py.errors import ConfigError, ConflictError, HudiError, LockError
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.stream import CHECKPOINT_KEY
from pyspark_hudi import stream as sink_module
from pyspark_hudi.source import DefaultSource
from pyspark_hudi.stream import HudiStreamWriter
from pyspark_hudi.writer import HudiWriter
from tests.support.streams import BASE, SCHEMA, Stream, copied, part

STREAM = "hoodie.datasource.write.streaming."
INSERT = {"hoodie.datasource.write.operation": "insert"}
TOGETHER = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": FILE_SYSTEM_LOCK,
    "hoodie.time.generator.max_expected_clock_skew_ms": "5",
    f"{STREAM}checkpoint.identifier": "a",
}


def read(path: str) -> list[tuple[int, int]]:
    table = hudi_py.open_table(path).scan(columns=["id", "v"]).to_table()
    return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def pending(path: str) -> list[str]:
    storage = open_storage(path)
    return [each.time for each in load_timeline(storage, load_table_config(storage)).pending]


def operations(path: str) -> list[str]:
    return [each for each in hudi_py.open_table(path).history()["operation"].to_pylist() if each]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("6", "COPY_ON_WRITE"), ("6", "MERGE_ON_READ"), ("8", "MERGE_ON_READ"), ("9", "COPY_ON_WRITE")],
)
def test_a_batch_that_is_repeated_is_there_once(path: str, version: str, kind: str) -> None:
    made = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    stream = Stream(path, **made, **INSERT)
    stream.write(0, part(1, 2), part(3))
    stream.write(1, part(4))
    assert read(path) == [(n, 0) for n in (1, 2, 3, 4)]
    for _ in range(2):
        messages = stream.run_tasks(1, part(4))
        assert [message.result for message in messages] == [None]  # nothing was staged
        stream.committer.commit(messages, 1)
    stream.committer.abort(messages, 1)
    stream.write(2, part(5))
    assert read(path) == [(n, 0) for n in (1, 2, 3, 4, 5)]
    assert operations(path) == ["INSERT"] * 3


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes belong to this process, and have ended where it no longer works on them."""
    monkeypatch.setattr(sink_module, "driver_pid", os.getpid)


@pytest.mark.usefixtures("ended")
def test_a_batch_that_was_killed_before_its_commit(path: str) -> None:
    stream = Stream(path, **INSERT)
    stream.write(0, part(1))
    stream.run_tasks(1, part(2), part(3))
    stream.write(1, part(2), part(3))
    assert read(path) == [(1, 0), (2, 0), (3, 0)]
    assert operations(path) == ["INSERT"] * 2


def test_tasks_that_do_not_know_their_batch(path: str) -> None:
    stream = Stream(path, **INSERT)
    stream.write(0, part(1))
    messages = stream.run_tasks(None, part(1))
    assert messages[0].result is not None
    stream.committer.commit(messages, 0)
    stream.write(1, part(2))
    assert read(path) == [(1, 0), (2, 0)]


def test_two_processes_with_the_same_batch(path: str) -> None:
    """As after a driver that was taken for dead: inserts conflict with nothing but the batch."""
    stream = Stream(path, **TOGETHER, **INSERT)
    stream.write(0, part(1))
    late = stream.run_tasks(1, part(2))
    stream.write(1, part(2))
    stream.committer.commit(late, 1)
    assert read(path) == [(1, 0), (2, 0)]
    assert pending(path) == []
    stream.write(2, part(3))
    assert len(read(path)) == 3


def test_two_queries_on_a_table(path: str) -> None:
    one = Stream(path, **TOGETHER)
    two = Stream(path, query="other", **{**TOGETHER, f"{STREAM}checkpoint.identifier": "b"})
    one.write(0, part(1, 2))
    two.write(0, part(3))
    first = one.run_tasks(1, part(1, v=1))
    two.write(1, part(1, v=2))
    one.committer.commit(first, 1)  # conflicts, and is done again
    assert read(path) == [(1, 1), (2, 0), (3, 0)]
    one.write(1, part(1, v=9))
    two.write(1, part(1, v=9))
    assert read(path) == [(1, 1), (2, 0), (3, 0)]


def test_one_writer_at_a_time(path: str) -> None:
    one = Stream(path)
    one.write(0, part(1))
    two = Stream(path, query="other", **{f"{STREAM}checkpoint.identifier": "b"})
    late = HudiStreamWriter.of(path, two.options, SCHEMA, overwrite=False)
    one.write(1, part(2))
    with pytest.raises(ConflictError, match="a table has one writer at a time"):
        late.write(iter([part(3)]))
    two.write(0, part(3))
    assert read(path) == [(1, 0), (2, 0), (3, 0)]


def test_commits_of_others_in_between(path: str) -> None:
    """Apache Hudi's sink notes its batches in the same way."""
    stream = Stream(path, **INSERT)
    stream.write(0, part(1))
    note = {CHECKPOINT_KEY: '{"default_single_writer":"4"}'}
    hudi_py.write(path, part(2), "insert", options={**BASE, **note})
    hudi_py.write(path, part(3), "insert", options=BASE)
    for batch in (1, 4, 5):
        stream.write(batch, part(10 + batch))
    assert [row[0] for row in read(path)] == [1, 2, 3, 15]


def test_another_query_with_the_same_identifier(path: str) -> None:
    Stream(path).write(0, part(1))
    with pytest.raises(ConfigError, match=r"batch 0 of the streaming query new: the query q has written up to batch 0"):
        Stream(path, query="new").write(0, part(2))
    Stream(path, query="new", **{f"{STREAM}checkpoint.identifier": "new"}).write(0, part(2))
    assert read(path) == [(1, 0), (2, 0)]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_operations_and_delete_markers(path: str, kind: str) -> None:
    made = {"hoodie.datasource.write.table.type": kind}
    Stream(path, **made).write(0, part(1, 2, 3, 4))
    Stream(path).write(1, part(1, v=1), part(2, deleted=True))
    assert read(path) == [(1, 1), (3, 0), (4, 0)]
    Stream(path, **{"hoodie.datasource.write.operation": "delete"}).write(2, part(3))
    Stream(path, **{"hoodie.datasource.write.operation": "bulk_insert"}).write(3, part(5))
    assert read(path) == [(1, 1), (4, 0), (5, 0)]
    Stream(path).write(4, part(6), overwrite=True)  # complete output mode
    assert read(path) == [(6, 0)]


def test_empty_batches(path: str) -> None:
    Stream(path).write(0, part())
    Stream(path).write(1, part())
    assert operations(path) == ["UPSERT"] * 2
    Stream(path, **{"hoodie.allow.empty.commit": "false"}).write(2, part())
    assert operations(path) == ["UPSERT"] * 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["UPSERT", "UPSERT", "COMPACT", "UPSERT"]),
        ({f"{STREAM}disable.compaction": "true"}, ["UPSERT"] * 3),
        ({"hoodie.compact.schedule.inline": "true"}, ["UPSERT"] * 3),
    ],
)
def test_compaction_follows_a_batch(path: str, options: dict[str, str], expected: list[str]) -> None:
    made = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": "2"}
    for batch in range(3):
        Stream(path, **made, **options).write(batch, part(1, v=batch))
    assert operations(path) == expected
    assert read(path) == [(1, 2)]


class Failing:
    """The first commits of a transaction fail."""

    def __init__(self, times: int, patch: pytest.MonkeyPatch) -> None:
        self.left = times
        commit = WriteTransaction.commit

        def fails(transaction: WriteTransaction, *args: Any, **more: Any) -> Any:
            if self.left:
                self.left -= 1
                raise LockError("Cannot lock; try again")
            return commit(transaction, *args, **more)

        patch.setattr(WriteTransaction, "commit", fails)


@pytest.mark.parametrize("options", [{}, TOGETHER])
def test_commits_are_tried_again(path: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    stream = Stream(path, **options, **INSERT)
    stream.write(0, part(1))
    Failing(2, monkeypatch)
    stream.write(1, part(2))
    Failing(3, monkeypatch)
    messages = stream.run_tasks(2, part(3))
    with pytest.raises(LockError):
        stream.committer.commit(messages, 2)
    stream.committer.abort(messages, 2)
    stream.write(2, part(3))
    assert read(path) == [(1, 0), (2, 0), (3, 0)]


def test_failed_batches_may_be_left_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(path, **{f"{STREAM}ignore.failed.batch": "true", f"{STREAM}retry.count": "1"})
    stream.write(0, part(1))
    Failing(1, monkeypatch)
    stream.write(1, part(2))
    bad = part(3).set_column(0, "id", pa.array([None], pa.int64()))
    stream.write(2, bad)
    with pytest.raises(ConfigError, match="query new"):
        Stream(path, query="new", **{f"{STREAM}ignore.failed.batch": "true"}).write(0, part(9))
    stream.write(3, part(4))
    assert read(path) == [(1, 0), (4, 0)]
    with pytest.raises(HudiError, match="every row needs a key"):
        Stream(path).write(4, bad)


def test_an_abort_without_messages_rolls_the_batch_back(path: str) -> None:
    """As after a batch all of whose tasks failed."""
    stream = Stream(path)
    stream.committer.abort([None], 0)  # there is no table
    stream.write(0, part(1))
    stream.run_tasks(1, part(2))
    assert len(pending(path)) == 1
    stream.committer.abort([None, None], 1)
    assert pending(path) == []
    assert read(path) == [(1, 0)]


def test_a_write_in_foreach_batch(path: str) -> None:
    def write(batch: int) -> None:
        given = {**BASE, **INSERT, "hoodie.internal.spark.streaming.batch.id": str(batch)}
        planned = HudiWriter.of(path, Options.resolve(given, Scope.WRITE, defaults={}), SCHEMA, overwrite=False)
        copied(planned).commit([copied(planned).write(iter([part(batch)]))])

    for batch in (0, 1, 1, 0, 2):
        write(batch)
    assert read(path) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"without its path: give start\(path\).*toTable"),
        ({"path": "t"}, "stream into the relative path 't'"),
        ({"path": "/t", **TOGETHER, f"{STREAM}checkpoint.identifier": None}, "without .*checkpoint.identifier"),
        ({"path": "/t", f"{STREAM}retry.cuont": "2"}, "Unknown option"),
        ({"path": "/t", f"{STREAM}retry.count": "0"}, "at least 1"),
    ],
)
def test_what_is_refused(options: dict[str, str | None], message: str) -> None:
    source = DefaultSource({key: value for key, value in options.items() if value is not None})
    with pytest.raises(ConfigError, match=message):
        source.streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(ConfigError, match=message):
        copied(source).streamWriter(SCHEMA, overwrite=False)
