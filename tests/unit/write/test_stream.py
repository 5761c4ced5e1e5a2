"""Which batches of a streaming query a table holds, by what its commits note. No Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import InstantTime
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.write import stream
from hudi_py.write.stream import (
    CHECKPOINT_KEY,
    Batch,
    BatchCommittedError,
    batch_of,
    last_archived_batch,
    last_batch,
    stream_identifier,
)

AT = InstantTime("20260101000000000")


def noted(text: str, **more: str) -> CommitMetadata:
    return CommitMetadata("UPSERT", extra={CHECKPOINT_KEY: text, **more})


def commit(path: str, noted: str | None = None, **options: object) -> None:
    given = {} if noted is None else {CHECKPOINT_KEY: noted}
    hudi_py.write(path, [{"id": 1, "v": 1}], record_key="id", options={**given, **options})


def last(path: str, identifier: str) -> Batch | None:
    storage = open_storage(path)
    return last_batch(storage, load_timeline(storage, load_table_config(storage)), identifier)


def test_a_commit_notes_its_batch_as_apache_hudi_does() -> None:
    assert Batch("default_single_writer", 7).extra == {CHECKPOINT_KEY: '{"default_single_writer":"7"}'}
    assert Batch('ä"', 0, "q").extra == {CHECKPOINT_KEY: '{"ä\\"":"0"}', "hudi_py.streaming.query": "q"}


def test_reading_what_a_commit_notes() -> None:
    assert batch_of(CommitMetadata("UPSERT"), "a", AT) is None
    assert batch_of(noted('{"b":"3"}'), "a", AT) is None
    assert batch_of(noted('{"b":"3","a":"12"}'), "a", AT) == Batch("a", 12)
    assert batch_of(noted('{"a":"1"}', **{"hudi_py.streaming.query": "q"}), "a", AT) == Batch("a", 1, "q")


@pytest.mark.parametrize("text", ["7", "[]", '{"a":', '{"a":"x"}', '{"a":{}}'])
def test_what_is_noted_in_another_way_is_refused(text: str) -> None:
    with pytest.raises(CorruptFileError, match=rf"in the commit {AT}: {CHECKPOINT_KEY} is"):
        batch_of(noted(text), "a", AT)


def test_batches_are_compared_within_a_query() -> None:
    Batch("a", 0, "q").check_new(None)
    Batch("a", 4, "q").check_new(Batch("a", 3, "q"))
    Batch("a", 4, "q").check_new(Batch("a", 3, "other"))
    for before in (Batch("a", 4, "q"), Batch("a", 5), Batch("a", 9, "q")):
        with pytest.raises(BatchCommittedError, match="batch 4 of 'a' is in the table"):
            Batch("a", 4, "q").check_new(before)
    with pytest.raises(ConfigError, match=r"query q: the query other .* give this query another hoodie\.datasource"):
        Batch("a", 4, "q").check_new(Batch("a", 4, "other"))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_newest_commit_of_a_query_counts(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "t")
    table_version = {"hoodie.write.table.version": version}
    commit(path, **table_version)
    assert last(path, "a") is None
    for text in ('{"a":"0"}', '{"a":"1"}', '{"b":"5"}', None):
        commit(path, text, **table_version)
    assert last(path, "a") == Batch("a", 1)
    assert last(path, "b") == Batch("b", 5)
    assert last(path, "c") is None


@pytest.mark.parametrize("version", [6, 9])
def test_a_batch_that_was_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(stream, "_ARCHIVED_AT_ONCE", 2)
    path = str(tmp_path / "t")
    options = {
        "hoodie.write.table.version": version,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.clean.commits.retained": 1,
        "hoodie.metadata.enable": False,
    }
    for text in ('{"a":"0"}', '{"a":"1"}', '{"b":"0"}', *[None] * 5):
        commit(path, text, **options)
    assert last(path, "a") is None
    storage = open_storage(path)
    config = load_table_config(storage)
    assert last_archived_batch(storage, config, "a") == Batch("a", 1)
    assert last_archived_batch(storage, config, "b") == Batch("b", 0)
    assert last_archived_batch(storage, config, "c") is None


def test_several_writers_name_their_queries() -> None:
    mode = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    key = "hoodie.datasource.write.streaming.checkpoint.identifier"
    assert stream_identifier(Options.resolve({}, Scope.WRITE)) == "default_single_writer"
    assert stream_identifier(Options.resolve({**mode, key: "x"}, Scope.WRITE)) == "x"
    with pytest.raises(ConfigError, match=rf"OPTIMISTIC_CONCURRENCY_CONTROL' and without {key}: set it"):
        stream_identifier(Options.resolve(mode, Scope.WRITE))
