"""HDFS without Hadoop: a local folder with HDFS's rules for names. `tests/stores/test_hdfs.py` asks a real one."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import hudi_py
from hudi_py.errors import ConfigError, StorageDeniedError, StorageError
from hudi_py.storage import HdfsStorage, Storage, hdfs, open_beside, open_storage
from hudi_py.storage.libhdfs import FileStatus, UnansweredError, _error
from hudi_py.testing.storage import StorageBehaviour
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings
from tests.support.sessions import lock_settings


class Files:
    """Opens files as HDFS does, which makes the folders above them."""

    def __init__(self) -> None:
        self._local = pafs.LocalFileSystem()

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._local.open_input_file(path)

    def open_output_stream(self, path: str) -> pa.NativeFile:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return self._local.open_output_stream(path)


class Names:
    """The rules of `FSNamesystem`, one call at a time. `spoil` is called with the name of a call and what does it."""

    def __init__(self) -> None:
        self.spoil: Callable[[str, Callable[[], bool]], bool] = lambda _, act: act()

    def look_up(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_dir = os.path.isdir(path)
        return FileStatus(path, 0 if is_dir else found.st_size, int(found.st_mtime) * 1000, is_dir)

    def children(self, path: str) -> list[FileStatus]:
        names = os.listdir(path) if os.path.isdir(path) else []
        found = [self.look_up(f"{path}/{name}") for name in names]
        return [entry for entry in found if entry is not None]

    def rename(self, source: str, target: str) -> bool:
        return self.spoil("rename", lambda: self._rename(source, target))

    def _rename(self, source: str, target: str) -> bool:
        if os.path.isdir(target):
            target = f"{target}/{os.path.basename(source)}"
        if not os.path.exists(source) or os.path.exists(target) or not os.path.isdir(os.path.dirname(target)):
            return False
        if os.path.isdir(source):
            os.rename(source, target)
            return True
        try:
            os.link(source, target)  # of two at a time one fails
        except FileExistsError:
            return False
        os.unlink(source)
        return True

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self.spoil("delete", lambda: self._delete(path, recursive))

    def _delete(self, path: str, recursive: bool) -> bool:
        if not os.path.exists(path):
            return False
        if recursive and os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return True

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The name node `double`, whose paths are those of this machine."""
    found = Names()
    made: Any = hdfs.Connection(found, Files())  # type: ignore[arg-type]
    monkeypatch.setattr(hdfs, "connect", lambda *_: made)
    monkeypatch.setattr(hdfs._Process, "connections", {})
    return found


@pytest.fixture
def uri(names: Names, tmp_path: Path) -> str:
    return f"hdfs://double{tmp_path}/a folder/t"


class TestHdfsStorage(StorageBehaviour):
    @pytest.fixture
    def storage(self, uri: str) -> Storage:
        return open_storage(uri)

    def test_nothing_is_left_behind(self, storage: HdfsStorage, tmp_path: Path) -> None:
        storage.put("a", b"1")
        storage.put("a", b"2")
        storage.put_if_absent("a", b"3")
        storage.put_if_absent("b", b"3")
        assert sorted(os.listdir(tmp_path / "a folder" / "t")) == ["a", "b"]

    def test_a_file_is_not_moved_into_a_folder_in_its_way(self, storage: HdfsStorage) -> None:
        storage.put("d/f", b"1")
        assert not storage.put_if_absent("d", b"2")
        storage.put("a", b"3")
        with pytest.raises(FileExistsError):
            storage.rename("a", "d")
        assert storage.names("d") == ["f"]

    @pytest.mark.parametrize("done", [True, False])
    @pytest.mark.parametrize("there", [True, False])
    def test_a_move_without_an_answer(self, storage: HdfsStorage, names: Names, done: bool, there: bool) -> None:
        """`there`: another writer has created the file just before."""

        def lose(what: str, act: Callable[[], bool]) -> bool:
            if what == "delete":
                return act()
            if there:
                Path(storage._full("f")).write_bytes(b"theirs")
            if done:
                act()
            raise UnansweredError("no answer")

        os.makedirs(storage._root)
        names.spoil = lose
        if not there and not done:
            with pytest.raises(UnansweredError):
                storage.put_if_absent("f", b"ours")
        else:
            assert storage.put_if_absent("f", b"ours") is not there
            assert storage.read("f") == (b"theirs" if there else b"ours")
        assert len(os.listdir(storage._root)) == int(there or done)

    @pytest.mark.parametrize("done", [True, False])
    def test_a_rename_without_an_answer(self, storage: HdfsStorage, names: Names, done: bool) -> None:
        storage.put("a", b"1")

        def lose(_: str, act: Callable[[], bool]) -> bool:
            if done:
                act()
            raise UnansweredError("no answer")

        names.spoil = lose
        if done:
            storage.rename("a", "b")
        else:
            with pytest.raises(UnansweredError):
                storage.rename("a", "b")
        assert storage.names() == ["b" if done else "a"]

    def test_a_refusal_without_a_reason_is_an_error(self, storage: HdfsStorage, names: Names) -> None:
        names.spoil = lambda what, act: False if what == "rename" else act()
        with pytest.raises(
            StorageError, match=r"HDFS refuses to move a file to hdfs://double/.*/t/f, although no file exists there"
        ):
            storage.put_if_absent("f", b"1")
        assert os.listdir(storage._root) == []

    def test_what_was_in_the_way_has_gone(self, storage: HdfsStorage, names: Names) -> None:
        answers = [False, False]
        names.spoil = lambda what, act: answers.pop() if what == "rename" and answers else act()
        assert storage.put_if_absent("f", b"1")
        assert os.listdir(storage._root) == ["f"]

    def test_pickles_small(self, storage: Storage) -> None:
        again = pickle.loads(pickle.dumps(storage))
        assert again == storage
        assert len(pickle.dumps(storage)) < 300
        assert not storage.is_local


_DENIED = "org.apache.hadoop.security.AccessControlException: Permission denied: user=nobody, access=WRITE"
_SAFE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot delete /t/f. Name node is in safe mode."
_GONE = "java.io.FileNotFoundException: File does not exist: /t/f"


def test_what_the_name_node_refuses_is_an_error_of_one_line() -> None:
    for text, kind, code in (
        (_DENIED, StorageDeniedError, errno.EACCES),
        (_SAFE, StorageError, errno.EROFS),
        ("java.net.ConnectException: Connection refused", UnansweredError, errno.EIO),
    ):
        error = _error(text, "delete", "hdfs://nn/t/f")
        assert (type(error), str(error), error.errno) == (kind, f"HDFS cannot delete hdfs://nn/t/f: {text}", code)
    assert isinstance(UnansweredError("x"), StorageError)
    assert isinstance(_error(_GONE, "look for", "hdfs://nn/t/f"), FileNotFoundError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(255, "Opening HDFS file failed: java.lang.IllegalStateException\n\tat a.b.C"), StorageError),
        (OSError("HDFS Read failed\n\tat a.b.C"), StorageError),
        (PermissionError(errno.EACCES, "Opening HDFS file failed"), StorageDeniedError),
    ],
)
def test_an_error_of_its_files_names_the_file(
    uri: str, names: Names, monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[StorageError]
) -> None:
    def fail(_: object, path: str) -> pa.NativeFile:
        raise error

    storage = open_storage(uri)
    storage.put("f", b"1")
    monkeypatch.setattr(Files, "open_input_file", fail)
    with pytest.raises(kind, match=rf"failed.*: '{uri}/f'$") as caught:
        storage.read("f")
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(Files, "open_input_file", lambda *_: os.stat("/nowhere"))
    with pytest.raises(FileNotFoundError, match=f"{uri}/f"):
        storage.read("f")


def test_a_table_with_its_lock(uri: str) -> None:
    hudi_py.write(uri, pa.table({"id": ["a", "b"], "ts": [1, 1]}), record_key="id", ordering_by="ts", table_type="mor")
    table = hudi_py.open_table(uri)
    table.upsert(pa.table({"id": ["b"], "ts": [2]}))
    storage = open_storage(uri)
    with table_lock(storage, LockSettings(), purpose="test"):
        (holder,) = table.locks.holders()
        assert (holder.provider, holder.place) == ("FileSystemBasedLockProvider", f"{uri}/.hoodie/lock")
    table.compact()
    assert sorted(table.scan(["id", "ts"]).to_table()["ts"].to_pylist()) == [1, 2]
    with pytest.raises(ConfigError, match="StorageBasedLockProvider needs an object store, .*; use FileSystemBased"):
        table_lock(storage, lock_settings(LOCK_PROVIDER="StorageBasedLockProvider"), purpose="write")


def test_a_forked_process_is_told(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs._Process, "forked", False)
    hdfs._Process.after_in_child()  # before the first use
    storage = open_storage(uri)
    storage.put("f", b"1")
    hdfs._Process.after_in_child()
    with pytest.raises(ConfigError, match="it was forked from one that had used HDFS"):
        storage.read("f")


@pytest.mark.parametrize(
    ("given", "shown", "full"),
    [
        ("hdfs://nn:8020/a/b%20c/", "hdfs://nn:8020/a/b%20c", "/a/b%20c"),
        ("hdfs:///a", "hdfs:///a", "/a"),
        ("hdfs:/a", "hdfs:///a", "/a"),
        ("HDFS://Service/a", "hdfs://Service/a", "/a"),
        ("viewfs://cluster/a", "viewfs://cluster/a", "/a"),
        ("hdfs://nn/", "hdfs://nn", "/"),
        ("hdfs://nn", "hdfs://nn", "/"),
    ],
)
def test_uris(given: str, shown: str, full: str) -> None:
    storage = open_storage(given)
    assert isinstance(storage, HdfsStorage)
    assert (storage.uri, storage._full("")) == (shown, full)
    assert storage._full("x") == f"{full.rstrip('/')}/x"
    assert open_beside(HdfsStorage(given, {"user": "u"}), "hdfs://other/b").options == {"user": "u"}  # type: ignore[attr-defined]


def test_what_is_no_uri_or_option_of_hdfs() -> None:
    with pytest.raises(ConfigError, match=r"Cannot open hdfs://nn/...: expected .* storage option user") as caught:
        open_storage("hdfs://me:hushhush@nn/t")
    assert "hushhush" not in str(caught.value)
    with pytest.raises(ConfigError, match="no storage option of HDFS is named region; there are user, kerb_ticket"):
        open_storage("hdfs://nn/t", {"region": "eu", "dfs.replication": "1"})
    with pytest.raises(ConfigError, match="URI scheme 'webhdfs'"):
        open_storage("webhdfs://nn/t")
    with pytest.raises(ConfigError, match="pathlib drops a slash of a URI"):
        open_storage(Path("hdfs://nn/t"))
    with pytest.raises(ConfigError, match="libhdfs takes no characters beyond U"):
        open_storage("hdfs://nn/t").put("city=\N{ROLLING ON THE FLOOR LAUGHING}/f", b"")


@pytest.mark.parametrize(
    ("classes", "why"), [("", "CLASSPATH is not set"), ("/opt/other.jar", "CLASSPATH has nothing of Hadoop")]
)
def test_a_missing_class_path_is_named(monkeypatch: pytest.MonkeyPatch, classes: str, why: str) -> None:
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CLASSPATH", classes)
    with pytest.raises(ConfigError, match=f"Cannot open hdfs://nn/t: {why}; HDFS needs .*`hadoop classpath --glob`"):
        hudi_py.open_table("hdfs://nn/t")


def test_a_missing_client_is_named() -> None:
    """In a process of its own: PyArrow looks for libhdfs once."""
    script = "from hudi_py.storage import open_storage\ntry:\n    open_storage('hdfs://nn/t').list()\n"
    script += "except Exception as error:\n    print(type(error).__name__, error)"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "ARROW_LIBHDFS_DIR": "/nowhere", "CLASSPATH": "hadoop.jar"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    (message,) = done.stdout.splitlines()
    assert message.startswith("ConfigError Cannot open hdfs://nn/t: Unable to load lib")
    for needed in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "JAVA_HOME", "`hadoop classpath --glob`"):
        assert needed in message


def test_the_class_path_comes_from_hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "hadoop"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "/etc/$1:$2:/opt/hadoop/a.jar"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    monkeypatch.setenv("CLASSPATH", "")
    hdfs._set_class_path("hdfs://nn/t")
    assert os.environ["CLASSPATH"] == "/etc/classpath:--glob:/opt/hadoop/a.jar"


def test_jars_that_a_star_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.3 libhdfs passes the star on to Java, which knows it on the command line only."""
    for name in ("b-hadoop.jar", "a.jar", "c.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CLASSPATH", f"/etc/x:{tmp_path}/*:/y.jar")
    hdfs._set_class_path("hdfs://nn/t")
    assert os.environ["CLASSPATH"] == f"/etc/x:{tmp_path}/a.jar:{tmp_path}/b-hadoop.jar:/y.jar"
