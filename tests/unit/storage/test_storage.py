"""One behaviour for every storage."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_py.errors import ConfigError
from hudi_py.storage import (
    FileInfo,
    LocalStorage,
    MemoryStorage,
    ObjectStorage,
    Storage,
    hadoop_uri,
    open_storage,
    plain_uri,
)
from hudi_py.testing.storage import StorageBehaviour

_NAMES = itertools.count()


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


@pytest.mark.parametrize(
    ("uri", "plain", "hadoop"),
    [
        ("file:///a/b", "/a/b", "file:/a/b"),
        ("file:/a/b", "/a/b", "file:/a/b"),
        ("file://localhost/a", "/a", "file:/a"),
        ("/a/b", "/a/b", "file:/a/b"),
        ("s3://a/b", "s3://a/b", "s3://a/b"),
        ("memory://a", "memory://a", "memory://a"),
        ("file:a", "file:a", "file:a"),
    ],
)
def test_how_uris_are_written(uri: str, plain: str, hadoop: str) -> None:
    assert (plain_uri(uri), hadoop_uri(uri)) == (plain, hadoop)


@pytest.mark.parametrize("uri", ["", "ftp://host/t", "webhdfs://nn/t"])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        open_storage(uri)
