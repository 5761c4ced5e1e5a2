"""How often each way of reading a file slice opens its base file and asks for parts of its files.

The figures are what the ways take today. They may only go down: lower them when one of them does.
"""

from __future__ import annotations

import io
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.file_stats.keys import KeyReader, log_file_changes
from hudi_py.merge import LogSpec, merge_settings
from hudi_py.model.files import FileSlice
from hudi_py.read.engines.planned import read_replaced, read_splits
from hudi_py.read.split import Split
from hudi_py.schema import with_meta
from hudi_py.services.compaction.service import CompactionReport
from hudi_py.storage import MemoryStorage, open_storage
from hudi_py.timeline.properties import load_table_config

COUNT = 2000
OFF = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}


class _Read(io.BytesIO):
    """An open file that counts what is read from it."""

    def __init__(self, data: bytes, note: Callable[[], None]) -> None:
        super().__init__(data)
        self._note = note

    def read(self, size: int | None = -1) -> bytes:
        self._note()
        return super().read(size)


class Tally:
    """Opened base files, and reads of base files and of logs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, what: str, path: str) -> None:
        if path.startswith(".hoodie"):
            return
        kind = "log" if ".log." in path else "base"
        with self._lock:
            self.counts[f"{kind} {what}"] += 1

    def of(self, way: Callable[[], Any]) -> tuple[int, int, int]:
        """Base files opened, reads of base files, reads of logs."""
        self.counts.clear()
        way()
        return self.counts["base opens"], self.counts["base reads"], self.counts["log reads"]


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    found = Tally()

    def read(storage: MemoryStorage, path: str) -> bytes:
        found.note("reads", path)
        return whole(storage, path)

    def read_range(storage: MemoryStorage, path: str, offset: int, length: int) -> bytes:
        found.note("reads", path)
        return whole(storage, path)[offset : offset + max(length, 0)]

    def open_input(storage: MemoryStorage, path: str) -> pa.NativeFile:
        found.note("opens", path)
        return pa.PythonFile(_Read(whole(storage, path), lambda: found.note("reads", path)), "r")

    whole = MemoryStorage.read
    monkeypatch.setattr(MemoryStorage, "read", read)
    monkeypatch.setattr(MemoryStorage, "read_range", read_range)
    monkeypatch.setattr(MemoryStorage, "open_input", open_input)
    return found


def rows(numbers: range, ts: int) -> pa.Table:
    columns = {"id": [f"k{number}" for number in numbers], "ts": [ts] * len(numbers), "v": list(numbers)}
    return pa.table(columns)


def made(logs: int, kind: str = "mor", **more: str) -> hudi_py.Table:
    """One file group: a base file, and logs that update a tenth of its rows."""
    path = f"memory://{uuid.uuid4()}"
    hudi_py.write(
        path,
        rows(range(COUNT), 1),
        "bulk_insert",
        record_key="id",
        ordering_by="ts",
        table_type=kind,
        options={**OFF, **more},
    )
    for number in range(logs):
        some = range(COUNT * 9 // 10, COUNT)
        hudi_py.write(path, rows(some, 2 + number), "upsert", options=OFF)
    return hudi_py.open_table(path, OFF)


def only(table: hudi_py.Table, **scan: Any) -> Split:
    (split,) = table.scan(**scan).splits()
    return split


def slice_of(table: hudi_py.Table) -> FileSlice:
    split = only(table)
    base = split.base_file
    assert base is not None
    return FileSlice(split.partition, split.file_id, base.instant, base, split.log_files)


def key_reader(table: hudi_py.Table) -> KeyReader:
    storage, schema = open_storage(table.uri), with_meta(rows(range(1), 1).schema)
    return KeyReader(storage, schema, LogSpec(merge_settings(load_table_config(storage))))


def reading(table: hudi_py.Table, **scan: Any) -> Callable[[], Any]:
    """The reading of a scan that is planned."""
    return table.scan(**scan).to_table


def counting(table: hudi_py.Table, **scan: Any) -> Callable[[], Any]:
    return table.scan(**scan).count


def done(report: CompactionReport) -> None:
    assert report.instant is not None


def native(split: Split) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "native: replaced rows", lambda: list(read_replaced(split.spec, [split]))
    yield "native: added rows", lambda: list(read_splits(split.spec, [replace(split, without_base=True)]))


def ways_without_logs() -> Iterator[tuple[str, Callable[[], Any]]]:
    table = made(0)
    yield "plan", table.scan
    yield "scan", reading(table)
    yield "scan with a filter", reading(table, filter="v < 10")
    yield "count", counting(table)
    yield "count with a filter", counting(table, filter="v < 10")
    scan = table.scan()
    yield "division at row groups", lambda: scan.splits(100)
    reader, whole = key_reader(table), slice_of(table)
    yield "keys", lambda: list(reader.of_slice(whole))


def ways_with_logs() -> Iterator[tuple[str, Callable[[], Any]]]:
    table = made(3)
    yield "plan", table.scan
    yield "scan", reading(table)
    yield "scan of one column", reading(table, columns="v")
    yield "scan with a filter", reading(table, filter="v < 10")
    yield "count", counting(table)
    yield "count with a filter", counting(table, filter="v < 10")
    begin = table.history()["completion_time"][0].as_py()
    yield "incremental", reading(table, query_type="incremental", begin=begin)
    yield from native(only(table))
    reader, whole = key_reader(table), slice_of(table)
    yield "keys", lambda: list(reader.of_slice(whole))
    before = replace(whole, log_files=whole.log_files[:-1])
    yield "keys changed by a log", lambda: log_file_changes(reader, before, whole.log_files[-1])
    yield "keys deleted by logs", lambda: reader.deleted_by(whole.log_files)
    yield "log compaction", lambda: done(table.log_compact(options={"hoodie.log.compaction.blocks.threshold": "2"}))
    other = made(3)
    yield "compaction", lambda: done(other.compact())


def ways_of_late_rows() -> Iterator[tuple[str, Callable[[], Any]]]:
    """A log row is older than the base row of its key: which rows win depends on the base file."""
    table = made(1)
    hudi_py.write(str(table.uri), rows(range(10), 0), "upsert", options=OFF)
    yield "scan", reading(table)
    yield "count", counting(table)
    yield from native(only(table))


def ways_of_changes() -> Iterator[tuple[str, Callable[[], Any]]]:
    table = made(2, **{"hoodie.table.cdc.enabled": "true"})
    begin = table.history()["instant"][0].as_py()
    yield "changes of logs", reading(table, query_type="cdc", begin=begin)
    yield "changes of a new file", reading(table, query_type="cdc", begin="000", end=begin)
    logged = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"}
    other = made(0, "cow", **logged)
    hudi_py.write(other.uri, rows(range(10), 2), "upsert", options=OFF)
    begun = other.history()["instant"][0].as_py()
    yield "changes of change logs", reading(other, query_type="cdc", begin=begun)


WAYS = {
    "without logs": ways_without_logs,
    "with logs": ways_with_logs,
    "late rows": ways_of_late_rows,
    "changes": ways_of_changes,
}
TAKEN: dict[str, dict[str, tuple[int, int, int]]] = {
    "without logs": {
        "plan": (1, 1, 0),
        "scan": (1, 2, 0),
        "scan with a filter": (1, 2, 0),
        "count": (1, 1, 0),
        "count with a filter": (1, 2, 0),
        "division at row groups": (1, 1, 0),
        "keys": (1, 2, 0),
    },
    "with logs": {
        "plan": (0, 0, 1),
        "scan": (1, 2, 3),
        "scan of one column": (1, 2, 3),
        "scan with a filter": (1, 2, 3),
        "count": (1, 1, 3),
        "count with a filter": (1, 2, 3),
        "incremental": (0, 0, 3),
        "native: replaced rows": (1, 1, 3),
        "native: added rows": (1, 1, 3),
        "keys": (1, 2, 3),
        "keys changed by a log": (2, 4, 6),
        "keys deleted by logs": (0, 0, 3),
        "log compaction": (0, 0, 6),
        "compaction": (1, 2, 4),
    },
    "late rows": {
        "scan": (1, 2, 2),
        "count": (1, 2, 2),
        "native: replaced rows": (1, 2, 2),
        "native: added rows": (1, 2, 2),
    },
    "changes": {
        "changes of logs": (2, 4, 3),
        "changes of a new file": (1, 2, 0),
        "changes of change logs": (2, 4, 1),
    },
}
"""Base files opened, reads of base files, reads of logs."""


@pytest.mark.parametrize("kind", WAYS)
def test_ways_to_read_a_slice_take_no_more_than_before(tally: Tally, kind: str) -> None:
    found = {name: tally.of(way) for name, way in WAYS[kind]()}
    assert found == TAKEN[kind]
