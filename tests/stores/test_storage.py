"""Every store as a storage, and the lock in each."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError, LockError
from hudi_py.storage import ObjectStorage, Storage, conditional, open_storage
from hudi_py.storage.threads import in_threads
from hudi_py.testing.storage import StorageBehaviour
from hudi_py.transaction.locks import break_lock, lock_holders, table_lock
from tests.stores.proxy import Proxy, Spoilt
from tests.stores.servers import ACCOUNT, Google, Server, through
from tests.stores.test_tables import found, rows
from tests.support.object_store import serving
from tests.support.sessions import lock_settings

STORES = ("moto", "versitygw", "azurite", "google")
NOT_AMAZON = pytest.mark.parametrize("s3", ["azurite", "google"], indirect=True)
STRICT = pytest.mark.parametrize("s3", ["versitygw", "azurite", "google"], indirect=True)


@pytest.mark.parametrize("s3", STORES, indirect=True)
class TestStore(StorageBehaviour):
    renames = False
    folders = False

    @pytest.fixture
    def storage(self, s3: Server, bucket: str) -> Storage:
        self.reports_missing = not bucket.startswith("s3:")
        return open_storage(f"{bucket}/a folder/t", s3.options)


@pytest.fixture
def strict(s3: Server, bucket: str) -> ObjectStorage:
    storage = open_storage(bucket, s3.options)
    assert isinstance(storage, ObjectStorage)
    return storage


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "_PAUSE_S", 0.001)


@STRICT
def test_a_file_is_replaced_if_it_is_still_the_version_that_was_read(strict: ObjectStorage) -> None:
    first = strict.replace("f", b"1", None, "note")
    assert first is not None
    assert strict.replace("f", b"2", None) is None
    found = strict.read_version("f")
    assert found is not None
    assert (found.data, found.note, found.version) == (b"1", "note", first)
    second = strict.replace("f", b"2", first)
    assert second is not None
    assert strict.replace("f", b"3", first) is None
    strict.delete("f")
    assert strict.replace("f", b"4", second) is None
    assert strict.read_version("f") is None


@STRICT
def test_one_of_many_creates_and_one_replaces(strict: ObjectStorage) -> None:
    for turn in range(5):
        start = threading.Barrier(8)
        first = strict.replace(f"r{turn}", b"0", None)

        def race(number: int, turn: int = turn, first: Any = first, start: Any = start) -> tuple[bool, bool]:
            start.wait()
            created = strict.put_if_absent(f"c{turn}", b"" if number % 2 else b"%d" % number)
            start.wait()
            return created, strict.replace(f"r{turn}", b"%d" % number, first) is not None

        created, replaced = zip(*in_threads(race, range(8)), strict=True)
        assert (sum(created), sum(replaced)) == (1, 1)


def test_a_listing_of_several_pages_comes_whole() -> None:
    with serving(google=True) as store:
        store.page = 7
        storage = open_storage("gs://bucket/t", Google(store.url, "google").options)
        names = [f"f/{number:02}" for number in range(23)]
        for name in [*names, "g/h/i"]:
            storage.put(name, b"1")
        assert sorted(info.path for info in storage.walk("f")) == names
        assert [info.path for info in storage.list("f")] == names
        assert [(info.path, info.is_dir) for info in storage.list()] == [("f", True), ("g", True)]
        storage.delete_tree("f")
        assert [info.path for info in storage.walk()] == ["g/h/i"]


@NOT_AMAZON
def test_large_files_are_uploaded_in_parts(s3: Server, bucket: str, proxy: Proxy) -> None:
    storage = open_storage(f"{bucket}/t", through(s3, proxy.url).options)
    block = bytes(range(256)) * 4096
    with storage.open_output("big") as sink:
        for _ in range(20):
            sink.write(block)
        assert storage.stat("big") is None
    assert storage.read("big") == block * 20
    assert storage.read_range("big", 9 << 20, 300) == (block * 2)[:300]
    assert proxy.counts()["PUT"] >= 3

    with pytest.raises(TypeError), storage.open_output("broken") as sink:
        sink.writelines([bytes(20 << 20), None])  # type: ignore[list-item]
    proxy.reset(lambda number, request: Spoilt(403, forwarded=False) if request.changes else None)
    with pytest.raises(PermissionError), storage.open_output("broken") as sink:
        sink.write(bytes(20 << 20))
    assert storage.stat("broken") is None
    assert [info.path for info in storage.list()] == ["big"]


@NOT_AMAZON
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("status", [409, 412, 500, 503, None])
@pytest.mark.parametrize("data", [b"mine", b""], ids=["content", "empty"])
def test_an_answer_that_is_lost_or_wrong_does_not_decide(
    s3: Server,
    bucket: str,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    stored: bool,
    status: int | None,
    data: bytes,
) -> None:
    monkeypatch.setattr(conditional, "_PAUSE_S", 0.001)
    storage = open_storage(f"{bucket}/lost{status}{stored}{data!r}", through(s3, proxy.url).options)
    assert isinstance(storage, ObjectStorage)
    storage.put_if_absent("first", b"")
    spoilt: list[int] = []

    def once(number: int, request: object) -> Spoilt | None:
        if not getattr(request, "conditional", False) or spoilt:
            return None
        spoilt.append(number)
        return Spoilt(status, forwarded=stored)

    proxy.reset(once)
    assert storage.put_if_absent("f", data)
    assert not storage.put_if_absent("f", b"theirs")
    assert storage.read("f") == data
    version = storage.replace("g", b"1", None)
    spoilt.clear()
    assert storage.replace("g", b"2", version) is not None
    assert storage.read("g") == b"2"
    assert spoilt


@NOT_AMAZON
def test_the_lock(s3: Server, bucket: str, strict: ObjectStorage) -> None:
    settings = lock_settings(LOCK_WAIT_MS=60_000, LOCK_RETRIES=0, STORAGE_VALIDITY_S=10, STORAGE_RENEW_S=1)
    inside: list[int] = []
    overlaps: list[int] = []

    def work(number: int) -> None:
        for _ in range(4):
            with table_lock(open_storage(strict.uri, s3.options), settings, purpose="test") as lock:
                overlaps.extend(inside)
                inside.append(number)
                lock.check()
                inside.remove(number)

    in_threads(work, range(4))
    assert overlaps == []
    with table_lock(strict, settings, purpose="test") as lock:
        (holder,) = lock_holders(strict, {})
        break_lock(strict, holder.owner, {})
        with pytest.raises(LockError, match="was lost"):
            lock.check()
    assert lock_holders(strict, {}) == []


@pytest.mark.parametrize("s3", ["azurite"], indirect=True)
def test_the_spellings_of_a_container_are_one_table(s3: Server, bucket: str) -> None:
    name = bucket.removeprefix("az://")
    hudi_py.write(f"{bucket}/t", rows(range(3), 1), record_key="id", storage_options=s3.options)
    for number, uri in enumerate((f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net/t", f"abfs://{name}/t"), 2):
        table = hudi_py.open_table(uri, storage_options=s3.options)
        assert table.uri == uri
        table.upsert(rows(range(1), number))
        assert found(hudi_py.open_table(f"{bucket}/t", storage_options=s3.options)) == {"k0": number, "k1": 1, "k2": 1}


@NOT_AMAZON
def test_a_store_that_ignores_conditions_is_refused(s3: Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(f"{bucket}/t", s3.options)
    assert isinstance(storage, ObjectStorage)
    writes = storage._conditional
    monkeypatch.setattr(
        writes, "_put", lambda path, data, mode, note: writes._obstore.put(writes._store, path, data, attributes={})
    )
    monkeypatch.setattr(conditional, "_PROBED", set())
    with pytest.raises(ConfigError, match="the store ignores conditions of requests"):
        storage.put_if_absent("f", b"1")
    assert list(storage.walk()) == []
