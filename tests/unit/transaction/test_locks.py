"""The file-system lock: exclusive, patient, broken only when its holder is provably gone or it has expired."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from hudi_py.errors import LockError
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.locks import file as locks
from hudi_py.transaction.owner import identity as identities
from hudi_py.transaction.owner.identity import ProcessIdentity, WriterIdentity, parse_writer, process_identity
from hudi_py.transaction.settings import LockSettings
from tests.support.sessions import lock_settings

LOCK = ".hoodie/lock"
IMPATIENT = lock_settings(LOCK_WAIT_MS=30, LOCK_RETRIES=0, LOCK_RETRY_WAIT_MS=10)


def lock_of(storage: Storage, settings: LockSettings = IMPATIENT) -> FileLock:
    return FileLock(storage, settings, purpose="commit the write 1")


@pytest.fixture
def storage(tmp_path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.fixture
def dead_process() -> ProcessIdentity:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = process_identity(child.pid)
    assert identity is not None
    child.communicate(b"\n")
    return identity


def test_the_lock_file_lies_where_java_puts_it_and_goes_with_the_release(storage):
    with lock_of(storage) as lock:
        assert lock.held
        writer = parse_writer(storage.read(LOCK))
        assert writer is not None
        assert writer.process == process_identity()
    assert storage.stat(LOCK) is None
    assert not lock.held


def test_a_lock_file_elsewhere(storage, tmp_path):
    elsewhere = tmp_path / "locks"
    with lock_of(storage, lock_settings(LOCK_PATH=str(elsewhere))):
        assert (elsewhere / "lock").exists()
        assert storage.stat(LOCK) is None
    assert not (elsewhere / "lock").exists()


def test_a_held_lock_is_waited_for_then_refused_naming_file_holder_and_age(storage):
    with lock_of(storage), pytest.raises(LockError) as error:
        lock_of(storage).acquire()
    assert LOCK in str(error.value)
    assert f"process {process_identity().pid}" in str(error.value)  # type: ignore[union-attr]
    assert re.search(r" for \d+ s", str(error.value))
    assert "commit the write 1" in str(error.value)


def test_javas_lock_has_no_identity_and_is_never_broken_without_expiry(storage):
    storage.put(LOCK, b"")
    with pytest.raises(LockError, match="a process that left no identity"):
        lock_of(storage).acquire()
    storage.put(LOCK, b'{"lockCreateTime":"2026-01-01 00:00:00.000","lockThreadName":"main","lockStacksInfo":[]}')
    with pytest.raises(LockError, match="a process that left no identity"):
        lock_of(storage).acquire()


def test_a_lock_given_back_meanwhile_is_had(storage):
    first = lock_of(storage)
    first.acquire()
    threading.Timer(0.1, first.release).start()
    with lock_of(storage, lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRIES=0)) as second:
        second.check()


def test_the_lock_of_a_dead_process_is_broken(storage, dead_process):
    storage.put(LOCK, WriterIdentity("d" * 32, dead_process).to_json().encode())
    with lock_of(storage) as lock:
        lock.check()


def test_the_lock_of_a_process_on_another_host_or_boot_is_not(storage, dead_process):
    for other in (
        ProcessIdentity("elsewhere", dead_process.boot, dead_process.pid, dead_process.start),
        ProcessIdentity(dead_process.host, "another boot", dead_process.pid, dead_process.start),
    ):
        storage.put(LOCK, WriterIdentity("d" * 32, other).to_json().encode())
        with pytest.raises(LockError):
            lock_of(storage).acquire()


@pytest.mark.parametrize("shows", [FileNotFoundError, PermissionError])
def test_the_lock_of_another_users_process_that_proc_does_not_show_is_not(storage, monkeypatch, shows):
    """`hidepid=2` makes its folder vanish, `hidepid=1` refuses what is in it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = process_identity(child.pid)
        assert identity is not None

        def hidden(path, *arguments, **keywords):
            if path == f"/proc/{child.pid}/stat":
                raise shows(path)
            return open(path, *arguments, **keywords)

        monkeypatch.setattr(identities, "open", hidden, raising=False)
        assert not identity.provably_dead
        assert not WriterIdentity("1", identity).provably_alive
        storage.put_if_absent(LOCK, WriterIdentity("1", identity).to_json().encode())
        with pytest.raises(LockError, match=f"process {child.pid} on"):
            lock_of(storage).acquire()
        child.communicate(b"\n")
    with lock_of(storage):
        pass


def test_a_process_id_used_again_is_another_process(storage):
    own = process_identity()
    assert own is not None
    storage.put(LOCK, WriterIdentity("d" * 32, ProcessIdentity(own.host, own.boot, own.pid, "1")).to_json().encode())
    with lock_of(storage):
        pass


def test_an_expired_lock_is_broken(tmp_path):
    storage = MemoryStorage(str(tmp_path))
    storage.put(LOCK, b"")
    now = time.time_ns() // 1_000_000
    settings = lock_settings(LOCK_EXPIRE_MINUTES=1, LOCK_WAIT_MS=30, LOCK_RETRIES=0)

    def at(moment_ms: int) -> FileLock:
        return FileLock(storage, settings, purpose="commit", now_ms=lambda: moment_ms)

    storage.set_modified(LOCK, now)
    with pytest.raises(LockError):
        at(now + 60_000).acquire()
    with at(now + 60_001) as lock:
        lock.check()


def test_a_late_breaker_cannot_take_the_lock_of_the_next_holder(storage, dead_process):
    """Two processes judge the same lock dead; the slower one acts after the faster one has taken the lock."""
    storage.put(LOCK, WriterIdentity("d" * 32, dead_process).to_json().encode())
    late = lock_of(storage)
    judged = late._read_content()
    with lock_of(storage) as fast:
        late._read_content = lambda: judged  # type: ignore[method-assign]
        assert not late._break_dead()
        fast.check()


def test_a_lock_released_before_its_holder_went_is_not_broken_when_it_is_anothers(storage, dead_process):
    judge = lock_of(storage)
    seen = [WriterIdentity("d" * 32, dead_process).to_json().encode()]
    with lock_of(storage) as other:
        read = judge._read_content
        judge._read_content = lambda: seen.pop() if seen else read()  # type: ignore[method-assign]
        assert judge._break_dead()  # try again
        other.check()


def test_a_breaker_that_died_half_way_does_not_leave_the_lock_for_ever(storage, dead_process, monkeypatch):
    """A local rename is a link, then an unlink: in between lock and tombstone are both there."""
    monkeypatch.setattr(locks, "_BREAKER_PATIENCE_S", 0.05)
    content = WriterIdentity("d" * 32, dead_process).to_json().encode()
    storage.put(LOCK, content)
    storage.put(".hoodie/lock.broken." + "d" * 32, content)
    with lock_of(storage, lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRIES=0)) as lock:
        lock.check()


def test_a_lock_taken_away_is_noticed_and_not_released_for_the_other(storage):
    first = lock_of(storage)
    first.acquire()
    storage.delete(LOCK)
    with lock_of(storage) as second:
        with pytest.raises(LockError, match="was taken away"):
            first.check()
        first.release()
        second.check()


class _ReleasedByApacheHudi(MemoryStorage):
    """Its lock is Apache Hudi's at first. Once it is given back and taken here, something happens to the file once."""

    def __init__(self, name: str, then: Callable[[Storage], object]) -> None:
        super().__init__(name)
        self.put(LOCK, b"")
        self._then = [then]

    def let_go(self, _: float = 0) -> None:
        if self.read_or_none() == b"":
            self.delete(LOCK)
        elif self._then:
            self._then.pop()(self)

    def read_or_none(self) -> bytes | None:
        return self.read(LOCK) if self.stat(LOCK) is not None else None


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda storage: storage.delete(LOCK), id="deletes it once more"),
        pytest.param(lambda storage: storage.put(LOCK, b""), id="creates it over ours"),
    ],
)
def test_a_lock_that_apache_hudi_takes_along_is_had_anew(then, tmp_path):
    """Its provider deletes the file twice when it lets go, and does not create it exclusively on local file systems."""
    storage = _ReleasedByApacheHudi(str(tmp_path), then)
    patient = lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRIES=0)
    lock = FileLock(storage, patient, purpose="commit the write 1", sleep=storage.let_go)
    with lock:
        assert not storage._then  # it did happen
        lock.check()
    assert storage.stat(LOCK) is None


def test_a_lock_that_is_known_to_be_shared_is_looked_at_again_though_it_was_free(tmp_path):
    storage = _ReleasedByApacheHudi(str(tmp_path), lambda storage: storage.delete(LOCK))
    storage.delete(LOCK)
    shared = lock_settings(LOCK_PROVIDER="FileSystemBasedLockProvider")
    with FileLock(storage, shared, purpose="commit", sleep=storage.let_go) as lock:
        assert not storage._then
        lock.check()


def test_who_releases_the_lock_lets_those_who_wait_have_it(storage):
    """One that takes it over and over, as services do, does not keep others from it."""
    over = threading.Event()
    turns = 0

    def greedy() -> None:
        nonlocal turns
        while not over.is_set():
            with lock_of(storage, lock_settings(LOCK_WAIT_MS=200_000)):
                turns += 1
                over.wait(0.05)

    thread = threading.Thread(target=greedy)
    thread.start()
    try:
        for _ in range(4):
            time.sleep(0.06)
            with lock_of(storage, lock_settings(LOCK_WAIT_MS=200_000)):
                pass
    finally:
        over.set()
        thread.join()
    assert turns < 100  # some thousand without
    assert [info.name for info in storage.list(".hoodie") if info.name.startswith("lock")] == []


def test_threads_exclude_each_other(storage):
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with lock_of(storage, lock_settings(LOCK_WAIT_MS=200_000, LOCK_RETRY_WAIT_MS=20)):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


class ReadOnlyStorage(LocalStorage):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        raise PermissionError(13, "Permission denied", f"{self.uri}/{path}.tmp")


def test_a_folder_that_may_not_be_written_is_told(tmp_path):
    told = r"^Cannot commit the write 1: .*/\.hoodie/lock cannot be written \(Permission denied\); "
    with pytest.raises(LockError, match=told) as raised:
        lock_of(ReadOnlyStorage(str(tmp_path))).acquire()
    assert isinstance(raised.value.__cause__, PermissionError)
