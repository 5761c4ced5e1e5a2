"""Creating a file in an object store whose answers get lost; processes forked from one that has used a store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("obstore")
import obstore
from obstore.exceptions import GenericError
from obstore.store import LocalStore, S3Store

from hudi_py.storage import ObjectStorage, conditional, objects
from tests.support.object_store import Fault, Store, serving


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "_PAUSE_S", 0.001)


@pytest.fixture(autouse=True)
def no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStorage, "_probe", lambda _: None)


def storage_of(store: Store, retries: int) -> ObjectStorage:
    s3 = S3Store(
        "bucket",
        endpoint=store.url,
        access_key_id="k",
        secret_access_key="s",
        region="us-east-1",
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=5),
            "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2},
        },
    )
    return ObjectStorage("s3://bucket", store=s3)


DATA = pytest.mark.parametrize("data", [b"mine", b""], ids=["content", "empty"])
RETRIES = pytest.mark.parametrize("retries", [0, 3])


@DATA
@RETRIES
def test_a_file_is_created_once(store: Store, data: bytes, retries: int) -> None:
    storage = storage_of(store, retries)
    assert storage.put_if_absent("a/f", data)
    assert not storage.put_if_absent("a/f", data or b"other")
    assert not storage.put_if_absent("a/f", b"yet another")
    assert store.files["a/f"][0] == data
    assert not storage_of(store, retries).put_if_absent("a/f", b"")


@DATA
@RETRIES
@pytest.mark.parametrize("answer", [500, 503, None, 409, 412])
def test_a_file_is_created_though_the_answer_is_lost(
    store: Store, data: bytes, retries: int, answer: int | None
) -> None:
    store.faults = [Fault(answer, stored=True)]
    assert storage_of(store, retries).put_if_absent("a/f", data)
    assert store.files["a/f"][0] == data


@DATA
@RETRIES
@pytest.mark.parametrize("answer", [500, 503, None, 409, 429])
def test_what_was_not_stored_is_tried_again(store: Store, data: bytes, retries: int, answer: int | None) -> None:
    store.faults = [Fault(answer, stored=False)]
    assert storage_of(store, retries).put_if_absent("a/f", data)
    assert store.files["a/f"][0] == data
    assert store.puts == 2


@DATA
@RETRIES
@pytest.mark.parametrize("answer", [500, None, 409, 412])
@pytest.mark.parametrize("other", [b"other", b""])
def test_a_file_of_another_writer_is_not_ours(
    store: Store, data: bytes, retries: int, answer: int | None, other: bytes
) -> None:
    store.faults = [Fault(answer, stored=False, other=other)]
    assert not storage_of(store, retries).put_if_absent("a/f", data)
    assert store.files["a/f"][0] == other


def test_tries_are_bounded(store: Store) -> None:
    store.faults = [Fault(409, stored=False)] * 50
    with pytest.raises(OSError, match="s3://bucket/f"):
        storage_of(store, 0).put_if_absent("f", b"1")
    assert store.puts == conditional._TRIES


def test_a_refused_request_is_not_repeated(store: Store) -> None:
    store.faults = [Fault(403, stored=False)] * 5
    with pytest.raises(PermissionError):
        storage_of(store, 0).put_if_absent("f", b"1")
    assert store.puts == 1


@RETRIES
@pytest.mark.parametrize("answer", [500, None])
def test_a_store_without_metadata_compares_contents(store: Store, retries: int, answer: int | None) -> None:
    store.keeps_metadata = False
    storage = storage_of(store, retries)
    store.faults = [Fault(answer, stored=True)]
    assert storage.put_if_absent("f", b"mine")
    store.files["g"] = b"other", {}
    store.faults = [Fault(answer, stored=False)]
    assert not storage.put_if_absent("g", b"mine")
    assert not storage.put_if_absent("g", b"")


def test_an_empty_file_in_a_store_without_metadata_is_not_guessed_at(store: Store) -> None:
    store.keeps_metadata = False
    store.faults = [Fault(500, stored=True)]
    with pytest.raises(OSError, match="s3://bucket/f"):
        storage_of(store, 0).put_if_absent("f", b"")


def test_a_store_that_takes_no_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = ObjectStorage("s3://bucket/t", store=LocalStore(str(tmp_path)))
    assert storage.put_if_absent("a", b"1")
    assert not storage.put_if_absent("a", b"2")
    assert not storage.put_if_absent("a", b"")
    put, calls = obstore.put, []

    def lose_the_answer(*given: object, **named: object) -> object:
        calls.append(named)
        put(*given, **named)
        raise GenericError("lost")

    monkeypatch.setattr(obstore, "put", lose_the_answer)
    assert storage.put_if_absent("b", b"1")
    assert calls == [{"mode": "create"}]


SCRIPT = """
import os, signal, sys
from hudi_py.errors import ConfigError
from tests.unit.storage.test_objects import storage_of
from tests.support.object_store import serving

def in_child(name, work):
    child = os.fork()
    if not child:
        signal.alarm(20)  # instead of hanging
        try:
            work()
            code = 0
        except ConfigError as error:
            code = 7 if "forked" in str(error) and "spawn" in str(error) else 8
        os._exit(code)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

with serving() as store:
    storage = storage_of(store, 0)
    in_child("before", lambda: storage_of(store, 0).put_if_absent("before", b"1"))
    storage.put("a", b"1")
    in_child("same", lambda: storage.read("a"))
    in_child("new", lambda: storage_of(store, 0).read("a"))
    assert storage.read("a") == b"1"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_is_refused_instead_of_hanging() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:3] == ["before 0", "same 7", "new 7"], done.stderr


def test_a_store_in_memory_outlives_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    from obstore.store import MemoryStore

    monkeypatch.setattr(objects._Fork, "forked", True)
    assert ObjectStorage("s3://bucket", store=MemoryStore()).put_if_absent("f", b"")
