"""The partitions `secondary_index_<name>`: the record keys of each value of a column.

A key is the value and the record key (`metadata.keys.secondary_keys`), so a row whose value changes removes one entry
and adds another. Sources: `SecondaryIndexRecordGenerationUtils`, `SecondaryIndexKeyUtils`, `SecondaryIndexer`,
`HoodieMetadataPayload.createSecondaryIndexRecord`, 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.file_stats.keys import KeyReader
from hudi_py.formats.arrays import combined
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.keys import secondary_keys, secondary_texts
from hudi_py.metadata.locations import SECONDARY_PREFIX, read_scope
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.metadata_write.encoding.records import (
    SECONDARY_INDEX_RECORD,
    MetadataRecords,
    encode_values,
    no_values,
    removed_entries,
)
from hudi_py.metadata_write.partitions.base import RecordCheck
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, column_type, source_fields, version_of
from hudi_py.metadata_write.partitions.record_entries import RecordEntries, RecordLocation
from hudi_py.metadata_write.partitions.record_index import (
    GLOBAL_GROUPS,
    group_count,
    in_order,
    is_partitioned_in,
    key_reader,
)
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.names import FileId, PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.operation import REPLACING, REWRITING
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import column_of, type_at, values_at
from hudi_py.storage import Storage
from hudi_py.transaction.protocols import TableChange

_INFO: Final = pa.struct([pa.field("isDeleted", pa.bool_(), False)])


class _EntryCheck(RecordCheck):
    """Compares entries, which have no content besides their key."""

    field: ClassVar[str] = "SecondaryIndexMetadata"

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        return "" if expected == found else f"expected {expected}, found {found}"


@dataclass(frozen=True, slots=True)
class SecondaryIndex(NamedIndex):
    """A partition `secondary_index_<name>`."""

    prefix: ClassVar[str] = SECONDARY_PREFIX
    kinds: ClassVar[tuple[str, ...]] = ("secondary_index",)
    word: ClassVar[str] = "secondary index"
    needs: ClassVar[str] = RECORD_INDEX
    superfluous_harm: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = _EntryCheck

    def unwanted(self, options: Options) -> bool:
        return not options.get(indexes_config.SECONDARY_INDEX)

    @classmethod
    def asked(cls, options: Options) -> IndexRequest | None:
        column = options.get(indexes_config.SECONDARY_INDEX_COLUMN)
        if not column or not options.get(indexes_config.SECONDARY_INDEX):
            return None
        return IndexRequest(options.get(indexes_config.INDEX_NAME), column, cls.kinds[0])

    @classmethod
    def define(
        cls, config: TableConfig, schema: pa.Schema | None, request: IndexRequest, settings: Options
    ) -> IndexDefinition:
        what = cls.start_of_error(config, request.name)
        kind = column_type(config, schema, request, what)
        if not is_indexable(kind):
            raise ConfigError(
                f"{what}: the column {request.column!r} has the type {kind}; supported: string, int, bigint, float, "
                "double, date and timestamp"
            )
        version = f"V{config.index_version}"
        return IndexDefinition(
            cls.full_name(request.name), "identity", (request.column,), dict(request.options), version, cls.kinds[0]
        )

    @classmethod
    def missing_needs(
        cls, storage: Storage, config: TableConfig, request: IndexRequest, options: Options, later: Collection[str]
    ) -> tuple[str, ...]:
        """Returns the record index, if it is missing. It must be one over all partitions: entries of a secondary index
        have no partition, so if a key is in two partitions, both would be removed with the first."""
        there = RECORD_INDEX in config.metadata_partitions
        why = ""
        if not there and RECORD_INDEX not in later:
            why = "it needs a record index, which the table does not have; create it first, or set"
        elif is_partitioned_in(storage, config, options):
            why = "its record index is partitioned, so a key may be in several partitions; it needs a global one:"
        if why:
            needed = f"{indexes_config.GLOBAL_RECORD_INDEX.key}=true"
            raise ConfigError(f"{cls.start_of_error(config, request.name)}: {why} {needed}")
        return () if there else (RECORD_INDEX,)

    @classmethod
    def check_rows(cls, storage: Storage) -> str:
        scope = read_scope(storage)
        if scope is None or scope.repeated is None:
            return ""
        return (
            f"the record key {scope.repeated!r} is in several file groups, and entries of such an index have no place; "
            "delete the other rows and rebuild the record index with metadata.rebuild('record_index')"
        )

    def outdated_by(self, before: pa.DataType | None, after: pa.DataType | None) -> bool:
        """Returns whether the values of existing rows have other texts under the new type."""
        return changes_texts(before, after)

    def removals(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Returns the removed entries; removed statistics and filters are kept as removals
        (`HoodieMetadataPayload`)."""
        return removed_entries(values)

    def file_groups(self, source: TableSource) -> int:
        """Returns the number of file groups that a record index over all partitions would have."""
        slices = [slice_ for partition in source.view.partitions() for slice_ in source.view.latest_slices(partition)]
        return group_count(source, GLOBAL_GROUPS, slices)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields an entry for each row. Reads key and column of all base files, and merges slices that have log
        files."""
        rows = _Rows.of(source, self.name, None)
        slices = [slice_ for partition in source.view.partitions() for slice_ in source.view.latest_slices(partition)]
        with RecordEntries(by_partition=False) as entries:
            here = entries.place(RecordLocation("", "", 0))
            for _, entries_of_slice in in_order(rows.entries, slices):
                entries.add(entries_of_slice, here)
            yield from self._encode_records(source, entries)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the differences between the merged rows of the written file groups before and after a commit.

        An entry that one file group loses and another one gets, because its row has moved, stays.
        """
        commit = change.commit
        if commit is None or commit.operation in REWRITING:
            return
        rows = _Rows.of(source, self.name, change)
        view = source.view
        written: dict[tuple[PartitionPath, FileId], list[WriteStat]] = {}
        for stat in commit.stats:
            if stat.path:
                written.setdefault((PartitionPath(stat.partition_path), FileId(stat.file_id)), []).append(stat)
        for partition, ids in commit.replaced.items() if commit.operation in REPLACING else ():
            for file_id in ids:
                written.setdefault((PartitionPath(partition), FileId(file_id)), [])
        touched = {partition for partition, _ in written}
        there = {(path, slice_.file_id): slice_ for path in touched for slice_ in view.latest_slices(path)}
        groups = [
            (*group, there.get(group), stats) for group, stats in sorted(written.items(), key=lambda keyed: keyed[0])
        ]
        with RecordEntries(by_partition=False) as entries:
            here = entries.place(RecordLocation("", "", 0))
            for _, (added, removed) in in_order(lambda group: rows.difference(*group), groups):
                entries.add(added, here)
                entries.remove(removed, "")
            yield from self._encode_records(source, entries)

    def _encode_records(self, source: TableSource, entries: RecordEntries) -> Iterator[MetadataRecords]:
        by_prefix = version_of(source.definitions, self.name, source.config) == "V2"
        for _, table in entries.reduced():
            keys, gone = combined(table["key"]), pc.less(combined(table["place"]), 0)
            live = keys.filter(pc.invert(gone))
            values = no_values()
            if len(live):
                info = pa.StructArray.from_arrays([pa.repeat(False, len(live))], fields=list(_INFO))
                values = encode_values(SECONDARY_INDEX_RECORD, {"SecondaryIndexMetadata": info})
            yield MetadataRecords(self.name, live, values, keys.filter(gone), by_prefix=by_prefix)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The entries of a table's rows."""

    reader: KeyReader
    field: str
    """The indexed column, dotted if it is a field of a struct."""

    @classmethod
    def of(cls, source: TableSource, name: str, change: TableChange | None) -> _Rows:
        fields = source_fields(source.definitions, name)
        if not fields:
            raise CorruptFileError(
                f"Cannot maintain the index {name} of the table {source.config.name!r}: its definition is missing; "
                "drop it, and create it again"
            )
        return cls(key_reader(source, change), ".".join(fields))

    def entries(self, slice_: FileSlice) -> pa.StringArray:
        """Returns the entries of a slice's merged rows."""
        parts = [pa.array([], pa.string())]
        column = column_of(self.field, self.reader.schema)
        known = type_at(self.reader.schema, self.field) is not None
        for batch in self.reader.rows(slice_, [RECORD_KEY, column] if known else [RECORD_KEY]):
            keys = batch[RECORD_KEY].cast(pa.string())
            values = values_at(batch, self.field)
            texts = pa.nulls(len(keys), pa.string()) if values is None else secondary_texts(values)
            parts.append(secondary_keys(texts, keys))
        return pa.concat_arrays(parts)

    def difference(
        self, partition: PartitionPath, file_id: FileId, before: FileSlice | None, stats: Sequence[WriteStat]
    ) -> tuple[pa.StringArray, pa.StringArray]:
        """Returns the entries that a commit adds and removes in one file group, given its slice before (None: there was
        none) and the files that the commit wrote there (none: it replaced the file group)."""
        nothing = pa.array([], pa.string())
        old = nothing if before is None else self.entries(before)
        after = _slice_after(partition, file_id, before, stats) if stats else None
        new = nothing if after is None else self.entries(after)
        if not len(old) or not len(new):
            return new, old
        return (
            new.filter(pc.invert(pc.is_in(new, value_set=old))),
            old.filter(pc.invert(pc.is_in(old, value_set=new))),
        )


def _slice_after(
    partition: PartitionPath, file_id: FileId, before: FileSlice | None, stats: Sequence[WriteStat]
) -> FileSlice:
    """Returns the slice of a file group after a commit that wrote files with these statistics."""
    logs: list[LogFile] = []
    base = None
    instant = before.base_instant if before is not None else ""
    for stat in stats:
        name = stat.path.rpartition("/")[2]
        log = parse_log_file_name(name)
        if log is not None:
            instant = instant or log.instant
            logs.append(LogFile(partition, log, stat.file_size))
            continue
        parsed = parse_base_file_name(name)
        if parsed is None:
            raise CorruptFileError(f"Cannot index {stat.path}: its name is not that of a base file or log file")
        base = BaseFile(partition, parsed, stat.file_size)
    if base is not None:
        return FileSlice(partition, file_id, base.instant, base, tuple(logs))
    if before is None:
        return FileSlice(partition, file_id, instant, None, tuple(logs))
    new = {log.name for log in logs}
    kept = tuple(log for log in before.log_files if log.name not in new)
    return replace(before, log_files=(*kept, *logs))


def is_indexable(kind: pa.DataType) -> bool:
    """Returns whether a column of this type can have a secondary index
    (`HoodieIndexUtils.isSecondaryIndexSupportedType`, 1.2.0): text, integers, floating-point numbers, dates, times and
    timestamps."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
    )


def changes_texts(before: pa.DataType | None, after: pa.DataType | None) -> bool:
    """Returns whether values have other texts once their column has another type; None: there is no such column."""
    one, other = _text_form(before), _text_form(after)
    return one != other and not (other == "text" and one in ("integer", "number"))


def _text_form(kind: pa.DataType | None) -> str:
    if kind is None or pa.types.is_timestamp(kind) or pa.types.is_temporal(kind):
        return "none" if kind is None else "time"
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "text"
