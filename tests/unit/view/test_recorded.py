"""The cache of the files that commits wrote."""

from __future__ import annotations

from hudi_py.model.names import BaseFileName, FileId, PartitionPath
from hudi_py.view.recorded import CommitCache, CommitKey, RecordedFile


def key(number: int) -> CommitKey:
    return "file:///t", f"{number}.commit", None


def files(count: int) -> list[RecordedFile]:
    name = BaseFileName(FileId("f"), "1-0-1", "20240101000000000")
    return [RecordedFile(name.instant, "commit", PartitionPath(""), name, 0, 1)] * count


def test_the_least_recently_used_commits_are_evicted() -> None:
    cache = CommitCache(10)
    cache.put(key(1), files(3))
    cache.put(key(2), files(3))
    assert cache.get(key(1)) == files(3)
    cache.put(key(3), files(3))
    assert [cache.get(key(number)) is not None for number in (1, 2, 3)] == [True, False, True]
    assert cache.num_files == 8


def test_it_never_holds_more_than_its_limit() -> None:
    cache = CommitCache(10)
    cache.put(key(0), files(10))
    assert cache.get(key(0)) is None
    for number in range(100):
        cache.put(key(number), files(number % 4))
        cache.put(key(number), files(number % 4))
        assert cache.num_files <= 10
    for number in range(100, 200):
        cache.put(key(number), [])
        assert cache.num_files <= 10
