"""Replacing a file of an object store under a condition, though answers get lost; and stores that ignore conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

pytest.importorskip("obstore")

from hudi_py.errors import ConfigError
from hudi_py.storage import conditional
from hudi_py.storage.conditional import Version
from tests.support.object_store import Fault, Store, serving
from tests.unit.storage.test_objects import RETRIES, storage_of

ANSWERS = pytest.mark.parametrize("answer", [500, 503, None, 409, 412])


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as running:
        storage_of(running, 0).put_if_absent("probed", b"")
        del running.files["probed"]
        running.puts = 0
        yield running


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "_PAUSE_S", 0.001)


def test_only_the_version_that_was_read_is_replaced(store: Store) -> None:
    storage = storage_of(store, 0)
    first = storage.replace("f", b"1", None, "note")
    assert first is not None
    assert storage.replace("f", b"other", None) is None
    found = storage.read_version("f")
    assert found is not None
    assert (found.data, found.version, found.note) == (b"1", first, "note")
    second = storage.replace("f", b"2", first)
    assert second not in (None, first)
    assert storage.replace("f", b"3", first) is None
    assert store.files["f"][0] == b"2"
    storage.delete("f")
    assert storage.replace("f", b"4", second) is None
    assert storage.read_version("f") is None


@ANSWERS
@RETRIES
@pytest.mark.parametrize("there", [True, False])
def test_a_lost_answer_is_found_out(store: Store, retries: int, answer: int | None, there: bool) -> None:
    storage = storage_of(store, retries)
    version = storage.replace("f", b"old", None) if there else None
    store.faults = [Fault(answer, stored=True)]
    assert storage.replace("f", b"mine", version) is not None
    assert store.files["f"][0] == b"mine"


@ANSWERS
@RETRIES
@pytest.mark.parametrize("there", [True, False])
def test_what_was_not_stored_is_written_again(store: Store, retries: int, answer: int | None, there: bool) -> None:
    storage = storage_of(store, retries)
    version = storage.replace("f", b"old", None) if there else None
    store.faults = [Fault(answer, stored=False)]
    assert storage.replace("f", b"mine", version) is not None
    assert store.files["f"][0] == b"mine"


@ANSWERS
@RETRIES
@pytest.mark.parametrize("there", [True, False])
def test_another_writer_comes_first(store: Store, retries: int, answer: int | None, there: bool) -> None:
    storage = storage_of(store, retries)
    version = storage.replace("f", b"old", None) if there else None
    store.faults = [Fault(answer, stored=False, other=b"theirs")]
    assert storage.replace("f", b"mine", version) is None
    assert store.files["f"][0] == b"theirs"


def test_tries_are_bounded(store: Store) -> None:
    store.faults = [Fault(409, stored=False)] * 50
    with pytest.raises(OSError, match="s3://bucket/f"):
        storage_of(store, 0).replace("f", b"1", None)
    assert store.puts == conditional._TRIES


def test_a_store_that_ignores_conditions_is_refused_before_the_first_write() -> None:
    with serving() as store:
        store.honours_conditions = False
        storage = storage_of(store, 0)
        for _ in range(2):
            with pytest.raises(ConfigError, match="ignores conditions of requests .*If-None-Match.* can only be read"):
                storage.put_if_absent("f", b"1")
        with pytest.raises(ConfigError, match="ignores conditions"):
            storage.replace("f", b"1", Version('"e"', None))
        assert store.files == {}
        storage.put("f", b"1")
        assert storage.read("f") == b"1"


def test_a_store_that_ignores_one_condition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as store:
        honoured = store.put

        def put(key: str, data: bytes, headers: Mapping[str, str]) -> int:
            return honoured(key, data, {name: value for name, value in headers.items() if name != "if-match"})

        monkeypatch.setattr(store, "put", put)
        with pytest.raises(ConfigError, match=r"\(If-Match\)"):
            storage_of(store, 0).put_if_absent("f", b"1")
        assert store.files == {}


def test_a_store_is_probed_once() -> None:
    with serving() as store:
        for name in ("a", "b"):
            assert storage_of(store, 0).put_if_absent(name, b"1")
        assert store.puts == 3 + 2
        assert sorted(store.files) == ["a", "b"]
