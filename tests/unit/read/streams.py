"""Streams without Spark, and tables for them: made by writes, or by hand instant for instant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action
from hudi_py.model.names import parse_log_file_name
from hudi_py.read import read_split
from hudi_py.read.streams.backlog import BatchLimits, StreamOffset
from hudi_py.read.streams.stream import TableStream
from hudi_py.storage import open_storage
from tests.unit.read.tables import FILE_ID, MadeTable, instant

START_OFFSET = "hoodie.datasource.streaming.startOffset"
ONE = BatchLimits(commits=1)
Batch = tuple[StreamOffset, StreamOffset, list[tuple[Any, ...]]]


def stream_of(path: str, schema: pa.Schema | None = None, **options: str) -> TableStream:
    return TableStream(open_storage(path), Options.resolve(options, Scope.READ, defaults={}), schema)


def batches(
    stream: TableStream, start: StreamOffset | None = None, limits: BatchLimits | None = None, names: str = "id v"
) -> Iterator[Batch]:
    """Batch after batch to the newest commit; what a checkpoint keeps goes through JSON."""
    start = start or stream.initial_offset()
    while (end := stream.latest_offset(start, limits)) != start:
        yield start, end, rows_of(stream, start, end, names)
        start = StreamOffset.from_json(json.loads(json.dumps(end.to_json())))


def rows_of(stream: TableStream, start: StreamOffset, end: StreamOffset, names: str = "id v") -> list[tuple[Any, ...]]:
    plan = stream.plan_batch(start, end)
    if plan is None:
        return []
    found = [
        tuple(each[name] for name in names.split())
        for split in plan.splits
        for b in read_split(split)
        for each in b.to_pylist()
    ]
    return sorted(found)


def rows(run: Iterator[Batch]) -> list[list[tuple[Any, ...]]]:
    return [found for _, _, found in run]


KEYED: dict[str, Any] = {"record_key": "id", "ordering_by": "ts"}


def upsert(path: str, values: dict[str, int], version: int = 9, kind: str = "MERGE_ON_READ") -> str:
    data = [{"id": id, "ts": v, "v": v} for id, v in values.items()]
    if Path(path).exists():
        return hudi_py.write(path, data).instant
    return hudi_py.write(path, data, "upsert", table_version=version, table_type=kind, **KEYED).instant


class Made(MadeTable):
    """Commits with what a stream looks at: the files in their metadata."""

    def __init__(self, path: str, version: int) -> None:
        super().__init__(path, version=version)
        self.base_at: int | None = None

    def write(self, at: int, *rows: dict[str, Any], completed: int | None = None) -> None:
        """A base file first, then logs."""
        if self.base_at is None:
            self.base_at = at
            file = self.base(at, rows)
        else:
            file = self.log(at, list(rows), base_at=self.base_at, number=at)
        self.done(at, file, completed=completed)

    def done(self, at: int, file: str, **more: Any) -> None:
        name = parse_log_file_name(file)
        size = self.storage.stat(file)
        assert size is not None
        stat = WriteStat(
            FILE_ID, file, "", num_writes=1, file_size=size.size, log_version=None if name is None else name.version
        )
        action = more.get("action", Action.DELTA_COMMIT)
        for name in (self.layout.requested_name, self.layout.inflight_name):
            self.storage.delete(self.layout.path(name(instant(at), action)))
        self.commit(at, stats=(stat,), **more)


def made_rows(stream: TableStream, start: StreamOffset | None = None) -> list[list[tuple[Any, ...]]]:
    return [found for _, _, found in batches(stream, start, ONE, "id ts")]
