"""Whether the metadata table says what the table's files do.

Of each partition that is kept up, the records which a partition made anew would have are put beside those there are:
files by listing the storage, statistics and filters by reading footers and logs, the record index by reading all keys.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.formats.avro import decode_values
from hudi_py.merge import scan_log
from hudi_py.metadata.keys import bloom_filter_key
from hudi_py.metadata.table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
    open_metadata,
    valid_instants,
)
from hudi_py.metadata_write.buffer import GroupBuffer, GroupKey
from hudi_py.metadata_write.compact import merge_slice
from hudi_py.metadata_write.definitions import read_definitions
from hudi_py.metadata_write.listing import Listing
from hudi_py.metadata_write.own import group_prefix
from hudi_py.metadata_write.payloads import covers
from hudi_py.metadata_write.records import RECORD, no_keys, no_values
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.metadata_write.source import IndexBuilder, TableSource
from hudi_py.metadata_write.values import behind_meta
from hudi_py.metadata_write.writer import BUILDERS
from hudi_py.model.names import parse_base_file_name
from hudi_py.model.words import counted
from hudi_py.services.context import ServiceContext
from hudi_py.services.report import shown
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.session import TableSession

_EXAMPLES: Final = 10
_HARMLESS: Final = frozenset({COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS})
"""Partitions in which a record too many is never looked up."""
_LOCATION: Final = ("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")
_COUNTS: Final = ("valueCount", "nullCount")
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, repr=False)
class PartitionCheck:
    """What was found in one partition of the metadata table."""

    partition: str
    records: int = 0
    """Records it has."""
    missing: int = 0
    """Records it should have and has not."""
    wrong: int = 0
    """Records which say something else than the table's files do."""
    superfluous: int = 0
    """Records of what is not there. Of statistics and filters they do no harm."""
    examples: tuple[str, ...] = ()
    """Some of them, in words."""

    @property
    def ok(self) -> bool:
        """Whether look-ups answer what the table's files do."""
        return not (self.missing or self.wrong or (self.superfluous and self.partition not in _HARMLESS))

    def __repr__(self) -> str:
        return shown(self)

    def __str__(self) -> str:
        counts = {"missing": self.missing, "wrong": self.wrong, "superfluous": self.superfluous}
        found = "".join(f", {count:,} {kind}" for kind, count in counts.items() if count)
        harmless = " (harmless)" if self.ok and self.superfluous else ""
        return f"{self.partition}: {counted(self.records, 'record')}{found}{harmless}"


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport:
    """What was found in a metadata table."""

    partitions: tuple[PartitionCheck, ...] = ()
    unchecked: tuple[str, ...] = ()
    """Partitions of indexes that are not kept up here (secondary and expression indexes)."""
    reason: str = ""
    """Why nothing was looked at; empty when something was."""

    @property
    def ok(self) -> bool:
        """Whether every partition which was looked at is right."""
        return all(check.ok for check in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, as JSON takes them."""
        return {**asdict(self), "ok": self.ok}

    def __repr__(self) -> str:
        return shown(self, ok=self.ok)

    def __str__(self) -> str:
        """A line, and one for each partition, with examples where it is not right."""
        if self.reason:
            return f"metadata table: nothing looked at: {self.reason}"
        bad = [check.partition for check in self.partitions if not check.ok]
        lines = [
            "metadata table: " + (f"not as the files are: rebuild {', '.join(bad)}" if bad else "as the files are")
        ]
        for check in self.partitions:
            lines.append(f"  {check}")
            lines += (f"    {example}" for example in ([] if check.ok else check.examples))
        lines += (f"  {name}: not looked at, it is not kept up here" for name in self.unchecked)
        return "\n".join(lines)


def verify(
    context: ServiceContext, settings: MetadataWriteSettings | None = None, names: Collection[str] | None = None
) -> VerifyReport:
    """Looks at partitions of the metadata table, by default all of them, under the table lock. Changes nothing.

    Memory is bounded by the largest file group of the metadata table.

    Args:
        context: of the table, not of its metadata table.
        settings: None: as the context's options ask for.

    Raises:
        ConfigError: a name is that of no partition the table has, or of one that is not kept up here.
        CorruptFileError: the metadata table cannot be read at all, or lacks commits of its table.
        LockError: the table lock was not had in time.
    """
    settings = settings if settings is not None else MetadataWriteSettings.of(context.options)
    with context.locked("verify the metadata table") as table:
        config, timeline = table.config, table.timeline
        metadata = open_metadata(context.storage, config, timeline)
        known = {builder.partition: builder for builder in BUILDERS}
        chosen = check_names(names, config.metadata_partitions, known, "verify", context.storage.uri)
        if metadata is None:
            return VerifyReport(reason="the table has no metadata table")
        source = source_of(table.session, timeline, settings)
        checks = []
        for name in (name for name in known if name in chosen):
            context.progress.phase(f"verifying {name}")
            checks.append(_Verifier(source, known[name], metadata).check())
        others = tuple(name for name in config.metadata_partitions if name not in known) if names is None else ()
        return VerifyReport(tuple(checks), others)


def source_of(session: TableSession, timeline: Timeline, settings: MetadataWriteSettings) -> TableSource:
    """The table as its files are, whatever its metadata table says."""
    schema = resolve_table_schema(session.storage, session.config, timeline)
    text = json.dumps(schema.avro) if schema is not None else ""
    return TableSource(session.storage, session.config, timeline, session.view(timeline), text, settings)


def check_names(
    names: Collection[str] | None, there: Collection[str], known: Collection[str], what: str, uri: str
) -> tuple[str, ...]:
    """The partitions meant: those named, or all there are that are kept up here.

    Args:
        what: is to be done with them, for errors, as is `uri`, the table's.

    Raises:
        ConfigError: a name is that of no partition there is, or of one that is not kept up.
    """
    if names is None:
        return tuple(name for name in there if name in known)
    for name in names:
        if name not in there or name not in known:
            why = "it is not kept up here" if name in there else "there is no such partition"
            raise ConfigError(
                f"Cannot {what} the partition {name!r} of the metadata table of {uri}: {why}; it has "
                + (", ".join(sorted(there)) or "none")
            )
    return tuple(names)


@dataclass(slots=True)
class _Found:
    """A `PartitionCheck` in the making."""

    records: int = 0
    missing: int = 0
    wrong: int = 0
    superfluous: int = 0
    examples: list[str] = field(default_factory=list)

    def tell(self, example: str) -> None:
        if len(self.examples) < _EXAMPLES:
            self.examples.append(example)


class _Verifier:
    """One partition."""

    def __init__(self, source: TableSource, builder: IndexBuilder, metadata: MetadataTable) -> None:
        self._partition = builder.partition
        self._builder = builder
        self._groups = metadata.file_groups(builder.partition)
        self._source = _with_columns_of(source) if self._partition in (COLUMN_STATS, PARTITION_STATS) else source
        self._found = _Found()
        self._listing: Listing | None = None
        self._storage = metadata.storage
        self._committed = valid_instants(metadata.timeline, source.timeline)

    def check(self) -> PartitionCheck:
        seen: set[GroupKey] = set()
        with GroupBuffer(self._count) as buffer:
            for chunk in self._builder.initial(self._source):
                buffer.add(chunk)
            for key, rows in buffer.groups():
                seen.add(key)
                self._compare(key, rows["key"].combine_chunks(), rows["value"].combine_chunks())
        nothing = no_keys().cast(pa.binary()), no_values()
        for prefix, slices in self._groups.items():
            for number in range(len(slices)):
                key = (self._partition, prefix, number)
                if key not in seen:
                    self._compare(key, *nothing)
        found = self._found
        return PartitionCheck(
            self._partition, found.records, found.missing, found.wrong, found.superfluous, tuple(found.examples)
        )

    def _count(self, partition: str, prefix: str | None) -> tuple[str, int]:
        wanted = prefix or group_prefix(partition)
        return wanted, max(len(self._groups.get(wanted, ())), 1)

    def _compare(self, key: GroupKey, keys: pa.Array, values: pa.Array) -> None:
        """The records a file group should have against those it has."""
        found_keys, found_values = self._standing(key)
        self._found.records += len(found_keys)
        place = pc.index_in(found_keys, value_set=keys)
        absent = pc.invert(pc.is_in(keys, value_set=found_keys))
        keys_absent, values_absent = keys.filter(absent), values.filter(absent)
        needed = pa.array(self._needed(keys_absent, values_absent))
        missing = keys_absent.filter(needed)
        self._found.missing += len(missing)
        for each in self._texts(missing[:_EXAMPLES], values_absent.filter(needed)[:_EXAMPLES]):
            self._found.tell(f"missing: {each}")
        more = pc.is_null(place)
        self._more(found_keys.filter(more), found_values.filter(more))
        common = pc.is_valid(place)
        if common.true_count:
            expected = values.take(place.filter(common))
            self._differing(found_keys.filter(common), expected, found_values.filter(common))

    def _standing(self, key: GroupKey) -> tuple[pa.Array, pa.Array]:
        _, prefix, number = key
        slices = self._groups.get(prefix, ())
        keys, values = [no_keys().cast(pa.binary())], [no_values()]
        if number < len(slices):
            blocks = scan_log(self._storage, slices[number].log_files, committed=self._committed)
            for merged in merge_slice(self._storage, slices[number], blocks):
                keys.append(merged.keys.cast(pa.binary()))
                values.append(merged.values)
        return pa.concat_arrays(keys), pa.concat_arrays(values)

    def _more(self, keys: pa.Array, values: pa.Array) -> None:
        """Records of which nothing is known: removals, and entries of what is gone."""
        if not len(keys):
            return
        gone = self._gone(values)
        rows = np.flatnonzero(gone)
        self._found.superfluous += len(rows)
        shown = pa.array(rows[:_EXAMPLES])
        for each in self._texts(keys.take(shown), values.take(shown)):
            self._found.tell(f"superfluous: {each}")

    def _texts(self, keys: pa.Array, values: pa.Array) -> list[str]:
        """What records are of, for people: keys of statistics are hashes, and so are those of filters, which do not
        tell their file."""
        if self._partition not in (COLUMN_STATS, PARTITION_STATS) or not len(keys):
            return [repr(key.decode("utf-8", "replace")) for key in keys.to_pylist()]
        stats = _decoded(values, "ColumnStatsMetadata").to_pylist()
        return [f"{each['columnName']} of {each['fileName']}" if each else repr(each) for each in stats]

    def _gone(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        if self._partition in (COLUMN_STATS, PARTITION_STATS):
            stats = _decoded(values, "ColumnStatsMetadata")
            names = pc.struct_field(stats, "fileName")
            known = pa.array(sorted(self._known_names()), pa.string())
            kept = pc.or_(pc.struct_field(stats, "isDeleted"), pc.is_in(names, value_set=known))
        elif self._partition == BLOOM_FILTERS:
            kept = pc.struct_field(_decoded(values, "BloomFilterMetadata"), "isDeleted")
        elif self._partition == FILES:
            # a partition that was deleted may have a record without files
            maps = _decoded(values, "filesystemMetadata").to_pylist()
            return np.array([any(not info["isDeleted"] for _, info in each or ()) for each in maps], np.bool_)
        else:
            return np.ones(len(values), np.bool_)
        flags: npt.NDArray[np.bool_] = ~np.asarray(pc.fill_null(kept, False).to_numpy(zero_copy_only=False))
        return flags

    @property
    def _files(self) -> Listing:
        if self._listing is None:
            self._listing = Listing(self._source)
        return self._listing

    def _known_names(self) -> Collection[str]:
        """What the records of statistics are of: names of files, or paths of partitions."""
        return self._files.places.keys() if self._partition == COLUMN_STATS else self._files.partitions

    def _needed(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which records must be there: not those of files that a write which failed has left, nor those of a column
        without values, as one has that came to the table after the files."""
        if not len(keys) or self._partition not in (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS):
            return np.ones(len(keys), np.bool_)
        if self._partition in (COLUMN_STATS, PARTITION_STATS):
            stats = _decoded(values, "ColumnStatsMetadata")
            names = pc.struct_field(stats, "fileName").to_pylist()
            left = {name for name in set(names) if self._partition == COLUMN_STATS and self._files.is_left(name)}
            there = pc.is_valid(pc.struct_field(stats, "maxValue")).to_pylist()
            return np.array([has and name not in left for name, has in zip(names, there, strict=True)], np.bool_)
        if self._partition == FILES:
            return np.array([not self._files.is_left(key.decode()) for key in keys.to_pylist()], np.bool_)
        ours = {
            bloom_filter_key(partition, name).encode()
            for name, (partition, _) in self._files.places.items()
            if parse_base_file_name(name) is not None and self._files.is_left(name)
        }
        return np.array([key not in ours for key in keys.to_pylist()], np.bool_)

    def _differing(self, keys: pa.Array, expected: pa.Array, found: pa.Array) -> None:
        if self._partition == RECORD_INDEX:
            rows = _other_locations(expected, found)
        else:
            same = pc.equal(behind_meta(expected), behind_meta(found)).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(~same)
        if not len(rows):
            return
        # what remains are a few, or records whose fields are in another order
        chosen = pa.array(rows)
        texts = self._texts(keys.take(chosen), found.take(chosen))
        befores, afters = _rows(expected.take(chosen)), _rows(found.take(chosen))
        for text, one, other in zip(texts, befores, afters, strict=True):
            why = self._difference(one, other)
            if why:
                self._found.wrong += 1
                self._found.tell(f"wrong: {text}: {why}")

    def _difference(self, expected: dict[str, Any], found: dict[str, Any]) -> str:
        if self._partition != FILES:
            return _difference(self._partition, expected, found)
        return _file_difference(expected["filesystemMetadata"], found["filesystemMetadata"], self._files)


def _with_columns_of(source: TableSource) -> TableSource:
    """The source with the columns that the table's own definition of column statistics names."""
    definition = read_definitions(source.storage, source.config).get(COLUMN_STATS) or {}
    columns = tuple(str(each) for each in definition.get("sourceFields") or ())
    if not columns:
        return source
    settings = dataclasses.replace(source.settings, columns=columns)
    return dataclasses.replace(source, settings=settings)


def _other_locations(expected: pa.Array, found: pa.Array) -> npt.NDArray[np.int64]:
    """Rows of record index entries which name different file groups; when a record was written last does not count."""
    one, other = (_decoded(values, "recordIndexMetadata") for values in (expected, found))
    differs = np.zeros(len(expected), np.bool_)
    for name in _LOCATION:
        left, right = pc.struct_field(one, name), pc.struct_field(other, name)
        same = pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
        differs |= ~(same | both_null)
    return np.flatnonzero(differs)


def _difference(partition: str, expected: dict[str, Any], found: dict[str, Any]) -> str:
    """What differs between two records, in words; empty where it does not matter."""
    if partition == RECORD_INDEX:
        one, other = expected["recordIndexMetadata"], found["recordIndexMetadata"]
        return f"expected {_location(one)}, found {_location(other)}"
    if partition == BLOOM_FILTERS:
        one, other = expected["BloomFilterMetadata"] or {}, found["BloomFilterMetadata"] or {}
        same = one.get("bloomFilter") == other.get("bloomFilter") and not other.get("isDeleted")
        return "" if same else "another filter than the file's"
    one, other = expected["ColumnStatsMetadata"] or {}, found["ColumnStatsMetadata"] or {}
    if other.get("isDeleted"):
        return "it is marked as removed"
    if partition == PARTITION_STATS:
        # An overwrite leaves the ranges of what it replaced in, in Apache Hudi as here: too wide is not wrong
        inside = covers(other["minValue"], one["minValue"], lower=True)
        inside = inside and covers(other["maxValue"], one["maxValue"], lower=False)
        if not inside:
            return f"the range {_bounds(other)} does not cover {_bounds(one)}"
        # Of a log compaction that completes behind later writes, their records do not count the rows it wrote again
        for what, has, told in zip(("nulls", "values"), _has(one), _has(other), strict=True):
            if has and not told and other.get("isTightBound"):
                return f"expected {what}, found valueCount = {other['valueCount']}, nullCount = {other['nullCount']}"
        return ""
    if not all(_equal(one[name], other[name]) for name in ("minValue", "maxValue")):
        return f"expected the range {_bounds(one)}, found {_bounds(other)}"
    for name in ("columnName", *_COUNTS):
        if one[name] != other[name]:
            return f"expected {name} = {one[name]}, found {other[name]}"
    return ""


def _has(stats: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether there are nulls, and others: all that readers ask the counts for."""
    return stats["nullCount"] > 0, stats["valueCount"] > stats["nullCount"]


def _equal(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Whether two bounds are the same, numbers of different types among them."""
    both = bool(one) and bool(other)
    return one == other or (both and covers(one, other, lower=True) and covers(one, other, lower=False))


def _file_difference(expected: Sequence[Any] | None, found: Sequence[Any] | None, listing: Listing) -> str:
    one = {name: info["size"] for name, info in expected or () if not info["isDeleted"]}
    other = {name: info["size"] for name, info in found or () if not info["isDeleted"]}
    told = [f"{name} is missing" for name in sorted(one.keys() - other.keys()) if not listing.is_left(name)]
    told += [f"{name} is not there any more" for name in sorted(other.keys() - one.keys() - listing.going)]
    told += [
        f"{name} has {one[name]} bytes, not {other[name]}"
        for name in sorted(one.keys() & other.keys())
        if one[name] != other[name]
    ]
    return "; ".join(told[:_EXAMPLES])


def _location(info: Mapping[str, Any]) -> str:
    if info["fileIdEncoding"]:
        return f"{info['fileId']} of partition '{info['partitionName']}'"
    bits = (info["fileIdHighBits"] & _MASK) << 64 | (info["fileIdLowBits"] & _MASK)
    return f"{uuid.UUID(int=bits)}-{info['fileIndex']} of partition '{info['partitionName']}'"


def _bounds(stats: Mapping[str, Any]) -> str:
    low, high = (next((m["value"] for m in (stats[n] or {}).values() if m), None) for n in ("minValue", "maxValue"))
    return f"{low!r} to {high!r}"


def _decoded(values: pa.Array, column: str) -> pa.Array:
    batches = list(decode_values(values, RECORD, [column], context="records of the metadata table"))
    return pa.concat_arrays([batch.column(0) for batch in batches])


def _rows(values: pa.Array) -> list[dict[str, Any]]:
    batches = decode_values(values, RECORD, context="records of the metadata table")
    return [row for batch in batches for row in batch.to_pylist()]
