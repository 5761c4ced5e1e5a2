"""The lock in an object store: Apache Hudi's file, its lease, and who may take it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hudi_py.model.layout import LOCK_AUDIT, STORAGE_LOCK

pytest.importorskip("obstore")
from obstore.store import MemoryStore

from hudi_py.errors import ConfigError, CorruptFileError, LockError
from hudi_py.storage import LocalStorage, ObjectStorage
from hudi_py.transaction.locks import LockAudit
from hudi_py.transaction.locks import storage as storage_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.storage import StorageLock
from hudi_py.transaction.owner.identity import ProcessIdentity, WriterIdentity, process_identity
from tests.support.sessions import lock_settings

IMPATIENT = lock_settings(LOCK_WAIT_MS=30, LOCK_RETRIES=0)
LASTING = lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRIES=0)


class RenewedOften(LockSettings):
    """The settings of a lock that is renewed every ten milliseconds."""

    @property
    def renewal_s(self) -> float:
        return 0.01


RENEWED_OFTEN = RenewedOften(LASTING.options)


@pytest.fixture
def storage() -> ObjectStorage:
    return ObjectStorage("s3://bucket/t", store=MemoryStore())


def lock_of(storage: ObjectStorage, settings: LockSettings = IMPATIENT, **more: object) -> StorageLock:
    return StorageLock(storage, settings, purpose="commit the write 1", **more)


def content(storage: ObjectStorage) -> dict[str, object]:
    return json.loads(storage.read(STORAGE_LOCK))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def java_holds(storage: ObjectStorage, valid_for_ms: int, since_ms: int | None = None) -> None:
    until = (now_ms() if since_ms is None else since_ms) + valid_for_ms
    storage.put(STORAGE_LOCK, f'{{"expired":false,"validUntil":{until},"owner":"java"}}'.encode())


def test_the_bytes_are_those_of_apache_hudi(storage: ObjectStorage) -> None:
    lock = lock_of(storage, now_ms=lambda: 1_795_328_202_830 - 300_000)
    with lock:
        held = storage.read(STORAGE_LOCK)
        owner = json.loads(held)["owner"]
        assert held == f'{{"expired":false,"validUntil":1795328202830,"owner":"{owner}"}}'.encode()
        assert len(owner) == 36
    assert storage.read(STORAGE_LOCK) == held.replace(b"false", b"true")
    with lock:
        assert content(storage)["owner"] != owner


def test_a_lock_that_is_held_is_waited_for(storage: ObjectStorage) -> None:
    with lock_of(storage), pytest.raises(LockError) as caught:
        lock_of(storage).acquire()
    text = str(caught.value)
    assert text.startswith(f"Cannot commit the write 1: the table lock s3://bucket/t/{STORAGE_LOCK} is held by writer ")
    assert "(process " in text
    assert "until 20" in text
    with lock_of(storage) as lock:
        lock.check()


def test_one_of_apache_hudi_is_waited_for_until_its_lease_is_over(storage: ObjectStorage) -> None:
    now = now_ms()
    java_holds(storage, 60_000, now)
    with pytest.raises(LockError, match="held by owner java until .* UTC unless it is renewed"):
        lock_of(storage, now_ms=lambda: now).acquire()
    java_holds(storage, -500, now)
    with pytest.raises(LockError):  # its clock may be half a second behind
        lock_of(storage, now_ms=lambda: now).acquire()
    java_holds(storage, -501, now)
    with lock_of(storage, now_ms=lambda: now) as lock:
        assert content(storage)["owner"] != "java"
        lock.check()


@pytest.mark.parametrize("expired", ["true", '"true"', " true"])
def test_a_released_lock_is_taken_at_once(storage: ObjectStorage, expired: str) -> None:
    storage.put(
        STORAGE_LOCK, f'{{"validUntil" : 99999999999999, "owner":"java", "more": 1, "expired":{expired}}}'.encode()
    )
    with lock_of(storage) as lock:
        lock.check()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"expired":false,"owner":"o"}', b"\xff"])
def test_a_damaged_lock_file_is_not_taken_for_free(storage: ObjectStorage, data: bytes) -> None:
    storage.put(STORAGE_LOCK, data)
    with pytest.raises(CorruptFileError, match=r"expected a JSON object with expired, validUntil and owner"):
        lock_of(storage).acquire()


def wait_until(done: Callable[[], bool]) -> None:
    """For what another thread does; as long as the test's own time limit."""
    while not done():
        time.sleep(0.005)


def test_a_lease_is_renewed(storage: ObjectStorage) -> None:
    with lock_of(storage, RENEWED_OFTEN) as lock:
        first = content(storage)
        wait_until(lambda: int(str(content(storage)["validUntil"])) > int(str(first["validUntil"])) + 50)
        lock.check()
        assert content(storage)["owner"] == first["owner"]


def test_a_lease_that_is_not_renewed_is_lost_before_others_may_take_it(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> None:
        raise OSError("no route to host")

    passed = [0.0]
    monkeypatch.setattr(storage_lock, "time", SimpleNamespace(monotonic=lambda: passed[0], time_ns=time.time_ns))
    with caplog.at_level(logging.WARNING), lock_of(storage, RENEWED_OFTEN) as lock:
        monkeypatch.setattr(ObjectStorage, "replace", failing)
        wait_until(lambda: "was not renewed: no route to host" in caplog.text)
        passed[0] = 269
        lock.check()
        passed[0] = 271
        with pytest.raises(LockError, match="the table lock .* was lost.*validity.timeout.secs"):
            lock.check()
    assert "could not be released" in caplog.text


def test_a_lock_taken_over_is_noticed_and_left_alone(storage: ObjectStorage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), lock_of(storage, LASTING) as lock:
        java_holds(storage, 60_000)
        taken = storage.read(STORAGE_LOCK)
        with pytest.raises(LockError, match="another process broke the lock"):
            lock.check()
    assert storage.read(STORAGE_LOCK) == taken
    assert "was taken away while held" in caplog.text


def test_a_renewal_whose_answer_was_lost_does_not_lose_the_lock(storage: ObjectStorage) -> None:
    with lock_of(storage, LASTING) as lock:
        version, lock._version = lock._version, None
        assert version is not None
        lock._version = version._replace(e_tag='"stale"')
        assert lock._renew_lease()
        lock.check()
        lock._version = version
    assert content(storage)["expired"] is True


def test_a_lock_whose_process_is_gone_is_taken_at_once(storage: ObjectStorage) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = process_identity(child.pid)
    assert isinstance(process, ProcessIdentity)
    lease = b'{"expired":false,"validUntil":99999999999999,"owner":"o"}'

    def held_by(owner: str) -> None:
        found = storage.read_version(STORAGE_LOCK)
        note = json.dumps({**json.loads(WriterIdentity(owner, process).to_json()), "since": 1})
        storage.replace(STORAGE_LOCK, lease, None if found is None else found.version, note)

    held_by("o")
    with pytest.raises(LockError):
        lock_of(storage).acquire()
    child.communicate(b"\n")
    with lock_of(storage) as lock:
        lock.check()
    held_by("another")  # Apache Hudi keeps no metadata: that of an earlier holder does not count
    with pytest.raises(LockError):
        lock_of(storage).acquire()


def test_threads_take_turns(storage: ObjectStorage) -> None:
    inside: list[int] = []
    overlaps = []

    def work(number: int) -> None:
        for _ in range(5):
            with lock_of(storage, LASTING) as lock:
                overlaps.extend(inside)
                inside.append(number)
                time.sleep(0.002)
                lock.check()
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []


def test_a_local_folder_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="StorageBasedLockProvider needs an object store"):
        StorageLock(LocalStorage(str(tmp_path)), IMPATIENT, purpose="commit")


def test_a_store_that_may_not_be_written_is_a_lock_error(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "AccessDenied")

    monkeypatch.setattr(ObjectStorage, "replace", denied)
    with pytest.raises(LockError, match=r"cannot be read or written \(AccessDenied\)"):
        lock_of(storage).acquire()


def test_uses_are_recorded_while_the_audit_is_enabled(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(storage_lock, "_AUDITED", {})
    audit = LockAudit(storage)
    with lock_of(storage):
        pass
    assert not audit.has_folder()
    audit.set_enabled(True)
    monkeypatch.setattr(storage_lock, "_AUDITED", {})
    with lock_of(storage, RENEWED_OFTEN):
        held = content(storage)
        (file,) = storage.list(LOCK_AUDIT)
        while b"RENEW" not in storage.read(file.path):
            time.sleep(0.01)
    events = [json.loads(line) for line in storage.read(file.path).splitlines()]
    begun = events[0]["timestamp"]
    assert file.name == f"{begun}_{held['owner']}.jsonl"
    states = [event["state"] for event in events]
    assert (states[0], states[-1], {*states[1:-1]}) == ("START", "END", {"RENEW"})
    assert events[0] == {
        "ownerId": held["owner"],
        "transactionStartTime": begun,
        "timestamp": begun,
        "state": "START",
        "lockExpiration": begun + 300_000,
        "lockHeld": True,
    }
    assert [event["lockHeld"] for event in events] == [state != "END" for state in states]
    with lock_of(storage):
        pass
    report = audit.validate()
    assert (report.result, report.num_transactions) == ("PASSED", 2)

    def full(*arguments: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(ObjectStorage, "put", full)
    with caplog.at_level(logging.WARNING), lock_of(storage):
        pass
    assert caplog.text.count("could not be recorded") == 2
    assert audit.validate().num_transactions == 2
