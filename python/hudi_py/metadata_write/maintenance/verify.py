"""Compares the metadata table with the table's files.

Each partition that hudi-py maintains is compared with the records that a rebuild would write: files by listing the
storage, statistics and filters by reading footers and logs, the record index by reading all keys.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.errors import ConfigError, CorruptFileError, first_line
from hudi_py.merge import scan_log
from hudi_py.metadata.table import (
    MetadataTable,
    open_metadata,
    valid_instants,
)
from hudi_py.metadata_write.encoding.records import no_keys, no_values
from hudi_py.metadata_write.maintenance.compact import merge_slice
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.registry import maintained, maintained_names, partition_of
from hudi_py.metadata_write.table.create import lost_files
from hudi_py.metadata_write.table.delta import GroupBuffer, GroupKey
from hudi_py.metadata_write.table.source import TableSource, schema_text
from hudi_py.model.names import nested_partitions
from hudi_py.model.words import Spoken, counted
from hudi_py.progress import Progress
from hudi_py.services.context import ServiceContext
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.session import TableSession
from hudi_py.view import StorageLister, load_view

_EXAMPLES: Final = 10


@dataclass(frozen=True, slots=True, repr=False)
class PartitionCheck(Spoken):
    """The result of verifying one partition of the metadata table."""

    partition: str
    records: int = 0
    """Number of records in the partition."""
    missing: int = 0
    """Number of records that should exist but do not."""
    wrong: int = 0
    """Number of records that contradict the table's files."""
    superfluous: int = 0
    """Number of records about things that do not exist. They are harmless in statistics and filters."""
    examples: tuple[str, ...] = ()
    """Descriptions of some differences."""
    error: str = ""
    """Why the partition could not be compared, such as an unreadable data file; empty if it was compared."""

    @property
    def ok(self) -> bool:
        """Whether lookups agree with the table's files."""
        known = partition_of(self.partition)
        harm = known is None or known.superfluous_harm
        return not (self.error or self.missing or self.wrong or (self.superfluous and harm))

    def _text(self) -> str:
        counts = {"missing": self.missing, "wrong": self.wrong, "superfluous": self.superfluous}
        differences = "".join(f", {count:,} {kind}" for kind, count in counts.items() if count)
        harmless = " (harmless)" if self.ok and self.superfluous else ""
        if self.error:
            return f"{self.partition}: not compared: {self.error}"
        return f"{self.partition}: {counted(self.records, 'record')}{differences}{harmless}"


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Spoken):
    """The result of verifying a metadata table."""

    partitions: tuple[PartitionCheck, ...] = ()
    unchecked: tuple[str, ...] = ()
    """Partitions of indexes that hudi-py does not maintain."""
    reason: str = ""
    """Why no partition was compared; empty if any was."""
    lost_files: tuple[str, ...] = ()
    """Data files that completed commits wrote and that are missing or too short: path, commit and problem."""
    nested: tuple[str, ...] = ()
    """Partitions that lie in another. A metadata table that Apache Hudi builds lacks them."""

    @property
    def ok(self) -> bool:
        """Whether no data file is lost and every compared partition is correct."""
        return not self.lost_files and all(check.ok for check in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
        return {**asdict(self), "ok": self.ok}

    def _text(self) -> str:
        """Returns a summary, then a line for each lost file and partition, with examples of differences."""
        bad = [check.partition for check in self.partitions if not check.ok]
        if self.lost_files:
            summary = "data files are lost: restore them from a copy, or roll back the commits that wrote them"
        elif self.reason:
            summary = f"not compared: {self.reason}"
        else:
            summary = f"differs from the files: rebuild {', '.join(bad)}" if bad else "matches the files"
        lines = [f"metadata table: {summary}", *(f"  {lost}" for lost in self.lost_files)]
        lines += (
            f"  the partition {path!r} lies in another: a metadata table that Apache Hudi builds lacks it"
            for path in self.nested
        )
        for check in self.partitions:
            lines.append(f"  {check}")
            lines += (f"    {example}" for example in ([] if check.ok else check.examples))
        lines += (f"  {name}: not compared, hudi-py does not maintain it" for name in self.unchecked)
        return "\n".join(lines)


def verify(context: ServiceContext, names: Collection[str] | None = None) -> VerifyReport:
    """Compares partitions of the metadata table (by default all) with the table's files, under the table lock. Changes
    nothing. Lost and damaged data files are reported, not raised.

    Memory is bounded by the largest file group of the metadata table.

    Args:
        context: of the table, not of its metadata table.

    Raises:
        ConfigError: the table has no such partition, or hudi-py does not maintain it.
        CorruptFileError: the metadata table cannot be read at all, or lacks commits of its table.
        LockError: the table lock could not be acquired in time.
    """
    with context.locked("verify the metadata table") as table:
        config, timeline = table.config, table.timeline
        metadata = open_metadata(table)
        lost = lost_files(table.session.view(timeline))
        there = config.metadata_partitions
        known = maintained_names(context.storage, config, there)
        chosen = check_names(names, there, known, "verify", context.storage.uri)
        if metadata is None:
            return VerifyReport(reason="the table has no metadata table", lost_files=lost)
        nested = tuple(inner for _, inner in nested_partitions(StorageLister(context.storage, config).partitions()))
        checks = compare(table, metadata, context.options, chosen, context.progress)
        others = tuple(name for name in there if name not in known) if names is None else ()
        return VerifyReport(checks, others, lost_files=lost, nested=tuple(dict.fromkeys(nested)))


def compare(
    state: TableState,
    metadata: MetadataTable,
    options: Options,
    names: Collection[str],
    progress: Progress,
) -> tuple[PartitionCheck, ...]:
    """Compares partitions of the metadata table with the files of a state of the table. Lost files count as absent.

    Raises:
        CorruptFileError: the metadata table cannot be read at all.
    """
    source = _table_source(state, options, read_damaged=True)
    checks = []
    for partition in maintained(names):
        progress.phase(f"verifying {partition.name}")
        checks.append(_check_partition(source, partition, metadata))
    return tuple(checks)


def _check_partition(source: TableSource, partition: MetadataPartition, metadata: MetadataTable) -> PartitionCheck:
    verifier = _Verifier(source, partition, metadata)
    try:
        return verifier.check()
    except (CorruptFileError, FileNotFoundError) as error:
        if metadata.storage.uri in str(error):
            raise
        return PartitionCheck(partition.name, error=first_line(error))


def source_of(
    session: TableSession, timeline: Timeline, options: Options, *, needs_unique_keys: bool = False
) -> TableSource:
    """Returns the table as the storage lists it, without its metadata table."""
    source = _table_source(session.state(timeline), options, read_damaged=False)
    return replace(source, needs_unique_keys=needs_unique_keys)


def _table_source(state: TableState, options: Options, *, read_damaged: bool) -> TableSource:
    text = schema_text(resolve_table_schema(state))
    view = load_view(state, read_damaged=read_damaged)
    return TableSource(state.storage, state.config, state.timeline, view, text, options)


def check_names(
    names: Collection[str] | None, there: Collection[str], known: Collection[str], what: str, uri: str
) -> tuple[str, ...]:
    """Returns the named partitions, or by default all existing ones that hudi-py maintains.

    Args:
        what: the verb for errors.
        uri: the table's URI, for errors.

    Raises:
        ConfigError: there is no such partition, or hudi-py does not maintain it.
    """
    if names is None:
        return tuple(name for name in there if name in known)
    for name in names:
        if name not in there or name not in known:
            why = "hudi-py does not maintain it" if name in there else "there is no such partition"
            raise ConfigError(
                f"Cannot {what} the partition {name!r} of the metadata table of {uri}: {why}; it has "
                + (", ".join(sorted(there)) or "none")
            )
    return tuple(names)


@dataclass(slots=True)
class _Found:
    """A `PartitionCheck` under construction."""

    records: int = 0
    missing: int = 0
    wrong: int = 0
    superfluous: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        if len(self.examples) < _EXAMPLES:
            self.examples.append(example)


class _Verifier:
    """Compares one partition with what a rebuild would write."""

    def __init__(self, source: TableSource, partition: MetadataPartition, metadata: MetadataTable) -> None:
        self._partition = partition
        self._check = partition.checking(source)
        self._groups = metadata.file_groups(partition.name)
        self._found = _Found()
        self._storage = metadata.storage
        self._committed = valid_instants(metadata.timeline, source.timeline)

    def check(self) -> PartitionCheck:
        name = self._partition.name
        seen: set[GroupKey] = set()
        with GroupBuffer(self._count_groups) as buffer:
            for chunk in self._partition.initial(self._check.source):
                buffer.add(chunk)
            for key, rows in buffer.groups():
                seen.add(key)
                self._compare_group(key, rows["key"].combine_chunks(), rows["value"].combine_chunks())
        nothing = no_keys().cast(pa.binary()), no_values()
        for prefix, slices in self._groups.items():
            for number in range(len(slices)):
                key = (name, prefix, number)
                if key not in seen:
                    self._compare_group(key, *nothing)
        result = self._found
        if self._check.source.repeated_keys:
            # if a key has several places, an index may have any of them: readers do not use it then (`KeyScope`)
            result.wrong, result.examples = 0, [line for line in result.examples if not line.startswith("wrong: ")]
        return PartitionCheck(
            name, result.records, result.missing, result.wrong, result.superfluous, tuple(result.examples)
        )

    def _count_groups(self, _: str, prefix: str | None) -> tuple[str, int]:
        wanted = prefix or self._partition.file_id_prefix
        return wanted, max(len(self._groups.get(wanted, ())), 1)

    def _compare_group(self, key: GroupKey, keys: pa.Array, values: pa.Array) -> None:
        """Compares the records that a file group should have with those it has."""
        found_keys, found_values = self._stored_records(key)
        self._found.records += len(found_keys)
        place = pc.index_in(found_keys, value_set=keys)
        self._note_missing(keys, values, pc.is_in(keys, value_set=found_keys))
        more = pc.is_null(place)
        self._note_superfluous(found_keys.filter(more), found_values.filter(more))
        common = pc.is_valid(place)
        if common.true_count:
            expected = values.take(place.filter(common))
            self._note_wrong(found_keys.filter(common), expected, found_values.filter(common))

    def _stored_records(self, key: GroupKey) -> tuple[pa.Array, pa.Array]:
        _, prefix, number = key
        slices = self._groups.get(prefix, ())
        keys, values = [no_keys().cast(pa.binary())], [no_values()]
        if number < len(slices):
            blocks = scan_log(self._storage, slices[number].log_files, committed=self._committed)
            for merged in merge_slice(self._storage, slices[number], blocks):
                keys.append(merged.keys.cast(pa.binary()))
                values.append(merged.values)
        return pa.concat_arrays(keys), pa.concat_arrays(values)

    def _note_missing(self, keys: pa.Array, values: pa.Array, there: pa.Array) -> None:
        absent = pc.invert(there)
        keys, values = keys.filter(absent), values.filter(absent)
        if len(keys):
            rows = np.flatnonzero(self._check.required(keys, values))
            self._found.missing += len(rows)
            self._add_example("missing", keys, values, rows)

    def _note_superfluous(self, keys: pa.Array, values: pa.Array) -> None:
        if len(keys):
            rows = np.flatnonzero(self._check.superfluous(values))
            self._found.superfluous += len(rows)
            self._add_example("superfluous", keys, values, rows)

    def _add_example(self, what: str, keys: pa.Array, values: pa.Array, rows: npt.NDArray[np.int64]) -> None:
        shown = pa.array(rows[:_EXAMPLES])
        for label in self._check.labels(keys.take(shown), values.take(shown)):
            self._found.add(f"{what}: {label}")

    def _note_wrong(self, keys: pa.Array, expected: pa.Array, found: pa.Array) -> None:
        check = self._check
        chosen = pa.array(check.differing(expected, found))
        if not len(chosen):
            return
        # few records are left here, unless their fields have another order
        labels = check.labels(keys.take(chosen), found.take(chosen))
        before, after = (check.content(values.take(chosen)).to_pylist() for values in (expected, found))
        for label, one, other in zip(labels, before, after, strict=True):
            why = check.difference(one, other)
            if why:
                self._found.wrong += 1
                self._found.add(f"wrong: {label}: {why}")
