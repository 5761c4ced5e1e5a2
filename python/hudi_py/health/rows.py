"""Examines rows: duplicate record keys, and the record index against the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, Scope
from hudi_py.errors import CorruptFileError, HudiError, StorageError, UnsupportedTableError, first_line
from hudi_py.formats.arrays import combined
from hudi_py.health.facts import Facts
from hudi_py.health.findings import Finding
from hudi_py.metadata.locations import is_by_partition, partition_groups, places_of
from hudi_py.metadata.table import RECORD_INDEX, MetadataTable, open_metadata
from hudi_py.model.names import PartitionPath
from hudi_py.model.words import counted
from hudi_py.read import Scan, make_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.slices.task import read_split_on
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import Storage
from hudi_py.timeline.state import TableState

BY_LISTING: Final = {"hoodie.metadata.enable": "false", "hoodie.py.read.damaged": "true"}
"""Options that read whatever is readable, and list the storage."""
_EXAMPLES: Final = 10
_MAX_COMPARED: Final = 10_000_000
"""Maximum number of rows whose keys are kept in memory to find those in several partitions, unless an index requires
it."""
_FILE_ID: Final = "file_id"
_PARTITION: Final = "partition"


def scan_of(
    facts: Facts, storage: Storage, columns: list[str] | None, partitions: list[str] | None, *, keys: object = None
) -> Scan:
    """Plans a scan of the examined state, from the listing of the storage."""
    arguments = ScanArguments(columns=columns, partitions=partitions, keys=keys, with_keys=True)
    request = ScanRequest.of(Options.resolve({**facts.given, **BY_LISTING}, Scope.READ), arguments)
    return make_scan(TableState(storage, facts.table, facts.active), request)


def check_rows(facts: Facts) -> Iterator[Finding]:
    """Yields findings about keys, from a sample of partitions or, in a full examination, all rows."""
    config = facts.table
    if not config.record_key_fields:
        facts.skipped.append("keys: the table has no record key")
        return
    partitions = facts.view.partitions()
    chosen = [partitions[index] for index in facts.sample(len(partitions))]
    left = None if facts.full else facts.limits.rows
    index = _record_index(facts)
    seen: list[pa.Table] = []
    done = rows = 0
    facts.progress.phase("comparing keys")
    for partition in chosen:
        if left is not None and rows >= left:
            break
        try:
            keys, failures = _partition_keys(facts, partition)
        except StorageError:  # not a sign of damage
            raise
        except HudiError as error:
            facts.skipped.append(f"keys of partition {partition!r}: {first_line(error)}")
            continue
        yield from failures
        done += 1
        rows += keys.num_rows
        yield from _duplicate_findings(keys, partition)
        if index is not None or rows <= _MAX_COMPARED:
            seen.append(keys.append_column(_PARTITION, pa.repeat(pa.scalar(str(partition)), keys.num_rows)))
    yield from _over_partitions(facts, index, seen)
    facts.checked.append(f"keys: {counted(rows, 'row')} in {done} of {counted(len(partitions), 'partition')}")


def _over_partitions(facts: Facts, index: MetadataTable | None, seen: Sequence[pa.Table]) -> Iterator[Finding]:
    """Yields findings about keys in several partitions, and about the keys of the record index."""
    across = None
    if len(seen) > 1 or (seen and index is not None):
        try:
            is_global = index is not None and _is_global(facts, index)
        except StorageError:  # not a sign of damage
            raise
        except (HudiError, FileNotFoundError) as error:
            yield Finding("index.record", f"the record index cannot be read: {first_line(error)}")
            seen, is_global = [], False
        found_across = _across_partitions(seen, "keys.across" if is_global else "keys.partitions") if seen else None
        yield from () if found_across is None else (found_across[0],)
        across = found_across if is_global else None
    if index is not None:
        for item in seen:
            # the index has one location of a key that has rows in several partitions
            known = item if across is None else item.filter(pc.invert(pc.is_in(item[RECORD_KEY], value_set=across[1])))
            yield from _against_index(facts, index, known)


def _partition_keys(facts: Facts, partition: PartitionPath) -> tuple[pa.Table, list[Finding]]:
    """Returns the keys of a partition with their file ids, and files that could not be read."""
    schema = pa.schema([(RECORD_KEY, pa.string()), (_FILE_ID, pa.string())])
    batches: list[pa.RecordBatch] = []
    failures: list[Finding] = []
    columns = None if facts.full else [RECORD_KEY]  # all columns, so that every page is read
    for split in scan_of(facts, facts.storage, columns, [partition]).splits():
        try:
            for batch in read_split_on(facts.storage, split):
                keys = batch[RECORD_KEY].cast(pa.string())
                facts.progress.read(len(keys))
                ids = pa.repeat(pa.scalar(split.file_id, pa.string()), len(keys))
                batches.append(pa.RecordBatch.from_arrays([keys, ids], schema=schema))
        except UnsupportedTableError:
            raise
        except (CorruptFileError, FileNotFoundError) as error:
            path = getattr(error, "path", None) or (
                split.base_file.path if split.base_file else split.log_files[0].path
            )
            failures.append(
                Finding(
                    "files.corrupt",
                    f"{path} cannot be read: {first_line(error)}",
                    partition=partition,
                    paths=(path,),
                    details={_FILE_ID: str(split.file_id)},
                )
            )
    return pa.Table.from_batches(batches, schema), failures


def _duplicate_findings(table: pa.Table, partition: PartitionPath) -> Iterator[Finding]:
    counts = combined(table[RECORD_KEY]).value_counts()
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        keys = twice.field("values")
        groups = table.filter(pc.is_in(table[RECORD_KEY], value_set=keys))[_FILE_ID].unique().to_pylist()
        rows = pc.sum(twice.field("counts")).as_py() - len(twice)
        yield Finding(
            "keys.duplicate",
            f"{counted(len(twice), 'key')} of partition {partition!r} have {counted(rows, 'row')} too many, in "
            f"{counted(len(groups), 'file group')}; for example {', '.join(map(repr, keys[:_EXAMPLES].to_pylist()))}",
            partition=partition,
            details={"keys": len(twice), "rows": rows, "file_ids": sorted(groups)},
        )


def _across_partitions(seen: Sequence[pa.Table], code: str) -> tuple[Finding, pa.Array] | None:
    """Returns the finding about keys in several partitions, and these keys; None if there are none."""
    where = pa.concat_tables(seen)
    counts = where.group_by([RECORD_KEY]).aggregate([(_PARTITION, "count_distinct")])
    keys = combined(counts.filter(pc.greater(counts[f"{_PARTITION}_count_distinct"], 1))[RECORD_KEY])
    if not len(keys):
        return None
    groups = where.filter(pc.is_in(where[RECORD_KEY], value_set=keys)).select([_PARTITION, _FILE_ID])
    pairs = groups.group_by([_PARTITION, _FILE_ID]).aggregate([]).to_pylist()
    examples = ", ".join(map(repr, sorted(keys.to_pylist())[:_EXAMPLES]))
    finding = Finding(
        code,
        f"rows of several partitions share {counted(len(keys), 'key')}; for example {examples}",
        details={"keys": len(keys), "groups": sorted([row[_PARTITION], row[_FILE_ID]] for row in pairs)},
    )
    return finding, keys


def _record_index(facts: Facts) -> MetadataTable | None:
    if RECORD_INDEX not in facts.table.metadata_partitions:
        return None
    try:
        return open_metadata(facts.state)
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError):
        return None  # the checks of the metadata table report it


def _is_global(facts: Facts, index: MetadataTable) -> bool:
    return not is_by_partition(facts.storage, facts.table, list(index.file_groups(RECORD_INDEX)))


def _against_index(facts: Facts, index: MetadataTable, table: pa.Table) -> Iterator[Finding]:
    """Looks up keys in the record index, and compares their locations with where the rows are."""
    step = 1 if facts.full else max(-(-table.num_rows // facts.limits.keys), 1)
    rows = table.take(pa.array(np.arange(0, table.num_rows, step)))
    if not rows.num_rows:
        return
    partition = PartitionPath(table[_PARTITION][0].as_py())
    keys = combined(rows[RECORD_KEY])
    prefix = None if _is_global(facts, index) else partition_groups(partition)
    try:
        places = places_of(index, keys, prefix)
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError) as error:
        yield Finding("index.record", f"the record index cannot be read: {first_line(error)}", partition=partition)
        return
    absent = pc.is_null(places.file_ids)
    same = pc.and_(pc.equal(places.file_ids, combined(rows[_FILE_ID])), pc.equal(places.partitions, str(partition)))
    # a key that occurs twice has one location only
    counts = keys.value_counts()
    single = pc.is_in(keys, value_set=counts.filter(pc.equal(counts.field("counts"), 1)).field("values"))
    wrong = pc.and_(pc.invert(pc.fill_null(same, True)), single)
    details: Mapping[str, Any] = {"missing": absent.true_count, "wrong": wrong.true_count, "compared": len(keys)}
    if absent.true_count or wrong.true_count:
        examples = keys.filter(pc.or_(absent, wrong))[:_EXAMPLES].to_pylist()
        yield Finding(
            "index.record",
            f"of {counted(len(keys), 'key')} in partition {partition!r}, {absent.true_count} are not in the record "
            f"index and {wrong.true_count} have another location there; for example "
            f"{', '.join(map(repr, examples))}",
            partition=partition,
            details=details,
        )
