"""Which lock the options ask for; half-configured ones; looking at a lock and breaking it."""

from __future__ import annotations

import importlib.util
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("obstore")
from obstore.store import MemoryStore

import hudi_py
from hudi_py.config import Options, concurrency
from hudi_py.errors import ConfigError, LockError
from hudi_py.storage import LocalStorage, MemoryStorage, ObjectStorage, Storage
from hudi_py.transaction.locks import FileLock, break_lock, lock_holders, table_lock
from hudi_py.transaction.locks.in_process import InProcessLock, check_many_processes
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.storage import StorageLock
from hudi_py.transaction.locks.zookeeper import implicit_base_path
from tests.support.sessions import lock_settings

PROVIDER = "hoodie.write.lock.provider"
ZOOKEEPER = "hoodie.write.lock.zookeeper."
DYNAMODB = "hoodie.write.lock.dynamodb."


def settings(**options: str) -> LockSettings:
    return LockSettings.of(Options.resolve(options, defaults={}))


def remote() -> ObjectStorage:
    return ObjectStorage("s3://bucket/t", store=MemoryStore())


@pytest.mark.parametrize(
    ("provider", "storage", "kind"),
    [
        (None, MemoryStorage("choice"), FileLock),
        (None, remote(), StorageLock),
        ("StorageBasedLockProvider", remote(), StorageLock),
        ("org.apache.hudi.client.transaction.lock.StorageBasedLockProvider", remote(), StorageLock),
        ("filesystembasedlockprovider", MemoryStorage("choice"), FileLock),
        ("InProcessLockProvider", remote(), InProcessLock),
    ],
)
def test_the_lock_that_is_asked_for(provider: str | None, storage: Storage, kind: type) -> None:
    found = settings(**({PROVIDER: provider} if provider else {}))
    assert isinstance(table_lock(storage, pickle.loads(pickle.dumps(found)), purpose="test"), kind)


def test_a_lock_file_beside_a_table_in_an_object_store(tmp_path: Path) -> None:
    found = settings(**{"hoodie.write.lock.filesystem.path": str(tmp_path)})
    with table_lock(remote(), found, purpose="test"):
        assert (tmp_path / "lock").exists()
    with pytest.raises(ConfigError, match="Apache Hudi refuses it too; use StorageBasedLockProvider"):
        table_lock(remote(), settings(**{PROVIDER: "FileSystemBasedLockProvider"}), purpose="test")


def test_defaults_are_those_of_apache_hudi() -> None:
    found = settings()
    assert (found.get(concurrency.STORAGE_VALIDITY_S), found.renewal_s) == (300, 30)
    assert found.lease_patience_ms == 50 * 65_000
    assert settings(**{"hoodie.write.lock.storage.heartbeat.poll.secs": "3"}).renewal_s == 3
    found = settings(
        **{PROVIDER: "ZookeeperBasedLockProvider", ZOOKEEPER + "url": "a,b:5/c", ZOOKEEPER + "port": "2181",
           ZOOKEEPER + "base_path": "/hudi"}
    )  # fmt: skip
    assert found.zookeeper is not None
    assert found.zookeeper.hosts == "a:2181,b:5/c"
    assert found.get(concurrency.ZOOKEEPER_SESSION_MS) == 60_000
    assert found.get(concurrency.ZOOKEEPER_CONNECTION_MS) == 15_000


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({PROVIDER: "ZookeeperBasedLockProvider"}, ZOOKEEPER + "url"),
        ({PROVIDER: "ZookeeperBasedImplicitBasePathLockProvider"}, ZOOKEEPER + "url"),
        ({PROVIDER: "ZookeeperBasedLockProvider", ZOOKEEPER + "url": "h:1"}, ZOOKEEPER + "base_path"),
        ({ZOOKEEPER + "url": "h:1"}, PROVIDER),
        ({DYNAMODB + "table": "locks"}, PROVIDER),
    ],
)
def test_half_a_configuration_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, str], missing: str
) -> None:
    table = str(tmp_path / "t")
    with pytest.raises(ConfigError, match=missing) as caught:
        hudi_py.write(table, pa.table({"id": ["a"]}), options=options, record_key="id")
    assert caught.value.key == missing


@pytest.mark.parametrize(
    ("provider", "more", "package"),
    [
        ("ZookeeperBasedLockProvider", {ZOOKEEPER + "url": "h:1", ZOOKEEPER + "base_path": "/b"}, "kazoo"),
        ("DynamoDBBasedLockProvider", {}, "boto3"),
    ],
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, provider: str, more: dict[str, str], package: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"needs the package {package}.*pip install 'hudi-py\["):
        settings(**{PROVIDER: provider}, **more)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.write.lock.storage.validity.timeout.secs": "20"},
        {"hoodie.write.lock.storage.validity.timeout.secs": "9"},
        {"hoodie.write.lock.storage.renew.interval.secs": "0"},
        {PROVIDER: "NoopLockProvider"},
        {PROVIDER: "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"},
        {DYNAMODB + "billing_mode": "FREE"},
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        settings(**options)


def test_a_base_path_from_that_of_the_table() -> None:
    # as Apache Hudi 1.2.0 derives it
    assert implicit_base_path("s3://bkt/trips") == "/tmp/471219AB48F88B4B"
    assert implicit_base_path("s3a://bkt/trips") == "/tmp/471219AB48F88B4B"
    assert implicit_base_path("file:///t") == implicit_base_path("/t")


@pytest.mark.parametrize("options", [{}, {PROVIDER: "InProcessLockProvider"}])
@pytest.mark.parametrize("kind", ["file", "memory", "object"])
def test_a_lock_is_looked_at_and_broken(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    storages = {"file": LocalStorage(str(tmp_path)), "memory": MemoryStorage("broken"), "object": remote()}
    storage: Storage = storages[kind]
    found = settings(**options)
    assert lock_holders(storage, options) == []
    with table_lock(storage, found, purpose="test") as lock:
        (holder,) = lock_holders(storage, options)
        assert holder.since is not None
        assert "process" in holder.process
        assert holder.place.startswith(storage.uri)
        with pytest.raises(LockError, match=f"its holder is {holder.owner}, not somebody; look at Table.locks"):
            break_lock(storage, "somebody", options)
        lock.check()
        break_lock(storage, holder.owner, options)
        assert lock_holders(storage, options) == []
        with pytest.raises(LockError):
            lock.check()
        with table_lock(storage, found, purpose="test") as other:
            other.check()
    with pytest.raises(LockError, match="its holder is nobody"):
        break_lock(storage, holder.owner, options)


def test_through_the_table(tmp_path: Path) -> None:
    hudi_py.write(str(tmp_path), pa.table({"id": ["a"]}), record_key="id")
    table = hudi_py.open_table(str(tmp_path))
    assert table.locks.holders() == []
    with table_lock(LocalStorage(str(tmp_path)), LockSettings(), purpose="test"):
        (holder,) = table.locks.holders()
        table.locks.release(holder.owner)
        table.upsert(pa.table({"id": ["b"]}))
    assert table.scan().to_table().num_rows == 2


def test_threads_of_one_process_take_turns(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    patient = lock_settings(LOCK_PROVIDER="InProcessLockProvider")
    inside: list[int] = []
    overlaps: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with table_lock(storage, patient, purpose="test") as lock:
                overlaps.extend(inside)
                inside.append(number)
                lock.check()
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    brief = lock_settings(LOCK_PROVIDER="InProcessLockProvider", LOCK_WAIT_MS=30, LOCK_RETRIES=0)
    with (
        table_lock(storage, patient, purpose="test"),
        pytest.raises(LockError, match="Cannot write: the table lock .* is held by thread MainThread of process"),
    ):
        table_lock(storage, brief, purpose="write").__enter__()
    with table_lock(LocalStorage(str(tmp_path / "other")), brief, purpose="test"):
        pass


def test_a_lock_within_a_process_is_no_lock_through_spark() -> None:
    with pytest.raises(ConfigError, match="not supported through Spark: .* several processes"):
        check_many_processes(Options.resolve({PROVIDER: "InProcessLockProvider"}))
    check_many_processes(Options.resolve({PROVIDER: "FileSystemBasedLockProvider"}))
