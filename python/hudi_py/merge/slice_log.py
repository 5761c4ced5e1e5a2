"""Reads the log of a file slice: the blocks that count, and the versions of records in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_py.formats.log import LogBlock
from hudi_py.merge.decode import PORTION_BYTES, check_blocks, read_versions
from hudi_py.merge.log import CommittedInstants, scan_log
from hudi_py.merge.positions import base_rows
from hudi_py.merge.records import LogRecords, reduce_versions
from hudi_py.merge.settings import MergeSettings
from hudi_py.merge.spill import LogMemory, SpilledLog
from hudi_py.merge.versions import LogVersions, concat_versions
from hudi_py.model.files import LogFile
from hudi_py.schema import OPERATION, RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage, holding

_MAX_PORTION = 64 << 20
_MIN_PORTION = 1 << 18


@dataclass(frozen=True, slots=True)
class LogSpec:
    """How the logs of a table's file slices are read and merged. Pickles small."""

    merge: MergeSettings
    committed: CommittedInstants | None = None
    """Instants whose blocks count; None if the log files were chosen by their instants (table versions 8 and 9)."""
    as_of: str | None = None
    """Blocks of later instants are ignored."""
    memory: LogMemory = field(default_factory=LogMemory)
    """How much memory the log of one slice may take."""
    read_damaged: bool = False
    """Whether the readable rest of damaged logs is read, with a warning."""

    def open(
        self,
        storage: Storage,
        files: Sequence[LogFile],
        history: SchemaHistory | None = None,
        *,
        instant: str | None = None,
    ) -> SliceLog:
        """Return the log of a slice; small files are read with one request each.

        Args:
            files: the slice's log files in order.
            history: maps columns of a block to those of the table; if None, they are matched by name.
            instant: only blocks of this instant count; None: all.

        Raises:
            CorruptFileError, UnsupportedTableError: see `scan_log` and `SliceLog`.
        """
        storage = holding(storage, ((file.path, file.size) for file in files))
        blocks = scan_log(storage, files, committed=self.committed, as_of=self.as_of, read_damaged=self.read_damaged)
        if instant is not None:
            blocks = [block for block in blocks if block.instant_time == instant]
        return SliceLog(storage, blocks, self, history)


@dataclass(frozen=True, slots=True)
class SliceLog:
    """The blocks of a slice's log that count, oldest first, see `scan_log`.

    Raises:
        UnsupportedTableError, CorruptFileError: a block cannot be read, see `check_blocks`.
    """

    storage: Storage
    blocks: Sequence[LogBlock]
    spec: LogSpec
    history: SchemaHistory | None = None

    def __post_init__(self) -> None:
        check_blocks(self.blocks, self.spec.merge)

    @property
    def partial(self) -> bool:
        """Whether there are partial updates, which take their other columns from older versions."""
        return any(block.is_partial for block in self.blocks)

    def columns(self, table_schema: pa.Schema, wanted: Collection[str]) -> pa.Schema:
        """Return the columns `wanted`, with those that a merge needs of log records."""
        needed = {*wanted, RECORD_KEY, OPERATION, *self.spec.merge.columns}
        schema = pa.schema([each for each in table_schema if each.name in needed])
        return schema if RECORD_KEY in schema.names else schema.append(pa.field(RECORD_KEY, pa.string()))

    def versions(self, schema: pa.Schema, *, portion_bytes: int = PORTION_BYTES) -> Iterator[LogVersions]:
        """Yield the versions in the blocks, see `read_versions`."""
        return read_versions(
            self.storage, self.blocks, schema, self.spec.merge, history=self.history, portion_bytes=portion_bytes
        )

    def load(
        self, schema: pa.Schema, *, keep_deletes: bool = False, base_instant: str | None = None
    ) -> LogRecords | SpilledLog | None:
        """Return one version for each key, in memory if they fit; None if the log has no records.

        Args:
            schema: columns to read, see `columns`; each block's records are conformed to it.
            keep_deletes: see `reduce_versions`.
            base_instant: instant of the base file to merge with, if the records may be matched by its row numbers: they
                get `base_rows` if the blocks have positions.

        Raises:
            CorruptFileError, SchemaMismatchError: a block contradicts the format, or the schema.
        """
        settings, memory = self.spec.merge, self.spec.memory
        held: list[LogVersions] = []
        size = content = 0
        total = sum(block.content_length for block in self.blocks)
        portion = min(max(memory.limit // 16, _MIN_PORTION), _MAX_PORTION)
        spilled: SpilledLog | None = None
        try:
            for versions in self.versions(schema, portion_bytes=portion):
                if spilled is not None:
                    spilled.add(versions)
                    continue
                held.append(versions)
                size += versions.nbytes
                content += versions.content_bytes
                if size > memory.held:
                    expected = size * max(total, content) // max(content, 1)
                    spilled = SpilledLog(settings, memory, expected, keep_deletes=keep_deletes)
                    while held:
                        spilled.add(held.pop(0))
        except BaseException:  # remove the files in any case
            if spilled is not None:
                spilled.close()
            raise
        if spilled is not None:
            return spilled
        if not held:
            return None
        versions = concat_versions(held)
        records = reduce_versions(versions, settings, keep_deletes=keep_deletes)
        found = None if base_instant is None else base_rows(versions, records.winners, self.blocks, base_instant)
        return records if found is None else replace(records, base_rows=found)

    def parts(self, schema: pa.Schema) -> Iterator[LogRecords]:
        """Yield what `load` returns, in parts if it exceeds the memory; no key is in two parts."""
        log = self.load(schema)
        if isinstance(log, LogRecords):
            yield log
        elif log is not None:
            with log:
                yield from log.parts()
