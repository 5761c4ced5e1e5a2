"""One behaviour for every storage."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.storage import FileInfo, LocalStorage, MemoryStorage, ObjectStorage, Storage, open_storage

_NAMES = itertools.count()


class StorageBehaviour:
    """What all storages do alike; a subclass gives the fixture `storage`, rooted at an empty folder."""

    renames = True
    folders = True
    reports_missing = True
    """Whether `delete` tells that there was no file."""

    def test_put_then_read(self, storage: Storage) -> None:
        storage.put("a/b c/d%2Fe=ü.bin", b"hello")
        assert storage.read("a/b c/d%2Fe=ü.bin") == b"hello"
        storage.put("a/b c/d%2Fe=ü.bin", b"other")
        assert storage.read("a/b c/d%2Fe=ü.bin") == b"other"

    def test_missing_file(self, storage: Storage) -> None:
        for action in (
            lambda: storage.read("no/such"),
            lambda: storage.read_range("no/such", 0, 1),
            lambda: storage.open_input("no/such"),
        ):
            with pytest.raises(FileNotFoundError, match="no/such"):
                action()
        assert storage.stat("no/such") is None
        assert storage.list("no") == []
        assert list(storage.walk("no")) == []
        assert storage.delete("no/such") is not self.reports_missing
        storage.delete_tree("no")

    def test_names_are_those_of_the_files_in_a_folder(self, storage: Storage) -> None:
        for path in ("d/b", "d/a.txt", "d/.hidden", "d/.b.crc", "d/below/c", "e"):
            storage.put(path, b"1")
        assert storage.names("d") == sorted(info.name for info in storage.list("d") if not info.is_dir)
        assert {"a.txt", "b"} <= set(storage.names("d"))
        assert storage.names("no") == []

    def test_read_range(self, storage: Storage) -> None:
        storage.put("f", b"0123456789")
        assert storage.read_range("f", 2, 3) == b"234"
        assert storage.read_range("f", 8, 100) == b"89"
        assert storage.read_range("f", 10, 5) == b""
        assert storage.read_range("f", 50, 5) == b""
        assert storage.read_range("f", 3, 0) == b""

    def test_open_input_seeks(self, storage: Storage) -> None:
        storage.put("f", b"0123456789" * 1000)
        with storage.open_input("f") as file:
            assert file.size() == 10_000
            file.seek(9_998)
            assert file.read(10) == b"89"
            file.seek(1)
            assert file.read(3) == b"123"

    def test_open_input_reads_ranges(self, storage: Storage) -> None:
        data = bytes(number * 7 % 251 for number in range(3 << 20))
        storage.put("f", data)
        ends = (0, 1, 99, 1 << 20, (1 << 20) + 5, (2 << 20) - 1, 2 << 20, (2 << 20) + 3, len(data) - 1, len(data))
        with storage.open_input("f") as file:
            for start, end in itertools.product(ends, ends):
                if start <= end:
                    assert file.read_at(end - start, start) == data[start:end]
            file.seek(len(data) - 3)
            assert file.read() == data[-3:]
            assert file.read() == b""
        storage.put("empty", b"")
        with storage.open_input("empty") as file:
            assert (file.size(), file.read()) == (0, b"")

    def test_open_output(self, storage: Storage) -> None:
        storage.put("x/f", b"a long old content")
        with storage.open_output("x/f") as file:
            file.write(b"new ")
            file.write(b"bytes")
        assert storage.read("x/f") == b"new bytes"
        with storage.open_output("made/on/the/way") as file:
            file.write(b"1")
        assert storage.read("made/on/the/way") == b"1"

    @pytest.mark.parametrize("data", [b"", b"mine"])
    def test_put_if_absent(self, storage: Storage, data: bytes) -> None:
        assert storage.put_if_absent("t/1.commit", data) is True
        assert storage.put_if_absent("t/1.commit", b"theirs") is False
        assert storage.read("t/1.commit") == data
        assert [info.name for info in storage.list("t")] == ["1.commit"]

    @pytest.mark.parametrize("empty", [True, False])
    def test_put_if_absent_has_one_winner(self, storage: Storage, empty: bool) -> None:
        contents = [b"" if empty else bytes([65 + i]) * 1000 for i in range(8)]
        barrier = threading.Barrier(len(contents))
        won: list[bytes] = []

        def run(content: bytes) -> None:
            barrier.wait()
            if storage.put_if_absent("race", content):
                won.append(content)

        threads = [threading.Thread(target=run, args=(content,)) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert storage.read("race") == won[0]

    def test_list(self, storage: Storage) -> None:
        storage.put("p/b.parquet", b"12")
        storage.put("p/.hidden", b"1")
        storage.put("p/sub/c", b"1")
        storage.put("pq", b"1")
        assert [(info.path, info.size, info.is_dir) for info in storage.list("p")] == [
            ("p/.hidden", 1, False),
            ("p/b.parquet", 2, False),
            ("p/sub", 0, True),
        ]
        assert [(info.name, info.is_dir) for info in storage.list()] == [("p", True), ("pq", False)]
        assert storage.list("pq") == []

    def test_walk(self, storage: Storage) -> None:
        for path in ("1", "a/2", "a/b/3", "ab/4"):
            storage.put(path, b"x")
        assert sorted(info.path for info in storage.walk()) == ["1", "a/2", "a/b/3", "ab/4"]
        assert sorted(info.path for info in storage.walk("a")) == ["a/2", "a/b/3"]

    def test_stat(self, storage: Storage) -> None:
        storage.put("d/f", b"123")
        info = storage.stat("d/f")
        assert info is not None
        assert (info.path, info.size, info.is_dir) == ("d/f", 3, False)
        assert info.modified_ms > 1_600_000_000_000
        folder = storage.stat("d")
        if self.folders:
            assert folder is not None
            assert folder.is_dir
        else:
            assert folder is None

    def test_checksum_siblings_and_temporaries_are_not_listed(self, storage: Storage) -> None:
        for name in ("f", ".f.crc", ".hudi_py-0123.tmp", ".f.log.1"):
            with storage.open_output(f"d/{name}") as file:
                file.write(b"x")
        assert [info.name for info in storage.list("d")] == [".f.log.1", "f"]
        assert sorted(info.name for info in storage.walk()) == [".f.log.1", "f"]

    def test_delete(self, storage: Storage) -> None:
        storage.put("d/f", b"1")
        assert storage.delete("d/f") is True
        assert storage.delete("d/f") is not self.reports_missing
        assert storage.stat("d/f") is None

    def test_delete_tree(self, storage: Storage) -> None:
        for path in ("d/1", "d/e/2", "dd/3"):
            storage.put(path, b"x")
        storage.delete_tree("d")
        assert sorted(info.path for info in storage.walk()) == ["dd/3"]

    def test_rename(self, storage: Storage) -> None:
        storage.put("a", b"1")
        storage.put("b", b"2")
        if not self.renames:
            with pytest.raises(UnsupportedTableError, match="object stores have no atomic rename"):
                storage.rename("a", "c")
            return
        with pytest.raises(FileExistsError):
            storage.rename("a", "b")
        with pytest.raises(FileNotFoundError):
            storage.rename("no", "c")
        storage.rename("a", "new/c")
        assert storage.read("new/c") == b"1"
        assert storage.stat("a") is None
        assert storage.read("b") == b"2"
        storage.rename("new", "moved")
        assert storage.read("moved/c") == b"1"

    def test_touch(self, storage: Storage) -> None:
        storage.touch("h/beat")
        assert storage.read("h/beat") == b""
        before = storage.stat("h/beat")
        assert before is not None
        storage.touch("h/beat")
        after = storage.stat("h/beat")
        assert after is not None
        assert (after.size, after.modified_ms >= before.modified_ms) == (0, True)

    @pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a/./b", "a\0b"])
    def test_paths_stay_below_the_root(self, storage: Storage, path: str) -> None:
        for action in (
            lambda: storage.read(path),
            lambda: storage.put(path, b""),
            lambda: storage.put_if_absent(path, b""),
            lambda: storage.delete(path),
            lambda: storage.delete_tree(path),
            lambda: storage.open_output(path),
            lambda: storage.list(path),
            lambda: storage.touch(path),
        ):
            with pytest.raises(ConfigError, match="relative to the table's folder"):
                action()


class TestLocalStorage(StorageBehaviour):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(str(tmp_path / "t"))

    @pytest.mark.parametrize("change", ["put", "open_output", "delete", "rename_from", "rename_to"])
    def test_stale_checksums_go(self, tmp_path: Path, change: str) -> None:
        storage = LocalStorage(str(tmp_path))
        for name in ("f", ".f.crc", ".g.crc"):
            (tmp_path / name).write_bytes(b"1")
        if change == "put":
            storage.put("f", b"2")
        elif change == "open_output":
            storage.open_output("f").close()
        elif change == "delete":
            storage.delete("f")
        else:
            storage.rename("f", "g")
        gone = {"rename_to": ".g.crc"}.get(change, ".f.crc")
        assert not (tmp_path / gone).exists()

    def test_new_file_does_not_meet_an_old_checksum(self, tmp_path: Path) -> None:
        for name, data in (("a", b""), ("b", b"content")):
            (tmp_path / f".{name}.crc").write_bytes(b"1")
            assert LocalStorage(str(tmp_path)).put_if_absent(name, data)
            assert not (tmp_path / f".{name}.crc").exists()

    def test_put_leaves_nothing_behind(self, tmp_path: Path) -> None:
        storage = LocalStorage(str(tmp_path))
        storage.put("a", b"1")
        storage.put_if_absent("a", b"2")
        storage.put_if_absent("b", b"2")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    def test_file_systems_without_hard_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        storage = LocalStorage(str(tmp_path))
        assert storage.put_if_absent("a", b"1") is True
        assert storage.put_if_absent("a", b"2") is False
        storage.rename("a", "b")
        assert sorted(os.listdir(tmp_path)) == ["b"]
        assert storage.read("b") == b"1"

    def test_a_full_disk_leaves_no_part_of_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        def half(descriptor: int, data: memoryview) -> int:
            if len(data) < 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data[: len(data) // 2])

        write = os.write
        storage = LocalStorage(str(tmp_path))
        for without_links in (False, True):
            with monkeypatch.context() as patched:
                if without_links:
                    patched.setattr(os, "link", refuse)
                    patched.setattr(storage.__class__, "_write_temporary", lambda *_: str(tmp_path / "none"))
                patched.setattr(os, "write", half)
                with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/"):
                    storage.put_if_absent("a", b"content")
            assert os.listdir(tmp_path) == []

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
    def test_a_full_disk_names_the_file(self) -> None:
        """`/dev/full` is one. Through Parquet, as data files are written."""
        with (
            pytest.raises(OSError, match=r"No space left on device: '/dev/full'"),
            LocalStorage("/dev").open_output("full") as out,
        ):
            pq.write_table(pa.table({"a": range(100_000)}), out)

    def test_a_link_whose_answer_was_lost_is_made_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def link_twice(source: str, target: str) -> None:
            link(source, target)
            link(source, target)

        link = os.link
        monkeypatch.setattr(os, "link", link_twice)
        assert LocalStorage(str(tmp_path)).put_if_absent("a", b"1")
        assert os.listdir(tmp_path) == ["a"]

    def test_files_that_cannot_be_looked_at_are_not_taken_for_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Denied:
            name = "a"

            def is_dir(self) -> bool:
                return False

            def stat(self) -> os.stat_result:
                raise PermissionError(errno.EACCES, "Permission denied")

        @contextlib.contextmanager
        def scandir(_: str) -> Iterator[list[Denied]]:
            yield [Denied()]

        def denied(*_: object, **__: object) -> os.stat_result:
            raise PermissionError(errno.EACCES, "Permission denied")

        storage = LocalStorage(str(tmp_path))
        with monkeypatch.context() as patched:
            patched.setattr(os, "scandir", scandir)  # a folder which may be listed, but not be entered
            with pytest.raises(PermissionError):
                storage.list()
        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", denied)
            with pytest.raises(PermissionError):
                storage.open_input("a")

    def test_modification_time(self, tmp_path: Path) -> None:
        storage = LocalStorage(str(tmp_path))
        storage.put("a", b"1")
        os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_999_999))
        assert storage.list() == [FileInfo("a", 1, 1_700_000_000_123)]
        storage.touch("a")
        assert storage.list()[0].modified_ms > 1_700_000_000_123

    def test_dangling_link_is_skipped(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        assert LocalStorage(str(tmp_path)).list() == []

    def test_pickles(self, tmp_path: Path) -> None:
        storage = LocalStorage(str(tmp_path))
        assert pickle.loads(pickle.dumps(storage)) == storage
        assert storage.is_local
        assert storage.uri == f"file://{tmp_path}"


class TestMemoryStorage(StorageBehaviour):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage(f"behaviour-{next(_NAMES)}")

    def test_shared_by_name(self) -> None:
        one = open_storage("memory://shared-by-name")
        two = open_storage("memory://shared-by-name/sub/folder/")
        one.put("sub/folder/f", b"1")
        assert two.read("f") == b"1"
        assert two.list() == [FileInfo("f", 1, one.list("sub/folder")[0].modified_ms)]
        assert pickle.loads(pickle.dumps(two)).read("f") == b"1"
        assert two.uri == "memory://shared-by-name/sub/folder"

    def test_set_modified(self) -> None:
        storage = MemoryStorage(f"behaviour-{next(_NAMES)}")
        storage.put("f", b"1")
        storage.set_modified("f", 5)
        assert storage.list() == [FileInfo("f", 1, 5)]


class TestObjectStorage(StorageBehaviour):
    renames = False
    folders = False
    reports_missing = False

    @pytest.fixture
    def storage(self) -> Storage:
        pytest.importorskip("obstore")
        from obstore.store import MemoryStore

        return ObjectStorage("s3://bucket/t", store=MemoryStore())

    def test_failed_output_uploads_nothing(self, storage: Storage) -> None:
        with pytest.raises(RuntimeError), storage.open_output("f") as file:  # noqa: PT012
            file.write(b"half")
            raise RuntimeError
        assert storage.stat("f") is None

    @pytest.mark.parametrize("key", ["allow_http", "aws_allow_http"])
    def test_options_of_connections(self, key: str) -> None:
        """Nobody is there to answer: that is found out once the connection is tried."""
        pytest.importorskip("obstore")
        options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region": "r", "endpoint": "http://[::1]:1"}
        timeout = {"connect_timeout": "1ms", "timeout": "1ms"}
        with pytest.raises(OSError, match="endpoint needs the storage option allow_http=true") as caught:
            open_storage("s3://bucket/t", options).read("f")
        assert "\n" not in str(caught.value)
        opened = open_storage("s3://bucket/t", {**options, **timeout, key: "true"})
        assert opened.uri == "s3://bucket/t"

    @pytest.mark.parametrize(
        ("answer", "kind"), [("PermissionDeniedError", PermissionError), ("GenericError", OSError)]
    )
    def test_what_the_store_answers_is_one_line_of_an_error_of_the_system(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, answer: str, kind: type[OSError]
    ) -> None:
        import obstore
        from obstore import exceptions

        def refuse(*_: object, **__: object) -> object:
            raise getattr(exceptions, answer)("it answers 403\n\nDebug source: ...")

        for name in ("get", "get_range", "put", "head", "delete", "list", "list_with_delimiter"):
            monkeypatch.setattr(obstore, name, refuse)
        calls: list[Callable[[], object]] = [
            lambda: storage.read("f"),
            lambda: storage.read_range("f", 0, 1),
            lambda: storage.open_input("f"),
            lambda: storage.put("f", b""),
            lambda: storage.put_if_absent("f", b""),
            lambda: storage.list("f"),
            lambda: list(storage.walk("f")),
            lambda: storage.stat("f"),
            lambda: storage.delete("f"),
            lambda: storage.delete_tree("f"),
        ]
        for call in calls:
            with pytest.raises(kind) as caught:
                call()
            assert str(caught.value).endswith("it answers 403: 's3://bucket/t/f'")

    def test_credentials_stay_out_of_sight(self) -> None:
        pytest.importorskip("obstore")
        options = {"aws_access_key_id": "AKIDSEEN", "aws_secret_access_key": "hushhush", "region": "us-east-1"}
        storage = open_storage("s3://bucket/path", options)
        for text in (repr(storage), storage.uri, str(pickle.dumps(storage))):
            assert "hushhush" not in text
            assert "AKIDSEEN" not in text
        with pytest.raises(ConfigError) as caught:
            open_storage("s3://bucket/path", {"no_such_key": "hushhush"})
        assert "no_such_key" in str(caught.value)
        assert "hushhush" not in str(caught.value)


@pytest.mark.parametrize("uri", ["s3://user:hushhush@bucket/t", "az://account/container?sig=hushhush"])
def test_credentials_in_a_uri_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="storage_options") as caught:
        open_storage(uri)
    assert "hushhush" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/a/b%20c", "/a/b%20c"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a", "/a"),
        ("a:1/b", os.path.abspath("a:1/b")),
        ("rel/x", os.path.abspath("rel/x")),
    ],
)
def test_local_uris(uri: str, root: str) -> None:
    storage = open_storage(uri)
    assert isinstance(storage, LocalStorage)
    assert storage.root == root


@pytest.mark.parametrize("uri", ["", "ftp://host/t", "webhdfs://nn/t"])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        open_storage(uri)
