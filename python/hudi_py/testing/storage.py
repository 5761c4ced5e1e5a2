"""Tests for pytest of the behaviour that every `Storage` shares."""

from __future__ import annotations

import itertools
import threading

import pytest

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.storage import Storage


class StorageBehaviour:
    """The behaviour that all storages share; a subclass provides the fixture `storage`, rooted at an empty folder."""

    renames = True
    folders = True
    reports_missing = True
    """Whether `delete` reports that there was no file."""

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
