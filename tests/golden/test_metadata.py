"""Metadata tables which Apache Hudi wrote: listings equal those of the storage, and what is left out holds nothing."""

from __future__ import annotations

import datetime
import decimal
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.expressions import parse_filter
from hudi_py.formats.base.parquet import open_parquet
from hudi_py.metadata import METADATA_SCHEMA, MetadataLister, metadata_lister, metadata_report, open_metadata
from hudi_py.metadata.locations import record_locations
from hudi_py.metadata.stats import column_stats, partition_stats
from hudi_py.metadata.table import PARTITION_STATS, RECORD_INDEX
from hudi_py.model.names import PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.read import read_split
from hudi_py.read.pruning import statistics
from hudi_py.read.pruning.bounds import has_usable_bounds
from hudi_py.read.pruning.statistics import Statistics
from hudi_py.read.snapshot import open_snapshot
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import FileSystemView, StorageLister, load_view
from tests.golden.expectations import BEYOND
from tests.golden.tables import Extracted, load
from tests.support.choice import cases

TRUST = {"hoodie.py.record.index.trust": "true"}
"""Apache Hudi does not note whether keys are unique."""
WITH_METADATA = sorted(name for name, table in load().items() if "files" in table.entry["metadata_partitions"])
WITH_STATS = [
    name for name in WITH_METADATA if "column_stats" in load()[name].entry["metadata_partitions"] and name not in BEYOND
]


@pytest.fixture(autouse=True)
def no_doubts() -> Iterator[None]:
    """Falling back to the storage would hide what these tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def views(path: Path) -> tuple[FileSystemView, FileSystemView, MetadataLister]:
    storage = open_storage(str(path))
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    lister, metadata = metadata_lister(TableState(storage, config, timeline))
    assert metadata is not None
    assert isinstance(lister, MetadataLister)
    by_storage = load_view(TableState(storage, config, timeline), StorageLister(storage, config))
    return load_view(TableState(storage, config, timeline), lister), by_storage, lister


WITH_LOCATIONS = [
    name
    for name in WITH_METADATA
    if {"record_index", "bloom_filters"} & set(load()[name].entry["metadata_partitions"]) and name not in BEYOND
]


def test_most_tables_have_a_metadata_table() -> None:
    assert len(WITH_METADATA) > 60
    assert len(WITH_STATS) > 12


@pytest.mark.parametrize("name", WITH_METADATA)
def test_listings_equal_those_of_the_storage(golden: Extracted, name: str) -> None:
    ours, theirs, lister = views(golden(name))
    assert ours.partitions() == theirs.partitions()
    lister.prefetch(ours.partitions())
    for partition in ours.partitions():
        listed = {info.name: info.size for info in ours.lister.files(partition)}
        stored = {info.name: info.size for info in theirs.lister.files(partition)}
        assert listed.items() <= stored.items()
        # what it does not list is no data file, or one of a write that was never completed, or rolled back
        for file in stored.keys() - listed.keys():
            base, log = parse_base_file_name(file), parse_log_file_name(file)
            assert (base is None and log is None) or "inflight" in name or "rollback" in name, file
        if "inflight" not in name and "rollback" not in name:
            assert ours.latest_slices(partition) == theirs.latest_slices(partition)
            assert ours.latest_base_slices(partition) == theirs.latest_base_slices(partition)
    assert not lister.is_storage


@pytest.mark.parametrize("name", WITH_METADATA)
def test_one_partition_is_found_alone(golden: Extracted, name: str) -> None:
    ours, _, _ = views(golden(name))
    for partition in ours.partitions()[:2]:
        alone, _, _ = views(golden(name))
        assert alone.lister.files(partition) == ours.lister.files(partition)
    assert ours.lister.files(PartitionPath("no such partition")) == []


def literal(value: Any) -> str:
    """A value as text of the filter grammar."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return repr(value)


def predicates(name: str, column: pa.ChunkedArray) -> Iterator[str]:
    """Conditions on a column, most of them true for some of its rows."""
    kind = column.type
    quoted = f"`{name}`"
    yield f"{quoted} IS NULL"
    yield f"{quoted} IS NOT NULL"
    if pa.types.is_binary(kind) or pa.types.is_nested(kind):
        return
    values = [value for value in pc.unique(column.drop_null()).to_pylist() if value == value]
    values = sorted(values)
    values = [value for value in values if not (isinstance(value, float) and math.isinf(value))]
    if isinstance(values[0] if values else None, str):
        values = [value for value in values if value.isprintable()]
    for value in [*values[:2], *values[len(values) // 2 :][:2], *values[-2:]]:
        for operator in ("=", "<", "<=", ">", ">=", "!=", "<=>"):
            yield f"{quoted} {operator} {literal(value)}"
            if pa.types.is_float32(kind):
                yield f"{quoted} {operator} CAST('{value}' AS FLOAT)"
    if len(values) > 2:
        some = ", ".join(literal(value) for value in values[1:3])
        yield f"{quoted} IN ({some})"
        yield f"{quoted} = {literal(values[0])} OR {quoted} > {literal(values[-2])}"
        yield f"NOT ({quoted} <= {literal(values[1])})"
    if pa.types.is_string(kind):
        yield f"{quoted} < ''"
        yield f"{quoted} > '\uffff'"
    elif pa.types.is_integer(kind):
        yield f"{quoted} > 9223372036854775806"
        yield f"{quoted} < -9223372036854775807"


@pytest.mark.parametrize("name", cases(WITH_STATS, "left out", 5))
def test_what_statistics_leave_out_holds_no_row_that_matches(
    golden: Extracted, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(golden(name))
    table = hudi_py.open_table(path)
    storage = open_storage(path)
    config = load_table_config(storage)
    snapshot = open_snapshot(load_state(storage))
    metadata = open_metadata(TableState(storage, config, snapshot.timeline))
    assert metadata is not None
    view = load_view(TableState(storage, config, snapshot.timeline))
    partitions = view.partitions()
    slices = [piece for partition in partitions for piece in view.latest_slices(partition)]
    if not slices:
        pytest.skip("no file slices")
    rows = {
        (split.partition, split.file_id): pa.Table.from_batches(list(read_split(split)), split.output_schema)
        for split in table.scan().splits()
    }
    whole = pa.concat_tables(rows.values())
    # the statistics of all columns are read once, not for each condition
    kinds = {field.name: field.type for field in snapshot.schema if has_usable_bounds(field.type)}
    names = [
        (piece.partition, str(file.name)) for piece in slices for file in (piece.base_file, *piece.log_files) if file
    ]
    of_files = column_stats(metadata, kinds, names)
    of_partitions = partition_stats(metadata, kinds, partitions) if metadata.has(PARTITION_STATS) else {}
    monkeypatch.setattr(statistics, "column_stats", lambda _, columns, __: _only(of_files, columns))
    monkeypatch.setattr(statistics, "partition_stats", lambda _, columns, __: _only(of_partitions, columns))
    asked = pruned = 0
    for column in whole.schema.names:
        for text in predicates(column, whole[column]):
            condition = parse_filter(text, whole.schema)
            assert condition is not None
            chosen = Statistics(metadata, condition.conjuncts(), snapshot.schema, snapshot.history)
            within = chosen.partitions(partitions)
            kept = chosen.slices(slices, with_logs=True)
            left_out = {
                key
                for key in rows
                if (within is not None and key[0] not in within)
                or (kept is not None and key not in {(piece.partition, piece.file_id) for piece in kept})
            }
            for key in left_out:
                found = condition.evaluate(rows[key])
                assert found.true_count == 0, f"{text} matches rows of {key}, which is left out"
            asked += 1
            pruned += len(left_out)
    assert asked > 20
    told_by_name = snapshot.history is None or snapshot.history.query is None
    assert (pruned > 0) is told_by_name, "nothing was left out by any condition"


def _only(found: dict[Any, Any], columns: Any) -> dict[Any, Any]:
    return {key: value for key, value in found.items() if key[0] in columns}


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(WITH_STATS, "with and without indexes", 3))
def test_rows_are_the_same_with_and_without_indexes(golden: Extracted, name: str) -> None:
    table = hudi_py.open_table(str(golden(name)))
    whole = table.scan().to_table()
    off = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
    for column in [name for name in whole.schema.names if not name.startswith("_hoodie")][:4]:
        for text in list(predicates(column, whole[column]))[3:20:8]:
            ours = table.scan(filter=text).to_table()
            assert ours.equals(table.scan(filter=text, options=off).to_table()), text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WITH_LOCATIONS)
def test_every_key_is_found_and_nothing_else_read(golden: Extracted, name: str) -> None:
    table = hudi_py.open_table(str(golden(name)), TRUST)
    whole = table.scan()
    rows = whole.to_table()
    every = len(whole.splits())
    location = {(row["_hoodie_partition_path"], row["_hoodie_record_key"]): row for row in rows.to_pylist()}
    storage = open_storage(str(golden(name)))
    config = load_table_config(storage)
    metadata = open_metadata(load_state(storage))
    assert metadata is not None
    if metadata.has(RECORD_INDEX):
        found = record_locations(metadata, {key for _, key in location})
        assert len(found) > 0.9 * len({key for _, key in location})
        held = {(split.partition, split.file_id): split for split in whole.splits()}
        for place, split in held.items():
            for batch in read_split(split):
                for key in batch.column("_hoodie_record_key").to_pylist():
                    # Apache Hudi 1.2.0 loses keys which a log deleted and a later one inserted again
                    assert place in found.get(key, {place} if config.is_mor else set())
        assert record_locations(metadata, ["no such key", ""]) == {}
    keys = sorted({key for _, key in location})
    indexed = record_locations(metadata, keys) if metadata.has(RECORD_INDEX) else {}
    lost = [key for key in keys if indexed and key not in indexed]
    for key in [*keys[:: max(1, len(keys) // 5)], *lost]:
        scan = table.scan(keys=[key])
        expected = rows.filter(pc.equal(rows["_hoodie_record_key"], key))
        assert scan.to_table().num_rows == expected.num_rows
        if key in indexed:
            assert len(scan.splits()) == len(set(expected["_hoodie_partition_path"].to_pylist())) or every == 1
    missing = table.scan(keys=["no such key"])
    assert missing.to_table().num_rows == 0
    if every > 1 and not config.is_mor:
        assert len(missing.splits()) < every


@pytest.mark.parametrize("name", ["v9_mor_secondary_index"])
def test_secondary_indexes_lead_to_the_rows(golden: Extracted, name: str) -> None:
    table = hudi_py.open_table(str(golden(name)), TRUST)
    whole = table.scan()
    rows = whole.to_table()
    fewer = 0
    for value in set(rows["rider"].drop_null().to_pylist()):
        scan = table.scan(filter=f"rider = {literal(value)}")
        expected = rows.filter(pc.equal(rows["rider"], value))
        assert sorted(scan.to_table()["_hoodie_record_key"].to_pylist()) == sorted(
            expected["_hoodie_record_key"].to_pylist()
        )
        assert any(step.step == "secondary index" for step in scan.plan().pruning)
        fewer += len(scan.splits()) < len(whole.splits())
    assert fewer > 0


@pytest.mark.parametrize("name", WITH_METADATA)
def test_records_as_rows(golden: Extracted, name: str) -> None:
    storage = open_storage(str(golden(name)))
    config = load_table_config(storage)
    report = metadata_report(load_state(storage))
    assert report.schema == METADATA_SCHEMA
    kinds = {"files": 2, "column_stats": 3, "bloom_filters": 4, "record_index": 5, "partition_stats": 6}
    for partition in config.metadata_partitions:
        if partition in kinds:
            assert kinds[partition] in report["type"].to_pylist() or not report["type"].to_pylist().count(2)
    (everything,) = report.filter(pc.equal(report["type"], 1)).to_pylist()
    assert everything["key"] == "__all_partitions__"
    if "record_index" in config.metadata_partitions:
        assert report.filter(pc.equal(report["type"], 5))["recordIndexMetadata"].null_count == 0


def test_buckets_which_the_reader_is_told_hold_the_keys(golden: Extracted) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    path = str(golden("v9_mor_bucket_logs_only"))
    rows = hudi_py.open_table(path).scan().to_table()
    table = hudi_py.open_table(path, options)
    for key in rows["_hoodie_record_key"].to_pylist():
        scan = table.scan(keys=[key])
        assert scan.to_table().num_rows == pc.sum(pc.equal(rows["_hoodie_record_key"], key)).as_py()
        (step,) = [step for step in scan.plan().pruning if step.step == "buckets"]
        assert step.after < step.before
    # another number of buckets than the table has is seen by its file groups
    wrong = hudi_py.open_table(path, {**options, "hoodie.bucket.index.num.buckets": "3"})
    assert not [step for step in wrong.scan(keys=[key]).plan().pruning if step.step == "buckets"]


@pytest.mark.parametrize("name", ["v6_mor_record_index", "v9_mor_mdt_compaction", "v9_mor_all_types"])
def test_the_same_from_a_storage_of_slow_requests(golden: Extracted, name: str) -> None:
    local = open_storage(str(golden(name)))
    remote = open_storage(f"memory://metadata-{name}")
    for info in local.walk():
        remote.put(info.path, local.read(info.path))
    reports = []
    for storage in (local, remote):
        reports.append(metadata_report(load_state(storage)))
    assert reports[0].equals(reports[1])


@pytest.mark.slow
def test_statistics_are_the_bounds_of_the_base_files(golden: Extracted) -> None:
    told: Counter[str] = Counter()
    for name in WITH_STATS:
        path = golden(name)
        storage = open_storage(str(path))
        config = load_table_config(storage)
        snapshot = open_snapshot(load_state(storage))
        if snapshot.history is not None and snapshot.history.query is not None:
            continue  # columns of a file may have other names
        metadata = open_metadata(TableState(storage, config, snapshot.timeline))
        assert metadata is not None
        lister = StorageLister(storage, config)
        files = [(partition, info.name) for partition in lister.partitions() for info in lister.files(partition)]
        files = [(partition, file) for partition, file in files if file.endswith(".parquet")]
        kinds = {field.name: field.type for field in snapshot.schema if has_usable_bounds(field.type)}
        for (column, partition, file), found in column_stats(metadata, kinds, files).items():
            with open_parquet(storage, join_path(partition, file)) as opened:
                values = opened.read([column])[column]
            values = values.cast(kinds[column]) if values.type != kinds[column] else values
            assert (found.values, found.nulls) == (len(values), values.null_count)
            if found.low is None or values.null_count == len(values):
                continue
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.int64())
            bounds = pc.min_max(values).as_py()
            assert found.low <= bounds["min"], f"{name}: {column} of {file}"
            assert found.high >= bounds["max"], f"{name}: {column} of {file}"
            told[str(kinds[column]).partition("[")[0].partition("(")[0]] += 1
    kinds_told = {"bool", "int32", "int64", "float", "double", "string", "date32", "timestamp", "decimal128"}
    assert set(told) == kinds_told
