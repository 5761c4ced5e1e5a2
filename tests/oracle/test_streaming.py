"""A stream beside Apache Hudi's writer: fifty commits with compaction, clustering, cleaning and archiving between them.

The streams are restarted after every few commits from what a checkpoint would hold. Spark is left out here: it adds
nothing but the loop around these calls (tests/connector/test_stream.py).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.read import read_split
from hudi_py.read.streams.backlog import BatchLimits, StreamOffset
from hudi_py.read.streams.stream import TableStream
from hudi_py.storage import open_storage
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle

pytestmark = pytest.mark.slow

COMMITS = 50
CHUNK = 5
CITIES = ("oslo", "lima")
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
TS = 3
# A consumer that is one chunk behind must find all it needs; one that is twenty commits behind must not.
SERVICES = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "4",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "9",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "8",
    "hoodie.cleaner.commits.retained": "8",
    "hoodie.keep.min.commits": "10",
    "hoodie.keep.max.commits": "12",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
}


class Consumer:
    """A stream that keeps nothing but its last offset, as JSON, from one run to the next."""

    def __init__(self, path: Path, limits: BatchLimits | None = None, **options: str) -> None:
        self._path = str(path)
        self._limits = limits
        self._options = Options.resolve(options, Scope.READ, defaults={})
        self._checkpoint: str | None = None

    def run(self) -> Iterator[tuple[StreamOffset, StreamOffset, pa.Table]]:
        """The batches there are: beginning, end and rows; the last one is planned twice, as after a failure."""
        stream = self._open()
        start = stream.initial_offset() if self._checkpoint is None else self._restored()
        while (end := stream.latest_offset(start, self._limits)) != start:
            rows = self._read(stream, start, end)
            self._checkpoint = json.dumps(end.to_json())
            yield start, end, rows
            assert self._read(self._open(), start, end).equals(rows)
            start = self._restored()

    def skip_to(self, offset: StreamOffset) -> None:
        self._checkpoint = json.dumps(offset.to_json())

    def _restored(self) -> StreamOffset:
        assert self._checkpoint is not None
        return StreamOffset.from_json(json.loads(self._checkpoint))

    def _open(self) -> TableStream:
        return TableStream(open_storage(self._path), self._options)

    @staticmethod
    def _read(stream: TableStream, start: StreamOffset, end: StreamOffset) -> pa.Table:
        plan = stream.plan_batch(start, end)
        assert plan is not None
        batches = [batch for split in plan.splits for batch in read_split(split)]
        return pa.Table.from_batches(batches, plan.spec.output_schema)


class Sink:
    """What a consumer has that keeps one version of each key.

    A batch of one merge-on-read commit has the rows as they were written, for Apache Hudi merges only what the range
    wrote: a row that came late, and lost against an older commit's, is there. So the ordering field decides.
    """

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}

    def take(self, batch: pa.Table) -> None:
        ids = batch["_hoodie_record_key"].to_pylist()
        assert len(set(ids)) == len(ids), "a key occurs once in a batch"
        for key, row in zip(ids, _values(batch), strict=True):
            if key not in self.rows or row[TS] >= self.rows[key][TS]:
                self.rows[key] = row

    def compare(self, state: Mapping[str, tuple[Any, ...]], deleted: set[str]) -> None:
        """Equal to the table's rows, but for keys that were deleted, of which this consumer is not told."""
        kept = {key: row for key, row in self.rows.items() if key not in deleted}
        assert kept == {key: row for key, row in state.items() if key not in deleted}
        assert state.keys() <= self.rows.keys()


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("_hoodie_commit_time", *SCHEMA.names)
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


class Writer:
    """Apache Hudi, making commits that are a pure function of their number."""

    def __init__(self, oracle: Oracle, path: Path, version: int) -> None:
        self._oracle = oracle
        self._path = path
        self._version = version
        self.deleted: set[str] = set()
        """Keys that were deleted once; some came back."""
        self.count = 0

    def write(self, commits: int) -> None:
        for _ in range(commits):
            self.count += 1
            self._write(self.count)

    def _write(self, number: int) -> None:
        rnd = random.Random(number)
        ids = rnd.sample(range(40 + 2 * number), 8)
        delete = number % 7 == 0
        # a row in ten arrives late and must lose
        rows = [
            {"id": f"k{n}", "city": CITIES[n % 2], "ts": number - 30 * (rnd.random() < 0.1), "v": f"{number}-{n}"}
            for n in ids
        ]
        if delete:
            rows = [{**row, "ts": number} for row in rows[:3]]
        keys = {row["id"] for row in rows}
        self.deleted |= keys if delete else set()
        first = {
            "key": "id",
            "ordering": "ts",
            "partition": "city",
            "type": "mor",
            "table_version": self._version,
            "name": "s",
        }
        self._oracle.write(
            self._path,
            pa.Table.from_pylist(rows, schema=SCHEMA),
            "delete" if delete else "upsert",
            **(first if number == 1 else {}),
            options=SERVICES,
        )


@pytest.mark.long
@pytest.mark.parametrize("version", [6, 9])
def test_fifty_commits_with_services(oracle: Oracle, tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    writer = Writer(oracle, path, version)
    writer.write(1)
    by_chunk, by_commit = (
        Consumer(path),
        Consumer(path, BatchLimits(commits=1), **{"hoodie.datasource.streaming.startOffset": "earliest"}),
    )
    chunks, commits = Sink(), Sink()
    early: StreamOffset | None = None
    delivered: list[str] = []
    for _ in range(COMMITS // CHUNK):
        writer.write(CHUNK)
        for start, _end, batch in by_chunk.run():
            assert (start.time == "") == (not chunks.rows)
            chunks.take(batch)
        for start, end, batch in by_commit.run():
            times = pc.unique(batch["_hoodie_commit_time"]).to_pylist()
            assert len(times) <= 1
            delivered += times
            theirs = oracle.read(path, begin=start.time, end=end.time)
            assert_rows_equal(batch, theirs)
            commits.take(batch)
            early = early or end
    assert len(delivered) == len(set(delivered)), "each commit came once"
    _check_services(oracle, path)
    final = hudi_py.open_table(str(path)).scan().to_table()
    assert_rows_equal(final, oracle.read(path))
    state = dict(zip(final["_hoodie_record_key"].to_pylist(), _values(final), strict=True))
    chunks.compare(state, writer.deleted)
    commits.compare(state, writer.deleted)

    assert early is not None
    _check_far_behind(path, early, state, writer.deleted)


def _check_services(oracle: Oracle, path: Path) -> None:
    """The table had them all: else the test shows nothing."""
    timeline = oracle.timeline(path)
    actions = [instant["action"] for instant in timeline]
    assert sum(action == "deltacommit" for action in actions) >= COMMITS
    assert {"commit", "replacecommit", "clean"} <= set(actions)
    assert sum(instant["archived"] for instant in timeline) > COMMITS // 2


def _check_far_behind(path: Path, early: StreamOffset, state: Mapping[str, tuple[Any, ...]], deleted: set[str]) -> None:
    """A consumer that the cleaner has overtaken is told so, or reads what is left where it says it wants that."""
    one = BatchLimits(commits=1)
    slow = Consumer(path, one)
    slow.skip_to(early)
    with pytest.raises(hudi_py.HistoryCleanedError, match="slower than the cleaner.*fallback.fulltablescan"):
        list(slow.run())
    # All at once it needs the newest files alone, and finds the commits in the archive; else it takes what is left
    for limits, declared in ((None, "false"), (one, "true")):
        taken = Sink()
        consumer = Consumer(path, limits, **{"hoodie.datasource.read.incr.fallback.fulltablescan.enable": declared})
        consumer.skip_to(early)
        for _start, _end, batch in consumer.run():
            taken.take(batch)
        before = {key: row for key, row in state.items() if row[0] <= early.time}
        assert before.keys() & taken.rows.keys() <= deleted
        taken.rows |= before
        taken.compare(state, deleted)
