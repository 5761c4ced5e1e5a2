"""What a small commit of one process asks of the storage, and what it reads twice.

The figures are what a commit takes today. They may only go down: lower them when one of them does.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.metadata import files as metadata_files
from hudi_py.storage import flushing
from hudi_py.storage.local import LocalStorage
from tests.support.power import REAL_FLUSHES

READS = ("read", "read_range", "open_input", "stat", "exists")
LISTS = ("list", "names", "walk")
CHANGES = ("put", "put_if_absent", "open_output", "rename", "delete", "delete_tree", "touch")
OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


class Tally:
    """Counts calls of the storage by kind, flushes to disk, threads, and whole readings of the list of files."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.paths: list[str] = []
        self._inside = threading.local()
        for kind, names in (("reads", READS), ("lists", LISTS), ("changes", CHANGES)):
            for name in names:
                if hasattr(LocalStorage, name):
                    patch.setattr(LocalStorage, name, self._counted(kind, getattr(LocalStorage, name)))
        patch.setattr(flushing.Unflushed, "_flush", REAL_FLUSHES[0])
        patch.setattr(flushing, "_flush_data", self._noted("flushes", lambda _: None))
        patch.setattr(os, "fsync", self._noted("flushes", lambda _: None))
        patch.setattr(threading.Thread, "start", self._noted("threads", threading.Thread.start))
        patch.setattr(metadata_files, "read_files", self._noted("lists of files", metadata_files.read_files))

    def of(self, way: Callable[[], Any]) -> dict[str, int]:
        self.counts.clear()
        self.paths.clear()
        way()
        return dict(self.counts)

    def _noted(self, what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.counts[what] += 1
            return real(*arguments)

        return call

    def _counted(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(storage: LocalStorage, path: str = "", *arguments: Any, **named: Any) -> Any:
            # not what one method does by another, nor whether others wait for the lock, which depends on the time
            outermost = not getattr(self._inside, "held", False) and not path.endswith("lock.waiting")
            if outermost:
                self.counts[kind] += 1
                self.paths.append(path)
                self._inside.held = True
            try:
                return real(storage, path, *arguments, **named)
            finally:
                if outermost:
                    self._inside.held = False

        return call


def rows(start: int, count: int, ts: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": [f"k{n:05}" for n in numbers], "ts": [ts] * count, "p": ["a"] * count, "v": list(numbers)})


def commits(path: Path, kind: str, operation: str, options: dict[str, str], count: int) -> Callable[[], Any]:
    """Makes a table of some commits; what makes the next one."""
    more = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(path, rows(0, 100, 0), "insert", options=options, **more)

    def commit(number: int) -> None:
        start = 100 * number if operation == "insert" else 0
        hudi_py.write(path, rows(start, 10, number), operation, options=options)

    for number in range(1, count):
        commit(number)
    return lambda: commit(count)


WAYS = [("cow", "insert"), ("cow", "upsert"), ("mor", "upsert")]
PLAIN = {"lists": 11, "changes": 18, "flushes": 15, "threads": 2}
WITH_METADATA = {"lists": 13, "changes": 25, "flushes": 30, "threads": 2, "lists of files": 1}
TAKEN: dict[tuple[str, str], tuple[dict[str, int], dict[str, int]]] = {
    ("cow", "insert"): ({"reads": 28, **PLAIN}, {"reads": 44, **WITH_METADATA}),
    ("cow", "upsert"): ({"reads": 26, **PLAIN}, {"reads": 42, **WITH_METADATA}),
    ("mor", "upsert"): ({"reads": 25, **PLAIN}, {"reads": 46, **WITH_METADATA}),
}
"""For each way, without the metadata table and with it."""


@pytest.mark.parametrize(("kind", "operation"), WAYS)
def test_a_small_commit_takes_no_more_than_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, operation: str
) -> None:
    found = []
    for metadata in ("false", "true"):
        options = {**OPTIONS, "hoodie.metadata.enable": metadata}
        commit = commits(tmp_path / metadata, kind, operation, options, 3)
        with monkeypatch.context() as patch:
            found.append(Tally(patch).of(commit))
    assert tuple(found) == TAKEN[kind, operation]


def test_statistics_of_a_partition_are_read_from_the_newest_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log but the newest is opened for its header alone, however many there are."""
    contents = []
    for count in (2, 4):
        commit = commits(tmp_path / str(count), "mor", "upsert", OPTIONS, count)
        with monkeypatch.context() as patch:
            tally = Tally(patch)
            tally.of(commit)
        logs = [path for path in tally.paths if "/partition_stats/.partition-stats" in path]
        contents.append(len(logs) - len(set(logs)))
    assert contents[0] == contents[1]
