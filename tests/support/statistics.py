"""Records of statistics, as Apache Hudi wrote them and as the builders make them, side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.formats.avro import decode_values
from hudi_py.formats.hfile import read_hfile
from hudi_py.formats.log import BlockType, HeaderKey, read_blocks, read_content
from hudi_py.metadata.files import metadata_lister
from hudi_py.metadata.table import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON, MetadataRecords
from hudi_py.metadata_write.partitions.base import MetadataPartition
from hudi_py.metadata_write.partitions.bloom_filters import BloomFilters
from hudi_py.metadata_write.partitions.column_stats import ColumnStats
from hudi_py.metadata_write.partitions.partition_stats import PartitionStats
from hudi_py.metadata_write.table.session import open_metadata_session
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.storage import FolderStorage, Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline, timeline_of
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import load_view
from tests.support.sessions import session_of

BUILDERS: tuple[MetadataPartition, ...] = (ColumnStats(), PartitionStats(), BloomFilters())
FIELDS = {
    COLUMN_STATS: "ColumnStatsMetadata",
    PARTITION_STATS: "ColumnStatsMetadata",
    BLOOM_FILTERS: "BloomFilterMetadata",
}

Records = dict[tuple[str, str], dict[str, Any]]
"""Partition of the metadata table and key to the statistics, with the record's type as `record`."""


def plain(partition: str, keys: Iterable[str], batches: Iterable[pa.RecordBatch]) -> Records:
    rows = (row for batch in batches for row in batch.to_pylist())
    found: Records = {}
    for key, row in zip(keys, rows, strict=True):
        shown = {name: _shown(value) for name, value in row[FIELDS[partition]].items()}
        found[partition, key] = {"record": row["type"], **shown}
    return found


def _shown(value: Any) -> Any:
    """A bound as its wrapper's place and value, NaN and zeros told apart."""
    if isinstance(value, dict) and any(name.startswith("member") for name in value):
        place, told = next(((n, v["value"]) for n, v in value.items() if v is not None), (None, None))
        return (place, str(told) if isinstance(told, float) else told)
    return value


def stored(storage: Storage, instant: str) -> Records:
    """What a delta commit of the metadata table holds."""
    own = FolderStorage(storage, METADATA_TABLE)
    found: Records = {}
    for partition in FIELDS:
        for info in own.list(partition):
            if ".log." not in info.name:
                continue
            for block in read_blocks(own, f"{partition}/{info.name}", info.size):
                if block.type is BlockType.HFILE and block.header[HeaderKey.INSTANT_TIME] == instant:
                    entries = read_hfile(read_content(own, block), context=info.name).scan()
                    batches = decode_values(
                        entries.values, json.loads(block.header[HeaderKey.SCHEMA]), None, context=info.name
                    )
                    found |= plain(partition, entries.keys.cast(pa.string()).to_pylist(), batches)
    return found


def made(records: Iterable[MetadataRecords]) -> Records:
    """What a builder makes."""
    found: Records = {}
    for each in records:
        if len(each.keys):
            batches = decode_values(each.values, json.loads(SCHEMA_JSON), None, context="made")
            fresh = plain(each.partition, each.keys.to_pylist(), batches)
            assert not set(fresh) & set(found)
            found |= fresh
    return found


def before(storage: Storage, instant: Instant) -> Timeline:
    """The timeline as it was when an instant was chosen."""
    timeline = load_timeline(storage, load_table_config(storage))
    return timeline_of(timeline.layout, [file for file in timeline.files if file.time < instant.time])


def remade(storage: Storage, instant: Instant, options: Options, change: TableChange | None) -> Records:
    """What the builders make of an instant that has completed, which must be the newest."""
    config, timeline = load_table_config(storage), before(storage, instant)
    if change is None:
        commit = read_commit_metadata(storage, timeline.layout, instant)
        change = TableChange(instant.time, instant.action.comparable, commit)
    schema = change.commit.extra.get("schema", "") if change.commit is not None else ""
    if not schema:
        schema = newest_schema(storage, timeline)
    own = open_metadata_session(session_of(storage))
    files = own.timeline().files
    earlier = own.view(timeline_of(own.layout, [file for file in files if file.time < instant.time]))
    state = TableState(storage, config, timeline)
    view = load_view(state, metadata_lister(state, earlier)[0])
    source = TableSource(storage, config, timeline, view, schema, options)
    builders = [builder for builder in BUILDERS if builder.name in config.metadata_partitions]
    return made(records for builder in builders for records in builder.changes(source, change))


def newest_schema(storage: Storage, timeline: Timeline) -> str:
    for instant in reversed(timeline.completed):
        if instant.action.comparable in WRITE_ACTIONS:
            schema = read_commit_metadata(storage, timeline.layout, instant).extra.get("schema")
            if schema:
                return schema
    return ""


def differences(one: Mapping[Any, Any], other: Mapping[Any, Any], but: Iterable[str] = ()) -> Iterator[str]:
    """What two collections of records differ in; statistics of the columns `but` are not compared."""
    skipped = set(but)
    for key in sorted({*one, *other}):
        left, right = one.get(key), other.get(key)
        shown = left or right or {}
        if shown.get("columnName") in skipped or left == right:
            continue
        place = f"{key[0]} {shown.get('columnName')} {shown.get('fileName')}"
        if left is None or right is None:
            yield f"{place}: only in the {'second' if left is None else 'first'}: {shown}"
            continue
        yield f"{place}: " + ", ".join(
            f"{name} {left[name]} / {right.get(name)}" for name in left if left[name] != right.get(name)
        )


def is_nan(text: Any) -> bool:
    return isinstance(text, str) and math.isnan(float(text))


def newest(storage: Storage, action: Action | None = None) -> Instant:
    """The newest completed instant."""
    timeline = load_timeline(storage, load_table_config(storage))
    return max((i for i in timeline.completed if action is None or i.action.comparable is action), key=lambda i: i.time)
