"""The source of a merge on an engine: tasks stage its rows, and collect what the plan needs to know about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.model.layout import SOURCES
from hudi_py.storage import Storage
from hudi_py.write.context import TaskId
from hudi_py.write.dml.assignments import Assignment
from hudi_py.write.dml.matching import Matching, partitions_of_source
from hudi_py.write.dml.merge_plan import BoundClause, BoundMerge, choose
from hudi_py.write.routing import key_hashes
from hudi_py.write.rows.input import normalise_batch
from hudi_py.write.rows.keygen import KeyGenerator
from hudi_py.write.settings import WriteSettings
from hudi_py.write.staging import Stage, StagedFile

_MAX_PARTITIONS = 10_000
_BITS_OF_A_KEY = 16
_MIN_BITS, _MAX_BITS = 16, 29
"""Bits of a filter, as powers of two: at most 64 MiB."""


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What a merge computes from rows of its source alone. Pickles."""

    alias: str
    matching: Matching
    partitions: tuple[Assignment, ...]
    inserts: tuple[BoundClause, ...]
    keygen: KeyGenerator
    table: pa.Schema

    @classmethod
    def of(cls, bound: BoundMerge, settings: WriteSettings) -> SourceColumns:
        keygen, table = settings.keygen, settings.schema.arrow
        return cls(bound.plan.source_alias, bound.matching, bound.partitions, bound.not_matched, keygen, table)

    def inputs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows of the source as expressions see them."""
        rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        return pa.record_batch([rows], names=[self.alias])

    def texts(self, inputs: pa.RecordBatch) -> pa.StringArray:
        """Returns the texts by which rows match those of the table; see `Matching`."""
        return self.matching.of_source(inputs, self.keygen)

    @property
    def says_partitions(self) -> bool:
        """Whether ON compares partitions."""
        return bool(self.partitions) or self.matching.says_partitions

    def paths(self, inputs: pa.RecordBatch) -> pa.StringArray | None:
        """Returns the partitions that ON asks for; None if it does not ask for any."""
        if self.partitions:
            return partitions_of_source(self.partitions, inputs, self.keygen)
        return self.matching.partitions(self.texts(inputs))

    def new_paths(self, inputs: pa.RecordBatch) -> pa.StringArray:
        """Returns the partitions that rows go to if nothing matches them: at most one for each row."""
        names = self.keygen.partition_columns(self.table)
        paths = [pa.array([], pa.string())]
        chosen = choose(self.inserts, inputs)
        for number, clause in enumerate(self.inserts):
            rows = inputs.take(pa.array(np.flatnonzero(chosen == number)))
            given = {assignment.field.name: assignment for assignment in clause.assignments}
            columns = [
                given[name].evaluate(rows) if name in given else pa.nulls(rows.num_rows, self.table.field(name).type)
                for name in names
            ]
            if names:
                schema = pa.schema([self.table.field(name) for name in names])
                paths.append(self.keygen.partition_paths(pa.RecordBatch.from_arrays(columns, schema=schema)))
            else:
                paths.append(pa.repeat(pa.scalar("", pa.string()), rows.num_rows))
        return pa.concat_arrays(paths)


@dataclass(frozen=True, slots=True)
class StagedSource:
    """The rows of the source that one task has staged."""

    file: StagedFile
    num_rows: int
    hashes: str
    """The path of the hashes of the texts by which they match: 32 bits each, little endian."""
    inserts: tuple[tuple[str, int], ...]
    """The maximum number of new rows by partition; only for sizes."""
    partitions: tuple[str, ...] | None
    """Partitions that ON asks for; None: it does not ask for any, or there are many."""


def stage_rows(
    storage: Storage,
    token: str,
    task: TaskId,
    source: pa.Schema,
    columns: SourceColumns,
    rows: Iterable[pa.RecordBatch],
) -> StagedSource | None:
    """Stages the rows of one task attempt. Returns None if there are none.

    Args:
        source: normalised columns.

    Raises:
        SchemaMismatchError, ConfigError: a value that no table holds, or a key that cannot be evaluated.
    """
    stage = Stage(storage, f"{SOURCES}/{token}-{task}.arrow")
    hashes: list[npt.NDArray[np.uint32]] = []
    inserts: Counter[str] = Counter()
    partitions: set[str] = set()
    try:
        for batch in rows:
            normal = normalise_batch(batch.select(source.names), source)
            stage.add(normal)
            inputs = columns.inputs(normal)
            hashes.append(key_hashes(columns.texts(inputs)))
            asked = columns.paths(inputs) if len(partitions) <= _MAX_PARTITIONS else None
            if asked is not None:
                partitions.update(asked.drop_null().unique().to_pylist())
            try:
                counts = columns.new_paths(inputs).value_counts()
            except (ConfigError, SchemaMismatchError):
                continue  # also paths of rows that the table has, which are not inserted; an estimate is enough
            inserts.update(dict(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)))
        file = stage.close()
        if file is None:
            return None
        path = f"{SOURCES}/{token}-{task}.keys"
        storage.put(path, np.concatenate(hashes).astype("<u4").tobytes())
        known = tuple(sorted(partitions)) if columns.says_partitions and len(partitions) <= _MAX_PARTITIONS else None
        return StagedSource(file, sum(map(len, hashes)), path, tuple(inserts.items()), known)
    except BaseException:  # nothing staged may remain, even after an interrupt
        stage.abandon()
        raise


class KeyFilter:
    """Distinguishes keys that a source may have from those that it does not have."""

    def __init__(self, storage: Storage, files: Sequence[StagedSource]) -> None:
        rows = sum(file.num_rows for file in files)
        bits = min(max((rows * _BITS_OF_A_KEY).bit_length(), _MIN_BITS), _MAX_BITS)
        self._shift = np.uint32(32 - bits)
        self._has = np.zeros(1 << (bits - 3), np.uint8)
        for file in files:
            at = np.frombuffer(storage.read(file.hashes), "<u4") >> self._shift
            np.bitwise_or.at(self._has, at >> 3, np.uint8(1) << (at & 7).astype(np.uint8))

    def may_have(self, keys: pa.StringArray) -> npt.NDArray[np.bool_]:
        at = key_hashes(keys) >> self._shift
        known: npt.NDArray[np.bool_] = (self._has[at >> 3] >> (at & 7).astype(np.uint8) & 1).astype(np.bool_)
        return known
