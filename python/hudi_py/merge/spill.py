"""Spills logs that exceed their memory: splits them by key hash into Arrow IPC files, and reduces part by part.

The base file is streamed once. Rows whose key hash is not in the log are returned immediately, the others wait in files
of the same parts. So the order of rows differs from that without spilling, but is deterministic for a given limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.config.read import FLINK_MERGE_MEMORY, MERGE_MEMORY, SPILL_FOLDER
from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.hashing import java_string_hash
from hudi_py.formats.temporary import TemporaryFiles
from hudi_py.merge.base import BaseMerge, MergeCounts, Watch
from hudi_py.merge.records import LogRecords, reduce_versions
from hudi_py.merge.reduce import Mask, Rows
from hudi_py.merge.settings import MergeSettings
from hudi_py.merge.versions import KEY, LogVersions
from hudi_py.schema import RECORD_KEY

_MAX_PARTS: Final = 64
"""Each part has up to three files open."""
_POSITION: Final = "\0position"
_LACKS: Final = "\0lacks"


@dataclass(frozen=True, slots=True)
class LogMemory:
    """How much memory the log of one file slice may take."""

    limit: int = 1 << 30
    """Limit in bytes, including what it takes to reduce the decoded versions."""
    folder: str | None = None
    """Parent of the temporary folder for spilled files; None: the system's default."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LogMemory:
        """Reads the options `hoodie.memory.merge.max.size` or `compaction.max_memory` (in megabytes), and
        `hoodie.memory.spillable.map.path`."""
        limit = cls().limit
        if MERGE_MEMORY.key in options:
            limit = MERGE_MEMORY.parse(options[MERGE_MEMORY.key])
        elif FLINK_MERGE_MEMORY.key in options:
            limit = FLINK_MERGE_MEMORY.parse(options[FLINK_MERGE_MEMORY.key]) << 20
        folder = os.path.expanduser(options.get(SPILL_FOLDER.key, "").strip())
        return cls(limit, folder or None)

    @property
    def held(self) -> int:
        """Returns how many bytes of decoded versions may be in memory; reducing them takes about twice as much in
        addition."""
        return max(self.limit // 3, 1)


class SpilledLog(TemporaryFiles):
    """The versions of a log in files, by key hash; `close` removes the files."""

    def __init__(self, settings: MergeSettings, memory: LogMemory, expected_bytes: int, *, keep_deletes: bool) -> None:
        super().__init__("hudi-py-spill-", memory.folder)
        self._settings = settings
        self._keep_deletes = keep_deletes
        self._parts = int(min(max(-(-4 * expected_bytes // (3 * memory.held)), 2), _MAX_PARTS))
        self._files: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
        self._sinks: list[pa.OSFile] = []
        self._lacking: list[frozenset[str]] = [frozenset()]
        self._hashes: list[npt.NDArray[np.int32]] = []
        self._partial_from: int | None = None

    def close(self) -> None:
        """See `TemporaryFiles.close`."""
        self._end_writing()
        super().close()

    def add(self, versions: LogVersions) -> None:
        """Writes versions to the files of their parts."""
        if versions.partial_from is not None and self._partial_from is None:
            self._partial_from = versions.partial_from
        rows = versions.rows.append_column(_POSITION, pa.array(versions.position))
        rows = rows.append_column(_LACKS, pa.array(self._lacking_numbers(versions)))
        hashes = self._write("rows", rows, RECORD_KEY), self._write("entries", versions.entries, KEY)
        self._hashes.append(np.unique(np.concatenate(hashes)))

    def merged_with(
        self, base: Iterable[pa.RecordBatch], counts: MergeCounts | None = None, watch: Watch | None = None
    ) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yields the batches of the slice, each with whether it holds deletes; see `merge_with_base`."""
        hashes = np.unique(np.concatenate(self._hashes)) if self._hashes else np.zeros(0, np.int32)
        for batch in base:
            codes = java_string_hash(batch.column(RECORD_KEY))
            positions = np.minimum(np.searchsorted(hashes, codes), max(len(hashes) - 1, 0))
            hit = hashes[positions] == codes if len(hashes) else np.zeros(len(codes), np.bool_)
            if hit.any():
                self._write("base", pa.Table.from_batches([batch]).filter(pa.array(hit)), RECORD_KEY)
            rest = batch if not hit.any() else batch.filter(pa.array(~hit))
            if rest.num_rows:
                yield rest, False
        self._end_writing()
        for part in range(self._parts):
            records = self._reduced(part)
            if records is None:
                continue
            merge = BaseMerge(records, self._settings, counts=counts, watch=watch)
            for batch in self._stored("base", part):
                yield from ((rows, False) for rows in merge.add(batch))
            yield from ((rows, False) for rows in merge.rest())
            if self._keep_deletes:
                yield from ((rows, True) for rows in merge.deletes())

    def parts(self) -> Iterator[LogRecords]:
        """Yields the records of each part; no key is in two parts. Nothing can be added or merged afterwards."""
        self._end_writing()
        for part in range(self._parts):
            records = self._reduced(part)
            if records is not None:
                yield records

    def _reduced(self, part: int) -> LogRecords | None:
        rows, entries = self._table("rows", part), self._table("entries", part)
        if not rows.num_rows and not entries.num_rows:
            return None
        lacks = combined(rows[_LACKS]).to_numpy()
        names = {name for number in np.unique(lacks) for name in self._lacking[number]}
        absent: dict[str, Mask] = {
            name: np.isin(lacks, [index for index, lacking in enumerate(self._lacking) if name in lacking])
            for name in names
        }
        position: Rows = combined(rows[_POSITION]).to_numpy()
        versions = LogVersions(rows.drop_columns([_POSITION, _LACKS]), position, entries, absent, self._partial_from)
        return reduce_versions(versions, self._settings, keep_deletes=self._keep_deletes)

    def _table(self, kind: str, part: int) -> pa.Table:
        with (
            pa.OSFile(self.file(f"{kind}-{part}"), "rb") as source,
            pa.ipc.open_stream(source) as reader,
        ):
            return reader.read_all()

    def _lacking_numbers(self, versions: LogVersions) -> npt.NDArray[np.int32]:
        """Returns for each row the number of its set of missing columns."""
        numbers = np.zeros(versions.rows.num_rows, np.int32)
        names = sorted(versions.absent)
        if not names:
            return numbers
        patterns, which = np.unique(np.stack([versions.absent[name] for name in names], 1), axis=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            lacking = frozenset(name for name, lacks in zip(names, pattern, strict=True) if lacks)
            if lacking not in self._lacking:
                self._lacking.append(lacking)
            numbers[which.reshape(-1) == index] = self._lacking.index(lacking)
        return numbers

    def _write(self, kind: str, table: pa.Table, key: str) -> npt.NDArray[np.int32]:
        """Writes rows to the files of their parts, keeping their order; returns the hashes of their keys."""
        hashes = java_string_hash(table[key])
        parts = hashes.astype(np.int64) % self._parts
        order = np.argsort(parts, kind="stable")
        sorted_rows = table.take(pa.array(order))
        bounds = np.searchsorted(parts[order], np.arange(self._parts + 1))
        for part in range(self._parts):
            rows = sorted_rows.slice(int(bounds[part]), int(bounds[part + 1] - bounds[part]))
            self._writer(kind, part, table.schema).write_table(rows)
        return hashes

    def _writer(self, kind: str, part: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        name = f"{kind}-{part}"
        if name not in self._files:
            sink = pa.OSFile(self.file(name), "wb")
            self._sinks.append(sink)
            self._files[name] = pa.ipc.new_stream(sink, schema)
        return self._files[name]

    def _end_writing(self) -> None:
        for writer in self._files.values():
            writer.close()
        for sink in self._sinks:
            sink.close()
        self._files, self._sinks = {}, []

    def _stored(self, kind: str, part: int) -> Iterator[pa.RecordBatch]:
        path = self.file(f"{kind}-{part}")
        if os.path.exists(path):
            with pa.OSFile(path, "rb") as source, pa.ipc.open_stream(source) as reader:
                yield from reader
