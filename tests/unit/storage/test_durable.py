"""What a local storage forces to disk, and when."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_py.storage import FolderStorage, LocalStorage, MemoryStorage, flushing, with_durability
from tests.support.power import REAL_FLUSHES, Dropped, Mixed, Recorder, Torn, after_failure, recorded

DATA = ".hoodie/.hudi_py/1/files/p/f"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    return tmp_path / "a" / "t"


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing.Unflushed, "_flush", REAL_FLUSHES[0])
    monkeypatch.setattr(flushing, "_flush_data", REAL_FLUSHES[1])


def left(recorder: Recorder, root: Path, cut: int = -1) -> list[dict[str, bytes]]:
    """Files after power failures of different kinds at a cut."""
    failures = [Dropped(), Torn(), *(Mixed(seed) for seed in range(4))]
    trees = [after_failure(recorder.cuts[cut], failure, root) for failure in failures]
    return [{path: data for path, data in tree.items() if data is not None} for tree in trees]


def publish(storage: LocalStorage) -> None:
    with storage.open_output(DATA) as out:
        out.write(b"data")
    storage.put_if_absent(".hoodie/.temp/1/p/f.marker.CREATE", b"")
    storage.rename(DATA, "p/f")


def test_what_was_written_is_there_after_a_sync(root: Path) -> None:
    with recorded(root) as recorder:
        storage = LocalStorage(str(root))
        storage.put("a/b/put", b"1")
        storage.put_if_absent("a/created", b"2")
        storage.put_if_absent("c/empty", b"")
        with storage.open_output("d/e/stream") as out:
            out.write(b"3")
        publish(storage)
        storage.put("a/gone", b"")
        storage.delete("a/gone")
        storage.sync()
    marker = ".hoodie/.temp/1/p/f.marker.CREATE"
    files = {"a/b/put": b"1", "a/created": b"2", "c/empty": b"", "d/e/stream": b"3", "p/f": b"data", marker: b""}
    assert left(recorder, root) == [files] * 6


def test_without_a_sync_nothing_need_be_there(root: Path) -> None:
    with recorded(root) as recorder:
        LocalStorage(str(root)).put("a/f", b"1")
    assert {} in left(recorder, root)


@pytest.mark.parametrize("create", ["put", "put_if_absent"])
def test_a_file_put_is_whole_or_absent(root: Path, create: str) -> None:
    with recorded(root) as recorder:
        getattr(LocalStorage(str(root)), create)("f", b"content")
    assert all(files.get("f", b"content") == b"content" for files in left(recorder, root))


def test_a_replaced_file_is_the_old_or_the_new(root: Path) -> None:
    LocalStorage(str(root)).put("f", b"old")
    with recorded(root) as recorder:
        LocalStorage(str(root)).put("f", b"new")
    assert {files["f"] for files in left(recorder, root)} == {b"old", b"new"}


@pytest.mark.parametrize(
    "change",
    [
        lambda storage: storage.delete("old"),
        lambda storage: storage.put("old", b"replaced"),
        lambda storage: storage.delete_tree("old"),
    ],
    ids=["delete", "put", "delete_tree"],
)
@pytest.mark.parametrize("write", [lambda storage: storage.put("p/f", b"data"), publish], ids=["put", "publish"])
def test_nothing_is_removed_before_what_was_written_is_there(
    root: Path, change: Callable[[LocalStorage], object], write: Callable[[LocalStorage], object]
) -> None:
    LocalStorage(str(root)).put("old", b"old")
    with recorded(root) as recorder:
        storage = LocalStorage(str(root))
        write(storage)
        change(storage)
    for cut in range(len(recorder.cuts)):
        for files in left(recorder, root, cut):
            assert files.get("old") == b"old" or files.get("p/f") == b"data"


def test_a_file_is_moved_once_it_and_what_was_created_before_is_there(root: Path) -> None:
    with recorded(root) as recorder:
        publish(LocalStorage(str(root)))
    for cut in range(len(recorder.cuts)):
        for files in left(recorder, root, cut):
            assert files.get("p/f", b"data") == b"data"
            assert "p/f" not in files or ".hoodie/.temp/1/p/f.marker.CREATE" in files


def test_folders_that_another_process_made_are_there(root: Path) -> None:
    root.mkdir()
    with recorded(root) as recorder:
        LocalStorage(str(root)).put("a/b/theirs", b"")
        storage = LocalStorage(str(root))
        storage.put("a/b/ours", b"1")
        storage.sync()
    assert all(files["a/b/ours"] == b"1" for files in left(recorder, root))


def test_working_files_are_not_flushed(root: Path) -> None:
    storage = LocalStorage(str(root))
    storage.put("f", b"1")
    with recorded(root) as recorder:
        storage = LocalStorage(str(root))
        for path in (".hoodie/.hudi_py/1/stage/rows", ".hoodie/metadata/.hoodie/.hudi_py/1/open"):
            with storage.open_output(path) as out:
                out.write(b"rows")
            storage.put(path + "2", b"rows")
        storage.touch(".hoodie/.heartbeat/1")
        storage.delete_tree(".hoodie/.hudi_py/1")
        assert recorder.flushes == 0
        storage.put_if_absent(".hoodie/lock", b"holder")  # half of it would name nobody
        storage.delete(".hoodie/lock")
        assert recorder.flushes == 1


def test_it_can_be_switched_off(root: Path) -> None:
    with recorded(root) as recorder:
        storage = with_durability(LocalStorage(str(root)), False)
        publish(storage)  # type: ignore[arg-type]
        storage.put("g", b"1")
        storage.delete("g")
        storage.sync()
        FolderStorage(storage, "p").sync()
    assert recorder.flushes == 0
    again = pickle.loads(pickle.dumps(storage))
    assert not again.durable
    assert with_durability(again, False) is again
    assert with_durability(again, True).durable  # type: ignore[attr-defined]
    memory = MemoryStorage("durable")
    assert with_durability(memory, False) is memory


def test_a_folder_storage_flushes_what_it_is_a_folder_of(root: Path) -> None:
    with recorded(root) as recorder:
        storage = FolderStorage(LocalStorage(str(root)), "m")
        storage.put("f", b"1")
        storage.sync()
    assert left(recorder, root) == [{"m/f": b"1"}] * 6


@pytest.mark.usefixtures("real")
def test_the_disk_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync, fdatasync = os.fsync, flushing._flush_data

    def named(call: Callable[[int], None]) -> Callable[[int], None]:
        def flush(descriptor: int) -> None:
            flushed.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), root))
            call(descriptor)

        return flush

    monkeypatch.setattr(os, "fsync", named(fsync))
    monkeypatch.setattr(flushing, "_flush_data", named(fdatasync))
    storage = LocalStorage(str(root))
    publish(storage)
    assert {DATA, ".hoodie/.temp/1/p", ".hoodie/.temp/1", ".hoodie/.temp", ".hoodie", "."} <= set(flushed)
    flushed.clear()
    storage.sync()
    assert set(flushed) == {"p", "."}
    flushed.clear()
    storage.sync()
    assert flushed == []


@pytest.mark.usefixtures("real")
def test_a_flush_that_fails_is_an_error_and_is_not_forgotten(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    storage = LocalStorage(str(root))
    with storage.open_output("f") as out:
        out.write(b"1")
    with monkeypatch.context() as patched:
        patched.setattr(flushing, "_flush_data", fail)
        for _ in range(2):
            with pytest.raises(OSError, match=f"Input/output error: '{root}/f'"):
                storage.sync()
    storage.sync()


@pytest.mark.usefixtures("real")
def test_file_systems_that_cannot_flush_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    storage = LocalStorage(str(root))
    storage.put("f", b"1")
    storage.sync()


@pytest.mark.usefixtures("real")
def test_many_threads(root: Path) -> None:
    storage = LocalStorage(str(root))

    def work(thread: int) -> None:
        for number in range(5):
            path = f".hoodie/.hudi_py/1/files/p{thread}/{number}"
            with storage.open_output(path) as out:
                out.write(b"data")
            storage.rename(path, f"p{thread}/{number}")
        storage.sync()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(storage.walk())) == 20
    assert not storage._unflushed._created | storage._unflushed._moved | storage._unflushed._files
